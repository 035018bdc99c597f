//! What a signal carries: `siginfo_t`, as far as the kernel has filled it in.

use crate::wording;

/// Bytes of `siginfo_t` that are looked at. A log leaves out zeroes at the end.
const LOOKED_AT: usize = 32;

/// The parts of `siginfo_t` that mean something for most signals.
pub struct SignalInfo {
    bytes: [u8; LOOKED_AT],
}

impl SignalInfo {
    /// From what is in the log.
    pub fn new(info: &[u8]) -> SignalInfo {
        let mut bytes = [0; LOOKED_AT];
        let length = info.len().min(LOOKED_AT);
        bytes[..length].copy_from_slice(&info[..length]);
        SignalInfo { bytes }
    }

    /// Why it was sent.
    pub fn code(&self) -> i32 {
        self.i32_at(8)
    }

    /// The name of that.
    pub fn code_name(&self, signal: u32) -> Option<&'static str> {
        let code = self.code();
        Some(match (signal as i32, code) {
            (_, 0) => "SI_USER",
            (_, 0x80) => "SI_KERNEL",
            (_, -1) => "SI_QUEUE",
            (_, -2) => "SI_TIMER",
            (_, -3) => "SI_MESGQ",
            (_, -4) => "SI_ASYNCIO",
            (_, -5) => "SI_SIGIO",
            (_, -6) => "SI_TKILL",
            (_, -60) => "SI_ASYNCNL",
            (signal, 1..) => *names(signal).get(code as usize - 1)?,
            _ => return None,
        })
    }

    /// The address of a fault.
    pub fn address(&self, signal: u32) -> Option<u64> {
        let faults = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP];
        let by_hardware = (1..0x80).contains(&self.code());
        (by_hardware && faults.contains(&(signal as i32))).then(|| self.u64_at(16))
    }

    /// The process that sent it, or that changed its state.
    pub fn sender(&self, signal: u32) -> Option<i32> {
        let names_sender = matches!(self.code(), 0 | -1 | -3 | -6);
        let is_child = signal as i32 == libc::SIGCHLD && self.code() > 0;
        (names_sender || is_child).then(|| self.i32_at(16))
    }

    /// What it carries beside its number, in words.
    pub fn described(&self, signal: u32) -> String {
        let code = match self.code_name(signal) {
            Some(name) => name.to_string(),
            None => format!("si_code {}", self.code()),
        };
        let mut parts = vec![code];
        if let Some(address) = self.address(signal) {
            parts.push(format!("address {address:#x}"));
        }
        if let Some(pid) = self.sender(signal) {
            parts.push(format!("process {pid}"));
        }
        if signal as i32 == libc::SIGCHLD && self.code() > 0 {
            let status = self.i32_at(24);
            parts.push(match self.code() {
                libc::CLD_EXITED => format!("status {status}"),
                _ => wording::signal(status.cast_unsigned()),
            });
        }
        parts.join(", ")
    }

    fn i32_at(&self, at: usize) -> i32 {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&self.bytes[at..at + 4]);
        i32::from_le_bytes(bytes)
    }

    fn u64_at(&self, at: usize) -> u64 {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.bytes[at..at + 8]);
        u64::from_le_bytes(bytes)
    }
}

/// Names of the codes from 1 on.
fn names(signal: i32) -> &'static [&'static str] {
    match signal {
        libc::SIGSEGV => &[
            "SEGV_MAPERR",
            "SEGV_ACCERR",
            "SEGV_BNDERR",
            "SEGV_PKUERR",
            "SEGV_ACCADI",
            "SEGV_ADIDERR",
            "SEGV_ADIPERR",
            "SEGV_MTEAERR",
            "SEGV_MTESERR",
            "SEGV_CPERR",
        ],
        libc::SIGBUS => {
            &["BUS_ADRALN", "BUS_ADRERR", "BUS_OBJERR", "BUS_MCEERR_AR", "BUS_MCEERR_AO"]
        }
        libc::SIGILL => &[
            "ILL_ILLOPC",
            "ILL_ILLOPN",
            "ILL_ILLADR",
            "ILL_ILLTRP",
            "ILL_PRVOPC",
            "ILL_PRVREG",
            "ILL_COPROC",
            "ILL_BADSTK",
            "ILL_BADIADDR",
        ],
        libc::SIGFPE => &[
            "FPE_INTDIV",
            "FPE_INTOVF",
            "FPE_FLTDIV",
            "FPE_FLTOVF",
            "FPE_FLTUND",
            "FPE_FLTRES",
            "FPE_FLTINV",
            "FPE_FLTSUB",
        ],
        libc::SIGTRAP => {
            &["TRAP_BRKPT", "TRAP_TRACE", "TRAP_BRANCH", "TRAP_HWBKPT", "TRAP_UNK", "TRAP_PERF"]
        }
        libc::SIGCHLD => &[
            "CLD_EXITED",
            "CLD_KILLED",
            "CLD_DUMPED",
            "CLD_TRAPPED",
            "CLD_STOPPED",
            "CLD_CONTINUED",
        ],
        libc::SIGPOLL => &["POLL_IN", "POLL_OUT", "POLL_MSG", "POLL_ERR", "POLL_PRI", "POLL_HUP"],
        libc::SIGSYS => &["SYS_SECCOMP", "SYS_USER_DISPATCH"],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(signal: i32, code: i32, rest: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for value in [signal, 0, code, 0] {
            bytes.extend(value.to_le_bytes());
        }
        bytes.extend(rest);
        bytes
    }

    fn check(signal: i32, code: i32, rest: &[u8], expected: &str) {
        let info = SignalInfo::new(&info(signal, code, rest));
        assert_eq!(info.described(signal.cast_unsigned()), expected);
    }

    #[test]
    fn each_signal_tells_what_it_carries() {
        check(libc::SIGSEGV, 1, &[0x10], "SEGV_MAPERR, address 0x10");
        check(libc::SIGSEGV, 0x80, &[], "SI_KERNEL");
        check(libc::SIGTERM, 0, &77i32.to_le_bytes(), "SI_USER, process 77");
        let child = [5i32, 0, 3].map(i32::to_le_bytes).concat();
        check(libc::SIGCHLD, 1, &child, "CLD_EXITED, process 5, status 3");
        check(libc::SIGCHLD, 2, &[5, 0, 0, 0, 0, 0, 0, 0, 9], "CLD_KILLED, process 5, SIGKILL");
        check(libc::SIGFPE, 99, &[], "si_code 99, address 0x0");
        // Cut short by zeroes, or by somebody who made it.
        assert_eq!(SignalInfo::new(&[]).described(11), "SI_USER, process 0");
        assert_eq!(SignalInfo::new(&[0xff; 200]).described(11), "SI_QUEUE, process -1");
    }
}
