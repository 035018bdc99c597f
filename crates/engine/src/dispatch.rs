//! The engine's main loop: what to do when control leaves the code cache.
//!
//! Every exit comes here on a fresh engine stack with the guest's integer registers in the context;
//! when [`retro_dispatch`] returns, assembly puts them back and jumps to `enter_target`.

use crate::cache::{self, CodeCache, Failure, How, Limit};
use crate::clock::{self, weave::Keeping};
use crate::context::{Context, ExitKind, counter};
use crate::guest_memory as guest;
use crate::lock::{Guard, Lock};
use crate::maps::{AddressSpace, Backing, Mapping};
use crate::policy::{Count, Events, Policy, Run};
use crate::ptrace;
use crate::record::{self, Record};
use crate::replay::{self, Replay};
use crate::signals::{self, Fault, PENDING_DEADLINE, PENDING_KICK, PENDING_SIGNAL, PENDING_STOP};
use crate::{emulate, sys, syscalls, threads};
use alloc::boxed::Box;
use core::sync::atomic::{AtomicPtr, Ordering};
use linux_raw_sys::general as c;
use retro_abi::config;
use retro_abi::layout::PAGE;
use retro_abi::stats::Stats;

/// The parts of the engine that all threads share and that change.
pub struct Engine {
    /// Translated code.
    pub cache: &'static mut CodeCache,
    /// Guest mappings.
    pub space: AddressSpace,
    /// Start and current end of the heap.
    pub heap: (u64, u64),
    /// Counts flushes, so that a thread notices that its exit record is gone.
    pub generation: u32,
    translate: Translate,
    flush_wanted: bool,
}

/// The translator, instantiated for the policy.
type Translate = fn(&mut CodeCache, u64, &[u8], How, Peek) -> Result<u32, Failure>;

/// Reads code that will not change.
type Peek<'a> = &'a dyn Fn(u64, &mut [u8]) -> usize;

/// What does not change after start-up.
pub struct Fixed {
    /// The policy's run-time half.
    pub events: &'static dyn Events,
    /// Counters: shared memory, or a place nobody reads.
    pub stats: &'static Stats,
    /// Whether anybody reads them.
    pub counting: bool,
    /// The policy by name, for programs that the guest executes.
    pub policy: config::Policy,
    /// Where the shared counters are.
    pub stats_file: Option<config::SharedFile>,
    /// Limit on the code cache.
    pub cache_kib: Option<u32>,
    /// What the guest sees of itself in /proc.
    pub program: crate::start::Program,
}

static ENGINE: AtomicPtr<Lock<Engine>> = AtomicPtr::new(core::ptr::null_mut());
static FIXED: AtomicPtr<Fixed> = AtomicPtr::new(core::ptr::null_mut());

fn translate_with<P: Policy + Default>(
    cache: &mut CodeCache,
    pc: u64,
    code: &[u8],
    how: How,
    peek: Peek,
) -> Result<u32, Failure> {
    cache.translate(&mut P::default(), pc, code, how, peek)
}

/// The run-time half of a policy.
pub fn events_of(policy: config::Policy) -> &'static dyn Events {
    match policy {
        config::Policy::Run => &Run,
        config::Policy::Count => &Count,
        config::Policy::Record => &Record,
        config::Policy::Replay => &Replay,
    }
}

/// Puts the engine in place. Called once.
pub fn install(cache: CodeCache, space: AddressSpace, heap_start: u64, fixed: Fixed) {
    let translate: Translate = match fixed.policy {
        config::Policy::Run => translate_with::<Run>,
        config::Policy::Count => translate_with::<Count>,
        config::Policy::Record => translate_with::<Record>,
        config::Policy::Replay => translate_with::<Replay>,
    };
    let heap = (heap_start, heap_start);
    let engine = Engine {
        cache: cache.publish(),
        space,
        heap,
        generation: 0,
        translate,
        flush_wanted: false,
    };
    FIXED.store(Box::into_raw(Box::new(fixed)), Ordering::Release);
    ENGINE.store(Box::into_raw(Box::new(Lock::new(engine))), Ordering::Release);
}

/// The engine, locked.
pub fn engine() -> Guard<'static, Engine> {
    // SAFETY: set once at start-up, before any guest code, and never freed.
    unsafe { &*ENGINE.load(Ordering::Acquire) }.lock()
}

