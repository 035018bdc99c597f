//! Waiting for children and tracees: what the kernel reports is looked at first, and hidden stops are waited through.

use super::errands;
use super::examine::{self, Seen, examine};
use super::registers::RemoteContext;
use super::tracees::{self, State};
use crate::context::Context;
use crate::guest_memory as guest;
use crate::signals::{self, PENDING_DEADLINE, SigInfo};
use crate::sys::{self, Errno};
use crate::syscalls::{Args, Outcome, pass};
use core::sync::atomic::Ordering;
use linux_raw_sys::general as c;

/// Low byte of the status of a stop.
const STOPPED: u32 = 0x7f;
/// The status of a continued child.
const CONTINUED: u32 = 0xffff;

/// How long a stop that is on its way may take before a wait that must not block says that there is none.
const PATIENCE: u64 = 200_000_000;
/// Nanoseconds between two looks.
const GLANCE: u64 = 50_000;
/// The same while only others may have anything to tell.
const SLOW_GLANCE: u64 = 1_000_000;

/// `struct rusage`
type Usage = [u64; 18];

/// Bytes of a `siginfo` that `waitid` fills in.
const THROUGH_STATUS: usize = 28;

/// One of the two calls, its outputs in the engine's own memory.
struct Wait {
    nr: u32,
    args: Args,
    status: u32,
    info: SigInfo,
    usage: Usage,
}

/// What a call of the kernel came to.
enum Told {
    /// The call is over.
    Outcome(Outcome),
    /// Nobody has anything to tell.
    Nobody,
    /// A stop, with its status shifted down by eight.
    Stop(i32, u32),
    /// Anything else about a child.
    Other(i32),
}

impl Wait {
    fn is_wait4(&self) -> bool {
        self.nr == c::__NR_wait4
    }

    fn options(&self) -> u32 {
        self.args[if self.is_wait4() { 2 } else { 3 }] as u32
    }

    /// Whom the guest waits for, if it is a single one.
    fn single(&self) -> Option<i32> {
        const P_PID: u64 = 1;
        if self.is_wait4() {
            (self.args[0] as i32 > 0).then_some(self.args[0] as i32)
        } else {
            (self.args[0] == P_PID).then_some(self.args[1] as i32)
        }
    }

    fn is_for_anybody(&self) -> bool {
        const P_ALL: u64 = 0;
        if self.is_wait4() { self.args[0] as i32 == -1 } else { self.args[0] == P_ALL }
    }

    /// Asks the kernel.
    fn ask(&mut self, more_options: u32) -> Told {
        let options = (self.options() | more_options) as u64;
        let usage = &raw mut self.usage as u64;
        let args = if self.is_wait4() {
            [self.args[0], &raw mut self.status as u64, options, usage, 0, 0]
        } else {
            [self.args[0], self.args[1], &raw mut self.info as u64, options, usage, 0]
        };
        let outcome = pass(self.nr, &args);
        let Outcome::Value(value) = outcome else { return Told::Outcome(outcome) };
        if sys::check(value).is_err() {
            return Told::Outcome(outcome);
        }
        let tid = if self.is_wait4() { value as i32 } else { self.info.pid() };
        let stop = if self.is_wait4() {
            (self.status & 0xff == STOPPED && self.status != CONTINUED).then_some(self.status >> 8)
        } else {
            let stopped = matches!(self.info.code() as u32, c::CLD_TRAPPED | c::CLD_STOPPED);
            stopped.then(|| self.info.status())
        };
        match (tid, stop) {
            (0, _) => Told::Nobody,
            (tid, Some(status)) => Told::Stop(tid, status),
            (tid, None) => Told::Other(tid),
        }
    }

    /// Gives the guest what the kernel gave us.
    fn deliver(&self, tid: i32) -> Outcome {
        let (status_at, usage_at) = if self.is_wait4() {
            (self.args[1], self.args[3])
        } else {
            (self.args[2], self.args[4])
        };
        // `wait4` says nothing of nobody; `waitid` says that there is nobody.
        let written = if status_at == 0 || tid == 0 && self.is_wait4() {
            Ok(())
        } else if self.is_wait4() {
            guest::write(status_at, &self.status.to_le_bytes())
        } else {
            guest::write(status_at, &self.info.0[..THROUGH_STATUS])
        };
        let usage = || {
            if usage_at == 0 || tid == 0 {
                return Ok(());
            }
            guest::write_value(usage_at, &self.usage)
        };
        let value = if self.is_wait4() { tid as u64 } else { 0 };
        written.and_then(|()| usage()).map(|()| value).into()
    }

