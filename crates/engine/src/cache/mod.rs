//! The code cache: translated blocks, the links between them, and what happens when code changes.
//!
//! Two regions: *hot* holds block bodies in the order they were translated, so that a block that falls
//! through into the next often needs no jump; *cold* holds exit stubs and late entry stubs.
//!
//! Invariants:
//! 1. Every way into a block body is an exit record's patchable jump (from other blocks and from jump
//!    entries), or the engine itself. Unlinking these makes a block unreachable.
//! 2. Cache memory is never reused before a flush, and a flush happens only when no thread is in the
//!    cache: a thread that runs an invalidated block leaves it at its next exit.
//! 3. Blocks lie in the hot region in the order of their indices: a cache address is found by
//!    bisection, without locks, from a signal handler.
//! 4. A page that holds translated code and could be written is either write-protected, or all its
//!    blocks check their own bytes.

pub mod lookup;
pub mod pages;

use crate::arena::Arena;
use crate::clock::weave::Keeping;
use crate::context::{BRANCH_TABLE_ENTRIES, Context, Registers, slot};
use crate::entry::target;
use crate::gs_offset;
use crate::policy::Policy;
use crate::record::weave;
use crate::replay::stream::weave::Tracer;
use crate::sys;
use crate::table::Table;
use crate::translate::emit::{Emitter, FLAGS_REGISTER, GS_BIAS, Site, SpillRange};
use crate::translate::{
    CannotTranslate, MAX_INSTRUCTIONS, MapEntry, NOT_INTACT, Request, Translator, branch,
};
use alloc::boxed::Box;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use linux_raw_sys::general as c;
use lookup::JUMP_LOOKUP;
use retro_abi::layout::{CACHE_BASE, CACHE_SIZE, PAGE};

/// No block, no exit.
pub const NONE: u32 = u32::MAX;

/// Bytes for cold code at the end of the cache's range.
const COLD_SIZE: u64 = CACHE_SIZE / 4;

/// The cache grows in steps of this size: a huge page, which a program with much code gets from its second
/// step on. The first is made of ordinary pages, because most programs use little of it.
const COMMIT_STEP: u64 = 2 << 20;

/// An upper bound of what one block can take in either region.
const BLOCK_ROOM: u64 = 64 << 10;

/// A translated block.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// Guest address of its first instruction.
    pub pc: u64,
    /// Offset of its body from the start of the cache.
    pub body: u32,
    /// Length of its body.
    pub len: u32,
    /// First map entry.
    map: u32,
    /// Number of map entries.
    map_len: u16,
    /// Guest bytes covered.
    pub guest_len: u16,
    /// First spill range.
    spills: u32,
    /// Number of spill ranges.
    spill_len: u16,
    /// Bytes between the emitter's start and the body (the jump entry).
    lead: u16,
    /// Head of the list of exits that are linked to this block.
    incoming: u32,
    /// Next block of the same page, for the first and the last page it touches.
    pub next_in_page: [u32; 2],
    /// Whether it touches nothing that its instructions would not.
    careful: bool,
    /// Guest instructions in it.
    instructions: u8,
    /// Whether it counts itself, before its first instruction.
    counted: bool,
    /// Whether it can still be entered.
    pub valid: bool,
}

impl Block {
    /// Guest instructions in it.
    pub fn instructions(&self) -> u8 {
        self.instructions
    }

    /// First page it touches.
    pub fn first_page(&self) -> u64 {
        self.pc / PAGE
    }

    /// Last page it touches.
    pub fn last_page(&self) -> u64 {
        (self.pc + self.guest_len as u64 - 1) / PAGE
    }
}

/// A way out of a block or stub.
#[derive(Clone, Copy, Debug)]
pub struct Exit {
    /// Guest address it leads to; for `Fixed` exits, what the engine needs to know.
    pub target: u64,
    /// Offset of the branch instruction from the start of the cache.
    site: u32,
    /// Offset of its stub, which leaves for the engine.
    stub: u32,
    /// Next exit linked to the same block.
    next: u32,
    /// Block it is linked to.
    pub linked: u32,
    /// How it is patched.
    kind: Site,
    /// Whether it may be linked.
    pub linkable: bool,
}

