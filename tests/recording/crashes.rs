//! However a program ends by itself, its end is told truthfully and its log reaches to its last instruction.

use std::ops::ControlFlow;
use std::path::Path;

use retro_abi::channel::Stream;
use retro_abi::log::Event;
use retro_testkit::compare::{Ending, assert_same};
use retro_testkit::recordings::{Examined, assert_complete};

use super::Case;

/// Instructions of one round of the guest's loop.
const ROUND: u64 = 2;

/// Records the guest with two numbers of rounds. Everything after its last marked system call takes as long
/// as before but for the rounds, so that the log's final time tells each of them, to the instruction.
fn check(how: &str, ending: Ending) {
    const ROUNDS: [u64; 2] = [1_000, 2_345_678];
    let instructions = ROUNDS.map(|rounds| {
        let mut case = Case::new("ends", &[how, &rounds.to_string()]);
        let native = case.native();
        assert_eq!(native.status, ending, "the guest itself");
        assert_same(&native, &case.record());
        let examined = assert_complete(&case.directory(), ending);
        check_last_event(&examined, ending);
        let summary = &examined.recording.process(0).expect("the program's log").summary;
        summary.time - marked_time(&case.directory())
    });
    assert_eq!(
        instructions[1] - instructions[0],
        ROUND * (ROUNDS[1] - ROUNDS[0]),
        "instructions between the last mark and the end, for each number of rounds: {instructions:?}"
    );
}

/// A fault that ends the process is in the log, and whoever ends by itself says so.
fn check_last_event(examined: &Examined, ending: Ending) {
    let story = examined.story(0);
    let says_so = match ending {
        Ending::Exited(_) => true,
        Ending::Signaled(signal) => [libc::SIGSEGV, libc::SIGILL, libc::SIGFPE].contains(&signal),
        Ending::TimedOut => false,
    };
    assert_eq!(story.end.is_some(), says_so, "whether the log has an end");
}

/// When the guest made the system call that nothing else in it makes.
fn marked_time(directory: &Path) -> u64 {
    let recording = retro_recording::Recording::open(directory).expect("a recording");
    let found = recording.for_each_event(0, Stream::Main, |time, event| match event {
        Event::SyscallEnter { number, .. } if *number == libc::SYS_getsid as u64 => {
            ControlFlow::Break(time)
        }
        _ => ControlFlow::Continue(()),
    });
    match found.expect("a sound log") {
        ControlFlow::Break(time) => time,
        ControlFlow::Continue(()) => panic!("the mark is not in the log"),
    }
}

macro_rules! endings {
    ($($name:ident: $ending:expr,)*) => {
        $(#[test]
        fn $name() {
            check(stringify!($name), $ending);
        })*
    };
}

endings! {
    exit: Ending::Exited(7),
    segv: Ending::Signaled(libc::SIGSEGV),
    overflow: Ending::Signaled(libc::SIGSEGV),
    undefined: Ending::Signaled(libc::SIGILL),
    divide: Ending::Signaled(libc::SIGFPE),
    abort: Ending::Signaled(libc::SIGABRT),
    term: Ending::Signaled(libc::SIGTERM),
    kill: Ending::Signaled(libc::SIGKILL),
    thread_exits: Ending::Exited(3),
    thread_exits_last: Ending::Exited(9),
    thread_exits_group: Ending::Exited(5),
    thread_segv: Ending::Signaled(libc::SIGSEGV),
    thread_abort: Ending::Signaled(libc::SIGABRT),
}
