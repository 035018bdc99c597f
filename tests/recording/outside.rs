//! Memory that changes from outside the recorded program: by processes that nobody records, by files, by the
//! kernel in ways that no table knows.
//!
//! Two things are checked: the program saw what it sees natively, and what it saw is in the log. For the second,
//! programs print lines `memory ADDRESS BYTES WHAT` of what they have just loaded from memory that they
//! never write; at that moment the log must say the same (see [`Memory`]).

use std::fs::{self, File};
use std::io::{BufRead, Read, Write};
use std::ops::ControlFlow;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use retro_abi::channel::Stream;
use retro_abi::log::Event;
use retro_testkit::compare::{Ending, assert_same};
use retro_testkit::recordings::{Examined, Memory, assert_complete};

use super::{Case, Dialogue};

/// A line about memory: where, what was there, and a name. A name that ends in `~` marks bytes that differ from
/// run to run.
#[derive(Debug)]
struct Shown {
    address: u64,
    bytes: Vec<u8>,
    what: String,
}

impl Shown {
    fn parse(line: &str) -> Option<Shown> {
        let mut words = line.strip_prefix("memory 0x")?.splitn(3, ' ');
        let address = u64::from_str_radix(words.next()?, 16).ok()?;
        let digits = words.next()?;
        let byte = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
        let bytes = (0..digits.len()).step_by(2).map(byte).collect::<Option<_>>()?;
        Some(Shown { address, bytes, what: words.next()?.to_owned() })
    }
}

/// Holds every line about memory against what the log says at the moment it was written.
fn check_shown(examined: &Examined, stdout: &str) {
    let mut lines = stdout.lines().filter(|line| !line.is_empty());
    let mut memory = Memory::default();
    // As it was before an interval that began between the load and the line about it.
    let mut memory_before = None;
    let mut problems = Vec::new();
    let mut shown = 0;
    let read = examined.recording.for_each_event(0, Stream::Main, |time, event| {
        if matches!(event, Event::Interval { .. }) {
            memory_before = Some(memory.clone());
        }
        memory.apply(event);
        if let Event::SyscallEnter { number, args, .. } = event
            && *number == libc::SYS_write as u64
            && args[0] == 1
        {
            let line = lines.next().unwrap_or_default();
            let Some(line) = Shown::parse(line) else {
                return ControlFlow::<()>::Continue(());
            };
            shown += 1;
            let logged = memory.read(line.address, line.bytes.len());
            let logged_before =
                memory_before.take().map(|m| m.read(line.address, line.bytes.len()));
            if logged != line.bytes && logged_before.as_ref() != Some(&line.bytes) {
                problems.push(format!(
                    "{time}: {} at {:#x}\n  saw    {:02x?}\n  logged {logged:02x?}",
                    line.what, line.address, line.bytes
                ));
            }
        }
        ControlFlow::Continue(())
    });
    assert!(read.is_ok(), "{read:?}");
    assert!(problems.is_empty(), "{} of {shown} differ:\n{}", problems.len(), problems.join("\n"));
    assert!(shown > 0 && lines.next().is_none(), "{shown} lines, and more than were written");
}

/// Output without what differs from run to run.
fn comparable(stdout: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(stdout);
    let line = |line| match Shown::parse(line) {
        Some(shown) if shown.what.ends_with('~') => format!("{}\n", shown.what),
        Some(shown) => format!("{:02x?} {}\n", shown.bytes, shown.what),
        None => format!("{line}\n"),
    };
    text.lines().map(line).collect::<String>().into_bytes()
}

#[test]
fn system_calls_that_write_in_odd_ways() {
    let mut case = Case::new("odd", &[]);
    let mut native = case.native();
    let mut recorded = case.record();
    let stdout = String::from_utf8_lossy(&recorded.stdout).into_owned();
    native.stdout = comparable(&native.stdout);
    recorded.stdout = comparable(&recorded.stdout);
    assert_eq!(native.status, Ending::Exited(0), "{native:?}");
    assert_same(&native, &recorded);
    check_shown(&assert_complete(&case.directory(), native.status), &stdout);
}

// ---- a file mapping that an unrecorded process keeps writing ----

/// What tests/recording/shared.c maps.
#[repr(C)]
struct Shared {
    sequence: AtomicU64,
    apart: [u8; 4088],
    counter: AtomicU64,
    apart_too: [u8; 4088],
    swapped: AtomicU64,
    apart_again: [u8; 4088],
    block: [AtomicU8; 128],
}

/// A file of that size, mapped into this process, which nobody records.
struct SharedFile {
    path: String,
    shared: &'static Shared,
}

impl SharedFile {
    fn create(directory: &Path) -> SharedFile {
        let path = directory.join("shared");
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        file.set_len(size_of::<Shared>() as u64).unwrap();
        // SAFETY: a new mapping of a file that is large enough; it stays until this process ends. All of it
        // that is used is atomic, and any bytes are valid.
        let shared = unsafe {
            let address = libc::mmap(
                std::ptr::null_mut(),
                size_of::<Shared>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            );
            assert_ne!(address, libc::MAP_FAILED);
            &*address.cast::<Shared>()
        };
        SharedFile { path: path.to_str().expect("a path in UTF-8").to_owned(), shared }
    }
}

