//! The files of a run where gdb finds them.
//!
//! gdb looks for a file by the path that it had, below a directory that it is told (`set sysroot`). If all files of the run are
//! still where they were, and the same, that is `/`. Otherwise it is a directory with links to those that are the
//! same, some of which the recording has with it, so that gdb never takes another file for the one of the run.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use retro_gdbserver::Debuggee;
use retro_symbols::{FileState, RecordedFile};

use crate::message::notify;
use crate::quoting::printable;

/// Where gdb finds files.
#[derive(Debug)]
pub struct Sysroot {
    /// The directory that stands for `/`.
    pub root: PathBuf,
    /// Where separate debug information is, besides the usual places.
    pub debug: Option<PathBuf>,
    /// The program, if it is there.
    pub program: Option<PathBuf>,
}

impl Sysroot {
    /// Makes what is needed, in a directory that is ours.
    pub fn make(debuggee: &Debuggee, place: &Path) -> Result<Sysroot> {
        let files = debuggee.run.symbols().recorded_files(debuggee.process.log);
        let path = Path::new(std::ffi::OsStr::from_bytes(&debuggee.program.path));
        tell_missing(&files, path);
        let is_in_place = |file: &RecordedFile| {
            file.location.as_ref().map_or(!file.path.exists(), |found| found.path() == file.path)
        };
        let program = files.iter().find(|file| file.path == path);
        let program = program.and_then(|file| Some(file.location.as_ref().ok()?.path()));
        if files.iter().all(is_in_place) {
            return Ok(Sysroot { root: "/".into(), debug: None, program });
        }
        let root = place.join("root");
        let debug = place.join("debug");
        link_all(&files, &root, &debug)
            .with_context(|| format!("cannot link files in {}", place.display()))?;
        // The program names its dynamic linker by a path that may go through links.
        if let Ok(Some((name, file))) = debuggee.interpreter()
            && let Some(Ok(location)) =
                files.iter().find(|known| known.path == file).map(|known| &known.location)
        {
            link(&location.path(), &below(&root, &name))
                .with_context(|| format!("cannot link files in {}", place.display()))?;
        }
        let program = program.map(|_| below(&root, path));
        Ok(Sysroot { root, debug: Some(debug), program })
    }
}

fn tell_missing(files: &[RecordedFile], program: &Path) {
    let Some(file) = files.iter().find(|file| file.path == program) else { return };
    let Err(state) = &file.location else { return };
    let name = printable(program.as_os_str().as_bytes());
    notify(&match state {
        FileState::Changed => {
            format!("{name} is not the file that was recorded any more: gdb gets no symbols of it")
        }
        _ => format!("{name} is not there any more: gdb gets no symbols of it"),
    });
}

fn link_all(files: &[RecordedFile], root: &Path, debug: &Path) -> std::io::Result<()> {
    for directory in [root, debug] {
        fs::create_dir_all(directory)?;
    }
    for file in files {
        if let Ok(location) = &file.location {
            link(&location.path(), &below(root, &file.path))?;
        }
        if let (Some(copied), Some(path)) = (&file.debug, by_build_id(&file.build_id))
            // gdb opens it by its path, and would follow a link.
            && copied.open().is_ok()
        {
            link(&copied.path(), &debug.join(path))?;
        }
    }
    Ok(())
}

/// A path below a directory that stands for `/`.
fn below(root: &Path, path: &Path) -> PathBuf {
    let relative: PathBuf = path
        .components()
        .filter(|component| matches!(component, std::path::Component::Normal(_)))
        .collect();
    root.join(relative)
}

/// Where debuggers look for separate debug information of a file.
fn by_build_id(id: &[u8]) -> Option<PathBuf> {
    let (first, rest) = id.split_first()?;
    let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
    Some(PathBuf::from(format!(".build-id/{first:02x}/{rest}.debug")))
}

/// A link; one that is there already was made for the same path. The recording may have been named by a relative path.
fn link(to: &Path, at: &Path) -> std::io::Result<()> {
    let to = std::path::absolute(to)?;
    if let Some(directory) = at.parent() {
        fs::create_dir_all(directory)?;
    }
    match symlink(to, at) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_below() {
        assert_eq!(
            below(Path::new("/r"), Path::new("/lib/../../etc/x")),
            Path::new("/r/lib/etc/x")
        );
    }

    #[test]
    fn debug_information_lies_by_build_id() {
        assert_eq!(by_build_id(&[0xab, 1, 2]), Some(".build-id/ab/0102.debug".into()));
        assert_eq!(by_build_id(&[]), None);
    }
}
