//! The kernel's own `ptrace`, and memory of other processes.

use crate::signals::SigInfo;
use crate::sys::{self, Errno, Result};
use linux_raw_sys::general as c;
use linux_raw_sys::ptrace as p;

/// Registers as the kernel's `user_regs_struct` has them.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the kernel's names")]
pub struct UserRegisters {
    pub r15: u64,
    pub r14: u64,
    pub r13: u64,
    pub r12: u64,
    pub rbp: u64,
    pub rbx: u64,
    pub r11: u64,
    pub r10: u64,
    pub r9: u64,
    pub r8: u64,
    pub rax: u64,
    pub rcx: u64,
    pub rdx: u64,
    pub rsi: u64,
    pub rdi: u64,
    pub orig_rax: u64,
    pub rip: u64,
    pub cs: u64,
    pub eflags: u64,
    pub rsp: u64,
    pub ss: u64,
    pub fs_base: u64,
    pub gs_base: u64,
    pub ds: u64,
    pub es: u64,
    pub fs: u64,
    pub gs: u64,
}

/// Number of registers.
pub const REGISTERS: usize = 27;

impl UserRegisters {
    /// As words, in the kernel's order.
    pub fn words(&self) -> [u64; REGISTERS] {
        // SAFETY: nothing but words.
        unsafe { core::mem::transmute(*self) }
    }

    /// From words, in the kernel's order.
    pub fn from_words(words: [u64; REGISTERS]) -> UserRegisters {
        // SAFETY: nothing but words.
        unsafe { core::mem::transmute(words) }
    }
}

/// `ptrace`, with the kernel's conventions.
pub fn ptrace(request: u32, tid: i32, address: u64, data: u64) -> Result<u64> {
    let args = [request as u64, tid as u64, address, data, 0, 0];
    // SAFETY: what the kernel writes, it writes to memory that the callers own, or to another process.
    sys::check(unsafe { sys::syscall(c::__NR_ptrace, args) })
}

/// The real registers of a stopped thread.
pub fn registers(tid: i32) -> Result<UserRegisters> {
    let mut registers = UserRegisters::default();
    ptrace(p::PTRACE_GETREGS, tid, 0, &raw mut registers as u64)?;
    Ok(registers)
}

/// Sets the real registers of a stopped thread.
pub fn set_registers(tid: i32, registers: &UserRegisters) -> Result<()> {
    ptrace(p::PTRACE_SETREGS, tid, 0, core::ptr::from_ref(registers) as u64).map(drop)
}

/// What the kernel knows of the signal that a thread stops for.
pub fn signal_info(tid: i32) -> Result<SigInfo> {
    let mut info = SigInfo::EMPTY;
    ptrace(p::PTRACE_GETSIGINFO, tid, 0, &raw mut info as u64)?;
    Ok(info)
}

/// The message of the last event.
pub fn message(tid: i32) -> u64 {
    let mut message = 0u64;
    let _ = ptrace(p::PTRACE_GETEVENTMSG, tid, 0, &raw mut message as u64);
    message
}

/// Sets the real signal mask of a stopped thread.
pub fn set_signal_mask(tid: i32, mask: u64) -> Result<()> {
    ptrace(p::PTRACE_SETSIGMASK, tid, 8, &raw const mask as u64).map(drop)
}

/// Resumes a stopped thread.
pub fn go_on(tid: i32, signal: u32) -> Result<()> {
    ptrace(p::PTRACE_CONT, tid, 0, signal as u64).map(drop)
}

fn transfer(nr: u32, pid: i32, here: u64, there: u64, len: usize) -> Result<usize> {
    let local = [here, len as u64];
    let remote = [there, len as u64];
    let args = [pid as u64, local.as_ptr() as u64, 1, remote.as_ptr() as u64, 1, 0];
    // SAFETY: the kernel copies between memory that the caller borrows and another process.
    sys::check(unsafe { sys::syscall(nr, args) }).map(|n| n as usize)
}

/// Reads memory of another process, all of it.
pub fn read(tid: i32, address: u64, bytes: &mut [u8]) -> Result<()> {
    let here = bytes.as_mut_ptr() as u64;
    if transfer(c::__NR_process_vm_readv, tid, here, address, bytes.len()) == Ok(bytes.len()) {
        return Ok(());
    }
    // A tracer may look even where others may not.
    for (index, piece) in bytes.chunks_mut(8).enumerate() {
        let mut word = 0u64;
        let at = address.wrapping_add(8 * index as u64);
        ptrace(p::PTRACE_PEEKDATA, tid, at, &raw mut word as u64)?;
        let len = piece.len();
        piece.copy_from_slice(&word.to_le_bytes()[..len]);
    }
    Ok(())
}

