//! `retro threads`: what each thread was doing.

use anyhow::Result;
use serde_json::Value;

use super::question::{Question, told};
use super::{frame, landing};
use crate::Completeness;
use crate::arguments::ThreadsOptions;
use crate::dump::calls;

/// Prints the threads, the one that runs first.
pub fn threads(options: &ThreadsOptions) -> Result<Completeness> {
    let mut question = Question::new(&options.subject)?;
    let state = question.state()?;
    let running = state.thread().map_err(told)?;
    for info in state.threads().map_err(told)? {
        let stack = state.stack(Some(info.thread), 1).map_err(told)?;
        let innermost = stack.frames().first();
        let syscall = info.in_syscall.map(|number| calls::name(number.into()));
        if question.is_json {
            let mut object = landing::fields(question.moment, info.thread);
            object.insert("running".into(), (info.thread == running).into());
            object.insert("syscall".into(), syscall.into());
            object.extend(innermost.map(frame::place_fields).into_iter().flatten());
            question.object(&Value::Object(object))?;
            continue;
        }
        let mark = if info.thread == running { '*' } else { ' ' };
        let place = innermost.map(|innermost| frame::unnumbered(innermost, question.style));
        let place = place.as_deref().unwrap_or("??");
        let syscall = syscall.map(|name| format!(", in {name}")).unwrap_or_default();
        question.output.line(&format!("{mark} {:>7}  {place}{syscall}", info.thread))?;
    }
    question.output.flush()?;
    Ok(Completeness::Whole)
}
