//! The outcome of a session as plain data; its JSON form is the structure itself.
//!
//! All ratios are of medians over a mode's samples. A mode that failed on a program keeps its error
//! and has no figures.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::machine::Machine;
use crate::measure::Sample;
use crate::modes::Mode;
use crate::programs::{Group, Program};
use crate::queries::Answers;
use crate::statistics::{geometric_mean, median};

#[derive(Debug, Serialize)]
pub struct Report {
    /// The arguments the benchmark was called with.
    pub command_line: String,
    pub machine: Machine,
    pub modes: Vec<Mode>,
    pub runs: u32,
    pub cold_runs: u32,
    pub programs: Vec<ProgramReport>,
    /// Programs left out, each with the missing tool.
    pub not_installed: BTreeMap<&'static str, &'static str>,
    pub geometric_means: Vec<GeometricMean>,
}

#[derive(Debug, Serialize)]
pub struct ProgramReport {
    pub name: &'static str,
    pub group: Group,
    pub headline: bool,
    pub modes: BTreeMap<Mode, ModeReport>,
    /// Of [`Mode::Query`], on programs that this is measured on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answers: Option<AnswersReport>,
}

/// How long it takes to answer questions about a program's recording.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum AnswersReport {
    Measured(Answers),
    Failed { error: String },
}

impl From<Result<Answers, String>> for AnswersReport {
    fn from(outcome: Result<Answers, String>) -> Self {
        match outcome {
            Ok(answers) => Self::Measured(answers),
            Err(error) => Self::Failed { error },
        }
    }
}

/// One mode's cost on one program.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum ModeReport {
    Measured(Box<Figures>),
    Failed { error: String },
}

#[derive(Debug, Serialize)]
pub struct Figures {
    pub wall_ms: f64,
    pub cpu_ms: f64,
    pub wall_ratio: f64,
    pub cpu_ratio: f64,
    pub wall_ms_over_native: f64,
    pub peak_memory_kib: u64,
    /// Of a mode that stores something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_bits_per_instruction: Option<f64>,
    pub samples: Vec<Sample>,
}

#[derive(Debug, Serialize)]
pub struct GeometricMean {
    pub over: &'static str,
    /// The group of all of its programs.
    pub group: Group,
    pub programs: usize,
    pub wall_ratio: BTreeMap<Mode, f64>,
    pub cpu_ratio: BTreeMap<Mode, f64>,
    /// Of modes that store something.
    pub log_bits_per_instruction: BTreeMap<Mode, f64>,
}

/// What a mode did on a program: its samples, or why there are none.
pub type Outcome = Result<Vec<Sample>, String>;

impl ProgramReport {
    pub fn new(program: &Program, outcomes: BTreeMap<Mode, Outcome>) -> Self {
        let native = outcomes.get(&Mode::Native).and_then(|outcome| outcome.as_ref().ok());
        let (native_wall, native_cpu) =
            native.map_or((f64::NAN, f64::NAN), |samples| medians(samples));
        let modes = outcomes
            .into_iter()
            .map(|(mode, outcome)| {
                let report = match outcome {
                    Err(error) => ModeReport::Failed { error },
                    Ok(samples) => {
                        let (wall_ms, cpu_ms) = medians(&samples);
                        ModeReport::Measured(Box::new(Figures {
                            wall_ms,
                            cpu_ms,
                            wall_ratio: wall_ms / native_wall,
                            cpu_ratio: cpu_ms / native_cpu,
                            wall_ms_over_native: wall_ms - native_wall,
                            peak_memory_kib: samples
                                .iter()
                                .map(|sample| sample.peak_memory_kib)
                                .max()
                                .unwrap_or(0),
                            log_bits_per_instruction: median_of_bits(&samples),
                            samples,
                        }))
                    }
                };
                (mode, report)
            })
            .collect();
        Self {
            name: program.name,
            group: program.group,
            headline: program.headline,
            modes,
            answers: None,
        }
    }

