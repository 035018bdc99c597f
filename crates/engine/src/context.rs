//! The per-thread context: the one structure that emitted code, assembly and Rust share.
//!
//! It ends exactly where GS points, so everything in it is a negative displacement from GS and
//! positive displacements are free for the shadow of guest memory. In front of it, still within a
//! 32-bit displacement, lies the branch table of the thread:
//!
//! ```text
//! [guard | engine stack | signal stack | branch table | ... Context] <- GS
//! ```
//!
//! Invariants:
//! 1. Offsets are derived from this struct (`gs_offset!`), never written as numbers.
//! 2. A context is used by one thread; other threads only set atomics in it.
//! 3. While guest code runs, the guest's registers are in the machine; while engine code runs they
//!    are in `registers`, except vector, x87 and segment state, which never leaves the machine.

use crate::signals::ThreadSignals;
use core::sync::atomic::AtomicU32;
use retro_abi::layout::{PAGE, SHADOW_DISTANCE};

/// Entries of the branch table: indexed by the low 16 bits of the guest address, the one hash
/// that needs neither flags nor a second scratch register (`movzx`).
pub const BRANCH_TABLE_ENTRIES: usize = 1 << 16;

/// Bytes of the branch table.
pub const BRANCH_TABLE_BYTES: usize = BRANCH_TABLE_ENTRIES * 8;

/// Where in its page GS points: the same for every thread and while recording, so that the table starts
/// a page in both cases.
pub const GS_IN_PAGE: usize = (SHADOW_DISTANCE % PAGE) as usize;

/// Memory reserved for the context itself, right below GS.
pub const CONTEXT_AREA: usize = 16 * 1024 + GS_IN_PAGE;

/// GS displacement of the jump table.
pub const JUMP_TABLE: i32 = -((CONTEXT_AREA + BRANCH_TABLE_BYTES) as i32);

/// GS displacement of the page that counts instructions while recording (see `retro_abi::channel`).
pub const CLOCK_PAGE: i32 = JUMP_TABLE - PAGE as i32;

/// GS displacement of the clock.
pub const CLOCK: i32 = CLOCK_PAGE;

/// A general-purpose register, numbered as in instruction encodings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
#[allow(missing_docs, reason = "the architecture's names")]
pub enum Gpr {
    Rax,
    Rcx,
    Rdx,
    Rbx,
    Rsp,
    Rbp,
    Rsi,
    Rdi,
    R8,
    R9,
    R10,
    R11,
    R12,
    R13,
    R14,
    R15,
}

impl Gpr {
    /// All sixteen, in encoding order.
    pub const ALL: [Gpr; 16] = [
        Gpr::Rax,
        Gpr::Rcx,
        Gpr::Rdx,
        Gpr::Rbx,
        Gpr::Rsp,
        Gpr::Rbp,
        Gpr::Rsi,
        Gpr::Rdi,
        Gpr::R8,
        Gpr::R9,
        Gpr::R10,
        Gpr::R11,
        Gpr::R12,
        Gpr::R13,
        Gpr::R14,
        Gpr::R15,
    ];
}

/// Integer state of the guest.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// General-purpose registers in encoding order.
    pub gpr: [u64; 16],
    /// The guest's instruction pointer.
    pub rip: u64,
    /// Flags.
    pub rflags: u64,
}

impl Registers {
    /// Reads a register.
    pub fn get(&self, register: Gpr) -> u64 {
        self.gpr[register as usize]
    }

    /// Writes a register.
    pub fn set(&mut self, register: Gpr, value: u64) {
        self.gpr[register as usize] = value;
    }
}

