//! Attacks, each of which must fail: by recordings that a stranger has made, by other users of the machine, by web pages,
//! and by programs that are recorded. docs/security.md says what is promised; every promise names tests of this suite.
//!
//! What is demanded of an attack: nothing outside of its reach has changed, nothing is left running, and whoever was attacked
//! is told what is wrong. `RETRO_BINARY=path` attacks another `retro`.

#[path = "attacks/code.rs"]
mod code;
#[path = "attacks/copies.rs"]
mod copies;
#[path = "attacks/descriptors.rs"]
mod descriptors;
#[path = "attacks/documents.rs"]
mod documents;
#[path = "attacks/dwarf.rs"]
mod dwarf;
#[path = "replay/forged.rs"]
mod forged;
#[path = "attacks/gdb.rs"]
mod gdb;
#[path = "attacks/links.rs"]
mod links;
#[path = "attacks/memory.rs"]
mod memory;
#[path = "attacks/old_kernels.rs"]
mod old_kernels;
#[path = "attacks/owners.rs"]
mod owners;
#[path = "attacks/packs.rs"]
mod packs;
#[path = "attacks/page.rs"]
mod page;
#[path = "attacks/place.rs"]
mod place;
#[path = "attacks/races.rs"]
mod races;
#[path = "attacks/recorder.rs"]
mod recorder;
#[path = "attacks/sandbox.rs"]
mod sandbox;
#[path = "attacks/takeover.rs"]
mod takeover;
