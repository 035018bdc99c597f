//! What translating a block produces: its code, the cold code beside it, and the sites from which the engine is asked.
//!
//! Hot code is what is usually executed; [`Output`] stands for it wherever an [`Emitter`] is wanted. Cold code lies elsewhere in the
//! cache: side exits, and what leaves for the engine when a check fails.
//!
//! Invariant: at every exit the clock is in its register. Where a block has the guest's own value there
//! ([`Output::clock_is_away`]), exits change places, and so does the way back.

use super::address::Segment;
use super::emit::Emitter;
use crate::clock::{CLOCK_REGISTER, CLOCK_WORD};
use crate::context::{slot, spill_offset};
use crate::gs_offset;
use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};

/// No register.
pub const NO_REGISTER: u8 = 0xff;

/// A place in a block from which the engine is asked: what it must know there.
#[derive(Clone, Copy, Debug)]
pub struct Site {
    /// Guest address of the instruction.
    pub pc: u64,
    /// Cache address to go on at.
    pub resume: u64,
    /// The same in hot code, where the guest's registers are in place.
    pub again: u64,
    /// Displacement of the operand.
    pub displacement: i64,
    /// Registers of the operand, [`NO_REGISTER`] for none.
    pub base: u8,
    /// Index register.
    pub index: u8,
    /// Logarithm of the index's scale.
    pub scale: u8,
    /// Segment.
    pub segment: Segment,
    /// Whether the address is cut to 32 bits.
    pub narrow: bool,
    /// Bytes of the operand.
    pub len: u8,
    /// A register that holds what was loaded, if the instruction cannot start over.
    pub value: u8,
    /// What to add to the clock's time to get the time of the instruction.
    pub adjust: i16,
}

impl Site {
    /// Without an operand.
    pub fn at(pc: u64) -> Site {
        Site {
            pc,
            resume: 0,
            again: 0,
            displacement: 0,
            base: NO_REGISTER,
            index: NO_REGISTER,
            scale: 0,
            segment: Segment::Flat,
            narrow: false,
            len: 0,
            value: NO_REGISTER,
            adjust: 0,
        }
    }
}

/// The code of one block.
pub struct Output {
    hot: Emitter,
    /// Code that is rarely executed.
    pub cold: Emitter,
    /// Sites of this block, in the order of their numbers.
    pub sites: Vec<Site>,
    /// Whether the guest's own value is in the clock's register, and the clock in its word.
    pub clock_is_away: bool,
    first_site: u32,
    /// Offset in cold code of the last jump back to hot code.
    jump_back: Option<usize>,
}

impl Output {
    /// With empty buffers, which are reused from block to block.
    pub fn new() -> Output {
        Output {
            hot: Emitter::new(),
            cold: Emitter::new(),
            sites: Vec::with_capacity(64),
            clock_is_away: false,
            first_site: 0,
            jump_back: None,
        }
    }

    /// Starts a block at these addresses; its first site gets the number `first_site`.
    pub fn begin(&mut self, address: u64, first_exit: u32, cold_address: u64, first_site: u32) {
        self.hot.begin(address, first_exit);
        self.cold.begin(cold_address, 0);
        self.sites.clear();
        self.clock_is_away = false;
        self.first_site = first_site;
        self.jump_back = None;
    }

    fn next_site(&self) -> u32 {
        self.first_site + self.sites.len() as u32
    }

    /// Cold code that goes to the engine, naming a site, and from there on to `site.resume`.
    pub fn leave_for(&mut self, site: Site, entry: u64) {
        let number = self.next_site();
        if self.clock_is_away {
            take_clock(&mut self.cold);
        }
        self.cold.store_gs_imm32(gs_offset!(exit_index), number);
        self.cold.jump_to(entry);
        self.sites.push(Site { again: site.resume, ..site });
        self.jump_back = None;
        if self.clock_is_away {
            let resume = self.cold.next_address();
            give_clock(&mut self.cold);
            self.jump_back = Some(self.cold.here());
            self.cold.jump_to(site.resume);
            if let Some(last) = self.sites.last_mut() {
                last.resume = resume;
            }
        }
    }

    /// The last site goes on here: its instruction has happened, and what it has loaded is in a register.
    pub fn goes_on_with(&mut self, register: u8, len: u8) {
        let here = self.hot.next_address();
        if let Some(at) = self.jump_back {
            self.cold.redirect(at, here);
        }
        let away = self.jump_back.is_some();
        if let Some(site) = self.sites.last_mut() {
            let resume = if away { site.resume } else { here };
            *site = Site { value: register, len, resume, again: here, ..*site };
        }
    }

    /// Leaves for the engine here and goes on behind.
    pub fn ask(&mut self, site: Site, entry: u64) {
        let number = self.next_site();
        let mark = self.clock_is_away.then(|| self.hot.spill(CLOCK_REGISTER, slot::CLOCK));
        if mark.is_some() {
            self.hot.load_gs(CLOCK_REGISTER, CLOCK_WORD);
        }
        self.hot.store_gs_imm32(gs_offset!(exit_index), number);
        self.hot.jump_to(entry);
        let resume = self.hot.next_address();
        self.sites.push(Site { resume, again: resume, ..site });
        if let Some(mark) = mark {
            self.hot.store_gs(CLOCK_REGISTER, CLOCK_WORD);
            self.hot.unspill(mark);
        }
    }
}

/// The clock comes to its register, the guest's value goes to its slot.
pub fn take_clock(out: &mut Emitter) {
    out.store_gs(CLOCK_REGISTER, spill_offset(slot::CLOCK));
    out.load_gs(CLOCK_REGISTER, CLOCK_WORD);
}

/// The other way round.
fn give_clock(out: &mut Emitter) {
    out.store_gs(CLOCK_REGISTER, CLOCK_WORD);
    out.load_gs(CLOCK_REGISTER, spill_offset(slot::CLOCK));
}

impl Default for Output {
    fn default() -> Self {
        Output::new()
    }
}

impl Deref for Output {
    type Target = Emitter;

    fn deref(&self) -> &Emitter {
        &self.hot
    }
}

impl DerefMut for Output {
    fn deref_mut(&mut self) -> &mut Emitter {
        &mut self.hot
    }
}
