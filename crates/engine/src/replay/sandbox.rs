//! The replay process can do nothing but replay.
//!
//! Guest code runs here natively, from a recording that may come from anybody. It makes no system calls itself, but
//! nothing keeps it from writing over the engine. So before the first guest instruction the process gives up what a replay
//! does not need, in three steps:
//!
//! 1. [`leave_everything`], before anything of the recording is looked at: descriptors that it inherited are closed, and
//!    privileges and most resources given up.
//! 2. [`enter`], before anything of the guest is there: a seccomp filter leaves it its own memory, its own signals, and three
//!    descriptors by their numbers: the socket to its owner, the file for complaints, and the one number that what its owner
//!    sends it gets. What is left reaches neither files nor the network nor other processes.
//! 3. [`seal`], before the first guest instruction: it can make no more copies of itself. So only processes that
//!    never ran anything of a recording are copied, and all there are were asked for.
//!
//! A call that is not on the list ends the process.

use crate::sys::{self, Result};
use alloc::vec::Vec;
use linux_raw_sys::general as c;
use linux_raw_sys::prctl as p;

/// The socket to the owner.
pub const SOCKET: i32 = 0;

/// Where complaints go.
const COMPLAINTS: i32 = 2;

/// The number of a descriptor that the owner has sent: the first that is free, since each is closed before the next comes.
const SENT: i32 = 3;

/// `struct sock_filter`
#[repr(C)]
#[derive(Clone, Copy)]
struct Instruction {
    code: u16,
    if_true: u8,
    if_false: u8,
    value: u32,
}

/// `struct sock_fprog`
#[repr(C)]
struct Program {
    len: u16,
    filter: *const Instruction,
}

/// Load a word of the call's description, compare with a constant, return a constant.
const LOAD: u16 = 0x20;
const EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;

const ALLOW: u32 = 0x7fff_0000;
const KILL: u32 = 0x8000_0000;

/// Offsets in `struct seccomp_data`. All arguments that are looked at are 32 bits wide: of the others the kernel takes no notice.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const fn argument(index: u32) -> u32 {
    16 + 8 * index
}

const X86_64: u32 = 0xc000_003e;

/// Memory of its own, its own end, its own signals.
const ALLOWED: [u32; 15] = [
    c::__NR_rt_sigreturn,
    c::__NR_mprotect,
    c::__NR_munmap,
    c::__NR_mremap,
    c::__NR_mincore,
    c::__NR_sysinfo,
    c::__NR_futex,
    c::__NR_rt_sigprocmask,
    c::__NR_rt_sigaction,
    c::__NR_sigaltstack,
    c::__NR_getpid,
    c::__NR_gettid,
    c::__NR_exit,
    c::__NR_exit_group,
    c::__NR_restart_syscall,
];

/// The one way to make a process: a copy, for the owner.
pub const COPY: u32 = c::CLONE_PARENT | c::SIGCHLD;

/// No descriptor: memory that is nobody else's.
const NONE: u32 = u32::MAX;

