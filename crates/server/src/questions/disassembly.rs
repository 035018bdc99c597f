//! Instructions as text.

use retro_query::Run;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Answer;
use super::failure::at_most;
use super::wire::{Address, Place, ProcessNumber, SourceLine, Time, hex, moment};
use crate::methods::Methods;
use crate::service::CallContext;

/// Instructions in either direction.
const INSTRUCTIONS_LIMIT: u32 = 1000;

pub(super) fn add(methods: Methods<Run>) -> Methods<Run> {
    methods.add("disassemble", "Instructions around an address.", disassemble)
}

/// Parameters of `disassemble`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DisassembleParams {
    process: ProcessNumber,
    time: Time,
    /// Where; the next instruction of the thread unless given.
    address: Option<Address>,
    /// The thread; the one that runs unless given.
    thread: Option<u32>,
    /// How many instructions before it: none unless given, at most 1000. Fewer if the function begins before.
    #[serde(default)]
    before: u32,
    /// How many instructions from it on: 20 unless given, at most 1000.
    count: Option<u32>,
}

/// An instruction.
#[derive(Debug, Serialize, JsonSchema)]
struct InstructionText {
    address: Address,
    /// Its bytes in hexadecimal.
    bytes: String,
    /// As Intel writes it, with names for addresses.
    text: String,
    /// The function that it is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    function: Option<String>,
    /// Bytes from the function's start.
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    /// The source line.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<SourceLine>,
    /// Where a call or jump goes, if that is known from the instruction alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<Address>,
}

fn disassemble(
    run: &Run,
    params: DisassembleParams,
    context: &CallContext,
) -> Answer<Vec<InstructionText>> {
    let count = params.count.unwrap_or(20);
    at_most("before", params.before.into(), INSTRUCTIONS_LIMIT.into())?;
    at_most("count", count.into(), INSTRUCTIONS_LIMIT.into())?;
    let moment = moment(params.process, params.time);
    let state = run.state(moment)?;
    let address = match params.address {
        Some(address) => address.0,
        None => state.registers(params.thread)?.pc(),
    };
    let (before, count) = (params.before as usize, count as usize);
    let instructions = state.instructions(address, before, count, context.cancel().flag())?;
    let told = instructions.into_iter().map(|instruction| {
        let place = Place::of(run.symbols(), moment, instruction.address);
        InstructionText {
            address: Address(instruction.address),
            bytes: hex(&instruction.bytes),
            text: instruction.text,
            function: place.function,
            offset: place.offset,
            source: place.source,
            target: instruction.target.map(Address),
        }
    });
    Ok(told.collect())
}
