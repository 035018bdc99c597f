//! DWARF expressions: what they name, and values from their pieces.

use std::ops::Range;
use std::sync::Arc;

use gimli::{
    AttributeValue, EvaluationResult, Expression, Location, Operation, Piece, Reader as _,
    UnitOffset, ValueType,
};

use super::super::FrameScope;
use crate::debug_info::{Bytes, DebugUnit};
use crate::types::{Die, Spot, Type};
use crate::value::{Contents, Held, Origin, SyntheticPointer, Value};

/// Steps of one expression.
const STEPS_LIMIT: u32 = 10_000;

/// How often expressions may ask for others.
const NESTING_LIMIT: usize = 8;

/// Bytes of a value that is put together from pieces.
const PIECES_LIMIT: u64 = 1 << 16;

/// The numbers of vector registers.
const FIRST_VECTOR: u16 = 17;
const LAST_VECTOR: u16 = 32;

/// Which registers an expression sees.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Registers {
    OfFrame,
    AtEntry,
}

/// An expression has no result.
pub(super) struct Lost;

/// An expression that is being evaluated.
pub(super) struct Evaluation<'s, 'a> {
    scope: &'s FrameScope<'a>,
    die: &'s Die,
    unit: &'s Arc<DebugUnit>,
    bias: u64,
    object: Option<u64>,
    registers: Registers,
    depth: usize,
}

impl<'s, 'a> Evaluation<'s, 'a> {
    pub(super) fn new(scope: &'s FrameScope<'a>, die: &'s Die) -> Option<Evaluation<'s, 'a>> {
        let bias = scope.module_of(&die.spot())?.bias;
        let (registers, depth) = (Registers::OfFrame, NESTING_LIMIT);
        Some(Evaluation { scope, die, unit: &die.unit, bias, object: None, registers, depth })
    }

    /// As a part of another one: so many more may follow.
    pub(super) fn nested(self, depth: usize) -> Self {
        Evaluation { depth, ..self }
    }

    /// About an object in memory.
    pub(super) fn of_object(self, object: u64) -> Self {
        Evaluation { object: Some(object), ..self }
    }

    /// The pieces that an expression names.
    pub(super) fn run(
        &self,
        expression: Expression<Bytes>,
        initial: Option<u64>,
    ) -> Result<Vec<Piece<Bytes>>, Lost> {
        let mut evaluation = expression.evaluation(self.unit.unit().encoding());
        evaluation.set_max_iterations(STEPS_LIMIT);
        if let Some(object) = self.object {
            evaluation.set_object_address(object);
        }
        if let Some(initial) = initial {
            evaluation.set_initial_value(initial);
        }
        let mut result = evaluation.evaluate().map_err(|_| Lost)?;
        let mut questions = 0;
        loop {
            questions += 1;
            if questions > STEPS_LIMIT {
                return Err(Lost);
            }
            result = match result {
                EvaluationResult::Complete => return Ok(evaluation.result()),
                EvaluationResult::RequiresMemory { address, size, base_type, .. } => {
                    let value = self.memory(address, size, base_type)?;
                    evaluation.resume_with_memory(value)
                }
                EvaluationResult::RequiresRegister { register, base_type } => {
                    let value = self.register(register.0, base_type)?;
                    evaluation.resume_with_register(value)
                }
                EvaluationResult::RequiresFrameBase => {
                    let depth = self.depth.checked_sub(1).ok_or(Lost)?;
                    let base = self.scope.frame_base(depth).ok_or(Lost)?;
                    evaluation.resume_with_frame_base(base)
                }
                EvaluationResult::RequiresTls(offset) => {
                    let address =
                        self.scope.thread_local_address(&self.die.spot(), offset).ok_or(Lost)?;
                    evaluation.resume_with_tls(address)
                }
                EvaluationResult::RequiresCallFrameCfa => {
                    evaluation.resume_with_call_frame_cfa(self.scope.frame.cfa.ok_or(Lost)?)
                }
                EvaluationResult::RequiresAtLocation(reference) => {
                    let reference = match reference {
                        gimli::DieReference::UnitRef(offset) => AttributeValue::UnitRef(offset),
                        gimli::DieReference::DebugInfoRef(offset) => {
                            AttributeValue::DebugInfoRef(offset)
                        }
                    };
                    let found = self.die.info.resolve(self.unit, reference).ok_or(Lost)?;
                    let entry = found.unit.unit().entry(found.offset).map_err(|_| Lost)?;
                    let bytes = match entry.attr_value(gimli::DW_AT_location) {
                        Some(AttributeValue::Exprloc(expression)) => expression.0,
                        _ => return Err(Lost),
                    };
                    evaluation.resume_with_at_location(bytes)
                }
                EvaluationResult::RequiresEntryValue(expression) => {
                    let value = self.entry_value(expression).ok_or(Lost)?;
                    evaluation.resume_with_entry_value(gimli::Value::Generic(value))
                }
                EvaluationResult::RequiresRelocatedAddress(address) => {
                    evaluation.resume_with_relocated_address(address.wrapping_add(self.bias))
                }
                EvaluationResult::RequiresIndexedAddress { index, relocate } => {
                    let address = self.unit.unit_ref().address(index).map_err(|_| Lost)?;
                    let bias = if relocate { self.bias } else { 0 };
                    evaluation.resume_with_indexed_address(address.wrapping_add(bias))
                }
                EvaluationResult::RequiresBaseType(offset) => {
                    evaluation.resume_with_base_type(self.base_type(offset)?)
                }
                _ => return Err(Lost),
            }
            .map_err(|_| Lost)?;
        }
    }

