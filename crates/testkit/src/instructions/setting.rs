//! The general-purpose registers a case starts with, and what its instructions may rely on.
//!
//! Operands are random, yet most memory operands must hit the scratch area. So each case gives
//! some registers a role and never writes them: two or more pointers, a small index, a count for
//! `rep`, and in the low placement a pointer whose upper half is garbage, for 32-bit addressing.
//! All other registers hold random data and may be overwritten.
//!
//! Invariant: a reserved register keeps its initial value, or moves by a few operand sizes when a
//! string or stack instruction owns it; an effective address computed from these values at
//! generation time is the one the guest accesses.

use super::layout::{Layout, SCRATCH_SIZE};
use super::random::Random;
use super::registers::{R11, RAX, RBP, RBX, RCX, RDI, RDX, RSI, RSP, RegisterSet};
use super::state::{DWORD_INDICES, QWORD_INDICES};
use iced_x86::{Code, Mnemonic, OpCodeOperandKind};

/// Arithmetic flags.
const ARITHMETIC: u64 = 0x8d5;
/// IF and the bit that always reads as one.
const FIXED: u64 = 0x202;
/// The direction flag.
pub const DIRECTION: u64 = 0x400;
/// The alignment-check flag.
pub const ALIGNMENT: u64 = 0x4_0000;

/// How a case's memory accesses may go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hazards {
    /// Not at all, on purpose.
    None,
    /// Operands at the edges of the scratch area, in read-only and unmapped pages.
    Memory,
}

/// What a case starts with.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Where everything lies.
    pub layout: Layout,
    /// Initial values.
    pub registers: [u64; 16],
    /// Initial flags.
    pub flags: u64,
    /// FS base at the point reached in the body.
    pub fs_base: u64,
    /// GS base at the point reached in the body.
    pub gs_base: u64,
    /// Registers the body must not write.
    pub reserved: RegisterSet,
    /// Registers that point into the scratch area.
    pub pointers: Vec<usize>,
    /// The register that holds a small number.
    pub index: usize,
    /// The register whose low half points into the scratch area, in the low placement.
    pub narrow: Option<usize>,
    /// The register that holds a non-canonical address, when hazards are wanted.
    pub wild: Option<usize>,
}

impl Setting {
    /// Registers for a body made of `codes`.
    pub fn new(random: &mut Random, layout: Layout, codes: &[Code], hazards: Hazards) -> Setting {
        let mut setting = Setting {
            layout,
            registers: core::array::from_fn(|_| random.word()),
            flags: FIXED | random.bits() & ARITHMETIC,
            fs_base: 0,
            gs_base: 0,
            reserved: RegisterSet::default(),
            pointers: Vec::new(),
            index: 0,
            narrow: None,
            wild: None,
        };
        if random.percent(12) {
            setting.flags |= DIRECTION;
        }
        if random.percent(5) {
            // NT and ID: no user code looks at them, so a translator may well forget them.
            setting.flags |= random.pick(&[0x4000, 0x20_0000]);
        }
        setting.fs_base = setting.segment_base(random);
        setting.gs_base = setting.segment_base(random);
        setting.reserve(RSP);
        setting.registers[RSP] = setting.near_middle(random, 512);
        if !random.percent(6) {
            setting.registers[RSP] &= !7;
        }
        setting.assign_implicit(random, codes, hazards);
        let written = implicitly_written(codes);
        let mut free: Vec<usize> = (0..16)
            .filter(|&register| {
                !setting.reserved.has_general(register) && !written.has_general(register)
            })
            .collect();
        random.shuffle(&mut free);
        // Two explicit operands keep a constant address even when a string instruction moves its own.
        for _ in 0..2 {
            let pointer = free.pop().expect("a case reserves few registers");
            setting.assign_pointer(random, pointer);
        }
        setting.index = free.pop().expect("a case reserves few registers");
        setting.registers[setting.index] = random.between(-48, 48) as u64;
        setting.reserve(setting.index);
        if layout.is_low && random.percent(50) {
            let narrow = free.pop().expect("a case reserves few registers");
            setting.registers[narrow] = setting.near_middle(random, 400) | random.bits() << 32;
            setting.reserve(narrow);
            setting.narrow = Some(narrow);
        }
        if hazards == Hazards::Memory && random.percent(20) {
            let wild = free.pop().expect("a case reserves few registers");
            setting.registers[wild] =
                random.pick(&[0x8000_0000_0000_0000, 0x1234_5678_9abc_def0, 0x0000_8000_0000_0000]);
            setting.reserve(wild);
            setting.wild = Some(wild);
        }
        setting.favour_success(random, codes);
        setting
    }

    /// Moves the stack to where no memory operand reaches, so that nothing overwrites a return
    /// address: a random one hardly ever is canonical, and a return to one that is not faults at its
    /// target instead of at the return, a limit that docs/limits.md names.
    pub fn keep_stack_apart(&mut self, random: &mut Random) {
        let misalignment = self.registers[RSP] % 8;
        self.registers[RSP] = self.layout.scratch + 0x400 + 8 * random.below(64) + misalignment;
    }

    /// Forbids the body to write a register.
    pub fn reserve(&mut self, register: usize) {
        self.reserved.add_general(register);
    }

    /// An address within `distance` of the middle of the scratch area.
    pub fn near_middle(&self, random: &mut Random, distance: i64) -> u64 {
        let address = self.layout.middle().wrapping_add_signed(random.between(-distance, distance));
        if random.percent(40) { address & !63 } else { address }
    }

