//! Debian packages that building and testing need.

use anyhow::{Result, bail};

use crate::process::{command, is_installed, output, run};

/// What links the engine and the guests, then the programs that tests run under `retro`.
const PACKAGES: [&str; 36] = [
    "binutils",
    "gcc",
    "g++",
    "libc6-dev",
    "lld",
    "make",
    "musl-tools",
    "bash",
    "bc",
    "bison",
    "busybox-static",
    "bzip2",
    "chromium",
    "curl",
    "dash",
    "default-jdk-headless",
    "dwz",
    "flex",
    "gdb",
    "git",
    "gzip",
    "libc6-dbg",
    "libpython3.11-testsuite",
    "m4",
    "nodejs",
    "openssh-client",
    "openssl",
    "perl",
    "python3",
    "redis-server",
    "sqlite3",
    "strace",
    "tar",
    "tcl",
    "xz-utils",
    "zstd",
];

/// Installs the packages that are missing. Fails with the command to run by hand if this user
/// cannot install any. Returns whether everything is there now: on other systems nobody knows.
pub fn install_missing() -> Result<bool> {
    if !is_installed("dpkg-query") {
        eprintln!("xtask: no Debian package manager here; tests of missing programs are skipped");
        return Ok(false);
    }
    let missing = missing()?;
    if missing.is_empty() {
        return Ok(true);
    }
    let list = missing.join(" ");
    let is_root = output(command("id").arg("-u"))?.trim_ascii() == b"0";
    let prefix: &[&str] = match is_root {
        true => &["env"],
        false if is_installed("sudo") => &["sudo", "--non-interactive", "env"],
        false => bail!("missing packages; as root: apt-get install {list}"),
    };
    let apt = |arguments: &[&str]| {
        let mut apt = command(prefix[0]);
        apt.args(&prefix[1..]).args(["DEBIAN_FRONTEND=noninteractive", "apt-get", "--quiet"]);
        run(apt.args(arguments))
    };
    apt(&["update"])?;
    let mut install = vec!["install", "--yes", "--no-install-recommends"];
    install.extend(&missing);
    apt(&install)?;
    Ok(true)
}

fn missing() -> Result<Vec<&'static str>> {
    let listed = output(
        command("dpkg-query").args(["--show", "--showformat=${db:Status-Abbrev} ${Package}\n"]),
    )?;
    let listed = String::from_utf8_lossy(&listed);
    let installed: Vec<&str> =
        listed.lines().filter_map(|line| line.strip_prefix("ii ")).map(str::trim).collect();
    // Some packages of nodejs bring npm along, and cannot be installed beside Debian's.
    let npm = (!is_installed("npm")).then_some("npm");
    Ok(PACKAGES.into_iter().filter(|package| !installed.contains(package)).chain(npm).collect())
}
