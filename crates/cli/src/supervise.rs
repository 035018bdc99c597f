//! A guest in a child process, with this process standing in for it.
//!
//! Whoever started `retro` sees one process and knows nothing of a child: a signal sent to `retro`
//! is meant for the guest, a guest that stops should look like a stopped `retro`, and `retro` must
//! end the way the guest ended.
//!
//! Strategy: block every signal, fork, and take signals one by one with `sigwaitinfo`. No handler
//! is ever installed, so nothing is asynchronous and the child has nothing to undo but the mask and
//! the disposition of SIGCHLD.
//!
//! Invariants:
//! - The child stays in this process's group and session, and executes with the signal mask and
//!   dispositions that `retro` was started with.
//! - What a terminal sends to the whole group reaches the guest once, directly from the kernel;
//!   everything else that reaches this process is passed on.
//! - The guest's main process dies with this one, so `kill -9` of `retro` leaves nothing behind.
//! - The guest's main process is told the parent that it would have without `retro` in between.

use std::convert::Infallible;
use std::mem::MaybeUninit;
use std::os::unix::process::ExitStatusExt;
use std::process::{self, ExitStatus};
use std::time::Duration;
use std::{mem, ptr, thread};

use anyhow::{Context, Result, bail};
use libc::{c_int, siginfo_t};
use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{
    SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal, sigaction, sigprocmask,
};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::{ForkResult, Pid, fork, getpgid, getpgrp, getppid};

use retro_abi::config::Supervised;
pub use retro_recorder::Ending;

use crate::message;

/// How the guest ended, as only its parent is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finale {
    /// How it ended.
    pub ending: Ending,
    /// Whether the kernel wrote a core file.
    pub core_dumped: bool,
}

/// Signals that the kernel sends to a whole process group on behalf of its terminal.
const FROM_TERMINAL: [c_int; 8] = [
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
    libc::SIGHUP,
    libc::SIGCONT,
    libc::SIGWINCH,
];

/// Runs `become_guest`, which ends in an `execve`, in a child and waits for its end. If `helper`, another
/// child, ends meanwhile, it is reaped: a zombie would look alive to whoever depends on it.
///
/// All signals stay blocked in this process afterwards: see [`end_as`].
pub fn supervise(
    helper: Option<Pid>,
    become_guest: impl FnOnce(Supervised) -> Result<Infallible>,
) -> Result<Finale> {
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    let mut mask = SigSet::empty();
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), Some(&mut mask))
        .context("cannot block signals")?;
    // SAFETY: no handler is installed. With SIGCHLD ignored the kernel would reap the child and
    // its status would be lost.
    let on_child = unsafe { sigaction(Signal::SIGCHLD, &default) }
        .context("cannot reset the disposition of SIGCHLD")?;
    let supervisor = process::id();
    let supervised = Supervised {
        process: 0,
        supervisor: supervisor as i32,
        parent: getppid().as_raw(),
        death_signal: prctl::get_pdeathsig().ok().flatten().map_or(0, |signal| signal as i32),
    };

    // SAFETY: this process has one thread, so the child may do whatever the parent could.
    match unsafe { fork() }.context("cannot create a process")? {
        ForkResult::Parent { child } => Supervisor { child, helper, resumed: false }.wait(),
        ForkResult::Child => {
            let restored = die_with(supervisor).and_then(|()| {
                // SAFETY: puts back what this process was started with.
                unsafe { sigaction(Signal::SIGCHLD, &on_child) }?;
                sigprocmask(SigmaskHow::SIG_SETMASK, Some(&mask), None)?;
                Ok(())
            });
            let error = match restored.and_then(|()| become_guest(supervised)) {
                Err(error) => error,
                Ok(never) => match never {},
            };
            process::exit(message::report(&error))
        }
    }
}

/// Ends this process as the guest ended, for whoever waits for it.
pub fn end_as(ending: Ending) -> ! {
    let signal = match ending {
        Ending::Exited(status) => process::exit(status),
        Ending::Killed(signal) => signal,
    };
    // The guest has left its core file already; one of `retro` would only replace it.
    let _ = setrlimit(Resource::RLIMIT_CORE, 0, 0);
    raise_by_default(signal);
    // Only a signal that does not kill by default gets here, and no such signal killed the guest.
    process::exit(128 + signal)
}

/// Makes the kernel kill this process when its parent, `supervisor`, ends.
fn die_with(supervisor: u32) -> Result<()> {
    prctl::set_pdeathsig(Signal::SIGKILL).context("cannot tie the program to retro")?;
    if getppid().as_raw() != supervisor as i32 {
        bail!("retro was killed before the program started");
    }
    Ok(())
}

