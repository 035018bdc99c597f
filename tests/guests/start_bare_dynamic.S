// A dynamically linked program with its own entry point: the loader has run, rdx holds its exit
// function, and the C library works after that.
// build: -nostartfiles
// exit: 9
        .globl  _start
        .text
_start: xor     %ebp, %ebp
        test    %rdx, %rdx              // the loader's finaliser
        jz      1f
        test    $15, %spl               // aligned as the ABI says
        jnz     1f
        and     $-16, %rsp
        lea     text(%rip), %rdi
        call    puts@plt
        mov     $9, %edi
        call    exit@plt
1:      ud2
        .section .rodata
text:   .asciz  "own entry point"
        .section .note.GNU-stack, "", @progbits
