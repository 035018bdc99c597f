	.file	"ledger.c"
	.text
.Ltext0:
	.file 0 "/home/ada/ledger" "ledger.c"
	.globl	accounts
	.section	.rodata
.LC0:
	.string	"ada"
.LC1:
	.string	"bob"
.LC2:
	.string	"eve"
	.data
	.align 32
	.type	accounts, @object
	.size	accounts, 48
accounts:
	.quad	.LC0
	.quad	100
	.quad	.LC1
	.quad	50
	.quad	.LC2
	.quad	0
	.globl	total
	.bss
	.align 8
	.type	total, @object
	.size	total, 8
total:
	.zero	8
	.globl	alarms
	.align 4
	.type	alarms, @object
	.size	alarms, 4
alarms:
	.zero	4
	.text
	.type	system_call, @function
system_call:
.LFB0:
	.file 1 "ledger.c"
	.loc 1 13 1
	.cfi_startproc
	pushq	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset 6, -16
	movq	%rsp, %rbp
	.cfi_def_cfa_register 6
	movq	%rdi, -24(%rbp)
	movq	%rsi, -32(%rbp)
	movq	%rdx, -40(%rbp)
	movq	%rcx, -48(%rbp)
	movq	%r8, -56(%rbp)
	.loc 1 15 19
	movq	-56(%rbp), %r10
	.loc 1 16 5
	movq	-24(%rbp), %rax
	movq	-32(%rbp), %rdi
	movq	-40(%rbp), %rsi
	movq	-48(%rbp), %rdx
	movq	$-1, %r8
#APP
# 16 "ledger.c" 1
	syscall
# 0 "" 2
#NO_APP
	movq	%rax, -8(%rbp)
	.loc 1 20 12
	movq	-8(%rbp), %rax
	.loc 1 21 1
	popq	%rbp
	.cfi_def_cfa 7, 8
	ret
	.cfi_endproc
.LFE0:
	.size	system_call, .-system_call
	.type	on_alarm, @function
on_alarm:
.LFB1:
	.loc 1 24 1
	.cfi_startproc
	pushq	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset 6, -16
	movq	%rsp, %rbp
	.cfi_def_cfa_register 6
	movl	%edi, -4(%rbp)
	.loc 1 25 12
	movl	alarms(%rip), %edx
	movl	-4(%rbp), %eax
	addl	%edx, %eax
	movl	%eax, alarms(%rip)
	.loc 1 26 1
	nop
	popq	%rbp
	.cfi_def_cfa 7, 8
	ret
	.cfi_endproc
.LFE1:
	.size	on_alarm, .-on_alarm
#APP
	back_to_kernel: mov $15, %eax
 syscall
#NO_APP
	.type	raise_alarm, @function
raise_alarm:
.LFB2:
	.loc 1 39 1
	.cfi_startproc
	pushq	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset 6, -16
	movq	%rsp, %rbp
	.cfi_def_cfa_register 6
	subq	$32, %rsp
	.loc 1 40 19
	movq	$on_alarm, -32(%rbp)
	movq	$67108864, -24(%rbp)
	movq	$back_to_kernel, -16(%rbp)
	movq	$0, -8(%rbp)
	.loc 1 41 5
	leaq	-32(%rbp), %rax
	movl	$8, %r8d
	movl	$0, %ecx
	movq	%rax, %rdx
	movl	$10, %esi
	movl	$13, %edi
	call	system_call
	.loc 1 42 5
	movl	$0, %r8d
	movl	$0, %ecx
	movl	$0, %edx
	movl	$0, %esi
	movl	$39, %edi
	call	system_call
	movl	$0, %r8d
	movl	$0, %ecx
	movl	$10, %edx
	movq	%rax, %rsi
	movl	$62, %edi
	call	system_call
	.loc 1 43 1
	nop
	leave
	.cfi_def_cfa 7, 8
	ret
	.cfi_endproc
.LFE2:
	.size	raise_alarm, .-raise_alarm
	.globl	transfer
	.type	transfer, @function
