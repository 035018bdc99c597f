//! Random tests with new questions, and coverage-guided fuzzing.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};

use crate::process::{cargo, command, root, run};

/// Where the tests that use proptest are.
const RANDOM_TESTS: &str = "\
    kind(lib) & package(/^retro-(gdbserver|index|query|server)$/) \
    | kind(test) & binary(/^(expressions|language|events|hostile|set_tree|call_tree|page_versions|oracle)$/)";

/// The targets of `fuzz`, which have seeds in a directory of their name.
const TARGETS: [&str; 2] = ["answers", "index"];

/// What makes the compiler count which code an input leads to. A target has to be named along with it, so that
/// build scripts and macros are built without.
const COVERAGE: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1";
const TRIPLE: &str = "x86_64-unknown-linux-gnu";

/// Fuzzes for half of the minutes, and runs the random tests with one seed after the other for the other half, or until
/// something fails.
pub fn fuzz(minutes: &str) -> Result<()> {
    let minutes: u64 = minutes.parse().context("fuzz takes a number of minutes")?;
    let seconds = minutes * 60 / 2;
    fuzz_targets(seconds / TARGETS.len() as u64)?;
    random_tests(Duration::from_secs(seconds))
}

/// Runs each target for so many seconds. What it finds stays in `target/fuzz`, for the next time.
fn fuzz_targets(seconds: u64) -> Result<()> {
    let built = root().join("target/fuzz");
    for target in TARGETS {
        run(cargo()
            .args(["build", "--release", "--manifest-path", "fuzz/Cargo.toml"])
            .args(["--target", TRIPLE, "--bin", target, "--target-dir"])
            .arg(&built)
            .env("RUSTFLAGS", COVERAGE))?;
        let corpus = built.join("corpus").join(target);
        std::fs::create_dir_all(&corpus).context("cannot make a directory for what is found")?;
        run(command(built.join(TRIPLE).join("release").join(target))
            .arg(format!("-max_total_time={seconds}"))
            .args(["-max_len=40000", "-timeout=60", "-rss_limit_mb=4096", "-verbosity=0"])
            .arg(format!("-artifact_prefix={}/{target}-", built.display()))
            .arg(corpus)
            .arg(root().join("fuzz/seeds").join(target)))
        .with_context(|| format!("the input that {target} fails with is in {}", built.display()))?;
    }
    Ok(())
}

fn random_tests(duration: Duration) -> Result<()> {
    let end = Instant::now() + duration;
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
