//! Counters that the engine keeps in memory shared with `retro run --stats`.
//!
//! All processes of the guest's tree add to one block, with relaxed atomics: it is read only
//! after they have ended.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! stats {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// The shared counters. All-zero bytes are a valid empty block.
        #[repr(C)]
        #[derive(Debug, Default)]
        pub struct Stats {
            $($(#[doc = $doc])* pub $name: AtomicU64,)*
        }

        impl Stats {
            /// An empty block.
            pub const fn new() -> Stats {
                Stats { $($name: AtomicU64::new(0),)* }
            }

            /// Every counter as `(name, value)`, in the order of declaration.
            pub fn values(&self) -> [(&'static str, u64); Stats::COUNT] {
                [$((stringify!($name), self.$name.load(Relaxed)),)*]
            }

            /// How many counters there are.
            pub const COUNT: usize = [$(stringify!($name)),*].len();
        }
    };
}

stats! {
    /// Retired guest instructions.
    guest_instructions,
    /// Guest instructions that read memory.
    memory_reads,
    /// Guest instructions that wrote memory.
    memory_writes,
    /// Guest calls.
    calls,
    /// Guest returns.
    returns,
    /// Processes that ran under the engine (each successful execve counts).
    processes,
    /// Threads that ran under the engine.
    threads,
    /// Guest system calls.
    syscalls,
    /// Signals delivered to guest handlers.
    signals,
    /// Nondeterministic instructions that the policy saw (cpuid, rdtsc, rdrand...).
    nondeterministic,
    /// Blocks translated.
    blocks_translated,
    /// Guest instructions translated.
    instructions_translated,
    /// Bytes of code cache used.
    cache_bytes,
    /// Blocks thrown away because their code changed or was unmapped.
    blocks_invalidated,
    /// Times the whole code cache was flushed.
    cache_flushes,
    /// Nanoseconds spent in the translator.
    translator_nanoseconds,
    /// Exits to the engine to link a direct branch.
    exits_direct,
    /// Exits because an indirect jump, call or return missed the tables.
    exits_indirect,
    /// Exits for a system call.
    exits_syscall,
    /// Exits to emulate an instruction.
    exits_emulate,
    /// Exits because a guest instruction faulted.
    exits_fault,
    /// Exits to deliver an asynchronous signal.
    exits_signal,
    /// Exits because code checked its own bytes and found them changed.
    exits_modified_code,
}

impl Stats {
    /// Adds to a counter.
    pub fn add(counter: &AtomicU64, amount: u64) {
        counter.fetch_add(amount, Relaxed);
    }
}