transfer:
.LFB3:
	.loc 1 46 1
	.cfi_startproc
	pushq	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset 6, -16
	movq	%rsp, %rbp
	.cfi_def_cfa_register 6
	movq	%rdi, -8(%rbp)
	movq	%rsi, -16(%rbp)
	movq	%rdx, -24(%rbp)
	.loc 1 47 9
	movq	-8(%rbp), %rax
	movq	8(%rax), %rax
	.loc 1 47 19
	subq	-24(%rbp), %rax
	movq	%rax, %rdx
	movq	-8(%rbp), %rax
	movq	%rdx, 8(%rax)
	.loc 1 48 7
	movq	-16(%rbp), %rax
	movq	8(%rax), %rdx
	.loc 1 48 17
	movq	-24(%rbp), %rax
	addq	%rax, %rdx
	movq	-16(%rbp), %rax
	movq	%rdx, 8(%rax)
	.loc 1 49 16
	movq	-8(%rbp), %rax
	movq	8(%rax), %rax
	.loc 1 50 1
	popq	%rbp
	.cfi_def_cfa 7, 8
	ret
	.cfi_endproc
.LFE3:
	.size	transfer, .-transfer
	.type	sum, @function
sum:
.LFB4:
	.loc 1 53 1
	.cfi_startproc
	pushq	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset 6, -16
	movq	%rsp, %rbp
	.cfi_def_cfa_register 6
	.loc 1 54 10
	movq	$0, -8(%rbp)
.LBB2:
	.loc 1 55 14
	movl	$0, -12(%rbp)
	.loc 1 55 5
	jmp	.L8
.L9:
	.loc 1 56 27 discriminator 3
	movl	-12(%rbp), %eax
	cltq
	salq	$4, %rax
	addq	$accounts+8, %rax
	movq	(%rax), %rax
	.loc 1 56 13 discriminator 3
	addq	%rax, -8(%rbp)
	.loc 1 55 29 discriminator 3
	addl	$1, -12(%rbp)
.L8:
	.loc 1 55 23 discriminator 1
	cmpl	$2, -12(%rbp)
	jle	.L9
.LBE2:
	.loc 1 57 12
	movq	-8(%rbp), %rax
	.loc 1 58 1
	popq	%rbp
	.cfi_def_cfa 7, 8
	ret
	.cfi_endproc
.LFE4:
	.size	sum, .-sum
	.section	.rodata
.LC3:
	.string	"done\n"
	.text
	.globl	_start
	.type	_start, @function
_start:
.LFB5:
	.loc 1 61 1
	.cfi_startproc
	pushq	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset 6, -16
	movq	%rsp, %rbp
	.cfi_def_cfa_register 6
	subq	$16, %rsp
	.loc 1 62 5
	movl	$30, %edx
	movl	$accounts+16, %esi
	movl	$accounts, %edi
	call	transfer
	.loc 1 63 5
	movl	$100, %edx
	movl	$accounts+32, %esi
	movl	$accounts+16, %edi
	call	transfer
	.loc 1 64 13
	call	sum
	.loc 1 64 11
	movq	%rax, total(%rip)
	.loc 1 65 5
	call	raise_alarm
	.loc 1 66 17
	movl	$34, %r8d
	movl	$3, %ecx
	movl	$4096, %edx
	movl	$0, %esi
	movl	$9, %edi
	call	system_call
	movq	%rax, -8(%rbp)
	.loc 1 67 5
	movq	-8(%rbp), %rax
	movl	$0, %r8d
	movl	$0, %ecx
	movl	$4096, %edx
	movq	%rax, %rsi
	movl	$11, %edi
	call	system_call
	.loc 1 68 5
	movl	$.LC3, %eax
	movl	$0, %r8d
	movl	$5, %ecx
	movq	%rax, %rdx
	movl	$1, %esi
	movl	$1, %edi
	call	system_call
	.loc 1 69 5
	movl	$0, %r8d
	movl	$0, %ecx
	movl	$0, %edx
	movl	$0, %esi
	movl	$231, %edi
	call	system_call
	.loc 1 70 1
	nop
	leave
	.cfi_def_cfa 7, 8
	ret
	.cfi_endproc
.LFE5:
	.size	_start, .-_start
.Letext0:
	.section	.debug_info,"",@progbits
