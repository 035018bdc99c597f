//! A call with all that is told of it: who called, with what, and what came back.
//!
//! A call is an execution of a function's first instruction. Its frame ends where the index's call tree says; what was
//! returned is in registers then.

use retro_symbols::{
    Encoding, Expression, FormatOptions, Frame, FrameContext, Kind, Machine, Type, UnknownEntry,
    Value,
};

use crate::frames::{Named, ThreadStack};
use crate::run::Run;
use crate::{Error, Moment};

/// DWARF's number of the stack pointer.
const RSP: u16 = 7;

/// DWARF's number of the register with results.
const RAX: u16 = 0;

/// Bytes of a record that is returned in registers; larger ones are in memory.
const IN_REGISTERS: usize = 16;

/// A call.
#[derive(Clone, Debug)]
pub struct CallDetails {
    /// The moment in front of the function's first instruction.
    pub moment: Moment,
    /// The thread.
    pub thread: u32,
    /// The function.
    pub function: Option<Frame>,
    /// Who called it.
    pub caller: Option<Frame>,
    /// What it was given.
    pub arguments: Vec<Named>,
    /// How it ended, if it did.
    pub returned: Option<Returned>,
}

/// How a call ended.
#[derive(Clone, Debug)]
pub struct Returned {
    /// The moment in front of the instruction that returns.
    pub moment: Moment,
    /// The register that most results are in.
    pub rax: u64,
    /// The type of what was returned, and its value, if that is known and fits into registers.
    pub value: Option<(String, String)>,
}

impl Returned {
    /// The result for people; none of a function that returns nothing.
    pub fn text(&self) -> Option<String> {
        match &self.value {
            Some((type_name, _)) if type_name == "void" => None,
            Some((_, value)) => Some(value.clone()),
            None => Some(format!("{:#x}", self.rax)),
        }
    }
}

impl CallDetails {
    /// `transfer(from=1, to=2) = 5`, as far as it is known; not quoted.
    pub fn text(&self) -> String {
        let named = |argument: &Named| format!("{}={}", argument.name, argument.value);
        let arguments: Vec<String> = self.arguments.iter().map(named).collect();
        let result = match &self.returned {
            None => " (did not return)".to_owned(),
            Some(returned) => returned.text().map(|text| format!(" = {text}")).unwrap_or_default(),
        };
        format!("{}({}){result}", self.name(), arguments.join(", "))
    }

    /// The function's name.
    pub fn name(&self) -> &str {
        let function = self.function.as_ref();
        function.and_then(|function| function.function.as_deref()).unwrap_or("??")
    }
}

impl Run {
    /// The call whose function's first instruction a thread is about to execute.
    pub fn call_details(
        &self,
        entry: Moment,
        thread: u32,
        format: &FormatOptions,
    ) -> Result<CallDetails, Error> {
        let state = self.state(entry)?;
        let stack = state.stack(Some(thread), 2)?;
        let result = result_type(&stack);
        let (function, caller) = (stack.frames().first().cloned(), stack.frames().get(1).cloned());
        let arguments = self.arguments_at(entry, thread, format)?;
        let returned = match self.end_of_frame(entry, thread)? {
            Some(end) => Some(self.returned(end, thread, result, format)?),
            None => None,
        };
        Ok(CallDetails { moment: entry, thread, function, caller, arguments, returned })
    }

    fn returned(
        &self,
        end: Moment,
        thread: u32,
        result: Option<Type>,
        format: &FormatOptions,
    ) -> Result<Returned, Error> {
        let state = self.state(end)?;
        let registers = state.registers(Some(thread))?;
        let rax = registers.general[0];
        let pc = registers.pc();
        let machine = state.machine(registers);
        let value = result.and_then(|result| {
            let value = returned_value(&result, &machine)?;
            let context = FrameContext {
                log: end.log,
                time: end.time,
                pc,
                machine: &machine,
                cfa: machine.register(RSP),
                entry: &UnknownEntry,
                level: None,
            };
            let scope = self.symbols().scope(&context);
            Some((result.name().to_string(), value.format(&scope, format)))
        });
        Ok(Returned { moment: end, rax, value })
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

/// A value of a type where the calling convention puts what a function returns; none if it is spread over registers.
pub fn returned_value(result: &Type, machine: &dyn Machine) -> Option<Value> {
    let rax = || machine.register(RAX).map(u64::to_le_bytes);
    let size = usize::try_from(result.size().unwrap_or(0)).ok()?;
    match result.strip().kind() {
        Kind::Void => Some(Value::computed(result.clone(), &[])),
        Kind::Base(Encoding::Float) if size == 4 || size == 8 => {
            Some(Value::computed(result.clone(), &machine.vector(0)?[..size]))
        }
        // Wider ones are in registers of the x87.
        Kind::Base(Encoding::Float | Encoding::ComplexFloat) | Kind::Array { .. } => None,
        // Large ones are in memory, which the caller has named and the function names again.
        Kind::Record(_) if size > IN_REGISTERS => {
            Some(Value::in_memory(result.clone(), u64::from_le_bytes(rax()?)))
        }
        Kind::Record(_) => None,
        _ => Some(Value::computed(result.clone(), rax()?.get(..size)?)),
    }
}