    fn set_status(&mut self, status: u32) {
        self.status = status << 8 | STOPPED;
        self.info.set_status(status);
    }

    /// A stop that only the engine knows of.
    fn take_report(&mut self) -> Option<i32> {
        if !tracees::any() {
            return None;
        }
        let (single, anybody) = (self.single(), self.is_for_anybody());
        let mut tracees = tracees::all();
        let found = tracees
            .iter_mut()
            .find(|t| t.report.is_some() && (anybody || single == Some(t.tid)))?;
        let status = found.report.take()?;
        found.status = status;
        found.listens = false;
        let tid = found.tid;
        drop(tracees);
        self.info = SigInfo::fault(c::SIGCHLD, c::CLD_TRAPPED as i32, 0);
        self.info.set_pid(tid);
        self.set_status(status);
        Some(tid)
    }

    fn run(&mut self, context: &mut Context) -> Outcome {
        let returns_at_once = self.options() & c::WNOHANG != 0;
        let mut waited = 0;
        loop {
            if let Some(tid) = self.take_report() {
                return self.deliver(tid);
            }
            let me = sys::gettid();
            let polls = !returns_at_once && !self.is_for_anybody() && self.others_run(me);
            if polls || returns_at_once {
                self.serve_others(me);
            }
            match self.ask(if polls { c::WNOHANG } else { 0 }) {
                Told::Outcome(outcome) => {
                    if !self.is_wait4() && matches!(outcome, Outcome::Value(_)) {
                        let _ = self.deliver(0);
                    }
                    return outcome;
                }
                Told::Other(tid) => {
                    if self.has_ended() && self.options() & c::WNOWAIT == 0 {
                        tracees::remove(tid);
                    }
                    return self.deliver(tid);
                }
                Told::Stop(tid, status) => match see(tid, status) {
                    Seen::Shown(status) => {
                        if self.options() & c::WNOWAIT == 0 {
                            examine::taken(tid);
                        }
                        self.set_status(status);
                        return self.deliver(tid);
                    }
                    Seen::Elsewhere | Seen::Owned(_) => return self.deliver(tid),
                    Seen::Hidden => {}
                },
                Told::Nobody if returns_at_once => {
                    if !somebody_comes(me) {
                        return self.deliver(0);
                    }
                    if waited >= PATIENCE {
                        expect_nobody(me);
                        return self.deliver(0);
                    }
                    waited += GLANCE;
                    if nap(context, GLANCE).is_some() {
                        // As if the signal had come before the call.
                        return Outcome::Restart;
                    }
                }
                Told::Nobody => {
                    if let Some(outcome) = nap(context, SLOW_GLANCE) {
                        return outcome;
                    }
                }
            }
        }
    }

    fn has_ended(&self) -> bool {
        if self.is_wait4() {
            self.status != CONTINUED
        } else {
            self.info.code() as u32 != c::CLD_CONTINUED
        }
    }

    /// Whether other tracees than the one that the guest waits for run.
    fn others_run(&self, me: i32) -> bool {
        let single = self.single();
        tracees::any()
            && tracees::all().iter().any(|t| {
                Some(t.tid) != single && t.by == me && t.state == State::Running && !t.listens
            })
    }

    /// Looks at the stops of other tracees: the one that the guest waits for may wait for them.
    fn serve_others(&self, me: i32) {
        if !tracees::any() {
            return;
        }
        let single = self.single();
        let running = |t: &&tracees::Tracee| {
            Some(t.tid) != single && t.by == me && t.state == State::Running && !t.listens
        };
        let others: alloc::vec::Vec<i32> =
            tracees::all().iter().filter(running).map(|t| t.tid).collect();
        for tid in others {
            look(tid);
        }
    }
}

/// Looks at a stop, or has it looked at.
fn see(tid: i32, status: u32) -> Seen {
    let seen = examine(tid, status);
    let Seen::Owned(by) = seen else { return seen };
    errands::leave(by, tid, status);
    let mut waited = 0;
    while waited < PATIENCE {
        // Signals can wait: the stop has been taken from the kernel.
        let time = [0, GLANCE];
        let _ = pass(c::__NR_nanosleep, &[time.as_ptr() as u64, 0, 0, 0, 0, 0]);
        if let Some(seen) = errands::collect(by, tid) {
            return seen;
        }
        waited += GLANCE;
    }
    errands::cancel(by, tid);
    seen
}

