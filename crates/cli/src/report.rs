//! What `--stats` prints: every counter of the engine, and what they say together.

use std::fmt::Write;
use std::time::Duration;

use anyhow::Result;
use retro_abi::stats::Stats;
use serde::ser::{SerializeMap, Serializer};

use crate::quantity::grouped;

/// Counters of kinds of guest instructions, shown as shares of all of them.
const KINDS_OF_INSTRUCTION: [&str; 4] = ["memory_reads", "memory_writes", "calls", "returns"];

const EXITS: &str = "exits_";
const NANOSECONDS: &str = "_nanoseconds";

/// The counters of one run.
#[derive(Debug)]
pub struct Report {
    counters: Vec<(&'static str, u64)>,
    elapsed: Duration,
}

impl Report {
    /// Takes the counters of a run that lasted for `elapsed`.
    pub fn new(stats: &Stats, elapsed: Duration) -> Self {
        Self { counters: stats.values().to_vec(), elapsed }
    }

    /// One JSON object on one line: every counter by its name, and the run's duration.
    pub fn json(&self) -> Result<String> {
        let mut text = Vec::new();
        let mut serializer = serde_json::Serializer::new(&mut text);
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in &self.counters {
            map.serialize_entry(name, value)?;
        }
        map.serialize_entry("elapsed_nanoseconds", &(self.elapsed.as_nanos() as u64))?;
        map.end()?;
        Ok(String::from_utf8(text)?)
    }

    /// An aligned table, with the exits to the engine by cause at its end. Empty when nothing was
    /// counted: then the program was never started, and the reason is on the screen already.
    pub fn text(&self) -> String {
        if self.counters.iter().all(|&(_, value)| value == 0) {
            return String::new();
        }
        let mut rows = Vec::new();
        let instructions = self.value("guest_instructions");
        let nanoseconds = self.elapsed.as_nanos() as u64;
        for &(name, value) in self.counters.iter().filter(|(name, _)| !name.starts_with(EXITS)) {
            let label = name.trim_end_matches(NANOSECONDS).replace('_', " ");
            rows.push(if name.ends_with(NANOSECONDS) {
                let share = format!("{} of the run", percent(value, nanoseconds));
                Row::new(format!("time in the {label}"), milliseconds(value), share)
            } else if KINDS_OF_INSTRUCTION.contains(&name) {
                Row::new(format!("  {label}"), grouped(value), percent(value, instructions))
            } else if name == "cache_bytes" {
                let translated = self.value("instructions_translated");
                Row::new(label, grouped(value), ratio(value, translated, "per instruction"))
            } else {
                Row::new(label, grouped(value), String::new())
            });
        }
        let exits = || self.counters.iter().filter(|(name, _)| name.starts_with(EXITS));
        let all_exits = exits().map(|&(_, value)| value).sum();
        let interval = ratio(instructions, all_exits, "instructions apart");
        rows.push(Row::new("exits to the engine".into(), grouped(all_exits), interval));
        for (name, value) in exits() {
            let label = name.trim_start_matches(EXITS).replace('_', " ");
            rows.push(Row::new(format!("  {label}"), grouped(*value), percent(*value, all_exits)));
        }
        rows.push(Row::new("elapsed time".into(), milliseconds(nanoseconds), String::new()));
        aligned(&rows)
    }

    fn value(&self, wanted: &str) -> u64 {
        self.counters.iter().find(|(name, _)| *name == wanted).map_or(0, |&(_, value)| value)
    }
}

struct Row {
    label: String,
    value: String,
    note: String,
}

impl Row {
    fn new(label: String, value: String, note: String) -> Self {
        Self { label, value, note }
    }
}

fn aligned(rows: &[Row]) -> String {
    let widest = |of: fn(&Row) -> &String| rows.iter().map(|row| of(row).len()).max().unwrap_or(0);
    let (labels, values) = (widest(|row| &row.label), widest(|row| &row.value));
    let mut text = String::from("retro: what the engine counted\n");
    for Row { label, value, note } in rows {
        let line = format!("  {label:<labels$}  {value:>values$}  {note}");
        writeln!(text, "{}", line.trim_end()).expect("writing to a string succeeds");
    }
    text
}

fn milliseconds(nanoseconds: u64) -> String {
    let micros = nanoseconds / 1000;
    format!("{}.{:03} ms", grouped(micros / 1000), micros % 1000)
}

fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { String::new() } else { format!("{:5.1} %", 100.0 * part as f64 / whole as f64) }
}

fn ratio(part: u64, whole: u64, unit: &str) -> String {
    if whole == 0 { String::new() } else { format!("{:.1} {unit}", part as f64 / whole as f64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Report {
        let stats = Stats::default();
        Stats::add(&stats.guest_instructions, 1_234_567);
        Stats::add(&stats.memory_reads, 123_456);
        Stats::add(&stats.cache_bytes, 900);
        Stats::add(&stats.instructions_translated, 200);
        Stats::add(&stats.translator_nanoseconds, 1_500_000);
        Stats::add(&stats.exits_direct, 30);
        Stats::add(&stats.exits_syscall, 10);
        Report::new(&stats, Duration::from_millis(15))
    }

    #[test]
    fn times_are_grouped() {
        assert_eq!(milliseconds(1_234_567_890), "1,234.567 ms");
    }

    #[test]
    fn the_table_shows_shares_and_ratios() {
        let text = sample().text();
        let line = |label: &str| {
            let line = text.lines().find(|line| line.trim_start().starts_with(label));
            line.unwrap_or_else(|| panic!("no {label:?} in\n{text}")).split_whitespace()
        };
        assert!(line("guest instructions").eq(["guest", "instructions", "1,234,567"]));
        assert!(line("memory reads").eq(["memory", "reads", "123,456", "10.0", "%"]));
        assert!(line("cache bytes").eq(["cache", "bytes", "900", "4.5", "per", "instruction"]));
        assert!(line("time in the translator").any(|word| word == "10.0"));
        assert!(line("direct").eq(["direct", "30", "75.0", "%"]));
        assert!(line("exits to the engine").any(|word| word == "30864.2"));
        assert!(text.lines().all(|line| line == line.trim_end()), "{text}");
    }

    #[test]
    fn nothing_counted_prints_nothing() {
        assert_eq!(Report::new(&Stats::default(), Duration::ZERO).text(), "");
    }

    #[test]
    fn json_has_every_counter_in_order() {
        let json = sample().json().unwrap();
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        let object = value.as_object().unwrap();
        assert_eq!(object.len(), Stats::COUNT + 1);
        assert_eq!(object["guest_instructions"], 1_234_567);
        assert_eq!(object["elapsed_nanoseconds"], 15_000_000);
        assert!(json.starts_with("{\"guest_instructions\":"));
    }
}
