//! When the recorder may kick the thread that runs: a signal at any other time would be noticed.
//!
//! A kick makes the thread look whether a new interval is due. One that waits in a system call would be interrupted, and a program
//! that is being executed does not know the signal and dies of it. So the thread says when it may be kicked, and waits for a
//! kick that is under way before it takes that back.
//!
//! A thread that is traced would stop for each kick until its tracer looks. Of those that have no engine the recorder asks the
//! kernel. A process one of whose threads is traced by a guest is never kicked again: its code counts to deadlines instead.

use super::with;
use crate::context::Context;
use crate::sys;
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use retro_abi::channel::SlotHeader;

/// For ever only if the recorder has died in that moment, and then no kick comes.
const PATIENCE: u32 = 1_000_000;

/// Whether this process is never kicked.
static ENDED: AtomicBool = AtomicBool::new(false);

/// There are no more kicks in this process. False if that was so already.
pub fn end_for_good() -> bool {
    let begins = !ENDED.swap(true, Ordering::Relaxed);
    if begins {
        forbid();
    }
    begins
}

/// Whether there are no more kicks.
pub fn have_ended() -> bool {
    ENDED.load(Ordering::Relaxed)
}

/// From now on the recorder may kick the thread of this context.
pub fn allow(context: &Context) {
    if have_ended() || context.traced.on != 0 {
        return;
    }
    let thread = context.thread.visible_tid.load(Ordering::Relaxed);
    with(|recorder| recorder.writer.header().kickable.store(thread, Ordering::SeqCst));
}

/// From now on it may not, and no kick is under way.
pub fn forbid() {
    with(|recorder| end(recorder.writer.header()));
}

fn end(header: &SlotHeader) {
    header.kickable.store(0, Ordering::SeqCst);
    let mut rounds = 0;
    while header.kicking.load(Ordering::SeqCst) != 0 && rounds < PATIENCE {
        core::hint::spin_loop();
        rounds += 1;
    }
}

/// The calling thread's id as those see it who see `process` as the id of this process.
pub fn visible_tid(process: i32) -> i32 {
    if process == sys::getpid() {
        return sys::gettid();
    }
    // Another namespace: /proc shows which.
    let mut buffer = [0u8; 64];
    let link = sys::read_link(b"/proc/thread-self\0", &mut buffer).ok();
    let number = link.and_then(|text| {
        let digits = text.rsplit(|&byte| byte == b'/').next()?;
        core::str::from_utf8(digits).ok()?.parse().ok()
    });
    number.unwrap_or(0)
}

/// Notes the ids of a thread that begins, or is left alone after a `fork`.
pub fn note_ids(visible: &AtomicI32) {
    if super::watching() {
        visible.store(visible_tid(super::channel::visible_pid()), Ordering::Relaxed);
    }
}
