//! Replay: runs a stretch of a recorded process again, with everything from outside taken from the log.
//!
//! Problem: do exactly what the recorded process did, without its files, its kernel's answers or its luck, and stop at
//! any instruction of it.
//! Strategy: guest memory starts as zeroes, or as it was at some moment, and takes what the log says when the log says
//! it; between two events the guest's own code runs at full speed. Every block first adds its length to the clock; a
//! block that would run past the next event leaves for the engine instead, which executes just the part of it up to
//! there (a *cut* block), applies the event and lets blocks run again.
//!
//! No system call of the guest is executed. What the log tells about registers at system calls, signals, thread
//! switches and the starts of intervals, and about memory at their ends, is compared with what the replay has: a
//! difference is a divergence and ends the replay with its position.
//!
//! Invariants: guest memory is mapped as a whole, so that an access that did not fault does not fault now; an
//! instruction that faulted is never executed, because the signal's event comes first.

mod apply;
mod code;
mod dialogue;
pub mod guard;
mod log;
pub mod memory;
mod samples;
mod sandbox;
mod socket;
pub mod stream;
mod summary;
mod sums;

use crate::cache;
use crate::clock::{self, set_deadline, time};
use crate::context::{Context, Gpr};
use crate::lock::Lock;
use crate::policy::{Events, Policy};
use crate::sys;
use crate::translate::MAX_INSTRUCTIONS;
use alloc::vec::Vec;
use core::fmt::Write;
use core::sync::atomic::{AtomicBool, Ordering};
use log::Log;
use retro_abi::log::Event;
use retro_abi::replay::{Header, tell};

pub use dialogue::start;

/// The replay policy.
#[derive(Clone, Copy, Debug, Default)]
pub struct Replay;

impl Policy for Replay {
    const ACCESSES: bool = false;
    const BLOCK_ENTRY: bool = false;
    const INTERCEPT_NONDETERMINISTIC: bool = true;
    const COUNTS: bool = true;
    const REPLAYS: bool = true;
}

impl Events for Replay {}

/// So many instructions in front of a stop, and of a switch of threads, blocks keep flags that nobody needs, because whoever
/// looks at the stopped guest sees them: translation proves that a flag is dead by no more instructions than that.
const APPROACH: u64 = 256;

struct Player {
    log: Log,
    /// All of the main stream.
    main: &'static [u8],
    code: code::Code,
    threads: Vec<apply::Thread>,
    /// The thread that runs.
    running: u32,
    /// Whether its state is known.
    started: bool,
    /// Events applied.
    applied: u64,
    /// Whether the log has nothing more to say about what the guest does.
    over: bool,
    /// Where the owner wants to stop.
    until: u64,
    /// When the next event is.
    next_event: u64,
    /// When somebody sees all flags next: the owner, or a thread that is to be left.
    exact: u64,
    /// When something happens next: an event, a change of code, or the stop.
    limit: u64,
    /// Addresses in front of which to stop, in order.
    breakpoints: Vec<u64>,
    /// Whether the guest stands at one of these.
    at_breakpoint: bool,
    /// When the owner last saw the guest: there a breakpoint has had its say.
    seen_at: u64,
    /// What breakpoints leave behind instead of stopping.
    samples: Option<Vec<u8>>,
}

static ACTIVE: AtomicBool = AtomicBool::new(false);
static PLAYER: Lock<Option<Player>> = Lock::new(None);

/// Whether this process replays.
pub fn active() -> bool {
    ACTIVE.load(Ordering::Relaxed)
}

/// Code bytes for the translator.
pub fn fetch(address: u64, bytes: &mut [u8]) -> usize {
    with(|player| player.code.read(address, bytes))
}

/// Code bytes that never change, for a look ahead.
pub fn peek(address: u64, bytes: &mut [u8]) -> usize {
    with(|player| player.code.read_lasting(address, bytes))
}

/// The translator wants code that was never executed.
pub fn missing_code(context: &Context, pc: u64) -> ! {
    diverge(context, format_args!("the guest goes to {pc:#x}, where no code was executed"))
}

/// How the guest goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// As it was about to.
    Same,
    /// Somewhere else, or with other code.
    Moved,
    /// For so many instructions only.
    Cut(u8),
}

