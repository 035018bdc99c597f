//! Finding the system's programs.
//!
//! The system directories come before `PATH`: a version manager's shim in front of `python3` is a
//! shell script that would be measured instead of the program.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The path of a system program, or nothing where it is not installed.
pub fn locate(name: &str) -> Option<PathBuf> {
    if name == "cc1" {
        return locate_compiler_proper();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    [PathBuf::from("/usr/bin"), PathBuf::from("/bin")]
        .into_iter()
        .chain(std::env::split_paths(&path))
        .map(|directory| directory.join(name))
        .find(|candidate| candidate.is_file())
}

/// `cc1` is in a directory that only the compiler driver knows.
fn locate_compiler_proper() -> Option<PathBuf> {
    let output = Command::new(locate("gcc")?).arg("-print-prog-name=cc1").output().ok()?;
    let answer = String::from_utf8(output.stdout).ok()?;
    let path = Path::new(answer.trim_end());
    path.is_absolute().then(|| path.to_path_buf())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_is_there_and_only_that() {
        assert_eq!(
            locate("sh"),
            Some(PathBuf::from("/usr/bin/sh")).filter(|p| p.is_file()).or(Some("/bin/sh".into()))
        );
        assert_eq!(locate("no-such-program-anywhere"), None);
    }
}