/// Where a cache address stands in guest terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Guest address of the instruction it belongs to.
    pub pc: u64,
    /// Whether the guest's state is exactly that before this instruction.
    pub boundary: bool,
    /// Length of that instruction; 0 for code that only belongs to a boundary.
    pub guest_len: u8,
    /// The block.
    pub block: u32,
    /// What the clock must be moved by if the block is left here.
    pub unsettled: i32,
    /// Whether a replay's clock is in its register.
    pub clock_in_register: bool,
}

/// Why a block could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No room: flush and try again.
    Full,
    /// The guest faults when it fetches this instruction.
    Fetch,
}

/// Parts of the cache that signal handlers read without a lock.
struct View {
    blocks: *const Arena<Block>,
    map: *const Arena<MapEntry>,
    spills: *const Arena<SpillRange>,
    exits: *const Arena<Exit>,
    sites: *const Arena<weave::Site>,
}

/// Number of flushes so far, published for [`exit_record`].
static GENERATION: core::sync::atomic::AtomicU32 = core::sync::atomic::AtomicU32::new(0);

/// Publishes the number of flushes.
pub fn set_generation(generation: u32) {
    GENERATION.store(generation, Ordering::Release);
}

/// Target and generation of an exit, read without a lock by a thread that counts as in the cache.
pub fn exit_record(index: u32) -> (u64, u32) {
    let view = VIEW.load(Ordering::Acquire);
    // SAFETY: published before any guest code ran; the record cannot be flushed away while this
    // thread counts as in the cache.
    let exits = unsafe { &*(*view).exits };
    (exits[index].target, GENERATION.load(Ordering::Acquire))
}

/// A site of a recording policy, read without a lock by a thread that counts as in the cache.
pub fn site(index: u32) -> weave::Site {
    let view = VIEW.load(Ordering::Acquire);
    // SAFETY: as in `exit_record`.
    let sites = unsafe { &*(*view).sites };
    sites[index]
}

/// Set once, when the engine starts.
static VIEW: AtomicPtr<View> = AtomicPtr::new(core::ptr::null_mut());

/// One past the last hot byte, for [`contains`].
static HOT_END: AtomicU64 = AtomicU64::new(CACHE_BASE);

/// The cache.
pub struct CodeCache {
    /// Whether code is never writable where it is executed.
    is_protected: bool,
    hot: u64,
    hot_committed: u64,
    hot_limit: u64,
    cold: u64,
    cold_committed: u64,
    cold_limit: u64,
    /// All blocks.
    pub blocks: Arena<Block>,
    /// All exits.
    pub exits: Arena<Exit>,
    map: Arena<MapEntry>,
    spills: Arena<SpillRange>,
    sites: Arena<weave::Site>,
    /// Valid blocks by guest address.
    by_pc: Table,
    /// Blocks that were cut short, by guest address and length; some may be invalid.
    cut: Table,
    /// Jump entries by guest address: offsets from the start of the cache.
    jump_entries: Table,
    /// Code pages.
    pub pages: pages::CodePages,
    translator: Translator,
    stub: Emitter,
    /// Counters since the last report.
    pub counts: Counts,
}

/// What the cache has done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Blocks translated.
    pub blocks: u64,
    /// Guest instructions translated.
    pub instructions: u64,
    /// Blocks invalidated.
    pub invalidated: u64,
    /// Flushes.
    pub flushes: u64,
    /// Bytes emitted.
    pub bytes: u64,
}

const COLD_BASE: u64 = CACHE_BASE + CACHE_SIZE - COLD_SIZE;

/// Whether an address lies in the code cache.
pub fn contains(address: u64) -> bool {
    (CACHE_BASE..CACHE_BASE + CACHE_SIZE).contains(&address)
}