/// What does not change.
pub fn fixed() -> &'static Fixed {
    // SAFETY: set once at start-up, before any guest code, and never freed.
    unsafe { &*FIXED.load(Ordering::Acquire) }
}

/// Tells the policy about a signal.
pub fn on_signal(context: &mut Context, signal: u32) {
    let fixed = fixed();
    fixed.events.signal(context, signal, fixed.stats);
}

/// Gives write-protected code pages back to the guest, before memory is written on its behalf.
pub fn unprotect_all_code() {
    let engine = &mut *engine();
    engine.cache.unprotect_all(&engine.space);
}

/// Adds the thread's counters and the cache's to the shared ones.
pub fn flush_stats(context: &mut Context) {
    let fixed = fixed();
    if !fixed.counting {
        return;
    }
    let stats = fixed.stats;
    add_counters(stats, &core::mem::take(&mut context.counters));
    let mut engine = engine();
    let counts = core::mem::take(&mut engine.cache.counts);
    Stats::add(&stats.blocks_translated, counts.blocks);
    Stats::add(&stats.instructions_translated, counts.instructions);
    Stats::add(&stats.blocks_invalidated, counts.invalidated);
    Stats::add(&stats.cache_flushes, counts.flushes);
    Stats::add(&stats.cache_bytes, counts.bytes);
}

/// Adds a thread's counters to the shared ones.
pub fn add_counters(stats: &Stats, counters: &[u64; counter::COUNT]) {
    Stats::add(&stats.guest_instructions, counters[counter::INSTRUCTIONS]);
    Stats::add(&stats.memory_reads, counters[counter::READS]);
    Stats::add(&stats.memory_writes, counters[counter::WRITES]);
    Stats::add(&stats.calls, counters[counter::CALLS]);
    Stats::add(&stats.returns, counters[counter::RETURNS]);
}

/// Entry from the border assembly.
pub extern "C" fn retro_dispatch(context: &mut Context) {
    if clock::active() {
        clock::take(context);
        dispatch(context);
        clock::give(context);
    } else {
        dispatch(context);
    }
}

fn dispatch(context: &mut Context) {
    use ExitKind::*;
    let kind = ExitKind::ALL[context.exit_kind as usize];
    let mut from = From::Anywhere;
    let mut exit_target = context.exit_target;
    if matches!(kind, Direct | Syscall | Emulate | ModifiedCode) {
        // The record must be read before the thread counts as out of the cache.
        let (target, generation) = cache::exit_record(context.exit_index);
        exit_target = target;
        if kind == Direct {
            from = From::Direct { exit: context.exit_index, generation };
        }
    }
    context.thread.in_cache.store(0, Ordering::Release);
    // Recording leaves flags out that the next block overwrites.
    context.incomplete = match kind {
        Direct | Deadline => record::watching(),
        Continue => context.incomplete,
        _ => false,
    };
    if context.unsettled != 0 {
        record::settle(context);
    }
    if kind == Deadline && replay::active() {
        context.stepping = 0;
        replay::left_at_deadline(context);
        return resume(context, From::Crossing);
    }
    if matches!(kind, BeforeAccess | AfterAccess) && replay::active() {
        let site = cache::site(context.exit_index);
        replay::stream::access(context, kind, &site);
        context.enter_target = site.resume;
        return;
    }
    if matches!(kind, Mismatch | Deadline | BeforeAccess | AfterAccess) {
        context.stepping = 0;
        if !record::exit(context, kind) {
            let careful = core::mem::take(&mut context.careful);
            resume(context, if careful { From::CarefulStep } else { From::Anywhere });
        }
        return;
    }
    if kind == Continue && context.inside {
        return record::go_on_inside(context);
    }
    context.inside = false;
    let fixed = fixed();
    if fixed.counting {
        count_exit(fixed.stats, kind);
    }
    // The trap flag takes effect after an instruction, except that `syscall` masks it. A tracer's step does not.
    let (stepped, stops) = (context.traced.wants & ptrace::wants::STEP != 0, context.traced.stops);
    let by_machine = core::mem::take(&mut context.trap_armed);
    let by_exit = core::mem::take(&mut context.step_by_exit);
    let trapped = (by_machine || by_exit)
        && !matches!(kind, Fault | Asynchronous | Continue)
        && (kind != Syscall || stepped);
    context.stepping = 0;
    context.registers.rflags &= !signals::TRAP_FLAG;
    match kind {
        Direct => context.registers.rip = exit_target,
        Indirect => {
            context.registers.rip = exit_target;
            from = From::Jump;
        }
        Syscall if replay::active() => replay::syscall(context, exit_target),
        Syscall => syscalls::handle(context, exit_target),
        Emulate => {
            context.registers.rip = exit_target;
            emulate::instruction(context);
        }
        Fault if replay::active() => replay::fault(context),
        Fault => from = fault(context),
        ModifiedCode => {
            context.registers.rip = exit_target;
            forget_block(exit_target);
        }
        Asynchronous | Continue | Stepped => {}
        Mismatch | Deadline | BeforeAccess | AfterAccess => {}
    }
    if trapped {
        record::stepped(context);
        from = From::Anywhere;
        // A stop at a system call ends the step, whatever comes next.
        let over = stepped && context.traced.stops != stops;
        if !(over || stepped && ptrace::steps::within_block(context)) {
            let trap = signals::Fault::step(context.registers.rip);
            context.traced.debug_status = ptrace::DEBUG_STEP;
            signals::deliver_fault(context, &trap.into());
            context.traced.debug_status = 0;
        }
    }
    resume(context, from);
}

