//! What a caller says about the registers at its call.
//!
//! At a call the compiler notes what it put into registers for the callee, as far as it still knows after the call
//! (`DW_TAG_call_site_parameter`). That brings back parameters that the callee has overwritten.

use gimli::{AttributeValue, Operation};

use super::{EntryRegisters, FrameContext, FrameScope};
use crate::symbols::Symbols;
use crate::types::Die;

/// Entries of a function that are searched for a call.
const SEARCHED_LIMIT: usize = 1 << 14;

/// The registers at the call that a frame returns from, as the caller knows them.
pub struct CallSite<'a> {
    caller: FrameScope<'a>,
    /// The entry of the call.
    site: Option<Die>,
}

impl<'a> CallSite<'a> {
    /// The call in a caller's frame that returns to `return_address`.
    pub fn new(
        symbols: &'a Symbols,
        caller: &FrameContext<'a>,
        return_address: u64,
    ) -> CallSite<'a> {
        let caller = symbols.scope(caller);
        let site = caller.find_call(return_address);
        CallSite { caller, site }
    }
}

impl EntryRegisters for CallSite<'_> {
    fn entry_register(&self, number: u16) -> Option<u64> {
        let parameter = self.site.as_ref()?.children().into_iter().find(|child| {
            matches!(
                child.tag(),
                gimli::DW_TAG_call_site_parameter | gimli::DW_TAG_GNU_call_site_parameter
            ) && is_register(child, number)
        })?;
        let value = parameter
            .value(gimli::DW_AT_call_value)
            .or_else(|| parameter.value(gimli::DW_AT_GNU_call_site_value))?;
        let AttributeValue::Exprloc(expression) = value else { return None };
        self.caller.computed_number(&parameter, expression)
    }
}

fn is_register(parameter: &Die, number: u16) -> bool {
    let Some(AttributeValue::Exprloc(expression)) = parameter.value(gimli::DW_AT_location) else {
        return false;
    };
    let operation = expression.operations(parameter.unit.unit().encoding()).next();
    matches!(operation, Ok(Some(Operation::Register { register })) if register.0 == number)
}

impl FrameScope<'_> {
    /// The entry of a call that returns to an address.
    fn find_call(&self, return_address: u64) -> Option<Die> {
        let wanted = self.module.as_ref()?.file_address(return_address);
        let mut left = SEARCHED_LIMIT;
        let mut open = vec![self.function()?.clone()];
        while let Some(scope) = open.pop() {
            for child in scope.children() {
                left = left.checked_sub(1)?;
                if !matches!(child.tag(), gimli::DW_TAG_call_site | gimli::DW_TAG_GNU_call_site) {
                    if child.entry().has_children() {
                        open.push(child);
                    }
                    continue;
                }
                // The old form has the address that is returned to under another name.
                let attributes = match child.tag() {
                    gimli::DW_TAG_call_site => [gimli::DW_AT_call_return_pc, gimli::DW_AT_call_pc],
                    _ => [gimli::DW_AT_low_pc, gimli::DW_AT_low_pc],
                };
                let value = child.value(attributes[0]).or_else(|| child.value(attributes[1]));
                let address = value.and_then(|value| self.unit_address(&child, value));
                if address == Some(wanted) {
                    return Some(child);
                }
            }
        }
        None
    }

    fn unit_address(
        &self,
        die: &Die,
        value: AttributeValue<crate::debug_info::Bytes>,
    ) -> Option<u64> {
        die.unit.unit_ref().attr_address(value).ok().flatten()
    }
}