impl CodeCache {
    /// Reserves the cache's address range; blocks are thrown away when they take `limit` bytes.
    pub fn new(limit: Option<u64>) -> sys::Result<CodeCache> {
        let flags = c::MAP_PRIVATE | c::MAP_ANONYMOUS | c::MAP_NORESERVE | c::MAP_FIXED_NOREPLACE;
        // Reservations count against a limit on address space: take a small part of it only.
        let (_, address_space) = sys::resource_limit(c::RLIMIT_AS);
        let share = (address_space / 16).clamp(8 << 20, CACHE_SIZE) & !(COMMIT_STEP - 1);
        let hot_size = share.min(CACHE_SIZE - COLD_SIZE);
        let cold_size = (share / 2).min(COLD_SIZE);
        // SAFETY: MAP_FIXED_NOREPLACE never replaces a mapping.
        unsafe {
            sys::mmap(CACHE_BASE, hot_size, c::PROT_NONE, flags, -1, 0)?;
            sys::mmap(COLD_BASE, cold_size, c::PROT_NONE, flags, -1, 0)?;
        }
        let hot_end = CACHE_BASE + hot_size;
        // Blocks are larger than this on average; when a table is full, so is the cache.
        let blocks = (hot_size / 96) as usize;
        Ok(CodeCache {
            is_protected: false,
            hot: CACHE_BASE,
            hot_committed: CACHE_BASE,
            hot_limit: limit.map_or(hot_end, |l| hot_end.min(CACHE_BASE + l.max(4 * BLOCK_ROOM))),
            cold: COLD_BASE,
            cold_committed: COLD_BASE,
            cold_limit: COLD_BASE + cold_size,
            blocks: Arena::new(blocks)?,
            exits: Arena::new(2 * blocks)?,
            map: Arena::new(8 * blocks)?,
            spills: Arena::new(4 * blocks)?,
            sites: Arena::new(4 * blocks)?,
            by_pc: Table::new(1 << 10),
            cut: Table::new(1 << 4),
            jump_entries: Table::new(1 << 8),
            pages: pages::CodePages::new(),
            translator: Translator::new(),
            stub: Emitter::new(),
            counts: Counts::default(),
        })
    }

    /// Code is never to be writable where it is executed: no store of the guest changes it. It can be executed once
    /// [`CodeCache::separate`] was called.
    pub fn protect(&mut self) {
        assert!(self.hot_committed == CACHE_BASE);
        self.is_protected = true;
    }

    /// Makes the code executable, and writable at another place only. Not for a process that still makes copies of itself, since
    /// all would share it.
    pub fn separate(&mut self) -> sys::Result<()> {
        assert!(self.is_protected);
        let parts = [
            (CACHE_BASE, self.hot, self.hot_committed, self.hot_limit),
            (COLD_BASE, self.cold, self.cold_committed, self.cold_limit),
        ];
        for ((start, used, committed, end), distance) in parts.into_iter().zip(&TO_WRITABLE) {
            // SAFETY: the cache's own reservation, of which the committed part can be read and nothing is executed.
            let second = unsafe { sys::map_twice(start, end - start, used - start)? };
            distance.store(second.wrapping_sub(start), Ordering::Relaxed);
            // SAFETY: the two mappings of the cache, where code is no longer reached by references.
            unsafe { allow(start, committed - start)? };
        }
        Ok(())
    }

