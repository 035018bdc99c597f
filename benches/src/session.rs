//! Runs the selected programs in all modes, interleaved.
//!
//! One native run per program comes first and is not counted: it fills the page cache and gives the
//! answer that every later run, native ones included, must repeat. Then round by round each mode
//! runs once. A mode that fails on a program is not tried on it again, so that a figure never mixes
//! good runs and bad.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::machine::Machine;
use crate::measure::{self, Answer, Sample};
use crate::modes::{Launcher, Mode};
use crate::options::Options;
use crate::programs::{Group, Program};
use crate::recording;
use crate::report::{GeometricMean, Outcome, ProgramReport, Report};
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
        GeometricMean::over("the eight", &programs, &modes, |program| program.headline),
        GeometricMean::over("all cpu", &programs, &modes, |program| program.group == Group::Cpu),
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
    let commands: Vec<(Mode, Vec<OsString>)> = launcher
        .modes()
        .iter()
        .map(|&mode| (mode, launcher.command(mode, &guest, &scratch)))
        .collect();

    let reference = measure::run(&guest, directory, options.timeout())?.with_context(|| {
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

    let mut outcomes: BTreeMap<Mode, Outcome> =
        commands.iter().map(|(mode, _)| (*mode, Ok(Vec::new()))).collect();
    for _ in 0..options.rounds(program.group) {
        for (mode, words) in &commands {
            let Some(Ok(samples)) = outcomes.get_mut(mode) else { continue };
            let mut outcome = run_once(words, directory, options.timeout(), &reference.answer)?;
            if mode.records() {
                let path = recording::place(&scratch);
                outcome = outcome.and_then(|sample| with_log(sample, launcher.retro(), &path));
                recording::remove(&path)?;
            }
            match outcome {
                Ok(sample) => samples.push(sample),
                Err(reason) => {
                    outcomes.insert(*mode, Err(reason));
                }
            }
        }
    }
    fs::remove_dir_all(&scratch)?;
    Ok(ProgramReport::new(program, outcomes))
}

/// The inner error is the program's failure in this mode, the outer one the benchmark's own.
fn run_once(
    words: &[OsString],
    directory: &Path,
    timeout: Duration,
    expected: &Answer,
) -> Result<Result<Sample, String>> {
    let Some(run) = measure::run(words, directory, timeout)? else {
        return Ok(Err(format!("no end after {} s", timeout.as_secs())));
    };
    Ok(match run.answer.difference(expected) {
        None => Ok(run.sample),
        Some(difference) => Err(difference + &last_lines(&run.stderr)),
    })
}

/// The sample with the size of the log that the run has left. A recording that cannot be read is a failure of
/// the mode.
fn with_log(sample: Sample, retro: &Path, path: &Path) -> Result<Sample, String> {
    match recording::measure(retro, path) {
        Ok(size) => Ok(Sample { log: Some(size), ..sample }),
        Err(error) => Err(format!("{error:#}")),
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
    line
}

fn command_line() -> String {
    let words = std::env::args().skip(1);
    std::iter::once("retro-bench".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let report =
            report(&[("gzip", &[100.0, 150.0, 250.0, -1.0]), ("true", &[1.0, 3.0, 4.0, 50.0])]);
        assert_eq!(
            progress(&report.programs[0]),
            "gzip          native 100.0 ms  run 1.50  record 2.50 (0.080 bits)  valgrind FAILED"
        );
        assert!(progress(&report.programs[1]).contains("run 3.00 (+2.0 ms)"));
    }

    #[test]
    fn a_wrong_answer_is_a_failure_of_the_mode() {
        let shell = |script: &str| vec!["/bin/sh".into(), "-c".into(), script.into()];
        let once = |script: &str, expected: &Answer| {
            run_once(&shell(script), Path::new("/"), Duration::from_secs(20), expected)
                .expect("runs")
        };
        let reference =
            measure::run(&shell("echo 1"), Path::new("/"), Duration::from_secs(20)).expect("runs");
        let expected = reference.expect("in time").answer;
        assert!(once("echo 1", &expected).is_ok());
        let reason = once("echo 2; echo oops >&2", &expected).expect_err("wrong");
        assert!(reason.contains("wrong output") && reason.contains("oops"), "{reason}");
    }
}
