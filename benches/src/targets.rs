//! The project's goals for running, recording and replaying, judged on a report.
//!
//! A goal is judged only if the report holds everything it is about: a selection of programs must not
//! look like a success.

use crate::modes::Mode;
use crate::programs::{self, Group, QUERIED};
use crate::queries::Answers;
use crate::report::{Figures, GeometricMean, ProgramReport, Report};
use crate::table;

/// Goals that `run` and `record` have in common, with different figures.
struct Goals {
    mode: Mode,
    /// Of the geometric mean over the eight.
    mean: f64,
    /// Of each of the eight.
    worst: f64,
    /// Of the loop that forks and executes.
    process: f64,
}

const RUN: Goals = Goals { mode: Mode::Run, mean: 1.5, worst: 3.0, process: 10.0 };
const RECORD: Goals = Goals { mode: Mode::Record, mean: 3.0, worst: 6.0, process: 12.0 };

/// Milliseconds over native that starting a program may take.
const START_MS: [(Mode, f64); 2] = [(Mode::Run, 20.0), (Mode::Record, 10.0)];

/// Of the geometric mean over the short programs, under `record`.
const SHORT: f64 = 6.0;

/// Of each program of string instructions, under `record`.
const STRING: f64 = 5.0;

/// Of a program that makes nothing but short system calls, under `record`.
const DD: f64 = 3.0;

/// Of each program that mostly makes system calls, under `record`.
const SYSCALL: f64 = 5.0;

/// Bits of log per instruction, geometric mean over the eight.
const LOG_BITS: f64 = 0.1;

/// Of plain replay, geometric mean over the eight.
const REPLAY: f64 = 2.0;

/// Of replay with everything streamed, geometric mean over the eight.
const STREAM: f64 = 8.0;

/// Of indexing, geometric mean over the eight.
const INDEX: f64 = 4.0;

/// Bits of index per instruction, geometric mean over the eight.
const INDEX_BITS: f64 = 0.5;

/// Milliseconds that answers of any kind may take, median and worst, and the first one with opening the recording.
const ANSWER_MS: (f64, f64, f64) = (5.0, 100.0, 1000.0);

/// One line per goal that the report can judge.
pub fn judge(report: &Report) -> Vec<String> {
    let mut verdicts = ratios(report, &RUN);
    verdicts.extend(ahead_of_valgrind(report));
    verdicts.extend(start(report, START_MS[0]));
    verdicts.extend(process(report, &RUN));
    verdicts.extend(ratios(report, &RECORD));
    verdicts.extend(syscalls(report));
    verdicts.extend(dd(report));
    verdicts.extend(process(report, &RECORD));
    verdicts.extend(start(report, START_MS[1]));
    verdicts.extend(short(report));
    verdicts.extend(strings(report));
    verdicts.extend(sizes(report, Mode::Record, LOG_BITS));
    verdicts.extend(replays(report, Mode::Replay, REPLAY));
    verdicts.extend(replays(report, Mode::Stream, STREAM));
    verdicts.extend(replays(report, Mode::Index, INDEX));
    verdicts.extend(sizes(report, Mode::Index, INDEX_BITS));
    verdicts.extend(answers(report));
    verdicts
}

/// The wall-clock ratios of all programs that `select` picks from the table, the worst last; nothing if one of
/// them was not measured.
fn all_of(
    report: &Report,
    mode: Mode,
    select: impl Fn(&programs::Program) -> bool,
) -> Option<Vec<(f64, &'static str)>> {
    let ratio = |name: &'static str| Some((report.program(name)?.figures(mode)?.wall_ratio, name));
    let selected = programs::all().filter(|program| select(program));
    let mut ratios: Vec<_> = selected.map(|program| ratio(program.name)).collect::<Option<_>>()?;
    ratios.sort_by(|left, right| left.0.total_cmp(&right.0));
    Some(ratios)
}

fn ratios(report: &Report, goals: &Goals) -> Vec<String> {
    let &Goals { mode, mean: most, worst, .. } = goals;
    let Some(eight) = all_of(report, mode, |program| program.headline) else { return Vec::new() };
    let mean = mean_of_the_eight(report, mode);
    let mut verdicts = Vec::new();
    if let Some(mean) = mean {
        verdicts.push(verdict(
            &format!("{mode}: geometric mean over the eight at most {most}"),
            mean <= most,
            &format!("{mean:.2}"),
        ));
    }
    if let Some((ratio, name)) = eight.last() {
        verdicts.push(verdict(
            &format!("{mode}: none of the eight above {worst}"),
            *ratio <= worst,
            &format!("{name} {ratio:.2}"),
        ));
    }
    verdicts
}

fn mean_of_the_eight(report: &Report, mode: Mode) -> Option<f64> {
    mean_over(report, "the eight")?.wall_ratio.get(&mode).copied()
}

fn mean_over<'a>(report: &'a Report, name: &str) -> Option<&'a GeometricMean> {
    report.geometric_means.iter().find(|mean| mean.over == name)
}

