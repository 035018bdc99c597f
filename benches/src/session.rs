//! Runs the selected programs in all modes, interleaved.
//!
//! One native run per program comes first and is not counted: it fills the page cache and gives the
//! answer that every later run, native ones included, must repeat. If a mode replays, a recording is made for it, not
//! counted either. Then round by round each mode runs once. A mode that fails on a program is not tried on it
//! again, so that a figure never mixes good runs and bad. One that takes long is not run again either: its figure is hardly
//! disturbed by what else the machine does, and a session would take hours. Going to random times comes last, once: it is
//! repetition in itself.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::machine::Machine;
use crate::measure::{self, Answer, Run, Sample};
use crate::modes::{Launcher, Mode};
use crate::options::Options;
use crate::programs::{Group, Program};
use crate::queries::{self, Answers};
use crate::recording::{self, LogSize};
use crate::replaying;
use crate::report::{AnswersReport, GeometricMean, Outcome, ProgramReport, Report};
use crate::table;
use crate::workdir::WorkDirectory;

/// Progress goes to standard error, a line per program.
pub fn run(options: &Options) -> Result<Report> {
    let launcher = Launcher::new(&options.modes, options.retro.as_deref())?;
    let selected = options.selected_programs();
    if selected.is_empty() {
        bail!("no program has both a name in --only and a group in --group");
    }
    let directory = WorkDirectory::create()?;
    let mut programs = Vec::new();
    let mut not_installed = BTreeMap::new();
    for program in selected {
        if let Some(tool) = program.missing_tool() {
            eprintln!("{:12} left out: {tool} is not installed", program.name);
            not_installed.insert(program.name, tool);
            continue;
        }
        let report = run_program(program, &launcher, options, directory.path())?;
        eprintln!("{}", progress(&report));
        programs.push(report);
    }

    let modes = launcher.modes().to_vec();
    let means = [
        GeometricMean::over("the eight", Group::Cpu, &programs, &modes, |program| program.headline),
        GeometricMean::over("all cpu", Group::Cpu, &programs, &modes, |_| true),
        GeometricMean::over("short", Group::Short, &programs, &modes, |_| true),
    ];
    Ok(Report {
        command_line: command_line(),
        machine: Machine::describe(),
        modes,
        runs: options.runs,
        cold_runs: options.cold_runs,
        programs,
        not_installed,
        geometric_means: means.into_iter().flatten().collect(),
    })
}

fn run_program(
    program: &Program,
    launcher: &Launcher,
    options: &Options,
    directory: &Path,
) -> Result<ProgramReport> {
    for input in program.inputs {
        input.make(directory)?;
    }
    let scratch = directory.join(format!("{}.scratch", program.name));
    fs::create_dir(&scratch)?;
    let guest = program.guest(directory);
    let timeout = options.timeout();
    let reference = measure::run(&guest, directory, timeout)?.with_context(|| {
        format!("{} takes longer than {} s natively", program.name, options.timeout)
    })?;
    if !reference.answer.status.success() {
        bail!(
            "{} fails natively: {}{}",
            program.name,
            reference.answer.status,
            last_lines(&reference.stderr)
        );
    }
    let candidate =
        Candidate { launcher, directory, scratch, guest, answer: reference.answer, timeout };

    let recorded = candidate.record_for_replays(program)?;
    let outcomes = candidate.run_rounds(options.rounds(program.group), recorded.as_ref())?;
    let mut report = ProgramReport::new(program, outcomes);
    if let Some(recorded) = &recorded
        && candidate.is_queried(program)
    {
        report.answers = Some(match recorded {
            Ok(_) => candidate.ask(options.questions)?.into(),
            Err(reason) => Err(reason.clone()).into(),
        });
    }
    fs::remove_dir_all(&candidate.scratch)?;
    Ok(report)
}

/// A program that can be run in every mode.
struct Candidate<'a> {
    launcher: &'a Launcher,
    directory: &'a Path,
    scratch: PathBuf,
    guest: Vec<OsString>,
    /// What it gave natively.
    answer: Answer,
    timeout: Duration,
}

/// What a run must give to be counted.
#[derive(Clone, Copy)]
enum Expected<'a> {
    /// Native's answer.
    Answer(&'a Answer),
    /// A replay of so many instructions.
    Instructions(u64),
}

/// The inner error is the program's failure in a mode, the outer one the benchmark's own.
type Attempt<T> = Result<Result<T, String>>;

