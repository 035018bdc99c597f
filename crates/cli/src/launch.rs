//! Turns this process into the guest: executes the engine with everything the guest is to get.
//!
//! The engine receives the guest's own argument vector and environment, untouched byte for byte,
//! and as one more, last environment variable what `retro_abi::config` describes.

use std::convert::Infallible;
use std::ffi::{CStr, CString, OsString, c_char};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::unistd::execveat;
use retro_abi::config::{Config, Policy, SharedFile, Supervised};

/// A program that is ready to be started under the engine.
#[derive(Debug)]
pub struct Launch {
    engine: OwnedFd,
    path: PathBuf,
    arguments: Vec<CString>,
    cache_kib: Option<u32>,
}

impl Launch {
    /// Prepares to run the file at `path` with `arguments`, of which the first is its name.
    pub fn new(
        engine: OwnedFd,
        path: PathBuf,
        arguments: &[OsString],
        cache_kib: Option<u32>,
    ) -> Result<Self> {
        let arguments = arguments
            .iter()
            .map(|argument| CString::new(argument.as_bytes()))
            .collect::<Result<_, _>>()
            .context("an argument holds a NUL byte")?;
        Ok(Self { engine, path, arguments, cache_kib })
    }

    /// Executes the engine in this process. Returns only if that fails. `shared` is what the policy
    /// writes to, if anything: counters or the recorder's memory. `supervised` is who stands in for the guest.
    pub fn execute(
        &self,
        policy: Policy,
        shared: Option<SharedFile>,
        supervised: Option<Supervised>,
    ) -> Result<Infallible> {
        let config = Config {
            policy,
            stats: shared.filter(|_| policy == Policy::Count),
            channel: shared.filter(|_| policy == Policy::Record),
            cache_kib: self.cache_kib,
            supervised,
            ..Config::new(self.path.as_os_str().as_bytes())
        };
        let variable = variable(&config)?;
        // SAFETY: this process has one thread and never changes its environment, so the strings
        // stay as they are until they are replaced together with the process image.
        let mut environment = unsafe { inherited_environment() };
        environment.push(&variable);
        execveat(&self.engine, c"", &self.arguments, &environment, AtFlags::AT_EMPTY_PATH)
            .map_err(explain)
    }
}

/// The whole variable, `RETRO_ENGINE=...`.
fn variable(config: &Config) -> Result<CString> {
    let mut text = String::new();
    config.write_prefix(&mut text).context("cannot describe the run to the engine")?;
    let mut bytes = OsString::from(text).into_vec();
    bytes.extend_from_slice(config.path);
    CString::new(bytes).context("the program's path holds a NUL byte")
}

/// This process's environment as the kernel gave it, with entries that are no `NAME=VALUE`.
///
/// # Safety
/// The environment must not change while the result is in use.
unsafe fn inherited_environment() -> Vec<&'static CStr> {
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    let mut entries = Vec::new();
    // SAFETY: the C library keeps `environ` null or pointing to an array of NUL-terminated
    // strings that ends with a null pointer; the caller rules out a change meanwhile.
    unsafe {
        let mut entry = environ;
        while !entry.is_null() && !(*entry).is_null() {
            entries.push(CStr::from_ptr(*entry));
            entry = entry.add(1);
        }
    }
    entries
}

fn explain(errno: Errno) -> anyhow::Error {
    let advice = match errno {
        Errno::E2BIG => "the arguments and the environment are too long together",
        Errno::EACCES => {
            "executing an unnamed file is forbidden here; allow it with \
                          `sysctl vm.memfd_noexec=1` or set TMPDIR to a directory that is not \
                          mounted noexec"
        }
        // The engine has one place in the address space, and under an engine it is taken.
        Errno::ENOEXEC => "retro does not run under retro; leave out the inner one",
        Errno::ENOMEM => "not enough memory",
        _ => errno.desc(),
    };
    anyhow::anyhow!("cannot start the engine: {advice}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_ends_with_the_path_s_bytes() {
        let config = Config {
            policy: Policy::Count,
            stats: Some(SharedFile { pid: 9, fd: 4 }),
            ..Config::new(b"/a\xff;b")
        };
        let variable = variable(&config).unwrap();
        assert_eq!(variable.to_bytes(), b"RETRO_ENGINE=policy=count;stats=9/4;path=/a\xff;b");
        let value = variable.to_bytes().strip_prefix(b"RETRO_ENGINE=").unwrap();
        assert_eq!(Config::parse(value), Ok(config));
    }
}
