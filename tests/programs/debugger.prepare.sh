set -eu
cp "$PROGRAMS/debugged.c" .
gcc -g -O0 -pthread debugged.c -o debugged
