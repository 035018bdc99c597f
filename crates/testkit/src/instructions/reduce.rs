//! Shrinking a case that differs to the instructions that make it differ.
//!
//! Units are left out one after the other, whole: half of one might jump anywhere, or make a
//! system call with a random number.
//!
//! Invariant: a reduced case differs in nothing in which the whole case did not differ, so that
//! the reduction does not wander off to another problem.

use super::assembly::ENDING;
use super::case::Case;
use super::check::Comparison;
use super::guest::Guest;
use super::report::Difference;
use anyhow::Result;

/// The smallest difference found; `None` when the case alone does not differ.
///
/// # Errors
/// When guests cannot be built or run.
pub fn reduce(
    comparison: &Comparison,
    guest: &Guest,
    mut case: Case,
) -> Result<Option<Difference>> {
    let Some(mut smallest) = comparison.difference(guest, case.clone())? else {
        return Ok(None);
    };
    // A candidate would take as long, each time.
    if smallest.timed_out() {
        return Ok(Some(smallest));
    }
    let names = smallest.names();
    let mut units: Vec<usize> = case.body.iter().map(|piece| piece.unit).collect();
    units.sort_unstable();
    units.dedup();
    for unit in units.into_iter().filter(|&unit| unit != ENDING) {
        let mut candidate = case.clone();
        candidate.body.retain(|piece| piece.unit != unit);
        // What is left may not run to its end even natively; then the unit stays.
        let difference = comparison.difference(guest, candidate.clone()).ok().flatten();
        if let Some(difference) = difference
            && difference.names().is_subset(&names)
        {
            smallest = difference;
            case = candidate;
        }
    }
    Ok(Some(smallest))
}
