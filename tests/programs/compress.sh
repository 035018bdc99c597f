# Round trips through four compressors, threaded where they can.
# needs: xz gzip bzip2 zstd
# seconds: 180
set -eu
awk 'BEGIN { for (i = 0; i < 60000; i++) print i, i * i % 1013, "the quick brown fox " i % 17 }' > data
sha256sum data
gzip -9 -k -n data; sha256sum data.gz; gzip -dc data.gz | cmp - data
gzip -1 -n -c data | gunzip | cmp - data
bzip2 -k data; sha256sum data.bz2; bzip2 -t data.bz2; bzcat data.bz2 | cmp - data
xz -k -2 data; sha256sum data.xz; xz -t data.xz; xzcat data.xz | cmp - data
xz -T2 --block-size=300000 -1 -c data | xz -T2 -dc | cmp - data
zstd -q -k data; sha256sum data.zst; zstd -q -t data.zst; zstdcat data.zst | cmp - data
zstd -q -T2 -12 -c data | zstd -q -dc | cmp - data
head -c 1000 data.xz | xz -dc > /dev/null || echo "status $?"
ls -l data.* | awk '{ print $5, $9 }'