    /// The number that an expression leaves; a register is its contents.
    pub(super) fn number(&self, expression: Expression<Bytes>) -> Option<u64> {
        let pieces = self.run(expression, None).ok()?;
        let [piece] = pieces.as_slice() else { return None };
        match &piece.location {
            Location::Address { address } => Some(*address),
            Location::Register { register } => self.general(register.0),
            Location::Value { value } => value.to_u64(u64::MAX).ok(),
            _ => None,
        }
    }

    fn memory(&self, address: u64, size: u8, base_type: UnitOffset) -> Result<gimli::Value, Lost> {
        // What memory held at the call is not known.
        if self.registers == Registers::AtEntry {
            return Err(Lost);
        }
        let mut bytes = [0; 8];
        let wanted = bytes.get_mut(..usize::from(size)).ok_or(Lost)?;
        if !self.scope.frame.machine.read(address, wanted) {
            return Err(Lost);
        }
        self.typed(u64::from_le_bytes(bytes), base_type)
    }

    fn typed(&self, bits: u64, base_type: UnitOffset) -> Result<gimli::Value, Lost> {
        if base_type.0 == 0 {
            return Ok(gimli::Value::Generic(bits));
        }
        let value_type = self.base_type(base_type)?;
        let bytes = bits.to_le_bytes();
        gimli::Value::parse(value_type, gimli::EndianSlice::new(&bytes, gimli::LittleEndian))
            .map_err(|_| Lost)
    }

    fn base_type(&self, offset: UnitOffset) -> Result<ValueType, Lost> {
        if offset.0 == 0 {
            return Ok(ValueType::Generic);
        }
        let entry = self.unit.unit().entry(offset).map_err(|_| Lost)?;
        ValueType::from_entry(&entry).ok().flatten().ok_or(Lost)
    }

    fn general(&self, number: u16) -> Option<u64> {
        match self.registers {
            Registers::OfFrame => self.scope.frame.machine.register(number),
            Registers::AtEntry => self.scope.frame.entry.entry_register(number),
        }
    }

    fn register(&self, number: u16, base_type: UnitOffset) -> Result<gimli::Value, Lost> {
        let bits = match number {
            FIRST_VECTOR..=LAST_VECTOR if self.registers == Registers::OfFrame => {
                let vector = self.scope.frame.machine.vector(number - FIRST_VECTOR).ok_or(Lost)?;
                crate::value::scalar::bits_of(&vector) as u64
            }
            _ => self.general(number).ok_or(Lost)?,
        };
        self.typed(bits, base_type)
    }

    /// What an expression was worth when the function was called.
    fn entry_value(&self, expression: Expression<Bytes>) -> Option<u64> {
        let mut operations = expression.clone().operations(self.unit.unit().encoding());
        if let Ok(Some(Operation::Register { register })) = operations.next()
            && matches!(operations.next(), Ok(None))
        {
            return self.scope.frame.entry.entry_register(register.0);
        }
        let depth = self.depth.checked_sub(1)?;
        let at_entry = Evaluation { registers: Registers::AtEntry, depth, object: None, ..*self };
        at_entry.number(expression)
    }

    /// A value of a type from its pieces.
    pub(super) fn value(&self, ty: &Type, pieces: Vec<Piece<Bytes>>) -> Option<Value> {
        if let [Piece { size_in_bits: None, location, .. }] = pieces.as_slice() {
            return self.whole(ty, location);
        }
        self.assembled(ty, &pieces)
    }

