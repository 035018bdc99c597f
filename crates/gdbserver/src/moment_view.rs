//! A moment as conditions of breakpoints see it.

use std::sync::OnceLock;

use retro_query::{Error, Registers, Sample, SampledWindow, State};

use crate::conditions::Moment;
use crate::registers::Layout;

/// The registers of one thread, and memory.
pub struct MomentView<'a> {
    state: &'a State,
    registers: Registers,
}

impl<'a> MomentView<'a> {
    /// Of a thread.
    pub fn new(state: &'a State, thread: u32) -> Result<MomentView<'a>, Error> {
        Ok(MomentView { state, registers: state.registers(Some(thread))? })
    }
}

impl Moment for MomentView<'_> {
    fn register(&self, number: u16) -> Option<u64> {
        let value = layout().value(number.into(), &self.registers)?;
        let mut bytes = [0; 8];
        let len = value.len().min(8);
        bytes[..len].copy_from_slice(&value[..len]);
        Some(u64::from_le_bytes(bytes))
    }

    fn read(&self, address: u64, buffer: &mut [u8]) -> bool {
        self.state.fill(address, buffer)
    }
}

/// The same, of a window that was looked at as a whole.
pub struct SampleView<'a> {
    /// The window.
    pub window: &'a SampledWindow,
    /// The registers, without vectors.
    pub sample: &'a Sample,
}

impl Moment for SampleView<'_> {
    fn register(&self, number: u16) -> Option<u64> {
        layout().general(number.into(), &self.sample.general)
    }

    fn read(&self, address: u64, buffer: &mut [u8]) -> bool {
        self.window.read(self.sample.time, address, buffer).unwrap_or(false)
    }
}

/// The registers of this processor: they do not change.
pub fn layout() -> &'static Layout {
    static LAYOUT: OnceLock<Layout> = OnceLock::new();
    LAYOUT.get_or_init(Layout::of_this_processor)
}