    /// How long answers take, if it was measured.
    pub fn answers(&self) -> Option<&Answers> {
        match self.answers.as_ref()? {
            AnswersReport::Measured(answers) => Some(answers),
            AnswersReport::Failed { .. } => None,
        }
    }

    /// The mode's figures, if it was measured.
    pub fn figures(&self, mode: Mode) -> Option<&Figures> {
        match self.modes.get(&mode)? {
            ModeReport::Measured(figures) => Some(figures),
            ModeReport::Failed { .. } => None,
        }
    }
}

/// The median size of the logs; nothing unless every run was recorded.
fn median_of_bits(samples: &[Sample]) -> Option<f64> {
    let bits: Option<Vec<f64>> =
        samples.iter().map(|sample| Some(sample.log?.bits_per_instruction())).collect();
    median(&bits?)
}

fn medians(samples: &[Sample]) -> (f64, f64) {
    let of = |value: fn(&Sample) -> f64| {
        let values: Vec<f64> = samples.iter().map(value).collect();
        median(&values).unwrap_or(f64::NAN)
    };
    (of(|sample| sample.wall_ms), of(|sample| sample.cpu_ms))
}

impl GeometricMean {
    /// The means over the programs that `select` picks; nothing if it picks none.
    ///
    /// A mode has a mean only if it was measured on all of them: a mean that leaves out the program
    /// on which the mode failed would flatter it.
    pub fn over(
        name: &'static str,
        group: Group,
        programs: &[ProgramReport],
        modes: &[Mode],
        select: impl Fn(&ProgramReport) -> bool,
    ) -> Option<Self> {
        let of_group = programs.iter().filter(|program| program.group == group);
        let selected: Vec<&ProgramReport> = of_group.filter(|program| select(program)).collect();
        let mean_of = |value: fn(&Figures) -> Option<f64>| -> BTreeMap<Mode, f64> {
            let mean = |mode: Mode| {
                let values: Option<Vec<f64>> =
                    selected.iter().map(|program| value(program.figures(mode)?)).collect();
                Some((mode, geometric_mean(&values?)?))
            };
            modes.iter().filter(|mode| mode.is_compared()).filter_map(|&mode| mean(mode)).collect()
        };
        (!selected.is_empty()).then(|| Self {
            over: name,
            group,
            programs: selected.len(),
            wall_ratio: mean_of(|figures| Some(figures.wall_ratio)),
            cpu_ratio: mean_of(|figures| Some(figures.cpu_ratio)),
            log_bits_per_instruction: mean_of(|figures| figures.log_bits_per_instruction),
        })
    }
}

impl Report {
    /// A sentence for each mode that failed on a program.
    pub fn failures(&self) -> Vec<String> {
        let mut failures = Vec::new();
        for program in &self.programs {
            for (mode, report) in &program.modes {
                if let ModeReport::Failed { error } = report {
                    failures.push(format!("{} under {mode}: {error}", program.name));
                }
            }
            if let Some(AnswersReport::Failed { error }) = &program.answers {
                failures.push(format!("{} under {}: {error}", program.name, Mode::Query));
            }
        }
        failures
    }

