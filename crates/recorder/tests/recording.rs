//! The recorder with fake engines: what they said is in the recording, whoever is killed and whatever fails.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use retro_abi::channel::Stream;
use retro_abi::log::{Event, Kind};
use retro_recording::{Process, ProcessEnd, Recording, RunOutcome, State};
use tempfile::TempDir;

/// A run of the fake supervisor, with the recorder ready.
struct Run {
    supervisor: Child,
    output: BufReader<ChildStdout>,
    recorder: Pid,
    channel: PathBuf,
}

impl Run {
    fn start(directory: &Path, role: &str) -> Run {
        let mut supervisor = Command::new(env!("CARGO_BIN_EXE_fake-engine"))
            .arg("record")
            .arg(directory)
            .args(role.split(' '))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let output = BufReader::new(supervisor.stdout.take().unwrap());
        let (recorder, channel) = (Pid::from_raw(0), PathBuf::new());
        let mut run = Run { supervisor, output, recorder, channel };
        let [pid, fd] = run.line("session ").split(' ').collect::<Vec<_>>()[..].try_into().unwrap();
        run.recorder = Pid::from_raw(pid.parse().unwrap());
        run.channel = format!("/proc/{pid}/fd/{fd}").into();
        run
    }

    /// The rest of the next line, which begins so. Lives as long as the program: a test prints few.
    fn line(&mut self, start: &str) -> &'static str {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        let rest = line.trim_end().strip_prefix(start);
        rest.unwrap_or_else(|| panic!("{line:?} instead of {start:?}")).to_owned().leak()
    }

    /// Process id of a guest that says it has started.
    fn guest(&mut self) -> Pid {
        Pid::from_raw(self.line("started ").parse().unwrap())
    }

    fn outcome(&mut self) -> &'static str {
        self.line("outcome ")
    }
}

/// What the fake engine puts into event number `index`.
fn noise(index: u64) -> [u8; 8] {
    index.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()
}

/// Checks that the main stream of a log is what a fake engine says, from the start, and returns how much of it
/// is there.
fn events(recording: &Recording, log: u64) -> u64 {
    let mut count = 0;
    let visited = recording
        .for_each_event(log, Stream::Main, |time, event| {
            let expected = Event::Load { address: count, bytes: &noise(count) };
            assert_eq!((time, event), (count, &expected), "log {log}");
            count += 1;
            ControlFlow::<()>::Continue(())
        })
        .unwrap();
    assert_eq!(visited, ControlFlow::Continue(()));
    count
}

/// As [`events`], for the code stream.
fn code_events(recording: &Recording, log: u64) -> u64 {
    let mut count: u64 = 0;
    let visited = recording
        .for_each_event(log, Stream::Code, |time, event| {
            let (index, bytes) = (16 * count, (16 * count).to_le_bytes().repeat(8));
            let expected = Event::Code { address: index, bytes: &bytes };
            assert_eq!((time, event), (index, &expected), "log {log}");
            count += 1;
            ControlFlow::<()>::Continue(())
        })
        .unwrap();
    assert_eq!(visited, ControlFlow::Continue(()));
    count
}

/// How much there is of both streams, as far as it makes sense.
fn both(recording: &Recording, process: &Process) -> (u64, u64) {
    let log = process.summary.log;
    (events(recording, log), code_events(recording, log))
}

fn check_whole(recording: &Recording, process: &Process, expected: u64) {
    let summary = &process.summary;
    assert!(!process.derived);
    assert_eq!(summary.end, ProcessEnd::Exited(7));
    assert_eq!(summary.time, expected);
    assert_eq!(summary.counts.of_kind(Kind::Load).events, expected);
    assert_eq!(events(recording, summary.log), expected);
    assert_eq!(code_events(recording, summary.log), expected.div_ceil(16));
}

fn place() -> (TempDir, PathBuf) {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("recording");
    (root, directory)
}

/// Waits until the recorder has finished on its own.
fn wait_for_end(directory: &Path) -> Recording {
    let start = Instant::now();
    loop {
        let recording = Recording::open(directory).unwrap();
        if recording.state() == State::Finished {
            return recording;
        }
        assert!(start.elapsed() < Duration::from_secs(30), "the recorder does not finish");
        sleep(Duration::from_millis(10));
    }
}