/// How the guest got to where it continues: decides which table learns the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    /// Nothing to learn.
    Anywhere,
    /// An exit to link.
    Direct { exit: u32, generation: u32 },
    /// An indirect jump, call or return.
    Jump,
    /// A block that does not fit in front of a replay's deadline.
    Crossing,
    /// Execute just so many instructions in a block of its own.
    Cut(u8),
    /// Execute just one instruction in a block of its own.
    Step,
    /// The same, touching nothing that the instruction would not.
    CarefulStep,
}

fn count_exit(stats: &Stats, kind: ExitKind) {
    let counter = match kind {
        ExitKind::Direct => &stats.exits_direct,
        ExitKind::Indirect => &stats.exits_indirect,
        ExitKind::Syscall => &stats.exits_syscall,
        ExitKind::Emulate => &stats.exits_emulate,
        ExitKind::Fault => &stats.exits_fault,
        ExitKind::Asynchronous => &stats.exits_signal,
        ExitKind::ModifiedCode => &stats.exits_modified_code,
        ExitKind::Continue | ExitKind::Stepped => return,
        ExitKind::Mismatch
        | ExitKind::Deadline
        | ExitKind::BeforeAccess
        | ExitKind::AfterAccess => return,
    };
    Stats::add(counter, 1);
}

/// Continues at `registers.rip`: delivers what is pending, then finds or makes the block.
fn resume(context: &mut Context, mut from: From) {
    // A guest that has set the trap flag goes one instruction at a time. The first instruction after
    // the flag was set runs before the first trap.
    context.step_by_exit = false;
    loop {
        ptrace::apply_changes();
        ptrace::run_errands();
        let pending = context.pending.load(Ordering::Relaxed);
        let arrived = pending & (PENDING_SIGNAL | PENDING_STOP) != 0;
        if arrived && !context.incomplete {
            if pending & PENDING_STOP != 0 {
                ptrace::tracee::stop_as_asked(context);
            } else {
                signals::deliver_pending(context);
            }
            from = From::Anywhere;
            continue;
        }
        if context.traced.orig_rax != u64::MAX {
            ptrace::tracee::leave_syscall(context);
        }
        if context.traced.on != 0
            && (record::process::is_traced(context) || ptrace::tracee::stops_at_breakpoint(context))
        {
            from = From::Anywhere;
            continue;
        }
        if context.pending.load(Ordering::Relaxed) & PENDING_DEADLINE != 0 {
            context.pending.fetch_and(!PENDING_DEADLINE, Ordering::Relaxed);
            record::process::deadline(context);
            continue;
        }
        if replay::active() {
            // The traps come from the log.
            context.guest_trap_flag = false;
            from = match replay::pace(context, from == From::Crossing) {
                replay::Pace::Same => from,
                replay::Pace::Moved => From::Anywhere,
                replay::Pace::Cut(instructions) => From::Cut(instructions),
            };
        }
        let steps = context.guest_trap_flag || context.traced.wants & ptrace::wants::STEP != 0;
        if steps && from != From::CarefulStep {
            from = From::Step;
        }
        let pc = context.registers.rip;
        if emulate::vsyscall(context) {
            context.incomplete = false;
            continue;
        }
        match enter_at(context, pc, from) {
            Ok(address) => {
                // A tracer's step is over when its block is left, but a repeated instruction steps once a time.
                let by_machine =
                    steps && (context.guest_trap_flag || ptrace::steps::is_repeated(pc));
                if by_machine {
                    // The machine steps, the handler decides when the guest has.
                    context.trap_armed = true;
                    context.step_begun = false;
                }
                if steps {
                    context.step_by_exit = !by_machine;
                    context.stepped_pc = pc;
                }
                if by_machine || arrived {
                    // What has arrived waits for the next place where the guest's state is complete.
                    context.stepping = 1;
                    context.registers.rflags |= signals::TRAP_FLAG;
                }
                context.enter_target = address;
                return;
            }
            Err(_) if replay::active() => replay::missing_code(context, pc),
            Err(fault) => {
                signals::deliver_fault(context, &fault.into());
                context.incomplete = false;
                from = From::Anywhere;
            }
        }
    }
}

