//! Ctrl-C and SIGTERM end the session in order: the running program is killed and the work
//! directory removed.
//!
//! A measured program is in a process group of its own (so that a timeout reaches its children),
//! hence the terminal's interrupt does not reach it: the session has to pass it on.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

extern "C" fn note(_signal: libc::c_int) {
    INTERRUPTED.store(true, Ordering::Relaxed);
}

/// Whether the user asked to stop.
pub fn requested() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// From now on an interrupt makes [`requested`] true, and a blocking call return `EINTR`.
pub fn install() -> Result<()> {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: all-zero is a valid `sigaction`: no flags (so no SA_RESTART), empty mask.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = note as *const () as libc::sighandler_t;
        // SAFETY: `action` is initialised, its handler has the signature for a mask without
        // SA_SIGINFO and does nothing but an atomic store, which is async-signal-safe.
        if unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) } != 0 {
            return Err(io::Error::last_os_error()).context("installing the interrupt handler");
        }
    }
    Ok(())
}
