//! Children that a signal has ended: they could not say so in their own logs, but their parent is told when it waits for them.

use super::Recorder;
use crate::guest_memory;
use crate::sys;
use core::sync::atomic::Ordering;
use linux_raw_sys::general as c;
use retro_abi::channel::REAPED;

impl Recorder {
    /// After a system call: tells the recorder what became of a child.
    pub(super) fn has_waited(&mut self, number: u64, args: &[u64; 6], result: u64) {
        let Some((child, signal)) = killed_child(number as u32, args, result as i64) else {
            return;
        };
        let header = self.writer.header();
        // In a namespace of its own, it does not know what others call its children.
        if header.pid.load(Ordering::Relaxed) != sys::getpid() {
            return;
        }
        let count = header.reaped_count.load(Ordering::Relaxed);
        let entry = &header.reaped[count as usize % REAPED];
        entry.store(u64::from(child) << 32 | u64::from(signal), Ordering::Relaxed);
        header.reaped_count.store(count.wrapping_add(1), Ordering::Release);
        self.writer.channel().ring();
    }
}

/// The child that a call has reported as killed, and the signal.
fn killed_child(number: u32, args: &[u64; 6], result: i64) -> Option<(u32, u32)> {
    match number {
        c::__NR_wait4 if result > 0 && args[1] != 0 => {
            let mut status = [0; 4];
            guest_memory::read(args[1], &mut status).ok()?;
            let signal = u32::from_le_bytes(status) & 0x7f;
            // 0 is an exit, 0x7f a stop.
            (signal != 0 && signal != 0x7f).then_some((result as u32, signal))
        }
        c::__NR_waitid if result == 0 && args[2] != 0 => {
            /// Where `siginfo_t` has the reason, the child and the signal.
            const CODE: usize = 8;
            const CHILD: usize = 16;
            const STATUS: usize = 24;
            let mut info = [0; STATUS + 4];
            guest_memory::read(args[2], &mut info).ok()?;
            let [code, child, status] = [CODE, CHILD, STATUS]
                .map(|at| info[at..].first_chunk().map(|b| u32::from_le_bytes(*b)));
            let is_killed = matches!(code?, c::CLD_KILLED | c::CLD_DUMPED);
            is_killed.then_some((child?, status?))
        }
        _ => None,
    }
}
