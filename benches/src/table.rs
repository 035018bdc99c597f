//! Renders a report as Markdown tables padded to line up: the same text reads well in a terminal and
//! in RESULTS.md.

use crate::measure::{LONG_RUN, Sample};
use crate::modes::Mode;
use crate::programs::{Group, Program};
use crate::queries::Answers;
use crate::report::{AnswersReport, ModeReport, ProgramReport, Report};
use crate::targets;

/// The whole report: ratios, cold starts, questions, targets.
pub fn render(report: &Report) -> String {
    let mut sections = Vec::new();
    let warm = warm_table(report);
    if warm.len() > 1 {
        let logs = if storing(report).next().is_some() {
            "; what is stored in bits per guest instruction"
        } else {
            ""
        };
        let caption = format!(
            "Wall-clock time as a multiple of native, median of {}{}{logs}:",
            report.runs,
            unrepeated(report)
        );
        sections.push(format!("{caption}\n\n{}", align(&warm, 2)));
    }
    let cold = cold_table(report);
    if cold.len() > 1 {
        let caption = format!(
            "Cold starts, milliseconds over native and multiple of it, median of {}:",
            report.cold_runs
        );
        sections.push(format!("{caption}\n\n{}", align(&cold, 1)));
    }
    let questions = question_table(report);
    if questions.len() > 1 {
        sections.push(format!("{}\n\n{}", question_caption(report), align(&questions, 1)));
    }
    let verdicts = targets::judge(report);
    if !verdicts.is_empty() {
        let lines: String = verdicts.iter().map(|verdict| format!("- {verdict}\n")).collect();
        sections.push(format!("Targets:\n\n{lines}"));
    }
    if !report.not_installed.is_empty() {
        let names: Vec<String> = report
            .not_installed
            .iter()
            .map(|(name, tool)| format!("{name} (needs {tool})"))
            .collect();
        sections.push(format!("Left out, not installed: {}.\n", names.join(", ")));
    }
    sections.join("\n")
}

/// What `--list` prints.
pub fn program_list(programs: impl Iterator<Item = &'static Program>) -> String {
    let mut rows = vec![row(["program", "group", "headline", "work"])];
    for program in programs {
        let headline = if program.headline { "yes" } else { "" };
        rows.push(row([program.name, &program.group.name(), headline, program.about]));
    }
    align(&rows, rows[0].len())
}

fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}

/// The modes that have a ratio.
fn compared(report: &Report) -> impl Iterator<Item = Mode> + '_ {
    report.modes.iter().copied().filter(|mode| mode.is_compared())
}

/// The modes that store something.
fn storing(report: &Report) -> impl Iterator<Item = Mode> + '_ {
    report.modes.iter().copied().filter(|mode| mode.stores().is_some())
}

/// What to say of runs that were too long to be repeated.
fn unrepeated(report: &Report) -> String {
    let mut samples = report
        .programs
        .iter()
        .flat_map(|program| report.modes.iter().filter_map(|mode| program.figures(*mode)))
        .map(|figures| &figures.samples);
    if report.runs > 1 && samples.any(|samples| samples.first().is_some_and(Sample::is_long)) {
        format!(" (of 1 where a run takes over {LONG_RUN} s)")
    } else {
        String::new()
    }
}

fn warm_table(report: &Report) -> Vec<Vec<String>> {
    let mut rows = vec![row(["program", "group", "native ms"])];
    rows[0].extend(compared(report).map(Mode::name));
    rows[0].extend(storing(report).filter_map(|mode| Some(mode.stores()?.to_owned())));
    let warm: Vec<&ProgramReport> =
        report.programs.iter().filter(|program| program.group != Group::Cold).collect();
    for (position, program) in warm.iter().enumerate() {
        let mut cells = row([program.name, &program.group.name(), &native_ms(program)]);
        cells.extend(compared(report).map(|mode| ratio(program, mode)));
        cells.extend(storing(report).map(|mode| {
            let size = program.figures(mode).and_then(|figures| figures.log_bits_per_instruction);
            size.map_or_else(|| "–".to_owned(), bits)
        }));
        rows.push(cells);
        let last_of_group = warm.get(position + 1).is_none_or(|next| next.group != program.group);
        if last_of_group && compared(report).next().is_some() {
            rows.extend(mean_rows(report, program.group));
        }
    }
    rows
}