/// Finds or makes the block at `pc` and returns the cache address to enter at.
fn enter_at(context: &mut Context, pc: u64, from: From) -> Result<u64, Fault> {
    let mut engine = engine();
    context.pending.fetch_and(!PENDING_KICK, Ordering::Relaxed);
    let mut from = from;
    if core::mem::take(&mut engine.flush_wanted) {
        flush(&mut engine, context);
        if matches!(from, From::Direct { .. }) {
            from = From::Anywhere;
        }
    }
    loop {
        let done = find_or_translate(&mut engine, pc, from).and_then(|block| {
            learn(&mut engine, context, block, pc, from)?;
            Ok(engine.cache.body_address(block))
        });
        match done {
            Ok(address) => return Ok(address),
            Err(Trouble::Full) => flush(&mut engine, context),
            Err(Trouble::Fault(fault)) => return Err(fault),
        }
    }
}

enum Trouble {
    Full,
    Fault(Fault),
}

impl core::convert::From<Failure> for Trouble {
    fn from(failure: Failure) -> Trouble {
        match failure {
            Failure::Full => Trouble::Full,
            Failure::Fetch => Trouble::Fault(Fault::page(0, None, Fault::FETCH)),
        }
    }
}

fn find_or_translate(engine: &mut Engine, pc: u64, from: From) -> Result<u32, Trouble> {
    let found = match from {
        From::Step | From::CarefulStep => None,
        From::Cut(instructions) => engine.cache.find_cut(pc, instructions),
        _ => engine.cache.find(pc),
    };
    if let Some(block) = found {
        return Ok(block);
    }
    let fixed = fixed();
    if !fixed.counting {
        return translate(engine, pc, from);
    }
    let start = sys::monotonic_nanoseconds();
    let block = translate(engine, pc, from);
    Stats::add(&fixed.stats.translator_nanoseconds, sys::monotonic_nanoseconds() - start);
    block
}

