//! Threads, registers, memory and mappings at a moment.

use std::collections::BTreeMap;
use std::ops::Range;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use retro_abi::log::register;
use retro_query::{LastWrite, Moment, Run, Write, Writer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Answer;
use super::failure::{at_most, invalid};
use super::vectors::{WideRegister, wide_registers};
use super::wire::{Address, AddressRange, Place, ProcessNumber, SyscallName, Time, hex, moment};
use crate::methods::Methods;
use crate::paging::{Page, PageRequest};
use crate::service::CallContext;

/// Bytes that are read at once.
const READ_LIMIT: u64 = 1 << 20;

/// Bytes whose last writes are looked for at once.
const LAST_WRITES_LIMIT: u64 = 4096;

/// Ranges whose last writes are looked for at once.
const RANGES_LIMIT: u64 = 1000;

/// `PROT_*` and `MAP_*` of the kernel.
const PROT_READ: u32 = 1;
const PROT_WRITE: u32 = 2;
const PROT_EXEC: u32 = 4;
const MAP_SHARED: u32 = 1;

pub(super) fn add(methods: Methods<Run>) -> Methods<Run> {
    methods
        .add("threads", "The threads at a moment; the one that runs comes first.", threads)
        .add("registers", "All registers of a thread at a moment.", registers)
        .add("memory.read", "Memory at a moment.", read)
        .add(
            "memory.last_writes",
            "For each byte of a small range, the last write that a moment shows.",
            last_writes,
        )
        .add(
            "memory.last_write_of_each",
            "For each of some ranges of memory, the last write to it that a moment shows.",
            last_write_of_each,
        )
        .add("maps", "The mappings at a moment, by address.", maps)
}

/// Parameters of `threads`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ThreadsParams {
    process: ProcessNumber,
    time: Time,
}

/// A thread at a moment.
#[derive(Debug, Serialize, JsonSchema)]
struct ThreadState {
    /// Its number.
    thread: u32,
    /// Whether it is the one that runs.
    is_running: bool,
    /// The system call that it waits in.
    #[serde(skip_serializing_if = "Option::is_none")]
    in_syscall: Option<SyscallName>,
    /// Its next instruction.
    pc: Place,
}

fn threads(run: &Run, params: ThreadsParams, context: &CallContext) -> Answer<Vec<ThreadState>> {
    let moment = moment(params.process, params.time);
    let state = run.state(moment)?;
    let mut all = Vec::new();
    for info in state.threads()? {
        context.cancel().check()?;
        let registers = state.registers(Some(info.thread))?;
        all.push(ThreadState {
            thread: info.thread,
            is_running: registers.running,
            in_syscall: info.in_syscall.map(|number| SyscallName::of(number.into())),
            pc: Place::of(run.symbols(), moment, registers.pc()),
        });
    }
    Ok(all)
}

/// Parameters of `registers`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RegistersParams {
    process: ProcessNumber,
    time: Time,
    /// The thread; the one that runs unless given.
    thread: Option<u32>,
}

/// The registers of a thread.
#[derive(Debug, Serialize, JsonSchema)]
struct ThreadRegisters {
    /// The thread.
    thread: u32,
    /// Whether it is the one that runs.
    is_running: bool,
    /// The system call that it waits in.
    #[serde(skip_serializing_if = "Option::is_none")]
    in_syscall: Option<SyscallName>,
    /// rax to r15, rip, rflags, fs_base, gs_base.
    general: BTreeMap<&'static str, Address>,
    /// Vector registers, masks, x87 registers and their control words.
    wide: Vec<WideRegister>,
}

fn registers(run: &Run, params: RegistersParams, _: &CallContext) -> Answer<ThreadRegisters> {
    let registers = run.registers(moment(params.process, params.time), params.thread)?;
    let general = register::NAMES.iter().zip(&registers.general);
    Ok(ThreadRegisters {
        thread: registers.thread,
        is_running: registers.running,
        in_syscall: registers.in_syscall.map(|number| SyscallName::of(number.into())),
        general: general.map(|(name, value)| (*name, Address(*value))).collect(),
        wide: wide_registers(&registers.vectors),
    })
}

/// Parameters of `memory.read`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadParams {
    process: ProcessNumber,
    time: Time,
    /// The first byte.
    address: Address,
    /// How many bytes, at most 1 MiB.
    #[schemars(range(max = 1_048_576))]
    length: u64,
    /// How the bytes are written; `hex` unless given.
    #[serde(default)]
    encoding: Encoding,
}

/// How bytes are written.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Encoding {
    /// Two hexadecimal digits each.
    #[default]
    Hex,
    /// RFC 4648, with padding.
    Base64,
}

