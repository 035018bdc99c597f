//! Ending in order when the user asks for it.
//!
//! The first signal sets a flag, which a build looks at after every window; the second one has its usual effect. What
//! a terminal sends reaches the replay processes, too: whatever they fail with then is no news.

use std::sync::atomic::{AtomicI32, Ordering};

use libc::c_int;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, raise, sigaction};

/// Signals that end a process.
const SIGNALS: [Signal; 3] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];

/// The signal that asked; zero before.
static ASKED: AtomicI32 = AtomicI32::new(0);

extern "C" fn note(signal: c_int) {
    ASKED.store(signal, Ordering::Relaxed);
}

/// While this lives, the first signal that would end this process is only noted.
pub struct Noting {
    before: Vec<(Signal, SigAction)>,
}

impl Noting {
    /// Begins. What the caller of this process wants to be ignored is ignored.
    pub fn start() -> Noting {
        let flags = SaFlags::SA_RESTART | SaFlags::SA_RESETHAND;
        let action = SigAction::new(SigHandler::Handler(note), flags, SigSet::empty());
        let mut noting = Noting { before: Vec::new() };
        for signal in SIGNALS {
            // SAFETY: the handler only stores to an atomic. If it cannot be installed, the signal ends this process at
            // once, which loses no more than a few seconds of work.
            let Ok(before) = (unsafe { sigaction(signal, &action) }) else { continue };
            if before.handler() == SigHandler::SigIgn {
                // SAFETY: puts back what was there.
                let _ = unsafe { sigaction(signal, &before) };
            } else {
                noting.before.push((signal, before));
            }
        }
        noting
    }
}

impl Drop for Noting {
    fn drop(&mut self) {
        for (signal, before) in &self.before {
            // SAFETY: puts back what was there.
            let _ = unsafe { sigaction(*signal, before) };
        }
    }
}

/// Whether this process should end.
pub fn is_asked() -> bool {
    ASKED.load(Ordering::Relaxed) != 0
}

/// Ends this process by the signal that asked for it, so that a shell sees what happened.
pub fn end() -> ! {
    let signal = ASKED.load(Ordering::Relaxed);
    if let Ok(signal) = Signal::try_from(signal) {
        // The handler is gone since it was called.
        let _ = raise(signal);
    }
    std::process::exit(128 + signal)
}
