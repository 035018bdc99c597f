//! The project's goals for `retro run`, judged on a report.
//!
//! A goal is judged only if the report holds everything it is about: a selection of programs must not
//! look like a success.

use crate::modes::Mode;
use crate::programs::Group;
use crate::report::{Figures, ProgramReport, Report};

const HEADLINE_PROGRAMS: usize = 8;

/// One line per goal that the report can judge.
pub fn judge(report: &Report) -> Vec<String> {
    let run_ratio =
        |program: &ProgramReport| program.figures(Mode::Run).map(|figures| figures.wall_ratio);
    let mut verdicts = Vec::new();

    let headline: Option<Vec<(f64, &str)>> = report
        .programs
        .iter()
        .filter(|program| program.headline)
        .map(|program| run_ratio(program).map(|ratio| (ratio, program.name)))
        .collect();
    if let Some(headline) = headline.filter(|headline| headline.len() == HEADLINE_PROGRAMS) {
        let mean =
            report.geometric_means.iter().find_map(|mean| mean.wall_ratio.get(&Mode::Run).copied());
        if let Some(mean) = mean {
            verdicts.push(verdict(
                "geometric mean over the eight at most 1.5",
                mean <= 1.5,
                &format!("{mean:.2}"),
            ));
        }
        if let Some((ratio, name)) =
            headline.iter().copied().max_by(|left, right| left.0.total_cmp(&right.0))
        {
            verdicts.push(verdict(
                "none of the eight above 3",
                ratio <= 3.0,
                &format!("{name} {ratio:.2}"),
            ));
        }
    }

    let behind: Option<Vec<&str>> = report
        .programs
        .iter()
        .filter(|program| program.group != Group::Cold)
        .map(|program| {
            let ahead = run_ratio(program)? < program.figures(Mode::Valgrind)?.wall_ratio;
            Some((!ahead).then_some(program.name))
        })
        .collect::<Option<Vec<_>>>()
        .map(|names| names.into_iter().flatten().collect());
    let compared = report.programs.iter().filter(|program| program.group != Group::Cold).count();
    if let Some(behind) = behind.filter(|_| compared > 0) {
        let detail = if behind.is_empty() {
            format!("on all {compared} measured")
        } else {
            format!("not on {}", behind.join(", "))
        };
        verdicts.push(verdict("ahead of valgrind --tool=none", behind.is_empty(), &detail));
    }

    let figures = |name: &str| -> Option<&Figures> { report.program(name)?.figures(Mode::Run) };
    if let Some(figures) = figures("true") {
        let over = figures.wall_ms_over_native;
        verdicts.push(verdict(
            "/bin/true within 20 ms of native",
            over <= 20.0,
            &format!("{over:+.1} ms"),
        ));
    }
    if let Some(figures) = figures("sh-loop") {
        let ratio = figures.wall_ratio;
        verdicts.push(verdict("fork/exec loop at most 10", ratio <= 10.0, &format!("{ratio:.2}")));
    }
    verdicts
}

fn verdict(goal: &str, met: bool, value: &str) -> String {
    format!("{goal}: {} ({value})", if met { "met" } else { "MISSED" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::report;

    #[test]
    fn a_full_set_is_judged() {
        let report = report(&[
            ("gzip", &[100.0, 110.0, 200.0]),
            ("xz", &[100.0, 110.0, 200.0]),
            ("python3", &[100.0, 350.0, 900.0]),
            ("sqlite3", &[100.0, 110.0, 200.0]),
            ("perl", &[100.0, 110.0, 200.0]),
            ("cc1", &[100.0, 110.0, 105.0]),
            ("ray", &[100.0, 110.0, 200.0]),
            ("queens", &[100.0, 110.0, 200.0]),
            ("sh-loop", &[100.0, 500.0, 20_000.0]),
            ("true", &[1.0, 31.0, 300.0]),
        ]);
        assert_eq!(
            judge(&report),
            [
                "geometric mean over the eight at most 1.5: met (1.27)",
                "none of the eight above 3: MISSED (python3 3.50)",
                "ahead of valgrind --tool=none: MISSED (not on cc1)",
                "/bin/true within 20 ms of native: MISSED (+30.0 ms)",
                "fork/exec loop at most 10: met (5.00)",
            ]
        );
    }

    #[test]
    fn a_selection_or_a_failure_is_no_success() {
        let partial = report(&[("gzip", &[100.0, 110.0, -1.0])]);
        assert!(judge(&partial).is_empty(), "{:?}", judge(&partial));
    }
}