/// Different delays, without a source of randomness that a failing test could not repeat.
fn delays() -> impl Iterator<Item = Duration> {
    (0..20).map(|round| Duration::from_micros(round * round * 250))
}

#[test]
fn a_log_much_longer_than_the_buffers_is_recorded_whole() {
    let (_root, directory) = place();
    let mut run = Run::start(&directory, "one 1000000");
    let outcome = run.outcome();
    assert!(outcome.contains("ending: Exited(7), fate: Finished"), "{outcome}");
    assert!(outcome.contains("instructions: 1000000"), "{outcome}");
    assert!(outcome.contains("processes: 1,") && outcome.contains("failure: None"), "{outcome}");
    let recording = Recording::open(&directory).unwrap();
    assert_eq!(recording.state(), State::Finished);
    let end = recording.end().unwrap();
    assert_eq!(end.outcome, RunOutcome::Exited(7));
    assert_eq!(end.stopped, None);
    assert!(end.wall_nanoseconds > 0);
    let [process] = recording.processes() else { panic!("{:?}", recording.processes()) };
    check_whole(&recording, process, 1_000_000);
    assert_eq!(fs::metadata(&directory).unwrap().mode() & 0o777, 0o700);
    let log = directory.join(retro_recording::LOG_NAME);
    assert_eq!(fs::metadata(log).unwrap().mode() & 0o777, 0o600);
}

#[test]
fn many_processes_at_once_have_a_log_each() {
    let (_root, directory) = place();
    let outcome = Run::start(&directory, "many 150 20000").outcome();
    assert!(outcome.contains("processes: 151, unrecorded: [0, 0, 0, 0], damaged: 0"), "{outcome}");
    let recording = Recording::open(&directory).unwrap();
    assert_eq!(recording.processes().len(), 151);
    for process in recording.processes() {
        check_whole(&recording, process, 20_000);
    }
}

#[test]
fn ended_processes_leave_no_memory_behind() {
    let (_root, directory) = place();
    let mut run = Run::start(&directory, "churn 200");
    run.line("churned");
    // The last one may not be drained yet.
    let start = Instant::now();
    loop {
        let bytes = fs::metadata(&run.channel).unwrap().blocks() * 512;
        if bytes < 2 << 20 {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(10), "{bytes} bytes are in use");
        sleep(Duration::from_millis(10));
    }
    drop(run.supervisor.stdin.take());
    let outcome = run.outcome();
    assert!(outcome.contains("processes: 200, unrecorded: [0, 0, 0, 0], damaged: 0"), "{outcome}");
    let recording = Recording::open(&directory).unwrap();
    assert_eq!(recording.processes().len(), 200);
    for process in recording.processes() {
        check_whole(&recording, process, 10_000);
    }
}

#[test]
fn everything_that_a_killed_guest_said_is_recorded() {
    for delay in delays() {
        let (_root, directory) = place();
        let mut run = Run::start(&directory, "endless");
        let guest = run.guest();
        sleep(delay);
        kill(guest, Signal::SIGKILL).unwrap();
        let outcome = run.outcome();
        assert!(outcome.contains("ending: Killed(9), fate: Finished"), "{outcome}");
        let recording = Recording::open(&directory).unwrap();
        assert_eq!(recording.state(), State::Finished);
        assert_eq!(recording.end().unwrap().outcome, RunOutcome::Signalled(9));
        let [process] = recording.processes() else { panic!("{:?}", recording.processes()) };
        assert_eq!(process.summary.end, ProcessEnd::Signalled(9));
        // It counts what it has committed, one by one.
        let (main, code) = both(&recording, process);
        let counted = process.summary.time;
        assert!(main == counted || main == counted + 1, "{main} of {counted}");
        assert!(code >= main.div_ceil(16), "{code} pieces of code for {main} events");
    }
}

