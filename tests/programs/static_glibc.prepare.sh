set -eu
gcc -O2 -static "$PROGRAMS/static.c" -o static -pthread
gcc -O2 -static-pie "$PROGRAMS/static.c" -o static-pie -pthread
gcc -O2 -no-pie "$PROGRAMS/static.c" -o no-pie -pthread
gcc -O2 -static -nostdlib -x assembler - -o bare <<'S'
.globl _start
_start: mov $1, %eax
mov %eax, %edi
lea text(%rip), %rsi
mov $5, %edx
syscall
mov $60, %eax
mov $3, %edi
syscall
text: .ascii "bare\n"
S
