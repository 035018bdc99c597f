//! Encoding a case's body: instructions, labels, literals.
//!
//! The forms of branches are part of what is tested (`rel8` against `rel32`), so nothing is
//! relaxed: each item has one length, the first pass adds them up, the second encodes with the
//! labels known.

use anyhow::{Context, Result, anyhow};
use iced_x86::{Code, Encoder, Instruction, OpKind};

/// A place in a body. [`EXIT`] is where every body goes when it is done.
pub type Label = usize;

/// The dispatcher's code that saves the state after a case.
pub const EXIT: Label = 0;

/// A part of a body.
#[derive(Clone, Debug)]
pub enum Item {
    /// An instruction that refers to no label.
    Plain(Instruction),
    /// The same, behind a redundant prefix byte.
    Prefixed(u8, Instruction),
    /// A near branch to a label.
    Branch(Instruction, Label),
    /// A near branch to a label, behind redundant prefix bytes.
    PrefixedBranch(Vec<u8>, Instruction, Label),
    /// An instruction whose RIP-relative operand is at a label.
    Reference(Instruction, Label),
    /// An instruction whose 64-bit immediate is a label's address.
    Immediate(Instruction, Label),
    /// The place a label stands for.
    Place(Label),
    /// A label's address, as eight bytes of data.
    Address(Label),
    /// Bytes that are not known to be an instruction.
    Bytes(Vec<u8>),
}

impl Item {
    /// The instruction's code, if the item is one.
    pub fn code(&self) -> Option<Code> {
        match self {
            Item::Plain(instruction)
            | Item::Prefixed(_, instruction)
            | Item::Branch(instruction, _)
            | Item::PrefixedBranch(_, instruction, _)
            | Item::Reference(instruction, _)
            | Item::Immediate(instruction, _) => Some(instruction.code()),
            Item::Place(_) | Item::Address(_) | Item::Bytes(_) => None,
        }
    }
}

/// An item, and the unit it belongs to: items that make sense only together.
#[derive(Clone, Debug)]
pub struct Piece {
    /// The unit's number; the pieces of [`ENDING`] are in every body.
    pub unit: usize,
    /// The item.
    pub item: Item,
}

/// The unit that leads a body to [`EXIT`].
pub const ENDING: usize = 0;

/// An encoded body.
#[derive(Clone, Debug, Default)]
pub struct Assembled {
    /// The machine code.
    pub bytes: Vec<u8>,
    /// Offset of each item.
    pub offsets: Vec<usize>,
}

/// Encodes `body` for address `base`; `exit` is the address of [`EXIT`].
///
/// # Errors
/// When an operand cannot be encoded, a branch is out of range or a label is missing.
pub fn assemble(body: &[Piece], base: u64, exit: u64) -> Result<Assembled> {
    let items = || body.iter().map(|piece| &piece.item);
    let placed = items().filter_map(|item| match item {
        Item::Place(label) => Some(*label),
        _ => None,
    });
    let mut labels: Vec<Option<u64>> = vec![None; placed.max().unwrap_or(EXIT) + 1];
    labels[EXIT] = Some(exit);
    let mut address = base;
    for item in items() {
        if let Item::Place(label) = item {
            labels[*label] = Some(address);
        }
        address += encode(item, address, |_| Some(address))?.len() as u64;
    }
    let mut assembled = Assembled::default();
    for item in items() {
        assembled.offsets.push(assembled.bytes.len());
        let here = base + assembled.bytes.len() as u64;
        let bytes = encode(item, here, |label| labels.get(label).copied().flatten())?;
        assembled.bytes.extend_from_slice(&bytes);
    }
    Ok(assembled)
}

/// Encodes one item at `address`.
fn encode(item: &Item, address: u64, resolve: impl Fn(Label) -> Option<u64>) -> Result<Vec<u8>> {
    let target = |label: Label| resolve(label).context("a label without a place");
    match item {
        Item::Plain(instruction) => instruction_bytes(&[], instruction, address),
        Item::Prefixed(prefix, instruction) => instruction_bytes(&[*prefix], instruction, address),
        Item::Branch(instruction, label) => {
            branch_bytes(&[], instruction, target(*label)?, address)
        }
        Item::PrefixedBranch(prefixes, instruction, label) => {
            branch_bytes(prefixes, instruction, target(*label)?, address)
        }
        Item::Reference(instruction, label) => {
            let mut instruction = *instruction;
            instruction.set_memory_displacement64(target(*label)?);
            instruction_bytes(&[], &instruction, address)
        }
        Item::Immediate(instruction, label) => {
            let mut instruction = *instruction;
            instruction.set_immediate64(target(*label)?);
            instruction_bytes(&[], &instruction, address)
        }
        Item::Place(_) => Ok(Vec::new()),
        Item::Address(label) => Ok(target(*label)?.to_le_bytes().to_vec()),
        Item::Bytes(bytes) => Ok(bytes.clone()),
    }
}

fn branch_bytes(
    prefixes: &[u8],
    branch: &Instruction,
    target: u64,
    address: u64,
) -> Result<Vec<u8>> {
    let mut branch = *branch;
    match branch.op0_kind() {
        OpKind::NearBranch16 => branch.set_near_branch16(target as u16),
        _ => branch.set_near_branch64(target),
    }
    instruction_bytes(prefixes, &branch, address)
}

/// Encodes `instruction` at `address`, behind `prefixes`.
pub fn instruction_bytes(
    prefixes: &[u8],
    instruction: &Instruction,
    address: u64,
) -> Result<Vec<u8>> {
    let mut encoder = Encoder::new(64);
    encoder
        .encode(instruction, address + prefixes.len() as u64)
        .map_err(|error| anyhow!("{error}"))?;
    let mut bytes = prefixes.to_vec();
    bytes.extend_from_slice(&encoder.take_buffer());
    Ok(bytes)
}
