//! Threads of the guest, their memory, and stopping all of them.
//!
//! A guest thread is a kernel thread with a context, an engine stack and a signal stack of its own. A
//! child process that shares memory (`vfork`, `posix_spawn`) is treated the same way: it borrows the
//! engine until it executes another program or exits.
//!
//! Invariants:
//! 1. A context is free when its `in_use` word is zero; an exiting thread clears it with its very last
//!    store, after which it touches no memory (see `retro_asm_thread_exit`).
//! 2. A thread that is in the cache has `in_cache` set; it is set before `pending` is looked at and
//!    cleared after the exit record has been read, so a flush that sees it clear cannot be surprised.

use crate::cache;
use crate::context::{
    BRANCH_TABLE_BYTES, CONTEXT_AREA, CONTEXT_SIZE, Context, Registers, counter, slot,
};
use crate::entry;
use crate::lock::Lock;
use crate::ptrace::Traced;
use crate::signals::{self, Handlers, PENDING_KICK, ThreadSignals};
use crate::sys;
use crate::syscalls::seccomp::Filters;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};
use linux_raw_sys::general as c;
use retro_abi::layout::PAGE;

const ENGINE_STACK: u64 = 256 << 10;
const SIGNAL_STACK: u64 = 64 << 10;
const THREAD_MEMORY: u64 =
    PAGE + ENGINE_STACK + SIGNAL_STACK + BRANCH_TABLE_BYTES as u64 + CONTEXT_AREA as u64;

/// States of a context.
pub mod in_use {
    /// Nobody's.
    pub const FREE: u32 = 0;
    /// A thread's.
    pub const TAKEN: u32 = 1;
    /// That of a thread which its tracer watches ending: free when that thread is no more.
    pub const ENDING: u32 = 2;
}

/// What the thread list knows about a thread; the last part of a context.
#[repr(C)]
pub struct ThreadState {
    /// Zero when the context is free.
    pub in_use: AtomicU32,
    /// Nonzero while the thread may be executing cache code.
    pub in_cache: AtomicU32,
    /// Set when the thread's turn to run the guest has come (see [`crate::record::schedule`]).
    pub turn: AtomicU32,
    /// Kernel process id: not the same for all contexts while a `vfork` child borrows the memory.
    pub pid: AtomicI32,
    /// Kernel thread id.
    pub tid: AtomicI32,
    /// The same as the recorder sees it.
    pub visible_tid: AtomicI32,
    /// Whether it is a process of its own that shares memory with its parent.
    pub borrows_memory: bool,
    /// Whether the kernel has cleared the engine's handlers in it.
    pub reinstall_handlers: bool,
    /// Signal dispositions.
    pub handlers: Arc<Handlers>,
    /// System calls that the guest does not want to be able to make.
    pub filters: Filters,
}

impl ThreadState {
    fn is_free(&self) -> bool {
        match self.in_use.load(Ordering::Acquire) {
            in_use::FREE => true,
            in_use::ENDING => {
                let (pid, tid) =
                    (self.pid.load(Ordering::Relaxed), self.tid.load(Ordering::Relaxed));
                !sys::thread_exists(pid, tid)
            }
            _ => false,
        }
    }
}

struct ContextPointer(*mut Context);
// SAFETY: contexts live for ever; other threads touch only their atomics.
unsafe impl Send for ContextPointer {}

static THREADS: Lock<Vec<ContextPointer>> = Lock::new(Vec::new());

/// File offset of the branch-table template in the engine image; 0 if unknown.
static TEMPLATE_OFFSET: AtomicU64 = AtomicU64::new(0);

/// Remembers where the branch-table template lies in the image file.
pub fn set_template_offset(offset: u64) {
    TEMPLATE_OFFSET.store(offset, Ordering::Relaxed);
}

