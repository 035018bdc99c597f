//! System calls, signals, mappings, threads and children: what the log tells besides memory.

use std::iter::Peekable;
use std::sync::Arc;

use retro_abi::log::MapKind;
use retro_abi::{signal_names, syscall_names};
use retro_query::{Error, Moment, Process, Row, RowClass, RowFilter, Run, TimedRow};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Answer;
use super::failure::{invalid, unknown};
use super::search::{Find, Search, search_params};
use super::state::permissions;
use super::wire::{Address, AddressRange, Direction, Place, ProcessNumber, SyscallName, Time};
use crate::methods::Methods;
use crate::paging::Page;
use crate::service::CallContext;

/// Windows in which the end of a system call is looked for.
const WINDOWS_LIMIT: u32 = 256;

/// Where parts of `siginfo_t` are.
const SIGNAL_CODE: usize = 8;
const SIGNAL_DETAIL: usize = 16;

/// Signals whose detail is an address: SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV.
const FAULTS: [u32; 5] = [4, 5, 7, 8, 11];

pub(super) fn add(methods: Methods<Run>) -> Methods<Run> {
    methods
        .add("locate.syscalls", "System calls, with their results.", syscalls)
        .add("locate.signals", "Signals that were delivered.", signals)
        .add("locate.maps", "Changes of the address space.", maps)
        .add("locate.threads", "Beginnings and ends of threads. The first thread begins and ends with its process and is not told.", threads)
        .add("locate.forks", "Children that were made.", forks)
}

/// Rows of a class.
fn rows_of(
    search: &Search<'_>,
    filter: RowFilter,
) -> Answer<impl Iterator<Item = Result<TimedRow, Error>> + use<>> {
    Ok(search.run.rows(search.from(), search.way(), filter, search.cancel())?)
}

/// A filter for a class, or for one number of it.
fn filter(class: RowClass, number: Option<u32>) -> RowFilter {
    match number {
        Some(number) => RowFilter::Number(class, number.into()),
        None => RowFilter::Class(class),
    }
}

search_params! {
    /// Parameters of `locate.syscalls`.
    struct SyscallsParams {
        /// Only those of this name.
        name: Option<String>,
        /// Only those of this number.
        number: Option<u32>,
        /// Whether results are wanted; yes unless given.
        #[serde(default = "yes")]
        results: bool,
    }
}

fn yes() -> bool {
    true
}

/// A system call.
#[derive(Debug, Serialize, JsonSchema)]
struct FoundSyscall {
    /// The moment right before its instruction.
    time: Time,
    /// The thread.
    thread: u32,
    #[serde(flatten)]
    syscall: SyscallName,
    /// The registers that arguments are in; how many of them count depends on the call.
    arguments: [Address; 6],
    /// Its end, if it has come to one and that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<SyscallEnd>,
}

/// The end of a system call.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct SyscallEnd {
    /// When it is over: the thread's next instruction is next, or another thread's.
    time: Time,
    /// What it returned, in hexadecimal.
    pub result: Address,
    /// The number of the error, if it returned one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<u64>,
}

fn syscalls(
    run: &Run,
    params: SyscallsParams,
    context: &CallContext,
) -> Answer<Page<FoundSyscall>> {
    let search = params.search(run, context)?;
    let number = match (&params.name, params.number) {
        (Some(name), None) => Some(syscall_number(name)?),
        (None, number) => number,
        _ => return Err(invalid("give \"name\" or \"number\", or neither")),
    };
    let found = rows_of(&search, filter(RowClass::Syscall, number))?;
    let mut ends = Ends::new(Arc::clone(&search.process));
    search.page(found, |row| {
        let Row::SyscallEnter { number, args } = row.row else { return Err(damaged()) };
        Ok(FoundSyscall {
            time: Time(row.number()),
            thread: row.thread,
            syscall: SyscallName::of(number),
            arguments: args.map(Address),
            end: if params.results { ends.end_of(&row, context)? } else { None },
        })
    })
}

fn syscall_number(name: &str) -> Answer<u32> {
    /// More than there will be.
    const NUMBERS: u32 = 1 << 12;
    let number = (0..NUMBERS).find(|&number| syscall_names::name(number.into()) == Some(name));
    number.ok_or_else(|| unknown(format!("there is no system call {name:?}")))
}

