//! The beginnings and ends of logs, threads and processes.

use super::channel::{Channel, Writer, visible_pid};
use super::intervals::Intervals;
use super::{ACTIVE, Ahead, Recorder, STATE, WATCHING, kicks, schedule, shadow, with};
use crate::clock::{self, weave::Keeping};
use crate::context::{BRANCH_TABLE_BYTES, CONTEXT_AREA, Context, Gpr, JUMP_TABLE};
use crate::dispatch::engine;
use crate::maps::{AddressSpace, STACK_TOP};
use crate::sys::{self, Result};
use crate::threads;
use crate::translate::MAX_INSTRUCTIONS;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use linux_raw_sys::general as c;
use retro_abi::channel::{Origin, Stream, Unrecorded, ended, slot_state};
use retro_abi::config::{Config, PreviousLog, SharedFile};
use retro_abi::layout::{PAGE, SHADOW_DISTANCE};
use retro_abi::log::{Event, MAX_BYTES, MapKind};

/// What a process tells about itself.
pub struct Program<'a> {
    /// Path of the executable.
    pub path: &'a [u8],
    /// Arguments, each ending in NUL.
    pub arguments: &'a [&'a [u8]],
    /// Environment, each ending in NUL.
    pub environment: &'a [&'a [u8]],
}

/// Starts recording this process: memory for the shadow and the window, a slot, the first event.
pub fn begin(config: &Config, program: &Program) -> Result<()> {
    let Some(file) = config.channel else { return Ok(()) };
    let channel = Channel::open(file)?;
    // No signal should end the process between its own log's beginning and the end of the one it replaces. If SIGKILL
    // does, the recorder sees from the one that the other's program was replaced.
    let mask = sys::set_signal_mask(!0);
    let begun = begin_log(config, program, channel);
    if let Err(error) = begun {
        channel.count_unrecorded(match error {
            sys::Errno::EAGAIN if is_closed(channel) => Unrecorded::Stopped,
            sys::Errno::EAGAIN => Unrecorded::TooMany,
            _ => Unrecorded::NoMemory,
        });
    }
    if let Some(PreviousLog { slot, replaces: true, .. }) = config.previous {
        let how = if begun.is_ok() { ended::EXECUTED } else { ended::STOPPED };
        channel.end(slot as usize, how);
    }
    sys::set_signal_mask(mask);
    begun
}

/// Whether the recorder takes no more logs.
fn is_closed(channel: Channel) -> bool {
    channel.control().closed.load(Ordering::Relaxed) != 0
}

fn begin_log(config: &Config, program: &Program, channel: Channel) -> Result<()> {
    shadow::create()?;
    create_window()?;
    let control = channel.control();
    let slot = match if is_closed(channel) { None } else { channel.claim() } {
        Some(slot) => slot,
        None => return Err(sys::Errno::EAGAIN),
    };
    let writer = Writer::new(channel, slot).inspect_err(|_| channel.unclaim(slot))?;
    let log = control.next_log.fetch_add(1, Ordering::Relaxed);
    let (origin, parent) = match config.previous {
        None => (Origin::First, 0),
        Some(PreviousLog { log, replaces: true, .. }) => (Origin::Exec, log),
        Some(PreviousLog { log, .. }) => (Origin::Fork, log),
    };
    let mut recorder = Recorder {
        writer,
        log,
        files: Default::default(),
        code: Default::default(),
        ahead: Ahead::default(),
        written: Vec::new(),
        in_access: false,
        loads_fs: false,
        page: alloc::vec![0; PAGE as usize],
        intervals: Intervals::new(control.interval.load(Ordering::Relaxed)),
        thread: sys::gettid() as u32,
    };
    recorder.announce(origin, parent);
    recorder.log_start(origin, program);
    *STATE.lock() = Some(recorder);
    ACTIVE.store(true, Ordering::Relaxed);
    WATCHING.store(true, Ordering::Relaxed);
    Ok(())
}

