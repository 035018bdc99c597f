//! One guest thread at a time: who runs, and where its context is meanwhile.
//!
//! Recording needs one order of everything. The threads of a process pass a baton: who holds it runs guest code and
//! writes the log; who waits for it, or for the kernel, is in engine code. The baton goes round first come, first
//! served; a thread gives it up before a system call that can block, and at the end of its slice if
//! others wait: who is next kicks it. With `--chaos` slices are counted in instructions, so that the same run is cut at the same
//! places.
//!
//! Emitted code reaches context and shadow through the same GS, so the running thread's context must lie right below
//! the shadow, in the *window*. Taking the baton copies a thread's context from its home to the window and points
//! GS there; giving it up copies it back. A signal handler finds its context through GS at every moment; what it
//! notes while a context is being copied is carried over afterwards (`arrivals` tells).
//!
//! Invariants:
//! 1. The window belongs to the holder of the baton; a thread without it uses its home only.
//! 2. A holder that died (a `vfork` child that was killed) is noticed by those who wait.

use super::{Recorder, check_without_flags, image_of_vectors, kicks, with};
use crate::context::{CONTEXT_SIZE, Context};
use crate::lock::{Guard, Lock};
use crate::signals;
use crate::sys;
use crate::vectors::Image;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use linux_raw_sys::general as c;
use retro_abi::layout::SHADOW_DISTANCE;
use retro_abi::log::Event;

/// Nanoseconds in a slice when others wait.
const SLICE_TIME: u64 = 250_000;

/// So many waits later a thread asks whether the holder is still there.
const WAITS_FOR_THE_DEAD: u32 = 4000;

/// Instructions in a slice where these are counted.
const SLICE: u64 = 400_000;

struct Member {
    home: u64,
    image: Box<Image>,
    /// Whether it has run yet.
    begun: bool,
}

/// A thread that does not run.
pub struct Other {
    /// Its context, at home.
    pub context: *const Context,
    /// Its vector state.
    pub image: *const Image,
}

/// Who holds the baton and who wants it.
pub struct Queue {
    owner: u64,
    waiting: VecDeque<u64>,
    members: Vec<Member>,
    chaos: Option<u64>,
    /// Whether threads may kick each other.
    kicks: bool,
}

static QUEUE: Lock<Queue> = Lock::new(Queue {
    owner: 0,
    waiting: VecDeque::new(),
    members: Vec::new(),
    chaos: None,
    kicks: true,
});

/// Number of threads; with one there is nobody to pass the baton to.
static MEMBERS: AtomicUsize = AtomicUsize::new(0);

/// Whether anybody waits.
static CONTENDED: AtomicBool = AtomicBool::new(false);

/// Holds the queue still, across `fork`.
pub fn hold() -> Guard<'static, Queue> {
    QUEUE.lock()
}

/// Where the running thread's context lies.
fn window() -> *mut Context {
    (SHADOW_DISTANCE - CONTEXT_SIZE as u64) as *mut Context
}

impl Queue {
    fn random(&mut self, below: u64) -> Option<u64> {
        let state = self.chaos.as_mut()?;
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        Some(*state % below.max(1))
    }

    /// Gives the baton to the next that waits, or to nobody.
    fn pass_on(&mut self) {
        let count = self.waiting.len() as u64;
        let pick = self.random(count).unwrap_or(0) as usize;
        let next = self.waiting.remove(pick);
        self.owner = next.unwrap_or(0);
        CONTENDED.store(!self.waiting.is_empty(), Ordering::Relaxed);
        if let Some(home) = next {
            let turn = turn_of(home);
            turn.store(1, Ordering::Release);
            sys::futex_wake(turn, 1);
        }
    }
}

fn turn_of(home: u64) -> &'static AtomicU32 {
    // SAFETY: contexts live for ever; this field is atomic.
    unsafe { &(*(home as *const Context)).thread.turn }
}