.Ldebug_info0:
	.long	0x2be
	.value	0x5
	.byte	0x1
	.byte	0x8
	.long	.Ldebug_abbrev0
	.uleb128 0xa
	.long	.LASF26
	.byte	0x1d
	.long	.LASF0
	.long	.LASF1
	.quad	.Ltext0
	.quad	.Letext0-.Ltext0
	.long	.Ldebug_line0
	.uleb128 0x8
	.long	.LASF10
	.byte	0x10
	.byte	0x3
	.long	0x52
	.uleb128 0x1
	.long	.LASF2
	.byte	0x4
	.byte	0x11
	.long	0x52
	.byte	0
	.uleb128 0x1
	.long	.LASF3
	.byte	0x5
	.byte	0xa
	.long	0x63
	.byte	0x8
	.byte	0
	.uleb128 0x3
	.long	0x5e
	.uleb128 0x6
	.byte	0x1
	.byte	0x6
	.long	.LASF4
	.uleb128 0xb
	.long	0x57
	.uleb128 0x6
	.byte	0x8
	.byte	0x5
	.long	.LASF5
	.uleb128 0xc
	.long	0x2e
	.long	0x7a
	.uleb128 0xd
	.long	0x7a
	.byte	0x2
	.byte	0
	.uleb128 0x6
	.byte	0x8
	.byte	0x7
	.long	.LASF6
	.uleb128 0x7
	.long	.LASF7
	.byte	0x8
	.byte	0x10
	.long	0x6a
	.uleb128 0x9
	.byte	0x3
	.quad	accounts
	.uleb128 0x7
	.long	.LASF8
	.byte	0x9
	.byte	0x6
	.long	0x63
	.uleb128 0x9
	.byte	0x3
	.quad	total
	.uleb128 0x7
	.long	.LASF9
	.byte	0xa
	.byte	0x5
	.long	0xc0
	.uleb128 0x9
	.byte	0x3
	.quad	alarms
	.uleb128 0xe
	.byte	0x4
	.byte	0x5
	.string	"int"
	.uleb128 0x8
	.long	.LASF11
	.byte	0x20
	.byte	0x1d
	.long	0x103
	.uleb128 0x1
	.long	.LASF12
	.byte	0x1e
	.byte	0xc
	.long	0x10e
	.byte	0
	.uleb128 0x1
	.long	.LASF13
	.byte	0x1f
	.byte	0x13
	.long	0x7a
	.byte	0x8
	.uleb128 0x1
	.long	.LASF14
	.byte	0x20
	.byte	0xc
	.long	0x114
	.byte	0x10
	.uleb128 0x1
	.long	.LASF15
	.byte	0x21
	.byte	0x13
	.long	0x7a
	.byte	0x18
	.byte	0
	.uleb128 0xf
	.long	0x10e
	.uleb128 0x10
	.long	0xc0
	.byte	0
	.uleb128 0x3
	.long	0x103
	.uleb128 0x11
	.uleb128 0x3
	.long	0x113
	.uleb128 0x12
	.long	.LASF27
	.byte	0x1
	.byte	0x23
	.byte	0x6
	.uleb128 0x13
	.long	.LASF28
	.byte	0x1
	.byte	0x3c
	.byte	0x6
	.quad	.LFB5
	.quad	.LFE5-.LFB5
	.uleb128 0x1
	.byte	0x9c
	.long	0x14e
	.uleb128 0x4
	.long	.LASF16
	.byte	0x42
	.byte	0xa
	.long	0x63
	.uleb128 0x2
	.byte	0x91
	.sleb128 -24
	.byte	0
	.uleb128 0x14
	.string	"sum"
	.byte	0x1
	.byte	0x34
	.byte	0xd
	.long	0x63
	.quad	.LFB4
	.quad	.LFE4-.LFB4
	.uleb128 0x1
	.byte	0x9c
	.long	0x19d
	.uleb128 0x9
	.string	"all"
	.byte	0x36
	.byte	0xa
	.long	0x63
	.uleb128 0x2
	.byte	0x91
	.sleb128 -24
	.uleb128 0x15
	.quad	.LBB2
	.quad	.LBE2-.LBB2
	.uleb128 0x9
	.string	"i"
	.byte	0x37
	.byte	0xe
	.long	0xc0
	.uleb128 0x2
	.byte	0x91
	.sleb128 -28
	.byte	0
	.byte	0
	.uleb128 0x16
	.long	.LASF29
	.byte	0x1
	.byte	0x2d
	.byte	0x6
	.long	0x63
	.quad	.LFB3
	.quad	.LFE3-.LFB3
	.uleb128 0x1
	.byte	0x9c
	.long	0x1e9
	.uleb128 0x5
	.long	.LASF17
	.byte	0x2d
	.byte	0x1f
	.long	0x1e9
	.uleb128 0x2
	.byte	0x91
	.sleb128 -24
	.uleb128 0x2
	.string	"to"
	.byte	0x2d
	.byte	0x35
	.long	0x1e9
	.uleb128 0x2
	.byte	0x91
	.sleb128 -32
	.uleb128 0x5
	.long	.LASF18
	.byte	0x2d
	.byte	0x3e
	.long	0x63
	.uleb128 0x2
	.byte	0x91
	.sleb128 -40
	.byte	0
	.uleb128 0x3
	.long	0x2e
	.uleb128 0x17
	.long	.LASF19
	.byte	0x1
	.byte	0x26
	.byte	0xd
	.quad	.LFB2
	.quad	.LFE2-.LFB2
	.uleb128 0x1
	.byte	0x9c
	.long	0x21b
	.uleb128 0x4
	.long	.LASF11
	.byte	0x28
	.byte	0x13
	.long	0xc7
	.uleb128 0x2
	.byte	0x91
	.sleb128 -48
	.byte	0
	.uleb128 0x18
	.long	.LASF20
	.byte	0x1
	.byte	0x17
	.byte	0xd
	.quad	.LFB1
	.quad	.LFE1-.LFB1
	.uleb128 0x1
	.byte	0x9c
	.long	0x248
	.uleb128 0x5
	.long	.LASF21
	.byte	0x17
	.byte	0x1a
	.long	0xc0
	.uleb128 0x2
	.byte	0x91
	.sleb128 -20
	.byte	0
	.uleb128 0x19
	.long	.LASF22
	.byte	0x1
	.byte	0xc
	.byte	0xd
	.long	0x63
	.quad	.LFB0
	.quad	.LFE0-.LFB0
	.uleb128 0x1
	.byte	0x9c
	.uleb128 0x5
	.long	.LASF23
	.byte	0xc
	.byte	0x1e
	.long	0x63
	.uleb128 0x2
	.byte	0x91
	.sleb128 -40
	.uleb128 0x2
	.string	"a"
	.byte	0xc
	.byte	0x2b
	.long	0x63
	.uleb128 0x2
	.byte	0x91
	.sleb128 -48
	.uleb128 0x2
	.string	"b"
	.byte	0xc
	.byte	0x33
	.long	0x63
	.uleb128 0x2
	.byte	0x91
	.sleb128 -56
	.uleb128 0x2
	.string	"c"
	.byte	0xc
	.byte	0x3b
	.long	0x63
	.uleb128 0x2
	.byte	0x91
	.sleb128 -64
	.uleb128 0x2
	.string	"d"
	.byte	0xc
	.byte	0x43
	.long	0x63
	.uleb128 0x3
	.byte	0x91
	.sleb128 -72
	.uleb128 0x4
	.long	.LASF24
	.byte	0xe
	.byte	0xa
	.long	0x63
	.uleb128 0x2
	.byte	0x91
	.sleb128 -24
	.uleb128 0x4
	.long	.LASF25
	.byte	0xf
	.byte	0x13
	.long	0x63
	.uleb128 0x1
	.byte	0x5a
	.byte	0
	.byte	0
	.section	.debug_abbrev,"",@progbits