/// Memory.
#[derive(Debug, Serialize, JsonSchema)]
struct Memory {
    address: Address,
    /// How many bytes there are: fewer than asked for where no program can have memory.
    length: u64,
    /// The bytes.
    bytes: String,
    encoding: Encoding,
    /// The parts that are mapped; the rest is shown as zero, and the program could not have read it.
    mapped: Vec<AddressRange>,
}

fn read(run: &Run, params: ReadParams, _: &CallContext) -> Answer<Memory> {
    at_most("length", params.length, READ_LIMIT)?;
    let moment = moment(params.process, params.time);
    let bytes = run.memory(moment, params.address.0, params.length)?;
    let end = params.address.0.saturating_add(bytes.len() as u64);
    Ok(Memory {
        address: params.address,
        length: bytes.len() as u64,
        mapped: mapped_parts(run, moment, params.address.0..end)?,
        bytes: match params.encoding {
            Encoding::Hex => hex(&bytes),
            Encoding::Base64 => STANDARD.encode(&bytes),
        },
        encoding: params.encoding,
    })
}

/// The parts of a range that are mapped, joined where they touch.
fn mapped_parts(run: &Run, moment: Moment, range: Range<u64>) -> Answer<Vec<AddressRange>> {
    let mut parts: Vec<AddressRange> = Vec::new();
    for mapping in run.maps(moment)? {
        let start = Address(mapping.start.max(range.start));
        let end = Address(mapping.end.min(range.end));
        match parts.last_mut() {
            _ if start >= end => {}
            Some(last) if last.end == start => last.end = end,
            _ => parts.push(AddressRange { start, end }),
        }
    }
    Ok(parts)
}

/// Parameters of `memory.last_writes`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LastWritesParams {
    process: ProcessNumber,
    time: Time,
    /// The first byte.
    address: Address,
    /// How many bytes, 1 to 4096.
    #[schemars(range(min = 1, max = 4096))]
    length: u64,
}

/// Bytes that the same write left as they are.
#[derive(Debug, Serialize, JsonSchema)]
struct LastWritten {
    /// The first of them.
    address: Address,
    /// How many.
    length: u64,
    /// The write; absent if the process never wrote there.
    #[serde(skip_serializing_if = "Option::is_none")]
    write: Option<WriteOrigin>,
}

/// Who wrote, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct WriteOrigin {
    /// The moment right before the instruction; its effect is seen one later.
    pub time: Time,
    /// The thread.
    pub thread: u32,
    /// The instruction.
    pub pc: Place,
    /// By whom.
    pub by: WriterKind,
}

/// Who wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum WriterKind {
    /// An instruction of the program.
    Instruction,
    /// The kernel: a system call, or the delivery of a signal.
    Kernel,
}

impl WriteOrigin {
    pub fn of(run: &Run, process: u64, write: &Write) -> WriteOrigin {
        let moment = Moment { log: process, time: write.time };
        WriteOrigin {
            time: Time(write.time),
            thread: write.thread,
            pc: Place::of(run.symbols(), moment, write.pc),
            by: match write.by {
                Writer::Instruction => WriterKind::Instruction,
                Writer::Kernel => WriterKind::Kernel,
            },
        }
    }
}

fn last_writes(
    run: &Run,
    params: LastWritesParams,
    context: &CallContext,
) -> Answer<Vec<LastWritten>> {
    at_most("length", params.length, LAST_WRITES_LIMIT)?;
    let range = memory_range(params.address, params.length)?;
    let moment = moment(params.process, params.time);
    let mut found = Vec::new();
    // What the last write to a range did not cover is asked for again, part by part.
    let mut open: Vec<Range<u64>> = std::iter::once(range).collect();
    while let Some(range) = open.pop() {
        context.progress(
            params.length - open.iter().map(|part| part.end - part.start).sum::<u64>(),
            None,
        );
        let write = run.last_write(moment, range.clone(), context.cancel().flag())?;
        let covered = match &write {
            Some(write) => {
                let written = write.address..write.address.saturating_add(write.value.len() as u64);
                range.start.max(written.start)..range.end.min(written.end)
            }
            None => range.clone(),
        };
        // A write that does not touch the range would be asked for for ever.
        let covered = if covered.is_empty() { range.clone() } else { covered };
        let rest = [range.start..covered.start, covered.end..range.end];
        open.extend(rest.into_iter().filter(|part| !part.is_empty()));
        found.push(LastWritten {
            address: Address(covered.start),
            length: covered.end - covered.start,
            write: write.map(|write| WriteOrigin::of(run, moment.log, &write)),
        });
    }
    found.sort_by_key(|part| part.address);
    Ok(joined(found))
}

