//! One event as a line for people.

use std::ffi::OsStr;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;

use retro_abi::channel::Origin;
use retro_abi::log::{Event, MapKind, RegisterSet, register};
use retro_recording::ProcessEnd;

use super::bytes::{described, hexadecimal};
use super::calls;
use super::files::FileNames;
use super::signals::SignalInfo;
use crate::info::strings;
use crate::quoting::{command_line, printable, shortened};
use crate::style::Style;
use crate::timestamp::Timestamp;
use crate::wording;

/// Arguments of a program that are shown; JSON has all of them.
const WORDS_SHOWN: usize = 500;

/// Characters of a command line that are shown.
const COMMAND_WIDTH: usize = 2000;

/// When and where something happened, and how much of it is shown.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// Instructions executed before.
    pub time: u64,
    /// The thread that ran, if it is known.
    pub thread: Option<u32>,
    /// Bytes of memory that are shown.
    pub bytes_shown: usize,
    /// Whether there are colours.
    pub style: Style,
}

impl Line {
    /// The line with a text for the event.
    pub fn with(&self, text: &str) -> String {
        let thread = self.thread.map_or_else(|| "-".to_string(), |thread| thread.to_string());
        let place = self.style.dim(&format!("{:>14} {thread:>7}", self.time));
        format!("{place}  {text}")
    }

    /// The line for an event. `call` is the number of the call that it ends.
    pub fn event(&self, event: &Event, call: Option<u64>, files: &mut FileNames) -> String {
        self.with(&self.text(event, call, files))
    }

    fn text(&self, event: &Event, call: Option<u64>, files: &mut FileNames) -> String {
        match *event {
            Event::Load { address, bytes } => self.memory("load", address, bytes),
            Event::Write { address, bytes } => self.memory("write", address, bytes),
            Event::Code { address, bytes } => self.memory("code", address, bytes),
            Event::SyscallEnter { number, ref args, .. } => calls::call(number, args),
            Event::SyscallExit { result } => {
                let name = call.map_or_else(|| "syscall".to_string(), calls::name);
                format!("... {name} = {}", calls::result(call, result))
            }
            Event::Registers(ref set) => format!("registers{}", registers(set)),
            Event::Vectors { image } => format!("vectors {}", described(image, self.bytes_shown)),
            Event::Signal { number, synchronous, handler, info, .. } => {
                signal(number, synchronous, handler, info)
            }
            Event::Map { .. } => map(event, files),
            Event::ThreadStart { thread } => format!("thread {thread} starts"),
            Event::ThreadSwitch { thread, .. } => format!("switch to thread {thread}"),
            Event::ThreadEnd { thread, code } => format!("thread {thread} ends with {code}"),
            Event::Interval { number, running, threads } => {
                let unit = if threads == 1 { "thread" } else { "threads" };
                format!("interval {number} begins: {threads} {unit}, {running} runs")
            }
            Event::ThreadState { thread, in_syscall, ref registers, image } => {
                self.thread_state(thread, in_syscall, registers, image)
            }
            Event::Fork { pid, log: 0 } => format!("child process {pid}, not recorded"),
            Event::Fork { pid, log } => format!("child process {pid}, log {}", log - 1),
            Event::Start { .. } => start(event),
            Event::End { how, code } => {
                format!("end: {}", wording::process_end(ProcessEnd::from_numbers(how, code)))
            }
            Event::File { .. } => file(event),
            Event::Inherit { log, time } => format!("code of log {log} up to {time}"),
            Event::MemorySum { len: 0, .. } => "no sums of memory".to_string(),
            Event::MemorySum { start, len, sum } => {
                let end = start.saturating_add(len);
                format!("memory {start:#x}-{end:#x} has the sum {sum:016x}")
            }
        }
    }

    fn memory(&self, what: &str, address: u64, bytes: &[u8]) -> String {
        format!("{what} {address:#x} {}", described(bytes, self.bytes_shown))
    }

    fn thread_state(
        &self,
        thread: u32,
        in_syscall: u32,
        set: &RegisterSet,
        image: &[u8],
    ) -> String {
        let call = match in_syscall.checked_sub(1) {
            Some(number) => format!(" in {}", calls::name(number.into())),
            None => String::new(),
        };
        format!(
            "state of thread {thread}{call}:{}, {} bytes of vectors",
            registers(set),
            image.len()
        )
    }
}

