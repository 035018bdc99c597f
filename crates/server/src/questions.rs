//! The questions that can be asked about a recorded run: the methods of the API, over the query engine.
//!
//! ```text
//! wire         numbers, addresses, places and values as clients see them
//! failure      why there is no answer
//! run          what was recorded
//! state        threads, registers, memory and mappings at a moment;  vectors  wide registers
//! stack        frames and variables;  value  expressions and the parts of values
//! names        functions, lines and sources
//! search       what all searches have in common: direction, n-th, pages
//! accesses     writes and executions;  target  which code is meant
//! calls        calls with arguments and results, returns, and how they belong together
//! rows         system calls, signals, mappings, threads, children
//! movement     stepping, and the language of `goto`
//! disassembly  instructions
//! ```
//!
//! Invariants: a method changes nothing and remembers nothing; it says in its parameters all that it needs, process and time
//! first; no parameter makes it take memory or time out of proportion to its answer without looking at whether it is cancelled.

mod accesses;
mod calls;
mod disassembly;
mod failure;
mod movement;
mod names;
mod rows;
mod run;
mod search;
mod stack;
mod state;
mod target;
mod value;
mod vectors;
mod wire;

use retro_query::Run;

use crate::methods::Methods;
use crate::service::MethodError;

/// What a method returns.
type Answer<T> = Result<T, MethodError>;

/// All questions about a run.
pub fn questions(run: Run) -> Methods<Run> {
    [
        run::add,
        state::add,
        stack::add,
        value::add,
        names::add,
        accesses::add,
        calls::add,
        rows::add,
        movement::add,
        disassembly::add,
    ]
    .into_iter()
    .fold(Methods::new(run), |methods, add| add(methods))
}
