//! The engine as bytes: a freestanding ELF executable, built by this crate's build script.
//!
//! Invariant: nothing of the engine is linked here; who depends on this crate gets an opaque file.

/// The executable image of the engine. Start it with the environment variable that
/// `retro_abi::config` describes.
pub static ENGINE_IMAGE: &[u8] = include_bytes!(env!("RETRO_ENGINE_IMAGE"));
