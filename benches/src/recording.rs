//! What a recording takes on disk, asked of `retro info`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

/// The size of a log beside the length of the run it tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LogSize {
    /// On disk.
    pub bytes: u64,
    /// Guest instructions of all processes.
    pub instructions: u64,
}

impl LogSize {
    pub fn bits_per_instruction(self) -> f64 {
        self.bytes as f64 * 8.0 / self.instructions as f64
    }
}

/// The part of `retro info --json` that counts here.
#[derive(Deserialize)]
struct Info {
    instructions: u64,
    log: Log,
}

#[derive(Deserialize)]
struct Log {
    bytes: u64,
}

/// Where a run of a recording mode leaves its recording, in the directory that the modes share.
pub fn place(scratch: &Path) -> PathBuf {
    scratch.join("recording")
}

/// The directory for the one recording of a program that all modes use that replay.
pub fn kept(scratch: &Path) -> PathBuf {
    scratch.join("kept")
}

/// Bytes of the index of the recording in a directory.
pub fn index_size(directory: &Path) -> u64 {
    fn size_of(directory: &Path) -> u64 {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let sizes = entries.map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => size_of(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        });
        sizes.sum()
    }
    size_of(&place(directory).join("index"))
}

/// The size of the recording at `path`. A damaged one is an error: it would look small.
pub fn measure(retro: &Path, path: &Path) -> Result<LogSize> {
    let mut command = Command::new(retro);
    command.args(["info", "--json"]).arg(path);
    let output = command.output().with_context(|| format!("starting {}", retro.display()))?;
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr);
        bail!("retro info: {}\n    {}", output.status, reason.trim_end());
    }
    parse(&output.stdout)
}

fn parse(json: &[u8]) -> Result<LogSize> {
    let info: Info = serde_json::from_slice(json).context("reading what retro info prints")?;
    if info.instructions == 0 {
        bail!("the recording holds no instructions");
    }
    Ok(LogSize { bytes: info.log.bytes, instructions: info.instructions })
}

/// Removes the recording, if there is one. The recorder of a run that was killed may still be writing: it is
/// given some time to notice.
pub fn remove(path: &Path) -> Result<()> {
    const ATTEMPTS: u32 = 50;
    let mut attempt = 0;
    loop {
        match fs::remove_dir_all(path) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(_) if attempt < ATTEMPTS => attempt += 1,
            Err(error) => {
                return Err(error).with_context(|| format!("removing {}", path.display()));
            }
        }
        sleep(Duration::from_millis(100));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workdir::WorkDirectory;

    #[test]
    fn bits_are_of_the_log_on_disk() {
        let size = parse(
            br#"{"name": "gzip-1", "instructions": 4000, "log": {"bytes": 50, "raw_bytes": 99}}"#,
        )
        .expect("complete");
        assert_eq!(size, LogSize { bytes: 50, instructions: 4000 });
        assert_eq!(size.bits_per_instruction(), 0.1);
    }

    #[test]
    fn what_is_missing_is_an_error() {
        assert!(parse(b"").is_err());
        assert!(parse(br#"{"instructions": 4000}"#).is_err());
        assert!(parse(br#"{"instructions": 0, "log": {"bytes": 50}}"#).is_err());
    }

    #[test]
    fn a_failing_retro_is_quoted() {
        let directory = WorkDirectory::create().expect("creates");
        let retro = directory.path().join("retro");
        let script = "#!/bin/sh\necho retro: no recording at \"$3\" >&2\nexit 1\n";
        fs::write(&retro, script).expect("writes");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&retro, mode).expect("is ours");
        let error = measure(&retro, Path::new("/nowhere")).expect_err("fails").to_string();
        assert!(error.contains("no recording at /nowhere"), "{error}");
    }

    #[test]
    fn removing_takes_all_and_needs_nothing() {
        let directory = WorkDirectory::create().expect("creates");
        let path = place(directory.path());
        remove(&path).expect("nothing to do");
        fs::create_dir_all(path.join("deep")).expect("creates");
        fs::write(path.join("deep/file"), "contents").expect("writes");
        remove(&path).expect("removes");
        assert!(!path.exists());
    }
}
