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
const X86_64: u32 = 0xc000_003e;

/// Memory of its own, its own end, its own signals, and complaints on the standard error stream.
const ALLOWED: [u32; 16] = [
    c::__NR_mmap,
    c::__NR_munmap,
    c::__NR_mprotect,
    c::__NR_mremap,
    c::__NR_madvise,
    c::__NR_futex,
    c::__NR_arch_prctl,
    c::__NR_rt_sigreturn,
    c::__NR_rt_sigprocmask,
    c::__NR_rt_sigaction,
    c::__NR_sigaltstack,
    c::__NR_write,
    c::__NR_getpid,
    c::__NR_gettid,
    c::__NR_exit,
    c::__NR_exit_group,
];

/// Closes the door.
pub fn enter() -> Result<()> {
    let allow = Instruction { code: RETURN, if_true: 0, if_false: 0, value: ALLOW };
    let kill = Instruction { code: RETURN, if_true: 0, if_false: 0, value: KILL };
    let load = |value| Instruction { code: LOAD, if_true: 0, if_false: 0, value };
    let mut filter = [kill; 6 + ALLOWED.len()];
    let count = ALLOWED.len();
    filter[0] = load(ARCHITECTURE);
    // Another architecture goes to the last instruction but one, which kills.
    filter[1] = Instruction { code: EQUAL, if_true: 1, if_false: 0, value: X86_64 };
    filter[2] = kill;
    filter[3] = load(NUMBER);
    for (index, &value) in ALLOWED.iter().enumerate() {
        let if_true = (count - index) as u8;
        filter[4 + index] = Instruction { code: EQUAL, if_true, if_false: 0, value };
    }
    filter[4 + count] = kill;
    filter[5 + count] = allow;
    let program = Program { len: filter.len() as u16, filter: filter.as_ptr() };
    sys::prctl(p::PR_SET_NO_NEW_PRIVS, 1, 0, 0)?;
    const FILTER: u64 = 2;
    sys::prctl(p::PR_SET_SECCOMP, FILTER, &raw const program as u64, 0).map(drop)
}
