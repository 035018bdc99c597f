//! `kill -9` at random moments: of the recorder, of the program, of both, of `retro record` itself.
//!
//! Moments come from seeds, which a failing test shows; `RETRO_KILL_SEED=7` tries only that one.

use std::time::{Duration, Instant};

use retro_abi::channel::Stream;
use retro_abi::log::Event;
use retro_recording::{Error, Flaw, ProcessEnd, Recording, RunOutcome, State};
use retro_testkit::compare::{Ending, Outcome};
use retro_testkit::programs::scratch::Scratch;
use retro_testkit::recordings::{self, Examined};
use std::ops::ControlFlow;
use std::os::unix::process::ExitStatusExt;

use super::{Case, Live, Part, signal};

const ROUNDS: &str = "600";
const STATUS: i32 = 7;

/// A moment for each seed, evenly spread over `0..1` as seeds go on.
fn moments(count: u64) -> Vec<(u64, f64)> {
    let seeds = match std::env::var("RETRO_KILL_SEED") {
        Ok(seed) => {
            let seed: u64 = seed.parse().expect("RETRO_KILL_SEED is a number");
            seed..seed + 1
        }
        Err(_) => 0..count,
    };
    // The golden ratio's multiples fill an interval evenly, however many are taken.
    seeds.map(|seed| (seed, (seed as f64 * 0.618_033_988_749_895).fract())).collect()
}

/// What is killed at random moments.
struct Victim {
    case: Case,
    native: Outcome,
    /// How long a recorded run takes.
    duration: Duration,
}

impl Victim {
    fn new() -> Victim {
        Victim::of(Case::new("busy", &[ROUNDS, &STATUS.to_string()]))
    }

    fn of(mut case: Case) -> Victim {
        let native = case.native();
        assert_eq!(native.status, Ending::Exited(STATUS), "the guest itself");
        let started = Instant::now();
        assert_eq!(case.record(), native);
        Victim { case, native, duration: started.elapsed() }
    }

    /// Starts a run and waits for a moment of it, given as a part of its duration.
    fn run_until(&mut self, moment: f64) -> Live {
        self.case.recordings = Scratch::new("kills");
        let started = Instant::now();
        let live = self.case.start();
        std::thread::sleep(self.duration.mul_f64(moment).saturating_sub(started.elapsed()));
        live
    }

    /// The recording, however much of it there is; none if its recorder did not get to make one.
    fn examine(&self) -> Option<Examined> {
        let directory = self.case.directory();
        match Recording::open(&directory) {
            Ok(_) => {}
            Err(Error::NotARecording { .. }) => return None,
            Err(error) => panic!("{error}"),
        }
        let recording = recordings::wait_for(&directory, Duration::from_secs(20));
        if let Some(damage) = recording.damage() {
            assert_eq!(damage.flaw, Flaw::CutShort, "{damage}");
        }
        let examined = recordings::examine(recording);
        examined.assert_sound();
        Some(examined)
    }
}

/// Runs `check` for each seed, saying which one failed.
fn for_each_moment(count: u64, mut check: impl FnMut(f64)) {
    for (seed, moment) in moments(count) {
        eprintln!("RETRO_KILL_SEED={seed}: at {moment:.3} of the run");
        check(moment);
    }
}

#[test]
fn a_program_outlives_its_recorder() {
    let recorded_something = check_without_recorder(Victim::new(), 50);
    // A few kills must have been late enough for the recording to have something in it.
    if std::env::var_os("RETRO_KILL_SEED").is_none() {
        assert!(recorded_something >= 10, "only {recorded_something} recordings have contents");
    }
}

#[test]
fn a_tree_of_processes_outlives_its_recorder() {
    let script =
        "i=0; while [ $i -lt 20 ]; do i=$((i + 1)); /bin/echo $i; (exit $i); echo $?; done; exit 7";
    check_without_recorder(Victim::of(Case::script(script)), 20);
}

/// Kills the recorder at so many moments; says how often there was something in the recording.
fn check_without_recorder(mut victim: Victim, count: u64) -> u32 {
    let mut recorded_something = 0;
    for_each_moment(count, |moment| {
        let mut live = victim.run_until(moment);
        let killed = live.pid_of(Part::Recorder);
        if let Some(recorder) = killed {
            signal(recorder, libc::SIGKILL);
        }
        let status = live.wait();
        let (stdout, stderr) = (live.stdout(), live.stderr());
        if status.code() == Some(125) && was_not_started(&stderr) {
            assert_eq!(stdout, "", "the program ran after all");
            return;
        }
        assert_eq!(status.code(), Some(STATUS), "{stderr}");
        assert_eq!(stdout.as_bytes(), victim.native.stdout, "{stderr}");
        let examined = victim.examine().expect("a recording of a program that ran");
        let finished = examined.recording.state() == State::Finished;
        let lost = stderr.contains("the recorder") && stderr.contains("holds what it had written");
        // Between writing the end and reporting it, both may be the case.
        assert!(finished || lost, "nobody said that the recorder is gone: {stderr:?}");
        assert!(finished || killed.is_some(), "a recorder that was left alone did not finish");
        recorded_something += u32::from(examined.recording.segments(0, Stream::Main).len() > 1);
    });
    recorded_something
}