/// Whether a tracee is about to announce a stop.
fn somebody_comes(me: i32) -> bool {
    tracees::any() && tracees::all().iter().any(|t| t.by == me && t.coming)
}

/// Whoever has not come by now may take any time.
fn expect_nobody(me: i32) {
    for tracee in tracees::all().iter_mut().filter(|t| t.by == me) {
        tracee.coming = false;
    }
}

/// Sleeps for some nanoseconds; what the guest's call comes to if a signal arrives.
fn nap(context: &mut Context, nanoseconds: u64) -> Option<Outcome> {
    let time = [0, nanoseconds];
    let interrupted = match pass(c::__NR_nanosleep, &[time.as_ptr() as u64, 0, 0, 0, 0, 0]) {
        Outcome::Value(value) => value == Errno::EINTR.as_return(),
        _ => true,
    };
    if !interrupted {
        return None;
    }
    let arrived = context.pending.load(Ordering::Relaxed) & signals::PENDING_SIGNAL != 0;
    let signal = context.signals.pending.signal;
    let flags = context.thread.handlers.0.lock()[signal as usize].flags;
    if arrived && flags & c::SA_RESTART as u64 == 0 {
        return Some(Errno::EINTR.into());
    }
    Some(Outcome::Restart)
}

/// The stop of a thread, without taking it from whoever waits for it.
fn peek(tid: i32) -> Option<u32> {
    const P_PID: u64 = 1;
    let mut info = SigInfo::EMPTY;
    let options = c::WNOHANG | c::WNOWAIT | c::WSTOPPED | c::__WALL;
    let args = [P_PID, tid as u64, &raw mut info as u64, options as u64, 0, 0];
    // SAFETY: the kernel fills in the structure.
    sys::check(unsafe { sys::syscall(c::__NR_waitid, args) }).ok()?;
    let stopped = matches!(info.code() as u32, c::CLD_TRAPPED | c::CLD_STOPPED);
    (info.pid() == tid && stopped).then(|| info.status())
}

/// Looks at a thread that may have stopped, without taking the stop from whoever waits for it.
pub fn look(tid: i32) -> Option<Seen> {
    peek(tid).map(|status| examine(tid, status))
}

/// Waits for the first stop of a thread that was seized, which only tells it so.
pub fn introduce(tid: i32) {
    let mut waited = 0;
    while waited < PATIENCE && tracees::find(tid).is_some_and(|t| t.silent) {
        if look(tid).is_none() {
            sys::nanosleep(GLANCE);
            waited += GLANCE;
        }
    }
    // One that ran guest code still has to hear of it.
    while waited < PATIENCE && tracees::find(tid).is_some_and(|t| t.coming) {
        look(tid);
        if !RemoteContext::running(tid).is_pending(PENDING_DEADLINE) {
            break;
        }
        sys::nanosleep(GLANCE);
        waited += GLANCE;
    }
    if let Some(tracee) = tracees::all().iter_mut().find(|t| t.tid == tid) {
        tracee.coming = false;
    }
}

/// The same, and waits for a stop that is on its way.
pub fn look_patiently(tid: i32) {
    let mut waited = 0;
    while waited < PATIENCE {
        let seen = look(tid);
        if matches!(seen, Some(Seen::Shown(_) | Seen::Elsewhere)) {
            return;
        }
        if seen.is_none() && !tracees::find(tid).is_some_and(|t| t.coming) {
            return;
        }
        sys::nanosleep(GLANCE);
        waited += GLANCE;
    }
    expect_nobody(sys::gettid());
}

/// A SIGCHLD about a tracee's stop: the kernel knows it as an announcement's SIGTRAP.
pub fn correct_notice(info: &mut SigInfo) {
    if !tracees::any() {
        return;
    }
    let tid = info.pid();
    look(tid);
    if let Some(tracee) = tracees::find(tid).filter(|t| matches!(t.state, State::Announced(_))) {
        info.set_status(tracee.status & 0x7f);
    }
}

fn wait(context: &mut Context, nr: u32, args: &Args) -> Outcome {
    let info = SigInfo::EMPTY;
    Wait { nr, args: *args, status: 0, info, usage: [0; 18] }.run(context)
}

/// `wait4`
pub fn wait4(context: &mut Context, args: &Args) -> Outcome {
    wait(context, c::__NR_wait4, args)
}

/// `waitid`
pub fn waitid(context: &mut Context, args: &Args) -> Outcome {
    wait(context, c::__NR_waitid, args)
}
