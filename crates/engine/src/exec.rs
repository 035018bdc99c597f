//! From a path to something that can be loaded: permissions, `#!` lines, the right error.
//!
//! `execve` of the guest runs this before the old program is gone, so that a failure leaves the caller
//! intact with the errno the kernel would have given.

use crate::elf;
use crate::sys::{self, Errno, Result};
use alloc::vec::Vec;
use linux_raw_sys::general as c;

/// Nested `#!` interpreters that the kernel follows.
const MAX_SCRIPTS: usize = 5;
/// Bytes of a file that decide its format.
const HEAD_LEN: usize = 256;

/// What is to be executed.
pub struct Resolved {
    /// The ELF file, open for reading, close-on-exec.
    pub fd: i32,
    /// The name that was executed: the interpreter's for scripts. Ends in NUL.
    pub name: Vec<u8>,
    /// Arguments that replace `argv[0]`, when scripts were followed; each ends in NUL.
    pub leading: Vec<Vec<u8>>,
}

/// Why it cannot run in the engine.
pub enum Refused {
    /// The error for the caller.
    Error(Errno),
    /// The kernel should try by itself: a set-uid program, a format only it knows, a file that may be
    /// executed but not read.
    Native,
}

impl From<Errno> for Refused {
    fn from(errno: Errno) -> Refused {
        Refused::Error(errno)
    }
}

/// Resolves `path` (ending in NUL) relative to `dir` with `execveat`'s flags.
pub fn resolve(dir: i32, path: &[u8], flags: u32) -> core::result::Result<Resolved, Refused> {
    let mut file = open_executable(dir, path, flags)?;
    let mut name = name_of(dir, path);
    let mut leading: Vec<Vec<u8>> = Vec::new();
    for _ in 0..=MAX_SCRIPTS {
        match inspect(&file)? {
            Format::Elf => return Ok(Resolved { fd: file.take(), name, leading }),
            Format::Unknown => return Err(Refused::Native),
            Format::Script { interpreter, argument } => {
                // argv becomes: interpreter, its argument, the script's name, the rest of argv.
                let mut arguments = Vec::from([interpreter.clone()]);
                arguments.extend(argument);
                arguments.push(name);
                if !leading.is_empty() {
                    arguments.extend(leading.drain(1..));
                }
                leading = arguments;
                file = open_executable(c::AT_FDCWD, &interpreter, 0)?;
                name = interpreter;
            }
        }
    }
    Err(Errno::ELOOP.into())
}

/// The name the kernel gives to what is executed through a descriptor.
fn name_of(dir: i32, path: &[u8]) -> Vec<u8> {
    if dir == c::AT_FDCWD || path.first() == Some(&b'/') {
        return path.to_vec();
    }
    let mut name = alloc::format!("/dev/fd/{dir}").into_bytes();
    if path.len() > 1 {
        name.push(b'/');
    }
    name.extend_from_slice(path);
    name
}

struct OpenFile(i32);

impl OpenFile {
    fn take(&mut self) -> i32 {
        core::mem::replace(&mut self.0, -1)
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        if self.0 >= 0 {
            sys::close(self.0);
        }
    }
}

fn open_executable(dir: i32, path: &[u8], flags: u32) -> core::result::Result<OpenFile, Refused> {
    let empty = path == b"\0";
    if empty && flags & c::AT_EMPTY_PATH == 0 {
        return Err(Errno::ENOENT.into());
    }
    let nofollow = if flags & c::AT_SYMLINK_NOFOLLOW != 0 { c::O_NOFOLLOW } else { 0 };
    let opened = if empty {
        sys::file_status(dir)?;
        // A new description, so that reading does not move the guest's file position.
        let link = alloc::format!("/proc/self/fd/{dir}\0");
        sys::open(link.as_bytes(), c::O_RDONLY | c::O_CLOEXEC, 0)
    } else {
        sys::open_at(dir, path, c::O_RDONLY | c::O_CLOEXEC | c::O_NONBLOCK | nofollow, 0)
    };
    let file = match opened {
        Ok(fd) => OpenFile(fd),
        Err(Errno::EACCES)
            if sys::access_at(dir, path, c::X_OK, flags & c::AT_EMPTY_PATH).is_ok() =>
        {
            return Err(Refused::Native);
        }
        Err(error) => return Err(error.into()),
    };
    let status = sys::file_status(file.0)?;
    if status.st_mode & c::S_IFMT != c::S_IFREG {
        return Err(Errno::EACCES.into());
    }
    let access_flags = flags & c::AT_EMPTY_PATH;
    sys::access_at(dir, path, c::X_OK, access_flags)?;
    let changes_user = status.st_mode & c::S_ISUID != 0 && status.st_uid != sys::geteuid();
    let changes_group = status.st_mode & (c::S_ISGID | 0o010) == c::S_ISGID | 0o010
        && status.st_gid != sys::getegid();
    if changes_user || changes_group {
        return Err(Refused::Native);
    }
    Ok(file)
}

