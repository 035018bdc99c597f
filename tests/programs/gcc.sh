# The C compiler, its driver and the linker: the objects must be the same bit for bit.
# needs: gcc objdump
# seconds: 120
set -eu
cp "$PROGRAMS/gcc.c" .
for level in -O0 -O2 -O3 -Os; do
  gcc $level -g -c gcc.c -o gcc$level.o
  sha256sum gcc$level.o
done
gcc -O2 -march=x86-64-v3 -S gcc.c -o - | sha256sum
gcc -O2 gcc.c -o gcc -lm
sha256sum gcc
./gcc 300
gcc -O2 -static gcc.c -o gcc-static -lm && ./gcc-static 200
objdump -d gcc | sha256sum
nm gcc | grep ' T ' | awk '{ print $3 }' | sort; size gcc | tail -1; strip gcc; ./gcc 100
echo 'int f(void) { return undeclared; }' | gcc -c -x c - || echo "status $?"