    /// Puts the cache at a place it never leaves and lets signal handlers find its blocks.
    pub fn publish(self) -> &'static mut CodeCache {
        let cache = Box::leak(Box::new(self));
        let view = Box::new(View {
            blocks: &raw const cache.blocks,
            map: &raw const cache.map,
            spills: &raw const cache.spills,
            exits: &raw const cache.exits,
            sites: &raw const cache.sites,
        });
        VIEW.store(Box::into_raw(view), Ordering::Release);
        cache
    }

    /// Blocks end in front of these addresses, and leave for the engine there.
    pub fn set_breakpoints(&mut self, addresses: alloc::vec::Vec<u64>) {
        self.translator.timekeeper.breakpoints = addresses;
        self.translator.timekeeper.leaves_at_breakpoints = true;
    }

    /// How blocks keep the clock.
    pub fn keep_clock(&mut self, keeping: Keeping) {
        self.translator.timekeeper.keeping = keeping;
    }

    /// Adds an address in front of which blocks end from now on, and to which none is linked.
    pub fn add_breakpoint(&mut self, address: u64) {
        let breakpoints = &mut self.translator.timekeeper.breakpoints;
        if let Err(place) = breakpoints.binary_search(&address) {
            breakpoints.insert(place, address);
            self.invalidate_range(address, address + 1);
        }
    }

    /// Whether there is such an address.
    pub fn breaks_at(&self, address: u64) -> bool {
        self.translator.timekeeper.breaks_at(address)
    }

    /// What weaves streams in.
    pub fn tracer(&mut self) -> &mut Tracer {
        &mut self.translator.timekeeper.tracer
    }

    /// The valid block at a guest address.
    pub fn find(&self, pc: u64) -> Option<u32> {
        self.by_pc.get(pc)
    }

    /// The valid block with so many instructions at a guest address.
    pub fn find_cut(&self, pc: u64, instructions: u8) -> Option<u32> {
        self.cut.get(cut_key(pc, instructions)).filter(|&block| self.blocks[block].valid)
    }

    /// Cache address of a block's body.
    pub fn body_address(&self, block: u32) -> u64 {
        CACHE_BASE + self.blocks[block].body as u64
    }

    fn commit(&mut self) -> Result<(), Failure> {
        let hot_full = self.hot + BLOCK_ROOM > self.hot_limit;
        let cold_full = self.cold + BLOCK_ROOM > self.cold_limit;
        if hot_full || cold_full {
            return Err(Failure::Full);
        }
        let is_protected = self.is_protected;
        for (first, used, committed) in [
            (CACHE_BASE, self.hot, &mut self.hot_committed),
            (COLD_BASE, self.cold, &mut self.cold_committed),
        ] {
            if used + BLOCK_ROOM > *committed {
                // SAFETY: the range lies in the cache's reservation, or its second mapping.
                unsafe {
                    if is_protected {
                        allow(*committed, COMMIT_STEP)
                    } else {
                        sys::mprotect(*committed, COMMIT_STEP, EXECUTE | WRITE)
                    }
                }
                .map_err(|_| Failure::Full)?;
                if *committed != first {
                    sys::advise_huge_pages(*committed, COMMIT_STEP);
                }
                *committed += COMMIT_STEP;
            }
        }
        Ok(())
    }

    /// Translates a block and makes it known, unless it is a one-off.
    pub fn translate<P: Policy>(
        &mut self,
        policy: &mut P,
        pc: u64,
        code: &[u8],
        how: How,
        peek: &dyn Fn(u64, &mut [u8]) -> usize,
    ) -> Result<u32, Failure> {
        self.commit()?;
        let first_exit = self.exits.len() as u32;
        let request = Request {
            pc,
            code,
            max_instructions: match how.limit {
                Limit::None => MAX_INSTRUCTIONS,
                Limit::Once => 1,
                Limit::Cut(instructions) => (instructions as usize).clamp(1, MAX_INSTRUCTIONS),
            },
            address: self.hot,
            first_exit,
            jump_entry: how.jump_entry,
            careful: how.careful,
            checked: how.checked && how.limit == Limit::None,
            linkable: how.limit == Limit::None,
            keeps_flags: matches!(how.limit, Limit::Cut(_)),
            side_exits: P::REPLAYS,
            cold_address: self.cold,
            first_site: self.sites.len() as u32,
            peek,
        };
        self.translator
            .translate(policy, &request)
            .map_err(|CannotTranslate::OutOfBytes| Failure::Fetch)?;
        let translator = &self.translator;
        let len = translator.out.here();
        let index = self.blocks.len() as u32;
        let map = self.map.extend(&translator.map).ok_or(Failure::Full)?;
        let spills = self.spills.extend(&translator.out.spills).ok_or(Failure::Full)?;
        write_code(self.hot, &translator.out.bytes);
        let cold_start = self.cold;
        if P::COUNTS {
            self.sites.extend(&translator.out.sites).ok_or(Failure::Full)?;
            write_code(self.cold, &translator.out.cold.bytes);
            self.cold += translator.out.cold.here() as u64;
        }
        let block = Block {
            pc,
            body: (self.hot - CACHE_BASE) as u32 + translator.body as u32,
            len: (len - translator.body) as u32,
            map,
            map_len: translator.map.len() as u16,
            guest_len: translator.guest_len as u16,
            spills,
            spill_len: translator.out.spills.len() as u16,
            lead: translator.body as u16,
            incoming: NONE,
            next_in_page: [NONE; 2],
            careful: how.careful,
            instructions: translator.instructions as u8,
            counted: P::COUNTS,
            valid: true,
        };
        self.blocks.push(block).ok_or(Failure::Full)?;
        self.counts.blocks += 1;
        self.counts.instructions += translator.instructions as u64;
        let start = self.hot;
        self.counts.bytes += len as u64;
        self.hot += len as u64;
        HOT_END.store(self.hot, Ordering::Release);
        self.add_exits(start, cold_start)?;
        match how.limit {
            Limit::Once => return Ok(index),
            Limit::Cut(instructions) => {
                self.cut.insert(cut_key(pc, instructions), index);
                self.add_to_pages(index);
                return Ok(index);
            }
            Limit::None => {}
        }
        self.by_pc.insert(pc, index);
        self.add_to_pages(index);
        if how.jump_entry {
            self.link(first_exit, index);
            self.jump_entries.insert(pc, (start - CACHE_BASE) as u32);
            JUMP_LOOKUP.insert(pc, start);
        }
        Ok(index)
    }

    /// Creates records and stubs for the exits of the code just emitted at `start`, and of its cold code.
    fn add_exits(&mut self, start: u64, cold_start: u64) -> Result<(), Failure> {
        for position in 0..self.translator.out.exits.len() {
            let exit = self.translator.out.exits[position];
            self.add_exit(start, exit)?;
        }
        for position in 0..self.translator.out.cold.exits.len() {
            let exit = self.translator.out.cold.exits[position];
            self.add_exit(cold_start, exit)?;
        }
        Ok(())
    }

    fn add_exit(
        &mut self,
        start: u64,
        exit: crate::translate::emit::NewExit,
    ) -> Result<(), Failure> {
        let index = self.exits.len() as u32;
        let stub = self.cold;
        if exit.site != Site::Fixed {
            self.stub.begin(stub, index);
            self.stub.store_gs_imm32(gs_offset!(exit_index), index);
            self.stub.jump_to(target::exit_direct());
            write_code(stub, &self.stub.bytes);
            self.cold += self.stub.here() as u64;
        }
        let site = start + exit.offset as u64;
        let record = Exit {
            target: exit.target,
            site: (site - CACHE_BASE) as u32,
            stub: (stub - CACHE_BASE) as u32,
            next: NONE,
            linked: NONE,
            kind: exit.site,
            linkable: exit.linkable,
        };
        self.exits.push(record).ok_or(Failure::Full)?;
        patch(&record, stub);
        Ok(())
    }

    /// Links an exit to a block: from now on the branch goes straight there.
    pub fn link(&mut self, exit: u32, block: u32) {
        let record = self.exits[exit];
        if !record.linkable || record.linked != NONE || !self.blocks[block].valid {
            return;
        }
        debug_assert_eq!(record.target, self.blocks[block].pc);
        let head = self.blocks[block].incoming;
        let slot = self.exits.get_mut(exit);
        slot.linked = block;
        slot.next = head;
        self.blocks.get_mut(block).incoming = exit;
        patch(&record, self.body_address(block));
    }

    /// The entry stub for indirect jumps to a block, made when first needed.
    pub fn jump_entry(&mut self, block: u32) -> Result<u64, Failure> {
        let pc = self.blocks[block].pc;
        if let Some(offset) = self.jump_entries.get(pc) {
            let address = CACHE_BASE + offset as u64;
            JUMP_LOOKUP.insert(pc, address);
            return Ok(address);
        }
        let address = self.entry_stub(block, |out| branch::jump_entry(out, pc))?;
        self.jump_entries.insert(pc, (address - CACHE_BASE) as u32);
        JUMP_LOOKUP.insert(pc, address);
        Ok(address)
    }

    fn entry_stub(&mut self, block: u32, emit: impl FnOnce(&mut Emitter)) -> Result<u64, Failure> {
        self.commit()?;
        let start = self.cold;
        let first_exit = self.exits.len() as u32;
        let mut out = core::mem::take(&mut self.stub);
        out.begin(start, first_exit);
        emit(&mut out);
        write_code(start, &out.bytes);
        self.cold += out.here() as u64;
        let exit = out.exits[0];
        self.stub = out;
        self.add_exit(start, exit)?;
        self.link(first_exit, block);
        Ok(start)
    }

    /// Makes a block unreachable.
    pub fn invalidate(&mut self, block: u32) {
        let record = self.blocks.get_mut(block);
        if !record.valid {
            return;
        }
        record.valid = false;
        let pc = record.pc;
        let mut exit = core::mem::replace(&mut record.incoming, NONE);
        while exit != NONE {
            let slot = self.exits.get_mut(exit);
            let next = core::mem::replace(&mut slot.next, NONE);
            slot.linked = NONE;
            let record = *slot;
            patch(&record, CACHE_BASE + record.stub as u64);
            exit = next;
        }
        if self.by_pc.get(pc) == Some(block) {
            self.by_pc.remove(pc);
        }
        self.counts.invalidated += 1;
    }

    /// From now on others may write guest memory at any moment; says whether that is news.
    pub fn expect_other_writers(&mut self) -> bool {
        let settings = &mut self.translator.weaver.settings;
        !core::mem::replace(&mut settings.shared, true)
    }

    /// From now on the guest's whole state must be recoverable wherever it can fault; says whether that is news.
    pub fn make_precise(&mut self) -> bool {
        let settings = &mut self.translator.weaver.settings;
        !core::mem::replace(&mut settings.precise, true)
    }

    /// Throws everything away. No thread may be in the cache, and every thread's branch tables must
    /// be reset before it enters again.
    pub fn flush(&mut self) {
        self.hot = CACHE_BASE;
        self.cold = COLD_BASE;
        HOT_END.store(CACHE_BASE, Ordering::Release);
        self.blocks.clear();
        self.exits.clear();
        self.map.clear();
        self.spills.clear();
        self.sites.clear();
        self.by_pc.clear();
        self.cut.clear();
        self.jump_entries.clear();
        self.pages.forget_blocks();
        JUMP_LOOKUP.clear();
        self.counts.flushes += 1;
    }
}

