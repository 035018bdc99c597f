# Sorting with two threads and with temporary files.
# needs: sort
# seconds: 120
set -eu
awk 'BEGIN { srand(1); x = 1; for (i = 0; i < 300000; i++) { x = (x * 1103515245 + 12345) % 2147483648; print x, i } }' > data
sort --parallel=2 -n data | sha256sum
sort --parallel=2 -S 1M -T . data | sha256sum
sort --parallel=2 -k2,2nr -k1,1 data | head -3
LC_ALL=C sort -u -s -k1.1,1.3 data | wc -l
sort -R --random-source=/dev/zero data | head -2 | wc -l
sort -c data || echo "status $?"
sort -m <(sort data) <(sort data) | uniq -c | awk '$1 != 2' | wc -l