/// Maps the memory right below the shadow: clock, branch table, context.
pub fn create_window() -> Result<()> {
    let table = SHADOW_DISTANCE.wrapping_add_signed(JUMP_TABLE as i64);
    let start = table - PAGE;
    let end = (table + (BRANCH_TABLE_BYTES + CONTEXT_AREA) as u64).next_multiple_of(PAGE);
    let prot = c::PROT_READ | c::PROT_WRITE;
    let flags = c::MAP_PRIVATE | c::MAP_ANONYMOUS | c::MAP_FIXED_NOREPLACE;
    // SAFETY: MAP_FIXED_NOREPLACE never replaces a mapping.
    unsafe { sys::mmap(start, end - start, prot, flags, -1, 0)? };
    threads::fill_table(table);
    Ok(())
}

impl Recorder {
    /// Fills in the slot's header.
    fn announce(&mut self, origin: Origin, parent: u64) {
        let header = self.writer.header();
        header.pid.store(visible_pid(), Ordering::Relaxed);
        header.log.store(self.log, Ordering::Relaxed);
        header.parent.store(parent, Ordering::Relaxed);
        header.origin.store(origin as u32, Ordering::Relaxed);
        header.counts.threads.store(1, Ordering::Relaxed);
        header.state.store(slot_state::LIVE, Ordering::Release);
        self.writer.channel().ring();
    }

    /// Logs what the first stack holds, as if the first instruction read all of it: arguments, environment and auxiliary
    /// vector. Programs change these words early, and debuggers want them as they were.
    fn log_first_stack(&mut self, pointer: u64) {
        let time = self.time();
        let mut piece = alloc::vec![0; MAX_BYTES];
        let mut at = pointer;
        while at < STACK_TOP {
            let want = (STACK_TOP - at).min(MAX_BYTES as u64) as usize;
            let got = crate::guest_memory::read_partial(at, &mut piece[..want]);
            let bytes = &piece[..got];
            shadow::bytes(at, got).copy_from_slice(bytes);
            self.event_at(time, Event::Load { address: at, bytes });
            at += got as u64;
            if got < want {
                break;
            }
        }
        self.leave_out_of_refill();
    }

    fn log_start(&mut self, origin: Origin, program: &Program) {
        let now = sys::wall_clock();
        let arguments = joined(program.arguments);
        let environment = joined(program.environment);
        let mut buffer = [0u8; 4096];
        let directory = sys::read_link(b"/proc/self/cwd\0", &mut buffer).unwrap_or(b"");
        let path = program.path.strip_suffix(b"\0").unwrap_or(program.path);
        self.event(Event::Start {
            pid: sys::getpid() as u32,
            parent: sys::getppid() as u32,
            origin: origin as u8,
            seconds: now.0,
            nanoseconds: now.1,
            path: &path[..path.len().min(4096)],
            arguments: &arguments,
            environment: &environment,
            directory,
        });
    }
}

/// Strings one after the other, cut where they get too long for an event.
fn joined(texts: &[&[u8]]) -> Vec<u8> {
    let mut all = Vec::new();
    for text in texts {
        if all.len() + text.len() > MAX_BYTES {
            break;
        }
        all.extend_from_slice(text);
    }
    all
}