/// ` rax=0x1 rip=0x401000`
fn registers(set: &RegisterSet) -> String {
    let mut text = String::new();
    for (number, (name, value)) in register::NAMES.iter().zip(set.values).enumerate() {
        if set.mask & 1 << number != 0 {
            let _ = write!(text, " {name}={value:#x}");
        }
    }
    text
}

fn signal(number: u32, synchronous: bool, handler: u64, info: &[u8]) -> String {
    let name = wording::signal(number);
    let info = SignalInfo::new(info).described(number);
    let kind = if synchronous { ", synchronous" } else { "" };
    let action = match handler {
        0 => "ends the process".to_string(),
        handler => format!("handler {handler:#x}"),
    };
    format!("{name} ({info}{kind}) {action}")
}

fn map(event: &Event, files: &mut FileNames) -> String {
    let Event::Map { kind, start, len, prot, flags, file, offset } = *event else {
        return String::new();
    };
    let range = format!("{start:#x}-{:#x}", start.saturating_add(len));
    match kind {
        MapKind::Unmap => format!("unmap {range}"),
        MapKind::Discard => format!("discard {range}"),
        MapKind::Protect => format!("protect {range} {}", rights(prot)),
        MapKind::Move => format!("move {range} from {offset:#x}"),
        MapKind::Map => {
            let sharing = match flags & libc::MAP_TYPE as u32 {
                1 | 3 => " shared",
                2 => " private",
                _ => "",
            };
            let content = match file.checked_sub(1) {
                None => String::new(),
                Some(number) => {
                    let name = match files.name(number) {
                        Some(path) => printable(path),
                        None => format!("file {number}"),
                    };
                    format!(" {name} at {offset:#x}")
                }
            };
            format!("map {range} {}{sharing}{content}", rights(prot))
        }
    }
}

fn rights(prot: u32) -> String {
    let letter = |bit: i32, letter| if prot & bit as u32 != 0 { letter } else { '-' };
    [letter(libc::PROT_READ, 'r'), letter(libc::PROT_WRITE, 'w'), letter(libc::PROT_EXEC, 'x')]
        .into_iter()
        .collect()
}

/// How a log began, by its number in [`Event::Start`].
pub fn origin(number: u8) -> &'static str {
    match Origin::from_number(number.into()) {
        Some(Origin::First) => "first",
        Some(Origin::Fork) => "fork",
        Some(Origin::Exec) => "exec",
        None => "unknown",
    }
}

fn start(event: &Event) -> String {
    let Event::Start {
        pid,
        parent,
        origin: number,
        seconds,
        path,
        arguments,
        environment,
        directory,
        ..
    } = *event
    else {
        return String::new();
    };
    let mut text = format!("start of process {pid}, parent {parent}, by {}", origin(number));
    if let Some(time) = Timestamp::local(seconds) {
        let _ = write!(text, ", at {}", time.to_seconds());
    }
    if !path.is_empty() {
        let words: Vec<&OsStr> =
            strings(arguments).take(WORDS_SHOWN).map(OsStrExt::from_bytes).collect();
        let command = shortened(&command_line(&words), COMMAND_WIDTH);
        let _ = write!(text, ": {} as {command}", printable(path));
        let _ = write!(text, ", {} variables", strings(environment).count());
    }
    if !directory.is_empty() {
        let _ = write!(text, ", in {}", printable(directory));
    }
    text
}

fn file(event: &Event) -> String {
    let Event::File { number, device, inode, size, modified_seconds, build_id, path, .. } = *event
    else {
        return String::new();
    };
    let modified = u64::try_from(modified_seconds).ok().and_then(Timestamp::local);
    let modified =
        modified.map_or_else(String::new, |time| format!(", modified {}", time.to_seconds()));
    let build_id = if build_id.is_empty() {
        String::new()
    } else {
        format!(", build id {}", hexadecimal(build_id, 64))
    };
    let name = printable(path);
    format!(
        "file {number} {name}: {size} bytes, device {device:#x}, inode {inode}{modified}{build_id}"
    )
}