/// An index that says one thing and holds another.
fn damaged() -> crate::service::MethodError {
    crate::service::MethodError::Failed {
        kind: "index_unreadable",
        message: "the index is damaged: build it again with `retro index --rebuild`".to_owned(),
    }
}

/// Finds ends of system calls, keeping the rows of the window that it looked at last.
pub(super) struct Ends {
    process: Arc<Process>,
    known: Option<((usize, u32), Vec<TimedRow>)>,
}

impl Ends {
    pub fn new(process: Arc<Process>) -> Ends {
        Ends { process, known: None }
    }

    pub fn end_of(
        &mut self,
        enter: &TimedRow,
        context: &CallContext,
    ) -> Answer<Option<SyscallEnd>> {
        let (mut volume, index) = self.process.volume_of(enter.number().max(self.process.start))?;
        let mut window = index.window_of(enter.number());
        let mut has_begun = false;
        for _ in 0..WINDOWS_LIMIT {
            context.cancel().check()?;
            for row in self.rows(volume, window)? {
                let is_own = row.thread == enter.thread;
                match row.row {
                    Row::SyscallExit { result } if has_begun && is_own => {
                        return Ok(Some(SyscallEnd::new(row.time, result)));
                    }
                    Row::SyscallEnter { .. } if is_own && has_begun => return Ok(None),
                    Row::SyscallEnter { .. } if row == enter => has_begun = true,
                    Row::ThreadEnd { thread, .. } if has_begun && thread == enter.thread => {
                        return Ok(None);
                    }
                    _ => {}
                }
            }
            window += 1;
            if window >= self.process.volumes[volume].windows.len() {
                (volume, window) = (volume + 1, 0);
            }
            if volume >= self.process.volumes.len() {
                return Ok(None);
            }
        }
        Ok(None)
    }

    fn rows(&mut self, volume: usize, window: u32) -> Answer<&[TimedRow]> {
        let key = (volume, window);
        if self.known.as_ref().is_none_or(|(known, _)| *known != key) {
            let rows = self.process.volumes[volume].rows.rows(window).map_err(Error::from)?;
            self.known = Some((key, rows));
        }
        Ok(self.known.as_ref().map_or(&[], |(_, rows)| rows))
    }
}

impl SyscallEnd {
    fn new(time: u64, result: u64) -> SyscallEnd {
        /// The kernel's `MAX_ERRNO`.
        const HIGHEST_ERROR: u64 = 4095;
        let error = result.wrapping_neg();
        let is_error = (1..=HIGHEST_ERROR).contains(&error);
        SyscallEnd { time: Time(time), result: Address(result), error: is_error.then_some(error) }
    }
}

search_params! {
    /// Parameters of `locate.signals`.
    struct SignalsParams {
        /// Only those of this name, such as `SIGSEGV`.
        name: Option<String>,
        /// Only those of this number.
        number: Option<u32>,
    }
}

/// A signal.
#[derive(Debug, Serialize, JsonSchema)]
struct FoundSignal {
    /// When it is delivered: its handler's first instruction is next.
    time: Time,
    /// The thread.
    thread: u32,
    /// Its number.
    number: u32,
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'static str>,
    /// Whether an instruction of the thread caused it.
    is_synchronous: bool,
    /// The handler; absent if it ends the process.
    #[serde(skip_serializing_if = "Option::is_none")]
    handler: Option<Place>,
    /// `si_code`.
    code: i32,
    /// The address of a fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<Address>,
    /// The process that sent it.
    #[serde(skip_serializing_if = "Option::is_none")]
    sender: Option<u32>,
}

fn signals(run: &Run, params: SignalsParams, context: &CallContext) -> Answer<Page<FoundSignal>> {
    let search = params.search(run, context)?;
    let number = match (&params.name, params.number) {
        (Some(name), None) => Some(signal_number(name)?),
        (None, number) => number,
        _ => return Err(invalid("give \"name\" or \"number\", or neither")),
    };
    let found = rows_of(&search, filter(RowClass::Signal, number))?;
    search.page(found, |row| {
        let Row::Signal { number, synchronous, handler, info } = row.row else {
            return Err(damaged());
        };
        let moment = Moment { log: search.asked().log, time: row.time };
        let code = i32::from_le_bytes(field(&info, SIGNAL_CODE));
        Ok(FoundSignal {
            time: Time(row.time),
            thread: row.thread,
            number,
            name: signal_names::name(number),
            is_synchronous: synchronous,
            handler: (handler != 0).then(|| Place::of(run.symbols(), moment, handler)),
            code,
            address: (synchronous && FAULTS.contains(&number))
                .then(|| Address(u64::from_le_bytes(field(&info, SIGNAL_DETAIL)))),
            sender: (code <= 0).then(|| u32::from_le_bytes(field(&info, SIGNAL_DETAIL))),
        })
    })
}