#[test]
fn a_program_killed_right_after_it_replaced_another_has_replaced_it() {
    for delay in delays() {
        let (_root, directory) = place();
        let mut run = Run::start(&directory, "replaced");
        let guest = run.guest();
        sleep(delay);
        kill(guest, Signal::SIGKILL).unwrap();
        run.outcome();
        let recording = Recording::open(&directory).unwrap();
        let [before, after] = recording.processes() else { panic!("{:?}", recording.processes()) };
        assert_eq!(before.summary.end, ProcessEnd::Executed);
        assert_eq!(after.summary.end, ProcessEnd::Signalled(9));
    }
}

#[test]
fn a_guest_killed_inside_a_block_ends_no_earlier_than_its_last_event() {
    for chunk in ["open", "full"] {
        let (_root, directory) = place();
        let mut run = Run::start(&directory, &format!("ahead {chunk}"));
        let guest = run.guest();
        // The recorder has taken what it takes while the guest lives.
        sleep(Duration::from_millis(300));
        kill(guest, Signal::SIGKILL).unwrap();
        run.outcome();
        let recording = Recording::open(&directory).unwrap();
        let [process] = recording.processes() else { panic!("{:?}", recording.processes()) };
        assert_eq!(process.summary.time, 1000, "in a chunk that is {chunk}");
        assert_eq!(process.summary.counts.of_kind(Kind::SyscallExit).events, 1);
    }
}

#[test]
fn a_parent_tells_what_killed_its_child() {
    let (_root, directory) = place();
    let outcome = Run::start(&directory, "bereaved 15").outcome();
    assert!(outcome.contains("ending: Exited(0), fate: Finished"), "{outcome}");
    let recording = Recording::open(&directory).unwrap();
    let [parent, child] = recording.processes() else { panic!("{:?}", recording.processes()) };
    assert_eq!(parent.summary.end, ProcessEnd::Exited(0));
    assert_eq!(child.summary.end, ProcessEnd::Signalled(15));
}

#[test]
fn a_killed_recorder_leaves_whole_segments_and_an_undisturbed_guest() {
    let mut recorded = 0;
    for delay in delays() {
        let (_root, directory) = place();
        let mut run = Run::start(&directory, "endless");
        run.guest();
        sleep(delay);
        kill(run.recorder, Signal::SIGKILL).unwrap();
        run.line("unheard");
        drop(run.supervisor.stdin.take());
        let outcome = run.outcome();
        assert!(outcome.contains("ending: Exited(3), fate: Lost { signal: Some(9) }"), "{outcome}");
        let recording = Recording::open(&directory).unwrap();
        assert_eq!(recording.state(), State::Interrupted);
        assert_eq!(recording.end(), None);
        for process in recording.processes() {
            assert!(process.derived);
            let (main, code) = both(&recording, process);
            recorded += main;
            assert!(code >= main.div_ceil(16), "{code} pieces of code for {main} events");
        }
    }
    assert!(recorded > 0);
}

#[test]
fn guest_and_recorder_killed_together_leave_whole_segments() {
    for delay in delays() {
        let (_root, directory) = place();
        let mut run = Run::start(&directory, "endless");
        let guest = run.guest();
        sleep(delay);
        kill(guest, Signal::SIGKILL).unwrap();
        kill(run.recorder, Signal::SIGKILL).unwrap();
        let outcome = run.outcome();
        assert!(outcome.contains("ending: Killed(9), fate: "), "{outcome}");
        let recording = Recording::open(&directory).unwrap();
        for process in recording.processes() {
            let (main, code) = both(&recording, process);
            assert!(code >= main.div_ceil(16), "{code} pieces of code for {main} events");
        }
    }
}

#[test]
fn the_recorder_survives_what_a_terminal_sends_and_its_supervisor() {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGKILL] {
        let (_root, directory) = place();
        let mut run = Run::start(&directory, "endless");
        run.guest();
        sleep(Duration::from_millis(10));
        let group = Pid::from_raw(run.supervisor.id() as i32);
        killpg(group, signal).unwrap();
        assert_eq!(run.supervisor.wait().unwrap().signal(), Some(signal as i32));
        let recording = wait_for_end(&directory);
        assert_eq!(recording.end().unwrap().outcome, RunOutcome::Unknown);
        let [process] = recording.processes() else { panic!("{:?}", recording.processes()) };
        assert_eq!(process.summary.end, ProcessEnd::Unknown);
        let recorded = events(&recording, process.summary.log);
        assert!(recorded >= process.summary.time && recorded > 0);
    }
}

