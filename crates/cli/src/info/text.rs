//! What `retro info` prints for people.

use std::time::Duration;

use super::facts::Facts;
use super::processes::ProcessFacts;
use crate::index::facts::IndexFacts;
use crate::index::wording;
use crate::quantity::{self, grouped};
use crate::quoting::{command_line, printable, shortened};
use crate::style::Style;
use crate::table::{Align, Table};
use crate::timestamp::Timestamp;

/// Processes and system calls that are shown if not all are asked for.
const SHOWN: usize = 40;

/// Levels of processes that are still indented.
const INDENTED: usize = 16;

/// Longest command line of a process.
const COMMAND_WIDTH: usize = 100;

/// The whole text.
pub fn text(facts: &Facts, all: bool, style: Style) -> String {
    let mut text = Text { lines: Vec::new(), style, shown: if all { usize::MAX } else { SHOWN } };
    text.overview(facts);
    text.processes(&facts.processes);
    text.counts("system calls", &sorted(facts.syscalls.iter()));
    text.counts("signals", &sorted(facts.signals.iter()));
    text.kinds(facts);
    text.lines.join("\n") + "\n"
}

struct Text {
    lines: Vec<String>,
    style: Style,
    shown: usize,
}

impl Text {
    fn heading(&mut self, heading: &str) {
        self.lines.push(String::new());
        self.lines.push(self.style.bold(heading));
    }

    fn table(&mut self, table: &Table) {
        self.lines.extend(table.lines().into_iter().map(|line| format!("  {line}")));
    }

    fn more(&mut self, count: usize) {
        if count > 0 {
            let count = grouped(count as u64);
            self.lines.push(self.style.dim(&format!("  ... and {count} more: --all shows them")));
        }
    }

    fn overview(&mut self, facts: &Facts) {
        self.lines.push(self.style.bold(&printable(facts.name.as_bytes())));
        let mut table = Table::new(&[Align::Left, Align::Left]);
        let mut row = |label: &str, value: String| {
            if !value.is_empty() {
                table.row([label, &value]);
            }
        };
        row("command", command_line(&facts.command));
        row("program", printable(facts.program.as_bytes()));
        row("directory", printable(facts.directory.as_bytes()));
        row("path", printable(facts.path.as_bytes()));
        let when = Timestamp::local(facts.created_seconds).map(Timestamp::to_seconds);
        row("recorded", when.unwrap_or_default());
        let duration = facts.duration_nanoseconds.map(Duration::from_nanos);
        row("duration", duration.map(quantity::duration).unwrap_or_default());
        row("ended", facts.ended.clone());
        row("machine", printable(machine(facts).as_bytes()));
        row("retro", printable(facts.retro_version.as_bytes()));
        row("options", options(facts));
        row("processes", processes_and_threads(facts));
        row("instructions", grouped(facts.instructions));
        row("log", log(facts));
        if facts.bytes != facts.log.bytes {
            row("size", format!("{} with the files", quantity::bytes(facts.bytes)));
        }
        row("index", index(&facts.index));
        let stopped = facts.stopped.as_deref().unwrap_or_default();
        let mut incomplete = printable(stopped.as_bytes());
        if let Some(recorded) = facts.recorded_instructions {
            incomplete += &format!("; {} instructions are in the log", grouped(recorded));
        }
        row("incomplete", incomplete);
        let damage = facts.damage.as_deref().unwrap_or_default();
        row("damage", printable(damage.as_bytes()));
        self.table(&table);
    }

    fn processes(&mut self, processes: &[ProcessFacts]) {
        if processes.is_empty() {
            return;
        }
        self.heading("processes");
        use Align::{Left, Right};
        let mut table = Table::new(&[Right, Right, Right, Right, Right, Right, Left, Left]);
        let headings =
            ["LOG", "PID", "INSTRUCTIONS", "THREADS", "INTERVALS", "LOG SIZE", "ENDED", "PROGRAM"];
        table.row(headings);
        for (depth, process) in tree(processes).into_iter().take(self.shown) {
            let incomplete = if process.complete { "" } else { ", not summed up" };
            table.row([
                process.log.to_string(),
                process.pid.to_string(),
                grouped(process.instructions),
                grouped(process.threads),
                grouped(process.intervals),
                quantity::bytes(process.log_bytes),
                format!("{}{incomplete}", process.ended),
                format!("{}{}", "  ".repeat(depth.min(INDENTED)), program(process)),
            ]);
        }
        self.table(&table);
        self.more(processes.len().saturating_sub(self.shown));
    }

    fn counts(&mut self, heading: &str, counts: &[(&String, u64)]) {
        if counts.is_empty() {
            return;
        }
        self.heading(heading);
        let mut table = Table::new(&[Align::Left, Align::Right]);
        for (name, count) in counts.iter().take(self.shown) {
            table.row([(*name).clone(), grouped(*count)]);
        }
        self.table(&table);
        self.more(counts.len().saturating_sub(self.shown));
    }

