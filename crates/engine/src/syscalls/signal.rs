//! Signal calls: the guest's dispositions, mask and alternate stack are the engine's to keep.

use super::{Args, Outcome, pass};
use crate::context::Context;
use crate::guest_memory as guest;
use crate::signals::{self, AlternateStack, Fault, SIG_IGN, SIGNALS, frame, set_of};
use crate::sys::{Errno, Result, SigAction};
use core::sync::atomic::Ordering;
use linux_raw_sys::general as c;

const SET_SIZE: u64 = 8;

/// `rt_sigaction`
pub fn sigaction(context: &mut Context, args: &Args) -> Result<()> {
    let [signal, new, old, size, ..] = *args;
    if size != SET_SIZE || signal == 0 || signal >= SIGNALS as u64 {
        return Err(Errno::EINVAL);
    }
    let signal = signal as u32;
    if new != 0 && matches!(signal, c::SIGKILL | c::SIGSTOP) {
        return Err(Errno::EINVAL);
    }
    let wanted = if new != 0 {
        // SAFETY: plain words.
        Some(unsafe { guest::read_value::<SigAction>(new)? })
    } else {
        None
    };
    let previous = {
        let mut actions = context.thread.handlers.0.lock();
        let previous = actions[signal as usize];
        if let Some(mut action) = wanted {
            action.mask &= !(set_of(c::SIGKILL) | set_of(c::SIGSTOP));
            signals::install(signal, &action)?;
            actions[signal as usize] = action;
        }
        previous
    };
    let faults = signals::OWNED & !set_of(signals::KICK_SIGNAL);
    if wanted.is_some_and(|action| action.handler > SIG_IGN)
        && faults & set_of(signal) != 0
        && crate::record::watching()
    {
        crate::dispatch::translate_precisely(context);
    }
    if wanted.is_some_and(|action| action.handler == SIG_IGN) {
        signals::discard(context, signal);
    }
    if old != 0 {
        guest::write_value(old, &previous)?;
    }
    Ok(())
}

/// `rt_sigprocmask`
pub fn sigprocmask(context: &mut Context, args: &Args) -> Result<()> {
    let [how, new, old, size, ..] = *args;
    if size != SET_SIZE {
        return Err(Errno::EINVAL);
    }
    let current = context.signals.mask;
    let wanted = if new != 0 {
        let set = guest::read_u64(new)?;
        Some(match how as u32 {
            c::SIG_BLOCK => current | set,
            c::SIG_UNBLOCK => current & !set,
            c::SIG_SETMASK => set,
            _ => return Err(Errno::EINVAL),
        })
    } else {
        None
    };
    if let Some(mask) = wanted {
        signals::set_mask(context, mask);
    }
    if old != 0 {
        guest::write_u64(old, current)?;
    }
    Ok(())
}

/// `rt_sigpending`
pub fn sigpending(context: &mut Context, args: &Args) -> Result<()> {
    if args[1] > SET_SIZE {
        return Err(Errno::EINVAL);
    }
    let mut set = 0u64;
    let kernel = pass(c::__NR_rt_sigpending, &[&raw mut set as u64, 8, 0, 0, 0, 0]);
    debug_assert_eq!(kernel, Outcome::Value(0));
    set |= context.signals.held_set();
    guest::write(args[0], &set.to_le_bytes()[..args[1] as usize])
}

/// `rt_sigreturn`
pub fn sigreturn(context: &mut Context) -> Outcome {
    if frame::pop(context).is_err() {
        signals::deliver_fault(context, &Fault::protection(0).into());
    }
    Outcome::Resumed
}

/// `sigaltstack`
pub fn sigaltstack(context: &mut Context, args: &Args) -> Result<()> {
    let [new, old, ..] = *args;
    let reported = frame::reported_stack(context);
    if new != 0 {
        // SAFETY: plain words.
        let wanted: AlternateStack = unsafe { guest::read_value(new)? };
        if reported.flags as u32 & c::SS_ONSTACK != 0 {
            return Err(Errno::EPERM);
        }
        let mode = wanted.flags as u32 & !c::SS_AUTODISARM;
        context.signals.alternate = match mode {
            c::SS_DISABLE => AlternateStack::DISABLED,
            0 | c::SS_ONSTACK if wanted.size < frame::minimum_stack() => return Err(Errno::ENOMEM),
            0 | c::SS_ONSTACK => AlternateStack {
                flags: wanted.flags & c::SS_AUTODISARM as i32,
                padding: 0,
                ..wanted
            },
            _ => return Err(Errno::EINVAL),
        };
    }
    if old != 0 {
        guest::write_value(old, &reported)?;
    }
    Ok(())
}

/// Calls that wait under another mask: a handler that ends the wait runs under it too.
fn waiting(context: &mut Context, mask: Option<u64>, nr: u32, args: &Args) -> Outcome {
    context.signals.temporary_mask = mask;
    let outcome = pass(nr, args);
    // A restart means that the wait has not begun: the signal got through the guest's own mask. Unless a tracer's engine has
    // put the signal there.
    let arrived = context.pending.load(Ordering::Relaxed) & signals::PENDING_SIGNAL != 0;
    let begun = outcome != Outcome::Restart || context.traced.restart != 0;
    if !arrived || !begun {
        context.signals.temporary_mask = None;
    }
    outcome
}

/// `rt_sigsuspend`
pub fn sigsuspend(context: &mut Context, args: &Args) -> Outcome {
    if args[1] != SET_SIZE {
        return Errno::EINVAL.into();
    }
    let Ok(mask) = guest::read_u64(args[0]) else { return Errno::EFAULT.into() };
    // A held signal that the new mask lets through ends the wait at once.
    if signals::release_held(context, mask) {
        context.signals.temporary_mask = Some(mask);
        return Errno::EINTR.into();
    }
    waiting(context, Some(mask), c::__NR_rt_sigsuspend, args)
}

/// `pselect6`, `ppoll`, `epoll_pwait`, `epoll_pwait2`, `io_pgetevents`
pub fn with_temporary_mask(context: &mut Context, nr: u32, args: &Args) -> Outcome {
    let set_at = match nr {
        c::__NR_ppoll => args[3],
        c::__NR_epoll_pwait | c::__NR_epoll_pwait2 => args[4],
        // Both take a pointer to a pointer and a size.
        _ if args[5] != 0 => guest::read_u64(args[5]).unwrap_or(0),
        _ => 0,
    };
    let mask = if set_at != 0 { guest::read_u64(set_at).ok() } else { None };
    waiting(context, mask, nr, args)
}
