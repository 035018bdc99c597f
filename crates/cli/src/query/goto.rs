//! `retro goto`: to a moment that a query describes.

use anyhow::{Result, bail};
use retro_query::language::{Query, Value as Number};
use retro_query::{Found, FoundEvent, Goto, GotoContext, Writer};
use serde_json::{Map, Value, json};

use super::frame::hex;
use super::question::{Question, safe, told};
use super::{landing, last_result};
use crate::arguments::{GotoOptions, Limit};
use crate::dump::bytes::{described, hexadecimal};
use crate::dump::calls;
use crate::message::notify;
use crate::quoting::printable;
use crate::{Completeness, place, wording};

/// Bytes of a value that a line shows.
const BYTES_SHOWN: usize = 16;

/// Goes to a moment, or lists those that fit.
pub fn goto(options: &GotoOptions) -> Result<Completeness> {
    let text = options.words.join(" ");
    let query: Query = text
        .parse()
        .map_err(|error: retro_query::language::ParseError| safe(&error.to_string()))?;
    let mut question = Question::new(&options.subject)?;
    let context = GotoContext {
        log: question.moment.log,
        now: question.moment.time,
        last: question.last(),
        thread: options.view.thread,
        frame: options.view.frame,
    };
    match question.run.goto(&query, &context, &question.cancel()).map_err(told)? {
        Goto::Moment(moment) => landing::land(&mut question, moment, None)?,
        Goto::Found(Some(found)) => {
            let (moment, event) = (question.at(found.time), Told(&found));
            // A thread that ends or begins there may have no registers then.
            let thread =
                question.run.registers(moment, Some(found.thread)).ok().map(|_| found.thread);
            landing::show_with(
                &mut question,
                moment,
                thread,
                event.fields(),
                event.text().as_deref(),
            )?;
            last_result::write(question.run.recording(), moment);
        }
        Goto::Found(None) => bail!("there is no such moment: {}", printable(text.as_bytes())),
        Goto::All(matches) => list(&mut question, options, matches)?,
    }
    question.output.flush()?;
    Ok(Completeness::Whole)
}

fn list(
    question: &mut Question,
    options: &GotoOptions,
    matches: impl Iterator<Item = Result<Found, retro_query::Error>>,
) -> Result<()> {
    let most = Limit::most(options.limit);
    let mut shown = 0;
    for found in matches {
        let found = found.map_err(told)?;
        if shown == most {
            if options.limit.is_none() {
                notify(&format!("only the first {most} are shown; `--limit all` shows every one"));
            }
            break;
        }
        shown += 1;
        show(question, &found)?;
    }
    if shown == 0 {
        notify("nothing fits");
    }
    Ok(())
}

fn show(question: &mut Question, found: &Found) -> Result<()> {
    let Found { time, thread, pc, .. } = *found;
    let place = (pc != 0).then(|| question.run.symbols().place(question.moment.log, time, pc));
    if question.is_json {
        let mut object = landing::fields(question.at(time), thread);
        object.append(&mut Told(found).fields());
        let function = place.as_ref().and_then(|place| place.function.as_ref());
        let source = place.as_ref().and_then(|place| place.source.as_ref());
        object.insert("address".into(), (pc != 0).then(|| hex(pc)).into());
        object.insert("function".into(), function.map(|function| function.name.to_string()).into());
        object.insert("source".into(), source.map(|source| source.path.to_string()).into());
        object.insert("line".into(), source.map(|source| source.line).into());
        return question.object(&Value::Object(object));
    }
    let moment = question.style.dim(&format!("{time:>14} {thread:>7}"));
    let place = place.as_ref().map(place::text).unwrap_or_default();
    let event = Told(found).text().map(|event| format!("  {event}")).unwrap_or_default();
    Ok(question.output.line(&format!("{moment}  {place}{event}"))?)
}

/// What happens, for people and programs.
struct Told<'a>(&'a Found);

