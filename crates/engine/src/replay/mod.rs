//! Replay: runs a stretch of a recorded process again, with everything from outside taken from the log.
//!
//! Problem: do exactly what the recorded process did, without its files, its kernel's answers or its luck.
//! Strategy: guest memory starts as zeroes and takes what the log says when the log says it; between two events the
//! guest's own code runs at full speed. Every block first adds its length to the clock; a block that would run past
//! the time of the next event leaves for the engine instead, which goes on instruction by instruction, applies the
//! event at its time and lets blocks run again.
//!
//! No system call of the guest is executed. What the log tells about registers at system calls, signals, thread
//! switches and the starts of intervals is compared with what the replay has: a difference is a divergence and ends
//! the replay with its position.
//!
//! Invariants: guest memory is mapped as a whole, so that an access that did not fault does not fault now; an
//! instruction that faulted is never executed, because the signal's event comes first.

mod apply;
mod code;
mod log;
mod sandbox;

use crate::cache::{self, CodeCache};
use crate::context::{Context, ExitKind};
use crate::dispatch::{self, Fixed};
use crate::lock::Lock;
use crate::maps::{AddressSpace, Backing, HEAP_START, Mapping};
use crate::policy::{Events, Policy};
use crate::record;
use crate::signals::{self, frame};
use crate::sys::{self, Result};
use crate::threads;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Write;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use linux_raw_sys::general as c;
use log::Log;
use retro_abi::config::Config;
use retro_abi::layout::{GUEST_END, GUEST_MIN, ISLAND_END, ISLAND_START, SHADOW_DISTANCE};
use retro_abi::replay::{Control, MAGIC, state};

/// The replay policy.
#[derive(Clone, Copy, Debug, Default)]
pub struct Replay;

impl Policy for Replay {
    const ACCESSES: bool = false;
    const BLOCK_ENTRY: bool = false;
    const INTERCEPT_NONDETERMINISTIC: bool = true;
    const COUNTS_FIRST: bool = true;
}

impl Events for Replay {}

struct Player {
    control: &'static Control,
    log: Log,
    code: code::Code,
    threads: Vec<apply::Thread>,
    /// The thread that runs.
    running: u32,
    /// Whether its state is known.
    started: bool,
    /// Arguments of the last system call.
    entered: [u64; 6],
    /// Events applied.
    applied: u64,
}

static ACTIVE: AtomicBool = AtomicBool::new(false);
static PLAYER: Lock<Option<Player>> = Lock::new(None);

/// Whether this process replays.
pub fn active() -> bool {
    ACTIVE.load(Ordering::Relaxed)
}

fn clock() -> &'static [AtomicU64; 2] {
    let at = SHADOW_DISTANCE.wrapping_add_signed(crate::context::CLOCK as i64);
    // SAFETY: the window's first page, mapped before anything asks.
    unsafe { &*(at as *const [AtomicU64; 2]) }
}

/// Retired guest instructions.
fn time() -> u64 {
    let [clock, deadline] = clock();
    deadline.load(Ordering::Relaxed).wrapping_add(clock.load(Ordering::Relaxed))
}

/// Blocks run as long as they end by then.
fn set_deadline(now: u64, deadline: u64) {
    // The clock is compared as a signed number.
    let deadline = deadline.min(now.saturating_add(1 << 62));
    clock()[1].store(deadline, Ordering::Relaxed);
    clock()[0].store(now.wrapping_sub(deadline), Ordering::Relaxed);
}

/// Puts the clock right when a block was left in the middle.
pub fn move_clock(by: i64) {
    let clock = &clock()[0];
    clock.store(clock.load(Ordering::Relaxed).wrapping_add_signed(by), Ordering::Relaxed);
}

/// First code of a replay process.
pub fn start(config: &Config<'static>) -> ! {
    match prepare(config) {
        Ok(context) => {
            advance(context);
            context.exit_kind = ExitKind::Continue as u32;
            // SAFETY: GS points behind the context; the initial stack is not used again.
            unsafe { crate::entry::start() }
        }
        Err(error) => {
            sys::complain(format_args!(
                "cannot replay: no memory for the guest, or no sandbox (error {})",
                error.0
            ));
            sys::exit_group(125)
        }
    }
}

