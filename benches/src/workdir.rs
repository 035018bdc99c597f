//! The one directory in which a session creates files.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};

/// Removed with everything in it when dropped.
pub struct WorkDirectory {
    path: PathBuf,
}

impl WorkDirectory {
    /// Creates a new directory under the system's temporary directory (`TMPDIR`).
    pub fn create() -> Result<Self> {
        static CREATED: AtomicU32 = AtomicU32::new(0);
        let (process, number) = (std::process::id(), CREATED.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(format!("retro-bench.{process}.{number}"));
        fs::create_dir(&path).with_context(|| format!("creating {}", path.display()))?;
        Ok(Self { path })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for WorkDirectory {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            eprintln!("retro-bench: could not remove {}: {error}", self.path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_removed_with_its_contents() {
        let directory = WorkDirectory::create().expect("creates");
        let path = directory.path().to_path_buf();
        fs::write(path.join("file"), "contents").expect("writes");
        drop(directory);
        assert!(!path.exists());
    }
}
