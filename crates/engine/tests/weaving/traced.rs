//! A child process that executes nothing by itself: every register is set from outside, every instruction is a
//! single step.

use std::io;
use std::mem::{MaybeUninit, size_of, zeroed};

/// A child that waits to be stepped. It is a copy of this process and shares its shared memory.
pub struct Traced {
    pid: libc::pid_t,
    /// Vector and x87 state as it was in the beginning.
    vectors: Vec<u8>,
}

/// Integer registers, bases of FS and GS included.
pub type Registers = libc::user_regs_struct;

/// The kind of register set that `xsave` stores.
const NT_X86_XSTATE: usize = 0x202;

/// Place of the bits in it that tell which parts are in use.
const STATE_BITS: usize = 512;

fn check(result: libc::c_long, what: &str) {
    assert!(result != -1, "ptrace cannot {what}: {}", io::Error::last_os_error());
}

impl Traced {
    /// Makes a child that stands still.
    pub fn start() -> Traced {
        // SAFETY: the child makes two system calls and then only what it is told.
        let pid = unsafe { libc::fork() };
        assert!(pid != -1, "fork: {}", io::Error::last_os_error());
        if pid == 0 {
            // SAFETY: no memory is touched; if tracing is refused, the parent finds a child that has ended.
            unsafe {
                if libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) == -1 {
                    libc::_exit(1);
                }
                libc::raise(libc::SIGSTOP);
                libc::_exit(0);
            }
        }
        let mut traced = Traced { pid, vectors: Vec::new() };
        assert_eq!(traced.wait(), Some(libc::SIGSTOP), "the child is not allowed to be traced");
        // SAFETY: an option that makes the child die with its tracer.
        check(
            unsafe { libc::ptrace(libc::PTRACE_SETOPTIONS, pid, 0, libc::PTRACE_O_EXITKILL) },
            "set options",
        );
        traced.vectors = traced.read_vectors();
        traced
    }

    /// The signal that stopped the child; none if it is gone.
    fn wait(&self) -> Option<i32> {
        let mut status = 0;
        // SAFETY: a live integer for the status.
        let waited = unsafe { libc::waitpid(self.pid, &mut status, 0) };
        assert_eq!(waited, self.pid, "waitpid: {}", io::Error::last_os_error());
        libc::WIFSTOPPED(status).then(|| libc::WSTOPSIG(status))
    }

    /// Reads the integer registers.
    pub fn registers(&self) -> Registers {
        let mut registers = MaybeUninit::<Registers>::uninit();
        // SAFETY: the kernel fills in all of the structure.
        unsafe {
            check(
                libc::ptrace(libc::PTRACE_GETREGS, self.pid, 0, registers.as_mut_ptr()),
                "read registers",
            );
            registers.assume_init()
        }
    }

    /// Sets the integer registers.
    pub fn set_registers(&self, registers: &Registers) {
        // The child was stopped in a system call: nothing of it may be restarted.
        let registers = Registers { orig_rax: u64::MAX, ..*registers };
        // SAFETY: the kernel reads the structure.
        check(
            unsafe { libc::ptrace(libc::PTRACE_SETREGS, self.pid, 0, &registers) },
            "set registers",
        );
    }

    /// Executes one instruction; the signal that it raised, if it could not be executed.
    pub fn step(&self) -> Result<(), i32> {
        // SAFETY: the child's own memory is all that it can touch.
        check(unsafe { libc::ptrace(libc::PTRACE_SINGLESTEP, self.pid, 0, 0) }, "step");
        match self.wait() {
            Some(libc::SIGTRAP) => Ok(()),
            other => Err(other.expect("the child is alive")),
        }
    }

    fn read_vectors(&self) -> Vec<u8> {
        let mut image = vec![0u8; 16 << 10];
        // SAFETY: zeroes are valid for a pointer and a length; both are set below.
        let mut range: libc::iovec = unsafe { zeroed() };
        range.iov_base = image.as_mut_ptr().cast();
        range.iov_len = image.len();
        // SAFETY: the kernel writes no more than the range holds, and sets the length to what it wrote.
        check(
            unsafe { libc::ptrace(libc::PTRACE_GETREGSET, self.pid, NT_X86_XSTATE, &mut range) },
            "read vector state",
        );
        image.truncate(range.iov_len);
        image
    }

    /// Vector and x87 state, without what tells where the last x87 instruction and its operand were, and which
    /// parts of it the processor considers in use: that changes as it likes.
    pub fn vectors(&self) -> Vec<u8> {
        let mut image = self.read_vectors();
        image[6..24].fill(0);
        image[STATE_BITS..STATE_BITS + size_of::<u64>()].fill(0);
        image
    }

    /// Sets vector and x87 state to what it was in the beginning, with these bytes as xmm0 to xmm15.
    pub fn reset_vectors(&self, xmm: &[u8; 256]) {
        const XMM: usize = 160;
        let mut image = self.vectors.clone();
        image[XMM..XMM + xmm.len()].copy_from_slice(xmm);
        // x87 and SSE state are in use.
        image[STATE_BITS..STATE_BITS + size_of::<u64>()].copy_from_slice(&3u64.to_le_bytes());
        let mut range = libc::iovec { iov_base: image.as_mut_ptr().cast(), iov_len: image.len() };
        // SAFETY: the kernel reads the range.
        check(
            unsafe { libc::ptrace(libc::PTRACE_SETREGSET, self.pid, NT_X86_XSTATE, &mut range) },
            "set vector state",
        );
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        // SAFETY: the child is ours and has not been waited for.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            libc::waitpid(self.pid, &mut 0, 0);
        }
    }
}