enum Format {
    Elf,
    Script { interpreter: Vec<u8>, argument: Option<Vec<u8>> },
    Unknown,
}

fn inspect(file: &OpenFile) -> Result<Format> {
    let mut head = [0u8; HEAD_LEN];
    let len = sys::read_at(file.0, &mut head, 0)?;
    if elf::is_elf(&head) {
        let executable = elf::parse(&elf::File(file.0))?;
        if let Some(interpreter) = executable.interpreter {
            check_interpreter(&interpreter)?;
        }
        return Ok(Format::Elf);
    }
    if head[..len].starts_with(b"#!") {
        return script(&head[..len]);
    }
    Ok(Format::Unknown)
}

fn check_interpreter(path: &[u8]) -> Result<()> {
    let file = OpenFile(sys::open(path, c::O_RDONLY | c::O_CLOEXEC, 0)?);
    sys::access_at(c::AT_FDCWD, path, c::X_OK, 0)?;
    elf::parse(&elf::File(file.0)).map(drop).map_err(|_| Errno::ELIBBAD)
}

/// Takes a `#!` line apart: the interpreter and one optional argument, which may hold blanks.
fn script(head: &[u8]) -> Result<Format> {
    let is_blank = |b: &u8| *b == b' ' || *b == b'\t';
    let line = &head[2..];
    let end = line.iter().position(|&b| b == b'\n');
    let line = match end {
        Some(end) => &line[..end],
        // A line that does not end within the head is fine only if the interpreter's name does.
        None if head.len() < HEAD_LEN => line,
        None if line.iter().skip_while(|b| is_blank(b)).any(is_blank) => line,
        None => return Err(Errno::ENOEXEC),
    };
    let line = line.split(|&b| b == 0).next().unwrap_or(line);
    let start = line.iter().position(|b| !is_blank(b)).ok_or(Errno::ENOEXEC)?;
    let line = &line[start..];
    let line = &line[..line.iter().rposition(|b| !is_blank(b)).map_or(0, |last| last + 1)];
    let name_end = line.iter().position(is_blank).unwrap_or(line.len());
    let terminated = |bytes: &[u8]| {
        let mut owned = bytes.to_vec();
        owned.push(0);
        owned
    };
    let rest = &line[name_end..];
    let argument = rest.iter().position(|b| !is_blank(b)).map(|at| terminated(&rest[at..]));
    Ok(Format::Script { interpreter: terminated(&line[..name_end]), argument })
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::String;

    fn check(line: &str, expected: Option<(&str, Option<&str>)>) {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().trim_end_matches('\0').into();
        let found: Option<(String, Option<String>)> = match script(line.as_bytes()) {
            Ok(Format::Script { interpreter, argument }) => {
                Some((text(interpreter), argument.map(text)))
            }
            _ => None,
        };
        let expected = expected.map(|(i, a)| (String::from(i), a.map(String::from)));
        assert_eq!(found, expected, "{line:?}");
    }

    #[test]
    fn script_lines() {
        check("#!/bin/sh\necho", Some(("/bin/sh", None)));
        check("#! /bin/sh -e \n", Some(("/bin/sh", Some("-e"))));
        check("#!/usr/bin/env  python3 -u\n", Some(("/usr/bin/env", Some("python3 -u"))));
        check("#!/bin/sh", Some(("/bin/sh", None)));
        check("#!\n", None);
        check("#!   \n", None);
        check("#!/a\tb\tc\n", Some(("/a", Some("b\tc"))));
    }
}
