//! What an address is called.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::files::FileState;
use crate::lines::Source;
use crate::modules::MappedFile;

/// A mapped file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// The last part of its path.
    pub name: String,
    /// Where it was.
    pub path: PathBuf,
    /// Whether names could be taken from it.
    pub state: FileState,
    /// When it was changed last, at the time it was mapped.
    pub modified: SystemTime,
}

impl Module {
    pub(crate) fn new(file: &MappedFile, state: FileState) -> Module {
        let path = &file.path;
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let seconds = Duration::from_secs(file.modified.0.try_into().unwrap_or(0));
        let since = seconds.saturating_add(Duration::from_nanos(file.modified.1.into()));
        let modified = UNIX_EPOCH.checked_add(since).unwrap_or(UNIX_EPOCH);
        Module { name, path: path.clone(), state, modified }
    }
}

/// A function or a variable, and how far into it an address is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name, as in the source.
    pub name: Arc<str>,
    /// Bytes from its start.
    pub offset: u64,
}

/// What is known of an address at a time.
///
/// As text, the best of `main+0x1f (hello.c:12)`, `puts+0x1f (libc.so.6)`, `libc.so.6+0x29d90`, `0x401000`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The address itself.
    pub address: u64,
    /// The file that is mapped there.
    pub module: Option<Arc<Module>>,
    /// The address as the file counts; the offset in the file if it is not ELF, or cannot be looked at.
    pub offset: u64,
    /// The function or variable.
    pub function: Option<Function>,
    /// The source line.
    pub source: Option<Source>,
}

impl Place {
    /// An address of which nothing is known.
    pub fn unnamed(address: u64) -> Place {
        Place { address, module: None, offset: address, function: None, source: None }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(module) = &self.module else { return write!(f, "{:#x}", self.address) };
        let Some(function) = &self.function else {
            let note = if module.state == FileState::Changed { " (changed since)" } else { "" };
            write!(f, "{}{note}+{:#x}", module.name, self.offset)?;
            return match &self.source {
                Some(source) => write!(f, " ({source})"),
                None => Ok(()),
            };
        };
        f.write_str(&function.name)?;
        if function.offset != 0 {
            write!(f, "+{:#x}", function.offset)?;
        }
        match &self.source {
            Some(source) => write!(f, " ({source})"),
            None => write!(f, " ({})", module.name),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        write!(f, "{name}:{}", self.line)
    }
}