/// Applies what is due and sets the clock. `crossing`: the block that comes next does not fit in front of the
/// deadline.
pub fn pace(context: &mut Context, crossing: bool) -> Pace {
    let mut pace = Pace::Same;
    loop {
        let now = time();
        let (limit, exact) = with(|player| (player.limit, player.exact));
        if now >= limit {
            advance(context);
            pace = Pace::Moved;
            continue;
        }
        if with(|player| player.stops_at(context.registers.rip, now)) {
            if !samples::take(context) {
                stop(context);
            }
            pace = Pace::Moved;
            continue;
        }
        let steps_off = with(|player| player.breaks_at(context.registers.rip));
        let mut deadline = limit.min(exact.saturating_sub(APPROACH));
        if stream::active() {
            deadline = deadline.min(now + stream::room());
        }
        // A block that did not fit fits if there is more room now.
        let fits = pace == Pace::Moved || !crossing || deadline >= now + MAX_INSTRUCTIONS as u64;
        if now < deadline && fits && !steps_off {
            set_deadline(now, deadline);
            return pace;
        }
        let instructions = (limit - now).min(MAX_INSTRUCTIONS as u64);
        set_deadline(now, now + instructions);
        return Pace::Cut(instructions as u8);
    }
}

/// Applies every event whose time has come, and stops for the owner if it is time for that.
fn advance(context: &mut Context) {
    loop {
        let now = time();
        with(|player| player.next_event = player.apply(context, now));
        if !with(|player| player.over || now >= player.until) {
            return with(Player::set_limit);
        }
        // The owner may have sent the guest elsewhere.
        stop(context);
    }
}

/// Lets the owner look at the guest until it is to go on.
fn stop(context: &mut Context) {
    dialogue::serve(context);
    with(|player| {
        player.at_breakpoint = false;
        player.seen_at = time();
        player.set_limit();
    });
}

/// A block was left before its first instruction, because it would run past the deadline.
pub fn left_at_deadline(context: &mut Context) {
    let site = cache::site(context.exit_index);
    context.registers.rip = site.pc;
    clock::move_by(site.adjust as i64);
}

/// The guest has executed a system call; `next` is the address behind it.
pub fn syscall(context: &mut Context, next: u64) {
    context.registers.rip = next;
    context.registers.set(Gpr::Rcx, next);
    context.registers.set(Gpr::R11, context.registers.rflags);
    context.in_syscall = context.registers.get(Gpr::Rax) as u32 + 1;
    with(|player| player.enter_syscall(context));
}

/// The guest has faulted. If the log has a signal for an instruction that was executed (`int3`), that is what it is.
pub fn fault(context: &Context) {
    let arrived = &context.signals.fault;
    if with(|player| player.expects_trap(arrived.signal)) {
        return;
    }
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
}

/// Shares with the translator what the owner wants.
pub fn instruct(cache: &mut cache::CodeCache) {
    stream::instruct(cache);
    cache.set_breakpoints(with(|player| player.breakpoints.clone()));
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

/// Ends the replay: it is not what was recorded.
fn diverge(context: &Context, why: core::fmt::Arguments) -> ! {
    with(|player| player.diverged(context, why))
}

/// A text of limited length.
struct Text {
    len: usize,
    bytes: [u8; 2048],
}

impl Text {
    fn of(what: core::fmt::Arguments) -> Text {
        let mut text = Text { len: 0, bytes: [0; 2048] };
        let _ = text.write_fmt(what);
        text
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let room = self.bytes.len() - self.len;
        let take = text.len().min(room);
        self.bytes[self.len..self.len + take].copy_from_slice(&text.as_bytes()[..take]);
        self.len += take;
        Ok(())
    }
}

impl Player {
    fn set_limit(&mut self) {
        let code = self.code.next_time().unwrap_or(u64::MAX);
        self.limit = self.next_event.min(code).min(self.until);
        let switches = matches!(self.log.peek(), Some((_, Event::ThreadSwitch { .. })));
        self.exact = if switches { self.until.min(self.next_event) } else { self.until };
    }

    /// Goes back to a state, or to the start of the log.
    fn restart(&mut self, state: log::State, from: u64) -> u64 {
        self.log = Log::new(state, self.main, from);
        let first = self.log.peek().map_or(from, |(time, _)| time);
        self.code.restart();
        self.threads.clear();
        self.running = 0;
        self.started = false;
        self.applied = 0;
        self.over = false;
        (self.until, self.next_event, self.limit) = (first, first, first);
        self.at_breakpoint = false;
        self.seen_at = u64::MAX;
        first
    }

    fn breaks_at(&self, pc: u64) -> bool {
        self.breakpoints.binary_search(&pc).is_ok()
    }

    /// Whether a breakpoint has something to say.
    fn stops_at(&mut self, pc: u64, now: u64) -> bool {
        self.at_breakpoint = self.seen_at != now && self.breaks_at(pc);
        self.at_breakpoint
    }

    fn diverged(&self, context: &Context, why: core::fmt::Arguments) -> ! {
        let place = [time(), self.running as u64, context.registers.rip, self.applied];
        socket::send(Header::new(tell::DIVERGED, place), Text::of(why).as_bytes());
        sys::exit_group(1)
    }
}