/// Raises `signal` with its default action, whatever the inherited disposition. All signals are
/// blocked before and after; a signal that stops acts in between, and so does one that kills.
fn raise_by_default(signal: c_int) {
    // SAFETY: all-zero bytes are a valid `sigaction`: the default action, no flags, an empty mask.
    let default: libc::sigaction = unsafe { mem::zeroed() };
    let mut previous = default;
    // SAFETY: the pointers are valid for the calls and no handler is installed. SIGKILL and
    // SIGSTOP can be neither reset nor blocked and need not be, so failures are of no interest.
    unsafe {
        let mut only: libc::sigset_t = mem::zeroed();
        libc::sigemptyset(&mut only);
        libc::sigaddset(&mut only, signal);
        libc::sigaction(signal, &default, &mut previous);
        libc::raise(signal);
        libc::sigprocmask(libc::SIG_UNBLOCK, &only, ptr::null_mut());
        libc::sigprocmask(libc::SIG_BLOCK, &only, ptr::null_mut());
        libc::sigaction(signal, &previous, ptr::null_mut());
    }
}

struct Supervisor {
    child: Pid,
    /// See [`supervise`].
    helper: Option<Pid>,
    /// This process was stopped and the SIGCONT that woke it has not been taken yet.
    resumed: bool,
}

impl Supervisor {
    fn wait(mut self) -> Result<Finale> {
        loop {
            let info = next_signal()?;
            if info.si_signo == libc::SIGCHLD {
                self.reap_helper();
                if let Some(finale) = self.collect()? {
                    return Ok(finale);
                }
            } else {
                self.pass_on(&info);
            }
        }
    }

    fn reap_helper(&self) {
        if let Some(helper) = self.helper {
            // That it is gone is for others to notice.
            let _ = waitpid(helper, Some(WaitPidFlag::WNOHANG));
        }
    }

    /// Takes every change of the child's state that is there to be taken.
    fn collect(&mut self) -> Result<Option<Finale>> {
        let mut change = self.next_change()?;
        while let Some(status) = change {
            let ended =
                (status.code().map(Ending::Exited)).or_else(|| status.signal().map(Ending::Killed));
            if let Some(ending) = ended {
                return Ok(Some(Finale { ending, core_dumped: status.core_dumped() }));
            } else if let Some(signal) = status.stopped_signal() {
                raise_by_default(signal);
                self.resumed = true;
                change = self.next_change_after_stop()?;
            } else {
                change = self.next_change()?;
            }
        }
        Ok(None)
    }

    /// What the child did since it stopped and this process stopped with it. A shell continues
    /// both, as one group; if it was this process alone, the child is continued from here.
    ///
    /// That the child has been continued is asked of `waitpid`, not of the child's present state:
    /// it may have been continued and stopped again meanwhile.
    fn next_change_after_stop(&self) -> Result<Option<ExitStatus>> {
        for _ in 0..5 {
            let change = self.next_change()?;
            if change.is_some() {
                return Ok(change);
            }
            // The kernel continues the members of a group one after the other.
            thread::sleep(Duration::from_millis(1));
        }
        self.send(libc::SIGCONT);
        Ok(None)
    }

    fn next_change(&self) -> Result<Option<ExitStatus>> {
        loop {
            let mut status = 0;
            let flags = libc::WNOHANG | libc::WUNTRACED | libc::WCONTINUED;
            // SAFETY: the pointer is valid for the call.
            let changed = unsafe { libc::waitpid(self.child.as_raw(), &mut status, flags) };
            match Errno::result(changed) {
                Ok(0) => return Ok(None),
                Ok(_) => return Ok(Some(ExitStatus::from_raw(status))),
                Err(Errno::EINTR) => {}
                Err(error) => return Err(error).context("cannot wait for the program"),
            }
        }
    }

    fn pass_on(&mut self, info: &siginfo_t) {
        let number = info.si_signo;
        if number == libc::SIGCONT && mem::take(&mut self.resumed) {
            return;
        }
        let from_terminal = info.si_code == libc::SI_KERNEL && FROM_TERMINAL.contains(&number);
        if !(from_terminal && self.child_shares_group()) {
            self.send(number);
        }
    }

    fn child_shares_group(&self) -> bool {
        getpgid(Some(self.child)).is_ok_and(|group| group == getpgrp())
    }

    /// The child may have ended: it is not reaped yet, so its number belongs to no other process.
    fn send(&self, number: c_int) {
        // SAFETY: `kill` touches no memory of this process.
        unsafe { libc::kill(self.child.as_raw(), number) };
    }
}

/// Waits for the next signal of any kind; all are blocked.
fn next_signal() -> Result<siginfo_t> {
    loop {
        let mut info = MaybeUninit::<siginfo_t>::uninit();
        // SAFETY: both pointers are valid for the call.
        let number = unsafe { libc::sigwaitinfo(SigSet::all().as_ref(), info.as_mut_ptr()) };
        match Errno::result(number) {
            // SAFETY: on success the kernel has filled in all of it.
            Ok(_) => return Ok(unsafe { info.assume_init() }),
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error).context("cannot wait for signals"),
        }
    }
}
