// A program without any library: writes and exits with system calls, from its entry point.
// build: -nostdlib -static
// exit: 5
        .globl  _start
        .text
_start: mov     $1, %eax
        mov     $1, %edi
        lea     text(%rip), %rsi
        mov     $length, %edx
        syscall
        mov     $231, %eax
        mov     $5, %edi
        syscall
        hlt
        .section .rodata
text:   .ascii  "no library at all\n"
        .set    length, . - text
        .section .note.GNU-stack, "", @progbits