/// How much of a block is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Limit {
    /// All of it.
    #[default]
    None,
    /// A single instruction; it returns to the engine and is forgotten.
    Once,
    /// So many instructions, after which it returns to the engine.
    Cut(u8),
}

/// Guest addresses have 47 bits.
fn cut_key(pc: u64, instructions: u8) -> u64 {
    pc | (instructions as u64) << 48
}

/// How a block is made.
#[derive(Clone, Copy, Debug, Default)]
pub struct How {
    /// How much of it.
    pub limit: Limit,
    /// With an entry for indirect jumps in front.
    pub jump_entry: bool,
    /// Checking its own bytes.
    pub checked: bool,
    /// Touching nothing that its instructions would not.
    pub careful: bool,
}

/// From where code is executed to where the same memory can be written: for the first part of the cache, and for the cold one.
static TO_WRITABLE: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

fn writable(address: u64) -> u64 {
    let part = (address >= COLD_BASE) as usize;
    address.wrapping_add(TO_WRITABLE[part].load(Ordering::Relaxed))
}

const EXECUTE: u32 = c::PROT_READ | c::PROT_EXEC;
const WRITE: u32 = c::PROT_READ | c::PROT_WRITE;

/// Makes a part of a protected cache writable, and executable where it is to be executed, if that is another place by now.
///
/// # Safety
/// The part is the cache's.
unsafe fn allow(address: u64, len: u64) -> sys::Result<()> {
    let second = writable(address);
    // SAFETY: passed on.
    unsafe {
        sys::mprotect(second, len, WRITE)?;
        if second == address { Ok(()) } else { sys::mprotect(address, len, EXECUTE) }
    }
}