/// Why control left the code cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ExitKind {
    /// A direct branch that is not linked yet; `exit_index` names it.
    Direct = 0,
    /// An indirect jump, call or return to `exit_target` that no table knows.
    Indirect = 1,
    /// A `syscall` instruction; `exit_index` names what follows it.
    Syscall = 2,
    /// An instruction the engine executes itself; `exit_index` names it.
    Emulate = 3,
    /// A guest instruction faulted; the handler left the details in `signals.fault`.
    Fault = 4,
    /// An asynchronous signal stopped the thread between two guest instructions.
    Asynchronous = 5,
    /// Nothing happened yet, or a signal came while the engine was about to enter the cache:
    /// continue at `registers.rip`.
    Continue = 6,
    /// A block found its own bytes changed; `exit_index` names where to resume.
    ModifiedCode = 7,
    /// A guest that has set the trap flag has executed one instruction.
    Stepped = 8,
    /// A load found memory and its shadow different; `exit_index` names the place.
    Mismatch = 9,
    /// The clock has reached its deadline; `exit_index` names where to go on.
    Deadline = 10,
    /// An instruction is about to touch memory in a way that only the engine can follow; `exit_index`
    /// names it.
    BeforeAccess = 11,
    /// That instruction is done.
    AfterAccess = 12,
}

impl ExitKind {
    /// All of them, in the order of their numbers, which assembly stores.
    pub const ALL: [ExitKind; 13] = [
        ExitKind::Direct,
        ExitKind::Indirect,
        ExitKind::Syscall,
        ExitKind::Emulate,
        ExitKind::Fault,
        ExitKind::Asynchronous,
        ExitKind::Continue,
        ExitKind::ModifiedCode,
        ExitKind::Stepped,
        ExitKind::Mismatch,
        ExitKind::Deadline,
        ExitKind::BeforeAccess,
        ExitKind::AfterAccess,
    ];
}

const _: () = {
    let mut number = 0;
    while number < ExitKind::ALL.len() {
        assert!(ExitKind::ALL[number] as usize == number);
        number += 1;
    }
};

/// Spill slots and their users.
pub mod slot {
    /// rcx around indirect transfers.
    pub const BRANCH_RCX: u8 = 0;
    /// rdx around indirect transfers.
    pub const BRANCH_RDX: u8 = 1;
    /// rax in the table look-up of the engine.
    pub const LOOKUP_RAX: u8 = 2;
    /// Flags in the table look-up of the engine.
    pub const LOOKUP_FLAGS: u8 = 3;
    /// First scratch register of a rewritten operand.
    pub const OPERAND: u8 = 4;
    /// Second scratch register of a rewritten operand.
    pub const OPERAND_SECOND: u8 = 5;
    /// Scratch of a policy's instrumentation.
    pub const POLICY: u8 = 6;
    /// Second scratch of a policy's instrumentation.
    pub const POLICY_SECOND: u8 = 7;
    /// rax while flags are saved or restored.
    pub const FLAGS_RAX: u8 = 8;
    /// The guest's arithmetic flags, as `lahf` and `seto al` leave them in ax.
    pub const FLAGS: u8 = 9;
    /// The guest's own register while a replay keeps its clock there.
    pub const CLOCK: u8 = 10;
    /// The guest's own register while a stream keeps the place of its next record there.
    pub const CURSOR: u8 = 11;
    /// How many there are.
    pub const COUNT: usize = 12;
}

/// Counters that the `Count` policy's emitted code increments.
pub mod counter {
    /// Retired guest instructions.
    pub const INSTRUCTIONS: usize = 0;
    /// Instructions that read memory.
    pub const READS: usize = 1;
    /// Instructions that write memory.
    pub const WRITES: usize = 2;
    /// Calls.
    pub const CALLS: usize = 3;
    /// Returns.
    pub const RETURNS: usize = 4;
    /// How many there are.
    pub const COUNT: usize = 5;
}

