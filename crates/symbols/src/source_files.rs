//! The text of source files.
//!
//! Debug information has the paths of the machine that compiled. Where the sources are now is for the user to say: by
//! what a path began with there and begins with here, or by directories in which the ends of paths are looked for. A
//! path is otherwise taken as it is, if it is absolute: what a relative one would mean depends on where we are.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use crate::files::open_regular;
use crate::lock;

/// Bytes of a file that are worth showing.
const SIZE_LIMIT: u64 = 16 << 20;

/// Files that are kept.
const KEPT_LIMIT: usize = 64;

/// Why there is no text.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// It is not where it should be.
    #[error("there is no file {path}; say where the sources are with --source-map OLD=NEW")]
    NotFound {
        /// As the compiler was told.
        path: String,
    },
    /// It is too large to be a source file.
    #[error("{} has {size} bytes, which is more than a source file has", path.display())]
    TooLarge {
        /// Where it is.
        path: PathBuf,
        /// Its size.
        size: u64,
    },
    /// It cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Read {
        /// Where it is.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// What was given is not two paths.
    #[error(
        "{given} is not of the form OLD=NEW, as in --source-map /build/project=/home/me/project"
    )]
    NotAMap {
        /// What was given.
        given: String,
    },
}

/// The text of a file.
#[derive(Debug)]
pub struct SourceText {
    /// Where it was found.
    pub path: PathBuf,
    /// When it was changed last.
    pub modified: Option<SystemTime>,
    text: String,
    /// Bytes of the file.
    size: u64,
    /// Where lines begin.
    starts: Vec<usize>,
}

impl SourceText {
    /// A line, from 1 on, without its end.
    pub fn line(&self, number: u32) -> Option<&str> {
        let index = usize::try_from(number).ok()?.checked_sub(1)?;
        let start = *self.starts.get(index)?;
        let end = self.starts.get(index + 1).copied().unwrap_or(self.text.len());
        Some(self.text[start..end].trim_end_matches(['\n', '\r']))
    }

    /// How many lines there are.
    pub fn line_count(&self) -> u32 {
        self.starts.len().try_into().unwrap_or(u32::MAX)
    }

    /// Whether it was changed after a program was built, so that lines may not be those of the program.
    pub fn is_newer_than(&self, program: SystemTime) -> bool {
        self.modified.is_some_and(|modified| modified > program)
    }
}

/// Where sources are.
#[derive(Debug, Default)]
pub struct SourceFiles {
    maps: Vec<(PathBuf, PathBuf)>,
    directories: Vec<PathBuf>,
    kept: Mutex<HashMap<PathBuf, Arc<SourceText>>>,
}

impl SourceFiles {
    /// Where the compiler had them.
    pub fn new() -> SourceFiles {
        SourceFiles::default()
    }

    /// Paths that begin with `old` begin with `new` here, from `OLD=NEW`.
    pub fn add_map(&mut self, given: &str) -> Result<(), SourceError> {
        match given.split_once('=') {
            Some((old, new)) if !old.is_empty() && !new.is_empty() => {
                self.maps.push((PathBuf::from(old), PathBuf::from(new)));
                // The one that says most is asked first.
                self.maps.sort_by_key(|(old, _)| std::cmp::Reverse(old.components().count()));
                Ok(())
            }
            _ => Err(SourceError::NotAMap { given: given.to_string() }),
        }
    }

    /// A directory in which the ends of paths are looked for.
    pub fn add_directory(&mut self, directory: impl Into<PathBuf>) {
        self.directories.push(directory.into());
    }

