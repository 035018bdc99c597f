set -eu
musl-gcc -O2 -static "$PROGRAMS/static.c" -o static
musl-gcc -O2 "$PROGRAMS/static.c" -o dynamic
