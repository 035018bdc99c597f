//! A directory for one test.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, process};

/// A directory of this test's own, removed when dropped.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Creates an empty directory, another one each time. `name` says whose it was if it is left over.
    pub fn new(name: &str) -> Self {
        static CREATED: AtomicU32 = AtomicU32::new(0);

        let number = CREATED.fetch_add(1, Ordering::Relaxed);
        let directory = format!("retro-{name}-{}-{number}", process::id());
        let scratch = Self(env::temp_dir().join(directory));
        scratch.empty();
        scratch
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Removes everything in it.
    pub fn empty(&self) {
        // It need not exist yet; if it cannot be removed, creating it fails and says so.
        let _ = fs::remove_dir_all(&self.0);
        fs::create_dir(&self.0).unwrap_or_else(|error| panic!("{}: {error}", self.0.display()));
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed stays for whoever cleans the temporary directory.
        let _ = fs::remove_dir_all(&self.0);
    }
}
