//! Instrumentation policies: what is woven into the guest's code and what is done at its events.
//!
//! A policy hooks two moments. While a block is translated it sees the decoded guest instructions,
//! their memory accesses, calls and returns, and may emit code around them; while the guest runs it
//! sees system calls, signals and nondeterministic instructions.
//!
//! The translator is generic over the policy, so that [`Run`] costs nothing: its hooks are empty and
//! its constants are false, and what they guard is not compiled.
//!
//! Rules for emitted instrumentation: it preserves all guest registers and flags (spill slots
//! `POLICY*`, `lea` instead of `add`), never touches the guest's stack, and declares what it spills so
//! that the guest's state stays recoverable at every byte.

use crate::context::{Context, Gpr, Registers, counter, counter_offset, slot};
use crate::translate::emit::Emitter;
use crate::translate::liveness::Dead;
use iced_x86::{Instruction, OpAccess, UsedMemory};
use retro_abi::stats::Stats;

/// Instructions whose result is not a function of the guest's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the architecture's names")]
pub enum Nondeterministic {
    Cpuid,
    Rdtsc,
    Rdtscp,
    Rdrand,
    Rdseed,
    Rdpid,
    Rdpru,
    Rdpmc,
    Xgetbv,
    /// `lsl`, `sgdt` and others that tell about segments.
    Descriptor,
    /// `tpause`, `umwait`
    Pause,
    /// Loads and stores of DS, ES, SS and FS: selectors mean what tables say that a replay lacks.
    Segment,
    /// Those of GS, which the engine always executes itself.
    GuestGs,
}

impl Nondeterministic {
    /// Whether the engine executes it under every policy.
    pub fn is_always_emulated(self) -> bool {
        matches!(self, Nondeterministic::Cpuid | Nondeterministic::GuestGs)
    }
}

/// The decoded guest instructions of a block.
pub type Decoded = [Instruction];

/// What a policy weaves into the code.
pub trait Policy: Events {
    /// Whether [`Policy::before_access`] wants to see memory accesses.
    const ACCESSES: bool;

    /// Whether rdtsc, rdrand and the like leave for the engine, which calls
    /// [`Events::nondeterministic`], instead of running in the cache.
    const INTERCEPT_NONDETERMINISTIC: bool;

    /// Whether [`Policy::block_entry`] emits anything.
    const BLOCK_ENTRY: bool;

    /// Whether memory has a shadow that emitted code keeps (see [`crate::record::weave`]).
    const RECORDS: bool = false;

    /// Whether blocks count themselves (see [`crate::clock`]).
    const COUNTS: bool = false;

    /// Whether a log tells what happens: what depends on the processor is not executed.
    const REPLAYS: bool = false;

    /// At the start of a block, before its first guest instruction; `dead` may be destroyed.
    fn block_entry(&mut self, out: &mut Emitter, block: &Decoded, dead: Dead) {
        let _ = (out, block, dead);
    }

    /// Before an instruction that reads or writes memory.
    fn before_access(&mut self, out: &mut Emitter, guest: &Instruction, memory: &[UsedMemory]) {
        let _ = (out, guest, memory);
    }

    /// After an instruction that reads or writes memory, unless it ends the block.
    fn after_access(&mut self, out: &mut Emitter, guest: &Instruction, memory: &[UsedMemory]) {
        let _ = (out, guest, memory);
    }

    /// Before a call; `return_address` is what it pushes.
    fn before_call(&mut self, out: &mut Emitter, guest: &Instruction, return_address: u64) {
        let _ = (out, guest, return_address);
    }

    /// Before a return.
    fn before_return(&mut self, out: &mut Emitter, guest: &Instruction) {
        let _ = (out, guest);
    }
}

/// What a policy does at the events of the running guest.
pub trait Events: Sync {
    /// A system call is about to be executed: number and arguments are in the context's registers.
    fn syscall_entry(&self, context: &mut Context, stats: &Stats) {
        let _ = (context, stats);
    }

