//! The dialogue with the owner of a replay (see [`retro_abi::replay`]): how it begins, and what is answered while the
//! guest stands still.

use super::{
    ACTIVE, PLAYER, Player, Replay, Text, code, log, memory, samples, sandbox, socket, stream,
    summary, with,
};
use super::{clock, clock::time};
use crate::cache::CodeCache;
use crate::clock::weave::Keeping;
use crate::context::{Context, ExitKind};
use crate::dispatch::{self, Fixed};
use crate::lock::Lock;
use crate::maps::{AddressSpace, Backing, HEAP_START, Mapping};
use crate::record;
use crate::signals;
use crate::sys::{self, Result};
use crate::threads;
use crate::vectors;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use linux_raw_sys::general as c;
use retro_abi::config::Config;
use retro_abi::layout::GUEST_RANGES;
use retro_abi::log::register;
use retro_abi::replay::{Header, MAX_PAYLOAD, ask, tell, why};

/// What the owner has sent.
static PAYLOAD: Lock<[u8; MAX_PAYLOAD]> = Lock::new([0; MAX_PAYLOAD]);

/// States to start from, as far as they have come.
static STATE: Lock<log::State> = Lock::new(Vec::new());

/// What was asked for to begin with.
struct Begin {
    state: log::State,
    main: &'static [u8],
    code: &'static [u8],
    from: u64,
    flags: u64,
}

/// First code of a replay process.
pub fn start(config: &Config<'static>) -> ! {
    match prepare(config) {
        Ok(context) => {
            context.exit_kind = ExitKind::Continue as u32;
            clock::give(context);
            // SAFETY: GS points behind the context; the initial stack is not used again.
            unsafe { crate::entry::start() }
        }
        Err(error) => fail(format_args!(
            "no memory for the guest, no sandbox, or a malformed request (error {})",
            error.0
        )),
    }
}

fn fail(why: core::fmt::Arguments) -> ! {
    socket::send(Header::new(tell::FAILED, []), Text::of(why).as_bytes());
    sys::exit_group(125)
}

fn receive_begin() -> Result<Begin> {
    let mut payload = PAYLOAD.lock();
    loop {
        let Some(message) = socket::receive(&mut payload) else { sys::exit_group(1) };
        let [kind, words @ ..] = message.header.0;
        match kind {
            ask::STATE => take_state(words[0], &payload[..message.len]),
            ask::BEGIN => {
                let [main_offset, main_len, code_offset, code_len, from, flags, _] = words;
                let file = LogFile::map(message.descriptor.ok_or(sys::Errno::EINVAL)?)?;
                let main = file.part(main_offset, main_len)?;
                let code = file.part(code_offset, code_len)?;
                let state = core::mem::take(&mut *STATE.lock());
                return Ok(Begin { state, main, code, from, flags });
            }
            _ => return Err(sys::Errno::EINVAL),
        }
    }
}

/// A file with chunks, which events and code point into.
struct LogFile {
    base: u64,
    len: u64,
}

impl LogFile {
    fn map(file: i32) -> Result<LogFile> {
        let len = sys::file_status(file)?.st_size as u64;
        // SAFETY: a new mapping; what it shows is not written by anybody who matters.
        let base = unsafe { sys::mmap(0, len, c::PROT_READ, c::MAP_SHARED, file, 0)? };
        sys::close(file);
        Ok(LogFile { base, len })
    }

    fn part(&self, offset: u64, size: u64) -> Result<&'static [u8]> {
        let end = offset.checked_add(size).filter(|&end| end <= self.len);
        end.ok_or(sys::Errno::EINVAL)?;
        // SAFETY: inside the mapping, which stays as long as anything points there.
        Ok(unsafe { core::slice::from_raw_parts((self.base + offset) as *const u8, size as usize) })
    }
}

fn take_state(time: u64, events: &[u8]) {
    STATE.lock().push((time, events.to_vec().leak()));
}