/// The means over programs of a group.
fn mean_rows(report: &Report, group: Group) -> impl Iterator<Item = Vec<String>> + '_ {
    report.geometric_means.iter().filter(move |mean| mean.group == group).map(|mean| {
        let mut cells =
            row([&format!("**geometric mean, {} ({})**", mean.over, mean.programs), "", ""]);
        cells.extend(compared(report).map(|mode| match mean.wall_ratio.get(&mode) {
            Some(ratio) => format!("**{ratio:.2}**"),
            None => "–".to_owned(),
        }));
        cells.extend(storing(report).map(|mode| match mean.log_bits_per_instruction.get(&mode) {
            Some(&size) => format!("**{}**", bits(size)),
            None => "–".to_owned(),
        }));
        cells
    })
}

/// Bits or bytes per instruction, with at least two digits that matter.
pub fn bits(size: f64) -> String {
    match size {
        ..0.001 => format!("{size:.5}"),
        ..0.01 => format!("{size:.4}"),
        ..1.0 => format!("{size:.3}"),
        _ => format!("{size:.2}"),
    }
}

fn cold_table(report: &Report) -> Vec<Vec<String>> {
    let mut rows = vec![row(["program", "native ms"])];
    for mode in compared(report) {
        rows[0].extend([format!("{mode} +ms"), mode.name()]);
    }
    for program in report.programs.iter().filter(|program| program.group == Group::Cold) {
        let mut cells = row([program.name, &native_ms(program)]);
        for mode in compared(report) {
            let over =
                program.figures(mode).map(|figures| format!("{:+.1}", figures.wall_ms_over_native));
            cells.extend([over.unwrap_or_else(|| "–".to_owned()), ratio(program, mode)]);
        }
        rows.push(cells);
    }
    rows
}

fn question_caption(report: &Report) -> String {
    let count = report.programs.iter().find_map(|program| Some(program.answers()?.questions));
    let count = count.map_or_else(String::new, |count| format!("{count} "));
    format!(
        "{count}random questions of each kind about the longest process, milliseconds, median and worst, each kind at \
         moments of its own:"
    )
}

/// A row for each kind of question, a column for each program.
fn question_table(report: &Report) -> Vec<Vec<String>> {
    let asked: Vec<(&str, &AnswersReport)> = (report.programs.iter())
        .filter_map(|program| Some((program.name, program.answers.as_ref()?)))
        .collect();
    let mut head = row(["question"]);
    head.extend(asked.iter().map(|(name, _)| (*name).to_owned()));
    let mut rows = vec![head];
    let figures = |report: &AnswersReport, show: &dyn Fn(&Answers) -> String| match report {
        AnswersReport::Measured(answers) => show(answers),
        AnswersReport::Failed { .. } => "FAILED".to_owned(),
    };
    let mut add = |name: &str, show: &dyn Fn(&Answers) -> String| {
        let mut cells = row([name]);
        cells.extend(asked.iter().map(|(_, report)| figures(report, show)));
        rows.push(cells);
    };
    if asked.is_empty() {
        return rows;
    }
    add("(instructions, millions)", &|answers| (answers.instructions / 1_000_000).to_string());
    add("(opening to the first answer)", &|answers| format!("{:.0}", answers.first_answer_ms));
    let mut kinds: Vec<&str> = Vec::new();
    for program in &report.programs {
        let known = program.answers().into_iter().flat_map(|answers| answers.latencies.keys());
        kinds.extend(known.map(String::as_str));
    }
    kinds.sort_unstable();
    kinds.dedup();
    for kind in kinds {
        add(kind, &|answers| match answers.latencies.get(kind) {
            Some(latency) => format!("{:.1} / {:.0}", latency.median_ms, latency.worst_ms),
            None => "–".to_owned(),
        });
    }
    rows
}

fn native_ms(program: &ProgramReport) -> String {
    match program.figures(Mode::Native) {
        Some(figures) if figures.wall_ms < 20.0 => format!("{:.2}", figures.wall_ms),
        Some(figures) => format!("{:.0}", figures.wall_ms),
        None => "–".to_owned(),
    }
}

fn ratio(program: &ProgramReport, mode: Mode) -> String {
    match program.modes.get(&mode) {
        Some(ModeReport::Measured(figures)) if figures.wall_ratio.is_nan() => "–".to_owned(),
        Some(ModeReport::Measured(figures)) if figures.wall_ratio >= 100.0 => {
            format!("{:.0}", figures.wall_ratio)
        }
        Some(ModeReport::Measured(figures)) => format!("{:.2}", figures.wall_ratio),
        Some(ModeReport::Failed { .. }) => "FAILED".to_owned(),
        None => "–".to_owned(),
    }
}