/// Makes the first thread of a process the holder, with its context in the window.
pub fn start(home: &'static mut Context, chaos: Option<u64>) -> &'static mut Context {
    let home = core::ptr::from_mut(home) as u64;
    {
        let mut queue = QUEUE.lock();
        queue.members.clear();
        queue.waiting.clear();
        queue.owner = home;
        // A generator of this kind must not start at zero.
        queue.chaos = chaos.map(|seed| seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    }
    join(home);
    QUEUE.lock().members[0].begun = true;
    take(home)
}

/// Adds a thread that will ask for the baton.
pub fn join(home: u64) {
    let mut image = Box::new(Image::new());
    image_of_vectors(&mut image);
    let mut queue = QUEUE.lock();
    turn_of(home).store(0, Ordering::Relaxed);
    queue.members.push(Member { home, image, begun: false });
    MEMBERS.store(queue.members.len(), Ordering::Relaxed);
}

/// Removes a thread that was never started.
pub fn forget(home: u64) {
    let mut queue = QUEUE.lock();
    queue.members.retain(|m| m.home != home);
    MEMBERS.store(queue.members.len(), Ordering::Relaxed);
}

/// In a forked child: only the calling thread is left.
pub fn after_fork(context: &Context) {
    let mut queue = QUEUE.lock();
    let home = context.home;
    queue.members.retain(|m| m.home == home);
    queue.waiting.clear();
    queue.owner = home;
    MEMBERS.store(1, Ordering::Relaxed);
    CONTENDED.store(false, Ordering::Relaxed);
}

/// The threads that do not run.
pub fn others(context: &Context) -> Vec<Other> {
    let queue = QUEUE.lock();
    let others = queue.members.iter().filter(|m| m.begun && m.home != context.home);
    others
        .map(|m| Other { context: m.home as *const Context, image: &raw const *m.image })
        .collect()
}

/// Whether there is more than one thread.
pub fn shared() -> bool {
    MEMBERS.load(Ordering::Relaxed) > 1
}

/// Copies a context and points GS at its end; then carries over what a signal handler has noted in between.
fn relocate(from: *mut Context, to: *mut Context) {
    // SAFETY: both are contexts that no other thread uses now: the home is the calling thread's, the window
    // belongs to the holder of the baton, which it is. The old copy is not used afterwards.
    unsafe {
        // Before the copy: the handler may come in the middle of it.
        let before = (&raw const (*from).signals.arrivals).read_volatile();
        core::ptr::copy_nonoverlapping(from.cast::<u8>(), to.cast::<u8>(), CONTEXT_SIZE);
        (*to).me = to as u64;
        let set = sys::arch_prctl(sys::arch::SET_GS, to as u64 + CONTEXT_SIZE as u64);
        debug_assert!(set.is_ok());
        let noted = (&raw const (*from).signals.arrivals).read_volatile();
        if noted != before {
            core::ptr::copy_nonoverlapping(&raw const (*from).signals, &raw mut (*to).signals, 1);
            (*to).traced = (&raw const (*from).traced).read_volatile();
            let pending = (*from).pending.load(Ordering::Relaxed);
            (*to).pending.fetch_or(pending, Ordering::Relaxed);
        }
    }
}

/// Brings a context to the window.
fn take(home: u64) -> &'static mut Context {
    relocate(home as *mut Context, window());
    // SAFETY: the window belongs to the holder of the baton.
    unsafe { &mut *window() }
}

/// Waits for the baton and brings the context to the window.
pub fn acquire(home: u64) -> &'static mut Context {
    let turn = turn_of(home);
    {
        let mut queue = QUEUE.lock();
        turn.store(0, Ordering::Relaxed);
        if queue.owner == 0 {
            queue.owner = home;
            turn.store(1, Ordering::Relaxed);
        } else {
            queue.waiting.push_back(home);
            CONTENDED.store(true, Ordering::Relaxed);
        }
    }
    for waits in 1.. {
        if turn.load(Ordering::Acquire) != 0 {
            break;
        }
        sys::futex_wait_for(turn, 0, SLICE_TIME);
        if turn.load(Ordering::Acquire) == 0 {
            if !super::process::keeping().deadline {
                ask_for_turn(home);
            }
            if waits % WAITS_FOR_THE_DEAD == 0 {
                replace_dead_owner();
            }
        }
    }
    if let Some(member) = QUEUE.lock().members.iter_mut().find(|m| m.home == home) {
        member.begun = true;
    }
    let context = take(home);
    kicks::allow(context);
    let (thread, check) = (context.tid(), check_without_flags(&context.registers));
    with(|recorder| recorder.switched(thread, check));
    context
}

/// Whether threads may kick each other from now on.
pub fn may_kick(may: bool) {
    QUEUE.lock().kicks = may;
}

/// Tells the holder that its slice is over, if it is this thread's turn next.
fn ask_for_turn(home: u64) {
    let queue = QUEUE.lock();
    // SAFETY: mapped for ever; a number that the holder's tracer may change.
    let traced = unsafe { (&raw const (*window()).traced.on).read_volatile() } != 0;
    let is_next = queue.owner != 0 && queue.waiting.front() == Some(&home);
    if queue.kicks && is_next && !traced {
        let (pid, tid) = ids_of(queue.owner);
        signals::kick(pid, tid);
    }
}

fn ids_of(home: u64) -> (i32, i32) {
    // SAFETY: contexts live for ever; these fields are atomic.
    let thread = unsafe { &(*(home as *const Context)).thread };
    (thread.pid.load(Ordering::Relaxed), thread.tid.load(Ordering::Relaxed))
}

