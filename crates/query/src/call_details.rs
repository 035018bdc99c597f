//! A call with all that is told of it: who called, with what, and what came back.
//!
//! A call is an execution of a function's first instruction. Its frame ends where the index's call tree says; what was
//! returned is in registers then.

use retro_symbols::{
    FormatOptions, Frame, FrameContext, Machine, Type, UnknownEntry, returned_value,
};

use crate::frames::Named;
use crate::run::Run;
use crate::{Error, Moment};

/// DWARF's number of the stack pointer.
const RSP: u16 = 7;

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
    /// How it returned, if it did.
    pub returned: Option<Returned>,
}

/// How a call returned.
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
        let (result, function, caller) = {
            // Only as long as it is needed: its replay is the one that the further questions go on with.
            let state = self.state(entry)?;
            let stack = state.stack(Some(thread), 2)?;
            let result = stack.with_scope(0, |scope| scope.result_type())?;
            (result, stack.frames().first().cloned(), stack.frames().get(1).cloned())
        };
        let arguments = self.arguments_at(entry, thread, format)?;
        let returned = match self.end_of_frame(entry, thread)? {
            Some(end) if self.returns_to_caller(entry, end, thread)? => {
                Some(self.returned(end, thread, result, format)?)
            }
            _ => None,
        };
        Ok(CallDetails { moment: entry, thread, function, caller, arguments, returned })
    }

    /// Whether a function returns where its frame ends. An exception or `longjmp` that leaves the frame does so by an
    /// instruction of somebody else: further up the stack, or to another place in the caller.
    pub fn returns_to_caller(
        &self,
        entry: Moment,
        end: Moment,
        thread: u32,
    ) -> Result<bool, Error> {
        let top_of_stack = |moment: Moment| -> Result<(u64, Vec<u8>), Error> {
            let state = self.state(moment)?;
            let machine = state.machine(state.registers(Some(thread))?);
            let rsp = machine.register(RSP).unwrap_or(0);
            Ok((rsp, state.read(rsp, 8)?))
        };
        Ok(top_of_stack(entry)? == top_of_stack(end)?)
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
