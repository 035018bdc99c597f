//! Recording: the log of everything that a replay cannot compute by itself.
//!
//! Problem: replay any part of a run exactly, from nothing but a log, at little cost while the program runs.
//! Strategy: keep a [`shadow`] of memory with what a replay's memory will hold; emitted code ([`weave`]) compares
//! every load with it and leaves for [`mismatch`] where they differ, so that whoever changed memory need not be
//! known. On top of that the log tells what people ask about: system calls with their [`effects`], signals, the
//! address space ([`maps`]), threads ([`schedule`]), code.
//!
//! | module | what |
//! | --- | --- |
//! | [`weave`] | emitted code: checks, doubled stores |
//! | [`shadow`] | the second copy of memory |
//! | [`channel`] | the recorder's shared memory |
//! | [`access`], [`strings`] | instructions that emitted code cannot follow |
//! | [`effects`] | which memory system calls write |
//! | [`maps`] | address-space changes and file identities |
//! | [`own_death`] | how a process ends that kills itself |
//! | [`reaped`] | how its children ended, if a signal killed them |
//! | [`schedule`] | one thread at a time |
//! | [`kicks`] | when the recorder may ask for one |
//! | [`intervals`] | resets of the shadow, which make parts of the log independent |
//! | [`sums`] | sums of the shadow, for replays to compare |
//!
//! Time is the number of guest instructions that the process has retired, whatever thread they belong to; an
//! instruction's time is the number retired before it.
//!
//! Invariants:
//! 1. Only the thread that runs the guest writes the log, in the order in which things happen.
//! 2. Whatever changes guest memory without the guest is either logged at once, or found by the next load.
//! 3. In a process that is not recorded every function here does nothing.

pub mod access;
pub mod channel;
pub mod effects;
mod handed_over;
pub mod intervals;
pub mod kicks;
pub mod maps;
mod own_death;
pub mod process;
mod reaped;
pub mod schedule;
pub mod shadow;
pub mod strings;
pub mod sums;
pub mod weave;

use crate::cache;
use crate::clock;
use crate::code_map::{CodeMap, News};
use crate::context::{Context, ExitKind, Gpr, Registers};
use crate::lock::{Guard, Lock};
use crate::policy::{Events, Nondeterministic, Policy};
use crate::signals::{Arrived, PENDING_DEADLINE, TRAP_FLAG};
use crate::vectors::{self, Image};
use channel::{Writer, bump32};
use core::sync::atomic::{AtomicBool, Ordering};
use retro_abi::channel::Stream;
use retro_abi::layout::PAGE;
use retro_abi::log::{Event, MAX_BYTES, RegisterSet, check_sum, register};
use retro_abi::stats::Stats;
use weave::{NO_REGISTER, Site};

/// The recording policy.
#[derive(Clone, Copy, Debug, Default)]
pub struct Record;

impl Policy for Record {
    const ACCESSES: bool = false;
    const BLOCK_ENTRY: bool = false;
    const INTERCEPT_NONDETERMINISTIC: bool = true;
    const RECORDS: bool = true;
    const COUNTS: bool = true;
}

/// What recording a process needs to remember.
pub struct Recorder {
    writer: Writer,
    /// Number of the log.
    log: u64,
    files: maps::Files,
    /// The code logged so far.
    code: CodeMap,
    ahead: Ahead,
    /// Ranges that the instruction between `BeforeAccess` and `AfterAccess` writes.
    written: alloc::vec::Vec<(u64, usize)>,
    /// Whether there is such an instruction under way.
    in_access: bool,
    /// Whether the last instruction of that kind changes the FS base.
    loads_fs: bool,
    /// Room for a page of memory that is compared with the shadow.
    page: alloc::vec::Vec<u8>,
    intervals: intervals::Intervals,
    /// The thread that ran last.
    thread: u32,
}

/// Looks ahead when loads find differences one line after the other.
#[derive(Clone, Copy, Default)]
struct Ahead {
    next: u64,
    lines: u64,
}

static ACTIVE: AtomicBool = AtomicBool::new(false);
static WATCHING: AtomicBool = AtomicBool::new(false);
static STATE: Lock<Option<Recorder>> = Lock::new(None);