/// The first thread is ready: its context moves to the window, the first interval begins.
pub fn begin_first_thread(home: &'static mut Context) -> &'static mut Context {
    let chaos = with(|recorder| chaos_of(recorder)).flatten();
    let context = schedule::start(home, chaos);
    with(|recorder| {
        recorder.begin_interval(context, 0);
        recorder.log_first_stack(context.registers.get(Gpr::Rsp));
    });
    set_deadline();
    kicks::allow(context);
    context
}

fn chaos_of(recorder: &Recorder) -> Option<u64> {
    let control = recorder.writer.channel().control();
    (control.chaos_on.load(Ordering::Relaxed) != 0)
        .then(|| control.chaos.load(Ordering::Relaxed) ^ recorder.log << 32)
}

/// At a boundary after the clock has reached its deadline: a new interval, another thread.
pub fn deadline(context: &mut Context) {
    if !super::active() {
        return;
    }
    let over = with(|recorder| recorder.interval_is_over()) == Some(true);
    if over {
        intervals_reset(context);
    }
    schedule::yield_slice(context);
    set_deadline();
}

/// How guest code of this process keeps the clock: up to a deadline where intervals or slices are to have so many instructions.
/// Otherwise whoever wants something of it kicks the thread that runs.
pub fn keeping() -> Keeping {
    let exact = with(|recorder| {
        let control = recorder.writer.channel().control();
        control.interval.load(Ordering::Relaxed) != 0
            || control.chaos_on.load(Ordering::Relaxed) != 0
    });
    Keeping { deadline: exact == Some(true) || kicks::have_ended(), told: true }
}

/// The running thread is traced: from now on its process counts to deadlines. True if it did not before, so that all its code is
/// made anew.
pub fn is_traced(context: &mut Context) -> bool {
    if !super::watching() || !kicks::end_for_good() {
        return false;
    }
    crate::dispatch::keep_clock(context, keeping());
    set_deadline();
    true
}

/// Sets the next deadline, if there are any.
pub fn set_deadline() {
    if !keeping().deadline {
        return;
    }
    let slice = schedule::slice();
    with(|recorder| {
        let look = recorder.until_next_look();
        let instructions = slice.map_or(look, |slice| slice.min(look));
        // A block must fit in, else the thread would never get past it.
        let instructions = instructions.max(2 * MAX_INSTRUCTIONS as u64);
        let now = clock::time();
        clock::set_deadline(now, now + instructions);
    });
}

fn intervals_reset(context: &Context) {
    let engine = engine();
    with(|recorder| recorder.reset(context, &engine.space));
}

// ---- threads ----

/// A thread gets the baton for the first time.
pub fn begin_thread(home: &'static mut Context) -> &'static mut Context {
    let home_at = core::ptr::from_mut(home) as u64;
    let context = schedule::acquire(home_at);
    with(|recorder| recorder.log_thread(context));
    set_deadline();
    context
}

/// A thread ends.
pub fn end_thread(context: &mut Context, code: u64) {
    let event = Event::ThreadEnd { thread: context.tid(), code: code as u32 };
    with(|recorder| recorder.event(event));
    if !schedule::shared() && super::active() {
        sys::set_signal_mask(!0);
        finish(ended::EXITED, code as u32 & 0xff);
    }
}

// ---- processes ----

/// What a child's log will be.
#[derive(Clone, Copy, Debug)]
pub struct Reserved {
    log: u64,
    slot: usize,
    /// Time of the parent.
    time: u64,
}

/// Before a `fork`: takes a slot for the child, so that the recorder waits for it even if the parent ends at once.
/// None if children are not followed, or no slot is free.
pub fn reserve_log() -> Option<Reserved> {
    with(|recorder| {
        let channel = recorder.writer.channel();
        let control = channel.control();
        if control.follow.load(Ordering::Relaxed) == 0 {
            return None;
        }
        if is_closed(channel) {
            channel.count_unrecorded(Unrecorded::Stopped);
            return None;
        }
        let Some(slot) = channel.claim_for_child() else {
            channel.count_unrecorded(Unrecorded::TooMany);
            return None;
        };
        let time = recorder.time();
        Some(Reserved { log: control.next_log.fetch_add(1, Ordering::Relaxed), slot, time })
    })
    .flatten()
}

/// There was no child after all.
pub fn unreserve(reserved: Option<Reserved>) {
    if let Some(reserved) = reserved {
        with(|recorder| recorder.writer.channel().unclaim(reserved.slot));
    }
}

/// In the parent: a child was made.
pub fn forked(pid: u32, reserved: Option<Reserved>) {
    let log = reserved.map_or(0, |reserved| reserved.log + 1);
    with(|recorder| {
        recorder.event(Event::Fork { pid, log });
        let is_visible = recorder.writer.header().pid.load(Ordering::Relaxed) == sys::getpid();
        if let Some(reserved) = reserved.filter(|_| is_visible) {
            recorder.writer.channel().name_child(reserved.slot, pid as i32);
        }
    });
}

/// In a child with a copy of the memory: its own log begins. The kernel has wiped the shadow.
pub fn begin_fork(context: &mut Context, reserved: Option<Reserved>) {
    if !super::active() {
        return;
    }
    schedule::after_fork(context);
    let started = reserved.is_some_and(|reserved| with(|r| r.begin_fork(reserved)) == Some(true));
    if !started {
        stop();
        return;
    }
    let engine = engine();
    with(|recorder| {
        for mapping in engine.space.mappings() {
            let len = mapping.end - mapping.start;
            recorder.log_map(MapKind::Map, mapping.start, len, mapping.prot);
        }
        recorder.begin_interval(context, 0);
    });
    set_deadline();
    kicks::allow(context);
}

/// Goes on unrecorded: emitted code counts and compares as before, but nothing is logged.
fn stop() {
    ACTIVE.store(false, Ordering::Relaxed);
    let flags = c::MAP_PRIVATE | c::MAP_ANONYMOUS | c::MAP_FIXED;
    let clock = SHADOW_DISTANCE.wrapping_add_signed(crate::context::CLOCK_PAGE as i64);
    // SAFETY: replaces the clock's page, which is the parent's, by one that nobody reads.
    let _ = unsafe { sys::mmap(clock, PAGE, c::PROT_READ | c::PROT_WRITE, flags, -1, 0) };
    // Lets emitted code count for ever without asking.
    clock::set_deadline(0, u64::MAX);
}

impl Recorder {
    fn begin_fork(&mut self, Reserved { log, slot, time }: Reserved) -> bool {
        let channel = self.writer.channel();
        let parent = self.log;
        let Ok(writer) = Writer::new(channel, slot) else {
            channel.unclaim(slot);
            return false;
        };
        self.writer = writer;
        self.log = log;
        self.thread = sys::gettid() as u32;
        self.forget_files();
        self.announce(Origin::Fork, parent);
        self.log_start(Origin::Fork, &Program { path: b"", arguments: &[], environment: &[] });
        // The code cache came along, so what is in it will not be logged again.
        let event = Event::Inherit { log: parent, time };
        self.writer.event(Stream::Code, 0, &event, 0);
        true
    }

    fn finish(&mut self, space: &AddressSpace, how: u32, code: u32) {
        self.log_memory_sums(space);
        // Before the event: whatever kills the process, the header agrees with a log that says how it ends.
        let header = self.writer.header();
        header.end_code.store(code, Ordering::Relaxed);
        header.ended.store(how, Ordering::Relaxed);
        self.event(Event::End { how, code });
        self.writer.end();
    }

    fn log_thread(&mut self, context: &Context) {
        if !context.thread.borrows_memory {
            super::channel::bump32(&self.writer.header().counts.threads);
        }
        let thread = context.tid();
        self.event(Event::ThreadStart { thread });
        let mut image = crate::vectors::Image::new();
        let state = Event::ThreadState {
            thread,
            in_syscall: 0,
            registers: super::all_registers(context),
            image: super::image_of_vectors(&mut image),
        };
        self.event(state);
    }
}

/// The process ends.
fn finish(how: u32, code: u32) {
    let engine = engine();
    with(|recorder| recorder.finish(&engine.space, how, code));
}

/// The process ends by `exit_group`.
pub fn exited(code: u64) {
    // A signal must not end it otherwise than the log says.
    if super::active() {
        sys::set_signal_mask(!0);
    }
    finish(ended::EXITED, code as u32 & 0xff);
}

/// The process ends by a signal.
pub fn killed(signal: u32) {
    finish(ended::SIGNALLED, signal);
}

/// What the engine of the next program must know.
pub fn for_exec(borrowed: bool) -> Option<(SharedFile, PreviousLog)> {
    let engine = engine();
    with(|recorder| {
        if !borrowed {
            recorder.log_memory_sums(&engine.space);
        }
        let slot = recorder.writer.slot() as u32;
        let channel = recorder.writer.channel();
        if !channel.is_reachable() {
            // The next program will not be able to log: another user, or no /proc.
            channel.count_unrecorded(Unrecorded::Unreachable);
            if !borrowed {
                recorder.writer.header().ended.store(ended::STOPPED, Ordering::Relaxed);
            }
            return None;
        }
        Some((channel.file(), PreviousLog { slot, log: recorder.log, replaces: !borrowed }))
    })
    .flatten()
}

/// Whether a program that the guest executes is left alone: it is a child, and children are not followed.
pub fn leaves_alone(borrowed: bool) -> bool {
    if !super::watching() {
        return false;
    }
    let follows =
        with(|recorder| recorder.writer.channel().control().follow.load(Ordering::Relaxed) != 0);
    match follows {
        None => true,
        Some(follows) => borrowed && !follows,
    }
}

/// A program is executed without the engine: the log ends, unless the caller only borrows it.
pub fn native_exec(borrowed: bool) {
    if !borrowed {
        let engine = engine();
        with(|recorder| {
            recorder.log_memory_sums(&engine.space);
            let header = recorder.writer.header();
            header.ended.store(ended::STOPPED, Ordering::Relaxed);
        });
    }
}