/// If the holder is no more, somebody else gets the baton.
fn replace_dead_owner() {
    let mut queue = QUEUE.lock();
    if queue.owner == 0 {
        return;
    }
    let (pid, tid) = ids_of(queue.owner);
    // SAFETY: signal 0 only asks whether the thread exists.
    let answer =
        sys::check(unsafe { sys::syscall(c::__NR_tgkill, [pid as u64, tid as u64, 0, 0, 0, 0]) });
    if answer == Err(sys::Errno(linux_raw_sys::errno::ESRCH as i32)) {
        let dead = queue.owner;
        queue.members.retain(|m| m.home != dead);
        MEMBERS.store(queue.members.len(), Ordering::Relaxed);
        queue.pass_on();
    }
}

/// Sends the context home and gives the baton up; returns the home.
pub fn release(context: &mut Context) -> u64 {
    let home = context.home;
    kicks::forbid();
    {
        let mut queue = QUEUE.lock();
        if let Some(member) = queue.members.iter_mut().find(|m| m.home == home) {
            image_of_vectors(&mut member.image);
        }
    }
    relocate(window(), home as *mut Context);
    QUEUE.lock().pass_on();
    home
}

/// A thread ends: its context goes home for good.
pub fn leave(context: &mut Context) -> &'static mut Context {
    let home = context.home;
    kicks::forbid();
    relocate(window(), home as *mut Context);
    let mut queue = QUEUE.lock();
    queue.members.retain(|m| m.home != home);
    MEMBERS.store(queue.members.len(), Ordering::Relaxed);
    queue.pass_on();
    // SAFETY: the calling thread's own home.
    unsafe { &mut *(home as *mut Context) }
}

/// The slice is over: if others wait, they run first.
pub fn yield_slice(context: &mut Context) {
    if CONTENDED.load(Ordering::Relaxed) {
        let home = release(context);
        acquire(home);
    }
}

/// Instructions until the holder is asked to make room; `None` if there is nobody else.
pub fn slice() -> Option<u64> {
    if !shared() {
        return None;
    }
    let mut queue = QUEUE.lock();
    Some(queue.random(2 * SLICE).map_or(SLICE, |r| r * r / (2 * SLICE) + 100))
}

/// Runs a system call that may block, without the baton.
pub fn around<R>(nr: u32, args: &[u64; 6], call: impl FnOnce() -> R) -> R {
    if !super::watching() {
        return call();
    }
    // SAFETY: the caller runs the guest, so the window is its context.
    let context = unsafe { &mut *window() };
    if !shared() || is_quick(nr, args) {
        kicks::forbid();
        let result = call();
        kicks::allow(context);
        return result;
    }
    let home = release(context);
    let result = call();
    acquire(home);
    result
}

/// Whether a call surely returns at once.
fn is_quick(nr: u32, args: &[u64; 6]) -> bool {
    match nr {
        c::__NR_futex => !matches!(
            args[1] as u32 & 0x7f,
            c::FUTEX_WAIT
                | c::FUTEX_WAIT_BITSET
                | c::FUTEX_LOCK_PI
                | c::FUTEX_LOCK_PI2
                | c::FUTEX_WAIT_REQUEUE_PI
        ),
        c::__NR_clock_gettime
        | c::__NR_clock_getres
        | c::__NR_gettimeofday
        | c::__NR_time
        | c::__NR_times
        | c::__NR_getpid
        | c::__NR_gettid
        | c::__NR_getppid
        | c::__NR_getuid
        | c::__NR_geteuid
        | c::__NR_getgid
        | c::__NR_getegid
        | c::__NR_fstat
        | c::__NR_lseek
        | c::__NR_madvise
        | c::__NR_mlock
        | c::__NR_munlock
        | c::__NR_membarrier
        | c::__NR_set_robust_list
        | c::__NR_set_tid_address
        | c::__NR_get_robust_list
        | c::__NR_prctl
        | c::__NR_arch_prctl
        | c::__NR_getrandom
        | c::__NR_uname
        | c::__NR_sysinfo
        | c::__NR_getrusage
        | c::__NR_getcpu
        | c::__NR_sched_getaffinity
        | c::__NR_sched_setaffinity
        | c::__NR_sched_getparam
        | c::__NR_sched_getscheduler
        | c::__NR_sched_get_priority_max
        | c::__NR_sched_get_priority_min
        | c::__NR_tgkill
        | c::__NR_tkill
        | c::__NR_rt_sigpending
        | c::__NR_timer_settime
        | c::__NR_timer_create
        | c::__NR_timer_delete => true,
        _ => false,
    }
}

impl Recorder {
    /// Another thread than before runs.
    fn switched(&mut self, thread: u32, check: u32) {
        if self.thread != thread {
            self.thread = thread;
            self.event(Event::ThreadSwitch { thread, check });
        }
    }
}
