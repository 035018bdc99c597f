//! Names of the x86-64 Linux signals.
//!
//! Real-time signals have no names of their own. They are named here as shells list them, counted from the two
//! ends that the C library leaves to programs; the two below are its own and stay numbers.

/// Signals 1 and up.
const NAMES: [&str; 64] = [
    "SIGHUP",
    "SIGINT",
    "SIGQUIT",
    "SIGILL",
    "SIGTRAP",
    "SIGABRT",
    "SIGBUS",
    "SIGFPE",
    "SIGKILL",
    "SIGUSR1",
    "SIGSEGV",
    "SIGUSR2",
    "SIGPIPE",
    "SIGALRM",
    "SIGTERM",
    "SIGSTKFLT",
    "SIGCHLD",
    "SIGCONT",
    "SIGSTOP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGXCPU",
    "SIGXFSZ",
    "SIGVTALRM",
    "SIGPROF",
    "SIGWINCH",
    "SIGIO",
    "SIGPWR",
    "SIGSYS",
    "SIG32",
    "SIG33",
    "SIGRTMIN",
    "SIGRTMIN+1",
    "SIGRTMIN+2",
    "SIGRTMIN+3",
    "SIGRTMIN+4",
    "SIGRTMIN+5",
    "SIGRTMIN+6",
    "SIGRTMIN+7",
    "SIGRTMIN+8",
    "SIGRTMIN+9",
    "SIGRTMIN+10",
    "SIGRTMIN+11",
    "SIGRTMIN+12",
    "SIGRTMIN+13",
    "SIGRTMIN+14",
    "SIGRTMIN+15",
    "SIGRTMAX-14",
    "SIGRTMAX-13",
    "SIGRTMAX-12",
    "SIGRTMAX-11",
    "SIGRTMAX-10",
    "SIGRTMAX-9",
    "SIGRTMAX-8",
    "SIGRTMAX-7",
    "SIGRTMAX-6",
    "SIGRTMAX-5",
    "SIGRTMAX-4",
    "SIGRTMAX-3",
    "SIGRTMAX-2",
    "SIGRTMAX-1",
    "SIGRTMAX",
];

/// The name of a signal, with its `SIG`; `None` for what is no signal.
pub fn name(number: u32) -> Option<&'static str> {
    NAMES.get((number as usize).checked_sub(1)?).copied()
}

#[cfg(test)]
mod tests {
    use super::name;

    #[test]
    fn names_stand_at_their_numbers() {
        for (number, expected) in [
            (1, "SIGHUP"),
            (9, "SIGKILL"),
            (11, "SIGSEGV"),
            (17, "SIGCHLD"),
            (31, "SIGSYS"),
            (33, "SIG33"),
            (34, "SIGRTMIN"),
            (49, "SIGRTMIN+15"),
            (50, "SIGRTMAX-14"),
            (64, "SIGRTMAX"),
        ] {
            assert_eq!(name(number), Some(expected));
        }
    }

    #[test]
    fn other_numbers_have_no_name() {
        for number in [0, 65, u32::MAX] {
            assert_eq!(name(number), None);
        }
    }
}
