//! Commands of our own (`monitor …`): what the protocol has no packets for. The commands that people type are in
//! `python/retro.py`, which is made of these.
//!
//! ```text
//! time                        the time, a number
//! span                        first and last time
//! when                        the same in words
//! seek TIME                   where the next resumption leads to: 123, 1.5M, 50%, start, end, last
//! last-write ADDRESS LENGTH   the write that made memory what it is: time thread pc
//! writes ADDRESS LENGTH N     the last N writes up to now: time thread pc, value before, value after
//! executions N ADDRESS …      the last N executions up to now, and the next: time thread pc
//! calls N ENTRY …             the same of functions: time thread address-in-the-caller, and the call in words
//! stepping ADDRESS …          a command that steps begins; where the user has breakpoints
//! stepping-out SLOT ADDRESS … the same, out of the frame whose return address lies somewhere
//! stepping-ends               it is over
//! goto QUERY                  the next resumption leads to where a query leads to
//! ```
//!
//! Answers are lines of words; what fails is one line that begins with `error:`.

use std::fmt::Write;

use retro_query::language::{Clock, Query, TimePoint};
use retro_query::symbols::FormatOptions;
use retro_query::{Cancel, Direction, Error, Execution};

use crate::debuggee::Debuggee;
use crate::own_frame::Step;
use crate::session::{Session, Sought};

const HELP: &str = "commands: time, span, when, seek TIME, last-write ADDRESS LENGTH, writes ADDRESS LENGTH COUNT, \
    executions COUNT ADDRESS..., calls COUNT ENTRY..., stepping ADDRESS..., stepping-out SLOT ADDRESS..., stepping-ends, goto QUERY\n";

/// Rows of a list.
const MOST_ROWS: usize = 100_000;

/// Answers a command with text.
pub fn answer(session: &mut Session, command: &str, cancel: &Cancel) -> String {
    let (name, rest) = command.trim().split_once(' ').unwrap_or((command.trim(), ""));
    let answered = match name {
        "time" => Ok(format!("{}\n", session.stop.time)),
        "span" => {
            let process = &session.debuggee.process;
            Ok(format!("{} {}\n", process.start, process.end))
        }
        "when" => Ok(when(session)),
        "seek" => seek(session, rest.trim()),
        "last-write" => last_write(session, rest, cancel),
        "writes" => writes(session, rest, cancel),
        "executions" => executions(session, rest, cancel),
        "calls" => calls(session, rest, cancel),
        "stepping" => stepping(session, rest.split_whitespace(), None),
        "stepping-out" => {
            let mut words = rest.split_whitespace();
            number(words.next()).and_then(|slot| stepping(session, words, Some(slot)))
        }
        "stepping-ends" => {
            session.points.step = None;
            Ok(String::new())
        }
        "goto" => goto(session, rest),
        _ => Ok(HELP.to_owned()),
    };
    answered.unwrap_or_else(|error| format!("error: {error}\n"))
}

fn when(session: &Session) -> String {
    let end = session.debuggee.process.end;
    let now = session.stop.time;
    let percent = if end == 0 { 100.0 } else { now as f64 * 100.0 / end as f64 };
    format!("time {now} of {end} ({percent:.3} %), thread {}\n", session.stop.thread)
}

/// The time that a word stands for.
fn time_of(session: &Session, word: &str) -> Result<u64, Error> {
    let process = &session.debuggee.process;
    let query: Query = word
        .parse()
        .map_err(|error: retro_query::language::ParseError| Error::Question(error.to_string()))?;
    let Query::Moment(point) = query else {
        return Err(Error::Question(format!("`{word}` is not a time")));
    };
    let clock =
        Clock { now: session.stop.time, last: session.last, end: session.debuggee.last_time() };
    let time = point
        .on(&clock)
        .ok_or_else(|| Error::Question("there is no last result yet".to_owned()))?;
    let is_relative = matches!(point, TimePoint::Start | TimePoint::Part(_));
    let time = if is_relative { time.max(process.start) } else { time };
    process.volume_of(time)?;
    Ok(time)
}

fn seek(session: &mut Session, word: &str) -> Result<String, Error> {
    let time = time_of(session, word)?;
    session.sought = Some(Sought::Time(time));
    Ok(format!("{time}\n"))
}

fn number(word: Option<&str>) -> Result<u64, Error> {
    let word = word.ok_or_else(|| Error::Question("a number is missing".to_owned()))?;
    let parsed = match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => word.parse(),
    };
    parsed.map_err(|_| Error::Question(format!("`{word}` is not a number")))
}

