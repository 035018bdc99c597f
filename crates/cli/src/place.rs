//! Where an instruction of a recorded run is, for people.

use std::sync::Arc;

use retro_recording::Recording;
use retro_symbols::{Place, Symbols};

use crate::quoting::printable;

/// The best name for an address, safe for a terminal.
pub fn text(place: &Place) -> String {
    printable(place.to_string().as_bytes())
}

/// An address of a process at a time, with its name if it has one: `0x10001149, main+0x1f (hello.c:12)`.
pub fn describe(recording: &Arc<Recording>, log: u64, time: u64, pc: u64) -> String {
    let place = Symbols::new(Arc::clone(recording)).place(log, time, pc);
    match place.module {
        Some(_) => format!("{pc:#x}, {}", text(&place)),
        None => format!("{pc:#x}"),
    }
}