    /// The text of a file by the path that debug information has.
    pub fn read(&self, path: &str) -> Result<Arc<SourceText>, SourceError> {
        let not_found = || SourceError::NotFound { path: path.to_string() };
        let (found, file) = self.find(Path::new(path)).ok_or_else(not_found)?;
        let failed = |error| SourceError::Read { path: found.clone(), error };
        let metadata = file.metadata().map_err(failed)?;
        let modified = metadata.modified().ok();
        if let Some(known) = lock(&self.kept).get(&found)
            && known.modified == modified
            && known.size == metadata.len()
        {
            return Ok(Arc::clone(known));
        }
        if metadata.len() > SIZE_LIMIT {
            return Err(SourceError::TooLarge { path: found, size: metadata.len() });
        }
        let mut bytes = Vec::new();
        file.take(SIZE_LIMIT).read_to_end(&mut bytes).map_err(failed)?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let ends =
            text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        let starts = std::iter::once(0).chain(ends).filter(|start| *start < text.len()).collect();
        let text = Arc::new(SourceText {
            path: found.clone(),
            modified,
            text,
            size: metadata.len(),
            starts,
        });
        let mut kept = lock(&self.kept);
        if kept.len() >= KEPT_LIMIT {
            kept.clear();
        }
        kept.insert(found, Arc::clone(&text));
        Ok(text)
    }

    fn find(&self, path: &Path) -> Option<(PathBuf, File)> {
        let mapped = self.maps.iter().filter_map(|(old, new)| {
            let rest = path.strip_prefix(old).ok()?;
            Some(if rest.as_os_str().is_empty() { new.clone() } else { new.join(rest) })
        });
        let itself = path.is_absolute().then(|| path.to_path_buf());
        let parts: Vec<Component> = path.components().collect();
        let ends = (0..parts.len()).map(|skipped| parts[skipped..].iter().collect::<PathBuf>());
        // One that leads out of the directory, or is absolute, would be another file.
        let ends: Vec<PathBuf> = ends
            .filter(|end| end.components().all(|part| matches!(part, Component::Normal(_))))
            .collect();
        let searched = self
            .directories
            .iter()
            .flat_map(|directory| ends.iter().map(move |end| directory.join(end)));
        let mut candidates = mapped.chain(itself).chain(searched);
        candidates.find_map(|candidate| {
            let file = open_regular(&candidate).ok()?;
            Some((candidate, file))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::*;

    #[test]
    fn sources_are_found_where_they_are_said_to_be() {
        let place = tempfile::tempdir().unwrap();
        let here = |name: &str| place.path().join(name);
        fs::create_dir_all(here("new/deep")).unwrap();
        fs::write(here("new/deep/main.c"), "one\ntwo\r\n\nfour").unwrap();
        let mut files = SourceFiles::new();
        assert!(matches!(
            files.read("/nowhere/old/deep/main.c"),
            Err(SourceError::NotFound { .. })
        ));
        assert!(files.add_map("/nowhere/old").is_err());
        files.add_map("/nowhere=/elsewhere").unwrap();
        files.add_map(&format!("/nowhere/old={}", here("new").display())).unwrap();
        let text = files.read("/nowhere/old/deep/main.c").unwrap();
        assert_eq!(text.path, here("new/deep/main.c"));
        assert_eq!(text.line_count(), 4);
        let lines: Vec<_> = (0..6).map(|number| text.line(number)).collect();
        assert_eq!(lines, [None, Some("one"), Some("two"), Some(""), Some("four"), None]);
        assert!(files.read("/nowhere/older/deep/main.c").is_err());
        // Relative paths are looked for in directories only.
        assert!(files.read("build/deep/main.c").is_err());
        files.add_directory(here("new"));
        assert_eq!(files.read("build/deep/main.c").unwrap().path, here("new/deep/main.c"));
        assert!(files.read("../deep/none.c").is_err());
        let changed = text.modified.unwrap();
        assert!(text.is_newer_than(changed - Duration::from_secs(1)));
        assert!(!text.is_newer_than(changed));
    }

    #[test]
    fn what_is_no_source_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let large = place.path().join("large.c");
        File::create(&large).unwrap().set_len(SIZE_LIMIT + 1).unwrap();
        let files = SourceFiles::new();
        assert!(matches!(files.read(large.to_str().unwrap()), Err(SourceError::TooLarge { .. })));
        assert!(files.read(place.path().to_str().unwrap()).is_err());
        fs::write(&large, b"").unwrap();
        assert_eq!(files.read(large.to_str().unwrap()).unwrap().line_count(), 0);
        // A changed file is read again.
        fs::write(&large, b"\xff\xfe\n").unwrap();
        assert_eq!(files.read(large.to_str().unwrap()).unwrap().line_count(), 1);
    }
}
