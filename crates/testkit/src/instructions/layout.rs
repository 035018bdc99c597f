//! Where the parts of a guest lie, and which addresses around them fault.
//!
//! ```text
//! base + 0x000_0000   code: the dispatcher, then one body per case           r-x
//! base + 0x100_0000   constants: case table, state images, scratch template  r--
//! base + 0x300_0000   data: the record being built, slots, stacks            rw-
//! base + 0x310_0000   scratch: what the cases read and write (two pages)     rw-
//!          + 0x2000   nothing
//!          + 0x3000   one read-only page                                     r--
//!          + 0x4000   nothing
//! ```
//!
//! Operands cluster around the boundary between the two scratch pages, so that many of them
//! cross it; the edges of the scratch area are for the cases that are meant to fault.
//!
//! Invariant: both neighbours of the scratch area are unmapped, so a runaway `rep` stops there.

/// Which addresses the guest is linked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// In the low 2 GiB, where an address fits a displacement and an immediate.
    Low,
    /// Above 4 GiB, where RIP-relative targets and return addresses do not fit 32 bits.
    High,
}

/// Bytes of the scratch area.
pub const SCRATCH_SIZE: u64 = 0x2000;

/// The addresses of a guest's parts.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Start of the code.
    pub code: u64,
    /// Start of the read-only tables.
    pub constants: u64,
    /// Start of the dispatcher's writable data.
    pub data: u64,
    /// Start of the scratch area.
    pub scratch: u64,
    /// The read-only page behind the scratch area.
    pub read_only: u64,
    /// Whether all of it lies below 2 GiB.
    pub is_low: bool,
}

impl Layout {
    /// The layout for `placement`.
    pub fn new(placement: Placement) -> Layout {
        let base = match placement {
            Placement::Low => 0x40_0000,
            Placement::High => 0x20_0000_0000,
        };
        let scratch = base + 0x310_0000;
        Layout {
            code: base,
            constants: base + 0x100_0000,
            data: base + 0x300_0000,
            scratch,
            read_only: scratch + SCRATCH_SIZE + 0x1000,
            is_low: placement == Placement::Low,
        }
    }

    /// The boundary between the two scratch pages.
    pub fn middle(&self) -> u64 {
        self.scratch + SCRATCH_SIZE / 2
    }

    /// One past the scratch area.
    pub fn scratch_end(&self) -> u64 {
        self.scratch + SCRATCH_SIZE
    }
}