/// Whether this process is recorded.
pub fn active() -> bool {
    ACTIVE.load(Ordering::Relaxed)
}

/// Whether emitted code keeps a shadow, recorded or not: a forked child that nobody follows goes on like that.
pub fn watching() -> bool {
    WATCHING.load(Ordering::Relaxed)
}

/// Whether the emitted instruction at a cache address accesses the shadow.
pub fn touches_shadow(address: u64) -> bool {
    use crate::translate::address::Segment;
    // SAFETY: an instruction was executed from here, so these bytes are committed cache memory.
    watching() && unsafe { *(address as *const u8) } == Segment::Gs as u8
}

/// Does something with the recorder, if there is one.
fn with<R>(action: impl FnOnce(&mut Recorder) -> R) -> Option<R> {
    if !active() {
        return None;
    }
    STATE.lock().as_mut().map(action)
}

/// Holds the recorder still, across `fork`.
pub fn hold() -> Guard<'static, Option<Recorder>> {
    STATE.lock()
}

impl Recorder {
    fn time(&self) -> u64 {
        clock::time()
    }

    fn event(&mut self, event: Event) {
        let time = self.time();
        self.event_at(time, event);
    }

    fn event_at(&mut self, time: u64, event: Event) {
        self.writer.event(Stream::Main, time, &event, payload_of(&event));
    }

    /// Logs bytes that memory has taken, in pieces.
    fn write(&mut self, time: u64, address: u64, bytes: &[u8]) {
        for (index, piece) in bytes.chunks(MAX_BYTES).enumerate() {
            let address = address + (index * MAX_BYTES) as u64;
            self.event_at(time, Event::Write { address, bytes: piece });
        }
    }

    /// Memory was written on the guest's behalf: logs what is new and makes the shadow follow.
    fn wrote(&mut self, address: u64, len: u64) {
        let mut buffer = [0u8; 2048];
        let time = self.time();
        let (mut at, end) = (address, address.saturating_add(len));
        if !shadow::covers(address, end) {
            return;
        }
        while at < end {
            let want = (end - at).min(buffer.len() as u64) as usize;
            let piece = &mut buffer[..want];
            let got = crate::guest_memory::read_partial(at, piece);
            let piece = &piece[..got];
            shadow::bytes(at, got).copy_from_slice(piece);
            self.write(time, at, piece);
            at += got as u64;
            if got < want {
                break;
            }
        }
    }

    /// Logs where memory and shadow differ and makes them equal, at the time of the instruction that reads it.
    fn mend(&mut self, time: u64, address: u64, len: u64) {
        const LINE: u64 = 64;
        let start = address & !(LINE - 1);
        let Some(end) = address.checked_add(len) else { return };
        let mut end = end.next_multiple_of(LINE);
        let ahead = &mut self.ahead;
        ahead.lines = if start == ahead.next { (ahead.lines * 2).clamp(2, PAGE / LINE) } else { 1 };
        let page_end = (start & !(PAGE - 1)) + PAGE;
        if end <= page_end {
            end = end.max((start + ahead.lines * LINE).min(page_end));
        }
        ahead.next = end;
        if !shadow::covers(start, end) {
            return;
        }
        let mut at = start;
        while at < end {
            let want = (end - at).min(PAGE - at % PAGE) as usize;
            self.mend_within_page(time, at, want);
            at += want as u64;
        }
    }

    /// Mends a range up to its first byte that cannot be read.
    fn mend_readable(&mut self, time: u64, address: u64, len: u64) {
        let Some(end) = address.checked_add(len) else { return };
        if !shadow::covers(address, end) {
            return;
        }
        let mut at = address;
        while at < end {
            let want = (end - at).min(PAGE - at % PAGE) as usize;
            if self.mend_within_page(time, at, want) < want {
                return;
            }
            at += want as u64;
        }
    }

    /// Mends a range that is no longer than a page, up to its first byte that cannot be read; returns how much that is.
    fn mend_within_page(&mut self, time: u64, address: u64, len: usize) -> usize {
        let mut page = core::mem::take(&mut self.page);
        let got = crate::guest_memory::read_partial(address, &mut page[..len]);
        self.mend_piece(time, address, &page[..got]);
        self.page = page;
        got
    }

