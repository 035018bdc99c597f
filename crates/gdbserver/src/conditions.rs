//! Conditions of breakpoints, as the bytecode that clients compile them to.
//!
//! A stack machine over 64-bit numbers that reads registers and memory of one moment. What it cannot do (floating point,
//! tracing) and what goes wrong (division by zero, memory that is not there) is an error; whoever asks then takes the
//! condition for true, so that the client finds out by itself.
//!
//! Invariants: no code makes it panic, run for ever ([`MOST_STEPS`]) or take more than [`DEEPEST`] numbers.

/// Operations that one evaluation may take.
const MOST_STEPS: usize = 100_000;

/// Numbers on the stack.
const DEEPEST: usize = 1024;

/// What a condition looks at.
pub trait Moment {
    /// A register by the client's number, its lowest eight bytes.
    fn register(&self, number: u16) -> Option<u64>;
    /// Memory; false if it is not there.
    fn read(&self, address: u64, buffer: &mut [u8]) -> bool;
}

/// Why a condition has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The code ends in the middle, or jumps out of itself.
    #[error("the condition's code is damaged")]
    Damaged,
    /// An operation that conditions do not have.
    #[error("the condition's code has an unknown operation, {0:#x}")]
    Unknown(u8),
    /// More values were wanted than there are, or there are too many.
    #[error("the condition's code uses its stack wrongly")]
    Stack,
    /// A division by zero.
    #[error("the condition divides by zero")]
    Division,
    /// There is no such memory.
    #[error("the condition reads memory at {0:#x}, which is not there")]
    Memory(u64),
    /// There is no such register.
    #[error("the condition reads register {0}, which there is not")]
    Register(u16),
    /// It does not come to an end.
    #[error("the condition takes too long")]
    TooLong,
}

/// Whether a condition holds at a moment.
pub fn holds(code: &[u8], moment: &dyn Moment) -> Result<bool, Failure> {
    Machine { code, at: 0, stack: Vec::new(), moment }.run().map(|value| value != 0)
}

struct Machine<'a> {
    code: &'a [u8],
    at: usize,
    stack: Vec<u64>,
    moment: &'a dyn Moment,
}

impl Machine<'_> {
    fn run(mut self) -> Result<u64, Failure> {
        for _ in 0..MOST_STEPS {
            let operation = self.operand::<1>()?[0];
            if operation == END {
                return self.pop();
            }
            self.step(operation)?;
            if self.stack.len() > DEEPEST {
                return Err(Failure::Stack);
            }
        }
        Err(Failure::TooLong)
    }

    fn step(&mut self, operation: u8) -> Result<(), Failure> {
        match operation {
            0x02..=0x0b | 0x0f..=0x11 | 0x13..=0x15 => {
                let right = self.pop()?;
                let left = self.pop()?;
                self.stack.push(binary(operation, left, right)?);
            }
            LOGICAL_NOT => self.change(|value| u64::from(value == 0))?,
            BIT_NOT => self.change(|value| !value)?,
            SIGN_EXTEND => {
                let unused = self.unused_bits()?;
                self.change(|value| ((value << unused).cast_signed() >> unused).cast_unsigned())?;
            }
            ZERO_EXTEND => {
                let unused = self.unused_bits()?;
                self.change(|value| value << unused >> unused)?;
            }
            0x17 => self.reference(1)?,
            0x18 => self.reference(2)?,
            0x19 => self.reference(4)?,
            0x1a => self.reference(8)?,
            IF_GOTO => {
                let target = self.operand::<2>()?;
                if self.pop()? != 0 {
                    self.at = u16::from_be_bytes(target).into();
                }
            }
            GOTO => self.at = u16::from_be_bytes(self.operand()?).into(),
            0x22 => self.constant::<1>()?,
            0x23 => self.constant::<2>()?,
            0x24 => self.constant::<4>()?,
            0x25 => self.constant::<8>()?,
            REGISTER => {
                let number = u16::from_be_bytes(self.operand()?);
                let value = self.moment.register(number).ok_or(Failure::Register(number))?;
                self.stack.push(value);
            }
            DUPLICATE => self.pick(0)?,
            POP => drop(self.pop()?),
            SWAP => {
                let (top, below) = (self.pop()?, self.pop()?);
                self.stack.extend([top, below]);
            }
            PICK => {
                let depth = self.operand::<1>()?[0];
                self.pick(depth.into())?;
            }
            ROTATE => {
                let (top, second, third) = (self.pop()?, self.pop()?, self.pop()?);
                self.stack.extend([top, third, second]);
            }
            unknown => return Err(Failure::Unknown(unknown)),
        }
        Ok(())
    }

    fn operand<const LEN: usize>(&mut self) -> Result<[u8; LEN], Failure> {
        let bytes = self.code.get(self.at..).and_then(|rest| rest.first_chunk());
        self.at += LEN;
        bytes.copied().ok_or(Failure::Damaged)
    }

    fn constant<const LEN: usize>(&mut self) -> Result<(), Failure> {
        let bytes = self.operand::<LEN>()?;
        self.stack.push(bytes.iter().fold(0, |value, &byte| value << 8 | u64::from(byte)));
        Ok(())
    }

    /// How many bits of 64 a number of so many bits leaves.
    fn unused_bits(&mut self) -> Result<u32, Failure> {
        match self.operand::<1>()?[0] {
            bits @ 1..=64 => Ok(64 - u32::from(bits)),
            _ => Err(Failure::Damaged),
        }
    }

    fn pop(&mut self) -> Result<u64, Failure> {
        self.stack.pop().ok_or(Failure::Stack)
    }

    fn change(&mut self, change: impl FnOnce(u64) -> u64) -> Result<(), Failure> {
        let value = self.pop()?;
        self.stack.push(change(value));
        Ok(())
    }

    fn pick(&mut self, depth: usize) -> Result<(), Failure> {
        let index = self.stack.len().checked_sub(depth + 1).ok_or(Failure::Stack)?;
        self.stack.push(self.stack[index]);
        Ok(())
    }

    fn reference(&mut self, len: usize) -> Result<(), Failure> {
        let address = self.pop()?;
        let mut bytes = [0; 8];
        if !self.moment.read(address, &mut bytes[..len]) {
            return Err(Failure::Memory(address));
        }
        self.stack.push(u64::from_le_bytes(bytes));
        Ok(())
    }
}