/// A Markdown table; the first `left` columns are aligned left, the others right.
fn align(rows: &[Vec<String>], left: usize) -> String {
    let columns = rows[0].len();
    let width = |column: usize| {
        rows.iter().map(|cells| cells[column].chars().count()).max().unwrap_or(0).max(3)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for (number, cells) in rows.iter().enumerate() {
        for (column, cell) in cells.iter().enumerate() {
            let width = widths[column];
            text += &if column < left {
                format!("| {cell:width$} ")
            } else {
                format!("| {cell:>width$} ")
            };
        }
        text += "|\n";
        if number == 0 {
            for (column, width) in widths.iter().enumerate() {
                let dashes = "-".repeat(width - 1);
                text +=
                    &if column < left { format!("| {dashes}- ") } else { format!("| {dashes}: ") };
            }
            text += "|\n";
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queries::tests::answers;
    use crate::report::tests::{report, report_of};

    #[test]
    fn columns_line_up() {
        let rows = [row(["name", "ms"]), row(["a", "1.5"]), row(["longer", "–"])];
        let expected = "\
| name   |  ms |
| ------ | --: |
| a      | 1.5 |
| longer |   – |
";
        assert_eq!(align(&rows, 1), expected);
    }

    #[test]
    fn warm_and_cold_programs_have_their_tables() {
        let report = report(&[
            ("gzip", &[200.0, 220.0, 300.0, 400.0]),
            ("queens", &[100.0, 110.0, 150.0, -1.0]),
            ("sh-loop", &[200.0, 800.0, -1.0, 60_000.0]),
            ("true", &[0.5, 4.5, 5.5, 200.5]),
        ]);
        let expected = "\
Wall-clock time as a multiple of native, median of 3 (of 1 where a run takes over 10 s); what is stored in bits per guest instruction:

| program                           | group   | native ms |      run |   record | valgrind |       log |
| --------------------------------- | ------- | --------: | -------: | -------: | -------: | --------: |
| gzip                              | cpu     |       200 |     1.10 |     1.50 |     2.00 |     0.080 |
| queens                            | cpu     |       100 |     1.10 |     1.50 |   FAILED |     0.080 |
| **geometric mean, the eight (2)** |         |           | **1.10** | **1.50** |        – | **0.080** |
| sh-loop                           | process |       200 |     4.00 |   FAILED |      300 |         – |

Cold starts, milliseconds over native and multiple of it, median of 30:

| program | native ms | run +ms |  run | record +ms | record | valgrind +ms | valgrind |
| ------- | --------: | ------: | ---: | ---------: | -----: | -----------: | -------: |
| true    |      0.50 |    +4.0 | 9.00 |       +5.0 |  11.00 |       +200.0 |      401 |
";
        let text = render(&report);
        assert!(text.starts_with(expected), "{text}");
    }

    #[test]
    fn runs_that_were_not_repeated_are_mentioned() {
        let caption = |milliseconds: f64| {
            let text = render(&report(&[("gzip", &[100.0, 110.0, 150.0, milliseconds])]));
            text.lines().next().unwrap_or_default().to_owned()
        };
        assert!(caption(9_999.0).contains("median of 3; what is stored"));
        assert!(
            caption(10_001.0)
                .contains("median of 3 (of 1 where a run takes over 10 s); what is stored")
        );
    }

    #[test]
    fn questions_have_a_table_of_their_own() {
        let modes = [Mode::Native, Mode::Replay, Mode::Query];
        let mut report = report_of(
            &modes,
            &[("gzip", &[100.0, 150.0]), ("xz", &[100.0, 150.0]), ("cc1", &[100.0, 150.0])],
        );
        report.programs[0].answers = Some(Ok(answers(&[("registers", 1.25)])).into());
        report.programs[2].answers = Some(Err("diverged".to_owned()).into());
        let expected = "\
100 random questions of each kind about the longest process, milliseconds, median and worst, each kind at moments \
of its own:

| question                      |     gzip |    cc1 |
| ----------------------------- | -------: | -----: |
| (instructions, millions)      |     8230 | FAILED |
| (opening to the first answer) |      120 | FAILED |
| registers                     | 1.2 / 12 | FAILED |
";
        let text = render(&report);
        assert!(text.contains(expected), "{text}");
        assert!(
            text.contains("| native ms |   replay |\n"),
            "no column for the mode query: {text}"
        );
    }

    #[test]
    fn sizes_of_logs_keep_their_digits() {
        let sizes = [0.000_123, 0.001_23, 0.0123, 0.123, 1.23];
        assert_eq!(sizes.map(bits), ["0.00012", "0.0012", "0.012", "0.123", "1.23"]);
    }

    #[test]
    fn the_list_names_every_program() {
        let list = program_list(crate::programs::all());
        assert!(crate::programs::all().all(|program| list.contains(program.name)));
    }
}