/// A field of `siginfo_t`, whose trailing zeroes are left out.
fn field<const LEN: usize>(info: &[u8], at: usize) -> [u8; LEN] {
    std::array::from_fn(|index| info.get(at + index).copied().unwrap_or(0))
}

fn signal_number(name: &str) -> Answer<u32> {
    let number = (0..=64).find(|&number| signal_names::name(number) == Some(name));
    number.ok_or_else(|| unknown(format!("there is no signal {name:?}")))
}

search_params! {
    /// Parameters of `locate.maps`.
    struct MapChangesParams {
        /// Only changes of this kind.
        kind: Option<MapChangeKind>,
        /// Only changes that touch this address.
        address: Option<Address>,
    }
}

/// How the address space changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum MapChangeKind {
    /// Something is mapped.
    Map,
    /// Something is unmapped.
    Unmap,
    /// Rights change.
    Protect,
    /// Something moves.
    Move,
    /// Contents are thrown away.
    Discard,
}

const KINDS: [(MapChangeKind, MapKind); 5] = [
    (MapChangeKind::Map, MapKind::Map),
    (MapChangeKind::Unmap, MapKind::Unmap),
    (MapChangeKind::Protect, MapKind::Protect),
    (MapChangeKind::Move, MapKind::Move),
    (MapChangeKind::Discard, MapKind::Discard),
];

/// A change of the address space.
#[derive(Debug, Serialize, JsonSchema)]
struct FoundMapChange {
    /// From when on it is so.
    time: Time,
    /// The thread.
    thread: u32,
    /// What happens.
    kind: MapChangeKind,
    #[serde(flatten)]
    memory: AddressRange,
    /// Rights, as in `/proc/PID/maps`; of what is mapped or protected.
    #[serde(skip_serializing_if = "Option::is_none")]
    permissions: Option<String>,
    /// The file, of what is mapped.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    /// Where in the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<Address>,
    /// Where it was, of what moves.
    #[serde(skip_serializing_if = "Option::is_none")]
    moved_from: Option<Address>,
}

fn maps(
    run: &Run,
    params: MapChangesParams,
    context: &CallContext,
) -> Answer<Page<FoundMapChange>> {
    let search = params.search(run, context)?;
    let wanted = KINDS.iter().find(|(kind, _)| Some(*kind) == params.kind);
    let number = wanted.map(|(_, kind)| *kind as u32);
    let touches = |row: &Result<TimedRow, Error>| match (row, params.address) {
        (Ok(TimedRow { row: Row::Map { start, len, .. }, .. }), Some(Address(address))) => {
            (*start..start.saturating_add(*len)).contains(&address)
        }
        _ => true,
    };
    let found = rows_of(&search, filter(RowClass::Map, number))?.filter(touches);
    search.page(found, |row| {
        let log = search.asked().log;
        let Row::Map { kind, start, len, prot, flags, file, offset } = row.row else {
            return Err(damaged());
        };
        let named = KINDS.iter().find(|(_, known)| *known == kind);
        let has_rights = matches!(kind, MapKind::Map | MapKind::Protect);
        let is_file = kind == MapKind::Map && file != 0;
        let path =
            if is_file { file_at(run, Moment { log, time: row.time }, start)? } else { None };
        Ok(FoundMapChange {
            time: Time(row.time),
            thread: row.thread,
            kind: named.map_or(MapChangeKind::Map, |(name, _)| *name),
            memory: AddressRange { start: Address(start), end: Address(start.saturating_add(len)) },
            permissions: has_rights.then(|| permissions(prot, flags)),
            file: path,
            offset: is_file.then_some(Address(offset)),
            moved_from: (kind == MapKind::Move).then_some(Address(offset)),
        })
    })
}

