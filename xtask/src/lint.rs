//! What is checked without running anything.

use anyhow::Result;

use crate::process::{cargo, run};
use crate::vector_code;

/// rustfmt, clippy for the workspace, for the freestanding engine and for what is fuzzed, and the engine's image.
pub fn lint() -> Result<()> {
    run(cargo().args(["fmt", "--all", "--check"]))?;
    // A workspace of its own.
    run(cargo().args(["fmt", "--all", "--check", "--manifest-path", "fuzz/Cargo.toml"]))?;
    run(cargo().args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    // The engine's executable has its own panic handler and allocator, which exist only with the
    // feature `image`: it is linted apart, since features of one build are shared by all of it.
    run(cargo()
        .args(["clippy", "--package", "retro-engine", "--bin", "retro-engine"])
        .args(["--features", "image", "--", "-D", "warnings"])
        // As the image is built; with unwinding, more than a panic handler would be missing.
        .env("CARGO_PROFILE_DEV_PANIC", "abort"))?;
    run(cargo()
        .args(["clippy", "--manifest-path", "fuzz/Cargo.toml", "--target-dir", "target/fuzz"])
        .args(["--", "-D", "warnings"]))?;
    vector_code::check()
}