#[test]
fn signals_to_the_recorder_itself_are_ignored() {
    let (_root, directory) = place();
    let mut run = Run::start(&directory, "churn 3");
    run.line("churned");
    for signal in Signal::iterator().filter(|s| ![Signal::SIGKILL, Signal::SIGSTOP].contains(s)) {
        kill(run.recorder, signal).unwrap();
    }
    drop(run.supervisor.stdin.take());
    let outcome = run.outcome();
    assert!(outcome.contains("fate: Finished") && outcome.contains("processes: 3"), "{outcome}");
}

#[test]
fn short_background_work_is_waited_for() {
    let (_root, directory) = place();
    let outcome = Run::start(&directory, "background 300").outcome();
    assert!(outcome.contains("fate: Finished") && outcome.contains("processes: 2"), "{outcome}");
    assert_eq!(Recording::open(&directory).unwrap().processes().len(), 2);
}

#[test]
fn long_background_work_is_recorded_without_anybody_waiting() {
    let (_root, directory) = place();
    let mut run = Run::start(&directory, "background 6000");
    let start = Instant::now();
    let outcome = run.outcome();
    assert!(outcome.contains("ending: Exited(0), fate: Continues { processes: 1 }"), "{outcome}");
    // The recorder must not hold the pipe open, as a shell's pipeline would wait for it.
    run.output.read_to_end(&mut Vec::new()).unwrap();
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    assert_eq!(Recording::open(&directory).unwrap().state(), State::Running);
    let recording = wait_for_end(&directory);
    assert_eq!(recording.end().unwrap().outcome, RunOutcome::Exited(0));
    assert_eq!(recording.processes().len(), 2);
    assert!(recording.processes().iter().all(|p| p.summary.end == ProcessEnd::Exited(0)));
}

#[test]
fn a_guest_that_claims_nothing_or_claims_in_vain_keeps_nobody_waiting() {
    for (role, status) in [("silent 4", 4), ("abandon", 0)] {
        let (_root, directory) = place();
        let outcome = Run::start(&directory, role).outcome();
        assert!(
            outcome.contains(&format!("ending: Exited({status}), fate: Finished")),
            "{outcome}"
        );
        let recording = Recording::open(&directory).unwrap();
        assert_eq!(recording.state(), State::Finished);
        assert!(recording.processes().is_empty());
    }
}

#[test]
fn a_claim_without_a_name_is_given_up_in_the_end() {
    let (_root, directory) = place();
    let outcome = Run::start(&directory, "nameless").outcome();
    // Nobody is said to be still at work.
    assert!(outcome.contains("ending: Exited(0), fate: Finished"), "{outcome}");
    assert!(wait_for_end(&directory).processes().is_empty());
}

#[test]
fn a_child_that_begins_after_its_parent_s_end_is_waited_for() {
    let (_root, directory) = place();
    let outcome = Run::start(&directory, "late 100").outcome();
    assert!(outcome.contains("processes: 2"), "{outcome}");
    // And one that never begins is not waited for long.
    let (_root, directory) = place();
    let outcome = Run::start(&directory, "late 3000").outcome();
    assert!(outcome.contains("processes: 1"), "{outcome}");
}

#[test]
fn scribbled_headers_confuse_nobody_else() {
    for seed in 0..10 {
        let (_root, directory) = place();
        let outcome = Run::start(&directory, &format!("scribble {seed}")).outcome();
        assert!(outcome.contains("ending: Exited(0), fate: Finished"), "{outcome}");
        let recording = Recording::open(&directory).unwrap();
        assert_eq!(recording.state(), State::Finished, "{:?}", recording.damage());
    }
}

/// A file system of a few megabytes, where this may be mounted.
struct SmallDisk {
    root: TempDir,
}

