//! Shrinking a case that differs to the instructions that make it differ.

use super::case::Case;
use super::check::Comparison;
use super::guest::Guest;
use super::report::Difference;
use anyhow::Result;

/// The smallest difference found by leaving out one item of the body after the other; `None` when
/// the case alone does not differ.
///
/// # Errors
/// When guests cannot be built or run.
pub fn reduce(comparison: &Comparison, guest: &Guest, mut case: Case) -> Result<Option<Difference>> {
    let Some(mut smallest) = comparison.difference(guest, case.clone())? else {
        return Ok(None);
    };
    let mut at = 0;
    while at < case.body.len() {
        let mut candidate = case.clone();
        candidate.body.remove(at);
        // Without a label or an operand's definition the rest may not assemble, or may not run.
        let difference = comparison.difference(guest, candidate.clone()).ok().flatten();
        match difference {
            Some(difference) => {
                smallest = difference;
                case = candidate;
            }
            None => at += 1,
        }
    }
    Ok(Some(smallest))
}