fn write_code(address: u64, bytes: &[u8]) {
    // SAFETY: the caller has committed this part of the cache, and no code there is reachable yet.
    unsafe {
        core::ptr::copy_nonoverlapping(bytes.as_ptr(), writable(address) as *mut u8, bytes.len());
    }
}

/// Points a branch at an address with one atomic store, so that threads running through it see the
/// old branch or the new one.
fn patch(exit: &Exit, to: u64) {
    let site = CACHE_BASE + exit.site as u64;
    let (len, displacement_at) = match exit.kind {
        Site::Jump => (5, 1),
        Site::Conditional => (6, 2),
        Site::Fixed => return,
    };
    let displacement = to.wrapping_sub(site + len) as u32;
    // The emitter keeps these bytes inside one aligned word.
    let field = site + displacement_at;
    let word_at = field & !7;
    let shift = (field - word_at) * 8;
    // SAFETY: an aligned word in committed cache memory, written only under the engine's lock.
    let word = unsafe { AtomicU64::from_ptr(writable(word_at) as *mut u64) };
    let mut value = word.load(Ordering::Relaxed);
    value = value & !(0xffff_ffff << shift) | (displacement as u64) << shift;
    if exit.kind == Site::Jump {
        let opcode_shift = shift - 8;
        if displacement == 0 {
            // 0f 1f 44 00 00: the jump goes to the next byte.
            value = value & !(0xff_ffff_ffff << opcode_shift) | 0x00_0044_1f0f << opcode_shift;
        } else {
            value = value & !(0xff << opcode_shift) | 0xe9 << opcode_shift;
        }
    }
    word.store(value, Ordering::Release);
}