/// The context.
#[repr(C, align(64))]
pub struct Context {
    /// Where emitted code keeps a guest register while it uses the real one.
    pub spill: [u64; slot::COUNT],
    /// Counters of the `Count` policy.
    pub counters: [u64; counter::COUNT],
    /// The guest's integer registers while the engine runs.
    pub registers: Registers,
    /// The guest's FS base, kept up to date while recording.
    pub guest_fs_base: u64,
    /// The GS base the guest believes in.
    pub guest_gs_base: u64,
    /// Cache address that the entry assembly jumps to.
    pub enter_target: u64,
    /// Top of the engine's stack for this thread.
    pub engine_stack: u64,
    /// This context's own address.
    pub me: u64,
    /// Where the context lies when its thread does not run the guest; the same as `me` unless recording.
    pub home: u64,
    /// Target of an indirect exit.
    pub exit_target: u64,
    /// [`ExitKind`] of the last exit.
    pub exit_kind: u32,
    /// Index of the exit record.
    pub exit_index: u32,
    /// Nonzero when a signal waits for delivery; checked on the way into the cache and before
    /// guest system calls.
    pub pending: AtomicU32,
    /// Nonzero while the thread single-steps to the next guest instruction boundary; then what is pending
    /// does not keep it from entering the cache.
    pub stepping: u32,
    /// Whether the engine's own instruction is executed without the alignment check that the guest has asked for.
    pub unaligned: bool,
    /// Whether `enter_target` lies in the middle of a block, where there may be no boundary.
    pub inside: bool,
    /// Whether flags that nobody reads may be wrong where the guest goes on: no place for a signal, which shows them.
    pub incomplete: bool,
    /// Whether the next instruction is to be executed carefully: it faults, and must fault by itself.
    pub careful: bool,
    /// The system call that the thread is in, by number plus one.
    pub in_syscall: u32,
    /// What the clock is off by, because the thread left a block in the middle.
    pub unsettled: i32,
    /// Selectors the guest loaded into GS, which the engine must not load.
    pub guest_gs_selector: u32,
    /// Whether the guest has asked that `cpuid` faults.
    pub cpuid_faults: bool,
    /// Which system calls the guest wants to answer itself.
    pub user_dispatch: crate::syscalls::user_dispatch::UserDispatch,
    /// Whether the guest has set the trap flag.
    pub guest_trap_flag: bool,
    /// Whether the instruction now in the cache runs under the trap flag: a trap follows it.
    pub trap_armed: bool,
    /// Whether the instruction now in the cache is a tracer's step, which is over when its block is left.
    pub step_by_exit: bool,
    /// The instruction that runs under the trap flag.
    pub stepped_pc: u64,
    /// Whether a step under the trap flag has reached its guest instruction.
    pub step_begun: bool,
    /// An x87 environment that emitted code saved: control, status, tag, instruction pointer and so on.
    pub x87_environment: [u32; 8],
    /// Signal state of the thread.
    pub signals: ThreadSignals,
    /// What a tracer has to do with the thread.
    pub traced: crate::ptrace::Traced,
    /// State of the thread for the engine's thread list.
    pub thread: crate::threads::ThreadState,
}

impl Context {
    /// Kernel thread id.
    pub fn tid(&self) -> u32 {
        self.thread.tid.load(core::sync::atomic::Ordering::Relaxed) as u32
    }
}

const _: () = assert!(size_of::<Context>() <= CONTEXT_AREA);

/// Size of the context: its start lies this far below GS.
pub const CONTEXT_SIZE: usize = size_of::<Context>();

/// GS displacement of a context field.
#[macro_export]
macro_rules! gs_offset {
    ($($field:tt)+) => {
        (core::mem::offset_of!($crate::context::Context, $($field)+) as i32
            - $crate::context::CONTEXT_SIZE as i32)
    };
}

/// GS displacement of a spill slot.
pub const fn spill_offset(slot: u8) -> i32 {
    gs_offset!(spill) + 8 * slot as i32
}

/// GS displacement of a counter.
pub const fn counter_offset(counter: usize) -> i32 {
    gs_offset!(counters) + 8 * counter as i32
}

/// GS displacement of a saved general-purpose register.
pub const fn register_offset(index: usize) -> i32 {
    gs_offset!(registers.gpr) + 8 * index as i32
}