/// Address and length.
fn memory<'a>(words: &mut impl Iterator<Item = &'a str>) -> Result<std::ops::Range<u64>, Error> {
    let (address, len) = (number(words.next())?, number(words.next())?);
    Ok(address..address.saturating_add(len))
}

fn last_write(session: &mut Session, rest: &str, cancel: &Cancel) -> Result<String, Error> {
    let memory = memory(&mut rest.split_whitespace())?;
    let here = session.debuggee.at(session.stop.time);
    let found = session.debuggee.run.last_write(here, memory, cancel)?;
    let Some(write) = found else { return Ok("none\n".to_owned()) };
    session.last = Some(write.time);
    Ok(format!("{} {} {:#x}\n", write.time, write.thread, write.pc))
}

fn writes(session: &mut Session, rest: &str, cancel: &Cancel) -> Result<String, Error> {
    let mut words = rest.split_whitespace();
    let memory = memory(&mut words)?;
    let count = (number(words.next())? as usize).min(MOST_ROWS);
    let debuggee = &session.debuggee;
    let here = debuggee.at(session.stop.time);
    let found = debuggee.run.writes(here, Direction::Backward, memory.clone(), cancel)?;
    let mut found = found.take(count).collect::<Result<Vec<_>, _>>()?;
    found.reverse();
    let len = memory.end - memory.start;
    let mut text = String::new();
    for write in found {
        cancel.check()?;
        let before = debuggee.run.memory(debuggee.at(write.time), memory.start, len)?;
        let after = write.applied_to(memory.start, &before);
        let digits =
            |bytes: &[u8]| String::from_utf8(crate::hex::encoded(bytes)).unwrap_or_default();
        let _ = writeln!(
            text,
            "{} {} {:#x} {} {}",
            write.time,
            write.thread,
            write.pc,
            digits(&before),
            digits(&after)
        );
    }
    Ok(text)
}

/// The last executions up to now and the next ones, in the order of time.
fn around_now(session: &Session, rest: &str, cancel: &Cancel) -> Result<Vec<Execution>, Error> {
    let mut words = rest.split_whitespace();
    let count = (number(words.next())? as usize).min(MOST_ROWS);
    let addresses = words.map(|word| number(Some(word))).collect::<Result<Vec<_>, _>>()?;
    let Debuggee { run, .. } = &session.debuggee;
    let here = session.debuggee.at(session.stop.time);
    let before = run.executions(here, Direction::Backward, &addresses, cancel)?;
    let mut found = before.take(count).collect::<Result<Vec<_>, _>>()?;
    found.reverse();
    let after = run.executions(here, Direction::Forward, &addresses, cancel)?;
    for hit in after.take(count) {
        found.push(hit?);
    }
    Ok(found)
}

fn executions(session: &mut Session, rest: &str, cancel: &Cancel) -> Result<String, Error> {
    let mut text = String::new();
    for hit in around_now(session, rest, cancel)? {
        let _ = writeln!(text, "{} {} {:#x}", hit.time, hit.thread, hit.pc);
    }
    Ok(text)
}

fn calls(session: &mut Session, rest: &str, cancel: &Cancel) -> Result<String, Error> {
    let format = FormatOptions { elements: 64, depth: 3, length: 400, ..FormatOptions::default() };
    let mut text = String::new();
    for hit in around_now(session, rest, cancel)? {
        cancel.check()?;
        let Debuggee { run, .. } = &session.debuggee;
        let call = run.call_details(session.debuggee.at(hit.time), hit.thread, &format)?;
        let caller = call.caller.as_ref().map_or(0, |caller| caller.lookup);
        let words: String = call.text().chars().map(without_control).collect();
        let _ = writeln!(text, "{} {} {caller:#x} {words}", hit.time, hit.thread);
    }
    Ok(text)
}

/// What a character is on one line.
fn without_control(character: char) -> char {
    if character.is_control() { '?' } else { character }
}

fn stepping<'a>(
    session: &mut Session,
    addresses: impl Iterator<Item = &'a str>,
    leaves: Option<u64>,
) -> Result<String, Error> {
    let of_user = addresses.map(|word| number(Some(word))).collect::<Result<_, _>>()?;
    session.points.step = Some(Step { of_user, leaves, ..Step::default() });
    Ok(String::new())
}

fn goto(session: &mut Session, rest: &str) -> Result<String, Error> {
    let query: Query = rest
        .parse()
        .map_err(|error: retro_query::language::ParseError| Error::Question(error.to_string()))?;
    session.sought = Some(Sought::Query(query));
    Ok(String::new())
}