fn pause(rounds: u64) {
    for _ in 0..rounds {
        std::hint::spin_loop();
    }
}

/// Records the guest while `write` runs again and again in this process. Returns the guest's output, the
/// recording, and how often `write` ran.
fn record_shared(
    how: &str,
    times: u32,
    write: impl Fn(&Shared, u64) + Send + Sync,
) -> (String, Examined, u64, &'static Shared) {
    let place = retro_testkit::programs::scratch::Scratch::new("shared-file");
    let file = SharedFile::create(place.path());
    let case = Case::new("shared", &[how, &file.path, &times.to_string()]);
    let done = AtomicBool::new(false);
    let (outcome, written) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut round = 0;
            while !done.load(Ordering::Relaxed) {
                round += 1;
                write(file.shared, round);
            }
            round
        });
        let outcome = case.record();
        done.store(true, Ordering::Relaxed);
        (outcome, writer.join().expect("the writer returns"))
    });
    let text = String::from_utf8_lossy(&outcome.stdout).into_owned();
    assert_eq!(outcome.status, Ending::Exited(0), "{}", String::from_utf8_lossy(&outcome.stderr));
    let examined = assert_complete(&case.directory(), outcome.status);
    (text, examined, written, file.shared)
}

/// The address and the numbers that the guest printed.
fn seen(stdout: &str) -> (u64, Vec<u64>) {
    let mut lines = stdout.lines();
    let address = lines.next().and_then(|line| line.strip_prefix("at 0x")).expect("an address");
    let number = |line: &str| line.strip_prefix("saw ")?.parse().ok();
    let numbers: Vec<u64> = lines.map(|line| number(line).expect("a number")).collect();
    (u64::from_str_radix(address, 16).expect("an address"), numbers)
}

/// What the log says of a word at one time.
#[derive(Debug, PartialEq, Eq)]
struct Patch {
    /// Whether an interval has begun since the last one: the word was zero.
    is_first: bool,
    /// Bytes that it takes, at offsets within it.
    bytes: Vec<(usize, u8)>,
}

impl Patch {
    fn apply(&self, word: u64) -> u64 {
        let mut bytes = if self.is_first { [0; 8] } else { word.to_le_bytes() };
        for &(offset, byte) in &self.bytes {
            bytes[offset] = byte;
        }
        u64::from_le_bytes(bytes)
    }
}

/// What the log says of a word since it was mapped, in order, one patch for each time.
fn logged(examined: &Examined, address: u64) -> Vec<Patch> {
    let mut patches: Vec<(u64, Patch)> = Vec::new();
    let mut is_first = true;
    let read = examined.recording.for_each_event(0, Stream::Main, |time, event| {
        match *event {
            Event::Map { start, len, .. } if (start..start + len).contains(&address) => {
                patches.clear();
                is_first = true;
            }
            Event::Interval { .. } => is_first = true,
            Event::Load { address: at, bytes } | Event::Write { address: at, bytes } => {
                let word = address..address + 8;
                let bytes = (at..).zip(bytes).filter(|(at, _)| word.contains(at));
                let bytes: Vec<_> =
                    bytes.map(|(at, &byte)| ((at - address) as usize, byte)).collect();
                if bytes.is_empty() {
                    return ControlFlow::Continue(());
                }
                match patches.last_mut().filter(|(before, _)| *before == time && !is_first) {
                    Some((_, known)) => known.bytes.extend(bytes),
                    None => patches.push((time, Patch { is_first, bytes })),
                }
                is_first = false;
            }
            _ => {}
        }
        ControlFlow::<()>::Continue(())
    });
    assert!(read.is_ok(), "{read:?}");
    patches.into_iter().map(|(_, patch)| patch).collect()
}

/// Follows a word of which the program saw these values, and left each of them changed by `step`. Wherever
/// it saw something else than it had left, the log must say so, and nowhere else.
fn check_logged(examined: &Examined, address: u64, seen: &[u64], step: u64) {
    let mut patches = logged(examined, address).into_iter().peekable();
    let mut left = 0;
    for (number, &value) in seen.iter().enumerate() {
        // At the start of an interval the log tells what has not changed, too.
        while patches.next_if(|patch| patch.is_first && patch.apply(left) == left).is_some() {}
        if value != left {
            let logged = patches.next().map(|patch| patch.apply(left));
            assert_eq!(logged, Some(value), "value {number}, after {left}");
        }
        left = value + step;
    }
    while patches.next_if(|patch| patch.is_first && patch.apply(left) == left).is_some() {}
    assert_eq!(patches.next(), None, "the log has more than the program saw");
}

#[test]
fn a_word_that_an_unrecorded_process_keeps_writing() {
    let (stdout, examined, written, _) = record_shared("watch", 3000, |shared, round| {
        shared.sequence.store(round, Ordering::Relaxed);
        pause(round % 100);
    });
    let (address, seen) = seen(&stdout);
    assert_eq!(seen.len(), 3000);
    assert!(seen.is_sorted() && seen[2999] <= written, "{seen:?}");
    check_logged(&examined, address, &seen, 0);
}

