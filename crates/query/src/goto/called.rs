//! What functions were given, and what they return.
//!
//! Where there is debug information, both have types. Where there is none, they are the registers that the calling
//! convention (System V, x86-64) has for numbers.

use retro_symbols::{FrameContext, Kind, Machine, Type, UnknownEntry, Variable, VariableKind};

use super::look::{Look, if_thread_lives};
use super::object::{number, typed_number};
use crate::frames::ThreadStack;
use crate::language::{EventKind, Value};
use crate::state::{State, StateMachine};
use crate::{Error, Moment};

/// DWARF's numbers of the registers with the first arguments: rdi, rsi, rdx, rcx, r8, r9.
const ARGUMENTS: [u16; 6] = [5, 4, 1, 2, 8, 9];

/// DWARF's number of the register with results.
const RAX: u16 = 0;

/// DWARF's number of the stack pointer.
const RSP: u16 = 7;

impl Look<'_, '_> {
    /// What the function that is about to return returns, if that is a number.
    pub(super) fn function_result(&mut self) -> Result<Option<Value>, Error> {
        let thread = self.candidate.thread;
        let state = self.state()?;
        let Some(registers) = if_thread_lives(state.registers(Some(thread)))? else {
            return Ok(None);
        };
        let machine = state.machine(registers);
        Ok(match self.result_type(state)? {
            Some(ty) => typed_result(&ty, &machine),
            None => machine.register(RAX).map(|rax| Value::Integer((rax as i64).into())),
        })
    }

    /// The type of what the function of the innermost frame returns.
    fn result_type(&self, state: &State) -> Result<Option<Type>, Error> {
        let stack = state.stack(Some(self.candidate.thread), 1)?;
        stack.with_scope(0, |scope| scope.result_type())
    }

    /// What the function was given that is entered, or about to return.
    pub(super) fn function_arguments(&self) -> Result<Vec<Option<Value>>, Error> {
        let thread = self.candidate.thread;
        let state = self.state()?;
        if self.trial.sought.kind != EventKind::FunctionExit {
            return Ok(if_thread_lives(arguments(state, thread))?.unwrap_or_default());
        }
        let Some(stack) = if_thread_lives(state.stack(Some(thread), 1))? else {
            return Ok(Vec::new());
        };
        let Some(entered) = self.entered(&stack)? else { return Ok(Vec::new()) };
        Ok(if_thread_lives(arguments(&entered, thread))?.unwrap_or_default())
    }

    /// The state at the first instruction of the function that is about to return.
    fn entered(&self, stack: &ThreadStack<'_>) -> Result<Option<State>, Error> {
        let (run, thread) = (self.trial.run, self.candidate.thread);
        let Moment { log, time } = self.moment();
        let pc = stack.machine().registers().pc();
        let function = run.symbols().function_entry(log, time, pc);
        if let Some(call) = run.call_of_return(self.moment(), thread)? {
            let state = run.state(Moment { log, time: call.time + 1 })?;
            let called = state.registers(Some(thread))?.pc();
            if function.is_none_or(|function| function == called) {
                return Ok(Some(state));
            }
        }
        // Who was called has jumped on to this one.
        let entry = stack.entry(0, self.trial.cancel)?;
        entry.map(|entry| run.state(entry)).transpose()
    }
}

fn typed_result(ty: &Type, machine: &StateMachine<'_>) -> Option<Value> {
    use retro_symbols::Encoding;
    match ty.strip().kind() {
        Kind::Base(Encoding::Float) if ty.size()? <= 8 => typed_number(ty, &machine.vector(0)?),
        // Results of other kinds are in registers of the old floating-point unit, or in several.
        Kind::Base(Encoding::Float | Encoding::ComplexFloat) => None,
        _ => typed_number(ty, &machine.register(RAX)?.to_le_bytes()),
    }
}

/// The arguments at the first instruction of a function.
fn arguments(state: &State, thread: u32) -> Result<Vec<Option<Value>>, Error> {
    let stack = state.stack(Some(thread), 1)?;
    let machine = stack.machine();
    let is_inlined = stack.frames().first().is_some_and(|frame| frame.is_inlined);
    if is_inlined {
        return stack.with_scope(0, |scope| {
            let locals = scope.locals();
            let parameters = locals.iter().filter(|local| local.kind == VariableKind::Parameter);
            parameters.map(|local| number(&local.value, machine)).collect()
        });
    }
    let known = parameters_at_entry(state, &stack);
    if known.is_empty() {
        let registers = ARGUMENTS.iter().map(|&register| machine.register(register));
        return Ok(registers.map(|value| Some(Value::Integer(value?.into()))).collect());
    }
    Ok(known.iter().map(|variable| number(&variable.value, machine)).collect())
}

/// The parameters at the first instruction of a function, where the caller put them; none if the function is inlined.
pub(super) fn parameters_at_entry(state: &State, stack: &ThreadStack<'_>) -> Vec<Variable> {
    if stack.frames().first().is_none_or(|frame| frame.is_inlined) {
        return Vec::new();
    }
    let machine = stack.machine();
    let Moment { log, time } = state.moment();
    let context = FrameContext {
        log,
        time,
        pc: machine.registers().pc(),
        machine,
        cfa: machine.register(RSP).map(|rsp| rsp.wrapping_add(8)),
        entry: &UnknownEntry,
        level: None,
    };
    state.run().symbols().arguments(&context)
}
