//! What `/proc` had to say of the process at a moment, made from what is known of it.

use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;

use retro_query::{Error, Mapping};

use crate::debuggee::Debuggee;

/// A file of the process. None for what is not of its `/proc`.
pub fn contents(debuggee: &Debuggee, path: &str, time: u64) -> Result<Option<Vec<u8>>, Error> {
    let Some(name) = name(debuggee, path) else { return Ok(None) };
    Ok(Some(match name {
        "maps" | "smaps" => maps(&debuggee.run.maps(debuggee.at(time))?),
        "cmdline" => debuggee.program.arguments.clone(),
        "environ" => debuggee.program.environment.clone(),
        "auxv" => debuggee.run.auxiliary_vector(debuggee.process.log)?.unwrap_or_default(),
        "comm" => [command(debuggee), b"\n"].concat(),
        "status" => status(debuggee, time)?.into_bytes(),
        "stat" => stat(debuggee).into_bytes(),
        _ => return Ok(None),
    }))
}

/// Where a link of the process leads to. None for what is none.
pub fn link(debuggee: &Debuggee, path: &str) -> Option<Vec<u8>> {
    match name(debuggee, path)? {
        "exe" => Some(debuggee.program.path.clone()),
        "cwd" => Some(debuggee.program.directory.clone()),
        "root" => Some(b"/".to_vec()),
        _ => None,
    }
}

/// What is asked for of the process's own directory.
fn name<'a>(debuggee: &Debuggee, path: &'a str) -> Option<&'a str> {
    let (process, name) = path.strip_prefix("/proc/")?.split_once('/')?;
    let is_own = process == "self" || process.parse() == Ok(debuggee.pid());
    // A thread sees what its process sees.
    let name = match name.strip_prefix("task/").and_then(|task| task.split_once('/')) {
        Some((_, name)) => name,
        None => name,
    };
    is_own.then_some(name)
}

fn command(debuggee: &Debuggee) -> &[u8] {
    let path = &debuggee.program.path;
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    &name[..name.len().min(15)]
}

fn maps(mappings: &[Mapping]) -> Vec<u8> {
    /// A mapping that others share, as `mmap` has it.
    const SHARED: u32 = 1;
    let mut text = Vec::new();
    for mapping in mappings {
        let right = |bit: u32, letter: char| if mapping.prot & bit != 0 { letter } else { '-' };
        let sharing = if mapping.flags & SHARED != 0 { 's' } else { 'p' };
        let line = format!(
            "{:08x}-{:08x} {}{}{}{sharing} {:08x} 00:00 {:<10}",
            mapping.start,
            mapping.end,
            right(1, 'r'),
            right(2, 'w'),
            right(4, 'x'),
            mapping.offset,
            u32::from(mapping.file.is_some()),
        );
        text.extend(line.as_bytes());
        if let Some(file) = &mapping.file {
            text.extend(format!("{:1$}", "", 73usize.saturating_sub(line.len())).as_bytes());
            text.extend(file.as_os_str().as_bytes());
        }
        text.push(b'\n');
    }
    text
}

fn status(debuggee: &Debuggee, time: u64) -> Result<String, Error> {
    let threads = debuggee.run.threads(debuggee.at(time))?;
    let mut text = String::new();
    let _ = writeln!(text, "Name:\t{}", String::from_utf8_lossy(command(debuggee)));
    let _ = writeln!(text, "State:\tt (tracing stop)");
    for key in ["Tgid", "Pid"] {
        let _ = writeln!(text, "{key}:\t{}", debuggee.pid());
    }
    let _ = writeln!(text, "PPid:\t{}", debuggee.program.parent);
    let _ = writeln!(text, "Threads:\t{}", threads.len());
    Ok(text)
}

fn stat(debuggee: &Debuggee) -> String {
    let name = String::from_utf8_lossy(command(debuggee)).into_owned();
    let (pid, parent) = (debuggee.pid(), debuggee.program.parent);
    let unknown = " 0".repeat(45);
    format!("{pid} ({name}) t {parent} {pid} {pid}{unknown}\n")
}