#[test]
fn words_that_an_unrecorded_process_updates_too() {
    let (stdout, examined, written, shared) = record_shared("count", 3000, |shared, round| {
        shared.counter.fetch_add(1, Ordering::Relaxed);
        shared.swapped.fetch_add(1, Ordering::Relaxed);
        pause(round % 100);
    });
    let (address, seen) = seen(&stdout);
    assert_eq!(shared.counter.load(Ordering::Relaxed), written + 3000, "an update was lost");
    assert_eq!(shared.swapped.load(Ordering::Relaxed), written + 3000, "an update was lost");
    assert!(seen.is_sorted(), "{seen:?}");
    check_logged(&examined, address, &seen, 1);
}

#[test]
fn a_block_that_an_unrecorded_process_keeps_writing() {
    let (stdout, examined, ..) = record_shared("copy", 1000, |shared, round| {
        for byte in &shared.block {
            byte.store(round as u8, Ordering::Relaxed);
        }
        pause(round % 100);
    });
    let different: std::collections::BTreeSet<_> =
        stdout.lines().filter_map(Shown::parse).map(|shown| shown.bytes).collect();
    assert!(different.len() > 20, "the block hardly changed: {}", different.len());
    check_shown(&examined, &stdout);
}

// ---- private memory that another process writes ----

#[test]
fn private_memory_that_another_process_writes() {
    let case = Case::new("remote", &[]);
    let natively = write_remotely(Command::new(case.program.get_program()));
    let recorded = write_remotely(case.command(&case.directory()));
    assert_eq!(comparable(natively.as_bytes()), comparable(recorded.as_bytes()));
    let examined = assert_complete(&case.directory(), Ending::Exited(0));
    // The first line has no memory in it, but is written as one.
    check_shown(&examined, &format!("begun\n{recorded}"));
}

/// Writes into the guest from here, and returns what it saw.
fn write_remotely(command: Command) -> String {
    let mut guest = Dialogue::start(command);
    let mut first = String::new();
    guest.output.read_line(&mut first).expect("the guest says where to write");
    let words: Vec<&str> = first.split_whitespace().collect();
    let &["pid", pid, "word", word, "buffer", buffer] = words.as_slice() else {
        panic!("the guest says {first:?}")
    };
    let address = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap();
    let (pid, word, buffer) = (pid.parse().unwrap(), address(word), address(buffer));
    let mut all = String::new();
    for number in 1u64..=20 {
        let text: Vec<u8> = (0..100).map(|i| (number * 10 + i) as u8).collect();
        write_memory(pid, buffer, &text);
        write_memory(pid, word, &number.to_le_bytes());
        for _ in 0..2 {
            guest.output.read_line(&mut all).expect("the guest answers");
        }
    }
    assert!(guest.child.wait().expect("the guest ends").success());
    all
}

fn write_memory(pid: i32, address: u64, bytes: &[u8]) {
    let local = libc::iovec { iov_base: bytes.as_ptr() as *mut _, iov_len: bytes.len() };
    let remote = libc::iovec { iov_base: address as *mut _, iov_len: bytes.len() };
    // SAFETY: reads `bytes`, and writes to another process only.
    let written = unsafe { libc::process_vm_writev(pid, &local, 1, &remote, 1, 0) };
    let error = std::io::Error::last_os_error();
    assert_eq!(written, bytes.len() as isize, "process_vm_writev: {error}");
}

// ---- files that change under mappings ----

#[test]
fn files_that_change_under_mappings() {
    let place = retro_testkit::programs::scratch::Scratch::new("mapped-file");
    let path = place.path().join("file");
    let path_text = path.to_str().expect("a path in UTF-8");
    let case = Case::new("files", &[path_text]);
    let mut native = Command::new(case.program.get_program());
    native.arg(&path);
    let natively = change_file(native, &path);
    let recorded = change_file(case.command(&case.directory()), &path);
    assert_eq!(comparable(natively.as_bytes()), comparable(recorded.as_bytes()));
    check_shown(&assert_complete(&case.directory(), Ending::Exited(0)), &recorded);
}

/// Changes the file each time the guest has looked at it, and returns what the guest saw.
fn change_file(command: Command, path: &Path) -> String {
    let contents = |round: u32| -> Vec<u8> { (0..3 * 4096).map(|i| (i + round) as u8).collect() };
    fs::write(path, contents(0)).expect("a new file");
    let file = File::options().write(true).open(path).expect("an own file");
    let mut guest = Dialogue::start(command);
    let mut all = String::new();
    let mut round = 0;
    loop {
        let before = all.len();
        guest.output.read_line(&mut all).expect("the guest answers");
        match &all[before..] {
            "next\n" => {
                round += 1;
                file.write_all_at(&contents(round), 0).expect("an own file");
                guest.input.write_all(b"go\n").expect("the guest listens");
            }
            "" => break,
            _ => {}
        }
        if round == 6 {
            break;
        }
    }
    guest.output.read_to_string(&mut all).expect("the guest ends");
    assert!(guest.child.wait().expect("the guest ends").success());
    all
}
