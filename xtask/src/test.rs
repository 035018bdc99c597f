//! The README's test command.

use anyhow::Result;

use crate::process::{cargo, is_installed, run};
use crate::{lint, packages, page};

/// Installs what is missing, checks the style, and runs every test.
pub fn test() -> Result<()> {
    let complete = packages::install_missing()?;
    lint::lint()?;
    let mut tests = cargo();
    if is_installed("cargo-nextest") {
        tests.args(["nextest", "run", "--workspace", "--no-fail-fast"]);
    } else {
        tests.args(["test", "--workspace", "--all-targets", "--no-fail-fast"]);
    }
    if complete {
        // With everything installed, a test that finds its program missing is wrong. The name does
        // not start with RETRO, since guests check that no such variable reaches them.
        tests.env("REQUIRE_TEST_PROGRAMS", "1");
    }
    run(&mut tests)?;
    run(cargo().args(["test", "--workspace", "--doc"]))?;
    if complete || is_installed("chromium") && is_installed("npm") {
        return page::test();
    }
    eprintln!("xtask: no Chromium or no npm here; the page is not tested");
    Ok(())
}
