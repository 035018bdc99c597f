//! Filter programs: classic BPF over the description of a system call.

use alloc::vec::Vec;

/// One instruction, as the kernel's `struct sock_filter`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Instruction {
    /// Class, size or operation, mode.
    pub code: u16,
    /// How many instructions a jump skips if its condition holds.
    pub if_true: u8,
    /// The same if it does not.
    pub if_false: u8,
    /// An immediate value.
    pub value: u32,
}

/// The kernel takes no longer program.
pub const MOST_INSTRUCTIONS: usize = 4096;

const SCRATCH_WORDS: usize = 16;

/// Codes of the instructions that the kernel allows in filters.
mod op {
    pub const LOAD: u16 = 0x20;
    pub const LOAD_LENGTH: u16 = 0x80;
    pub const LOAD_X_LENGTH: u16 = 0x81;
    pub const LOAD_VALUE: u16 = 0x00;
    pub const LOAD_X_VALUE: u16 = 0x01;
    pub const LOAD_SCRATCH: u16 = 0x60;
    pub const LOAD_X_SCRATCH: u16 = 0x61;
    pub const STORE: u16 = 0x02;
    pub const STORE_X: u16 = 0x03;
    pub const TO_X: u16 = 0x07;
    pub const FROM_X: u16 = 0x87;
    pub const RETURN: u16 = 0x06;
    pub const RETURN_A: u16 = 0x16;
    pub const JUMP: u16 = 0x05;
    pub const CLASS: u16 = 0x07;
    pub const ARITHMETIC: u16 = 0x04;
    pub const CONDITIONAL: u16 = 0x05;
    /// The second operand is X instead of the value.
    pub const WITH_X: u16 = 0x08;
    pub const OPERATION: u16 = 0xf0;
}

/// A system call as filters see it: the kernel's `struct seccomp_data`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its number.
    pub number: i32,
    /// The address behind the instruction.
    pub pc: u64,
    /// Its arguments.
    pub args: [u64; 6],
}

/// Where the lower and the upper half of the address are.
pub const PC_OFFSETS: [u32; 2] = [8, 12];

/// `AUDIT_ARCH_X86_64`
pub const ARCHITECTURE: u32 = 0xc000_003e;

const CALL_BYTES: u32 = 64;

impl Call {
    /// The word at an offset of the kernel's structure.
    fn word(&self, offset: u32) -> u32 {
        let half =
            |value: u64| if offset.is_multiple_of(8) { value as u32 } else { (value >> 32) as u32 };
        match offset {
            0 => self.number as u32,
            4 => ARCHITECTURE,
            8 | 12 => half(self.pc),
            _ => self.args.get((offset as usize - 16) / 8).map_or(0, |&value| half(value)),
        }
    }
}

/// Whether a program looks at the instruction's address.
pub fn looks_at_pc(program: &[Instruction]) -> bool {
    program.iter().any(|i| i.code == op::LOAD && PC_OFFSETS.contains(&i.value))
}

/// What the program says about a call. It has been accepted by the kernel; anything that it would not accept ends with 0,
/// which kills.
pub fn run(program: &[Instruction], call: &Call) -> u32 {
    let (mut a, mut x) = (0u32, 0u32);
    let mut scratch = [0u32; SCRATCH_WORDS];
    let mut at = 0usize;
    while let Some(instruction) = program.get(at) {
        at += 1;
        let value = instruction.value;
        let word = value as usize % SCRATCH_WORDS;
        match instruction.code {
            op::LOAD => a = call.word(value),
            op::LOAD_LENGTH => a = CALL_BYTES,
            op::LOAD_X_LENGTH => x = CALL_BYTES,
            op::LOAD_VALUE => a = value,
            op::LOAD_X_VALUE => x = value,
            op::LOAD_SCRATCH => a = scratch[word],
            op::LOAD_X_SCRATCH => x = scratch[word],
            op::STORE => scratch[word] = a,
            op::STORE_X => scratch[word] = x,
            op::TO_X => x = a,
            op::FROM_X => a = x,
            op::RETURN => return value,
            op::RETURN_A => return a,
            op::JUMP => at = at.saturating_add(value as usize),
            code => {
                let other = if code & op::WITH_X != 0 { x } else { value };
                let operation = (code & op::OPERATION) >> 4;
                match code & op::CLASS {
                    op::ARITHMETIC => match arithmetic(operation, a, other) {
                        Some(result) => a = result,
                        None => return 0,
                    },
                    op::CONDITIONAL => {
                        let holds = condition(operation, a, other);
                        let skip = if holds { instruction.if_true } else { instruction.if_false };
                        at += skip as usize;
                    }
                    _ => return 0,
                }
            }
        }
    }
    0
}

fn arithmetic(operation: u16, a: u32, b: u32) -> Option<u32> {
    Some(match operation {
        0 => a.wrapping_add(b),
        1 => a.wrapping_sub(b),
        2 => a.wrapping_mul(b),
        3 => a.checked_div(b)?,
        4 => a | b,
        5 => a & b,
        6 => a.wrapping_shl(b),
        7 => a.wrapping_shr(b),
        8 => a.wrapping_neg(),
        10 => a ^ b,
        _ => return None,
    })
}

fn condition(operation: u16, a: u32, b: u32) -> bool {
    match operation {
        1 => a == b,
        2 => a > b,
        3 => a >= b,
        4 => a & b != 0,
        _ => false,
    }
}

