//! Processes that kill themselves: `abort`, `raise`, `kill` of oneself.
//!
//! A signal that ends the process by default is no matter for the engine: the kernel ends the process inside the system call.
//! So how the process ends is noted before the call, and taken back when the call returns. Signals from others end a
//! process without a word.
//!
//! A program that is executed says itself that it has replaced the one before. If it cannot reach the recorder, it is known
//! only that it was about to be executed.

use super::Recorder;
use crate::context::Context;
use crate::signals;
use core::sync::atomic::Ordering;
use linux_raw_sys::general as c;
use retro_abi::channel::ended;

/// The signal that a system call sends to the process itself, if it does.
fn sent_to_itself(context: &Context, number: u64, args: &[u64; 6]) -> Option<u32> {
    // Asked of the context: this is part of every system call.
    let (process, thread) = (context.thread.pid.load(Ordering::Relaxed) as u32, context.tid());
    let [first, second, third, ..] = args.map(|arg| arg as u32);
    let (is_own, signal) = match number as u32 {
        c::__NR_kill | c::__NR_rt_sigqueueinfo => (first == process, second),
        c::__NR_tkill => (first == thread, second),
        c::__NR_tgkill | c::__NR_rt_tgsigqueueinfo => (first == process && second == thread, third),
        _ => return None,
    };
    // A child that borrows its parent's memory has no log of its own.
    (is_own && !context.thread.borrows_memory).then_some(signal)
}

/// Whether a system call ends the log by executing another program.
fn executes(context: &Context, number: u64) -> bool {
    // A child that borrows its parent's memory has no log of its own.
    matches!(number as u32, c::__NR_execve | c::__NR_execveat) && !context.thread.borrows_memory
}

impl Recorder {
    /// Before a system call.
    pub(super) fn may_die(&mut self, context: &Context, number: u64, args: &[u64; 6]) {
        if executes(context, number) {
            self.writer.header().ended.store(ended::EXECUTING, Ordering::Relaxed);
        }
        let signal = sent_to_itself(context, number, args);
        if let Some(signal) = signal.filter(|&signal| signals::would_end(context, signal)) {
            let header = self.writer.header();
            header.end_code.store(signal, Ordering::Relaxed);
            header.ended.store(ended::SIGNALLED, Ordering::Relaxed);
        }
    }

    /// After it.
    pub(super) fn has_survived(&mut self, context: &Context, number: u64, args: &[u64; 6]) {
        if executes(context, number) || sent_to_itself(context, number, args).is_some() {
            self.writer.header().ended.store(ended::UNKNOWN, Ordering::Relaxed);
        }
    }
}
