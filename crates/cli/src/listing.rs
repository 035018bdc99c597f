//! `retro ls`: the recordings in the store, whatever state they are in.

use std::io::{self, IsTerminal};

use anyhow::{Context, Result};
use retro_recording::store::Entry;
use retro_recording::{Recording, State, Store};
use serde::Serialize;

use crate::arguments::LsOptions;
use crate::message::notify;
use crate::output::Output;
use crate::style::Style;
use crate::table::{Align, Table};
use crate::timestamp::Timestamp;
use crate::{Completeness, quantity, quoting, selection, wording};

/// Width of lines that go to no terminal; `--json` has everything.
const PIPE_WIDTH: usize = 200;

/// Lists the recordings.
pub fn list(options: &LsOptions) -> Result<Completeness> {
    let store = Store::from_environment()?;
    let rows: Vec<Row> = store.list()?.iter().map(Row::of).collect();
    let mut output = Output::new();
    if rows.is_empty() && !options.json {
        let root = quoting::printable(store.root().as_os_str().as_encoded_bytes());
        notify(&format!("no recordings in {root}: `retro record -- COMMAND` makes one"));
    } else if options.json {
        let text = serde_json::to_string_pretty(&rows).context("cannot make JSON")?;
        output.line(&text)?;
    } else {
        print_table(&rows, &mut output)?;
    }
    output.flush()?;
    Ok(Completeness::Whole)
}

/// What the list says of a recording.
#[derive(Debug, Serialize)]
struct Row {
    name: String,
    path: String,
    latest: bool,
    /// Whether the recorder is done: `finished`, `running`, `interrupted`; `unreadable` if nothing is known.
    state: &'static str,
    created_seconds: Option<u64>,
    created: Option<String>,
    command: Vec<String>,
    duration_nanoseconds: Option<u64>,
    instructions: Option<u64>,
    processes: Option<u64>,
    bytes: u64,
    ended: Option<String>,
    /// What is wrong with it.
    damage: Option<String>,
    #[serde(skip)]
    command_line: String,
}

impl Row {
    fn of(entry: &Entry) -> Row {
        let unread = Row {
            name: entry.name.clone(),
            path: entry.path.to_string_lossy().into_owned(),
            latest: entry.latest,
            state: "unreadable",
            created_seconds: None,
            created: None,
            command: Vec::new(),
            duration_nanoseconds: None,
            instructions: None,
            processes: None,
            bytes: selection::size_of(&entry.path),
            ended: None,
            damage: None,
            command_line: String::new(),
        };
        match Recording::open(&entry.path) {
            Err(error) => Row { damage: Some(error.to_string()), ..unread },
            Ok(recording) => unread.with(&recording),
        }
    }

    fn with(self, recording: &Recording) -> Row {
        let head = recording.head();
        let stopped = recording.end().and_then(|end| end.stopped.as_deref());
        let stopped = stopped.map(|reason| format!("recording stopped early: {reason}"));
        Row {
            state: wording::state(recording.state()),
            created_seconds: Some(head.created_seconds),
            created: Timestamp::local(head.created_seconds).map(Timestamp::to_rfc3339),
            command: head.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
            duration_nanoseconds: recording.end().map(|end| end.wall_nanoseconds),
            instructions: Some(selection::instructions_of(recording)),
            processes: Some(recording.processes().len() as u64),
            ended: Some(wording::recording_end(recording)),
            damage: recording.damage().map(ToString::to_string).or(stopped),
            command_line: quoting::command_line(&head.command),
            ..self
        }
    }

    fn cells(&self) -> [String; 8] {
        let unknown = || "-".to_string();
        let when = self.created_seconds.and_then(Timestamp::local).map(Timestamp::to_minutes);
        let duration = self.duration_nanoseconds.map(std::time::Duration::from_nanos);
        let trouble = self.damage.as_deref().unwrap_or_default();
        let trouble = if self.state == "unreadable" {
            format!("unreadable: {trouble}")
        } else {
            trouble.to_string()
        };
        let ended = self.ended.as_deref().unwrap_or_default();
        let separator = if trouble.is_empty() || ended.is_empty() { "" } else { "; " };
        [
            if self.latest { "*" } else { "" }.to_string(),
            quoting::printable(self.name.as_bytes()),
            when.unwrap_or_else(unknown),
            duration.map_or_else(unknown, quantity::duration),
            self.instructions.map_or_else(unknown, quantity::scaled),
            quantity::bytes(self.bytes),
            quoting::printable(format!("{ended}{separator}{trouble}").as_bytes()),
            self.command_line.clone(),
        ]
    }

    fn is_damaged(&self) -> bool {
        self.damage.is_some() || self.state == wording::state(State::Interrupted)
    }
}

fn print_table(rows: &[Row], output: &mut Output) -> Result<()> {
    use Align::{Left, Right};
    let mut table = Table::new(&[Left, Left, Left, Right, Right, Right, Left, Left]);
    table.row(["", "NAME", "WHEN", "TIME", "INSTRUCTIONS", "SIZE", "ENDED", "COMMAND"]);
    for row in rows {
        table.row(row.cells());
    }
    let style = Style::stdout();
    let width = terminal_width().unwrap_or(PIPE_WIDTH);
    for (index, line) in table.lines().iter().enumerate() {
        let line = quoting::shortened(line, width);
        let line = match index.checked_sub(1).map(|index| &rows[index]) {
            None => style.bold(&line),
            Some(row) if row.is_damaged() => style.alarming(&line),
            Some(_) => line,
        };
        output.line(&line)?;
    }
    Ok(())
}

/// Columns of the terminal that stdout is.
fn terminal_width() -> Option<usize> {
    if !io::stdout().is_terminal() {
        return None;
    }
    // SAFETY: all-zero bytes are a valid `winsize`.
    let mut size: libc::winsize = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is valid for the call, and nothing else is touched.
    let result = unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &mut size) };
    (result == 0 && size.ws_col >= 40).then_some(size.ws_col.into())
}