    fn whole(&self, ty: &Type, location: &Location<Bytes>) -> Option<Value> {
        let size = ty.size()?;
        if let Location::Address { address } = location {
            return Some(Value::in_memory(ty.clone(), *address));
        }
        if let Location::ImplicitPointer { value, byte_offset } = location {
            let target = self.die.info.resolve(self.unit, AttributeValue::DebugInfoRef(*value))?;
            let target = Spot::new(&self.die.info, &target);
            let pointer = SyntheticPointer { target, offset: *byte_offset };
            return Some(Value {
                ty: ty.clone(),
                contents: Contents::Synthetic(pointer),
                bits: None,
            });
        }
        let origin = match location {
            Location::Register { register } => Origin::Register(register.0),
            _ => Origin::Computed,
        };
        let bytes = self.piece_bytes(location)?;
        let wanted = usize::try_from(size).ok()?;
        // What is computed may be narrower than the type that it is said to be of.
        let bytes = match bytes.len() >= wanted {
            true => bytes[..wanted].to_vec(),
            false if wanted <= 16 && origin == Origin::Computed => {
                let mut longer = bytes;
                longer.resize(wanted, 0);
                longer
            }
            false => return None,
        };
        Some(Value::held(ty.clone(), &bytes, origin))
    }

    /// All bytes of a piece that is not in memory.
    fn piece_bytes(&self, location: &Location<Bytes>) -> Option<Vec<u8>> {
        match location {
            Location::Register { register } => match register.0 {
                number @ FIRST_VECTOR..=LAST_VECTOR => {
                    Some(self.scope.frame.machine.vector(number - FIRST_VECTOR)?.to_vec())
                }
                number => Some(self.general(number)?.to_le_bytes().to_vec()),
            },
            Location::Value { value } => Some(value_bytes(value)),
            Location::Bytes { value } => Some(value.to_slice().ok()?.into_owned()),
            _ => None,
        }
    }

    /// Pieces one after the other, of whole bytes or of bits.
    fn assembled(&self, ty: &Type, pieces: &[Piece<Bytes>]) -> Option<Value> {
        let size = ty.size().filter(|&size| size <= PIECES_LIMIT)?;
        let mut bytes = vec![0; size as usize];
        let mut missing = Vec::new();
        let mut at = 0u64;
        for piece in pieces {
            let left = size * 8 - at;
            let bits = piece.size_in_bits.unwrap_or(left).min(left);
            let contents = match &piece.location {
                Location::Address { address } => {
                    let first = piece.bit_offset.unwrap_or(0);
                    let mut read =
                        vec![0; (first.checked_add(bits)?.div_ceil(8)).min(PIECES_LIMIT) as usize];
                    self.scope.frame.machine.read(*address, &mut read).then_some(read)
                }
                location => self.piece_bytes(location),
            };
            match contents {
                Some(contents) => {
                    copy_bits(&contents, piece.bit_offset.unwrap_or(0), &mut bytes, at, bits)
                }
                None => missing.push((at / 8) as usize..((at + bits).div_ceil(8)) as usize),
            }
            at += bits;
        }
        if at < size * 8 {
            missing.push((at / 8) as usize..size as usize);
        }
        let is_all = |gap: &Range<usize>| gap.len() as u64 == size;
        if missing.iter().any(is_all) && size > 0 {
            return None;
        }
        let held = Held { bytes: Arc::from(bytes), missing, origin: Origin::Pieces };
        Some(Value { ty: ty.clone(), contents: Contents::Held(held), bits: None })
    }
}

fn value_bytes(value: &gimli::Value) -> Vec<u8> {
    match *value {
        gimli::Value::Generic(number) | gimli::Value::U64(number) => number.to_le_bytes().to_vec(),
        gimli::Value::I64(number) => number.to_le_bytes().to_vec(),
        gimli::Value::I8(number) => i64::from(number).to_le_bytes().to_vec(),
        gimli::Value::U8(number) => u64::from(number).to_le_bytes().to_vec(),
        gimli::Value::I16(number) => i64::from(number).to_le_bytes().to_vec(),
        gimli::Value::U16(number) => u64::from(number).to_le_bytes().to_vec(),
        gimli::Value::I32(number) => i64::from(number).to_le_bytes().to_vec(),
        gimli::Value::U32(number) => u64::from(number).to_le_bytes().to_vec(),
        gimli::Value::F32(number) => number.to_le_bytes().to_vec(),
        gimli::Value::F64(number) => number.to_le_bytes().to_vec(),
    }
}

/// Copies bits, counted from the lowest of the first byte. What is not there stays zero.
fn copy_bits(from: &[u8], first: u64, to: &mut [u8], at: u64, count: u64) {
    if [first, at, count].iter().all(|bits| bits.is_multiple_of(8)) {
        let from = from.get((first / 8) as usize..).unwrap_or_default();
        let to = to.get_mut((at / 8) as usize..).unwrap_or_default();
        let length = ((count / 8) as usize).min(from.len()).min(to.len());
        to[..length].copy_from_slice(&from[..length]);
        return;
    }
    for index in 0..count {
        let (source, target) = (first + index, at + index);
        let bit = from.get((source / 8) as usize).map_or(0, |byte| byte >> (source % 8) & 1);
        if let Some(byte) = to.get_mut((target / 8) as usize) {
            *byte |= bit << (target % 8);
        }
    }
}
