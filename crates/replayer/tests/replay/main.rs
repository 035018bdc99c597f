//! Sessions, windows, conditions and the pool on real recordings of guests of the corpus.
//!
//! Guests are recorded by the `retro` that was built along with these tests (all tests of the workspace are, or
//! `cargo build -p retro-cli` does it); `RETRO_BINARY=path` takes another. They are replayed by the engine of this build.

mod conditions;
mod model;
mod recorded;
mod refusals;
mod sessions;
mod streams;
mod summaries;
mod windows;