/// Parameters of `memory.last_write_of_each`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LastWriteOfEachParams {
    process: ProcessNumber,
    time: Time,
    /// The ranges, at most 1000.
    #[schemars(length(max = 1000))]
    ranges: Vec<MemoryRange>,
    /// How many pieces of the run, of two million instructions each, may be looked into; all unless given. For one range it is a
    /// quarter of them.
    pieces: Option<u32>,
}

/// The last write to a range of memory.
#[derive(Debug, Serialize, JsonSchema)]
struct LastWriteOfRange {
    /// Whether it is known; not if more would have to be looked into.
    is_known: bool,
    /// The write; absent if the process never wrote there, or if it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    write: Option<WriteOrigin>,
}

/// A range of memory.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct MemoryRange {
    /// The first byte.
    address: Address,
    /// How many bytes.
    length: u64,
}

fn last_write_of_each(
    run: &Run,
    params: LastWriteOfEachParams,
    context: &CallContext,
) -> Answer<Vec<LastWriteOfRange>> {
    at_most("ranges", params.ranges.len() as u64, RANGES_LIMIT)?;
    let ranges = params.ranges.iter().map(|range| memory_range(range.address, range.length));
    let ranges: Vec<Range<u64>> = ranges.collect::<Answer<_>>()?;
    let moment = moment(params.process, params.time);
    let windows = params.pieces.map_or(usize::MAX, |pieces| pieces as usize);
    let found = run.last_writes(moment, &ranges, windows, context.cancel().flag())?.into_iter();
    let described = found.map(|found| LastWriteOfRange {
        is_known: found.is_some(),
        write: found
            .and_then(LastWrite::found)
            .map(|write| WriteOrigin::of(run, moment.log, &write)),
    });
    Ok(described.collect())
}

/// The memory from an address on.
pub(super) fn memory_range(address: Address, length: u64) -> Answer<Range<u64>> {
    let end = address.0.checked_add(length).filter(|end| *end > address.0);
    let wrong = || invalid("the range is empty or reaches beyond all addresses");
    Ok(address.0..end.ok_or_else(wrong)?)
}

/// Neighbours that the same write left are one.
fn joined(parts: Vec<LastWritten>) -> Vec<LastWritten> {
    let mut joined: Vec<LastWritten> = Vec::new();
    for part in parts {
        match joined.last_mut() {
            Some(last) if last.write == part.write => last.length += part.length,
            _ => joined.push(part),
        }
    }
    joined
}

/// Parameters of `maps`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct MapsParams {
    process: ProcessNumber,
    time: Time,
    /// Mappings of a page: 100 unless given, at most 10,000.
    limit: Option<u32>,
    /// The `next` of the page before.
    cursor: Option<String>,
}

/// A mapping.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct MappingInfo {
    start: Address,
    /// The address behind it.
    end: Address,
    /// As in `/proc/PID/maps`: `r-xp`.
    permissions: String,
    /// The file that it shows.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    /// Where in the file it begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<Address>,
    /// Since when it is there.
    since: Time,
}

/// Rights and flags as `/proc` shows them.
pub(super) fn permissions(prot: u32, flags: u32) -> String {
    let letter = |bit, letter| if prot & bit != 0 { letter } else { '-' };
    let sharing = if flags & MAP_SHARED != 0 { 's' } else { 'p' };
    [letter(PROT_READ, 'r'), letter(PROT_WRITE, 'w'), letter(PROT_EXEC, 'x'), sharing]
        .into_iter()
        .collect()
}

fn maps(run: &Run, params: MapsParams, context: &CallContext) -> Answer<Page<MappingInfo>> {
    let pager = context.pager(&PageRequest { limit: params.limit, cursor: params.cursor })?;
    let from: Address = pager.start.unwrap_or(Address(0));
    let all = run.maps(moment(params.process, params.time))?;
    let mut rest = all.into_iter().filter(|mapping| Address(mapping.start) >= from);
    let page: Vec<MappingInfo> = rest
        .by_ref()
        .take(pager.limit)
        .map(|mapping| MappingInfo {
            start: Address(mapping.start),
            end: Address(mapping.end),
            permissions: permissions(mapping.prot, mapping.flags),
            offset: mapping.file.is_some().then_some(Address(mapping.offset)),
            file: mapping.file.map(|path| path.to_string_lossy().into_owned()),
            since: Time(mapping.since),
        })
        .collect();
    let next = rest.next().map(|mapping| Address(mapping.start));
    Ok(pager.page(page, next.as_ref()))
}