    fn kinds(&mut self, facts: &Facts) {
        if facts.log.kinds.is_empty() {
            return;
        }
        self.heading("log, before compression");
        use Align::{Left, Right};
        let mut table = Table::new(&[Left, Right, Right, Right]);
        table.row(["KIND", "EVENTS", "BYTES", "SHARE"]);
        let mut kinds: Vec<_> = facts.log.kinds.iter().collect();
        kinds.sort_by_key(|kind| std::cmp::Reverse(kind.bytes));
        for kind in kinds {
            let share = 100.0 * kind.bytes as f64 / facts.log.raw_bytes.max(1) as f64;
            table.row([
                kind.kind.to_string(),
                grouped(kind.events),
                grouped(kind.bytes),
                format!("{share:.1} %"),
            ]);
        }
        self.table(&table);
    }
}

fn machine(facts: &Facts) -> String {
    let machine = &facts.machine;
    let kernel =
        if machine.kernel.is_empty() { String::new() } else { format!("Linux {}", machine.kernel) };
    let parts = [machine.host.clone(), kernel, machine.cpu_model.clone()];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
}

fn options(facts: &Facts) -> String {
    let options = &facts.options;
    let mut parts = Vec::new();
    if let Some(interval) = options.interval {
        parts.push(format!("intervals of {} instructions", grouped(interval)));
    }
    if let Some(seed) = options.chaos_seed {
        parts.push(format!("chaos seed {seed}"));
    }
    if !options.follow {
        parts.push("children not recorded".to_string());
    }
    parts.join(", ")
}

fn processes_and_threads(facts: &Facts) -> String {
    let executed = facts.processes.iter().filter(|process| process.origin == Some("exec")).count();
    let processes = (facts.processes.len() - executed) as u64;
    let mut parts = vec![quantity::counted(processes, "process", "processes")];
    if executed > 0 {
        let programs = facts.processes.len() as u64;
        parts.push(quantity::counted(programs, "program", "programs"));
    }
    parts.push(quantity::counted(facts.threads, "thread", "threads"));
    parts.push(quantity::counted(facts.intervals, "interval", "intervals"));
    if facts.unrecorded_processes > 0 {
        let mut text = format!("{} more ran unrecorded", grouped(facts.unrecorded_processes));
        for (why, count) in &facts.unrecorded_reasons {
            text += &format!(" ({count}: {why})");
        }
        parts.push(text);
    }
    parts.join(", ")
}

fn log(facts: &Facts) -> String {
    let bits = match facts.log.bits_per_instruction {
        Some(bits) => format!(", {bits:.4} bits per instruction"),
        None => String::new(),
    };
    let events = quantity::counted(facts.log.events, "event", "events");
    format!("{} on disk, {events}{bits}", quantity::bytes(facts.log.bytes))
}

fn index(facts: &IndexFacts) -> String {
    if facts.bytes == 0 && !facts.building {
        return "none: `retro index` builds it".to_string();
    }
    wording::summary(facts, None)
}

fn program(process: &ProcessFacts) -> String {
    let command = if process.arguments.is_empty() {
        printable(process.program.as_bytes())
    } else {
        command_line(&process.arguments)
    };
    let how = match process.origin {
        Some("fork") if process.copy => "(copy) ",
        Some("exec") => "(executed) ",
        _ => "",
    };
    shortened(&format!("{how}{command}"), COMMAND_WIDTH)
}

/// The most frequent first.
fn sorted<'a>(counts: impl Iterator<Item = (&'a String, &'a u64)>) -> Vec<(&'a String, u64)> {
    let mut counts: Vec<(&String, u64)> = counts.map(|(name, &count)| (name, count)).collect();
    counts.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    counts
}

/// Each process with its depth, parents before their children. Parents have lower numbers than their children,
/// so that there are no circles; whoever has none that is known is at the top.
fn tree(processes: &[ProcessFacts]) -> Vec<(usize, &ProcessFacts)> {
    let index_of = |log: u64| processes.binary_search_by_key(&log, |process| process.log).ok();
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); processes.len()];
    let mut pending = Vec::new();
    for (index, process) in processes.iter().enumerate() {
        match process.parent.and_then(index_of).filter(|&parent| parent < index) {
            Some(parent) => children[parent].push(index),
            None => pending.push((0, index)),
        }
    }
    pending.reverse();
    let mut ordered = Vec::new();
    // A stack of its own: chains of processes may be longer than that of this thread bears.
    while let Some((depth, index)) = pending.pop() {
        ordered.push((depth, &processes[index]));
        pending.extend(children[index].iter().rev().map(|&child| (depth + 1, child)));
    }
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(log: u64, parent: Option<u64>) -> ProcessFacts {
        ProcessFacts { log, parent, ..ProcessFacts::default() }
    }

    #[test]
    fn every_process_is_shown_once_below_its_parent() {
        let parents = [None, Some(0), Some(1), Some(0), Some(7), Some(5), None];
        let processes: Vec<_> =
            (0..).zip(parents).map(|(log, parent)| process(log, parent)).collect();
        let shown: Vec<_> = tree(&processes).iter().map(|(depth, p)| (*depth, p.log)).collect();
        // Log 4 has an unknown parent; log 5 is its own.
        assert_eq!(shown, [(0, 0), (1, 1), (2, 2), (1, 3), (0, 4), (0, 5), (0, 6)]);
    }

    #[test]
    fn long_chains_need_no_stack() {
        let processes: Vec<_> =
            (0..100_000).map(|log: u64| process(log, log.checked_sub(1))).collect();
        assert_eq!(tree(&processes).last().map(|(depth, _)| *depth), Some(99_999));
    }
}