    /// An address at which an access of `size` bytes faults, or nearly does.
    pub fn hazardous_address(&self, random: &mut Random, size: u64) -> u64 {
        let Layout { scratch, read_only, .. } = self.layout;
        let size = size.clamp(1, 4096) as i64;
        match random.below(6) {
            0 => scratch.wrapping_add_signed(-random.between(0, size + 4)),
            1 | 2 => (scratch + SCRATCH_SIZE).wrapping_add_signed(-random.between(0, size + 4)),
            3 => read_only + random.below(0x1000 - 64),
            4 => (read_only + 0x1000).wrapping_add_signed(-random.between(0, size + 4)),
            _ => scratch + SCRATCH_SIZE + random.below(0x1000 - 64),
        }
    }

    /// An address at which a read of `size` bytes, two at least, is sure to fault.
    pub fn unreadable_address(&self, random: &mut Random, size: u64) -> u64 {
        let Layout { scratch, read_only, .. } = self.layout;
        let missing = random.below(size - 1) + 1;
        match random.below(4) {
            0 => scratch - missing,
            1 => scratch + SCRATCH_SIZE - size + missing,
            2 => read_only + 0x1000 - size + missing,
            _ => scratch + SCRATCH_SIZE + random.below(0x1000 - 64),
        }
    }

    fn assign_pointer(&mut self, random: &mut Random, register: usize) {
        self.registers[register] = self.near_middle(random, 400);
        self.reserve(register);
        self.pointers.push(register);
    }

    /// Either far enough from zero to be an address, or a small offset added to pointers.
    fn segment_base(&self, random: &mut Random) -> u64 {
        if random.percent(50) { self.near_middle(random, 300) } else { random.below(64) }
    }

    /// Gives registers that instructions use without naming them a value that suits.
    fn assign_implicit(&mut self, random: &mut Random, codes: &[Code], hazards: Hazards) {
        let mut implicit = Vec::new();
        for &code in codes {
            for kind in code.op_code().op_kinds() {
                match kind {
                    OpCodeOperandKind::seg_rSI => implicit.push(RSI),
                    OpCodeOperandKind::es_rDI | OpCodeOperandKind::seg_rDI => implicit.push(RDI),
                    OpCodeOperandKind::seg_rBX_al => implicit.push(RBX),
                    _ => {}
                }
            }
            match code.mnemonic() {
                Mnemonic::Enter | Mnemonic::Leave => implicit.push(RBP),
                Mnemonic::Clzero => implicit.push(RAX),
                _ => {}
            }
            if code.is_string_instruction() {
                let most = if hazards == Hazards::Memory { 600 } else { 24 };
                self.registers[RCX] = random.below(most);
                self.reserve(RCX);
            }
            if code.is_save_restore_instruction() && code.op_code().op_count() == 1 {
                self.registers[RAX] = if random.percent(40) { 0xe7 } else { random.below(0x100) };
                self.registers[RDX] = 0;
                self.reserve(RAX);
                self.reserve(RDX);
            }
            if code.op_code().op_kinds().iter().any(super::catalogue::is_vector_indexed) {
                DWORD_INDICES
                    .iter()
                    .chain(&QWORD_INDICES)
                    .for_each(|&vector| self.reserved.add_vector(vector));
            }
        }
        for register in implicit {
            if !self.reserved.has_general(register) {
                self.registers[register] = if hazards == Hazards::Memory && random.percent(60) {
                    self.hazardous_address(random, 64)
                } else {
                    self.near_middle(random, 400)
                };
                self.reserve(register);
            }
        }
        let moves_stack = codes.iter().any(|code| code.is_stack_instruction());
        if hazards == Hazards::Memory && moves_stack && random.percent(60) {
            self.registers[RSP] = self.hazardous_address(random, 8);
        }
    }

    /// Divisions mostly overflow and comparisons mostly fail on random inputs; help them.
    fn favour_success(&mut self, random: &mut Random, codes: &[Code]) {
        let divides =
            codes.iter().any(|code| matches!(code.mnemonic(), Mnemonic::Div | Mnemonic::Idiv));
        if divides && random.percent(75) {
            if !self.reserved.has_general(RAX) {
                self.registers[RAX] = random.bits() >> random.below(64);
            }
            if !self.reserved.has_general(RDX) {
                self.registers[RDX] = if random.percent(50) { 0 } else { random.below(4) };
            }
        }
    }
}

/// General-purpose registers that `codes` write without a choice: no role for those.
fn implicitly_written(codes: &[Code]) -> RegisterSet {
    use Mnemonic::*;
    let mut set = RegisterSet::default();
    for &code in codes {
        let of_kind = |kind: &OpCodeOperandKind| match kind {
            OpCodeOperandKind::al
            | OpCodeOperandKind::ax
            | OpCodeOperandKind::eax
            | OpCodeOperandKind::rax => Some(RAX),
            OpCodeOperandKind::dx => Some(RDX),
            _ => None,
        };
        code.op_code()
            .op_kinds()
            .iter()
            .filter_map(of_kind)
            .for_each(|register| set.add_general(register));
        let of_mnemonic: &[usize] = match code.mnemonic() {
            Cpuid | Syscall | Xgetbv | Int | Rdpkru => &[RAX, RBX, RCX, RDX, R11],
            Mul | Imul | Div | Idiv | Cwd | Cdq | Cqo | Cmpxchg8b | Cmpxchg16b => &[RAX, RDX],
            Cbw | Cwde | Cdqe | Lahf | Cmpxchg | Xlatb => &[RAX],
            Pcmpestri | Pcmpistri | Vpcmpestri | Vpcmpistri => &[RCX],
            Loop | Loope | Loopne => &[RCX],
            _ => &[],
        };
        of_mnemonic.iter().for_each(|&register| set.add_general(register));
    }
    set
}