/// Finds or makes a context, not yet running: all of its state is initial but the stacks.
pub fn allocate(handlers: Arc<Handlers>, mask: u64) -> sys::Result<&'static mut Context> {
    let mut threads = THREADS.lock();
    // SAFETY: contexts live for ever; what is looked at is atomic.
    let free = threads.iter().find(|t| unsafe { &(*t.0).thread }.is_free()).map(|t| t.0);
    if let Some(context) = free {
        // SAFETY: a free context belongs to whoever holds the list's lock.
        let context = unsafe { &mut *context };
        context.thread.handlers = handlers;
        context.thread.in_use.store(1, Ordering::Relaxed);
        context.thread.borrows_memory = false;
        context.signals = ThreadSignals::new(mask);
        context.traced = Traced::NONE;
        context.pending.store(0, Ordering::Relaxed);
        context.stepping = 0;
        context.inside = false;
        context.incomplete = false;
        context.in_syscall = 0;
        context.unsettled = 0;
        context.thread.filters.follow(&Filters::default());
        context.user_dispatch = Default::default();
        context.cpuid_faults = false;
        context.guest_trap_flag = false;
        context.trap_armed = false;
        context.step_by_exit = false;
        context.counters = [0; counter::COUNT];
        return Ok(context);
    }
    let base = sys::map_anonymous(THREAD_MEMORY, c::PROT_READ | c::PROT_WRITE)?;
    // SAFETY: the first page of a fresh mapping: the stack's guard.
    unsafe { sys::mprotect(base, PAGE, c::PROT_NONE)? };
    let engine_stack = base + PAGE + ENGINE_STACK;
    let table = engine_stack + SIGNAL_STACK;
    let end = base + THREAD_MEMORY;
    let place = (end - CONTEXT_SIZE as u64) as *mut Context;
    // SAFETY: inside the fresh mapping, aligned because its end is page-aligned and the size is a
    // multiple of the alignment.
    let context = unsafe {
        place.write(Context {
            spill: [0; slot::COUNT],
            counters: [0; counter::COUNT],
            registers: Registers::default(),
            guest_fs_base: 0,
            guest_gs_base: 0,
            enter_target: 0,
            engine_stack,
            me: place as u64,
            home: place as u64,
            exit_target: 0,
            exit_kind: 0,
            exit_index: 0,
            pending: AtomicU32::new(0),
            stepping: 0,
            unaligned: false,
            inside: false,
            incomplete: false,
            careful: false,
            in_syscall: 0,
            unsettled: 0,
            guest_gs_selector: 0,
            cpuid_faults: false,
            user_dispatch: Default::default(),
            guest_trap_flag: false,
            trap_armed: false,
            step_by_exit: false,
            stepped_pc: 0,
            step_begun: false,
            x87_environment: [0; 8],
            signals: ThreadSignals::new(mask),
            traced: Traced::NONE,
            thread: ThreadState {
                in_use: AtomicU32::new(1),
                in_cache: AtomicU32::new(0),
                turn: AtomicU32::new(0),
                pid: AtomicI32::new(0),
                tid: AtomicI32::new(0),
                visible_tid: AtomicI32::new(0),
                borrows_memory: false,
                reinstall_handlers: false,
                handlers,
                filters: Filters::default(),
            },
        });
        &mut *place
    };
    if map_table(table).is_err() {
        cache::reset_branch_table(context);
    }
    threads.push(ContextPointer(place));
    Ok(context)
}

/// Maps a fresh branch table from the image, so that it costs only what is used of it.
fn map_table(at: u64) -> sys::Result<()> {
    let offset = TEMPLATE_OFFSET.load(Ordering::Relaxed);
    if offset == 0 {
        return Err(sys::Errno::ENOENT);
    }
    let fd = sys::open(b"/proc/self/exe\0", c::O_RDONLY | c::O_CLOEXEC, 0)?;
    let len = BRANCH_TABLE_BYTES as u64;
    let prot = c::PROT_READ | c::PROT_WRITE;
    // SAFETY: replaces part of the thread's own fresh memory.
    let mapped = unsafe { sys::mmap(at, len, prot, c::MAP_PRIVATE | c::MAP_FIXED, fd, offset) };
    sys::close(fd);
    mapped.map(drop)
}

/// Makes a branch table of memory that holds zeroes.
pub fn fill_table(at: u64) {
    if map_table(at).is_err() {
        // SAFETY: the caller has mapped the table's memory, and nobody uses it yet.
        let table = unsafe {
            core::slice::from_raw_parts_mut(at as *mut u64, crate::context::BRANCH_TABLE_ENTRIES)
        };
        table.fill(entry::target::jump_miss());
    }
}

/// Makes the calling thread the owner of a context: GS and the signal stack.
pub fn adopt(context: &mut Context) {
    let end = core::ptr::from_mut(context) as u64 + CONTEXT_SIZE as u64;
    let set = sys::arch_prctl(sys::arch::SET_GS, end);
    debug_assert!(set.is_ok());
    let stack: [u64; 3] = [context.engine_stack, 0, SIGNAL_STACK];
    let args = [stack.as_ptr() as u64, 0, 0, 0, 0, 0];
    // SAFETY: the kernel reads three words; the stack they name belongs to this context.
    unsafe { sys::syscall(c::__NR_sigaltstack, args) };
    set_ids(context);
}

fn set_ids(context: &Context) {
    context.thread.pid.store(sys::getpid(), Ordering::Relaxed);
    context.thread.tid.store(sys::gettid(), Ordering::Relaxed);
    crate::record::kicks::note_ids(&context.thread.visible_tid);
}

