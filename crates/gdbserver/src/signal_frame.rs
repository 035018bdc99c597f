//! The registers of a thread in front of a signal's handler.
//!
//! A signal takes no time: at its time the thread is already in the handler. Debuggers show where the signal struck, and that is
//! in the frame that the kernel made for the handler to return by.

use retro_abi::log::register;
use retro_query::{Error, Registers, State};

/// Numbers of registers in the log.
const RDX: usize = 2;
const RIP: usize = register::RIP as usize;
const RFLAGS: usize = register::RFLAGS as usize;

/// Where the frame has its registers, and in which order, by their numbers in the log.
const CONTEXT: u64 = 40;
const ORDER: [usize; 18] = [8, 9, 10, 11, 12, 13, 14, 15, 7, 6, 5, 3, 2, 0, 1, 4, RIP, RFLAGS];

/// Where the frame says where its vector state is.
const VECTORS: u64 = CONTEXT + 23 * 8;

/// What the registers of a thread were when a signal struck, from those at the handler's first instruction. The same if there is
/// no frame.
pub fn interrupted(state: &State, mut registers: Registers) -> Result<Registers, Error> {
    // The kernel gives the frame to every handler as its third argument, whether it wants it or not.
    let frame = registers.general[RDX];
    let bytes = state.read(frame.wrapping_add(CONTEXT), ORDER.len() as u64 * 8)?;
    let (values, _) = bytes.as_chunks::<8>();
    if values.len() < ORDER.len() {
        return Ok(registers);
    }
    for (&number, value) in ORDER.iter().zip(values) {
        registers.general[number] = u64::from_le_bytes(*value);
    }
    let image = state.read(frame.wrapping_add(VECTORS), 8)?;
    if let Some(at) = image.first_chunk().map(|at| u64::from_le_bytes(*at))
        && at != 0
    {
        let image = state.read(at, registers.vectors.len() as u64)?;
        // A frame without the newer parts leaves them as they are.
        registers.vectors[..image.len()].copy_from_slice(&image);
    }
    Ok(registers)
}
