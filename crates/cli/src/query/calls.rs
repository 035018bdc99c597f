//! `retro calls`: every call of a function.
//!
//! A call is an execution of a function's first instruction. Its frame ends where the index's call tree says; what was
//! returned is in registers then.

use anyhow::Result;
use retro_query::symbols::{
    Expression, FormatOptions, Frame, FrameContext, Kind, Type, UnknownEntry, Value as Typed,
};
use retro_query::{Error, Execution, Moment, Named, Run, ThreadStack};
use serde_json::{Value, json};

use super::question::{Question, told};
use super::{code, frame, landing, latest};
use crate::Completeness;
use crate::arguments::CallsOptions;
use crate::message::notify;
use crate::quoting::printable;

/// DWARF's number of the register that the stack pointer is.
const RSP: u16 = 7;

/// How much of a value a line shows.
fn brief() -> FormatOptions {
    FormatOptions { elements: 64, depth: 3, length: 400, types: false, ..FormatOptions::default() }
}

/// Lists calls.
pub fn calls(options: &CallsOptions) -> Result<Completeness> {
    let mut question = Question::new(&options.subject)?;
    let entries = code::entries(&question, &options.function)?;
    let thread = options.thread;
    let shown = latest::show(
        &mut question,
        &options.extent,
        |question, from, direction| {
            let from = question.at(from);
            let all = question
                .run
                .executions(from, direction, &entries, &question.cancel())
                .map_err(told)?;
            Ok(all.filter(move |execution| match (execution, thread) {
                (Ok(execution), Some(thread)) => execution.thread == thread,
                _ => true,
            }))
        },
        |execution| execution.time,
        show,
    )?;
    if shown == 0 {
        notify(&format!("{} was not called in that time", printable(options.function.as_bytes())));
    }
    Ok(Completeness::Whole)
}

fn show(question: &mut Question, execution: Execution) -> Result<()> {
    let call = Call::of(question, execution).map_err(told)?;
    if question.is_json { question.object(&call.object()) } else { call.print(question) }
}

/// A call, with all that is told of it.
struct Call {
    moment: Moment,
    thread: u32,
    function: Option<Frame>,
    caller: Option<Frame>,
    arguments: Vec<Named>,
    returned: Option<Returned>,
}

/// How a call ended.
struct Returned {
    /// The moment in front of the instruction that returns.
    moment: Moment,
    rax: u64,
    /// What was returned, and its type, if that is known and fits into registers.
    value: Option<(String, String)>,
}

impl Call {
    fn of(question: &Question, execution: Execution) -> Result<Call, Error> {
        let Execution { time, thread, .. } = execution;
        let (run, moment) = (&question.run, question.at(time));
        let state = run.state(moment)?;
        let stack = state.stack(Some(thread), 2)?;
        let function = stack.frames().first();
        let arguments = run.arguments_at(moment, thread, &brief())?;
        let result = result_type(&stack);
        let returned = match run.end_of_frame(moment, thread)? {
            Some(end) => Some(Returned::at(run, end, thread, result)?),
            None => None,
        };
        Ok(Call {
            moment,
            thread,
            function: function.cloned(),
            caller: stack.frames().get(1).cloned(),
            arguments,
            returned,
        })
    }

    fn object(&self) -> Value {
        let mut object = landing::fields(self.moment, self.thread);
        object.extend(self.function.iter().flat_map(frame::place_fields));
        let caller = self.caller.as_ref().map(|caller| Value::Object(frame::place_fields(caller)));
        object.insert("caller".into(), caller.into());
        object.insert("arguments".into(), frame::variables(&self.arguments));
        let returned = self.returned.as_ref().map(|returned| {
            let (type_name, value) =
                returned.value.as_ref().map(|(type_name, value)| (type_name, value)).unzip();
            json!({
                "time": returned.moment.time,
                "rax": frame::hex(returned.rax),
                "type": type_name,
                "value": value,
            })
        });
        object.insert("returned".into(), returned.into());
        Value::Object(object)
    }