/// First code of a new thread, on its own engine stack, with all signals blocked.
pub extern "C" fn retro_thread_start(context: &'static mut Context) -> ! {
    adopt(context);
    context.guest_fs_base = sys::fs_base();
    if core::mem::take(&mut context.thread.reinstall_handlers) {
        signals::clear_handlers(&context.thread.handlers);
    }
    let context = if crate::record::watching() {
        crate::record::process::begin_thread(context)
    } else {
        context
    };
    signals::set_mask(context, context.signals.mask);
    context.exit_kind = crate::context::ExitKind::Continue as u32;
    crate::clock::ready(context);
    // SAFETY: GS points behind the context; nothing on this stack is needed.
    unsafe { entry::start() }
}

/// After `fork`: only the calling thread exists in the child.
pub fn after_fork(context: &mut Context) {
    let home = context.home as *mut Context;
    for thread in THREADS.lock().iter() {
        if thread.0 != home {
            // SAFETY: the threads these contexts belonged to do not exist in this process.
            unsafe { (*thread.0).thread.in_use.store(0, Ordering::Relaxed) };
        }
    }
    set_ids(context);
    context.thread.borrows_memory = false;
}

/// Runs `action` while no other thread is in the cache, with every context, free ones included.
/// The caller holds the engine's lock, which keeps threads that are out from coming back.
pub fn with_world_stopped(context: &mut Context, mut action: impl FnMut(&mut Context)) {
    if crate::record::watching() {
        // The others are out of the cache, and use the table of this thread when they run.
        action(context);
        return;
    }
    let me = core::ptr::from_mut(context);
    let threads = THREADS.lock();
    for thread in threads.iter().filter(|t| t.0 != me) {
        // SAFETY: contexts live for ever; these fields are atomic.
        let (pending, state) = unsafe { (&(*thread.0).pending, &(*thread.0).thread) };
        if state.in_use.load(Ordering::Acquire) == 0 {
            continue;
        }
        pending.fetch_or(PENDING_KICK, Ordering::SeqCst);
        let mut rounds = 0u32;
        while state.in_cache.load(Ordering::SeqCst) != 0
            && state.in_use.load(Ordering::Acquire) != 0
        {
            if rounds.is_multiple_of(1000) {
                let (pid, tid) = (&state.pid, &state.tid);
                signals::kick(pid.load(Ordering::Relaxed), tid.load(Ordering::Relaxed));
            }
            rounds += 1;
            core::hint::spin_loop();
        }
    }
    action(context);
    for thread in threads.iter().filter(|t| t.0 != me) {
        // SAFETY: no other thread is in the cache or uses its tables; the fields that `action` may
        // touch are not used by threads that wait for the engine's lock.
        action(unsafe { &mut *thread.0 });
    }
}

/// The smallest alternate stack that a thread of the guest has.
pub fn smallest_alternate_stack() -> Option<u64> {
    let threads = THREADS.lock();
    let used = threads.iter().filter(|t| {
        // SAFETY: contexts live for ever; this field is atomic.
        unsafe { (*t.0).thread.in_use.load(Ordering::Acquire) != 0 }
    });
    // SAFETY: as above; the size is one word, and whoever changes it meanwhile is as late as with the kernel.
    let sizes = used.map(|t| unsafe { (&raw const (*t.0).signals.alternate.size).read_volatile() });
    sizes.filter(|&size| size != 0).min()
}

/// Does something with the state of every other thread of this process.
pub fn for_each_other(context: &Context, mut action: impl FnMut(&ThreadState)) {
    let pid = context.thread.pid.load(Ordering::Relaxed);
    for thread in THREADS.lock().iter().filter(|t| t.0 as u64 != context.home) {
        // SAFETY: contexts live for ever; what is looked at is atomic.
        let state = unsafe { &(*thread.0).thread };
        if state.in_use.load(Ordering::Acquire) != 0 && state.pid.load(Ordering::Relaxed) == pid {
            action(state);
        }
    }
}

/// Whether this process has other threads.
pub fn others_live(context: &Context) -> bool {
    let mut any = false;
    for_each_other(context, |_| any = true);
    any
}

/// The thread list, held still.
pub struct ListGuard<'a>(
    #[allow(dead_code, reason = "held for its drop")] crate::lock::Guard<'a, Vec<ContextPointer>>,
);

/// Holds the thread list still, across `fork`.
pub fn lock_list() -> ListGuard<'static> {
    ListGuard(THREADS.lock())
}

/// Adds what the other threads have counted so far, when the process ends under them.
pub fn flush_counters_of_others(context: &mut Context) {
    let fixed = crate::dispatch::fixed();
    if !fixed.counting {
        return;
    }
    let me = core::ptr::from_mut(context);
    for thread in THREADS.lock().iter().filter(|t| t.0 != me) {
        // SAFETY: contexts live for ever; the counters are words, and a count that another thread
        // adds meanwhile is lost with the thread.
        let counters = unsafe {
            if (*thread.0).thread.in_use.load(Ordering::Acquire) == 0 {
                continue;
            }
            (&raw const (*thread.0).counters).read_volatile()
        };
        crate::dispatch::add_counters(fixed.stats, &counters);
    }
}