fn translate(engine: &mut Engine, pc: u64, from: From) -> Result<u32, Trouble> {
    let mut how = How {
        limit: match from {
            From::Step | From::CarefulStep => Limit::Once,
            From::Cut(instructions) => Limit::Cut(instructions),
            _ => Limit::None,
        },
        jump_entry: from == From::Jump,
        checked: false,
        careful: from == From::CarefulStep,
    };
    // Blocks end at page boundaries, except for an instruction that crosses one.
    let in_page = (PAGE - pc % PAGE) as usize;
    for len in [in_page.min(crate::translate::MAX_GUEST_BYTES), in_page + 15] {
        let fault_at = fetchable(&engine.space, pc, len)?;
        let available = (fault_at - pc) as usize;
        if how.limit == Limit::None {
            how.checked = engine.cache.watch_code(&engine.space, pc, available);
        }
        let mut code = [0u8; crate::translate::MAX_GUEST_BYTES + 16];
        let read = if replay::active() {
            replay::fetch(pc, &mut code[..available])
        } else {
            guest::read_partial(pc, &mut code[..available])
        };
        if read == 0 {
            // Mapped, but beyond the end of its file.
            return Err(Trouble::Fault(Fault::beyond_file(pc)));
        }
        let space = &engine.space;
        let peek = |address: u64, bytes: &mut [u8]| match replay::active() {
            true => replay::peek(address, bytes),
            false => peek(space, address, bytes),
        };
        match (engine.translate)(engine.cache, pc, &code[..read], how, &peek) {
            Err(Failure::Fetch) if len > in_page || read < in_page => {
                // The instruction runs into a page that cannot be executed.
                let address = pc + read as u64;
                let mapping = engine.space.find(address);
                return Err(Trouble::Fault(Fault::page(address, mapping, Fault::FETCH)));
            }
            Err(Failure::Fetch) => {}
            other => {
                let block = other?;
                if replay::active() {
                    replay::stream::describe(engine.cache, block);
                    engine.flush_wanted |= replay::stream::is_full(engine.cache);
                }
                if record::active() {
                    let len = engine.cache.blocks[block].guest_len as usize;
                    if record::code(pc, &code[..len]) && how.limit == Limit::None {
                        engine.cache.invalidate_overlapping(block);
                    }
                }
                return Ok(block);
            }
        }
    }
    Err(Trouble::Fault(Fault::page(pc + in_page as u64, None, Fault::FETCH)))
}

/// Reads code of a file that the guest cannot write: if that changes, everything is translated anew
/// (see [`Engine::code_changes`]).
fn peek(space: &AddressSpace, address: u64, bytes: &mut [u8]) -> usize {
    match space.find(address) {
        Some(mapping) if is_lasting_code(mapping) => {
            let len = ((mapping.end - address) as usize).min(bytes.len());
            guest::read_partial(address, &mut bytes[..len])
        }
        _ => 0,
    }
}

fn is_lasting_code(mapping: &Mapping) -> bool {
    mapping.backing == Backing::File && mapping.executable() && !mapping.writable()
}

impl Engine {
    /// Memory is shared with other processes from now on.
    pub fn memory_is_shared(&mut self) {
        if record::watching() && self.cache.expect_other_writers() {
            self.flush_wanted = true;
        }
    }

    /// A range is about to be unmapped, mapped over or made writable.
    pub fn code_changes(&mut self, start: u64, end: u64) {
        if record::watching() && self.space.overlapping(start, end).any(is_lasting_code) {
            self.flush_wanted = true;
        }
    }
}

/// How far code can be fetched from `pc`, at most `len` bytes; at least one byte.
fn fetchable(space: &AddressSpace, pc: u64, len: usize) -> Result<u64, Trouble> {
    let end = pc.saturating_add(len as u64);
    let mut reached = pc;
    for mapping in space.overlapping(pc, end) {
        if mapping.start > reached || !mapping.executable() {
            break;
        }
        reached = mapping.end.min(end);
    }
    if reached > pc {
        return Ok(reached);
    }
    // A non-canonical address is a protection fault without an address.
    if (pc as i64) << 16 >> 16 != pc as i64 {
        return Err(Trouble::Fault(Fault::protection(0)));
    }
    Err(Trouble::Fault(Fault::page(pc, space.find(pc), Fault::FETCH)))
}

/// Remembers how the guest got here, so that next time the engine is not asked.
fn learn(
    engine: &mut Engine,
    context: &mut Context,
    block: u32,
    pc: u64,
    from: From,
) -> Result<(), Failure> {
    match from {
        From::Direct { .. } | From::Jump if engine.cache.breaks_at(pc) => {}
        From::Direct { exit, generation } => {
            if generation == engine.generation {
                engine.cache.link(exit, block);
            }
        }
        From::Jump => {
            let entry = engine.cache.jump_entry(block)?;
            set_branch_table(context, pc, entry);
        }
        From::Anywhere | From::Crossing | From::Cut(_) | From::Step | From::CarefulStep => {}
    }
    Ok(())
}

fn set_branch_table(context: &mut Context, pc: u64, entry: u64) {
    let end = core::ptr::from_mut(context) as i64 + crate::context::CONTEXT_SIZE as i64;
    let slot = (end + crate::context::JUMP_TABLE as i64) as *mut u64;
    // SAFETY: the table lies in front of the context, in the same allocation; the index has 16 bits.
    unsafe { slot.add(pc as u16 as usize).write(entry) };
}