    fn print(&self, question: &mut Question) -> Result<()> {
        let name = self
            .function
            .as_ref()
            .and_then(|function| function.function.as_deref())
            .unwrap_or("??");
        let name = question.style.bold(&printable(name.as_bytes()));
        let result = match &self.returned {
            None => " (did not return)".to_string(),
            Some(returned) => returned.text(),
        };
        let caller = self.caller.as_ref().map(|caller| {
            let place = match (&caller.source, &caller.module) {
                (Some(source), _) => format!(" at {source}"),
                (None, Some(module)) => format!(" from {}", module.name),
                (None, None) => format!(" at {:#x}", caller.pc),
            };
            let text = format!("  in {}{place}", caller.function.as_deref().unwrap_or("??"));
            question.style.dim(&printable(text.as_bytes()))
        });
        let (time, thread) = (self.moment.time, self.thread);
        let moment = question.style.dim(&format!("{time:>14} {thread:>7}"));
        let arguments = frame::listed(&self.arguments);
        let line = format!("{moment}  {name}({arguments}){result}{}", caller.unwrap_or_default());
        Ok(question.output.line(&line)?)
    }
}

impl Returned {
    fn at(run: &Run, end: Moment, thread: u32, result: Option<Type>) -> Result<Returned, Error> {
        let state = run.state(end)?;
        let registers = state.registers(Some(thread))?;
        let rax = registers.general[0];
        let pc = registers.pc();
        let machine = state.machine(registers);
        let value = result.and_then(|result| {
            let value = in_registers(&result, &machine)?;
            let context = FrameContext {
                log: end.log,
                time: end.time,
                pc,
                machine: &machine,
                cfa: retro_query::symbols::Machine::register(&machine, RSP),
                entry: &UnknownEntry,
                level: None,
            };
            let scope = run.symbols().scope(&context);
            Some((result.name().to_string(), value.format(&scope, &brief())))
        });
        Ok(Returned { moment: end, rax, value })
    }

    fn text(&self) -> String {
        match &self.value {
            Some((type_name, _)) if type_name == "void" => String::new(),
            Some((_, value)) => format!(" = {}", printable(value.as_bytes())),
            None => format!(" = {:#x}", self.rax),
        }
    }
}

/// What the function of the innermost frame returns, if debug information says it.
fn result_type(stack: &ThreadStack<'_>) -> Option<Type> {
    let function = stack.frames().first()?.clone();
    let name = Expression::parse(function.function.as_deref()?).ok()?;
    let found = stack.with_scope(0, |scope| name.evaluate(scope).ok()).ok()??;
    match found.ty.strip().kind() {
        // Another function of the same name may return something else.
        Kind::Function(signature) if found.address() == Some(function.pc) => {
            Some(signature.result.follow())
        }
        _ => None,
    }
}

/// A value of a type that is returned in one register.
fn in_registers(result: &Type, machine: &dyn retro_query::symbols::Machine) -> Option<Typed> {
    use retro_query::symbols::Encoding;
    const RAX: u16 = 0;
    let rax = || machine.register(RAX).map(u64::to_le_bytes);
    let size = usize::try_from(result.size().unwrap_or(0)).ok()?;
    match result.strip().kind() {
        Kind::Void => Some(Typed::computed(result.clone(), &[])),
        Kind::Base(Encoding::Float) if size == 4 || size == 8 => {
            Some(Typed::computed(result.clone(), &machine.vector(0)?[..size]))
        }
        Kind::Base(Encoding::Float | Encoding::ComplexFloat) => None,
        Kind::Base(_) | Kind::Pointer(_) | Kind::Reference(..) | Kind::Enumeration(_) => {
            Some(Typed::computed(result.clone(), rax()?.get(..size)?))
        }
        // Large ones are in memory, which the caller has named and the function names again.
        Kind::Record(_) if size > 16 => {
            Some(Typed::in_memory(result.clone(), u64::from_le_bytes(rax()?)))
        }
        _ => None,
    }
}
