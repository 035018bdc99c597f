//! Every answer of the query engine against a naive one.
//!
//! Small runs are recorded and indexed with small windows. The whole run is also kept in memory ([`oracle`]): every
//! instruction, every write with its value, every event. Random questions ([`questions`]) are then asked of both, the
//! index and the oracle, which looks through everything.
//!
//! Guests are recorded by the `retro` that was built along with these tests (all tests of the workspace are, or
//! `cargo build -p retro-cli` does it); `RETRO_BINARY=path` takes another. They are replayed by the engine of this build.

mod answers;
mod building;
mod damage;
mod full_disk;
mod memory;
mod oracle;
mod questions;
mod recorded;
mod stops;