impl Candidate<'_> {
    fn timed_modes(&self) -> impl Iterator<Item = Mode> + '_ {
        self.launcher.modes().iter().copied().filter(|mode| mode.is_timed())
    }

    fn is_queried(&self, program: &Program) -> bool {
        program.is_queried() && self.launcher.modes().contains(&Mode::Query)
    }

    /// Makes the recording that all modes use that replay; nothing if there is no such mode.
    fn record_for_replays(&self, program: &Program) -> Result<Option<Result<LogSize, String>>> {
        if !self.timed_modes().any(Mode::replays) && !self.is_queried(program) {
            return Ok(None);
        }
        let kept = recording::kept(&self.scratch);
        fs::create_dir(&kept)?;
        let words = self.launcher.command(Mode::Record, &self.guest, &kept);
        let recorded = self.run_once(&words, Expected::Answer(&self.answer))?;
        let size = recorded.and_then(|_| self.log_size(&recording::place(&kept)));
        Ok(Some(size.map_err(|reason| format!("could not be recorded: {reason}"))))
    }

    fn run_rounds(
        &self,
        rounds: u32,
        recorded: Option<&Result<LogSize, String>>,
    ) -> Result<BTreeMap<Mode, Outcome>> {
        let mut outcomes = BTreeMap::new();
        let mut runs = Vec::new();
        for mode in self.timed_modes() {
            let expected = match recorded.filter(|_| mode.replays()) {
                None => Expected::Answer(&self.answer),
                Some(Ok(size)) => Expected::Instructions(size.instructions),
                Some(Err(reason)) => {
                    outcomes.insert(mode, Err(reason.clone()));
                    continue;
                }
            };
            outcomes.insert(mode, Ok(Vec::new()));
            runs.push((mode, self.launcher.command(mode, &self.guest, &self.scratch), expected));
        }
        for _ in 0..rounds {
            for (mode, words, expected) in &runs {
                let Some(Ok(samples)) = outcomes.get_mut(mode) else { continue };
                if samples.last().is_some_and(Sample::is_long) {
                    continue;
                }
                match self.measure_once(*mode, words, *expected)? {
                    Ok(sample) => samples.push(sample),
                    Err(reason) => {
                        outcomes.insert(*mode, Err(reason));
                    }
                }
            }
        }
        Ok(outcomes)
    }

    /// One run, and the size of the log if it has left one.
    fn measure_once(
        &self,
        mode: Mode,
        words: &[OsString],
        expected: Expected<'_>,
    ) -> Attempt<Sample> {
        let outcome = self.run_once(words, expected)?.map(|run| run.sample);
        if let (Mode::Index, Expected::Instructions(instructions)) = (mode, expected) {
            let bytes = recording::index_size(&recording::kept(&self.scratch));
            let size = LogSize { bytes, instructions };
            return Ok(outcome.map(|sample| Sample { log: Some(size), ..sample }));
        }
        if !mode.records() {
            return Ok(outcome);
        }
        let path = recording::place(&self.scratch);
        let outcome =
            outcome.and_then(|sample| Ok(Sample { log: Some(self.log_size(&path)?), ..sample }));
        recording::remove(&path)?;
        Ok(outcome)
    }

    fn ask(&self, questions: u32) -> Attempt<Answers> {
        let mut words = self.launcher.command(Mode::Query, &self.guest, &self.scratch);
        words.push(format!("--questions={questions}").into());
        let Some(run) = measure::run(&words, self.directory, self.timeout)? else {
            return Ok(Err(self.no_end()));
        };
        if !run.answer.status.success() {
            return Ok(Err(format!("{}{}", run.answer.status, last_lines(&run.stderr))));
        }
        Ok(queries::parse(&run.answer.stdout))
    }

    fn run_once(&self, words: &[OsString], expected: Expected<'_>) -> Attempt<Run> {
        let Some(run) = measure::run(words, self.directory, self.timeout)? else {
            return Ok(Err(self.no_end()));
        };
        Ok(match expected.difference(&run.answer) {
            None => Ok(run),
            Some(difference) => Err(difference + &last_lines(&run.stderr)),
        })
    }

    fn no_end(&self) -> String {
        format!("no end after {} s", self.timeout.as_secs())
    }

    /// The size of a recording. One that cannot be read is a failure of the mode that made it.
    fn log_size(&self, path: &Path) -> Result<LogSize, String> {
        recording::measure(self.launcher.retro(), path).map_err(|error| format!("{error:#}"))
    }
}

