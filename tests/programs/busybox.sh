# A static shell and its built-in tools.
# needs: busybox
set -eu
busybox sh -c '
  for i in 1 2 3; do echo $i; done | busybox sort -r
  busybox seq 1 1000 | busybox awk "{ s += \$1 } END { print s }"
  echo hello | busybox sed s/l/L/g; echo data | busybox gzip | busybox gunzip
  busybox find /usr/share/doc -maxdepth 1 -name "b*" | busybox sort | busybox head -5
  busybox sha256sum /bin/busybox; busybox dd if=/dev/zero bs=1k count=100 2>/dev/null | busybox wc -c
  (exit 4); echo $?; busybox sleep 0.1 & wait $!; echo waited
  busybox sh -c "kill -9 \$\$"; echo $?'
