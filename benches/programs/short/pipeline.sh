# Pipes between small programs.
for i in 1 2 3 4 5 6 7 8 9 10; do
    seq 1 "${i}0000" | grep 7 | sed 's/7/x/' | sort | uniq -c | awk '{ n += $1 } END { print n }'
done
