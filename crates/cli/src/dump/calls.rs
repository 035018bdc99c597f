//! System calls, as `strace` has taught people to read them.

use nix::errno::Errno;
use retro_abi::syscall_names;

use super::signatures::{Argument, arguments, returns_pointer};
use crate::wording;

/// The largest error that a call can return; see the kernel's `IS_ERR_VALUE`.
const MAX_ERRNO: u64 = 4095;

/// `read(3, 0x7ffc12340000, 4096)`
pub fn call(number: u64, args: &[u64; 6]) -> String {
    let shown: Vec<String> = match syscall_names::name(number).and_then(arguments) {
        Some(kinds) => kinds.zip(args).map(|(kind, &value)| argument(kind, value)).collect(),
        None => args.iter().map(|value| format!("{value:#x}")).collect(),
    };
    format!("{}({})", name(number), shown.join(", "))
}

/// A call by its name, or by its number if it has none.
pub fn name(number: u64) -> String {
    match syscall_names::name(number) {
        Some(name) => name.to_string(),
        None => format!("syscall_{number}"),
    }
}

/// `17`, `-1 ENOENT`, or `0x7f0012340000`.
pub fn result(number: Option<u64>, value: u64) -> String {
    if value > u64::MAX - MAX_ERRNO {
        let errno = value.wrapping_neg() as i32;
        return match Errno::from_raw(errno) {
            Errno::UnknownErrno => format!("-1 (error {errno})"),
            known => format!("-1 {known:?}"),
        };
    }
    match number.and_then(syscall_names::name) {
        Some(name) if returns_pointer(name) => format!("{value:#x}"),
        _ => value.cast_signed().to_string(),
    }
}

fn argument(kind: Argument, value: u64) -> String {
    match kind {
        Argument::Descriptor if value as i32 == libc::AT_FDCWD => "AT_FDCWD".to_string(),
        Argument::Descriptor | Argument::Integer => (value as i32).to_string(),
        Argument::Long => value.cast_signed().to_string(),
        Argument::Size => value.to_string(),
        Argument::Pointer if value == 0 => "NULL".to_string(),
        Argument::Pointer => format!("{value:#x}"),
        Argument::Flags if value == 0 => "0".to_string(),
        Argument::Flags => format!("{value:#x}"),
        Argument::Mode => format!("0{:o}", value as u32),
        Argument::Signal if value == 0 => "0".to_string(),
        Argument::Signal => wording::signal(value as u32),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_shown_by_their_kind() {
        assert_eq!(call(0, &[3, 0x7ffc_0000, 4096, 9, 9, 9]), "read(3, 0x7ffc0000, 4096)");
        let cwd = (-100i32) as u32 as u64;
        assert_eq!(
            call(257, &[cwd, 0x1000, 0x80000, 0o644, 0, 0]),
            "openat(AT_FDCWD, 0x1000, 0x80000, 0644)"
        );
        assert_eq!(call(62, &[u64::MAX, 15, 0, 0, 0, 0]), "kill(-1, SIGTERM)");
        assert_eq!(call(39, &[1; 6]), "getpid()");
        assert_eq!(call(9999, &[1, 0, 0, 0, 0, 0]), "syscall_9999(0x1, 0x0, 0x0, 0x0, 0x0, 0x0)");
    }

    #[test]
    fn results_tell_errors_from_values() {
        assert_eq!(result(Some(0), 17), "17");
        assert_eq!(result(Some(0), (-2i64) as u64), "-1 ENOENT");
        assert_eq!(result(Some(0), (-4000i64) as u64), "-1 (error 4000)");
        assert_eq!(result(Some(9), 0x7f00_0000_0000), "0x7f0000000000");
        assert_eq!(result(None, (-5000i64) as u64), "-5000");
    }
}
