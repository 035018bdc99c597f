//! The guard: a process that ends all replay processes when their owner is gone, however that ended.
//!
//! Replay processes can do nothing about the group of processes that they are in, which is the guard's. So one signal
//! reaches all of them, at once, whatever they do. The guard runs nothing of a recording and needs nothing but its end
//! of a socket, which is closed when the owner has ended.

use super::sandbox;
use crate::sys::{self, Errno};
use linux_raw_sys::general as c;
use linux_raw_sys::prctl as p;

/// Waits for the owner's end, then ends everything.
pub fn run() -> ! {
    // What the terminal sends, and what others send by mistake, is not for the guard.
    sys::set_signal_mask(u64::MAX);
    let _ = sys::prctl(p::PR_SET_NAME, c"retro-guard".as_ptr() as u64, 0, 0);
    let _ = sys::close_from(sandbox::SOCKET + 3);
    let mut byte = [0; 1];
    loop {
        match sys::read(sandbox::SOCKET, &mut byte) {
            Ok(0) => break,
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => break,
        }
    }
    let _ = sys::kill_group(c::SIGKILL);
    sys::exit_group(0)
}
