//! Memory that may be used for one opened recording.
//!
//! The problem: a few bytes of a recording can stand for gigabytes: compressed chunks and debug information, or what a replay
//! process says that the recording has taken over.
//! The strategy: whoever keeps something whose size a recording decides takes a [`Share`] of the recording's [`Budget`]
//! before memory is allocated for it, and does without if there is none left. Shares go back when they are dropped.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What the user says: bytes, with K, M or G behind them.
pub const MEMORY_VARIABLE: &str = "RETRO_MEMORY";

/// What there is at least.
const LEAST: u64 = 1 << 30;

/// What there is where nothing is known of the machine.
const ASSUMED: u64 = 4 << 30;

/// There is not enough left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "it takes more memory than the {} MiB that a recording may use ({MEMORY_VARIABLE}=8G allows more)",
    .limit >> 20
)]
pub struct OverBudget {
    /// Bytes that there are for all.
    pub limit: u64,
}

/// How much memory may be used. Clones share it.
#[derive(Clone, Debug)]
pub struct Budget {
    shared: Arc<Amounts>,
}

#[derive(Debug)]
struct Amounts {
    limit: u64,
    used: AtomicU64,
    /// Whether somebody has asked for more.
    has_refused: AtomicBool,
}

/// A part of a budget, given back when it is dropped. A clone takes as much again, whether it is there or not.
#[derive(Debug)]
pub struct Share {
    budget: Budget,
    bytes: u64,
}

impl Budget {
    /// So many bytes.
    pub fn new(limit: u64) -> Budget {
        let (used, has_refused) = (AtomicU64::new(0), AtomicBool::new(false));
        Budget { shared: Arc::new(Amounts { limit, used, has_refused }) }
    }

    /// Half of the machine's memory, or what the user says.
    pub fn of_this_machine() -> Budget {
        let said = said_limit();
        Budget::new(
            said.unwrap_or_else(|| machine_memory().map_or(ASSUMED, |all| all / 2).max(LEAST)),
        )
    }

    /// An empty share, to be grown.
    pub fn share(&self) -> Share {
        Share { budget: self.clone(), bytes: 0 }
    }

    /// A share of so many bytes, if they are there.
    pub fn take(&self, bytes: u64) -> Result<Share, OverBudget> {
        let mut share = self.share();
        share.grow(bytes)?;
        Ok(share)
    }

    /// Notes that something was left out because of the memory that it would have taken.
    pub fn refuse(&self) {
        self.shared.has_refused.store(true, Ordering::Relaxed);
    }

    /// Whether something was left out because of the memory that it would have taken.
    pub fn has_refused(&self) -> bool {
        self.shared.has_refused.load(Ordering::Relaxed)
    }

    /// Bytes that are in use.
    pub fn used(&self) -> u64 {
        self.shared.used.load(Ordering::Relaxed)
    }
}

impl Share {
    /// Takes more, if it is there.
    pub fn grow(&mut self, bytes: u64) -> Result<(), OverBudget> {
        let Amounts { limit, used, .. } = &*self.budget.shared;
        let before = used.fetch_add(bytes, Ordering::Relaxed);
        if before.checked_add(bytes).is_none_or(|sum| sum > *limit) {
            used.fetch_sub(bytes, Ordering::Relaxed);
            self.budget.refuse();
            return Err(OverBudget { limit: *limit });
        }
        self.bytes += bytes;
        Ok(())
    }

    /// Gives all of it back.
    pub fn clear(&mut self) {
        self.budget.shared.used.fetch_sub(self.bytes, Ordering::Relaxed);
        self.bytes = 0;
    }

    /// Bytes of it.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Clone for Share {
    fn clone(&self) -> Share {
        self.budget.shared.used.fetch_add(self.bytes, Ordering::Relaxed);
        Share { budget: self.budget.clone(), bytes: self.bytes }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Bytes that the user allows, if he says so.
pub fn said_limit() -> Option<u64> {
    std::env::var(MEMORY_VARIABLE).ok().and_then(|text| parse_size(&text))
}

/// Bytes of memory that this machine has, if it tells.
pub fn machine_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    Some(kilobytes << 10)
}

fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let (digits, unit) = match text.as_bytes().last()?.to_ascii_uppercase() {
        b'K' => (&text[..text.len() - 1], 1 << 10),
        b'M' => (&text[..text.len() - 1], 1 << 20),
        b'G' => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_comes_back() {
        let budget = Budget::new(100);
        let mut first = budget.take(60).unwrap();
        assert_eq!(budget.take(41).unwrap_err(), OverBudget { limit: 100 });
        assert_eq!(budget.take(u64::MAX).unwrap_err(), OverBudget { limit: 100 });
        let second = budget.take(40).unwrap();
        assert!(first.grow(1).is_err());
        drop(second);
        first.grow(40).unwrap();
        assert_eq!((first.bytes(), budget.used()), (100, 100));
        let copy = first.clone();
        assert_eq!(budget.used(), 200);
        assert!(budget.take(1).is_err());
        drop(copy);
        first.clear();
        assert_eq!(budget.used(), 0);
        drop(first);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn sizes_have_units() {
        for (text, expected) in [
            ("4096", Some(4096)),
            ("64K", Some(64 << 10)),
            ("3m", Some(3 << 20)),
            (" 2G ", Some(2 << 30)),
            ("", None),
            ("G", None),
            ("many", None),
            ("99999999999G", None),
        ] {
            assert_eq!(parse_size(text), expected, "{text:?}");
        }
    }
}
