//! Code by name and by line: where to stop, and how far a line reaches.
//!
//! ```text
//! name_pattern   which names are meant by what somebody types
//! symbol_names   symbol tables by name, aliases included
//! function_code  the code of functions, also where it is inlined
//! function_entry where the function around an address is entered
//! prologue       where the body of a function begins
//! line_code      the code of lines
//! type_names     types by parts of their names
//! ```
//!
//! All that fits is given, with full names: which one is meant is for the caller to decide.

mod function_code;
mod function_entry;
mod line_code;
mod name_pattern;
mod prologue;
mod symbol_names;
mod type_names;

pub use function_code::FunctionCode;
pub use line_code::{LineCode, LineRange};
pub use symbol_names::NamedSymbol;
pub use type_names::FoundType;

pub(crate) use line_code::FileNames;
pub(crate) use symbol_names::SymbolNames;
