//! The questions that can be asked about a recorded run: the methods of the API, over the query engine.
//!
//! ```text
//! wire         numbers, addresses, places and values as clients see them
//! failure      why there is no answer
//! run          what was recorded;  activity  which threads ran when
//! state        threads, registers, memory and mappings at a moment;  vectors  wide registers
//! stack        frames and variables;  value  expressions and the parts of values
//! names        functions, lines and sources
//! search       what all searches have in common: direction, n-th, pages
//! accesses     writes and executions;  target  which code is meant;  executed  how often it was executed
//! calls        calls with arguments and results, returns, and how they belong together
//! rows         system calls, signals, mappings, threads, children;  output  what was written to the terminal
//! movement     stepping, and the language of `goto`
//! disassembly  instructions
//! notebook     moments that somebody noted
//! ```
//!
//! Invariants: a method changes nothing, but for `notebook.write`, and remembers nothing; it says in its parameters all that it needs, process and time
//! first; no parameter makes it take memory or time out of proportion to its answer without looking at whether it is cancelled.

mod accesses;
mod activity;
mod calls;
mod disassembly;
mod executed;
mod failure;
mod movement;
mod names;
mod notebook;
mod output;
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
        activity::add,
        state::add,
        stack::add,
        value::add,
        names::add,
        accesses::add,
        executed::add,
        calls::add,
        rows::add,
        output::add,
        movement::add,
        disassembly::add,
        notebook::add,
    ]
    .into_iter()
    .fold(Methods::new(run), |methods, add| add(methods))
}
