//! Signals as gdb numbers them: the same on all systems, which is not how Linux has them.

/// gdb's number for a signal that it does not know.
const UNKNOWN: u8 = 143;

/// Pairs of Linux's and gdb's numbers, where they differ.
const DIFFERENT: [(u32, u8); 13] = [
    (7, 10),
    (10, 30),
    (12, 31),
    (16, UNKNOWN),
    (17, 20),
    (18, 19),
    (19, 17),
    (20, 18),
    (23, 16),
    (29, 23),
    (30, 32),
    (31, 12),
    (64, 78),
];

/// gdb's number of a signal.
pub fn of_gdb(signal: u32) -> u8 {
    if let Some((_, known)) = DIFFERENT.iter().find(|(linux, _)| *linux == signal) {
        return *known;
    }
    match signal {
        1..=31 => signal as u8,
        32 => 77,
        33..=63 => (signal + 12) as u8,
        _ => UNKNOWN,
    }
}

/// Linux's signal with a number of gdb's, if there is one.
pub fn of_linux(number: u64) -> Option<u32> {
    (1..=64).find(|&signal| u64::from(of_gdb(signal)) == number && number != UNKNOWN.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for signal in (1..=64).filter(|&signal| signal != 16) {
            assert_eq!(of_linux(of_gdb(signal).into()), Some(signal));
        }
        assert_eq!(of_linux(143), None);
        assert_eq!((of_gdb(11), of_gdb(10), of_gdb(34)), (11, 30, 46));
    }
}
