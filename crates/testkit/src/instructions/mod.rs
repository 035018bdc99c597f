//! Differential tests of instruction semantics, native against translated.
//!
//! **Problem.** A translator copies most instructions and rewrites some; each of the several
//! thousand encodings can lose a flag, a register, an upper half or an exact fault.
//!
//! **Strategy.** From a seed and a [`Class`] comes a small static executable that runs hundreds of
//! random cases: load all registers, execute a few instructions, write all registers and the
//! touched memory to standard output. It runs natively, again natively, and under `retro run --` or
//! `retro record --`; the outputs must be equal to the byte. A case that differs is reduced and shown.
//!
//! ```text
//! cpu ─► catalogue ─► class ─► case ─► guest ─► run ─► record ─► check ─► reduce ─► report
//!        (codes)      (plan)   │       (ELF)                     (compare)
//!                              setting, memory, operands, requirements, recipes,
//!                              control_flow, far_branches, bad_transfers
//! ```
//!
//! **Invariants.** A guest depends on its seed and the processor only. It uses no address that is
//! not fixed in its ELF file. Each instruction runs on the same processor both times, so even
//! flags that the manuals leave undefined must agree; what the comparison leaves out is in
//! [`record::Record::comparable`], with the reasons. x87 instruction and operand pointers have a
//! class of their own.

pub mod assembly;
pub mod bad_transfers;
pub mod case;
pub mod catalogue;
pub mod check;
pub mod class;
pub mod control_flow;
pub mod coverage;
pub mod cpu;
pub mod dispatcher;
pub mod elf;
pub mod far_branches;
pub mod guest;
pub mod layout;
pub mod memory;
pub mod operands;
pub mod random;
pub mod recipes;
pub mod record;
pub mod reduce;
pub mod registers;
pub mod report;
pub mod requirements;
pub mod run;
pub mod setting;
pub mod state;

pub use catalogue::Catalogue;
pub use check::check;
pub use class::Class;
pub use coverage::Coverage;