impl Expected<'_> {
    /// Why an answer does not count, or nothing if it does.
    fn difference(self, answer: &Answer) -> Option<String> {
        match self {
            Self::Answer(native) => answer.difference(native),
            Self::Instructions(_) if !answer.status.success() => Some(answer.status.to_string()),
            Self::Instructions(count) => replaying::difference(&answer.stdout, count),
        }
    }
}

/// The end of a program's standard error, indented to follow a message.
fn last_lines(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(8)..].iter().map(|line| format!("\n    {line}")).collect()
}

fn progress(report: &ProgramReport) -> String {
    let mut line = format!("{:12}", report.name);
    for &mode in report.modes.keys() {
        line += &match report.figures(mode) {
            None => format!("  {mode} FAILED"),
            Some(figures) if mode == Mode::Native => format!("  {mode} {:.1} ms", figures.wall_ms),
            Some(figures) if report.group == Group::Cold => {
                format!(
                    "  {mode} {:.2} (+{:.1} ms)",
                    figures.wall_ratio, figures.wall_ms_over_native
                )
            }
            Some(figures) => match figures.log_bits_per_instruction {
                Some(bits) => {
                    format!("  {mode} {:.2} ({} bits)", figures.wall_ratio, table::bits(bits))
                }
                None => format!("  {mode} {:.2}", figures.wall_ratio),
            },
        };
    }
    line += &match &report.answers {
        None => String::new(),
        Some(AnswersReport::Failed { .. }) => format!("  {} FAILED", Mode::Query),
        Some(AnswersReport::Measured(figures)) => {
            format!("  {} {:.1} ms", Mode::Query, figures.worst_median_ms())
        }
    };
    line
}

fn command_line() -> String {
    let words = std::env::args().skip(1);
    std::iter::once("retro-bench".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queries::tests::answers;
    use crate::report::tests::report;

    #[test]
    fn stderr_is_cut_to_its_end() {
        let many: String = (0..20).map(|number| format!("line {number}\n")).collect();
        let end = last_lines(many.as_bytes());
        assert!(end.starts_with("\n    line 12") && end.ends_with("line 19"), "{end}");
        assert_eq!(last_lines(b""), "");
    }

    #[test]
    fn progress_shows_each_mode() {
        let mut report =
            report(&[("gzip", &[100.0, 150.0, 250.0, -1.0]), ("true", &[1.0, 3.0, 4.0, 50.0])]);
        assert_eq!(
            progress(&report.programs[0]),
            "gzip          native 100.0 ms  run 1.50  record 2.50 (0.080 bits)  valgrind FAILED"
        );
        assert!(progress(&report.programs[1]).contains("run 3.00 (+2.0 ms)"));
        let mut gzip = report.programs.swap_remove(0);
        gzip.answers = Some(Ok(answers(&[("registers", 12.34)])).into());
        assert!(progress(&gzip).ends_with("  valgrind FAILED  query 12.3 ms"));
        gzip.answers = Some(Err("no end".to_owned()).into());
        assert!(progress(&gzip).ends_with("  query FAILED"));
    }

    fn answer(script: &str) -> Answer {
        let words = ["/bin/sh".into(), "-c".into(), script.into()];
        let run = measure::run(&words, Path::new("/"), Duration::from_secs(20)).expect("runs");
        run.expect("in time").answer
    }

    #[test]
    fn a_wrong_answer_is_a_failure_of_the_mode() {
        let launcher = Launcher::new(&[Mode::Native], None).expect("needs no retro");
        let candidate = Candidate {
            launcher: &launcher,
            directory: Path::new("/"),
            scratch: "/nonexistent".into(),
            guest: Vec::new(),
            answer: answer("echo 1"),
            timeout: Duration::from_secs(20),
        };
        let once = |script: &str| {
            let words = ["/bin/sh".into(), "-c".into(), script.into()];
            candidate.run_once(&words, Expected::Answer(&candidate.answer)).expect("runs")
        };
        assert!(once("echo 1").is_ok());
        let reason = once("echo 2; echo oops >&2").expect_err("wrong");
        assert!(reason.contains("wrong output") && reason.contains("oops"), "{reason}");
    }

    #[test]
    fn a_replay_must_succeed_and_be_complete() {
        let difference = |script: &str| Expected::Instructions(70).difference(&answer(script));
        assert_eq!(difference("echo '{\"instructions\": 70}'"), None);
        let short = difference("echo '{\"instructions\": 69}'").expect("differs");
        assert!(short.contains("69 instructions of 70"), "{short}");
        let diverged = difference("echo '{\"instructions\": 70}'; exit 1").expect("failed");
        assert!(diverged.contains("exit status: 1"), "{diverged}");
    }
}
