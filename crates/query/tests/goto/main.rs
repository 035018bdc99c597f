//! Queries of `goto` over recorded programs, against known answers and against naive scans of everything that the
//! program did.

mod contexts;
mod errors;
mod events;
#[allow(dead_code, reason = "this test needs a part of it")]
#[path = "../oracle/recorded.rs"]
mod recorded;
mod scans;
mod scene;