/// Values that an argument, by its index, may have.
type Choice = (u32, &'static [u32]);

/// What `arch_prctl` may do: set segment bases, and ask for AMX's tiles if the guest did.
const SEGMENTS_AND_TILES: [u32; 5] = [
    sys::arch::SET_GS,
    sys::arch::SET_FS,
    sys::arch::GET_FS,
    sys::arch::GET_XCOMP_PERM,
    sys::arch::REQ_XCOMP_PERM,
];

/// Calls that are allowed if some arguments have one of some values.
const ALLOWED_WITH: [(u32, &[Choice]); 11] = [
    (c::__NR_recvmsg, &[(0, &[SOCKET as u32])]),
    (c::__NR_sendmsg, &[(0, &[SOCKET as u32])]),
    (c::__NR_mmap, &[(4, &[NONE, SENT as u32])]),
    (c::__NR_madvise, &[(2, &[c::MADV_DONTNEED, c::MADV_HUGEPAGE])]),
    (c::__NR_close, &[(0, &[SENT as u32])]),
    (c::__NR_fstat, &[(0, &[SENT as u32])]),
    (c::__NR_write, &[(0, &[COMPLAINTS as u32])]),
    (c::__NR_arch_prctl, &[(0, &SEGMENTS_AND_TILES)]),
    (c::__NR_dup2, &[(0, &[SENT as u32]), (1, &[SOCKET as u32])]),
    // What `seal` takes away.
    (c::__NR_clone, &[(0, &[COPY])]),
    (c::__NR_prctl, &[(0, &[p::PR_SET_SECCOMP]), (1, &[FILTER_MODE])]),
];

/// The second argument of `PR_SET_SECCOMP`.
const FILTER_MODE: u32 = 2;

const fn load(offset: u32) -> Instruction {
    Instruction { code: LOAD, if_true: 0, if_false: 0, value: offset }
}

const fn answer(value: u32) -> Instruction {
    Instruction { code: RETURN, if_true: 0, if_false: 0, value }
}

/// Goes on so many instructions further if what was loaded is a value, or is not.
const fn compare(value: u32, if_true: u8, if_false: u8) -> Instruction {
    Instruction { code: EQUAL, if_true, if_false, value }
}

/// The filter of [`enter`].
fn confining() -> Vec<Instruction> {
    let mut filter = Vec::with_capacity(128);
    filter.extend([load(ARCHITECTURE), compare(X86_64, 1, 0), answer(KILL), load(NUMBER)]);
    for number in ALLOWED {
        filter.extend([compare(number, 0, 1), answer(ALLOW)]);
    }
    for (number, arguments) in ALLOWED_WITH {
        let start = filter.len();
        filter.push(compare(number, 0, 0));
        for &(index, values) in arguments {
            filter.push(load(argument(index)));
            for (position, &value) in values.iter().enumerate() {
                // Over the other values and the refusal behind them.
                filter.push(compare(value, (values.len() - position) as u8, 0));
            }
            filter.push(answer(KILL));
        }
        filter.push(answer(ALLOW));
        filter[start].if_false = (filter.len() - start - 1) as u8;
    }
    filter.push(answer(KILL));
    filter
}

/// The filter of [`seal`], which works together with the other.
const SEALING: [Instruction; 5] = [
    load(NUMBER),
    compare(c::__NR_clone, 2, 0),
    compare(c::__NR_prctl, 1, 0),
    answer(ALLOW),
    answer(KILL),
];

fn install(filter: &[Instruction]) -> Result<()> {
    let program = Program { len: filter.len() as u16, filter: filter.as_ptr() };
    let address = &raw const program as u64;
    sys::prctl(p::PR_SET_SECCOMP, FILTER_MODE.into(), address, 0).map(drop)
}

/// Gives up what was inherited: descriptors, privileges, resources.
pub fn leave_everything() -> Result<()> {
    sys::close_from(SENT)?;
    sys::prctl(p::PR_SET_NO_NEW_PRIVS, 1, 0, 0)?;
    sys::drop_capabilities()?;
    /// Complaints are no longer than that.
    const COMPLAINT_SIZE: u64 = 16 << 10;
    for (resource, most) in [
        (c::RLIMIT_CORE, 0),
        (c::RLIMIT_NOFILE, SENT as u64 + 1),
        (c::RLIMIT_FSIZE, COMPLAINT_SIZE),
        (c::RLIMIT_MEMLOCK, 0),
        (c::RLIMIT_MSGQUEUE, 0),
        (c::RLIMIT_NICE, 0),
        (c::RLIMIT_RTPRIO, 0),
    ] {
        let (_, hard) = sys::resource_limit(resource);
        sys::set_resource_limit(resource, most.min(hard), most.min(hard))?;
    }
    Ok(())
}

/// Closes the door.
pub fn enter() -> Result<()> {
    install(&confining())
}

/// From now on this process stays the only one. To be called once, before guest code runs.
pub fn seal() -> Result<()> {
    install(&SEALING)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel does with a filter.
    fn answer_of(filter: &[Instruction], number: u32, arguments: [u64; 6]) -> u32 {
        let word = |offset: u32| match offset {
            NUMBER => number,
            ARCHITECTURE => X86_64,
            _ => arguments[(offset as usize - 16) / 8] as u32,
        };
        let (mut at, mut loaded) = (0, 0);
        loop {
            let Instruction { code, if_true, if_false, value } = filter[at];
            at += 1;
            match code {
                LOAD => loaded = word(value),
                EQUAL if loaded == value => at += if_true as usize,
                EQUAL => at += if_false as usize,
                _ => return value,
            }
        }
    }

    #[test]
    fn the_filter_names_calls_and_descriptors() {
        let filter = confining();
        let check = |number, arguments: [u64; 6], expected| {
            assert_eq!(answer_of(&filter, number, arguments), expected, "{number} {arguments:x?}");
        };
        for number in ALLOWED {
            check(number, [u64::MAX; 6], ALLOW);
        }
        for descriptor in 0..20 {
            let only = |allowed: i32| if descriptor == allowed as u64 { ALLOW } else { KILL };
            let first = [descriptor, 1, 1, 1, 1, 1];
            check(c::__NR_recvmsg, first, only(SOCKET));
            check(c::__NR_sendmsg, first, only(SOCKET));
            check(c::__NR_write, first, only(COMPLAINTS));
            check(c::__NR_close, first, only(SENT));
            check(c::__NR_fstat, first, only(SENT));
            check(c::__NR_mmap, [0, 0, 0, 0, descriptor, 0], only(SENT));
            check(c::__NR_dup2, [descriptor, SOCKET as u64, 0, 0, 0, 0], only(SENT));
            check(c::__NR_dup2, [SENT as u64, descriptor, 0, 0, 0, 0], only(SOCKET));
        }
        check(c::__NR_mmap, [0, 0, 0, 0, u64::MAX, 0], ALLOW);
        check(c::__NR_clone, [COPY as u64, 0, 0, 0, 0, 0], ALLOW);
        check(c::__NR_clone, [c::CLONE_VM as u64 | COPY as u64, 0, 0, 0, 0, 0], KILL);
        check(c::__NR_prctl, [p::PR_SET_SECCOMP as u64, FILTER_MODE as u64, 0, 0, 0, 0], ALLOW);
        check(c::__NR_prctl, [p::PR_SET_DUMPABLE as u64, 1, 0, 0, 0, 0], KILL);
        check(c::__NR_madvise, [0, 0, c::MADV_DONTNEED as u64, 0, 0, 0], ALLOW);
        check(c::__NR_madvise, [0, 0, c::MADV_HWPOISON as u64, 0, 0, 0], KILL);
        let known = |number: &u32| {
            ALLOWED.contains(number) || ALLOWED_WITH.iter().any(|(known, _)| known == number)
        };
        for number in (0..600).filter(|number| !known(number)) {
            check(number, [0; 6], KILL);
        }
    }

    #[test]
    fn what_is_sealed_makes_no_copies_and_changes_no_filter() {
        for number in 0..600 {
            let refused = [c::__NR_clone, c::__NR_prctl].contains(&number);
            let expected = if refused { KILL } else { ALLOW };
            assert_eq!(answer_of(&SEALING, number, [0; 6]), expected, "{number}");
        }
    }
}