.Ldebug_abbrev0:
	.uleb128 0x1
	.uleb128 0xd
	.byte	0
	.uleb128 0x3
	.uleb128 0xe
	.uleb128 0x3a
	.uleb128 0x21
	.sleb128 1
	.uleb128 0x3b
	.uleb128 0xb
	.uleb128 0x39
	.uleb128 0xb
	.uleb128 0x49
	.uleb128 0x13
	.uleb128 0x38
	.uleb128 0xb
	.byte	0
	.byte	0
	.uleb128 0x2
	.uleb128 0x5
	.byte	0
	.uleb128 0x3
	.uleb128 0x8
	.uleb128 0x3a
	.uleb128 0x21
	.sleb128 1
	.uleb128 0x3b
	.uleb128 0xb
	.uleb128 0x39
	.uleb128 0xb
	.uleb128 0x49
	.uleb128 0x13
	.uleb128 0x2
	.uleb128 0x18
	.byte	0
	.byte	0
	.uleb128 0x3
	.uleb128 0xf
	.byte	0
	.uleb128 0xb
	.uleb128 0x21
	.sleb128 8
	.uleb128 0x49
	.uleb128 0x13
	.byte	0
	.byte	0
	.uleb128 0x4
	.uleb128 0x34
	.byte	0
	.uleb128 0x3
	.uleb128 0xe
	.uleb128 0x3a
	.uleb128 0x21
	.sleb128 1
	.uleb128 0x3b
	.uleb128 0xb
	.uleb128 0x39
	.uleb128 0xb
	.uleb128 0x49
	.uleb128 0x13
	.uleb128 0x2
	.uleb128 0x18
	.byte	0
	.byte	0
	.uleb128 0x5
	.uleb128 0x5
	.byte	0
	.uleb128 0x3
	.uleb128 0xe
	.uleb128 0x3a
	.uleb128 0x21
	.sleb128 1
	.uleb128 0x3b
	.uleb128 0xb
	.uleb128 0x39
	.uleb128 0xb
	.uleb128 0x49
	.uleb128 0x13
	.uleb128 0x2
	.uleb128 0x18
	.byte	0
	.byte	0
	.uleb128 0x6
	.uleb128 0x24
	.byte	0
	.uleb128 0xb
	.uleb128 0xb
	.uleb128 0x3e
	.uleb128 0xb
	.uleb128 0x3
	.uleb128 0xe
	.byte	0
	.byte	0
	.uleb128 0x7
	.uleb128 0x34
	.byte	0
	.uleb128 0x3
	.uleb128 0xe
	.uleb128 0x3a
	.uleb128 0x21
	.sleb128 1
	.uleb128 0x3b
	.uleb128 0xb
	.uleb128 0x39
	.uleb128 0xb
	.uleb128 0x49
	.uleb128 0x13
	.uleb128 0x3f
	.uleb128 0x19
	.uleb128 0x2
	.uleb128 0x18
	.byte	0
	.byte	0
	.uleb128 0x8
	.uleb128 0x13
	.byte	0x1
	.uleb128 0x3
	.uleb128 0xe
	.uleb128 0xb
	.uleb128 0xb
	.uleb128 0x3a
	.uleb128 0x21
	.sleb128 1
	.uleb128 0x3b
	.uleb128 0xb
	.uleb128 0x39
	.uleb128 0x21
	.sleb128 8
	.uleb128 0x1
	.uleb128 0x13
	.byte	0
	.byte	0
	.uleb128 0x9
	.uleb128 0x34
	.byte	0
	.uleb128 0x3
	.uleb128 0x8
	.uleb128 0x3a
	.uleb128 0x21
	.sleb128 1
	.uleb128 0x3b
	.uleb128 0xb
	.uleb128 0x39
	.uleb128 0xb
	.uleb128 0x49
	.uleb128 0x13
	.uleb128 0x2
	.uleb128 0x18
	.byte	0
	.byte	0
	.uleb128 0xa
	.uleb128 0x11
	.byte	0x1
	.uleb128 0x25
	.uleb128 0xe
	.uleb128 0x13
	.uleb128 0xb
	.uleb128 0x3
	.uleb128 0x1f
	.uleb128 0x1b
	.uleb128 0x1f
	.uleb128 0x11
	.uleb128 0x1
	.uleb128 0x12
	.uleb128 0x7
	.uleb128 0x10
	.uleb128 0x17
	.byte	0
	.byte	0
	.uleb128 0xb
	.uleb128 0x26
	.byte	0
	.uleb128 0x49
	.uleb128 0x13
	.byte	0
	.byte	0
	.uleb128 0xc
	.uleb128 0x1
	.byte	0x1
	.uleb128 0x49
	.uleb128 0x13
	.uleb128 0x1
	.uleb128 0x13
	.byte	0
	.byte	0
	.uleb128 0xd
	.uleb128 0x21
	.byte	0
	.uleb128 0x49
	.uleb128 0x13
	.uleb128 0x2f
	.uleb128 0xb
	.byte	0
	.byte	0
	.uleb128 0xe
	.uleb128 0x24
	.byte	0
	.uleb128 0xb
	.uleb128 0xb
	.uleb128 0x3e
	.uleb128 0xb
	.uleb128 0x3
	.uleb128 0x8
	.byte	0
	.byte	0
	.uleb128 0xf
	.uleb128 0x15
	.byte	0x1
	.uleb128 0x27
	.uleb128 0x19
	.uleb128 0x1
	.uleb128 0x13
	.byte	0
	.byte	0
	.uleb128 0x10
	.uleb128 0x5
	.byte	0
	.uleb128 0x49
	.uleb128 0x13
	.byte	0
	.byte	0
	.uleb128 0x11
	.uleb128 0x15
	.byte	0
	.uleb128 0x27
	.uleb128 0x19
	.byte	0
	.byte	0
	.uleb128 0x12
	.uleb128 0x2e
	.byte	0
	.uleb128 0x3f
	.uleb128 0x19
	.uleb128 0x3
	.uleb128 0xe
	.uleb128 0x3a
	.uleb128 0xb
	.uleb128 0x3b
	.uleb128 0xb
	.uleb128 0x39
	.uleb128 0xb
	.uleb128 0x27
	.uleb128 0x19
	.uleb128 0x3c
	.uleb128 0x19
	.byte	0
	.byte	0
	.uleb128 0x13
	.uleb128 0x2e
	.byte	0x1
	.uleb128 0x3f
	.uleb128 0x19
	.uleb128 0x3
	.uleb128 0xe
	.uleb128 0x3a
	.uleb128 0xb
	.uleb128 0x3b
	.uleb128 0xb
	.uleb128 0x39
	.uleb128 0xb
	.uleb128 0x27
	.uleb128 0x19
	.uleb128 0x11
	.uleb128 0x1
	.uleb128 0x12
	.uleb128 0x7
	.uleb128 0x40
	.uleb128 0x18
	.uleb128 0x7c
	.uleb128 0x19
	.uleb128 0x1
	.uleb128 0x13
	.byte	0
	.byte	0
	.uleb128 0x14
	.uleb128 0x2e
	.byte	0x1
	.uleb128 0x3
	.uleb128 0x8
	.uleb128 0x3a
	.uleb128 0xb
	.uleb128 0x3b
	.uleb128 0xb
	.uleb128 0x39
	.uleb128 0xb
	.uleb128 0x27
	.uleb128 0x19
	.uleb128 0x49
	.uleb128 0x13
	.uleb128 0x11
	.uleb128 0x1
	.uleb128 0x12
	.uleb128 0x7
	.uleb128 0x40
	.uleb128 0x18
	.uleb128 0x7a
	.uleb128 0x19
	.uleb128 0x1
	.uleb128 0x13
	.byte	0
	.byte	0
	.uleb128 0x15
	.uleb128 0xb
	.byte	0x1
	.uleb128 0x11
	.uleb128 0x1
	.uleb128 0x12
	.uleb128 0x7
	.byte	0
	.byte	0
	.uleb128 0x16
	.uleb128 0x2e
	.byte	0x1
	.uleb128 0x3f
	.uleb128 0x19
	.uleb128 0x3
	.uleb128 0xe
	.uleb128 0x3a
	.uleb128 0xb
	.uleb128 0x3b
	.uleb128 0xb
	.uleb128 0x39
	.uleb128 0xb
	.uleb128 0x27
	.uleb128 0x19
	.uleb128 0x49
	.uleb128 0x13
	.uleb128 0x11
	.uleb128 0x1
	.uleb128 0x12
	.uleb128 0x7
	.uleb128 0x40
	.uleb128 0x18
	.uleb128 0x7a
	.uleb128 0x19
	.uleb128 0x1
	.uleb128 0x13
	.byte	0
	.byte	0
	.uleb128 0x17
	.uleb128 0x2e
	.byte	0x1
	.uleb128 0x3
	.uleb128 0xe
	.uleb128 0x3a
	.uleb128 0xb
	.uleb128 0x3b
	.uleb128 0xb
	.uleb128 0x39
	.uleb128 0xb
	.uleb128 0x27
	.uleb128 0x19
	.uleb128 0x11
	.uleb128 0x1
	.uleb128 0x12
	.uleb128 0x7
	.uleb128 0x40
	.uleb128 0x18
	.uleb128 0x7c
	.uleb128 0x19
	.uleb128 0x1
	.uleb128 0x13
	.byte	0
	.byte	0
	.uleb128 0x18
	.uleb128 0x2e
	.byte	0x1
	.uleb128 0x3
	.uleb128 0xe
	.uleb128 0x3a
	.uleb128 0xb
	.uleb128 0x3b
	.uleb128 0xb
	.uleb128 0x39
	.uleb128 0xb
	.uleb128 0x27
	.uleb128 0x19
	.uleb128 0x11
	.uleb128 0x1
	.uleb128 0x12
	.uleb128 0x7
	.uleb128 0x40
	.uleb128 0x18
	.uleb128 0x7a
	.uleb128 0x19
	.uleb128 0x1
	.uleb128 0x13
	.byte	0
	.byte	0
	.uleb128 0x19
	.uleb128 0x2e
	.byte	0x1
	.uleb128 0x3
	.uleb128 0xe
	.uleb128 0x3a
	.uleb128 0xb
	.uleb128 0x3b
	.uleb128 0xb
	.uleb128 0x39
	.uleb128 0xb
	.uleb128 0x27
	.uleb128 0x19
	.uleb128 0x49
	.uleb128 0x13
	.uleb128 0x11
	.uleb128 0x1
	.uleb128 0x12
	.uleb128 0x7
	.uleb128 0x40
	.uleb128 0x18
	.uleb128 0x7a
	.uleb128 0x19
	.byte	0
	.byte	0
	.byte	0
	.section	.debug_aranges,"",@progbits
	.long	0x2c
	.value	0x2
	.long	.Ldebug_info0
	.byte	0x8
	.byte	0
	.value	0
	.value	0
	.quad	.Ltext0
	.quad	.Letext0-.Ltext0
	.quad	0
	.quad	0
	.section	.debug_line,"",@progbits