fn replays(report: &Report, mode: Mode, most: f64) -> Option<String> {
    let eight = all_of(report, mode, |program| program.headline)?;
    let mean = mean_of_the_eight(report, mode)?;
    let (worst, name) = eight.last()?;
    let goal = format!("{mode}: geometric mean over the eight at most {most}");
    Some(verdict(&goal, mean <= most, &format!("{mean:.2}, worst {name} {worst:.2}")))
}

fn answers(report: &Report) -> Vec<String> {
    let asked = |name: &&'static str| Some((report.program(name)?.answers()?, *name));
    let Some(answers) = QUERIED.iter().map(asked).collect::<Option<Vec<_>>>() else {
        return Vec::new();
    };
    let (median, worst, first) = ANSWER_MS;
    let judge = |what: &str, most: f64, value: fn(&Answers) -> f64| {
        let values = answers.iter().map(|(answers, name)| (value(answers), *name));
        let found = values.max_by(|left, right| left.0.total_cmp(&right.0));
        found.map(|(value, name)| {
            let goal = format!("query: {what} at most {most} ms");
            verdict(&goal, value <= most, &format!("worst {name} {value:.1} ms"))
        })
    };
    let verdicts = [
        judge("median of any kind of question", median, Answers::worst_median_ms),
        judge("any answer", worst, Answers::worst_ms),
        judge("opening to the first answer", first, |answers| answers.first_answer_ms),
    ];
    verdicts.into_iter().flatten().collect()
}

fn ahead_of_valgrind(report: &Report) -> Option<String> {
    let compared: Vec<&ProgramReport> =
        report.programs.iter().filter(|program| program.group != Group::Cold).collect();
    if compared.is_empty() {
        return None;
    }
    let mut behind = Vec::new();
    for program in &compared {
        let ratio = |mode| Some(program.figures(mode)?.wall_ratio);
        if ratio(Mode::Run)? >= ratio(Mode::Valgrind)? {
            behind.push(program.name);
        }
    }
    let detail = if behind.is_empty() {
        format!("on all {} measured", compared.len())
    } else {
        format!("not on {}", behind.join(", "))
    };
    Some(verdict("run: ahead of valgrind --tool=none", behind.is_empty(), &detail))
}

fn figures<'a>(report: &'a Report, name: &str, mode: Mode) -> Option<&'a Figures> {
    report.program(name)?.figures(mode)
}

fn start(report: &Report, (mode, most): (Mode, f64)) -> Option<String> {
    let over = figures(report, "true", mode)?.wall_ms_over_native;
    let goal = format!("{mode}: /bin/true within {most} ms of native");
    Some(verdict(&goal, over <= most, &format!("{over:+.1} ms")))
}

fn short(report: &Report) -> Option<String> {
    let ratios = all_of(report, Mode::Record, |program| program.group == Group::Short)?;
    let mean = *mean_over(report, "short")?.wall_ratio.get(&Mode::Record)?;
    let (worst, name) = ratios.last()?;
    let goal = format!("record: geometric mean over the short programs at most {SHORT}");
    Some(verdict(&goal, mean <= SHORT, &format!("{mean:.2}, worst {name} {worst:.2}")))
}

fn strings(report: &Report) -> Option<String> {
    let ratios = all_of(report, Mode::Record, |program| program.group == Group::String)?;
    let (ratio, name) = ratios.last()?;
    let goal = format!("record: string instructions at most {STRING}");
    Some(verdict(&goal, *ratio <= STRING, &format!("{name} {ratio:.2}")))
}

fn dd(report: &Report) -> Option<String> {
    let ratio = figures(report, "dd", Mode::Record)?.wall_ratio;
    let goal = format!("record: dd at most {DD}");
    Some(verdict(&goal, ratio <= DD, &format!("{ratio:.2}")))
}

fn process(report: &Report, goals: &Goals) -> Option<String> {
    let &Goals { mode, process: most, .. } = goals;
    let ratio = figures(report, "sh-loop", mode)?.wall_ratio;
    let goal = format!("{mode}: fork/exec loop at most {most}");
    Some(verdict(&goal, ratio <= most, &format!("{ratio:.2}")))
}

fn syscalls(report: &Report) -> Option<String> {
    let ratios = all_of(report, Mode::Record, |program| program.group == Group::Syscall)?;
    let (ratio, name) = ratios.last()?;
    let goal = format!("record: syscall-heavy at most {SYSCALL}");
    Some(verdict(&goal, *ratio <= SYSCALL, &format!("{name} {ratio:.2}")))
}

fn sizes(report: &Report, mode: Mode, most: f64) -> Option<String> {
    all_of(report, mode, |program| program.headline)?;
    let mean = mean_over(report, "the eight")?;
    let bits = mean.log_bits_per_instruction.get(&mode).copied()?;
    let stored = mode.stores()?;
    let goal = format!(
        "{mode}: {stored} at most {most} bits per instruction, geometric mean over the eight"
    );
    Some(verdict(&goal, bits <= most, &table::bits(bits)))
}

