//! `PR_SET_SYSCALL_USER_DISPATCH`: calls from outside a range of code become a SIGSYS while a byte of the guest says so.
//!
//! The kernel is not told, since the calls of the engine come from outside every range; it only says whether what the
//! guest asks for is right.

use super::{Args, Outcome, pass, seccomp};
use crate::context::Context;
use crate::guest_memory as guest;
use crate::record;
use crate::signals;
use crate::sys::{self, Errno};
use linux_raw_sys::general as c;
use linux_raw_sys::prctl as p;

/// `si_code` of the signal.
const SYS_USER_DISPATCH: i32 = 2;

/// Values of the byte.
const ALLOW: u8 = 0;
const BLOCK: u8 = 1;

/// One past the last address of user space.
const USER_END: u64 = 0x7fff_ffff_f000;

/// What a thread has asked for. Neither its children nor its threads inherit it.
#[derive(Clone, Copy, Debug, Default)]
pub struct UserDispatch {
    on: bool,
    start: u64,
    len: u64,
    selector: u64,
}

static ALLOWED: u8 = ALLOW;

/// `PR_SET_SYSCALL_USER_DISPATCH`
pub fn set(context: &mut Context, args: &Args) -> Outcome {
    let [_, mode, start, len, selector, _] = *args;
    let on = mode != p::PR_SYS_DISPATCH_OFF as u64;
    if on && selector >= USER_END {
        return Errno::EFAULT.into();
    }
    let mut asked = *args;
    if on {
        asked[4] = &raw const ALLOWED as u64;
    }
    let outcome = pass(c::__NR_prctl, &asked);
    if outcome != Outcome::Value(0) {
        return outcome;
    }
    let _ = sys::prctl(p::PR_SET_SYSCALL_USER_DISPATCH, p::PR_SYS_DISPATCH_OFF as u64, 0, 0);
    // Inside the range instead of outside is outside the rest of all addresses.
    let inverted = mode == p::PR_SYS_DISPATCH_INCLUSIVE_ON as u64;
    let (start, len) =
        if inverted { (start.wrapping_add(len), len.wrapping_neg()) } else { (start, len) };
    context.user_dispatch = UserDispatch { on, start, len, selector };
    outcome
}

/// Looks at a call that is about to be made; what it comes to if it is not for the kernel.
pub fn divert(context: &mut Context, number: u64, args: &Args) -> Option<Outcome> {
    let UserDispatch { on, start, len, selector } = context.user_dispatch;
    let pc = context.registers.rip;
    if !on || pc.wrapping_sub(start) < len {
        return None;
    }
    if selector != 0 {
        record::reads(selector, 1);
        let mut byte = [0];
        if guest::read(selector, &mut byte).is_err() {
            signals::die(context, c::SIGSEGV);
        }
        match byte[0] {
            ALLOW => return None,
            BLOCK => {}
            _ => signals::die(context, c::SIGSYS),
        }
    }
    let call = seccomp::Call { number: number as i32, pc, args: *args };
    Some(Outcome::Trapped(seccomp::signal(SYS_USER_DISPATCH, 0, &call)))
}