.Ldebug_line0:
	.section	.debug_str,"MS",@progbits,1
.LASF12:
	.string	"handler"
.LASF23:
	.string	"number"
.LASF20:
	.string	"on_alarm"
.LASF13:
	.string	"flags"
.LASF21:
	.string	"signal"
.LASF22:
	.string	"system_call"
.LASF11:
	.string	"action"
.LASF6:
	.string	"long unsigned int"
.LASF25:
	.string	"fourth"
.LASF17:
	.string	"from"
.LASF3:
	.string	"balance"
.LASF9:
	.string	"alarms"
.LASF15:
	.string	"mask"
.LASF26:
	.string	"GNU C17 12.2.0 -mtune=generic -march=x86-64 -g -O0 -fcf-protection=none -fno-stack-protector -fno-pic -fno-ident -fasynchronous-unwind-tables"
.LASF4:
	.string	"char"
.LASF24:
	.string	"result"
.LASF5:
	.string	"long int"
.LASF7:
	.string	"accounts"
.LASF19:
	.string	"raise_alarm"
.LASF28:
	.string	"_start"
.LASF2:
	.string	"owner"
.LASF8:
	.string	"total"
.LASF18:
	.string	"amount"
.LASF27:
	.string	"back_to_kernel"
.LASF10:
	.string	"account"
.LASF16:
	.string	"page"
.LASF29:
	.string	"transfer"
.LASF14:
	.string	"restorer"
	.section	.debug_line_str,"MS",@progbits,1
.LASF1:
	.string	"/home/ada/ledger"
.LASF0:
	.string	"ledger.c"
	.section	.note.GNU-stack,"",@progbits
