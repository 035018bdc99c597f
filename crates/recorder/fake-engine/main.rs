//! Stands in for `retro record` and for engines, so that the recorder can be tested without either.
//!
//! ```text
//! fake-engine record DIRECTORY ROLE ARGUMENT...   records `fake-engine guest PID/FD ROLE ARGUMENT...`
//! ```
//!
//! `record` prints `session PID FD` when the recorder is ready and `outcome ...` at the end. The roles of
//! guests are the functions of this file.

mod log;

use std::env;
use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Command, exit};
use std::sync::atomic::Ordering;
use std::time::Duration;

use log::{Channel, Log, Stopped};
use nix::sys::wait::wait;
use nix::unistd::{ForkResult, fork, setsid};
use retro_abi::channel::{Origin, Stream, ended, slot_state};
use retro_abi::log::Event;
use retro_recorder::{Ending, Error, Options, record};
use retro_recording::{DEFAULT_LEVEL, Head};

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["record", directory, role @ ..] => supervise(directory, role),
        ["guest", place, "one", events] => one(place, number(events)),
        ["guest", place, "many", processes, events] => {
            many(place, number(processes), number(events));
        }
        ["guest", place, "endless"] => endless(place),
        ["guest", place, "background", milliseconds] => background(place, number(milliseconds)),
        ["guest", place, "scribble", seed] => scribble(place, number(seed)),
        ["guest", place, "abandon"] => abandon(place),
        ["guest", place, "nameless"] => nameless(place),
        ["guest", place, "pretend", whose] => pretend(place, whose),
        ["guest", place, "forge", log] => forge(place, number(log)),
        ["guest", place, "late", milliseconds] => late(place, number(milliseconds)),
        ["guest", place, "fill"] => fill(place),
        ["guest", place, "bereaved", signal] => bereaved(place, number(signal)),
        ["guest", place, "replaced"] => replaced(place),
        ["guest", place, "ahead", chunk] => ahead(place, chunk == &"full"),
        ["guest", _, "silent", status] => exit(number(status) as i32),
        ["guest", place, "churn", processes] => churn(place, number(processes)),
        _ => panic!("unknown arguments {arguments:?}"),
    }
}

fn number(text: &str) -> u64 {
    text.parse().expect("a number")
}

fn supervise(directory: &str, role: &[&str]) {
    let options = Options {
        directory: PathBuf::from(directory),
        head: Head { command: role.iter().map(Into::into).collect(), ..Head::default() },
        level: DEFAULT_LEVEL,
    };
    let result = record(&options, |session| {
        let place = format!("{}/{}", session.channel.pid, session.channel.fd);
        println!("session {} {}", session.channel.pid, session.channel.fd);
        if role == ["fail"] {
            return Err("told to fail");
        }
        let mut guest = Command::new("/proc/self/exe");
        guest.arg0("fake-engine").arg("guest").arg(place).args(role);
        let status = guest.status().map_err(|_| "cannot start the guest")?;
        Ok(match (status.code(), status.signal()) {
            (Some(status), _) => Ending::Exited(status),
            (None, signal) => Ending::Killed(signal.unwrap_or(0)),
        })
    });
    match result {
        Ok(outcome) => println!("outcome {outcome:?}"),
        Err(error @ Error::Launch(_)) => println!("launch failed: {error}"),
        Err(error) => println!("error {error}"),
    }
}

/// One process: says so many things, with code in between, and exits with 7.
fn one(place: &str, events: u64) {
    let channel = Channel::open(place);
    say(&channel, Origin::First, events);
    exit(7)
}

fn say(channel: &Channel, origin: Origin, events: u64) {
    let Some(mut log) = channel.begin(origin) else { return };
    match (0..events).try_for_each(|index| say_one(&mut log, index)) {
        Ok(()) => log.end(ended::EXITED, 7),
        Err(Stopped) => log.end(ended::STOPPED, 0),
    }
}

/// Event number `index`, after the code that it may be about.
fn say_one(log: &mut Log, index: u64) -> Result<(), Stopped> {
    if index.is_multiple_of(16) {
        let bytes = index.to_le_bytes().repeat(8);
        log.event(Stream::Code, &Event::Code { address: index, bytes: &bytes })?;
    }
    // Bytes that do not compress well, so that the recording grows.
    let noise = index.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
    log.event(Stream::Main, &Event::Load { address: index, bytes: &noise })
}

