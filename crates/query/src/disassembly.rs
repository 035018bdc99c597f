//! Instructions as text.
//!
//! Instructions of this architecture cannot be told apart backwards. What comes before an address is decoded from the
//! start of its function, where one certainly begins.

use iced_x86::{
    Decoder, DecoderOptions, Formatter, Instruction, IntelFormatter, Mnemonic, SymbolResolver,
    SymbolResult,
};

use crate::{Cancel, Error, Moment, Run, State};

/// The longest instruction.
const LONGEST: u64 = 15;

/// Bytes of a function before an address that are decoded.
const FUNCTION_LIMIT: u64 = 1 << 16;

/// An instruction, for people and programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstructionText {
    /// Where it is.
    pub address: u64,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// As Intel writes it, with names for addresses.
    pub text: String,
    /// Where a call or jump goes, if that is known from the instruction alone.
    pub target: Option<u64>,
}

impl State {
    /// Instructions from an address on, as far as memory goes, and some of the same function before it.
    pub fn instructions(
        &self,
        address: u64,
        before: usize,
        count: usize,
        cancel: &Cancel,
    ) -> Result<Vec<InstructionText>, Error> {
        let mut formatter = formatter(self.run(), self.moment());
        let before = self.decode_before(address, before)?;
        let after = self.decode(address, count as u64 * LONGEST)?.into_iter().take(count);
        let as_text = |(instruction, bytes): (Instruction, Vec<u8>)| {
            cancel.check()?;
            let mut text = String::new();
            formatter.format(&instruction, &mut text);
            let target = instruction.near_branch_target();
            let target = (target != 0).then_some(target);
            Ok(InstructionText { address: instruction.ip(), bytes, text, target })
        };
        before.into_iter().chain(after).map(as_text).collect()
    }

    /// Whether the instruction at an address returns from a function.
    pub fn is_return(&self, address: u64) -> Result<bool, Error> {
        let code = self.read(address, LONGEST)?;
        let instruction = Decoder::with_ip(64, &code, address, DecoderOptions::NONE).decode();
        Ok(matches!(instruction.mnemonic(), Mnemonic::Ret | Mnemonic::Retf))
    }

    /// The last instructions of the same function before an address.
    fn decode_before(
        &self,
        address: u64,
        count: usize,
    ) -> Result<Vec<(Instruction, Vec<u8>)>, Error> {
        let Moment { log, time } = self.moment();
        let function = self.run().symbols().place(log, time, address).function;
        let offset = function.map_or(0, |function| function.offset);
        if count == 0 || offset > FUNCTION_LIMIT {
            return Ok(Vec::new());
        }
        let mut all = self.decode(address.saturating_sub(offset), offset)?;
        // What does not end where the address is was decoded from something else than code.
        if all.last().is_none_or(|(last, _)| last.next_ip() != address) {
            return Ok(Vec::new());
        }
        Ok(all.split_off(all.len().saturating_sub(count)))
    }

    /// The instructions in some bytes from an address on, with their bytes. What is no instruction is one of a byte.
    fn decode(&self, address: u64, len: u64) -> Result<Vec<(Instruction, Vec<u8>)>, Error> {
        let code = self.read(address, len)?;
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
}

fn formatter(run: &Run, moment: Moment) -> IntelFormatter {
    let names = Names { run: run.clone(), moment };
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
    run: Run,
    moment: Moment,
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
        let function = self.run.symbols().place(log, time, address).function?;
        Some(SymbolResult::with_string(address - function.offset, function.name.to_string()))
    }
}