fn prepare(config: &Config<'static>) -> Result<&'static mut Context> {
    let file = config.channel.ok_or(sys::Errno::EINVAL)?;
    let (base, len) = map_file(file)?;
    // SAFETY: mapped for good; what is shared in it are atomics.
    let control = unsafe { &*(base as *const Control) };
    let inside = |offset: u64, size: u64| offset.checked_add(size).is_some_and(|end| end <= len);
    if control.magic != MAGIC
        || !inside(control.main_offset, control.main_len)
        || !inside(control.code_offset, control.code_len)
    {
        return Err(sys::Errno::EINVAL);
    }
    let bytes = |offset: u64, size: u64| {
        // SAFETY: inside the mapping, which nobody changes any more.
        unsafe { core::slice::from_raw_parts((base + offset) as *const u8, size as usize) }
    };
    let log = Log::new(bytes(control.main_offset, control.main_len));
    let code = code::Code::new(bytes(control.code_offset, control.code_len));
    let first = log.peek().map_or(0, |(time, _)| time);
    let space = map_guest_memory()?;
    record::process::create_window()?;
    let cache = CodeCache::new(None)?;
    let fixed = Fixed {
        events: &Replay,
        stats: &crate::start::NO_STATS,
        counting: false,
        policy: config.policy,
        stats_file: None,
        cache_kib: None,
        program: crate::start::Program { path: Vec::new(), auxv: Vec::new(), environment: (0, 0) },
    };
    dispatch::install(cache, space, HEAP_START, fixed);
    frame::detect();
    let handlers = Arc::new(signals::initial_handlers());
    let home = threads::allocate(handlers, 0)?;
    threads::adopt(home);
    let context = record::schedule::start(home, None);
    *PLAYER.lock() = Some(Player {
        control,
        log,
        code,
        threads: Vec::new(),
        running: 0,
        started: false,
        entered: [0; 6],
        applied: 0,
    });
    set_deadline(first, first);
    sandbox::enter()?;
    ACTIVE.store(true, Ordering::Relaxed);
    Ok(context)
}

fn map_file(file: retro_abi::config::SharedFile) -> Result<(u64, u64)> {
    let path = alloc::format!("/proc/{}/fd/{}\0", file.pid, file.fd);
    let fd = sys::open(path.as_bytes(), c::O_RDWR | c::O_CLOEXEC, 0)?;
    let len = sys::file_status(fd)?.st_size as u64;
    let base = sys::map_shared(len, fd)?;
    sys::close(fd);
    Ok((base, len))
}

/// All that a guest can have, as zeroes.
fn map_guest_memory() -> Result<AddressSpace> {
    let mut space = AddressSpace::new(8 << 20);
    for (start, end) in [(GUEST_MIN, GUEST_END), (ISLAND_START, ISLAND_END)] {
        let prot = c::PROT_READ | c::PROT_WRITE;
        let flags = c::MAP_PRIVATE | c::MAP_ANONYMOUS | c::MAP_NORESERVE | c::MAP_FIXED_NOREPLACE;
        // SAFETY: MAP_FIXED_NOREPLACE never replaces a mapping.
        unsafe { sys::mmap(start, end - start, prot, flags, -1, 0)? };
        // Read-only in the account: code changes are told by the log, not found by faults.
        let prot = c::PROT_READ | c::PROT_EXEC;
        space.insert(Mapping { start, end, prot, backing: Backing::Anonymous });
    }
    Ok(space)
}

/// Code bytes for the translator.
pub fn fetch(address: u64, bytes: &mut [u8]) -> usize {
    let now = time();
    PLAYER.lock().as_mut().map_or(0, |player| {
        player.code.advance(now);
        player.code.read(address, bytes)
    })
}

/// The translator wants code that was never executed.
pub fn missing_code(context: &Context, pc: u64) -> ! {
    diverge(context, format_args!("the guest goes to {pc:#x}, where no code was executed"))
}

/// A block would run past the next event, or has ended right at it: goes on by single instructions, or
/// applies the event.
pub fn deadline(context: &mut Context) -> bool {
    let site = cache::site(context.exit_index);
    context.registers.rip = site.pc;
    move_clock(site.adjust as i64);
    advance(context)
}

/// The guest has executed a system call; `next` is the address behind it.
pub fn syscall(context: &mut Context, next: u64) {
    use crate::context::Gpr;
    context.registers.rip = next;
    context.registers.set(Gpr::Rcx, next);
    context.registers.set(Gpr::R11, context.registers.rflags);
    context.in_syscall = context.registers.get(Gpr::Rax) as u32 + 1;
    with(|player| player.enter_syscall(context));
    advance(context);
}

/// Something that only the log can explain has happened to the guest: a fault. False if it does not.
pub fn fault(context: &mut Context) -> bool {
    let signal = context.signals.fault.signal;
    let expected = with(|player| player.expects_signal(signal));
    if expected {
        advance(context);
    }
    expected
}

/// A fault that the log knows nothing of.
pub fn unexpected_fault(context: &Context) -> ! {
    let arrived = &context.signals.fault;
    diverge(
        context,
        format_args!(
            "the guest faults (signal {}, address {:#x}), and the log knows nothing of it",
            arrived.signal,
            arrived.info.address()
        ),
    )
}

/// A nondeterministic instruction: its outcome is the next event.
pub fn nondeterministic(context: &mut Context) {
    with(|player| player.expect_registers(context));
    advance(context);
}

fn with<R>(action: impl FnOnce(&mut Player) -> R) -> R {
    let mut player = PLAYER.lock();
    match player.as_mut() {
        Some(player) => action(player),
        None => {
            sys::complain(format_args!("internal error: no replay; please report this"));
            sys::exit_group(125)
        }
    }
}

/// Applies every event whose time has come and sets the clock for the next; true if the guest must go on by a
/// single instruction.
pub fn advance(context: &mut Context) -> bool {
    let now = time();
    match with(|player| player.apply(context, now)) {
        Some(next) => {
            set_deadline(now, next);
            next > now
        }
        None => finish(context),
    }
}

/// Applies events that are due, if there are any but signals that the guest's own doing explains.
pub fn catch_up(context: &mut Context) -> bool {
    let now = time();
    if with(|player| player.is_due(now)) {
        advance(context);
        return true;
    }
    false
}

/// The stretch is over.
fn finish(context: &Context) -> ! {
    with(|player| {
        player.report(context);
        player.control.state.store(state::FINISHED, Ordering::Release);
    });
    sys::exit_group(0)
}

/// Ends the replay: it is not what was recorded.
fn diverge(context: &Context, why: core::fmt::Arguments) -> ! {
    with(|player| player.diverged(context, why));
    sys::exit_group(1)
}

struct Text<'a> {
    control: &'a Control,
    len: usize,
    bytes: [u8; retro_abi::replay::REASON_SIZE],
}