impl SmallDisk {
    fn mount() -> Option<SmallDisk> {
        let root = tempfile::tempdir().unwrap();
        let mounted: Option<ExitStatus> = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=4m", "none"])
            .arg(root.path())
            .stderr(Stdio::null())
            .status()
            .ok();
        mounted.is_some_and(|status| status.success()).then_some(SmallDisk { root })
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.root.path()).status();
    }
}

#[test]
fn a_full_disk_ends_the_recording_and_not_the_guest() {
    let Some(disk) = SmallDisk::mount() else {
        eprintln!("SKIPPED: mounting a small tmpfs needs root");
        return;
    };
    let directory = disk.root.path().join("recording");
    let mut run = Run::start(&directory, "fill");
    run.line("closed 1");
    let outcome = run.outcome();
    assert!(outcome.contains("ending: Exited(9), fate: Finished"), "{outcome}");
    assert!(outcome.contains("No space left on device"), "{outcome}");
    let recording = Recording::open(&directory).unwrap();
    assert_eq!(recording.state(), State::Finished, "{:?}", recording.damage());
    let end = recording.end().unwrap();
    assert_eq!(end.outcome, RunOutcome::Exited(9));
    assert!(end.stopped.as_ref().unwrap().contains("No space left"), "{end:?}");
    let [process] = recording.processes() else { panic!("{:?}", recording.processes()) };
    assert_eq!(process.summary.end, ProcessEnd::Stopped);
    assert!(events(&recording, process.summary.log) > 100_000);
}

fn refusal(directory: &Path) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_fake-engine"))
        .arg("record")
        .arg(directory)
        .args(["one", "1"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.strip_prefix("error ").unwrap_or_else(|| panic!("{text:?}")).to_owned()
}

#[test]
fn a_directory_that_cannot_be_used_is_refused_before_the_guest_starts() {
    let (root, directory) = place();
    fs::create_dir(&directory).unwrap();
    File::create(directory.join("log")).unwrap();
    assert!(refusal(&directory).contains("is not empty"));
    assert!(directory.join("log").exists());
    let in_a_file = directory.join("log").join("recording");
    assert!(refusal(&in_a_file).contains("Not a directory"));
    assert!(refusal(&root.path().join("no/such")).contains("No such file or directory"));
}

#[test]
fn a_guest_that_cannot_be_started_leaves_nothing() {
    let (_root, directory) = place();
    assert_eq!(Run::start(&directory, "fail").line("launch failed: "), "told to fail");
    assert!(!directory.exists());
    fs::create_dir(&directory).unwrap();
    assert_eq!(Run::start(&directory, "fail").line("launch failed: "), "told to fail");
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
}

/// A slot that is said to belong to a process that never ends does not keep the recorder.
#[test]
fn nobody_is_waited_for_who_is_not_recorded() {
    for whose in ["recorder", "supervisor", "init"] {
        let (_root, directory) = place();
        let outcome = Run::start(&directory, &format!("pretend {whose}")).outcome();
        assert!(outcome.contains("ending: Exited(7), fate: Finished"), "{whose}: {outcome}");
        assert_eq!(wait_for_end(&directory).state(), State::Finished, "{whose}");
    }
}

/// The same of one that began later; that it is a stranger is found out when the run is over.
#[test]
fn a_stranger_is_not_waited_for_long() {
    let (_root, directory) = place();
    let mut run = Run::start(&directory, "pretend stranger");
    let stranger = run.guest();
    let outcome = run.outcome();
    assert!(outcome.contains("ending: Exited(7), fate: Continues"), "{outcome}");
    let recording = wait_for_end(&directory);
    assert_eq!(kill(stranger, None), Ok(()), "it is still there, and was not harmed");
    kill(stranger, Signal::SIGKILL).unwrap();
    assert_eq!(recording.state(), State::Finished);
}

/// A log that somebody else writes, or will write, is not added to.
#[test]
fn the_log_of_another_process_is_not_written_to() {
    let (_root, directory) = place();
    let outcome = Run::start(&directory, "forge 0").outcome();
    assert!(outcome.contains("damaged: 1"), "{outcome}");
    let recording = wait_for_end(&directory);
    let [process] = recording.processes() else { panic!("{:?}", recording.processes()) };
    assert_eq!(events(&recording, process.summary.log), 100);
}