/// What emitted code keeps outside the registers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Saved {
    /// The spill slots.
    pub spill: [u64; slot::COUNT],
    /// The guest's GS base.
    pub gs_base: u64,
}

impl Saved {
    /// What a thread has saved.
    pub fn of(context: &Context) -> Saved {
        Saved { spill: context.spill, gs_base: context.guest_gs_base }
    }
}

/// Finds out where a cache address stands and restores the spilled registers of its position.
/// Callable from signal handlers: takes no lock.
pub fn recover(address: u64, registers: &mut Registers, saved: &Saved) -> Option<Position> {
    let view = VIEW.load(Ordering::Acquire);
    if view.is_null() || !(CACHE_BASE..HOT_END.load(Ordering::Acquire)).contains(&address) {
        return None;
    }
    // SAFETY: published once and never freed; elements below `len` never move (see `Arena`).
    let (blocks, map, spills) = unsafe { (&*(*view).blocks, &*(*view).map, &*(*view).spills) };
    let offset = (address - CACHE_BASE) as u32;
    let blocks = blocks.as_slice();
    let index = blocks.partition_point(|b| b.body <= offset).checked_sub(1)?;
    let block = &blocks[index];
    let within = offset - block.body;
    if within >= block.len {
        return None;
    }
    let entries = &map.as_slice()[block.map as usize..][..block.map_len as usize];
    let mut pc = block.pc;
    let mut start = 0u32;
    let mut position = None;
    let mut instruction = 0;
    for entry in entries {
        let end = start + entry.cache_len as u32;
        let guest_len = entry.guest_len & !NOT_INTACT;
        if within < end {
            let boundary = within == start && entry.guest_len & NOT_INTACT == 0;
            let unsettled = match block.counted && (instruction > 0 || guest_len != 0) {
                true => instruction as i32 - block.instructions as i32,
                false => 0,
            };
            position = Some(Position {
                pc,
                boundary,
                guest_len,
                block: index as u32,
                unsettled,
                clock_in_register: false,
            });
            break;
        }
        pc += guest_len as u64;
        instruction += (guest_len != 0) as u8;
        start = end;
    }
    let mut position = position?;
    let ranges = &spills.as_slice()[block.spills as usize..][..block.spill_len as usize];
    let emitted = within + block.lead as u32;
    for range in ranges {
        if (range.start as u32..range.end as u32).contains(&emitted) {
            if range.register == FLAGS_REGISTER {
                registers.rflags =
                    with_saved_flags(registers.rflags, saved.spill[range.slot as usize]);
                continue;
            }
            position.clock_in_register |= range.slot == slot::CLOCK;
            let register = &mut registers.gpr[range.register as usize];
            *register = match range.slot {
                GS_BIAS => register.wrapping_sub(saved.gs_base),
                slot => saved.spill[slot as usize],
            };
        }
    }
    Some(position)
}

/// Flags with the arithmetic ones as `lahf; seto al` left them in ax.
fn with_saved_flags(rflags: u64, ax: u64) -> u64 {
    const LOW: u64 = 0xd5;
    const OVERFLOW: u64 = 0x800;
    rflags & !(LOW | OVERFLOW) | ax >> 8 & LOW | ((ax & 1) * OVERFLOW)
}

/// Whether the block at a cache address was made carefully.
pub fn is_careful(address: u64) -> bool {
    let view = VIEW.load(Ordering::Acquire);
    let position = recover(address, &mut Registers::default(), &Saved::default());
    // SAFETY: published once and never freed.
    position.is_some_and(|p| unsafe { (&*(*view).blocks)[p.block].careful })
}

/// Forgets what a thread's branch table says, after a flush.
pub fn reset_branch_table(context: &mut Context) {
    let end = core::ptr::from_mut(context) as i64 + crate::context::CONTEXT_SIZE as i64;
    let start = (end + crate::context::JUMP_TABLE as i64) as *mut u64;
    // SAFETY: the table lies in front of every context, in the same allocation.
    let table = unsafe { core::slice::from_raw_parts_mut(start, BRANCH_TABLE_ENTRIES) };
    table.fill(target::jump_miss());
}