/// Many processes at once.
fn many(place: &str, processes: u64, events: u64) {
    let channel = Channel::open(place);
    for _ in 0..processes {
        // SAFETY: this process has one thread.
        if let ForkResult::Child = unsafe { fork() }.unwrap() {
            say(&channel, Origin::Fork, events);
            exit(0)
        }
    }
    say(&channel, Origin::First, events);
    while wait().is_ok() {}
}

/// Writes until it is killed, or until nobody listens: then it says so and waits for its standard input to end.
fn endless(place: &str) {
    let channel = Channel::open(place);
    let mut log = channel.begin(Origin::First).unwrap();
    println!("started {}", std::process::id());
    for index in 0.. {
        if let Err(Stopped) = say_one(&mut log, index) {
            break;
        }
        // A pause lets the recorder catch up at times, so that it is killed while it waits, too.
        if index % 50_000 == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    println!("unheard");
    let _ = std::io::stdin().read(&mut [0]);
    exit(3)
}

/// Ends at once, and leaves a process behind that goes on for a while.
fn background(place: &str, milliseconds: u64) {
    let channel = Channel::open(place);
    let first = channel.begin(Origin::First).unwrap();
    // Claimed before the fork, so that the recorder knows of the child before its parent can end.
    let memory = channel.claim().unwrap();
    // SAFETY: this process has one thread.
    if let ForkResult::Child = unsafe { fork() }.unwrap() {
        setsid().unwrap();
        let mut log = channel.begin_in(memory, Origin::Fork);
        // Nobody who waits for the pipes of the first process should wait for this one.
        for standard in 0..3 {
            // SAFETY: nothing uses the standard descriptors any more.
            unsafe { libc::close(standard) };
        }
        std::thread::sleep(Duration::from_millis(milliseconds));
        log.event(Stream::Main, &Event::SyscallExit { result: 1 }).unwrap();
        log.end(ended::EXITED, 0);
        exit(0)
    }
    first.end(ended::EXITED, 0);
}

/// Writes something, then garbage over its own header.
fn scribble(place: &str, seed: u64) {
    let channel = Channel::open(place);
    let mut log = channel.begin(Origin::First).unwrap();
    log.event(Stream::Main, &Event::SyscallExit { result: 1 }).unwrap();
    for round in 0..20 {
        log.memory().scribble(seed.wrapping_mul(1000) + round);
        channel.ring();
        std::thread::sleep(Duration::from_millis(1));
    }
    // And slots that nobody claimed, of which some look ended.
    for round in 0..20 {
        if let Some(memory) = channel.claim() {
            memory.scribble(seed.wrapping_mul(77) + round);
            memory.header().state.store((round % 5) as u32, Ordering::SeqCst);
            channel.ring();
        }
    }
}

/// Claims a slot and ends without ever using it.
fn abandon(place: &str) {
    let channel = Channel::open(place);
    channel.claim().unwrap();
    channel.ring();
}

/// Claims a slot and ends before it has said who it is.
fn nameless(place: &str) {
    let channel = Channel::open(place);
    channel.claim().unwrap().header().pid.store(0, Ordering::SeqCst);
    channel.ring();
}

/// Leaves a slot behind that is said to be another process's, which lives on: the recorder's, its own parent's (the
/// supervisor), the first of the system, or that of a program that it starts and that has nothing to do with recording.
fn pretend(place: &str, whose: &str) {
    let channel = Channel::open(place);
    let first = channel.begin(Origin::First).unwrap();
    let pid = match whose {
        "recorder" => number(place.split('/').next().unwrap()) as i32,
        "supervisor" => nix::unistd::getppid().as_raw(),
        "init" => 1,
        _ => {
            let mut stranger = Command::new("sleep");
            // Nobody who waits for the pipes of this process should wait for that one.
            let none = std::process::Stdio::null;
            stranger.arg("60").stdin(none()).stdout(none()).stderr(none());
            let pid = stranger.spawn().unwrap().id();
            println!("started {pid}");
            pid as i32
        }
    };
    let memory = channel.claim().unwrap();
    let header = memory.header();
    header.pid.store(pid, Ordering::SeqCst);
    header.log.store(channel.control().next_log.fetch_add(1, Ordering::SeqCst), Ordering::SeqCst);
    header.origin.store(Origin::Fork as u32, Ordering::SeqCst);
    header.state.store(slot_state::LIVE, Ordering::SeqCst);
    channel.ring();
    first.end(ended::EXITED, 0);
    exit(7)
}

/// Says that its log is another one, which has been written already or will be.
fn forge(place: &str, log: u64) {
    let channel = Channel::open(place);
    say(&channel, Origin::First, 100);
    let memory = channel.claim().unwrap();
    let mut forged = channel.begin_as(memory, Origin::Fork, log);
    let _ = forged.event(Stream::Main, &Event::SyscallExit { result: 666 });
    forged.end(ended::EXITED, 1);
    exit(7)
}

/// Makes a child, for which it takes the number of a log, and ends before the child has claimed a slot.
fn late(place: &str, milliseconds: u64) {
    let channel = Channel::open(place);
    let first = channel.begin(Origin::First).unwrap();
    let log = channel.control().next_log.fetch_add(1, Ordering::SeqCst);
    // SAFETY: this process has one thread.
    if let ForkResult::Child = unsafe { fork() }.unwrap() {
        std::thread::sleep(Duration::from_millis(milliseconds));
        if let Some(memory) = channel.claim() {
            channel.begin_as(memory, Origin::Fork, log).end(ended::EXITED, 0);
        }
        exit(0)
    }
    first.end(ended::EXITED, 0);
}

/// Is told after a while which signal has killed a child, of which nobody else knows anything.
fn bereaved(place: &str, signal: u64) {
    /// No process has so large a number.
    const CHILD: i32 = i32::MAX;
    let channel = Channel::open(place);
    let parent = channel.begin(Origin::First).unwrap();
    let number = channel.control().next_log.fetch_add(1, Ordering::SeqCst);
    let child = channel.begin_of(CHILD, channel.claim().unwrap(), Origin::Fork, number);
    std::thread::sleep(Duration::from_millis(300));
    let header = parent.memory().header();
    header.reaped[0].store((CHILD as u64) << 32 | signal, Ordering::Relaxed);
    header.reaped_count.store(1, Ordering::Release);
    channel.ring();
    std::thread::sleep(Duration::from_millis(300));
    drop(child);
    parent.end(ended::EXITED, 0);
}

/// Begins the log of a program that it has executed, and has no time to end that of the program before.
fn replaced(place: &str) {
    let channel = Channel::open(place);
    let _before = channel.begin(Origin::First).unwrap();
    let _after = channel.begin(Origin::Exec).unwrap();
    wait_for_the_end();
}

/// Logs something in the middle of a block, at 1000, that the clock counts later.
fn ahead(place: &str, fills_chunk: bool) {
    let channel = Channel::open(place);
    let mut log = channel.begin(Origin::First).unwrap();
    log.memory().header().clock.store(1000, Ordering::Relaxed);
    log.event(Stream::Main, &Event::SyscallExit { result: 1 }).unwrap();
    log.memory().header().clock.store(990, Ordering::Relaxed);
    if fills_chunk {
        log.publish(Stream::Main);
    }
    wait_for_the_end();
}

fn wait_for_the_end() {
    println!("started {}", std::process::id());
    std::thread::sleep(Duration::from_secs(60));
}

/// Writes far more than a small disk holds, and goes on when told that recording has stopped.
fn fill(place: &str) {
    let channel = Channel::open(place);
    say(&channel, Origin::First, 4_000_000);
    let closed = channel.control().closed.load(Ordering::SeqCst);
    std::io::stdout().write_all(format!("closed {closed}\n").as_bytes()).unwrap();
    exit(9)
}

/// Begins and ends log after log, each of a part of a chunk, then waits for its standard input to end.
fn churn(place: &str, logs: u64) {
    let channel = Channel::open(place);
    say(&channel, Origin::First, 10_000);
    for _ in 1..logs {
        say(&channel, Origin::Fork, 10_000);
    }
    println!("churned");
    let _ = std::io::stdin().read(&mut [0]);
}