impl Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let room = self.bytes.len() - self.len;
        let take = text.len().min(room);
        self.bytes[self.len..self.len + take].copy_from_slice(&text.as_bytes()[..take]);
        self.len += take;
        Ok(())
    }
}

impl Text<'_> {
    fn publish(&self) {
        for (word, bytes) in self.control.reason.iter().zip(self.bytes.chunks_exact(4)) {
            let mut four = [0; 4];
            four.copy_from_slice(bytes);
            word.store(u32::from_le_bytes(four), Ordering::Relaxed);
        }
        self.control.reason_len.store(self.len as u32, Ordering::Relaxed);
    }
}

impl Player {
    fn report(&self, context: &Context) {
        self.control.time.store(time(), Ordering::Relaxed);
        self.control.thread.store(self.running, Ordering::Relaxed);
        self.control.pc.store(context.registers.rip, Ordering::Relaxed);
        self.control.events.store(self.applied, Ordering::Relaxed);
    }

    fn diverged(&self, context: &Context, why: core::fmt::Arguments) -> ! {
        self.report(context);
        let bytes = [0; retro_abi::replay::REASON_SIZE];
        let mut text = Text { control: self.control, len: 0, bytes };
        let _ = text.write_fmt(why);
        text.publish();
        self.control.state.store(state::DIVERGED, Ordering::Release);
        sys::exit_group(1)
    }
}
