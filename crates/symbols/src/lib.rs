//! What the source says about a recorded process at any time of the run: names for its addresses, call stacks, the code
//! of functions and lines, variables and expressions.
//!
//! ```text
//! symbols      what all questions go through: Symbols, shared by all threads that ask
//! modules      which file is mapped where and when, from the log
//! files        those files on this machine or in the recording, if they are still the same
//! recorded_files where they are, for those who read them themselves
//! elf          reading them, section by section, with
//!   section_bytes  what is read of a section when it is looked at
//! object_file  what an ELF file holds, with
//!   functions    its symbol tables,
//!   linkage      names for its stubs of other files' functions,
//!   lines        its line tables,
//!   debug_info   its units of DWARF by address, by reference and by name, wherever they are kept
//! place        what an address is called
//! lookup       code by name of a function and by line
//! unwind       call stacks, by tables or by guesses, with what is inlined
//! machine      a moment of a process, as unwinding and expressions see it
//! demangle     names as they were in the source
//! source_files the text of source files
//! types        types as the debug information describes them
//! variables    what is in scope in a frame, and where it is
//! value        values, as text and as trees
//! expression   a C-like language over all of these
//! ```
//!
//! Everything is read when it is asked for and kept. Answers are kept by address, so that asking for the same few
//! thousand addresses millions of times costs a look into a table each.
//!
//! Invariants: no recording and no ELF file makes this crate panic or hang, or take memory out of proportion; a
//! name comes from the very file that the run mapped, or there is none. Names are as the files have them: whoever
//! prints them must take care of the terminal.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod debug_info;
mod demangle;
mod elf;
mod expression;
mod files;
mod functions;
mod lines;
mod linkage;
mod lookup;
mod machine;
mod mapped_bytes;
mod modules;
mod object_file;
mod place;
mod recorded_files;
mod section_bytes;
mod source_files;
mod symbols;
mod types;
mod unwind;
mod value;
mod variables;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use expression::{EvaluationError, Expression, ParseError};
pub use files::{FileState, Location};
pub use lines::Source;
pub use lookup::{FoundType, FunctionCode, LineCode, LineRange, NamedSymbol};
pub use machine::{Machine, register};
pub use object_file::ObjectFile;
pub use place::{Function, Module, Place};
pub use recorded_files::RecordedFile;
pub use source_files::{SourceError, SourceFiles, SourceText};
pub use symbols::{LoadedModule, Symbols};
pub use types::{
    Bits, ComputedCount, Count, Encoding, Enumeration, Kind, Language, Link, Member, MemberKind,
    Qualifier, Record, RecordKind, Signature, Spot, Type, Variant, Variants,
};
pub use unwind::{CallStack, DEPTH_LIMIT, Frame, FrameMachine, FrameRegisters, StackEnd};
pub use value::{
    Absent, Contents, Format, FormatOptions, Held, Number, Origin, SyntheticPointer, Tree,
    TreeOptions, Value,
};
pub use variables::{
    CallSite, EntryRegisters, FrameContext, FrameScope, Global, Scope, UnknownEntry, Variable,
    VariableKind, returned_value,
};

/// Locks; a thread that panicked has left nothing half done behind the locks of this crate.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