impl Told<'_> {
    /// What is not seen from where it is.
    fn text(&self) -> Option<String> {
        Some(match &self.0.event {
            FoundEvent::FunctionExit { result: Some(result) } => {
                format!("returns {}", number_text(result))
            }
            FoundEvent::Store { memory, old, new, by, old_value, new_value } => {
                let by = if *by == Writer::Kernel { " by the kernel" } else { "" };
                let value = |number: &Option<Number>, bytes: &[u8]| match number {
                    Some(number) => number_text(number),
                    None => described(bytes, BYTES_SHOWN),
                };
                let (old, new) = (value(old_value, old), value(new_value, new));
                format!("{:#x}: {old} -> {new}{by}", memory.start)
            }
            FoundEvent::Load { address, len } => format!("reads {len} bytes at {address:#x}"),
            FoundEvent::Syscall { number, args, result } => {
                let result =
                    result.map(|result| calls::result(Some(*number), result.cast_unsigned()));
                let result = result.map(|result| format!(" = {result}")).unwrap_or_default();
                format!("{}{result}", calls::call(*number, args))
            }
            FoundEvent::Signal { number, handler, .. } => {
                let action = if *handler == 0 { "ends the process" } else { "is handled" };
                format!("{} {action}", wording::signal(*number))
            }
            FoundEvent::Map(change) => {
                let kind = format!("{:?}", change.kind).to_lowercase();
                format!("{kind} {:#x}, {} bytes", change.start, change.len)
            }
            FoundEvent::ThreadStart => "the thread begins".to_string(),
            FoundEvent::ThreadEnd { code } => format!("the thread ends with {code}"),
            _ => return None,
        })
    }

    fn fields(&self) -> Map<String, Value> {
        let (kind, fields) = match &self.0.event {
            FoundEvent::FunctionEnter => ("func_enter", json!({})),
            FoundEvent::FunctionExit { result } => {
                ("func_exit", json!({ "result": result.as_ref().map(number_text) }))
            }
            FoundEvent::BlockEntry => ("block_entry", json!({})),
            FoundEvent::Instruction => ("instruction", json!({})),
            FoundEvent::Line => ("line", json!({})),
            FoundEvent::Store { memory, old, new, by, old_value, new_value } => (
                "store",
                json!({
                    "memory": hex(memory.start),
                    "size": memory.end - memory.start,
                    "old_bytes": hexadecimal(old, usize::MAX),
                    "new_bytes": hexadecimal(new, usize::MAX),
                    "old": old_value.as_ref().map(number_text),
                    "new": new_value.as_ref().map(number_text),
                    "kernel": *by == Writer::Kernel,
                }),
            ),
            FoundEvent::Load { address, len } => {
                ("load", json!({ "memory": hex(*address), "size": len }))
            }
            FoundEvent::Syscall { number, args, result } => {
                let arguments: Vec<String> = args.iter().map(|&value| hex(value)).collect();
                let fields = json!({
                    "number": number,
                    "name": calls::name(*number),
                    "arguments": arguments,
                    "result": result,
                });
                ("syscall", fields)
            }
            FoundEvent::Signal { number, synchronous, handler } => {
                let fields = json!({
                    "number": number,
                    "name": wording::signal(*number),
                    "synchronous": synchronous,
                    "handler": (*handler != 0).then(|| hex(*handler)),
                });
                ("signal", fields)
            }
            FoundEvent::Map(change) => {
                let fields = json!({
                    "change": format!("{:?}", change.kind).to_lowercase(),
                    "memory": hex(change.start),
                    "size": change.len,
                });
                ("map", fields)
            }
            FoundEvent::ThreadStart => ("thread_start", json!({})),
            FoundEvent::ThreadEnd { code } => ("thread_end", json!({ "code": code })),
        };
        let mut object = Map::new();
        object.insert("event".into(), kind.into());
        if let Value::Object(mut fields) = fields {
            object.append(&mut fields);
        }
        object
    }
}

fn number_text(number: &Number) -> String {
    match number {
        Number::Integer(integer) => integer.to_string(),
        Number::Float(float) => float.to_string(),
        Number::Text(text) => printable(text.as_bytes()),
    }
}
