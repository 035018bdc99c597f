//! `retro x`: memory, unit by unit, as gdb's `x` shows it.

use anyhow::{Result, bail};
use retro_query::symbols::{Encoding, Format, FormatOptions, Scope, Type, Value as Typed};
use retro_query::{Cancel, InstructionText, State, Write};
use serde_json::{Value, json};

use super::frame::hex;
use super::question::{Question, stack_of, told};
use super::watched::address_of;
use crate::arguments::ExamineOptions;
use crate::dump::bytes::hexadecimal;
use crate::quantity::grouped;
use crate::quoting::printable;
use crate::{Completeness, place};

/// Bytes that are shown at most.
const BYTES_LIMIT: u64 = 1 << 20;

/// Instructions that are shown at most.
const INSTRUCTIONS_LIMIT: u64 = 10_000;

/// Characters of a string that are shown at most.
const STRING_LIMIT: u64 = 4096;

/// What is shown, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    count: u64,
    shown: Shown,
    /// Bytes of a unit.
    unit: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    /// Units or strings, in a format.
    As(Format),
    Instructions,
}

/// A unit of memory.
struct Item {
    address: u64,
    bytes: Vec<u8>,
    text: String,
    last_write: Option<Write>,
}

/// Prints memory.
pub fn examine(options: &ExamineOptions) -> Result<Completeness> {
    let (shape, expression) = parts(&options.words)?;
    let mut question = Question::new(&options.subject)?;
    let state = question.state()?;
    let stack = stack_of(&state, &options.view)?;
    let start = address_of(&state, &stack, options.view.frame, &expression)?;
    let items = stack.with_scope(options.view.frame, |scope| match shape.shown {
        Shown::Instructions => instructions(&state, start, shape.count, &question.cancel()),
        Shown::As(Format::Text) => strings(&state, scope, start, shape.count),
        Shown::As(format) => units(&state, scope, start, shape, format),
    });
    let mut items = items.map_err(told)??;
    if items.is_empty() {
        bail!("no memory is mapped at {start:#x} at time {}", grouped(question.moment.time));
    }
    if options.last_writes {
        for item in &mut items {
            let memory = item.address..item.address + item.bytes.len().max(1) as u64;
            item.last_write = question
                .run
                .last_write(question.moment, memory, &question.cancel())
                .map_err(told)?;
        }
    }
    match question.is_json {
        true => print_object(&mut question, options, shape, stack.thread, start, &items)?,
        false => {
            let pc = stack.frames().get(options.view.frame).map(|frame| frame.pc);
            print_lines(&mut question, options, shape, pc, &items)?
        }
    }
    question.output.flush()?;
    let is_text = shape.shown == Shown::As(Format::Text);
    let wanted = if is_text { items.len() as u64 } else { shape.count };
    if (items.len() as u64) < wanted {
        let end = items.last().map_or(start, |last| last.address + last.bytes.len() as u64);
        bail!("no memory is mapped at {end:#x}");
    }
    Ok(Completeness::Whole)
}

fn print_lines(
    question: &mut Question,
    options: &ExamineOptions,
    shape: Shape,
    pc: Option<u64>,
    items: &[Item],
) -> Result<()> {
    let in_line = match (options.last_writes, shape.shown, shape.unit) {
        (true, ..) | (_, Shown::Instructions | Shown::As(Format::Text), _) => 1,
        (_, Shown::As(Format::Address), _) | (.., 8) => 2,
        (.., 4) => 4,
        _ => 8,
    };
    for line in items.chunks(in_line) {
        let address = line[0].address;
        let named =
            question.run.symbols().place(question.moment.log, question.moment.time, address);
        let name = match named.function {
            Some(function) if function.offset > 0 => {
                format!(" <{}+{}>", function.name, function.offset)
            }
            Some(function) => format!(" <{}>", function.name),
            None => String::new(),
        };
        let mark = match shape.shown {
            Shown::Instructions if pc == Some(address) => "=> ",
            Shown::Instructions => "   ",
            Shown::As(_) => "",
        };
        let mut text = format!("{mark}{address:#x}{}:", printable(name.as_bytes()));
        for item in line {
            text.push_str("  ");
            text.push_str(&printable(item.text.as_bytes()));
        }
        if options.last_writes {
            let note = written(question, line[0].last_write.as_ref());
            text.push_str(&question.style.dim(&format!("  {note}")));
        }
        question.output.line(&text)?;
    }
    Ok(())
}

fn written(question: &Question, write: Option<&Write>) -> String {
    let Some(write) = write else { return "never written".to_string() };
    let place = question.run.symbols().place(question.moment.log, write.time, write.pc);
    format!("written at {} by {}", grouped(write.time), place::text(&place))
}

fn print_object(
    question: &mut Question,
    options: &ExamineOptions,
    shape: Shape,
    thread: u32,
    start: u64,
    items: &[Item],
) -> Result<()> {
    let item = |item: &Item| {
        let mut object = json!({
            "address": hex(item.address),
            "bytes": hexadecimal(&item.bytes, usize::MAX),
            "value": item.text,
        });
        if options.last_writes {
            object["last_write"] = item.last_write.as_ref().map(|write| write.time).into();
        }
        object
    };
    let object = json!({
        "log": question.moment.log,
        "time": question.moment.time,
        "thread": thread,
        "memory": hex(start),
        "unit": shape.unit,
        "items": items.iter().map(item).collect::<Vec<Value>>(),
    });
    question.object(&object)
}