fn verdict(goal: &str, met: bool, value: &str) -> String {
    format!("{goal}: {} ({value})", if met { "met" } else { "MISSED" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queries::tests::answers;
    use crate::report::tests::{report, report_of};

    #[test]
    fn a_full_set_is_judged() {
        let report = report(&[
            ("gzip", &[100.0, 110.0, 150.0, 200.0]),
            ("xz", &[100.0, 110.0, 150.0, 200.0]),
            ("python3", &[100.0, 350.0, 650.0, 900.0]),
            ("sqlite3", &[100.0, 110.0, 150.0, 200.0]),
            ("perl", &[100.0, 110.0, 150.0, 200.0]),
            ("cc1", &[100.0, 110.0, 150.0, 105.0]),
            ("ray", &[100.0, 110.0, 150.0, 200.0]),
            ("queens", &[100.0, 110.0, 150.0, 200.0]),
            ("dd", &[100.0, 120.0, 400.0, 900.0]),
            ("find", &[100.0, 120.0, 550.0, 900.0]),
            ("sh-loop", &[100.0, 500.0, 2_500.0, 20_000.0]),
            ("true", &[1.0, 31.0, 40.0, 300.0]),
        ]);
        assert_eq!(
            judge(&report),
            [
                "run: geometric mean over the eight at most 1.5: met (1.27)",
                "run: none of the eight above 3: MISSED (python3 3.50)",
                "run: ahead of valgrind --tool=none: MISSED (not on cc1)",
                "run: /bin/true within 20 ms of native: MISSED (+30.0 ms)",
                "run: fork/exec loop at most 10: met (5.00)",
                "record: geometric mean over the eight at most 3: met (1.80)",
                "record: none of the eight above 6: MISSED (python3 6.50)",
                "record: syscall-heavy at most 5: MISSED (find 5.50)",
                "record: dd at most 3: MISSED (4.00)",
                "record: fork/exec loop at most 12: MISSED (25.00)",
                "record: /bin/true within 10 ms of native: MISSED (+39.0 ms)",
                "record: log at most 0.1 bits per instruction, geometric mean over the eight: met (0.080)",
            ]
        );
    }

    #[test]
    fn replays_are_judged() {
        let modes = [Mode::Native, Mode::Replay, Mode::Stream];
        let usual: &[f64] = &[100.0, 160.0, 900.0];
        let names = ["gzip", "xz", "python3", "sqlite3", "perl", "cc1", "ray", "python3-short"];
        let mut rows: Vec<(&str, &[f64])> = names.map(|name| (name, usual)).to_vec();
        rows.push(("queens", &[100.0, 320.0, 900.0]));
        let mut report = report_of(&modes, &rows);
        for name in QUERIED {
            let program = report.programs.iter_mut().find(|program| program.name == *name);
            program.expect("there").answers =
                Some(Ok(answers(&[("registers", 4.0), ("stack", 12.0)])).into());
        }
        assert_eq!(
            judge(&report),
            [
                "replay: geometric mean over the eight at most 2: met (1.74, worst queens 3.20)",
                "stream: geometric mean over the eight at most 8: MISSED (9.00, worst queens 9.00)",
                "query: median of any kind of question at most 5 ms: MISSED (worst cc1 12.0 ms)",
                "query: any answer at most 100 ms: MISSED (worst cc1 120.0 ms)",
                "query: opening to the first answer at most 1000 ms: met (worst cc1 120.0 ms)",
            ]
        );
        report.programs[0].answers = Some(Err("no end".to_owned()).into());
        assert_eq!(judge(&report).len(), 2, "not judged without all of its programs");
    }

    #[test]
    fn short_programs_are_judged() {
        let short = programs::all().filter(|program| program.group == Group::Short);
        let mut rows: Vec<(&str, &[f64])> =
            short.map(|program| (program.name, &[100.0, 200.0, 500.0, 900.0] as &[f64])).collect();
        rows[0].1 = &[100.0, 200.0, 800.0, 900.0];
        let strings = programs::all().filter(|program| program.group == Group::String);
        rows.extend(strings.map(|program| (program.name, &[10.0, 20.0, 60.0, 90.0] as &[f64])));
        let verdicts = judge(&report(&rows));
        let mean = "record: geometric mean over the short programs at most 6: met (5.";
        assert!(verdicts.iter().any(|verdict| verdict.starts_with(mean)), "{verdicts:?}");
        let strings = "record: string instructions at most 5: MISSED (rep-";
        assert!(verdicts.iter().any(|verdict| verdict.starts_with(strings)), "{verdicts:?}");
        rows.remove(1);
        let verdicts = judge(&report(&rows));
        let judged = verdicts.iter().any(|verdict| verdict.contains("short programs"));
        assert!(!judged, "not judged without all of its programs: {verdicts:?}");
    }

    #[test]
    fn a_selection_or_a_failure_is_no_success() {
        let partial = report(&[
            ("gzip", &[100.0, 110.0, 150.0, -1.0]),
            ("find", &[100.0, 110.0, 150.0, -1.0]),
            ("sh-loop", &[100.0, -1.0, -1.0, -1.0]),
        ]);
        assert!(judge(&partial).is_empty(), "{:?}", judge(&partial));
    }
}
