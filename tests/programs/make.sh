# A parallel build with a job server; then nothing to do; then one file changed.
# needs: make gcc ar
# seconds: 180
set -eu
mkdir src
for i in $(seq 1 12); do
  echo "int f$i(int x) { int s = 0; for (int i = 0; i < x; i++) s += i * $i; return s; }" > src/f$i.c
done
{
  for i in $(seq 1 12); do echo "int f$i(int);"; done
  echo '#include <stdio.h>'
  echo "int main(void) { printf(\"%d\\n\", $(seq -s ' + ' -f 'f%g(100)' 1 12)); return 0; }"
} > src/main.c
cat > Makefile <<'MAKE'
OBJECTS := $(patsubst src/%.c,build/%.o,$(wildcard src/f*.c))
all: build/program
build/%.o: src/%.c | build
	gcc -O2 -c $< -o $@
build/lib.a: $(OBJECTS)
	ar rcsD $@ $(sort $^)
build/program: build/main.o build/lib.a
	gcc $^ -o $@
build:
	mkdir -p $@
check: all
	$(MAKE) --no-print-directory sub
sub:
	@build/program
.PHONY: all check sub
MAKE
make -j2 > log
sort log
make -j2 check
sha256sum build/*.o build/lib.a build/program
touch -d '+1 hour' src/f3.c
make -j2 -n 2>/dev/null | sort
make -j2 nothing 2>&1 | tail -1 || echo "status $?"