/// The cache is full: start again with an empty one.
fn flush(engine: &mut Engine, context: &mut Context) {
    threads::with_world_stopped(context, |_| {});
    crate::vectors::settle_pointers();
    engine.cache.flush();
    replay::stream::flushed(engine.cache);
    engine.generation += 1;
    cache::set_generation(engine.generation);
    threads::with_world_stopped(context, cache::reset_branch_table);
}

/// The guest can look at the state of faults from now on: blocks that cut corners there are thrown away.
pub fn translate_precisely(context: &mut Context) {
    let mut engine = engine();
    if engine.cache.make_precise() {
        flush(&mut engine, context);
    }
}

/// Code keeps the clock in another way from now on.
pub fn keep_clock(context: &mut Context, keeping: Keeping) {
    let mut engine = engine();
    engine.cache.keep_clock(keeping);
    flush(&mut engine, context);
}

/// Other code is to be made from now on of what was translated already.
pub fn translate_anew() {
    let mut engine = engine();
    engine.flush_wanted = true;
    replay::instruct(engine.cache);
}

/// How many blocks were described to the owner of a replay.
pub fn described_blocks() -> u32 {
    engine().cache.tracer().next
}

/// Translates a block of a replay that is not needed yet. False if there is no more room.
pub fn translate_ahead(context: &mut Context, pc: u64) -> bool {
    let engine = &mut *engine();
    if core::mem::take(&mut engine.flush_wanted) {
        flush(engine, context);
    }
    if engine.cache.find(pc).is_none() && translate(engine, pc, From::Anywhere).is_err() {
        return false;
    }
    !engine.flush_wanted
}

/// A block found its bytes changed.
fn forget_block(pc: u64) {
    let mut engine = engine();
    if let Some(block) = engine.cache.find(pc) {
        engine.cache.invalidate(block);
    }
}

/// A guest instruction faulted in the cache.
fn fault(context: &mut Context) -> From {
    if let Some(from) = retry_store(context) {
        return from;
    }
    let arrived = context.signals.fault;
    if is_about_memory(&arrived)
        && record::access::may_be_ours(context.registers.rip)
        && !cache::is_careful(context.signals.fault_cache_pc)
    {
        return From::CarefulStep;
    }
    record::access::faulted();
    if context.traced.on != 0 && is_trap(&arrived) {
        // The guest may never hear of it: a replay does not execute what has trapped.
        record::uncount();
        record::executed(context);
    }
    signals::deliver_fault(context, &arrived);
    From::Anywhere
}

/// Whether a fault is reported behind its instruction: int3, into.
fn is_trap(arrived: &signals::Arrived) -> bool {
    matches!(arrived.trap, 3 | 4)
}

/// Whether a fault comes from what an instruction accesses: of segments, protection, pages or alignment.
fn is_about_memory(arrived: &signals::Arrived) -> bool {
    matches!(arrived.trap, 12 | 13 | 14 | 17)
}

/// A store to a page that the guest may write, and the engine had protected: gives the page back, and says
/// how to go on. None if the fault is the guest's own.
fn retry_store(context: &mut Context) -> Option<From> {
    /// If the page is not protected, another thread has just given it back; with many threads that can happen
    /// many times in a row, but not for ever.
    const MANY: u32 = 10_000;
    let arrived = &context.signals.fault;
    let write = arrived.error & Fault::WRITE != 0;
    let refused = arrived.signal == c::SIGSEGV && arrived.info.code() == c::SEGV_ACCERR as i32;
    if !write || !refused {
        return None;
    }
    let address = arrived.info.address();
    let engine = &mut *engine();
    engine.space.find(address).filter(|m| m.writable() && m.executable())?;
    let given_back = engine.cache.unprotect(&engine.space, address);
    let retries = &mut context.signals.retries;
    *retries = if given_back { 0 } else { *retries + 1 };
    if *retries > MANY {
        return None;
    }
    // A store into its own page must not be translated together with what it changes, nor be protected
    // against again before it has happened.
    let page = address / PAGE;
    let pc = context.registers.rip;
    let near = pc / PAGE == page || (pc + 64) / PAGE == page;
    Some(if near { From::Step } else { From::Anywhere })
}
