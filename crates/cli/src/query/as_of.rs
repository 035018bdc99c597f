//! Values as they were at another moment than that of the frame which names them.
//!
//! A variable's history is formatted by its type, with what pointers in it pointed to *then*. The bytes of the variable
//! itself are known; other memory is looked up at that moment, if the format asks for it.

use std::cell::OnceCell;
use std::ops::Range;
use std::sync::Arc;

use retro_query::symbols::{
    EvaluationError, Language, Machine, Scope, Spot, SyntheticPointer, Type, Value,
};
use retro_query::{Moment, Run, State};

/// A scope with the memory of another moment.
pub struct AsOf<'a> {
    scope: &'a dyn Scope,
    memory: MemoryThen<'a>,
}

struct MemoryThen<'a> {
    run: &'a Run,
    moment: Moment,
    registers: &'a dyn Machine,
    known: Range<u64>,
    bytes: &'a [u8],
    state: OnceCell<Option<State>>,
}

impl<'a> AsOf<'a> {
    /// Names of a scope with memory of a moment, of which the bytes at an address are known.
    pub fn new(
        scope: &'a dyn Scope,
        run: &'a Run,
        moment: Moment,
        address: u64,
        bytes: &'a [u8],
    ) -> AsOf<'a> {
        let known = address..address.saturating_add(bytes.len() as u64);
        let registers = scope.machine();
        AsOf {
            scope,
            memory: MemoryThen { run, moment, registers, known, bytes, state: OnceCell::new() },
        }
    }
}

impl Machine for MemoryThen<'_> {
    fn register(&self, number: u16) -> Option<u64> {
        self.registers.register(number)
    }

    fn vector(&self, number: u16) -> Option<[u8; 16]> {
        self.registers.vector(number)
    }

    fn fs_base(&self) -> Option<u64> {
        self.registers.fs_base()
    }

    fn read(&self, address: u64, buffer: &mut [u8]) -> bool {
        let Some(end) = address.checked_add(buffer.len() as u64) else { return false };
        if self.known.start <= address && end <= self.known.end {
            let from = (address - self.known.start) as usize;
            buffer.copy_from_slice(&self.bytes[from..from + buffer.len()]);
            return true;
        }
        let state = self.state.get_or_init(|| self.run.state(self.moment).ok());
        let read = state.as_ref().and_then(|state| state.read(address, buffer.len() as u64).ok());
        match read {
            Some(bytes) if bytes.len() == buffer.len() => {
                buffer.copy_from_slice(&bytes);
                true
            }
            _ => false,
        }
    }
}

impl Scope for AsOf<'_> {
    fn machine(&self) -> &dyn Machine {
        &self.memory
    }

    fn language(&self) -> Language {
        self.scope.language()
    }

    fn symbol(&self, address: u64) -> Option<(Arc<str>, u64)> {
        self.scope.symbol(address)
    }

    fn variable(&self, within: Option<&str>, path: &str) -> Result<Option<Value>, EvaluationError> {
        self.scope.variable(within, path)
    }

    fn type_named(&self, tag: Option<&str>, name: &str) -> Option<Type> {
        self.scope.type_named(tag, name)
    }

    fn value_at(&self, spot: &Spot) -> Option<Value> {
        self.scope.value_at(spot)
    }

    fn value_behind(&self, pointer: &SyntheticPointer) -> Option<Value> {
        self.scope.value_behind(pointer)
    }

    fn member_address(&self, spot: &Spot, object: u64) -> Option<u64> {
        self.scope.member_address(spot, object)
    }

    fn sized(&self, ty: Type) -> Type {
        self.scope.sized(ty)
    }
}