/// Part of the address space: its upper half, and the lower ones of its start and end.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// Upper 32 bits of all its addresses.
    pub upper: u32,
    /// Lower 32 bits of its first address.
    pub start: u32,
    /// Lower 32 bits of the address behind it.
    pub end: u32,
}

/// The program, behind code that lets every call pass from within a range, except from one address of it.
pub fn exempting(program: &[Instruction], range: Range, except: Option<u32>) -> Vec<Instruction> {
    const EQUAL: u16 = 0x15;
    const AT_LEAST: u16 = 0x35;
    const ALLOW: u32 = 0x7fff_0000;
    let load = |offset| Instruction { code: op::LOAD, value: offset, ..Instruction::default() };
    let jump = |code, value, if_true, if_false| Instruction { code, value, if_true, if_false };
    let [lower, upper] = PC_OFFSETS;
    let mut whole = Vec::from([
        load(upper),
        jump(EQUAL, range.upper, 0, 5),
        load(lower),
        jump(AT_LEAST, range.start, 0, 3),
        jump(AT_LEAST, range.end, 2, 0),
        // No instruction ends at address 0.
        jump(EQUAL, except.unwrap_or(0), 1, 0),
        Instruction { code: op::RETURN, value: ALLOW, ..Instruction::default() },
    ]);
    whole.extend_from_slice(program);
    whole
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    const KILL: u32 = 0;
    const ERRNO: u32 = 0x5_0000;
    const ALLOW: u32 = 0x7fff_0000;

    fn statement(code: u16, value: u32) -> Instruction {
        Instruction { code, value, ..Instruction::default() }
    }

    fn jump(code: u16, value: u32, if_true: u8, if_false: u8) -> Instruction {
        Instruction { code, if_true, if_false, value }
    }

    fn call(number: i32) -> Call {
        Call { number, pc: 0x1234_5678_9abc, args: [1, 1 << 32, 3, 4, 5, 6] }
    }

    #[test]
    fn picks_by_number() {
        let program = [
            statement(op::LOAD, 0),
            jump(0x15, 39, 0, 1),
            statement(op::RETURN, ERRNO | 7),
            statement(op::RETURN, ALLOW),
        ];
        assert_eq!(run(&program, &call(39)), ERRNO | 7);
        assert_eq!(run(&program, &call(40)), ALLOW);
        assert!(!looks_at_pc(&program));
    }

    #[test]
    fn every_word_of_the_call() {
        let word =
            |offset| run(&[statement(op::LOAD, offset), statement(op::RETURN_A, 0)], &call(9));
        assert_eq!(word(0), 9);
        assert_eq!(word(4), ARCHITECTURE);
        assert_eq!((word(8), word(12)), (0x5678_9abc, 0x1234));
        assert_eq!((word(16), word(20)), (1, 0));
        assert_eq!((word(24), word(28)), (0, 1));
        assert_eq!((word(56), word(60)), (6, 0));
    }

    #[test]
    fn computes() {
        let program = [
            statement(op::LOAD_VALUE, 12),
            statement(op::TO_X, 0),
            statement(0x04, 30),              // a += 30
            statement(0x3c, 0),               // a /= x
            statement(op::STORE, 3),          // 3
            statement(op::LOAD_X_SCRATCH, 3), // x = 3
            statement(op::LOAD_LENGTH, 0),    // a = 64
            statement(0x1c, 0),               // a -= x
            statement(0x64, 1),               // a <<= 1
            statement(0xa4, 0xf),             // a ^= 15
            jump(0x45, 0x10, 0, 1),           // if a & 0x10
            statement(op::RETURN_A, 0),
            statement(op::RETURN, KILL),
        ];
        assert_eq!(run(&program, &call(0)), (61 << 1) ^ 0xf);
    }

    #[test]
    fn nothing_that_a_program_does_runs_away() {
        assert_eq!(run(&[], &call(0)), KILL);
        assert_eq!(run(&[statement(0x3c, 0)], &call(0)), KILL);
        assert_eq!(run(&[statement(op::JUMP, u32::MAX)], &call(0)), KILL);
        assert_eq!(run(&[statement(op::LOAD, 4096), statement(op::RETURN_A, 0)], &call(0)), 0);
        assert_eq!(run(&[statement(0xffff, 0)], &call(0)), KILL);
    }

    #[test]
    fn a_range_is_exempt() {
        let program = [statement(op::RETURN, KILL)];
        let range = Range { upper: 0x7000, start: 0x7000_0000, end: 0x9000_0000 };
        let whole = exempting(&program, range, Some(0x7000_1234));
        let at = |pc| run(&whole, &Call { pc, ..call(0) });
        assert_eq!(at(0x7000_7000_0000), ALLOW);
        assert_eq!(at(0x7000_8fff_ffff), ALLOW);
        assert_eq!(at(0x7000_7000_1234), KILL);
        assert_eq!(at(0x7000_9000_0000), KILL);
        assert_eq!(at(0x7000_6fff_ffff), KILL);
        assert_eq!(at(0x7001_7000_0000), KILL);
        assert_eq!(at(0x1000_0000), KILL);
        let all = exempting(&program, range, None);
        assert_eq!(run(&all, &Call { pc: 0x7000_7000_1234, ..call(0) }), ALLOW);
    }
}
