//! Instructions as text.
//!
//! Instructions of this architecture cannot be told apart backwards. What comes before an address is decoded from the
//! start of its function, where one certainly begins.

use iced_x86::{
    Decoder, DecoderOptions, Formatter, Instruction, IntelFormatter, Mnemonic, SymbolResolver,
    SymbolResult,
};
use retro_query::symbols::Symbols;
use retro_query::{Moment, Run, State};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Answer;
use super::failure::at_most;
use super::wire::{Address, Place, ProcessNumber, SourceLine, Time, hex, moment};
use crate::methods::Methods;
use crate::service::CallContext;

/// Instructions in either direction.
const INSTRUCTIONS_LIMIT: u32 = 1000;

/// The longest instruction.
const LONGEST: u64 = 15;

/// Bytes of a function before an address that are decoded.
const FUNCTION_LIMIT: u64 = 1 << 16;

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
    let mut formatter = formatter(run, moment);
    let mut all = Vec::new();
    let before = before(run, &state, address, params.before as usize)?;
    let after = decode(&state, address, u64::from(count) * LONGEST)?.into_iter();
    for (instruction, bytes) in before.into_iter().chain(after.take(count as usize)) {
        context.cancel().check()?;
        let mut text = String::new();
        formatter.format(&instruction, &mut text);
        let place = Place::of(run.symbols(), moment, instruction.ip());
        let target = instruction.near_branch_target();
        all.push(InstructionText {
            address: Address(instruction.ip()),
            bytes: hex(&bytes),
            text,
            function: place.function,
            offset: place.offset,
            source: place.source,
            target: (target != 0).then_some(Address(target)),
        });
    }
    Ok(all)
}

/// The last instructions of the same function before an address.
fn before(
    run: &Run,
    state: &State,
    address: u64,
    count: usize,
) -> Answer<Vec<(Instruction, Vec<u8>)>> {
    let Moment { log, time } = state.moment();
    let function = run.symbols().place(log, time, address).function;
    let offset = function.map_or(0, |function| function.offset);
    if count == 0 || offset > FUNCTION_LIMIT {
        return Ok(Vec::new());
    }
    let mut all = decode(state, address.saturating_sub(offset), offset)?;
    // What does not end where the address is was decoded from something else than code.
    if all.last().is_none_or(|(last, _)| last.next_ip() != address) {
        return Ok(Vec::new());
    }
    Ok(all.split_off(all.len().saturating_sub(count)))
}

/// The instructions in some bytes from an address on, with their bytes. What is no instruction is one of a byte.
fn decode(state: &State, address: u64, len: u64) -> Answer<Vec<(Instruction, Vec<u8>)>> {
    let code = state.read(address, len)?;
    let mut decoder = Decoder::with_ip(64, &code, address, DecoderOptions::NONE);
    let mut all = Vec::new();
    while decoder.can_decode() {
        let from = decoder.position();
        let mut instruction = decoder.decode();
        if instruction.is_invalid() {
            if code.len() - from < LONGEST as usize && (code.len() as u64) == len {
                break;
            }
            instruction = Instruction::with_declare_byte_1(code[from]);
            instruction.set_ip(address + from as u64);
            instruction.set_len(1);
            if decoder.set_position(from + 1).is_err() {
                break;
            }
            decoder.set_ip(address + from as u64 + 1);
        }
        all.push((instruction, code[from..decoder.position()].to_vec()));
    }
    Ok(all)
}

/// Whether the instruction at an address returns from a function.
pub(super) fn is_return(state: &State, address: u64) -> Answer<bool> {
    let code = state.read(address, LONGEST)?;
    let instruction = Decoder::with_ip(64, &code, address, DecoderOptions::NONE).decode();
    Ok(matches!(instruction.mnemonic(), Mnemonic::Ret | Mnemonic::Retf))
}

fn formatter(run: &Run, moment: Moment) -> IntelFormatter {
    let names = Names { symbols: run.clone(), moment };
    let mut formatter = IntelFormatter::with_options(Some(Box::new(names)), None);
    let options = formatter.options_mut();
    options.set_hex_prefix("0x");
    options.set_hex_suffix("");
    options.set_uppercase_hex(false);
    options.set_space_after_operand_separator(true);
    options.set_rip_relative_addresses(false);
    options.set_small_hex_numbers_in_decimal(true);
    options.set_branch_leading_zeros(false);
    formatter
}

/// Names for the addresses in instructions.
struct Names {
    symbols: Run,
    moment: Moment,
}

impl Names {
    fn symbols(&self) -> &Symbols {
        self.symbols.symbols()
    }
}

impl SymbolResolver for Names {
    fn symbol(
        &mut self,
        _: &Instruction,
        _: u32,
        _: Option<u32>,
        address: u64,
        size: u32,
    ) -> Option<SymbolResult<'_>> {
        // Small numbers are numbers.
        if size < 4 || address < 0x1000 {
            return None;
        }
        let Moment { log, time } = self.moment;
        let function = self.symbols().place(log, time, address).function?;
        Some(SymbolResult::with_string(address - function.offset, function.name.to_string()))
    }
}
