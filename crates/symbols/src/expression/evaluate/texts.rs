//! Strings, which can be compared.

use super::super::EvaluationError;
use super::super::syntax::Node;
use super::{Evaluation, lost};
use crate::types::Type;
use crate::value::containers::{self, Container};

/// Bytes of a string that is compared.
const COMPARED_LIMIT: u64 = 1 << 16;

impl Evaluation<'_> {
    /// The characters of a string, for comparison.
    pub(super) fn text(&self, node: &Node) -> Result<Vec<u8>, EvaluationError> {
        if let Node::Text(bytes) = node {
            return Ok(bytes.clone());
        }
        let value = self.operand(node)?;
        let unsuitable = || {
            EvaluationError::Unsuitable(format!(
                "`{node}` is a `{}`, which is no string",
                value.ty.name()
            ))
        };
        let machine = self.scope.machine();
        if let Some(Container::Text { address, length, .. }) =
            containers::recognize(&value, self.scope)
        {
            let mut bytes = vec![0; length.min(COMPARED_LIMIT) as usize];
            return match bytes.is_empty() || machine.read(address, &mut bytes) {
                true => Ok(bytes),
                false => Err(lost(node)),
            };
        }
        let is_char = |ty: &Type| ty.size() == Some(1);
        if let Some((element, count)) = value.elements().filter(|(element, _)| is_char(element)) {
            let _ = element;
            let bytes = value.raw_bytes(count.min(COMPARED_LIMIT), machine);
            let bytes = bytes.map_err(|absent| EvaluationError::Absent {
                expression: node.to_string(),
                absent,
            })?;
            return Ok(bytes.into_iter().take_while(|&byte| byte != 0).collect());
        }
        value.ty.target().filter(is_char).ok_or_else(unsuitable)?;
        let address = self.plain_number(&value, node)?.to_integer() as u64;
        let mut bytes = Vec::new();
        let mut byte = [0];
        while (bytes.len() as u64) < COMPARED_LIMIT {
            if !machine.read(address.wrapping_add(bytes.len() as u64), &mut byte) {
                return Err(lost(node));
            }
            match byte {
                [0] => break,
                [byte] => bytes.push(byte),
            }
        }
        Ok(bytes)
    }
}
