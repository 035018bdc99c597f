//! Conditional jumps that were not taken.
//!
//! Replay goes through them: its blocks go on behind a jump that is not taken. For queries a block ends there. Which
//! instructions of a block jump, their bytes tell, as they are in memory when the block runs. Code of files does not
//! change; what is known of it is kept.

use std::collections::HashMap;
use std::rc::Rc;

use crate::run::{Process, Run};
use crate::trace::TracedBlock;
use crate::{Error, Moment};

/// Blocks that are kept.
const KEPT: usize = 1 << 18;

/// Bytes that may stand before an instruction's code and change nothing about what it is.
const PREFIXES: [u8; 8] = [0x2e, 0x36, 0x3e, 0x64, 0x65, 0x66, 0x67, 0xf2];

/// What is known of blocks: for each instruction, whether it jumps on a condition.
#[derive(Default)]
pub(super) struct Branches {
    /// By address and length.
    known: HashMap<(u64, usize), Rc<[bool]>>,
}

impl Branches {
    /// The instructions of a block that jump on a condition.
    pub(super) fn of(
        &mut self,
        run: &Run,
        process: &Process,
        block: &TracedBlock<'_>,
    ) -> Result<Rc<[bool]>, Error> {
        let key = (block.pc, block.lengths.len());
        if let Some(known) = self.known.get(&key) {
            return Ok(Rc::clone(known));
        }
        let moment = Moment { log: process.log, time: block.time };
        let bytes = run.memory(moment, block.pc, block.pc_at(block.end()) - block.pc)?;
        let mut rest = bytes.as_slice();
        let jumps = block.lengths.iter().map(|&len| {
            let (instruction, behind) = rest.split_at(usize::from(len).min(rest.len()));
            rest = behind;
            is_conditional_jump(instruction)
        });
        let jumps: Rc<[bool]> = jumps.collect();
        if run.symbols().module_at(process.log, block.time, block.pc).is_some() {
            if self.known.len() >= KEPT {
                self.known.clear();
            }
            self.known.insert(key, Rc::clone(&jumps));
        }
        Ok(jumps)
    }
}

/// `jcc`, `loop` and its relatives, `jrcxz`.
fn is_conditional_jump(instruction: &[u8]) -> bool {
    let is_prefix = |byte: &u8| PREFIXES.contains(byte) || (0x40..=0x4f).contains(byte);
    let code = instruction.iter().position(|byte| !is_prefix(byte)).map(|at| &instruction[at..]);
    matches!(code, Some([0x70..=0x7f | 0xe0..=0xe3, ..] | [0x0f, 0x80..=0x8f, ..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditional_jumps_are_told_apart() {
        for jump in [
            &[0x74, 0x05][..],
            &[0x7f, 0xfe],
            &[0x0f, 0x84, 1, 0, 0, 0],
            &[0x3e, 0x75, 0x01],
            &[0xf2, 0x0f, 0x8f, 0, 0, 0, 0],
            &[0xe2, 0xfc],
            &[0x67, 0xe3, 0xfc],
        ] {
            assert!(is_conditional_jump(jump), "{jump:x?}");
        }
        for other in [
            &[0xeb, 0x05][..],
            &[0xe9, 0, 0, 0, 0],
            &[0x0f, 0x94, 0xc0],
            &[0x0f, 0x44, 0xc1],
            &[0x90],
            &[0x48, 0x89, 0xe5],
            &[],
        ] {
            assert!(!is_conditional_jump(other), "{other:x?}");
        }
    }
}