    /// A system call has been executed; its result is in the context's registers.
    fn syscall_exit(&self, context: &mut Context, number: u64, args: &[u64; 6], stats: &Stats) {
        let _ = (context, number, args, stats);
    }

    /// A signal is about to be delivered to a guest handler.
    fn signal(&self, context: &mut Context, signal: u32, stats: &Stats) {
        let _ = (context, signal, stats);
    }

    /// A nondeterministic instruction has been executed; its outputs are in the context.
    fn nondeterministic(
        &self,
        context: &mut Context,
        before: &Registers,
        what: Nondeterministic,
        stats: &Stats,
    ) {
        let _ = (context, before, what, stats);
    }
}

/// No instrumentation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Run;

impl Events for Run {}

impl Policy for Run {
    const ACCESSES: bool = false;
    const BLOCK_ENTRY: bool = false;
    const INTERCEPT_NONDETERMINISTIC: bool = false;
}

/// Counts events, for `retro run --stats`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Count;

/// `counter += amount` without flags: through a spilled rax and `lea`.
fn add_to_counter(out: &mut Emitter, which: usize, amount: usize) {
    if amount == 0 {
        return;
    }
    let mark = out.spill(Gpr::Rax, slot::POLICY);
    out.load_gs(Gpr::Rax, counter_offset(which));
    out.lea_disp(Gpr::Rax, Gpr::Rax, amount as i32);
    out.store_gs(Gpr::Rax, counter_offset(which));
    out.unspill(mark);
}

/// Whether an access may read.
pub fn is_read(access: OpAccess) -> bool {
    use OpAccess::*;
    matches!(access, Read | CondRead | ReadWrite | ReadCondWrite)
}

/// Whether an access may write.
pub fn is_write(access: OpAccess) -> bool {
    use OpAccess::*;
    matches!(access, Write | CondWrite | ReadWrite | ReadCondWrite)
}

impl Policy for Count {
    const ACCESSES: bool = true;
    const BLOCK_ENTRY: bool = true;
    const INTERCEPT_NONDETERMINISTIC: bool = true;

    fn block_entry(&mut self, out: &mut Emitter, block: &Decoded, dead: Dead) {
        if dead.flags {
            out.add_gs_imm32(counter_offset(counter::INSTRUCTIONS), block.len() as i32);
        } else if dead.registers.contains(Gpr::Rax) {
            out.load_gs(Gpr::Rax, counter_offset(counter::INSTRUCTIONS));
            out.lea_disp(Gpr::Rax, Gpr::Rax, block.len() as i32);
            out.store_gs(Gpr::Rax, counter_offset(counter::INSTRUCTIONS));
            out.destroys_dead = true;
        } else {
            add_to_counter(out, counter::INSTRUCTIONS, block.len());
        }
    }

    fn before_access(&mut self, out: &mut Emitter, _: &Instruction, memory: &[UsedMemory]) {
        let reads = memory.iter().any(|m| is_read(m.access()));
        let writes = memory.iter().any(|m| is_write(m.access()));
        add_to_counter(out, counter::READS, reads as usize);
        add_to_counter(out, counter::WRITES, writes as usize);
    }

    fn before_call(&mut self, out: &mut Emitter, _: &Instruction, _: u64) {
        add_to_counter(out, counter::CALLS, 1);
    }

    fn before_return(&mut self, out: &mut Emitter, _: &Instruction) {
        add_to_counter(out, counter::RETURNS, 1);
    }
}

impl Events for Count {
    fn syscall_entry(&self, _: &mut Context, stats: &Stats) {
        Stats::add(&stats.syscalls, 1);
    }

    fn signal(&self, _: &mut Context, _: u32, stats: &Stats) {
        Stats::add(&stats.signals, 1);
    }

    fn nondeterministic(&self, _: &mut Context, _: &Registers, _: Nondeterministic, stats: &Stats) {
        Stats::add(&stats.nondeterministic, 1);
    }
}
