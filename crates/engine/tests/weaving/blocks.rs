//! Guest blocks for `weaving.rs`, one for each way in which recording treats instructions.
//!
//! When a block begins, rax, rdx, rbx, rsi, rdi, rbp, rsp and r9 point into the place's data with room around
//! them, rcx is 3, and the other registers hold small numbers. All quadwords in the data are canonical addresses.

use iced_x86::code_asm::*;
use iced_x86::{Code, IcedError, Instruction, MemoryOperand, Register};

/// Writes a block; the second argument is the address of the data.
pub type Build = fn(&mut CodeAssembler, u64) -> Result<(), IcedError>;

/// A block.
#[derive(Clone, Copy)]
pub struct Block {
    /// What it is about.
    pub name: &'static str,
    /// Its code.
    pub build: Build,
    /// Whether this processor can execute it.
    pub supported: bool,
}

/// `[rip + ...]`
fn relative(target: u64) -> MemoryOperand {
    MemoryOperand::with_base_displ(Register::RIP, target as i64)
}

/// Jumps over some bytes behind the block, if ZF is set.
fn end(a: &mut CodeAssembler, data: u64) -> Result<(), IcedError> {
    a.je(data)
}

/// All blocks.
pub fn blocks() -> Vec<Block> {
    let mut list: Vec<Block> = vec![];
    let mut add = |name, build: Build, supported| list.push(Block { name, build, supported });
    let avx2 = std::is_x86_feature_detected!("avx2");
    let avx512 = std::is_x86_feature_detected!("avx512f");
    // SAFETY: reads a value that the kernel gave to this process.
    let fsgsbase = unsafe { libc::getauxval(libc::AT_HWCAP2) } & 2 != 0;

    add(
        "loads of all sizes",
        |a, data| {
            a.mov(r8, ptr(rbx))?;
            a.mov(r10d, ptr(rbx + 9))?;
            a.mov(r11w, ptr(rbx + 12))?;
            a.mov(r12b, ptr(rbx + 14))?;
            a.mov(sil, ptr(rbx + 15))?;
            a.movzx(r13d, byte_ptr(rbx + 16))?;
            a.movsx(r14, word_ptr(rbx + 18))?;
            a.movsxd(r15, dword_ptr(rbx + rcx * 4 + 20))?;
            a.add(rax, rdx)?;
            end(a, data)
        },
        true,
    );
    add(
        "loads with live flags",
        |a, data| {
            a.cmp(rax, rdx)?;
            a.mov(r8, ptr(rbx))?;
            a.mov(r10d, ptr(rbx + 8))?;
            a.movzx(r11d, byte_ptr(rbx + 16))?;
            a.mov(r12, ptr(rbx + 24))?;
            a.pop(r13)?;
            end(a, data)
        },
        true,
    );
    add(
        "loads with live flags while rcx is in use",
        |a, data| {
            a.cmp(rax, rcx)?;
            a.mov(r8, ptr(rbx))?;
            a.mov(r10d, ptr(rbx + 8))?;
            a.pop(r13)?;
            a.movups(xmm0, ptr(rsi))?;
            a.setb(al)?;
            a.mov(r14, ptr(rbx + 16))?;
            a.lea(rax, ptr(rax + 1))?;
            end(a, data)
        },
        true,
    );
    add(
        "loads into their own address",
        |a, data| {
            a.mov(rax, ptr(rax + 8))?;
            a.mov(ecx, ptr(rbx + rcx * 4))?;
            a.mov(sil, ptr(rsi))?;
            a.movzx(edi, word_ptr(rdi + 2))?;
            a.add(rax, rcx)?;
            end(a, data)
        },
        true,
    );
    add(
        "operands that are read",
        |a, data| {
            a.add(rax, ptr(rbx))?;
            a.cmp(ecx, ptr(rbx + 4))?;
            a.cmovb(r8, ptr(rbx + 32))?;
            a.test(byte_ptr(rbx + 8), 1)?;
            a.cmove(r10, ptr(rbx + 24))?;
            a.imul_3(rdx, qword_ptr(rbx + 16), 100)?;
            a.adc(rax, ptr(rbx + 40))?;
            a.bt(qword_ptr(rbx + 48), 5)?;
            a.and(r11, ptr(rbx + 56))?;
            end(a, data)
        },
        true,
    );
    add(
        "divisions",
        |a, data| {
            a.mov(eax, 1000)?;
            a.xor(edx, edx)?;
            a.or(byte_ptr(rbx), 1)?;
            a.div(dword_ptr(rbx))?;
            end(a, data)
        },
        true,
    );
    add(
        "stores",
        |a, data| {
            a.mov(ptr(rbx), rax)?;
            a.mov(byte_ptr(rbx + 8), 7)?;
            a.mov(dword_ptr(rbx + rcx * 4 + 0x80), 0x1234_5678)?;
            a.mov(ptr(rbx + 0x17), r8w)?;
            a.mov(ptr(rbx + 0x19), sil)?;
            a.movnti(ptr(rbx + 0x20), edx)?;
            a.sete(ptr(rbx + 0x24))?;
            a.add(rax, rdx)?;
            a.seto(ptr(rbx + 0x25))?;
            a.movbe(ptr(rbx + 0x28), r9)?;
            end(a, data)
        },
        std::is_x86_feature_detected!("movbe"),
    );
    add(
        "read-modify-write",
        |a, data| {
            a.add(ptr(rbx), rax)?;
            a.inc(dword_ptr(rbx + 8))?;
            a.not(byte_ptr(rbx + 12))?;
            a.shl(qword_ptr(rbx + 16), cl)?;
            a.dec(word_ptr(rbx + 24))?;
            a.neg(byte_ptr(rbx + 26))?;
            a.ror(dword_ptr(rbx + 28), 5)?;
            a.xor(ptr(rbx + 32), r8b)?;
            a.bts(qword_ptr(rbx + 40), 7)?;
            a.shld(ptr(rbx + 48), rdx, 9)?;
            a.sub(qword_ptr(rbx + 56), 1000)?;
            end(a, data)
        },
        true,
    );
    add(
        "read-modify-write with a live carry",
        |a, data| {
            a.add(rax, ptr(rbx))?;
            a.inc(qword_ptr(rbx + 8))?;
            a.rol(qword_ptr(rbx + 16), cl)?;
            a.not(qword_ptr(rbx + 24))?;
            a.adc(ptr(rbx + 32), rdx)?;
            a.sbb(dword_ptr(rbx + 40), 0)?;
            a.rcl(word_ptr(rbx + 44), 1)?;
            a.jb(data)
        },
        true,
    );
    add(
        "locked",
        |a, data| {
            a.lock().add(ptr(rbx), rax)?;
            a.lock().inc(dword_ptr(rbx + 8))?;
            a.lock().bts(qword_ptr(rbx + 16), 3)?;
            a.lock().not(qword_ptr(rbx + 24))?;
            a.lock().neg(byte_ptr(rbx + 32))?;
            a.lock().adc(ptr(rbx + 40), rdx)?;
            a.lock().dec(word_ptr(rbx + 48))?;
            end(a, data)
        },
        true,
    );
    add(
        "compare and exchange, once with success",
        |a, data| {
            a.mov(rax, ptr(rbx))?;
            a.lock().cmpxchg(ptr(rbx), rcx)?;
            a.cmpxchg(ptr(rbx + 8), edx)?;
            a.setne(r8b)?;
            a.lock().cmpxchg(ptr(rbx + 16), r10b)?;
            end(a, data)
        },
        true,
    );
    add(
        "compare and exchange that the engine follows",
        |a, data| {
            a.lock().cmpxchg(ptr(rax), rcx)?;
            a.lock().cmpxchg16b(xmmword_ptr(rsi))?;
            end(a, data)
        },
        std::is_x86_feature_detected!("cmpxchg16b"),
    );
    add(
        "exchanges",
        |a, data| {
            a.lock().xadd(ptr(rbx), rax)?;
            a.xadd(ptr(rbx + 8), r8d)?;
            a.cmp(rsi, rdi)?;
            a.xchg(ptr(rbx + 16), ecx)?;
            a.xchg(ptr(rbx + 24), dl)?;
            a.xchg(ptr(rdx), rdx)?;
            end(a, data)
        },
        true,
    );
    add(
        "the stack",
        |a, data| {
            a.push(rbp)?;
            a.mov(rbp, rsp)?;
            a.push(0x1234)?;
            a.push(rsp)?;
            a.push(qword_ptr(rbp + 16))?;
            a.push(qword_ptr(rsp))?;
            a.pushfq()?;
            a.pop(rax)?;
            a.pop(r12)?;
            a.pop(qword_ptr(rbp - 64))?;
            a.leave()?;
            a.add(rax, rbp)?;
            end(a, data)
        },
        true,
    );
    add(
        "the stack with live flags",
        |a, data| {
            a.cmp(rax, rcx)?;
            a.push(r8)?;
            a.push(-1)?;
            a.pop(rcx)?;
            a.leave()?;
            a.pop(rdx)?;
            end(a, data)
        },
        true,
    );
    add("a pop of rsp", |a, _| a.pop(rsp), true);
    add(
        "a frame",
        |a, data| {
            a.enter(32, 0)?;
            a.mov(ptr(rbp - 8), rax)?;
            a.leave()?;
            end(a, data)
        },
        true,
    );
    add("a call", |a, data| a.call(data), true);
    add(
        "a return",
        |a, _| {
            a.mov(rax, ptr(rbx))?;
            a.ret()
        },
        true,
    );
    add("a return that pops", |a, _| a.ret_1(24), true);
    add("a call through memory", |a, _| a.call(qword_ptr(rdx + rcx * 8 + 8)), true);
    add("a call through the stack", |a, _| a.call(qword_ptr(rsp + 8)), true);
    add("a jump through memory", |a, _| a.jmp(qword_ptr(rcx + rbx - 3)), true);
    add(
        "a jump through thread-local memory",
        |a, _| {
            a.add(rax, rcx)?;
            a.jmp(qword_ptr(rcx * 8 + 16).fs())
        },
        true,
    );
    add(
        "a jump relative to rip",
        |a, data| {
            let target = relative(data + 0x300);
            a.add_instruction(Instruction::with1(Code::Jmp_rm64, target)?)
        },
        true,
    );
    add("a call through a register", |a, _| a.call(rdx), true);
    add(
        "thread-local memory",
        |a, data| {
            a.mov(rax, qword_ptr(0x28).fs())?;
            a.mov(ptr(rcx).fs(), edx)?;
            a.add(rdx, ptr(rcx + rcx * 8 - 16).fs())?;
            a.inc(dword_ptr(rcx * 4).fs())?;
            a.movups(xmm1, xmmword_ptr(0x30).fs())?;
            a.cmp(byte_ptr(0x50).fs(), 3)?;
            a.lock().sub(qword_ptr(0x58).fs(), 3)?;
            a.xchg(ptr(rcx + 0x60).fs(), rax)?;
            end(a, data)
        },
        true,
    );
    add(
        "a new base of thread-local memory",
        |a, data| {
            a.mov(rax, qword_ptr(0x28).fs())?;
            a.wrfsbase(rsi)?;
            a.mov(rax, qword_ptr(0x28).fs())?;
            a.mov(qword_ptr(0x30).fs(), rax)?;
            a.rdfsbase(r8)?;
            a.add(rax, r8)?;
            end(a, data)
        },
        fsgsbase,
    );
    add(
        "memory behind the guest's GS",
        |a, data| {
            a.mov(rax, qword_ptr(0x28).gs())?;
            a.mov(ptr(rcx).gs(), edx)?;
            a.add(ptr(rcx + rcx * 8 - 16).gs(), rdx)?;
            a.cmp(r8, ptr(rcx).gs())?;
            end(a, data)
        },
        true,
    );
    add(
        "memory relative to rip",
        |a, data| {
            let at = |offset: u64| relative(data + offset);
            a.add_instruction(Instruction::with2(Code::Mov_r64_rm64, Register::RAX, at(0x300))?)?;
            a.add_instruction(Instruction::with2(Code::Add_rm64_r64, at(0x308), Register::RCX)?)?;
            a.add_instruction(Instruction::with2(Code::Mov_rm32_imm32, at(0x310), 5)?)?;
            a.add_instruction(Instruction::with2(
                Code::Lea_r64_m,
                Register::R8,
                relative(data + 0x318),
            )?)?;
            a.add_instruction(Instruction::with2(
                Code::Movups_xmm_xmmm128,
                Register::XMM2,
                at(0x321),
            )?)?;
            a.add_instruction(Instruction::with2(Code::Cmp_r64_rm64, Register::RDX, at(0x340))?)?;
            end(a, data)
        },
        true,
    );
    add(
        "narrow addresses",
        |a, data| {
            // Only below 4 GiB do they reach the data.
            let (address, offset) = if data < 1 << 32 { (ebx, ecx) } else { (r8d, r10d) };
            a.mov(r8d, (data as u32) + 0x180)?;
            a.xor(r10d, r10d)?;
            if data < 1 << 32 {
                a.mov(rax, ptr(address + offset * 4 + 8))?;
                a.add(ptr(address), eax)?;
                a.mov(ptr(address + 16), dx)?;
                a.movups(xmm3, ptr(address + 3))?;
            }
            end(a, data)
        },
        true,
    );
    add(
        "bytes in the upper halves",
        |a, data| {
            a.mov(ah, ptr(rbx))?;
            a.mov(ptr(rbx + 1), dh)?;
            a.cmp(ch, ptr(rbx + 2))?;
            a.add(ptr(rbx + 3), ch)?;
            a.xchg(ptr(rbx + 4), dh)?;
            end(a, data)
        },
        true,
    );
    add(
        "bytes in the upper halves, and addresses that take a register",
        |a, data| {
            let at = |offset: u64| relative(data + offset);
            a.mov(ah, byte_ptr(rcx).fs())?;
            a.cmp(dh, byte_ptr(rcx + 1).fs())?;
            a.mov(byte_ptr(rcx + 2).fs(), ch)?;
            a.add_instruction(Instruction::with2(Code::Mov_r8_rm8, Register::BH, at(0x300))?)?;
            a.add_instruction(Instruction::with2(Code::Mov_rm8_r8, at(0x301), Register::AH)?)?;
            a.add_instruction(Instruction::with2(Code::Add_rm8_r8, at(0x302), Register::AH)?)?;
            a.add_instruction(Instruction::with2(Code::Cmp_r8_rm8, Register::CH, at(0x303))?)?;
            end(a, data)
        },
        true,
    );
    add(
        "absolute addresses",
        |a, data| {
            let to = Instruction::with2(
                Code::Mov_moffs64_RAX,
                MemoryOperand::with_displ(data + 0x300, 8),
                Register::RAX,
            );
            a.add_instruction(to?)?;
            let from = Instruction::with2(
                Code::Mov_EAX_moffs32,
                Register::EAX,
                MemoryOperand::with_displ(data + 0x308, 8),
            );
            a.add_instruction(from?)?;
            a.mov(qword_ptr(0x30).fs(), rax)?;
            a.mov(eax, dword_ptr(0x38).gs())?;
            a.mov(byte_ptr(0x40).gs(), al)?;
            a.add(rax, rcx)?;
            end(a, data)
        },
        true,
    );
    add(
        "thread-local memory relative to rip",
        |a, data| {
            a.wrfsbase(r8)?;
            let mut from =
                Instruction::with2(Code::Mov_r64_rm64, Register::RDX, relative(data + 0x300))?;
            from.set_segment_prefix(Register::FS);
            a.add_instruction(from)?;
            let mut to =
                Instruction::with2(Code::Mov_rm64_r64, relative(data + 0x308), Register::RDX)?;
            to.set_segment_prefix(Register::FS);
            a.add_instruction(to)?;
            let mut added =
                Instruction::with2(Code::Add_r64_rm64, Register::RDX, relative(data + 0x310))?;
            added.set_segment_prefix(Register::FS);
            a.add_instruction(added)?;
            end(a, data)
        },
        fsgsbase,
    );
    add(
        "vectors",
        |a, data| {
            a.movups(xmm0, ptr(rbx))?;
            a.movaps(xmm3, ptr(rbx + 16))?;
            a.addsd(xmm1, qword_ptr(rbx + 32))?;
            a.movss(ptr(rbx + 40), xmm0)?;
            a.movd(ptr(rbx + 44), xmm1)?;
            a.movaps(ptr(rbx + 48), xmm3)?;
            a.pshufb(xmm2, ptr(rbx + 64))?;
            a.movlps(xmm4, ptr(rbx + 80))?;
            a.movmskps(r8d, xmm0)?;
            a.comisd(xmm1, qword_ptr(rbx + 88))?;
            end(a, data)
        },
        std::is_x86_feature_detected!("ssse3"),
    );
    add(
        "wide vectors",
        |a, data| {
            a.vmovups(ymm2, ptr(rbx + 5))?;
            a.vaddps(ymm3, ymm2, ptr(rbx + 64))?;
            a.vmovups(ptr(rbx + 96), ymm3)?;
            a.vpbroadcastd(ymm4, dword_ptr(rbx + 128))?;
            a.vextracti128(ptr(rbx + 144), ymm2, 1)?;
            a.vzeroupper()?;
            a.add(rax, rcx)?;
            end(a, data)
        },
        avx2,
    );
    add(
        "masked vectors",
        |a, data| {
            a.vmaskmovps(ymm0, ymm1, ptr(rbx))?;
            a.vmaskmovps(ptr(rbx + 96), ymm1, ymm0)?;
            a.maskmovdqu(xmm2, xmm1)?;
            a.vpcmpeqd(ymm5, ymm5, ymm5)?;
            a.vpxor(xmm6, xmm6, xmm6)?;
            a.vpgatherdd_3(ymm7, ptr(rbx + ymm6 * 4), ymm5)?;
            a.add(rax, rcx)?;
            end(a, data)
        },
        avx2,
    );
    add(
        "vectors of 512 bits",
        |a, data| {
            a.mov(r8d, 0x5a5a)?;
            a.kmovw(k1, r8d)?;
            a.vmovups(zmm1, ptr(rbx))?;
            a.vaddps(zmm2, zmm1, dword_bcst(rbx + 64))?;
            a.vmovups(zmm3.k1(), ptr(rbx + 128))?;
            a.vmovups(zmmword_ptr(rbx + 192).k1(), zmm1)?;
            a.vpcompressd(zmmword_ptr(rbx + 256).k1(), zmm1)?;
            a.vmovdqu64(ptr(rbx + 320), zmm2)?;
            a.vpxorq(zmm4, zmm4, zmm4)?;
            a.vpscatterdd(ptr(rbx + zmm4 * 4 + 384).k1(), zmm1)?;
            a.add(rax, rcx)?;
            end(a, data)
        },
        avx512,
    );
    add(
        "x87",
        |a, data| {
            a.fld(tword_ptr(rbx))?;
            a.fstp(tword_ptr(rbx + 16))?;
            a.fild(qword_ptr(rbx + 32))?;
            a.fadd(dword_ptr(rbx + 40))?;
            a.fst(qword_ptr(rbx + 48))?;
            a.fistp(dword_ptr(rbx + 56))?;
            a.fnstcw(word_ptr(rbx + 60))?;
            a.fldcw(word_ptr(rbx + 60))?;
            a.fnstsw(word_ptr(rbx + 62))?;
            a.stmxcsr(dword_ptr(rbx + 64))?;
            a.add(rax, rcx)?;
            end(a, data)
        },
        true,
    );
    add(
        "strings",
        |a, data| {
            a.rep().movsb()?;
            a.lodsw()?;
            a.stosq()?;
            a.mov(ecx, 5)?;
            a.repne().scasb()?;
            a.movsd()?;
            a.cmpsb()?;
            end(a, data)
        },
        true,
    );
    add(
        "bit strings",
        |a, data| {
            a.mov(eax, 77)?;
            a.bts(ptr(rbx), rax)?;
            a.bt(ptr(rbx), ecx)?;
            a.jb(data)
        },
        true,
    );
    add(
        "xlat",
        |a, data| {
            a.mov(al, cl)?;
            a.xlatb()?;
            end(a, data)
        },
        true,
    );
    add(
        "no register to spare",
        |a, data| {
            a.lea(rax, ptr(rbx + rcx))?;
            a.lea(rdx, ptr(rsi + rdi))?;
            a.lea(r8, ptr(r9 + r10))?;
            a.lea(r11, ptr(r12 + r13))?;
            a.lea(r14, ptr(r15 + rbp))?;
            a.add(rax, ptr(rbx))?;
            a.mov(rsi, ptr(rsi))?;
            a.add(ptr(r9), r8)?;
            a.lock().cmpxchg(ptr(rdi), r15)?;
            a.xchg(ptr(rbx + 8), r15)?;
            a.mov(r13, qword_ptr(0x28).fs())?;
            a.add(r12, ptr(rcx + 8).fs())?;
            a.movups(xmm0, ptr(rbx))?;
            a.push(rsp)?;
            end(a, data)
        },
        true,
    );
    add(
        "no register to spare, flags alive",
        |a, data| {
            a.lea(rax, ptr(rbx + rcx))?;
            a.lea(r8, ptr(r9 + r10))?;
            a.lea(r11, ptr(r12 + r13))?;
            a.lea(r14, ptr(r15 + rbp))?;
            a.mov(rdx, ptr(rdx))?;
            a.mov(ptr(rbx), rax)?;
            a.pop(rax)?;
            a.movups(xmm0, ptr(rsi))?;
            a.mov(sil, ptr(rdi))?;
            a.jmp(data)
        },
        true,
    );
    add(
        "nothing that overwrites flags",
        |a, data| {
            a.mov(rax, rbx)?;
            a.lea(rcx, ptr(rax + 1))?;
            a.jmp(data)
        },
        true,
    );
    add(
        "nothing that overwrites flags, in a loop",
        |a, data| {
            a.mov(rax, rbx)?;
            a.mov(rdx, ptr(rax))?;
            a.jne(data & !0x3_ffff)
        },
        true,
    );
    add(
        "a block without an end",
        |a, _| {
            a.mov(rax, ptr(rbx))?;
            a.mov(rdx, ptr(rbx + 8))
        },
        true,
    );
    add(
        "flags that are partly dead",
        |a, data| {
            a.add(rax, ptr(rbx))?;
            a.mov(r8, ptr(rbx + 8))?;
            a.inc(r8)?;
            a.test(r8, r8)?;
            a.mov(r10, ptr(rbx + 16))?;
            a.shl(r10, cl)?;
            a.mov(r11, ptr(rbx + 24))?;
            end(a, data)
        },
        true,
    );
    add(
        "a carry that is alive",
        |a, data| {
            a.add(rax, ptr(rbx))?;
            a.mov(rdx, ptr(rbx + 8))?;
            a.mov(r8, ptr(rbx + 16))?;
            a.inc(r8)?;
            a.mov(ptr(rbx), r8)?;
            a.jb(data)
        },
        true,
    );
    add(
        "a system call",
        |a, _| {
            a.mov(eax, ptr(rbx))?;
            a.syscall()
        },
        true,
    );
    add(
        "the time stamp counter",
        |a, _| {
            a.cmp(rax, ptr(rbx))?;
            a.rdtsc()
        },
        true,
    );
    list
}