/// Writes memory of another process, all of it; whole words only, if it is not allowed to any but the tracer.
pub fn write(tid: i32, address: u64, bytes: &[u8]) -> Result<()> {
    let here = bytes.as_ptr() as u64;
    if transfer(c::__NR_process_vm_writev, tid, here, address, bytes.len()) == Ok(bytes.len()) {
        return Ok(());
    }
    let mut at = address;
    let mut rest = bytes;
    while !rest.is_empty() {
        let base = at & !7;
        let skip = (at - base) as usize;
        let take = rest.len().min(8 - skip);
        let mut word = 0u64;
        ptrace(p::PTRACE_PEEKDATA, tid, base, &raw mut word as u64)?;
        let mut changed = word.to_le_bytes();
        changed[skip..skip + take].copy_from_slice(&rest[..take]);
        ptrace(p::PTRACE_POKEDATA, tid, base, u64::from_le_bytes(changed))?;
        at += take as u64;
        rest = &rest[take..];
    }
    Ok(())
}

/// Reads a value of plain numbers.
///
/// # Safety
/// Any bytes must be a valid value.
pub unsafe fn read_value<T: Copy>(tid: i32, address: u64) -> Result<T> {
    let mut value = core::mem::MaybeUninit::<T>::zeroed();
    // SAFETY: the bytes of the value, all of them.
    let bytes =
        unsafe { core::slice::from_raw_parts_mut(value.as_mut_ptr().cast::<u8>(), size_of::<T>()) };
    read(tid, address, bytes)?;
    // SAFETY: zeroed and then filled; the caller vouches for any contents.
    Ok(unsafe { value.assume_init() })
}

/// Writes a value of plain numbers.
pub fn write_value<T: Copy>(tid: i32, address: u64, value: &T) -> Result<()> {
    // SAFETY: the bytes of a borrowed value; padding is of no interest to anybody.
    let bytes = unsafe {
        core::slice::from_raw_parts(core::ptr::from_ref(value).cast::<u8>(), size_of::<T>())
    };
    write(tid, address, bytes)
}

/// The process that a thread belongs to, and that one's parent.
pub fn process_and_parent(tid: i32) -> Option<(i32, i32)> {
    let path = alloc::format!("/proc/{tid}/status\0");
    let file = sys::open(path.as_bytes(), c::O_RDONLY | c::O_CLOEXEC, 0).ok()?;
    let mut bytes = [0u8; 1024];
    let got = sys::read_at(file, &mut bytes, 0);
    sys::close(file);
    let text = &bytes[..got.ok()?];
    let number = |name: &[u8]| {
        let line = text.split(|&b| b == b'\n').find(|line| line.starts_with(name))?;
        core::str::from_utf8(line[name.len()..].trim_ascii()).ok()?.parse().ok()
    };
    Some((number(b"Tgid:")?, number(b"PPid:")?))
}

/// Whether a process runs in this very engine: its executable is the same file, or has the same contents.
pub fn is_engine(tid: i32) -> bool {
    let path = alloc::format!("/proc/{tid}/exe\0");
    let Ok(theirs) = sys::open(path.as_bytes(), c::O_RDONLY | c::O_CLOEXEC, 0) else {
        return false;
    };
    let own = sys::open(b"/proc/self/exe\0", c::O_RDONLY | c::O_CLOEXEC, 0);
    let same = own.and_then(|own| {
        let same = same_file(own, theirs);
        sys::close(own);
        same
    });
    sys::close(theirs);
    same.unwrap_or(false)
}

fn same_file(left: i32, right: i32) -> Result<bool> {
    let (a, b) = (sys::file_status(left)?, sys::file_status(right)?);
    if (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino) {
        return Ok(true);
    }
    if a.st_size != b.st_size {
        return Ok(false);
    }
    let mut at = 0;
    let (mut one, mut other) = ([0u8; 4096], [0u8; 4096]);
    loop {
        let got = sys::read_at(left, &mut one, at)?;
        if got != sys::read_at(right, &mut other, at)? || one[..got] != other[..got] {
            return Ok(false);
        }
        if got == 0 {
            return Ok(true);
        }
        at += got as u64;
    }
}

/// The error of a thread that is not there, or not stopped, or somebody else's.
pub const NO_SUCH: Errno = Errno(linux_raw_sys::errno::ESRCH as i32);
