//! The memory that a traced block works on: code and data of the guest, their shadow, and the context that emitted
//! code finds through GS. It is shared with the traced child, at the places where the engine would have it.

use retro_abi::layout::{PAGE, SHADOW_DISTANCE};
use retro_engine::context::{CLOCK, slot, spill_offset};
use retro_engine::gs_offset;
use std::io;

/// Bytes of data.
pub const DATA_LEN: usize = 2 * PAGE as usize;

/// Distance from a place's code to its data.
const DATA_DISTANCE: u64 = 0x4_0000;

/// A part of the guest's address space: code, and further up data.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Where its code begins.
    pub code: u64,
}

/// Where modules usually are.
pub const LOW: Place = Place { code: 0x1000_0000 };

/// Where addresses take more than 32 bits.
pub const HIGH: Place = Place { code: 0x1700_0000_0000 };

impl Place {
    /// Where its data begins.
    pub fn data(self) -> u64 {
        self.code + DATA_DISTANCE
    }
}

fn map(start: u64, end: u64, protection: i32) {
    let (start, end) = (start & !(PAGE - 1), end.next_multiple_of(PAGE));
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    let at = start as *mut libc::c_void;
    // SAFETY: MAP_FIXED_NOREPLACE never replaces a mapping.
    let mapped = unsafe { libc::mmap(at, (end - start) as usize, protection, flags, -1, 0) };
    assert_eq!(mapped, at, "mmap at {start:#x}: {}", io::Error::last_os_error());
}

/// All of it. Only one exists, because its places are fixed.
pub struct Memory(());

impl Memory {
    /// Maps it.
    pub fn new() -> Memory {
        for place in [LOW, HIGH] {
            let data = place.data();
            let all = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
            map(place.code, data, all);
            map(data, data + DATA_LEN as u64, libc::PROT_READ | libc::PROT_WRITE);
            let shadow = data + SHADOW_DISTANCE;
            map(shadow, shadow + DATA_LEN as u64, libc::PROT_READ | libc::PROT_WRITE);
        }
        let clock = SHADOW_DISTANCE.wrapping_add_signed(CLOCK as i64);
        map(clock, SHADOW_DISTANCE, libc::PROT_READ | libc::PROT_WRITE);
        Memory(())
    }

    fn bytes(&mut self, address: u64, len: usize) -> &mut [u8] {
        // SAFETY: called for the ranges that `new` has mapped; the child that shares them stands still while
        // this process runs, and the borrow of `self` keeps slices apart.
        unsafe { std::slice::from_raw_parts_mut(address as *mut u8, len) }
    }

    /// Guest code.
    pub fn code(&mut self, address: u64, len: usize) -> &mut [u8] {
        self.bytes(address, len)
    }

    /// Data of a place.
    pub fn data(&mut self, place: Place) -> &mut [u8] {
        self.bytes(place.data(), DATA_LEN)
    }

    /// The shadow of a place's data.
    pub fn shadow(&mut self, place: Place) -> &mut [u8] {
        self.bytes(place.data() + SHADOW_DISTANCE, DATA_LEN)
    }

    /// A word of the context.
    pub fn context(&mut self, offset: i32) -> &mut [u8; 8] {
        let address = SHADOW_DISTANCE.wrapping_add_signed(offset as i64);
        self.bytes(address, 8).try_into().expect("eight bytes")
    }

    /// The clock's word.
    pub fn clock(&mut self) -> i64 {
        i64::from_le_bytes(*self.context(CLOCK))
    }

    /// The exit or site that emitted code has named last.
    pub fn exit_index(&mut self) -> u32 {
        let word = *self.context(gs_offset!(exit_index));
        u32::from_le_bytes([word[0], word[1], word[2], word[3]])
    }

    /// The spill slots.
    pub fn spill(&mut self) -> [u64; slot::COUNT] {
        std::array::from_fn(|slot| u64::from_le_bytes(*self.context(spill_offset(slot as u8))))
    }
}