fn prepare(config: &Config<'static>) -> Result<&'static mut Context> {
    sandbox::leave_everything()?;
    let begin = receive_begin()?;
    let log = log::Log::new(begin.state, begin.main, begin.from);
    let first = log.peek().map_or(begin.from, |(time, _)| time);
    memory::create(begin.flags)?;
    record::process::create_window()?;
    let fixed = Fixed {
        events: &Replay,
        stats: &crate::start::NO_STATS,
        counting: false,
        policy: config.policy,
        stats_file: None,
        cache_kib: None,
        program: crate::start::Program { path: Vec::new(), auxv: Vec::new(), environment: (0, 0) },
    };
    let mut cache = CodeCache::new(None)?;
    cache.protect();
    cache.keep_clock(Keeping { deadline: true, told: false });
    dispatch::install(cache, code_space(), HEAP_START, fixed);
    vectors::detect();
    let handlers = Arc::new(signals::initial_handlers());
    let home = threads::allocate(handlers, 0)?;
    threads::adopt(home);
    let context = record::schedule::start(home, None);
    *PLAYER.lock() = Some(Player {
        log,
        main: begin.main,
        code: code::Code::new(begin.code),
        threads: Vec::new(),
        running: 0,
        started: false,
        applied: 0,
        over: false,
        until: first,
        next_event: first,
        exact: first,
        limit: first,
        breakpoints: Vec::new(),
        at_breakpoint: false,
        seen_at: u64::MAX,
        samples: None,
    });
    clock::set_deadline(first, first);
    sandbox::enter()?;
    ACTIVE.store(true, Ordering::Relaxed);
    Ok(context)
}

/// What is done before the first guest instruction: code can be executed, where it cannot be written, and the
/// process makes no more copies of itself, which would share it.
fn before_guest_code() {
    static DONE: AtomicBool = AtomicBool::new(false);
    if DONE.swap(true, Ordering::Relaxed) {
        return;
    }
    sys::scatter_mappings(&raw const DONE as u64);
    if dispatch::engine().cache.separate().is_err() {
        fail(format_args!("there is no memory for translated code"));
    }
    if sandbox::seal().is_err() {
        fail(format_args!("cannot give up the right to make copies"));
    }
}

/// Code may be anywhere; its changes are told by the log, not found by faults.
fn code_space() -> AddressSpace {
    let mut space = AddressSpace::new(8 << 20);
    for (start, end) in GUEST_RANGES {
        let prot = c::PROT_READ | c::PROT_EXEC;
        space.insert(Mapping { start, end, prot, backing: Backing::Anonymous });
    }
    space
}

/// Tells where the guest stands and answers questions until it is to go on.
pub fn serve(context: &mut Context) {
    stream::end();
    samples::end();
    tell_stop(context);
    loop {
        let mut payload = PAYLOAD.lock();
        let Some(message) = socket::receive(&mut payload) else { sys::exit_group(0) };
        let [kind, first, second, third, ..] = message.header.0;
        match kind {
            ask::RUN => {
                before_guest_code();
                with(|player| {
                    player.until = first;
                    samples::set(player, third != 0);
                });
                match stream::begin(second) {
                    Some(false) => {}
                    Some(true) => dispatch::translate_anew(),
                    None => fail(format_args!("there is no file to stream to")),
                }
                return;
            }
            ask::BREAKPOINTS => {
                set_breakpoints(&payload[..message.len]);
                socket::send(Header::new(tell::DONE, []), &[]);
            }
            ask::STREAM_FILE => {
                let attached = message.descriptor.map(|file| stream::attach(file, first));
                if !matches!(attached, Some(Ok(()))) {
                    fail(format_args!("cannot map the file to stream to"));
                }
                socket::send(Header::new(tell::DONE, []), &[]);
            }
            ask::STATE => take_state(first, &payload[..message.len]),
            ask::RESTART => return restart(context, &message),
            ask::PAGES => memory::put(first, second, &payload[..message.len]),
            ask::REGISTERS => tell_registers(context, first as u32),
            ask::THREADS => tell_threads(context),
            ask::READ => {
                let len = second.min(MAX_PAYLOAD as u64) as usize;
                let got = memory::read(first, &mut payload[..len]);
                socket::send(Header::new(tell::MEMORY, [first]), &payload[..got]);
            }
            ask::CHANGES => {
                memory::send_changes();
                socket::send(Header::new(tell::DONE, []), &[]);
            }
            ask::COUNTS => {
                summary::send_counts(dispatch::described_blocks());
                socket::send(Header::new(tell::DONE, []), &[]);
            }
            ask::TRANSLATE => {
                translate(context, first, &payload[..message.len]);
                socket::send(Header::new(tell::DONE, []), &[]);
            }
            ask::FORK => fork(message.descriptor),
            _ => fail(format_args!("a request of unknown kind {kind}")),
        }
    }
}

/// Starts over at a state, which is told as soon as it is there.
fn restart(context: &mut Context, message: &socket::Message) {
    let [_, from, flags, main_offset, main_len, ..] = message.header.0;
    /// The file of another interval than the first, whose code is the code of all.
    static LATER: Lock<Option<LogFile>> = Lock::new(None);
    // What the log has at the very start is not streamed, just as when a process begins.
    stream::pause();
    let state = core::mem::take(&mut *STATE.lock());
    let mut left = None;
    if let Some(file) = message.descriptor {
        let mapped = LogFile::map(file).and_then(|f| Ok((f.part(main_offset, main_len)?, f)));
        match mapped {
            Ok((main, file)) => {
                with(|player| player.main = main);
                left = LATER.lock().replace(file);
            }
            Err(error) => fail(format_args!("cannot map another log (error {})", error.0)),
        }
    }
    if memory::create(flags).is_err() {
        fail(format_args!("cannot start over: no memory for the guest"));
    }
    let first = with(|player| player.restart(state, from));
    if let Some(LogFile { base, len }) = left {
        // SAFETY: the log that pointed there is gone.
        let _ = unsafe { sys::munmap(base, len) };
    }
    context.in_syscall = 0;
    clock::set_deadline(first, first);
}

fn addresses(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.chunks_exact(8).map(|eight| eight.try_into().map_or(0, u64::from_le_bytes))
}

/// Translates code before it is needed.
fn translate(context: &mut Context, detail: u64, pcs: &[u8]) {
    match stream::begin(detail) {
        Some(true) => dispatch::translate_anew(),
        Some(false) => {}
        None => return,
    }
    for pc in addresses(pcs) {
        let mut byte = [0];
        if super::peek(pc, &mut byte) != 0 && !dispatch::translate_ahead(context, pc) {
            break;
        }
    }
    stream::end();
}

fn set_breakpoints(bytes: &[u8]) {
    let mut addresses: Vec<u64> = addresses(bytes).collect();
    addresses.sort_unstable();
    with(|player| player.breakpoints = addresses);
    dispatch::translate_anew();
}

fn tell_stop(context: &Context) {
    let header = with(|player| {
        let reason = match (player.over, player.at_breakpoint) {
            (true, _) => why::END,
            (_, true) => why::BREAKPOINT,
            _ => why::TIME,
        };
        let (thread, pc) = (player.running as u64, context.registers.rip);
        Header::new(tell::STOPPED, [reason, time(), thread, pc, player.applied])
    });
    socket::send(header, &[]);
}

fn tell_registers(context: &mut Context, thread: u32) {
    let found = with(|player| {
        let running = player.running;
        let state = player.state_of(context, thread)?;
        let mut bytes = Vec::with_capacity(8 * register::COUNT + state.image.0.len());
        let registers = &state.registers;
        let words = registers.gpr.iter().copied();
        let rest = [registers.rip, registers.rflags, state.fs_base, state.gs_base];
        for word in words.chain(rest) {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.extend_from_slice(&state.image.0[..vectors::area_size()]);
        let is_running = (state.id == running) as u64;
        let words = [state.id as u64, state.in_syscall as u64, is_running];
        Some((Header::new(tell::REGISTERS, words), bytes))
    });
    match found {
        Some((header, bytes)) => socket::send(header, &bytes),
        None => socket::send(Header::new(tell::DONE, []), &[]),
    }
}

fn tell_threads(context: &Context) {
    let bytes = with(|player| {
        let mut bytes = Vec::new();
        let running = (player.running, context.in_syscall);
        for (id, in_syscall) in core::iter::once(running).chain(player.others()) {
            bytes.extend_from_slice(&id.to_le_bytes());
            bytes.extend_from_slice(&in_syscall.to_le_bytes());
        }
        bytes
    });
    socket::send(Header::new(tell::THREADS, []), &bytes[..bytes.len().min(MAX_PAYLOAD)]);
}

/// Makes a copy of this process, which goes on here as well.
fn fork(descriptor: Option<i32>) {
    let Some(descriptor) = descriptor else { fail(format_args!("a copy needs a socket")) };
    match socket::fork(descriptor) {
        Ok(0) => {
            stream::detach();
            socket::send(Header::new(tell::DONE, [sys::getpid() as u64]), &[]);
        }
        Ok(copy) => socket::send(Header::new(tell::DONE, [copy]), &[]),
        Err(error) => fail(format_args!("cannot make a copy of the process (error {})", error.0)),
    }
}
