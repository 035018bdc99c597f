//! What the end-to-end tests share: building guest programs, running them natively and
//! under `retro`, comparing what a user would see, and judging recordings.
//!
//! This crate knows the `retro` command line and the reader of recordings only; it links nothing of the
//! engine, so a test that passes here passes for a user.

pub mod compare;
pub mod corpus;
pub mod instructions;
pub mod programs;
pub mod recordings;
