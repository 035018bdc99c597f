//! The end-to-end tests of the web page, in Chromium.

use anyhow::{Result, bail};

use crate::process::{cargo, command, is_installed, root, run};

/// Where the tests and what they need are.
const DIRECTORY: &str = "ui";

/// Installs the page's test tools as the lock file has them, checks the types, and runs the tests on the command as it is built for tests.
pub fn test() -> Result<()> {
    if !is_installed("npm") {
        bail!("the tests of the page need npm, which comes with nodejs or is a package of its own");
    }
    let mut build = cargo();
    run(build.args(["build", "--package", "retro-cli"]))?;
    let in_directory = |program: &str, arguments: &[&str]| {
        let mut command = command(program);
        command.current_dir(root().join(DIRECTORY)).args(arguments);
        // The browser is Debian's.
        command.env("PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD", "1");
        run(&mut command)
    };
    in_directory("npm", &["ci", "--no-audit", "--no-fund"])?;
    in_directory("npm", &["run", "types"])?;
    in_directory("npm", &["test"])
}
