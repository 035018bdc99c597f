# Archives with links, odd names, long names, sparse files; through pipes and compressors.
# needs: tar gzip xz
set -eu
mkdir -p in/a/b in/empty "in/with space"
for i in $(seq 1 200); do seq 1 $i > in/a/f$i; done
ln in/a/f1 in/hard; ln -s a/f2 in/soft; truncate -s 1M in/sparse
printf x > "in/with space/$(printf 'n%.0s' {1..150})"
chmod 600 in/a/f5; find in -exec touch -h -d @1000000000 {} +
tar --sort=name --owner=0 --group=0 -cf a.tar in; sha256sum a.tar
tar -tvf a.tar | head -5
tar --sort=name --owner=0 --group=0 -czf a.tar.gz in; tar -tzf a.tar.gz | wc -l
mkdir out; tar -xf a.tar -C out; diff -r in out/in && echo same
tar -cSf s.tar in/sparse; [ $(stat -c %s s.tar) -lt 100000 ] && echo sparse kept
tar -c in | (mkdir piped; tar -x -C piped); diff -r in piped/in && echo same
tar -cJf a.tar.xz in && tar -xJOf a.tar.xz in/a/f200 | tail -1
tar -xf nowhere.tar || echo "status $?"