    /// `bytes` are what memory holds at `address`.
    fn mend_piece(&mut self, time: u64, address: u64, bytes: &[u8]) {
        /// Equal bytes that are cheaper to log than to skip.
        const GAP: usize = 16;
        let shadow = shadow::bytes(address, bytes.len());
        let mut at = 0;
        while let Some(start) = first_difference(bytes, shadow, at) {
            let mut last = start;
            while let Some(next) = first_difference(bytes, shadow, last + 1)
                && next - last <= GAP
            {
                last = next;
            }
            let run = &bytes[start..=last];
            shadow[start..=last].copy_from_slice(run);
            self.event_at(time, Event::Load { address: address + start as u64, bytes: run });
            at = last + 1;
        }
    }
}

/// Where two equally long strings differ, from `at` on.
fn first_difference(left: &[u8], right: &[u8], mut at: usize) -> Option<usize> {
    let word = |bytes: &[u8], at: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[at..at + 8]);
        u64::from_le_bytes(word)
    };
    // Many words at once: long equal stretches are the rule.
    const BLOCK: usize = 64;
    while at + BLOCK <= left.len() {
        let (ours, theirs) = (&left[at..at + BLOCK], &right[at..at + BLOCK]);
        let differ =
            (0..BLOCK).step_by(8).fold(0, |any, i| any | (word(ours, i) ^ word(theirs, i)));
        if differ != 0 {
            break;
        }
        at += BLOCK;
    }
    while at + 8 <= left.len() {
        let difference = word(left, at) ^ word(right, at);
        if difference != 0 {
            return Some(at + difference.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    (at..left.len()).find(|&at| left[at] != right[at])
}

/// Length of an event's byte strings.
fn payload_of(event: &Event) -> usize {
    match *event {
        Event::Load { bytes, .. } | Event::Write { bytes, .. } | Event::Code { bytes, .. } => {
            bytes.len()
        }
        Event::Vectors { image } | Event::ThreadState { image, .. } => image.len(),
        Event::Signal { info, .. } => info.len(),
        Event::Start { path, arguments, environment, directory, .. } => {
            path.len() + arguments.len() + environment.len() + directory.len()
        }
        Event::File { build_id, path, .. } => build_id.len() + path.len(),
        _ => 0,
    }
}

/// Flags that are not compared at signals and switches: arithmetic ones, which may be dead and destroyed, and the
/// resume flag, which the processor sets for faults.
pub const UNCERTAIN_FLAGS: u64 = 0x1_08d5;

/// The same where arithmetic flags may be dead and destroyed.
pub fn check_without_flags(registers: &Registers) -> u32 {
    check_of(&Registers { rflags: registers.rflags & !UNCERTAIN_FLAGS, ..*registers })
}

/// The sum that lets a replay compare all integer registers.
pub fn check_of(registers: &Registers) -> u32 {
    let mut values = [0; 18];
    values[..16].copy_from_slice(&registers.gpr);
    values[16] = registers.rip;
    values[17] = registers.rflags;
    check_sum(&values)
}

/// The arguments of a system call that is about to be made.
pub fn syscall_arguments(registers: &Registers) -> [u64; 6] {
    [Gpr::Rdi, Gpr::Rsi, Gpr::Rdx, Gpr::R10, Gpr::R8, Gpr::R9].map(|r| registers.get(r))
}

/// All registers of a thread.
fn all_registers(context: &Context) -> RegisterSet {
    let mut set = RegisterSet::default();
    for (number, &value) in context.registers.gpr.iter().enumerate() {
        set.set(number as u32, value);
    }
    set.set(register::RIP, context.registers.rip);
    set.set(register::RFLAGS, context.registers.rflags);
    set.set(register::FS_BASE, context.guest_fs_base);
    set.set(register::GS_BASE, context.guest_gs_base);
    set
}

/// Registers that differ.
fn changed_registers(before: &Registers, after: &Registers) -> RegisterSet {
    let mut set = RegisterSet::default();
    for number in 0..16 {
        if before.gpr[number] != after.gpr[number] {
            set.set(number as u32, after.gpr[number]);
        }
    }
    if before.rip != after.rip {
        set.set(register::RIP, after.rip);
    }
    if before.rflags != after.rflags {
        set.set(register::RFLAGS, after.rflags);
    }
    set
}

// ---- exits of emitted code ----

/// Handles an exit that goes on inside its block; false if the kind is not one of these, or if something
/// happened that needs the guest's whole state at a boundary.
pub fn exit(context: &mut Context, kind: ExitKind) -> bool {
    let site = cache::site(context.exit_index);
    context.enter_target = site.resume;
    context.inside = true;
    match kind {
        ExitKind::Mismatch => mismatch(context, &site),
        ExitKind::Deadline => {
            // Nothing of the block has happened. Whatever flags are not there are dead, and no thread will miss them.
            context.registers.rip = site.pc;
            clock::move_by(site.adjust as i64);
            context.inside = false;
            context.pending.fetch_or(PENDING_DEADLINE, Ordering::Relaxed);
            return false;
        }
        ExitKind::BeforeAccess => {
            if !access::before(context, &site) {
                return false;
            }
        }
        ExitKind::AfterAccess => access::after(context),
        _ => return false,
    }
    go_on_inside(context);
    true
}

/// Goes back into the middle of a block. What is pending waits for the next boundary: the thread steps there.
pub fn go_on_inside(context: &mut Context) {
    if context.pending.load(Ordering::Relaxed) != 0 || context.trap_armed {
        context.stepping = 1;
        context.registers.rflags |= TRAP_FLAG;
    }
}

/// Address of a site's operand.
fn address_of(context: &Context, site: &Site) -> u64 {
    let register = |number: u8| match number {
        NO_REGISTER => 0,
        number => context.registers.gpr[number as usize],
    };
    let mut address = register(site.base)
        .wrapping_add(register(site.index) << site.scale)
        .wrapping_add(site.displacement as u64);
    if site.narrow {
        address &= 0xffff_ffff;
    }
    use crate::translate::address::Segment;
    match site.segment {
        Segment::Flat => address,
        Segment::Fs => address.wrapping_add(context.guest_fs_base),
        Segment::Gs => address.wrapping_add(context.guest_gs_base),
    }
}

fn mismatch(context: &mut Context, site: &Site) {
    let address = address_of(context, site);
    let value = (site.value != NO_REGISTER).then(|| context.registers.gpr[site.value as usize]);
    if !active() {
        // Nobody wants to know, but the guest must be able to go on.
        let len = site.len as usize;
        match value {
            None => shadow::follow(address, len),
            Some(value) => shadow::bytes(address, len).copy_from_slice(&value.to_le_bytes()[..len]),
        }
        return;
    }
    with(|recorder| {
        let time = recorder.time().wrapping_add_signed(site.adjust as i64);
        match value {
            None => recorder.mend(time, address, site.len as u64),
            Some(value) => {
                // The instruction has happened: what counts is what it has loaded.
                let bytes = &value.to_le_bytes()[..site.len as usize];
                if shadow::covers(address, address + site.len as u64) {
                    recorder.mend_piece(time, address, bytes);
                }
            }
        }
    });
}

/// Puts the clock right after a block was left in the middle.
pub fn settle(context: &mut Context) {
    let unsettled = core::mem::take(&mut context.unsettled);
    if unsettled != 0 && clock::active() {
        clock::move_by(unsettled as i64);
    }
}

/// An instruction that was counted has not happened: it faulted in the engine.
pub fn uncount() {
    if clock::active() {
        clock::move_by(-1);
    }
}

// ---- events ----

impl Events for Record {
    fn syscall_entry(&self, context: &mut Context, _: &Stats) {
        let registers = &context.registers;
        let number = registers.get(Gpr::Rax);
        let args = syscall_arguments(registers);
        let check = check_of(registers);
        context.in_syscall = number as u32 + 1;
        with(|recorder| {
            recorder.event(Event::SyscallEnter { number, args, check });
            let time = recorder.time();
            handed_over::ranges(&GuestMemory, number as u32, &args, &mut |address, len| {
                recorder.mend_readable(time, address, len);
            });
            let counts = &recorder.writer.header().counts.syscalls;
            bump32(&counts[(number as usize).min(counts.len() - 1)]);
            recorder.may_die(context, number, &args);
        });
    }

    fn syscall_exit(&self, context: &mut Context, number: u64, args: &[u64; 6], _: &Stats) {
        context.in_syscall = 0;
        let result = context.registers.get(Gpr::Rax);
        with(|recorder| {
            recorder.has_survived(context, number, args);
            recorder.has_waited(number, args, result);
            recorder.event(Event::SyscallExit { result });
            effects::written(&GuestMemory, number as u32, args, result, &mut |address, len| {
                recorder.wrote(address, len);
            });
        });
    }

    fn nondeterministic(
        &self,
        context: &mut Context,
        before: &Registers,
        what: Nondeterministic,
        _: &Stats,
    ) {
        let mut set = changed_registers(before, &context.registers);
        if matches!(what, Nondeterministic::Segment | Nondeterministic::GuestGs) {
            set.set(register::FS_BASE, context.guest_fs_base);
            set.set(register::GS_BASE, context.guest_gs_base);
        }
        with(|recorder| recorder.event(Event::Registers(set)));
    }
}

struct GuestMemory;

impl effects::Memory for GuestMemory {
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        crate::guest_memory::read(address, bytes).is_ok()
    }
}

/// A system call that has set registers at will (`rt_sigreturn`), or will be made again after a handler.
pub fn resumed(context: &mut Context, result: u64) {
    context.in_syscall = 0;
    let set = all_registers(context);
    with(|recorder| {
        recorder.event(Event::SyscallExit { result });
        recorder.event(Event::Registers(set));
    });
}

/// The engine has executed something for the guest that is no instruction and no system call of its own.
pub fn executed(context: &Context) {
    let set = all_registers(context);
    with(|recorder| recorder.event(Event::Registers(set)));
}

/// A tracer has changed the vector state of the running thread.
pub fn vectors_changed() {
    let mut image = Image::new();
    with(|recorder| recorder.event(Event::Vectors { image: image_of_vectors(&mut image) }));
}

/// Memory that the engine itself is about to read for the guest, as a load would.
pub fn reads(address: u64, len: u64) {
    with(|recorder| {
        let time = recorder.time();
        recorder.mend(time, address, len);
    });
}

/// Memory that the engine itself has written for the guest.
pub fn wrote(address: u64, len: u64) {
    with(|recorder| recorder.wrote(address, len));
}

/// A signal is about to be delivered, or to end the process.
pub fn signal(context: &Context, arrived: &Arrived, synchronous: bool, handler: u64) {
    let info = &arrived.info.0;
    let used = info.iter().rposition(|&b| b != 0).map_or(0, |last| last + 1);
    let event = Event::Signal {
        number: arrived.signal,
        synchronous,
        handler,
        check: check_without_flags(&context.registers),
        info: &info[..used],
    };
    with(|recorder| {
        recorder.event(event);
        if let Some(count) = recorder.writer.header().counts.signals.get(arrived.signal as usize) {
            bump32(count);
        }
    });
}

/// The registers that a handler starts with.
pub fn registers_changed(before: &Registers, after: &Registers) {
    let set = changed_registers(before, after);
    with(|recorder| recorder.event(Event::Registers(set)));
}

/// An instruction was executed under the guest's trap flag. If it has pushed the flags, it has pushed that one, too, which
/// a replay does not set.
pub fn stepped(context: &Context) {
    const PUSHF: u8 = 0x9c;
    let mut code = [0; 2];
    if !active() || crate::guest_memory::read_partial(context.stepped_pc, &mut code) == 0 {
        return;
    }
    if code[0] == PUSHF || matches!(code, [0x48 | 0x66, PUSHF]) {
        wrote(context.registers.get(Gpr::Rsp), 8);
    }
}

/// Code that is about to be executed for the first time, or in a new version; true if other code was there.
pub fn code(address: u64, bytes: &[u8]) -> bool {
    with(|recorder| {
        let news = recorder.code.put(address, bytes);
        if news != News::Nothing {
            let time = recorder.time();
            let event = Event::Code { address, bytes };
            recorder.writer.event(Stream::Code, time, &event, bytes.len());
        }
        news == News::Change
    })
    .unwrap_or(false)
}

/// The vector state of the running thread as an image of `xsave`.
fn image_of_vectors(image: &mut Image) -> &[u8] {
    image.0.fill(0);
    vectors::save(image, vectors::image_features(), vectors::FROM_MEMORY);
    &image.0[..vectors::area_size()]
}
