//! Names at the first instruction of a function.
//!
//! Without optimization the debug information says where parameters will be once the function has stored them; at its first
//! instruction they are still where the caller put them. A query for calls is about the parameters, so that there
//! their names mean that.

use std::sync::Arc;

use retro_symbols::{
    EvaluationError, FrameScope, Language, Machine, Scope, Spot, SyntheticPointer, Type, Value,
    Variable,
};

/// A scope in which parameters are as they were given.
pub(super) struct EntryScope<'s, 'a> {
    pub(super) inner: &'s FrameScope<'a>,
    pub(super) parameters: Vec<Variable>,
}

impl Scope for EntryScope<'_, '_> {
    fn machine(&self) -> &dyn Machine {
        self.inner.machine()
    }

    fn language(&self) -> Language {
        self.inner.language()
    }

    fn symbol(&self, address: u64) -> Option<(Arc<str>, u64)> {
        self.inner.symbol(address)
    }

    fn variable(&self, within: Option<&str>, path: &str) -> Result<Option<Value>, EvaluationError> {
        let is_meant = |parameter: &&Variable| within.is_none() && &*parameter.name == path;
        match self.parameters.iter().find(is_meant) {
            Some(parameter) => Ok(Some(parameter.value.clone())),
            None => self.inner.variable(within, path),
        }
    }

    fn type_named(&self, tag: Option<&str>, name: &str) -> Option<Type> {
        self.inner.type_named(tag, name)
    }

    fn value_at(&self, spot: &Spot) -> Option<Value> {
        self.inner.value_at(spot)
    }

    fn value_behind(&self, pointer: &SyntheticPointer) -> Option<Value> {
        self.inner.value_behind(pointer)
    }

    fn member_address(&self, spot: &Spot, object: u64) -> Option<u64> {
        self.inner.member_address(spot, object)
    }

    fn sized(&self, ty: Type) -> Type {
        self.inner.sized(ty)
    }
}
