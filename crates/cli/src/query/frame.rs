//! Frames of call stacks, as text and JSON.

use retro_query::symbols::Frame;
use retro_query::{Named, ThreadStack};
use retro_symbols::StackEnd;
use serde_json::{Map, Value, json};

use crate::quoting::printable;
use crate::style::Style;

/// A frame, as gdb shows them: `#1  0x401136 in set_owner (owner="x") at ledger.c:36`. The address is left out where a
/// line says more.
pub fn text(number: usize, frame: &Frame, arguments: Option<&[Named]>, style: Style) -> String {
    format!("#{number:<2} {}", place(frame, arguments, style))
}

/// The same without a number.
pub fn unnumbered(frame: &Frame, style: Style) -> String {
    place(frame, None, style)
}

fn place(frame: &Frame, arguments: Option<&[Named]>, style: Style) -> String {
    if frame.is_signal_frame {
        return "<signal handler called>".to_string();
    }
    let function = match &frame.function {
        Some(name) => style.bold(&printable(name.as_bytes())),
        None => "??".to_string(),
    };
    let arguments = match arguments {
        Some(arguments) => format!(" ({})", listed(arguments)),
        None => String::new(),
    };
    let (address, place) = match (&frame.source, &frame.module) {
        (Some(source), _) => {
            (String::new(), format!(" at {}", printable(source.to_string().as_bytes())))
        }
        (None, Some(module)) => {
            (format!("{:#x} in ", frame.pc), format!(" from {}", printable(module.name.as_bytes())))
        }
        (None, None) => (format!("{:#x} in ", frame.pc), String::new()),
    };
    let inlined = if frame.is_inlined { " [inlined]" } else { "" };
    let guessed = if frame.is_guessed { " [guessed]" } else { "" };
    format!("{address}{function}{arguments}{place}{}", style.dim(&format!("{inlined}{guessed}")))
}

/// `a=1, b=2`
pub fn listed(arguments: &[Named]) -> String {
    let shown: Vec<String> = (arguments.iter())
        .map(|argument| format!("{}={}", argument.name, argument.value))
        .map(|argument| printable(argument.as_bytes()))
        .collect();
    shown.join(", ")
}

/// Why a stack ends, if that is worth telling.
pub fn end(stack: &ThreadStack<'_>) -> Option<&'static str> {
    match stack.end() {
        StackEnd::Outermost => None,
        StackEnd::Cut => Some("(more frames follow; --limit shows them)"),
        StackEnd::Corrupt => Some("(the stack is corrupt here, or not one)"),
        StackEnd::Unknown => Some("(nothing says where the next frame is)"),
    }
}

/// Where code is, as fields of an object.
pub fn place_fields(frame: &Frame) -> Map<String, Value> {
    let mut fields = Map::new();
    fields.insert("address".into(), hex(frame.pc).into());
    if let Some(function) = &frame.function {
        fields.insert("function".into(), (**function).into());
    }
    if let Some(module) = &frame.module {
        fields.insert("module".into(), module.path.to_string_lossy().into());
    }
    if let Some(source) = &frame.source {
        fields.insert("source".into(), (*source.path).into());
        fields.insert("line".into(), source.line.into());
        fields.insert("column".into(), source.column.into());
    }
    fields
}

/// A frame as an object.
pub fn fields(number: usize, frame: &Frame) -> Map<String, Value> {
    let mut fields = Map::new();
    fields.insert("frame".into(), number.into());
    fields.append(&mut place_fields(frame));
    fields.insert("inlined".into(), frame.is_inlined.into());
    fields.insert("signal_frame".into(), frame.is_signal_frame.into());
    fields.insert("guessed".into(), frame.is_guessed.into());
    fields
}

/// Variables as objects.
pub fn variables(variables: &[Named]) -> Value {
    let object = |variable: &Named| {
        json!({
            "name": variable.name,
            "type": variable.type_name,
            "value": variable.value,
            "memory": variable.memory.as_ref().map(|memory| hex(memory.start)),
            "size": variable.memory.as_ref().map(|memory| memory.end - memory.start),
        })
    };
    variables.iter().map(object).collect()
}

/// All frames as objects.
pub fn all_fields(stack: &ThreadStack<'_>) -> Value {
    let frames = stack.frames().iter().enumerate();
    frames.map(|(number, frame)| Value::Object(fields(number, frame))).collect()
}

/// All frames as lines.
pub fn all_lines(stack: &ThreadStack<'_>, style: Style) -> Vec<String> {
    let frames = stack.frames().iter().enumerate();
    let mut lines: Vec<String> =
        frames.map(|(number, frame)| text(number, frame, None, style)).collect();
    lines.extend(end(stack).map(|note| style.dim(note)));
    lines
}

/// An address for programs.
pub fn hex(value: u64) -> String {
    format!("{value:#x}")
}
