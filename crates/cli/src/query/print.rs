//! `retro print`: the value of an expression.

use anyhow::{Result, bail};
use retro_query::symbols::{Format, FormatOptions, Tree, TreeOptions};
use serde_json::{Value, json};

use super::frame::hex;
use super::question::{Question, stack_of, told};
use crate::Completeness;
use crate::arguments::PrintOptions;
use crate::quantity::grouped;
use crate::quoting::printable;

/// Prints a value.
pub fn print(options: &PrintOptions) -> Result<Completeness> {
    let (format, expression) = parts(&options.words)?;
    let mut question = Question::new(&options.subject)?;
    let state = question.state()?;
    let stack = stack_of(&state, &options.view)?;
    let raw = options.raw;
    let text =
        FormatOptions { format, raw, elements: options.elements, ..FormatOptions::default() };
    let parts = TreeOptions { levels: usize::from(question.is_json), ..TreeOptions::default() };
    let value = stack.evaluate(options.view.frame, &expression, &text, &parts).map_err(told)?;
    if let Some(memory) = value.memory.as_ref().filter(|memory| !memory.is_empty())
        && state.read(memory.start, 1).map_err(told)?.is_empty()
    {
        let (start, time) = (memory.start, grouped(question.moment.time));
        bail!("no memory is mapped at {start:#x} at time {time}");
    }
    if question.is_json {
        let object = json!({
            "log": question.moment.log,
            "time": question.moment.time,
            "thread": stack.thread,
            "frame": options.view.frame,
            "expression": expression,
            "type": value.type_name,
            "value": value.text,
            "memory": value.memory.as_ref().map(|memory| hex(memory.start)),
            "size": value.memory.as_ref().map(|memory| memory.end - memory.start),
            "parts": value.tree.children.iter().map(part).collect::<Vec<_>>(),
            "part_count": value.tree.child_count,
        });
        question.object(&object)?;
    } else {
        question.output.line(&printable(value.text.as_bytes()))?;
    }
    question.output.flush()?;
    Ok(Completeness::Whole)
}

fn part(tree: &Tree) -> Value {
    json!({
        "name": tree.name,
        "type": *tree.type_name,
        "value": tree.text,
        "memory": tree.address.map(hex),
        "size": tree.size,
    })
}

/// The format and the expression.
fn parts(words: &[String]) -> Result<(Option<Format>, String)> {
    let (format, words) = match words.split_first() {
        Some((first, rest)) if first.starts_with('/') => (Some(&first[1..]), rest),
        _ => (None, words),
    };
    let format = match format {
        None => None,
        Some(letters) => {
            match (letters.chars().next().and_then(Format::from_letter), letters.len()) {
                (Some(format), 1) => Some(format),
                _ => bail!("no format `/{letters}`: one of x z d u o t c f s a, as gdb has them"),
            }
        }
    };
    if words.is_empty() {
        bail!("an expression must follow the format");
    }
    Ok((format, words.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(words: &[&str]) -> Result<(Option<Format>, String)> {
        parts(&words.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn a_format_may_come_first() {
        assert_eq!(split(&["a", "+", "b"]).unwrap(), (None, "a + b".to_string()));
        assert_eq!(split(&["/x", "a"]).unwrap(), (Some(Format::Hexadecimal), "a".to_string()));
        for wrong in [&["/x"][..], &["/q", "a"], &["/xd", "a"], &["/", "a"], &["/é", "a"]] {
            assert!(split(wrong).is_err(), "{wrong:?}");
        }
    }
}
