//! The replay process can do nothing but replay.
//!
//! Guest code runs here natively, from a recording that may come from anybody. It makes no system calls itself, but
//! nothing keeps it from writing over the engine. So before the first guest instruction the process gives up, by a
//! seccomp filter, every call that a replay does not need: what is left reaches neither files nor the network nor other
//! processes. A call that is not on the list ends the process.

use crate::sys::{self, Result};
use linux_raw_sys::general as c;
use linux_raw_sys::prctl as p;

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

/// Offsets in `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const FIRST_ARGUMENT: u32 = 16;
const X86_64: u32 = 0xc000_003e;

/// Memory of its own, its own end, its own signals, the socket to its owner, and complaints on the standard error
/// stream.
const ALLOWED: [u32; 23] = [
    c::__NR_mmap,
    c::__NR_munmap,
    c::__NR_mprotect,
    c::__NR_mremap,
    c::__NR_madvise,
    c::__NR_mincore,
    c::__NR_sysinfo,
    c::__NR_futex,
    c::__NR_arch_prctl,
    c::__NR_rt_sigreturn,
    c::__NR_rt_sigprocmask,
    c::__NR_rt_sigaction,
    c::__NR_sigaltstack,
    c::__NR_write,
    c::__NR_getpid,
    c::__NR_gettid,
    c::__NR_recvmsg,
    c::__NR_sendmsg,
    c::__NR_dup2,
    c::__NR_close,
    c::__NR_fstat,
    c::__NR_exit,
    c::__NR_exit_group,
];

/// The one way to make a process: a copy, for the owner.
const COPY: u32 = c::CLONE_PARENT | c::SIGCHLD;

/// Closes the door.
pub fn enter() -> Result<()> {
    const COUNT: usize = ALLOWED.len();
    let allow = Instruction { code: RETURN, if_true: 0, if_false: 0, value: ALLOW };
    let kill = Instruction { code: RETURN, if_true: 0, if_false: 0, value: KILL };
    let load = |value| Instruction { code: LOAD, if_true: 0, if_false: 0, value };
    let skip_if_equal =
        |value, skip: usize| Instruction { code: EQUAL, if_true: skip as u8, if_false: 0, value };
    // What is not skipped to is the next instruction.
    let mut filter = [kill; COUNT + 10];
    filter[0] = load(ARCHITECTURE);
    filter[1] = skip_if_equal(X86_64, 1);
    filter[3] = load(NUMBER);
    for (index, &value) in ALLOWED.iter().enumerate() {
        filter[4 + index] = skip_if_equal(value, COUNT - index + 4);
    }
    filter[4 + COUNT] = skip_if_equal(c::__NR_clone, 1);
    filter[6 + COUNT] = load(FIRST_ARGUMENT);
    filter[7 + COUNT] = skip_if_equal(COPY, 1);
    filter[9 + COUNT] = allow;
    let program = Program { len: filter.len() as u16, filter: filter.as_ptr() };
    sys::prctl(p::PR_SET_NO_NEW_PRIVS, 1, 0, 0)?;
    const FILTER: u64 = 2;
    sys::prctl(p::PR_SET_SECCOMP, FILTER, &raw const program as u64, 0).map(drop)
}