    pub fn program(&self, name: &str) -> Option<&ProgramReport> {
        self.programs.iter().find(|program| program.name == name)
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::programs;
    use crate::recording::LogSize;

    /// A report in which each program took the given milliseconds natively and under run, record and valgrind; a
    /// negative figure is a failure. Logs have 0.08 bits per instruction.
    pub fn report(rows: &[(&str, &[f64])]) -> Report {
        report_of(&[Mode::Native, Mode::Run, Mode::Record, Mode::Valgrind], rows)
    }

    /// The same for other modes.
    pub fn report_of(modes: &[Mode], rows: &[(&str, &[f64])]) -> Report {
        let programs: Vec<ProgramReport> = rows
            .iter()
            .map(|(name, milliseconds)| {
                let program =
                    programs::all().find(|program| program.name == *name).expect("known program");
                let outcomes = modes.iter().zip(*milliseconds).map(|(&mode, &wall_ms)| {
                    let log =
                        mode.records().then_some(LogSize { bytes: 100, instructions: 10_000 });
                    let sample = Sample { wall_ms, cpu_ms: wall_ms / 2.0, peak_memory_kib: 1, log };
                    (
                        mode,
                        if wall_ms < 0.0 {
                            Err("wrong output".to_owned())
                        } else {
                            Ok(vec![sample; 3])
                        },
                    )
                });
                ProgramReport::new(program, outcomes.collect())
            })
            .collect();
        let eight = GeometricMean::over("the eight", Group::Cpu, &programs, modes, |p| p.headline);
        let short = GeometricMean::over("short", Group::Short, &programs, modes, |_| true);
        let geometric_means = eight.into_iter().chain(short).collect();
        Report {
            command_line: "retro-bench --runs 3".to_owned(),
            machine: Machine { cpu: "Test CPU".to_owned(), cores: 2, kernel: "6.1".to_owned() },
            modes: modes.to_vec(),
            runs: 3,
            cold_runs: 30,
            programs,
            not_installed: BTreeMap::new(),
            geometric_means,
        }
    }

    #[test]
    fn ratios_are_to_native() {
        let report = report(&[("gzip", &[200.0, 300.0, 400.0, 500.0])]);
        let figures = report.programs[0].figures(Mode::Run).expect("measured");
        assert_eq!(
            (figures.wall_ratio, figures.cpu_ratio, figures.wall_ms_over_native),
            (1.5, 1.5, 100.0)
        );
    }

    #[test]
    fn a_failed_mode_has_no_mean() {
        let report =
            report(&[("gzip", &[100.0, 200.0, 300.0, 400.0]), ("xz", &[100.0, -1.0, -1.0, 900.0])]);
        let mean = &report.geometric_means[0];
        assert_eq!(mean.programs, 2);
        assert_eq!(mean.wall_ratio.get(&Mode::Run), None);
        assert_eq!(mean.log_bits_per_instruction.get(&Mode::Record), None);
        assert!((mean.wall_ratio[&Mode::Valgrind] - 6.0).abs() < 1e-12);
        assert_eq!(
            report.failures(),
            ["xz under run: wrong output", "xz under record: wrong output"]
        );
    }

    #[test]
    fn logs_have_a_mean_of_their_own() {
        let report = report(&[
            ("gzip", &[100.0, 200.0, 300.0, 400.0]),
            ("xz", &[100.0, 200.0, 300.0, 900.0]),
        ]);
        let bits = &report.geometric_means[0].log_bits_per_instruction;
        assert!((bits[&Mode::Record] - 0.08).abs() < 1e-12);
        assert_eq!(bits.len(), 1, "only of modes that record");
    }

    #[test]
    fn failed_positioning_is_a_failure() {
        let mut report = report(&[("gzip", &[100.0, 200.0, 300.0, 400.0])]);
        report.programs[0].answers = Some(Err("no end after 1 s".to_owned()).into());
        assert_eq!(report.failures(), ["gzip under query: no end after 1 s"]);
        assert_eq!(report.programs[0].answers(), None);
    }

    #[test]
    fn json_names_modes_and_keeps_samples() {
        let json = serde_json::to_value(report(&[("gzip", &[100.0, 150.0, 250.0, -1.0])]))
            .expect("serialises");
        let modes = &json["programs"][0]["modes"];
        assert_eq!(modes["run"]["cpu_ratio"], 1.5);
        assert_eq!(modes["run"]["samples"].as_array().map(Vec::len), Some(3));
        assert_eq!(modes["record"]["log_bits_per_instruction"], 0.08);
        assert_eq!(modes["record"]["samples"][0]["log"]["instructions"], 10_000);
        assert!(modes["run"].get("log_bits_per_instruction").is_none());
        assert_eq!(modes["valgrind"]["error"], "wrong output");
    }
}