const LOGICAL_NOT: u8 = 0x0e;
const BIT_NOT: u8 = 0x12;
const SIGN_EXTEND: u8 = 0x16;
const IF_GOTO: u8 = 0x20;
const GOTO: u8 = 0x21;
const REGISTER: u8 = 0x26;
const END: u8 = 0x27;
const DUPLICATE: u8 = 0x28;
const POP: u8 = 0x29;
const ZERO_EXTEND: u8 = 0x2a;
const SWAP: u8 = 0x2b;
const PICK: u8 = 0x32;
const ROTATE: u8 = 0x33;

fn binary(operation: u8, left: u64, right: u64) -> Result<u64, Failure> {
    let (signed_left, signed_right) = (left.cast_signed(), right.cast_signed());
    let shift = |shifted: Option<u64>| shifted.unwrap_or(0);
    let bits = u32::try_from(right).unwrap_or(u32::MAX);
    Ok(match operation {
        0x02 => left.wrapping_add(right),
        0x03 => left.wrapping_sub(right),
        0x04 => left.wrapping_mul(right),
        0x05..=0x08 if right == 0 => return Err(Failure::Division),
        0x05 => signed_left.wrapping_div(signed_right).cast_unsigned(),
        0x06 => left / right,
        0x07 => signed_left.wrapping_rem(signed_right).cast_unsigned(),
        0x08 => left % right,
        0x09 => shift(left.checked_shl(bits)),
        0x0a => (signed_left >> bits.min(63)).cast_unsigned(),
        0x0b => shift(left.checked_shr(bits)),
        0x0f => left & right,
        0x10 => left | right,
        0x11 => left ^ right,
        0x13 => u64::from(left == right),
        0x14 => u64::from(signed_left < signed_right),
        0x15 => u64::from(left < right),
        unknown => return Err(Failure::Unknown(unknown)),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Register `n` holds `n` times 0x10; memory at an address has the address in its bytes.
    struct Simple;

    impl Moment for Simple {
        fn register(&self, number: u16) -> Option<u64> {
            (number < 32).then_some(u64::from(number) * 0x10)
        }

        fn read(&self, address: u64, buffer: &mut [u8]) -> bool {
            buffer.iter_mut().zip(address..).for_each(|(byte, at)| *byte = at as u8);
            address < 0x1_0000
        }
    }

    #[track_caller]
    fn check(code: &[u8], expected: Result<bool, Failure>) {
        assert_eq!(holds(code, &Simple), expected, "{code:x?}");
    }

    #[test]
    fn registers_and_memory() {
        // reg 2, const8 0x20, equal
        check(&[0x26, 0, 2, 0x22, 0x20, 0x13, 0x27], Ok(true));
        // ref16 at 0x1234 is 0x3534
        check(&[0x23, 0x12, 0x34, 0x18, 0x23, 0x35, 0x34, 0x13, 0x27], Ok(true));
        check(&[0x24, 0, 1, 0, 0, 0x17, 0x27], Err(Failure::Memory(0x1_0000)));
        check(&[0x26, 1, 0, 0x27], Err(Failure::Register(256)));
    }

    #[test]
    fn signs() {
        // -1 < 0 if signed; a byte of 0xff extended by its sign is -1.
        check(&[0x22, 0xff, 0x16, 8, 0x22, 0, 0x14, 0x27], Ok(true));
        check(&[0x22, 0xff, 0x16, 8, 0x22, 0, 0x15, 0x27], Ok(false));
        check(&[0x22, 0xff, 0x16, 8, 0x2a, 4, 0x22, 0x0f, 0x13, 0x27], Ok(true));
    }

    #[test]
    fn jumps() {
        // if (1) goto 7, else 0
        check(&[0x22, 1, 0x20, 0, 8, 0x22, 0, 0x27, 0x22, 5, 0x27], Ok(true));
        check(&[0x21, 0, 0], Err(Failure::TooLong));
        check(&[0x21, 0xff, 0xff], Err(Failure::Damaged));
    }

    #[test]
    fn rotation_is_as_documented() {
        // 1 2 3 becomes 3 1 2: what is on top is 2, below it 1.
        let rotated = [0x22, 1, 0x22, 2, 0x22, 3, 0x33];
        check(&[&rotated[..], &[0x22, 2, 0x13, 0x27]].concat(), Ok(true));
        check(&[&rotated[..], &[0x29, 0x22, 1, 0x13, 0x27]].concat(), Ok(true));
    }

    #[test]
    fn misuse_is_told() {
        check(&[], Err(Failure::Damaged));
        check(&[0x27], Err(Failure::Stack));
        check(&[0x02], Err(Failure::Stack));
        check(&[0x22, 1, 0x22, 0, 0x06, 0x27], Err(Failure::Division));
        check(&[0x0c], Err(Failure::Unknown(0x0c)));
        check(&[0x22, 1, 0x28, 0x21, 0, 2], Err(Failure::Stack));
    }

    proptest! {
        #[test]
        fn no_code_makes_it_panic(code in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = holds(&code, &Simple);
        }
    }
}