/// Instructions from an address on, as far as memory goes.
fn instructions(state: &State, start: u64, count: u64, cancel: &Cancel) -> Result<Vec<Item>> {
    if count > INSTRUCTIONS_LIMIT {
        bail!("{count} instructions are more than are shown at once: at most {INSTRUCTIONS_LIMIT}");
    }
    let found = state.instructions(start, 0, count as usize, cancel).map_err(told)?;
    let item = |InstructionText { address, bytes, text, .. }: InstructionText| Item {
        address,
        bytes,
        text,
        last_write: None,
    };
    Ok(found.into_iter().map(item).collect())
}

/// Units from an address on, as far as memory goes.
fn units(
    state: &State,
    scope: &dyn Scope,
    start: u64,
    shape: Shape,
    format: Format,
) -> Result<Vec<Item>> {
    let length = shape.count.checked_mul(shape.unit).filter(|&length| length <= BYTES_LIMIT);
    let Some(length) = length else {
        bail!("{} units of {} bytes are more than are shown at once", shape.count, shape.unit)
    };
    let bytes = state.read(start, length).map_err(told)?;
    let encoding = match format {
        Format::Float if shape.unit >= 4 => Encoding::Float,
        Format::Character if shape.unit == 1 => Encoding::SignedChar,
        Format::Decimal => Encoding::Signed,
        _ => Encoding::Unsigned,
    };
    let ty = Type::base("", encoding, shape.unit);
    let format = match format {
        // Columns line up.
        Format::Hexadecimal => Format::Padded,
        other => other,
    };
    let options = FormatOptions { format: Some(format), types: false, ..FormatOptions::default() };
    let items = bytes.chunks_exact(shape.unit as usize).enumerate().map(|(index, bytes)| Item {
        address: start + index as u64 * shape.unit,
        text: Typed::computed(ty.clone(), bytes).format(scope, &options),
        bytes: bytes.to_vec(),
        last_write: None,
    });
    Ok(items.collect())
}

/// Strings, each behind the zero of the one before.
fn strings(state: &State, scope: &dyn Scope, start: u64, count: u64) -> Result<Vec<Item>> {
    let mut items = Vec::new();
    let mut address = start;
    let mut shown = 0;
    while (items.len() as u64) < count && shown < BYTES_LIMIT {
        let bytes = state.read(address, STRING_LIMIT).map_err(told)?;
        if bytes.is_empty() {
            break;
        }
        let end = bytes.iter().position(|&byte| byte == 0);
        let length = end.unwrap_or(bytes.len());
        let character = Type::base("char", Encoding::SignedChar, 1);
        let value = Typed::computed(character.array(length as u64), &bytes[..length]);
        let options =
            FormatOptions { elements: length.max(1), types: false, ..FormatOptions::default() };
        let text = if length == 0 { "\"\"".to_string() } else { value.format(scope, &options) };
        let more = if end.is_none() { "..." } else { "" };
        let taken = length + usize::from(end.is_some());
        items.push(Item {
            address,
            text: format!("{text}{more}"),
            bytes: bytes[..taken].to_vec(),
            last_write: None,
        });
        address += taken as u64;
        shown += taken as u64;
    }
    Ok(items)
}

/// The shape and the expression.
fn parts(words: &[String]) -> Result<(Shape, String)> {
    let (letters, words) = match words.split_first() {
        Some((first, rest)) if first.starts_with('/') => (&first[1..], rest),
        _ => ("", words),
    };
    if words.is_empty() {
        bail!("an address must follow the format");
    }
    Ok((shape(letters)?, words.join(" ")))
}

fn shape(text: &str) -> Result<Shape> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (count, letters) = text.split_at(digits);
    let wrong = || {
        anyhow::anyhow!(
            "no format `/{text}`: a count, one of x z d u o t c f a s i, and one of b h w g, as gdb has them"
        )
    };
    let count = if count.is_empty() { 1 } else { count.parse().map_err(|_| wrong())? };
    let (mut shown, mut unit) = (None, None);
    for letter in letters.chars() {
        let size = match letter {
            'b' => Some(1),
            'h' => Some(2),
            'w' => Some(4),
            'g' => Some(8),
            _ => None,
        };
        let is_new = match size {
            Some(_) => unit.replace(size).is_none(),
            None if letter == 'i' => shown.replace(Shown::Instructions).is_none(),
            None => {
                let format = Format::from_letter(letter).ok_or_else(wrong)?;
                shown.replace(Shown::As(format)).is_none()
            }
        };
        if !is_new {
            return Err(wrong());
        }
    }
    let shown = shown.unwrap_or(Shown::As(Format::Hexadecimal));
    let usual = match shown {
        Shown::Instructions | Shown::As(Format::Character | Format::Text) => 1,
        Shown::As(_) => 8,
    };
    let shape = Shape { count, shown, unit: unit.flatten().unwrap_or(usual) };
    if count == 0 {
        return Err(wrong());
    }
    Ok(shape)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_gdb_s() {
        for (text, count, format, unit) in [
            ("", 1, Format::Hexadecimal, 8),
            ("16xb", 16, Format::Hexadecimal, 1),
            ("4bx", 4, Format::Hexadecimal, 1),
            ("dw", 1, Format::Decimal, 4),
            ("3c", 3, Format::Character, 1),
            ("2s", 2, Format::Text, 1),
            ("2fw", 2, Format::Float, 4),
        ] {
            let shown = Shown::As(format);
            assert_eq!(shape(text).unwrap(), Shape { count, shown, unit }, "{text}");
        }
        let instructions = Shape { count: 5, shown: Shown::Instructions, unit: 1 };
        assert_eq!(shape("5i").unwrap(), instructions);
        for text in ["0x", "q", "xx", "ix", "bw", "x4", "99999999999999999999x", "é"] {
            assert!(shape(text).is_err(), "{text}");
        }
    }
}
