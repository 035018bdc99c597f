//! `retro source`: the lines around where a frame is.

use anyhow::{Result, bail};
use serde_json::{Value, json};

use super::question::{Question, safe, stack_of};
use super::source_lines::Listing;
use crate::Completeness;
use crate::arguments::SourceOptions;
use crate::message::notify;
use crate::quoting::printable;

/// Prints source lines.
pub fn source(options: &SourceOptions) -> Result<Completeness> {
    let mut question = Question::new(&options.subject)?;
    let state = question.state()?;
    let stack = stack_of(&state, &options.view)?;
    let frame = &stack.frames()[options.view.frame];
    let Some(listing) = Listing::of(&question.run, frame) else {
        let function = frame.function.as_deref().unwrap_or("the code here");
        let function = printable(function.as_bytes());
        bail!(
            "{function} has no line numbers at {:#x}: it was compiled without -g, or its debug information is not here; \
             `retro bt` shows frames that have some",
            frame.pc
        );
    };
    let listing = listing.map_err(|error| safe(&error.to_string()))?;
    let range = listing.range(options.lines);
    if question.is_json {
        let line = |number: u32| json!({ "line": number, "text": listing.text.line(number) });
        let object = json!({
            "log": question.moment.log,
            "time": question.moment.time,
            "thread": stack.thread,
            "frame": options.view.frame,
            "function": frame.function.as_deref(),
            "source": &*listing.source.path,
            "path": listing.text.path.to_string_lossy(),
            "line": listing.source.line,
            "column": listing.source.column,
            "changed": listing.is_newer,
            "lines": range.map(line).collect::<Vec<Value>>(),
        });
        question.object(&object)?;
        question.output.flush()?;
        return Ok(Completeness::Whole);
    }
    let path = printable(listing.text.path.as_os_str().as_encoded_bytes());
    if listing.is_newer {
        notify(&format!(
            "{path} was changed after the program was built: lines may not be those of the program"
        ));
    }
    if listing.source.line > listing.text.line_count() {
        bail!(
            "{path} has no line {}: it is not the file that the program was built from",
            listing.source.line
        );
    }
    let function =
        frame.function.as_deref().map(|name| format!(" in {}", printable(name.as_bytes())));
    let heading = format!("{path}:{}{}", listing.source.line, function.unwrap_or_default());
    question.output.line(&question.style.dim(&heading))?;
    for number in range {
        if let Some(line) = listing.line(number, question.style) {
            question.output.line(&line)?;
        }
    }
    question.output.flush()?;
    Ok(Completeness::Whole)
}
