//! New random questions for the tests that make them up.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};

use crate::process::{cargo, run};

/// Where the tests that use proptest are.
const RANDOM_TESTS: &str = "\
    kind(lib) & package(/^retro-(gdbserver|index|query|server)$/) \
    | kind(test) & binary(/^(expressions|language|events|hostile|set_tree|call_tree|page_versions|oracle)$/)";

/// Runs the random tests with one seed after the other, for so many minutes or until one fails.
pub fn fuzz(minutes: &str) -> Result<()> {
    let minutes: u64 = minutes.parse().context("fuzz takes a number of minutes")?;
    let end = Instant::now() + Duration::from_secs(minutes * 60);
    let first = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as u64;
    for seed in first.. {
        eprintln!("PROPTEST_RNG_SEED={seed}");
        run(cargo()
            .args(["nextest", "run", "--workspace", "--no-fail-fast", "--status-level=fail"])
            .args(["--cargo-quiet", "-E", RANDOM_TESTS])
            .env("PROPTEST_RNG_SEED", seed.to_string()))
        .with_context(|| format!("with PROPTEST_RNG_SEED={seed}"))?;
        if Instant::now() >= end {
            break;
        }
    }
    Ok(())
}
