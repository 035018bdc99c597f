//! What the end-to-end tests share: building guest programs, running them natively and
//! under `retro`, and comparing what a user would see.
//!
//! This crate knows the `retro` command line only; it links nothing of the engine, so a test
//! that passes here passes for a user.

pub mod compare;
pub mod corpus;
pub mod instructions;
pub mod programs;