/// The file that is mapped at an address.
fn file_at(run: &Run, moment: Moment, address: u64) -> Answer<Option<String>> {
    let maps = run.maps(moment)?;
    let mapping = maps.iter().find(|mapping| (mapping.start..mapping.end).contains(&address));
    let file = mapping.and_then(|mapping| mapping.file.as_ref());
    Ok(file.map(|path| path.to_string_lossy().into_owned()))
}

search_params! {
    /// Parameters of `locate.threads`.
    struct ThreadEventsParams {
        /// Only beginnings, or only ends.
        event: Option<ThreadEventKind>,
    }
}

/// What happens to a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ThreadEventKind {
    /// It begins.
    Start,
    /// It ends.
    End,
}

/// A thread that begins or ends.
#[derive(Debug, Serialize, JsonSchema)]
struct FoundThreadEvent {
    /// When.
    time: Time,
    /// What.
    event: ThreadEventKind,
    /// The thread.
    thread: u32,
    /// The status that it ends with.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u32>,
}

fn threads(
    run: &Run,
    params: ThreadEventsParams,
    context: &CallContext,
) -> Answer<Page<FoundThreadEvent>> {
    let search = params.search(run, context)?;
    let rows = |event, class| -> Answer<_> {
        let is_wanted = params.event.is_none_or(|wanted| wanted == event);
        is_wanted.then(|| rows_of(&search, RowFilter::Class(class))).transpose()
    };
    let starts = rows(ThreadEventKind::Start, RowClass::ThreadStart)?;
    let ends = rows(ThreadEventKind::End, RowClass::ThreadEnd)?;
    let found = Merged {
        one: starts.into_iter().flatten().map(of_its_thread).peekable(),
        other: ends.into_iter().flatten().map(of_its_thread).peekable(),
        direction: search.direction,
    };
    search.page(found, |row| {
        let (event, status) = match row.row {
            Row::ThreadStart { .. } => (ThreadEventKind::Start, None),
            Row::ThreadEnd { code, .. } => (ThreadEventKind::End, Some(code)),
            _ => return Err(damaged()),
        };
        Ok(FoundThreadEvent { time: Time(row.time), event, thread: row.thread, status })
    })
}

/// A row about a thread, as one of this thread: another may have run when it was written.
fn of_its_thread(row: Result<TimedRow, Error>) -> Result<TimedRow, Error> {
    row.map(|mut row| {
        if let Row::ThreadStart { thread } | Row::ThreadEnd { thread, .. } = row.row {
            row.thread = thread;
        }
        row
    })
}

/// Two searches in the same direction as one.
struct Merged<A: Iterator, B: Iterator> {
    one: Peekable<A>,
    other: Peekable<B>,
    direction: Direction,
}

impl<A, B> Iterator for Merged<A, B>
where
    A: Iterator<Item = Result<TimedRow, Error>>,
    B: Iterator<Item = Result<TimedRow, Error>>,
{
    type Item = Result<TimedRow, Error>;

    fn next(&mut self) -> Option<Result<TimedRow, Error>> {
        let is_first = match (self.one.peek(), self.other.peek()) {
            (Some(Ok(one)), Some(Ok(other))) => match self.direction {
                Direction::Forward => one.time <= other.time,
                Direction::Backward => one.time > other.time,
            },
            // An error comes out at once.
            (Some(Err(_)), _) | (Some(_), None) => true,
            _ => false,
        };
        if is_first { self.one.next() } else { self.other.next() }
    }
}

search_params! {
    /// Parameters of `locate.forks`.
    struct ForksParams {}
}

/// A child process.
#[derive(Debug, Serialize, JsonSchema)]
struct FoundFork {
    /// When it was made.
    time: Time,
    /// The thread that made it.
    thread: u32,
    /// Its id.
    pid: u32,
    /// The child, if it was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    child: Option<ProcessNumber>,
}

fn forks(run: &Run, params: ForksParams, context: &CallContext) -> Answer<Page<FoundFork>> {
    let search = params.search(run, context)?;
    let found = rows_of(&search, RowFilter::Class(RowClass::Fork))?;
    search.page(found, |row| {
        let Row::Fork { pid, log } = row.row else { return Err(damaged()) };
        let child = log.checked_sub(1).map(ProcessNumber);
        Ok(FoundFork { time: Time(row.time), thread: row.thread, pid, child })
    })
}