/// Whether `retro` said that it was too early for a program: there was no recorder to record it.
fn was_not_started(stderr: &str) -> bool {
    stderr.contains("killed before the program started") || stderr.contains("cannot record")
}

#[test]
fn a_killed_program_is_recorded_to_its_last_word() {
    let mut victim = Victim::new();
    for_each_moment(15, |moment| {
        let mut live = victim.run_until(moment);
        let Some(program) = live.pid_of(Part::Program) else {
            live.wait();
            return;
        };
        signal(program, libc::SIGKILL);
        let status = live.wait();
        let stderr = live.stderr();
        if status.code() == Some(STATUS) {
            // Killed after its end.
            assert_eq!(live.stdout().as_bytes(), victim.native.stdout);
            return;
        }
        assert_eq!(status.signal(), Some(libc::SIGKILL), "{stderr}");
        let Some(examined) = victim.examine() else {
            // Killed before the engine was there, so that there was nothing to record.
            assert_eq!(live.stdout(), "");
            return;
        };
        let end = examined.recording.end().expect("the recorder was left alone");
        assert_eq!(end.outcome, RunOutcome::Signalled(libc::SIGKILL as u32));
        let Some(process) = examined.recording.process(0) else {
            assert_eq!(live.stdout(), "");
            return;
        };
        let told = process.summary.end;
        let says_that_it_exits = told == ProcessEnd::Exited(STATUS as u32);
        assert!(
            says_that_it_exits || told == ProcessEnd::Signalled(libc::SIGKILL as u32),
            "{told:?}"
        );
        check_last_word(&examined, &live.stdout());
    });
}

/// Everything that came out of the program is in its log, and at most one more line, which did not come out.
fn check_last_word(examined: &Examined, stdout: &str) {
    let mut writes = 0;
    let read = examined.recording.for_each_event(0, Stream::Main, |_, event| {
        if let Event::SyscallEnter { number, args, .. } = event
            && *number == libc::SYS_write as u64
            && args[0] == 1
        {
            writes += 1;
        }
        ControlFlow::<()>::Continue(())
    });
    assert!(read.is_ok(), "{read:?}");
    let lines = stdout.lines().count();
    assert!(
        (lines..=lines + 1).contains(&writes),
        "{lines} lines came out, and {writes} writes are in the log"
    );
}

#[test]
fn a_recording_survives_the_death_of_both() {
    let mut victim = Victim::new();
    for_each_moment(15, |moment| {
        let mut live = victim.run_until(moment);
        let parts = [Part::Recorder, Part::Program].map(|part| live.pid_of(part));
        parts.into_iter().flatten().for_each(|pid| signal(pid, libc::SIGKILL));
        let status = live.wait();
        let stderr = live.stderr();
        let is_truth = match (status.code(), status.signal()) {
            (Some(STATUS), _) => live.stdout().as_bytes() == victim.native.stdout,
            (Some(125), _) => was_not_started(&stderr),
            (_, signal) => signal == Some(libc::SIGKILL),
        };
        assert!(is_truth, "{status}, {stderr}");
        victim.examine();
    });
}

#[test]
fn a_recording_is_finished_without_its_supervisor() {
    let mut victim = Victim::new();
    for_each_moment(15, |moment| {
        let mut live = victim.run_until(moment);
        let program = live.pid_of(Part::Program);
        live.child.kill().expect("it is there to be killed");
        let status = live.wait();
        if status.signal() != Some(libc::SIGKILL) {
            assert_eq!(status.code(), Some(STATUS), "{}", live.stderr());
            return;
        }
        if let Some(program) = program {
            wait_for_end(program);
        }
        let Some(examined) = victim.examine() else { return };
        assert_eq!(examined.recording.state(), State::Finished, "the recorder was left alone");
        if examined.recording.process(0).is_some() {
            check_last_word(&examined, &live.stdout());
        }
    });
}

/// The program dies with `retro record`: nobody would wait for it any more.
fn wait_for_end(program: u32) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while std::fs::read_to_string(format!("/proc/{program}/stat"))
        .is_ok_and(|stat| !stat.contains(") Z "))
    {
        assert!(Instant::now() < deadline, "the program {program} is still there");
        std::thread::sleep(Duration::from_millis(2));
    }
}
