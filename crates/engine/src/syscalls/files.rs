//! Files that would show the engine: /proc entries of the process itself.
//!
//! `exe` is replaced by the guest's executable, `maps`, `smaps`, `auxv` and `environ` by contents made up
//! for the guest, `stat`, `statm` and `status` in part. Everything else under /proc is right as it is.

use super::{Args, Outcome, pass, supervision};
use crate::dispatch::{engine, fixed};
use crate::guest_memory as guest;
use crate::maps::{AddressSpace, Backing, HEAP_START, STACK_TOP};
use crate::record;
use crate::signals::{self, Visible};
use crate::sys::{self, Errno, Result};
use alloc::vec::Vec;
use core::fmt::Write;
use core::sync::atomic::{AtomicBool, Ordering};
use linux_raw_sys::auxvec::AT_PHDR;
use linux_raw_sys::general as c;
use retro_abi::layout::{GUEST_END, GUEST_LIMIT, ISLAND_END, ISLAND_START, PAGE, SHADOW_DISTANCE};

const PATH_MAX: usize = 4096;

/// How the kernel shows the engine as a process's executable.
const ENGINE_LINK: &[u8] = b"/memfd:retro-engine";

/// A file of the guest's own /proc directory that the engine answers for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwnFile {
    Executable,
    Maps,
    DetailedMaps,
    AuxiliaryVector,
    Environment,
    Memory,
    Sizes,
    Status,
    Numbers,
}

/// Which own file a path names, if any. `ids` are the process and thread id as text.
fn own_file(path: &[u8], is_me: impl Fn(&[u8]) -> bool) -> Option<OwnFile> {
    let path = path.strip_suffix(b"\0").unwrap_or(path);
    let rest = path.strip_prefix(b"/proc/")?;
    let mut parts = rest.split(|&b| b == b'/').filter(|p| !p.is_empty());
    let who = parts.next()?;
    if who != b"self" && who != b"thread-self" && !is_me(who) {
        return None;
    }
    let mut name = parts.next()?;
    if name == b"task" {
        parts.next()?;
        name = parts.next()?;
    }
    if parts.next().is_some() {
        return None;
    }
    match name {
        b"exe" => Some(OwnFile::Executable),
        b"maps" => Some(OwnFile::Maps),
        b"smaps" => Some(OwnFile::DetailedMaps),
        b"auxv" => Some(OwnFile::AuxiliaryVector),
        b"mem" => Some(OwnFile::Memory),
        b"statm" => Some(OwnFile::Sizes),
        b"status" => Some(OwnFile::Status),
        b"stat" => Some(OwnFile::Numbers),
        b"environ" => Some(OwnFile::Environment),
        _ => None,
    }
}

fn is_own_id(text: &[u8]) -> bool {
    let number = core::str::from_utf8(text).ok().and_then(|t| t.parse::<i32>().ok());
    number.is_some_and(|n| n == sys::getpid() || n == sys::gettid())
}

/// The path that a name for the engine's image stands for in the guest's eyes.
pub fn visible_path(path: &[u8]) -> Option<Vec<u8>> {
    match own_file(path, is_own_id) {
        Some(OwnFile::Executable) => Some(fixed().program.path.clone()),
        _ => None,
    }
}

/// Calls with a path argument.
pub fn by_path(nr: u32, args: &Args) -> Outcome {
    let position = match nr {
        c::__NR_open | c::__NR_readlink | c::__NR_stat | c::__NR_lstat | c::__NR_access => 0,
        _ => 1,
    };
    let mut start = [0u8; 6];
    guest::read_partial(args[position], &mut start);
    if &start != b"/proc/" {
        return pass(nr, args);
    }
    let Ok(path) = guest::read_string(args[position], PATH_MAX) else { return pass(nr, args) };
    let opens = matches!(nr, c::__NR_open | c::__NR_openat | c::__NR_openat2);
    let flags = || match nr {
        c::__NR_open => args[1] as u32,
        c::__NR_openat => args[2] as u32,
        _ => guest::read_u64(args[2]).unwrap_or(0) as u32,
    };
    let Some(file) = own_file(&path, is_own_id) else {
        if let Some(executable_path) = foreign_executable(&path) {
            return executable(nr, args, position, &executable_path);
        }
        return match if opens { foreign_file(&path, flags()) } else { None } {
            Some(contents) => contents.and_then(|bytes| file_with(&bytes, flags())).into(),
            None => pass(nr, args),
        };
    };
    if file == OwnFile::Executable {
        return executable(nr, args, position, &fixed().program.path);
    }
    if !opens {
        return pass(nr, args);
    }
    let flags = flags();
    if file == OwnFile::Memory {
        if flags & c::O_ACCMODE != c::O_RDONLY {
            MEMORY_FILE_OPENED.store(true, Ordering::Relaxed);
        }
        return pass(nr, args);
    }
    if flags & c::O_ACCMODE != c::O_RDONLY || flags & (c::O_DIRECTORY | c::O_PATH) != 0 {
        return pass(nr, args);
    }
    contents(file, &path).and_then(|bytes| file_with(&bytes, flags)).into()
}

/// A call on a link to an executable, of which `path` is what it should lead to.
fn executable(nr: u32, args: &Args, position: usize, path: &[u8]) -> Outcome {
    match nr {
        c::__NR_readlink | c::__NR_readlinkat => {
            let (buffer, len) = (args[position + 1], args[position + 2] as usize);
            if len as i32 <= 0 {
                return Errno::EINVAL.into();
            }
            let visible = &path[..path.len() - 1];
            let take = visible.len().min(len);
            guest::write(buffer, &visible[..take]).map(|()| take as u64).into()
        }
        // The link itself is as good as the guest's.
        c::__NR_lstat => pass(nr, args),
        c::__NR_newfstatat if args[3] as u32 & c::AT_SYMLINK_NOFOLLOW != 0 => pass(nr, args),
        c::__NR_statx if args[2] as u32 & c::AT_SYMLINK_NOFOLLOW != 0 => pass(nr, args),
        _ => {
            let mut changed = *args;
            changed[position] = path.as_ptr() as u64;
            pass(nr, &changed)
        }
    }
}

/// An open file with the given contents.
fn file_with(bytes: &[u8], flags: u32) -> Result<u64> {
    let cloexec = if flags & c::O_CLOEXEC != 0 { c::MFD_CLOEXEC } else { 0 };
    let fd = sys::memfd(b"proc\0", cloexec)?;
    sys::write_all(fd, bytes)?;
    sys::seek(fd, 0)?;
    Ok(fd as u64)
}

/// Whether a path under the guest's own /proc directory is about the calling thread.
fn is_about_this_thread(path: &[u8]) -> bool {
    let mut parts = path.split(|&b| b == b'/').filter(|p| !p.is_empty()).skip(1);
    let who = parts.next().unwrap_or_default();
    let thread = if parts.next() == Some(b"task") { parts.next() } else { None };
    match thread {
        Some(thread) => thread == alloc::format!("{}", sys::gettid()).as_bytes(),
        None => who == b"thread-self" || sys::getpid() == sys::gettid(),
    }
}

fn contents(file: OwnFile, path: &[u8]) -> Result<Vec<u8>> {
    let program = &fixed().program;
    match file {
        OwnFile::AuxiliaryVector => Ok(program.auxv.clone()),
        OwnFile::Environment => {
            let (start, end) = program.environment;
            let mut bytes = alloc::vec![0; (end - start) as usize];
            guest::read(start, &mut bytes)?;
            Ok(bytes)
        }
        OwnFile::Maps => {
            let real = read_file(b"/proc/self/maps\0")?;
            Ok(guest_maps(&engine().space, &real))
        }
        OwnFile::DetailedMaps => {
            let real = read_file(b"/proc/self/smaps\0")?;
            Ok(guest_maps(&engine().space, &real))
        }
        OwnFile::Sizes => {
            let real = read_file(b"/proc/self/statm\0")?;
            Ok(guest_sizes(&engine().space, &real))
        }
        OwnFile::Status => {
            let (real, own) = (read_file(path)?, is_about_this_thread(path));
            Ok(guest_status(&engine().space, &signals::visible(), own, &real))
        }
        OwnFile::Numbers => {
            let (real, own) = (read_file(path)?, is_about_this_thread(path));
            Ok(guest_numbers(&engine().space, &signals::visible(), own, &real))
        }
        OwnFile::Executable | OwnFile::Memory => Err(Errno::EINVAL),
    }
}

fn read_file(path: &[u8]) -> Result<Vec<u8>> {
    let fd = sys::open(path, c::O_RDONLY | c::O_CLOEXEC, 0)?;
    let mut bytes = Vec::new();
    let mut chunk = [0u8; 4096];
    let result = loop {
        match sys::read(fd, &mut chunk) {
            Ok(0) => break Ok(bytes),
            Ok(n) => bytes.extend_from_slice(&chunk[..n]),
            Err(Errno::EINTR) => {}
            Err(error) => break Err(error),
        }
    };
    sys::close(fd);
    result
}

/// What the kernel gives a new stack, which is not in the account of mappings.
const STACK_PAGES: u64 = 34;

/// statm: total and data size in pages are the guest's alone; what is resident cannot be told apart.
fn guest_sizes(space: &AddressSpace, real: &[u8]) -> Vec<u8> {
    let text = core::str::from_utf8(real).unwrap_or_default();
    let mut fields: Vec<u64> = text.split_whitespace().map(|f| f.parse().unwrap_or(0)).collect();
    if let [size, _, _, _, _, data, ..] = fields.as_mut_slice() {
        *size = space.total() / PAGE + STACK_PAGES;
        *data = space.total_data() / PAGE + STACK_PAGES;
    }
    let fields: Vec<_> = fields.iter().map(|f| alloc::format!("{f}")).collect();
    (fields.join(" ") + "\n").into_bytes()
}

/// stat: the parent, the total size and the signals as the guest knows them. What is blocked is known of its `own` thread.
fn guest_numbers(space: &AddressSpace, signals: &Visible, own: bool, real: &[u8]) -> Vec<u8> {
    /// Numbers of fields behind the name, which may hold anything but is in parentheses.
    const PARENT: usize = 1;
    const SIZE: usize = 20;
    const BLOCKED: usize = 29;
    const IGNORED: usize = 30;
    const CAUGHT: usize = 31;
    /// Standard signals only.
    const SHOWN: u64 = 0x7fff_ffff;
    let Some(name_end) = real.iter().rposition(|&b| b == b')') else { return real.to_vec() };
    let (name, rest) = real.split_at(name_end + 1);
    let mut out = name.to_vec();
    for (number, field) in rest.trim_ascii().split(|&b| b == b' ').enumerate() {
        out.push(b' ');
        let value = match number {
            PARENT => {
                let real = core::str::from_utf8(field).ok().and_then(|d| d.parse().ok());
                supervision::visible_parent(real.unwrap_or(0)) as u64
            }
            SIZE => space.total() + STACK_PAGES * PAGE,
            BLOCKED if own => signals.blocked & SHOWN,
            IGNORED => signals.ignored & SHOWN,
            CAUGHT => signals.caught & SHOWN,
            _ => {
                out.extend_from_slice(field);
                continue;
            }
        };
        out.extend_from_slice(alloc::format!("{value}").as_bytes());
    }
    out.push(b'\n');
    out
}

/// status: the same, with sizes in KiB.
fn guest_status(space: &AddressSpace, signals: &Visible, own: bool, real: &[u8]) -> Vec<u8> {
    let stack = STACK_PAGES * PAGE;
    let (total, data) = (space.total() + stack, space.total_data() + stack);
    let mut out = Vec::with_capacity(real.len());
    for line in real.split_inclusive(|&b| b == b'\n') {
        let name = line.split(|&b| b == b':').next().unwrap_or_default();
        let size = |bytes: u64| alloc::format!("{:8} kB", bytes / 1024);
        let set = |signals: u64| alloc::format!("{signals:016x}");
        let value = match name {
            b"VmPeak" | b"VmSize" => size(total),
            b"VmData" => size(data),
            b"PPid" => {
                let digits = line[name.len() + 1..].trim_ascii();
                let real = core::str::from_utf8(digits).ok().and_then(|d| d.parse().ok());
                alloc::format!("{}", supervision::visible_parent(real.unwrap_or(0)))
            }
            b"SigBlk" if own => set(signals.blocked),
            b"SigIgn" => set(signals.ignored),
            b"SigCgt" => set(signals.caught),
            _ => {
                out.extend_from_slice(line);
                continue;
            }
        };
        let name = core::str::from_utf8(name).unwrap_or_default();
        out.extend_from_slice(alloc::format!("{name}:\t{value}\n").as_bytes());
    }
    out
}

/// The executable of another process that runs in an engine of its own: the file that its program headers,
/// which its auxiliary vector names, are mapped from. Ends in NUL.
fn foreign_executable(path: &[u8]) -> Option<Vec<u8>> {
    let process = path.strip_suffix(b"/exe\0")?;
    let id = process.strip_prefix(b"/proc/")?;
    if id.is_empty() || !id.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let mut link = [0u8; 64];
    if !sys::read_link(path, &mut link).ok()?.starts_with(ENGINE_LINK) {
        return None;
    }
    let file = |name: &[u8]| read_file(&[process, name].concat()).ok();
    let auxv = file(b"/auxv\0")?;
    let word = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).unwrap_or(0);
    let headers = auxv
        .chunks_exact(16)
        .find(|pair| word(&pair[..8]) == AT_PHDR as u64)
        .map(|pair| word(&pair[8..]))?;
    let maps = file(b"/maps\0")?;
    let mut lines = maps.split(|&b| b == b'\n').filter_map(Line::parse);
    let line = lines.find(|line| (line.start..line.end).contains(&headers))?;
    let mut name = line.name.to_vec();
    name.push(0);
    Some(name)
}

/// The process of a path like `/proc/NUMBER/NAME` or `/proc/NUMBER/task/NUMBER/NAME`, and the name.
fn foreign_name(path: &[u8]) -> Option<(i32, &[u8])> {
    let path = path.strip_suffix(b"\0").unwrap_or(path);
    let rest = path.strip_prefix(b"/proc/")?;
    let mut parts = rest.split(|&b| b == b'/').filter(|p| !p.is_empty());
    let number = |text: &[u8]| core::str::from_utf8(text).ok()?.parse::<i32>().ok();
    let process = number(parts.next()?)?;
    let mut name = parts.next()?;
    if name == b"task" {
        number(parts.next()?)?;
        name = parts.next()?;
    }
    parts.next().is_none().then_some((process, name))
}

/// What a file of another process that runs in an engine should hold, if that is not what it holds.
fn foreign_file(path: &[u8], flags: u32) -> Option<Result<Vec<u8>>> {
    let (process, name) = foreign_name(path)?;
    let writes = flags & c::O_ACCMODE != c::O_RDONLY;
    match name {
        b"mem" if writes => FOREIGN_MEMORY_OPENED.store(true, Ordering::Relaxed),
        b"maps" | b"smaps" if !writes && runs_in_engine(process) => {
            return Some(read_file(path).map(|real| foreign_maps(&real)));
        }
        _ => {}
    }
    None
}

fn runs_in_engine(process: i32) -> bool {
    let link = alloc::format!("/proc/{process}/exe\0");
    let mut buffer = [0u8; 64];
    sys::read_link(link.as_bytes(), &mut buffer).is_ok_and(|path| path.starts_with(ENGINE_LINK))
}

/// Length of the real mapping that begins at an address.
pub fn mapping_length(start: u64) -> Result<u64> {
    let real = read_file(b"/proc/self/maps\0")?;
    let mut lines = real.split(|&b| b == b'\n').filter_map(Line::parse);
    lines.find(|line| line.start == start).map(|line| line.end - line.start).ok_or(Errno::ENOMEM)
}

/// The kernel's list less the engine's mappings, with the rights the guest gave, the heap and the stack
/// named, and ranges joined that only the engine's protection of code had split.
fn guest_maps(space: &AddressSpace, real: &[u8]) -> Vec<u8> {
    let follows = record::watching();
    let is_shadow = |line: &Line| follows && !record::shadow::covers(line.start, line.end);
    visible_maps(Some(space), is_shadow, real)
}

/// The same of another process, of whose guest only the kernel's list tells.
fn foreign_maps(real: &[u8]) -> Vec<u8> {
    let mut lines = real.split(|&b| b == b'\n').filter_map(Line::parse);
    // Only a process that keeps a shadow has its context there.
    let follows = lines.any(|line| (line.start..line.end).contains(&(SHADOW_DISTANCE - PAGE)));
    let is_shadow = |line: &Line| {
        let guest = line.end <= GUEST_END || (ISLAND_START..ISLAND_END).contains(&line.start);
        follows && !guest
    };
    visible_maps(None, is_shadow, real)
}

fn visible_maps(
    space: Option<&AddressSpace>,
    is_shadow: impl Fn(&Line) -> bool,
    real: &[u8],
) -> Vec<u8> {
    let mut out: Vec<u8> = Vec::with_capacity(real.len());
    let mut previous: Option<Line> = None;
    let mut hidden = false;
    for text in real.split_inclusive(|&b| b == b'\n') {
        let Some(mut line) = Line::parse(text) else {
            // A detail line of smaps belongs to the mapping before it.
            if !hidden {
                previous.take().into_iter().for_each(|p| p.print(&mut out));
                out.extend_from_slice(text);
            }
            continue;
        };
        hidden = (GUEST_LIMIT..1 << 63).contains(&line.start)
            || line.start < GUEST_LIMIT && is_shadow(&line)
            || matches!(line.name, b"[vdso]" | b"[vvar]" | b"[vvar_vclock]");
        if hidden {
            continue;
        }
        match space {
            Some(space) => line.adjust(space),
            None => line.name_by_place(),
        }
        match &mut previous {
            Some(p) if p.continues_in(&line) => p.end = line.end,
            _ => previous.replace(line).into_iter().for_each(|p| p.print(&mut out)),
        }
    }
    previous.into_iter().for_each(|p| p.print(&mut out));
    out
}

/// A line of /proc/self/maps.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line<'a> {
    start: u64,
    end: u64,
    rights: [u8; 4],
    offset: u64,
    /// Device and inode.
    identity: &'a [u8],
    name: &'a [u8],
}

impl<'a> Line<'a> {
    fn parse(text: &'a [u8]) -> Option<Line<'a>> {
        let text = text.strip_suffix(b"\n").unwrap_or(text);
        let hex = |bytes: &[u8]| u64::from_str_radix(core::str::from_utf8(bytes).ok()?, 16).ok();
        let dash = text.iter().position(|&b| b == b'-')?;
        let start = hex(&text[..dash])?;
        let mut fields = text[dash + 1..].splitn(3, |&b| b == b' ');
        let end = hex(fields.next()?)?;
        let rights = <[u8; 4]>::try_from(fields.next()?).ok()?;
        let rest = fields.next()?;
        let space = rest.iter().position(|&b| b == b' ')?;
        let offset = hex(&rest[..space])?;
        let rest = &rest[space + 1..];
        // "dev inode", then blanks, then the name.
        let device_end = rest.iter().position(|&b| b == b' ')?;
        let inode_end = rest[device_end + 1..].iter().position(|&b| b == b' ');
        let identity_end = inode_end.map_or(rest.len(), |at| device_end + 1 + at);
        let name = &rest[identity_end..];
        let name_start = name.iter().position(|&b| b != b' ').unwrap_or(name.len());
        let (identity, name) = (&rest[..identity_end], &name[name_start..]);
        Some(Line { start, end, rights, offset, identity, name })
    }

    /// Replaces what is the engine's doing by what the guest believes.
    fn adjust(&mut self, space: &AddressSpace) {
        let Some(mapping) = space.find(self.start) else { return };
        for (at, (bit, letter)) in [(1, b'r'), (2, b'w'), (4, b'x')].into_iter().enumerate() {
            self.rights[at] = if mapping.prot & bit != 0 { letter } else { b'-' };
        }
        match mapping.backing {
            Backing::Heap => self.name = b"[heap]",
            Backing::Stack if self.end == STACK_TOP => self.name = b"[stack]",
            // The kernel's idea of heap and stack is not the guest's.
            _ if self.name == b"[heap]" || self.name == b"[stack]" => self.name = b"",
            _ => {}
        }
    }

    /// Names heap and stack as far as their places tell.
    fn name_by_place(&mut self) {
        if self.start == HEAP_START {
            self.name = b"[heap]";
        } else if self.end == STACK_TOP {
            self.name = b"[stack]";
        } else if self.name == b"[heap]" || self.name == b"[stack]" {
            self.name = b"";
        }
    }

    fn continues_in(&self, next: &Line) -> bool {
        let file = self.identity.iter().any(|&b| (b'1'..=b'9').contains(&b));
        self.end == next.start
            && self.rights == next.rights
            && self.identity == next.identity
            && self.name == next.name
            && (!file || self.offset + (self.end - self.start) == next.offset)
    }

    fn print(&self, out: &mut Vec<u8>) {
        let rights = core::str::from_utf8(&self.rights).unwrap_or("----");
        let identity = core::str::from_utf8(self.identity).unwrap_or("00:00 0");
        let mut text = alloc::string::String::new();
        let _ = write!(
            text,
            "{:08x}-{:08x} {rights} {:08x} {identity}",
            self.start, self.end, self.offset
        );
        out.extend_from_slice(text.as_bytes());
        // The kernel pads to column 73 before a name and ends the line with a blank without one.
        out.push(b' ');
        if !self.name.is_empty() {
            let pad = 73usize.saturating_sub(text.len() + 1);
            out.resize(out.len() + pad, b' ');
            out.extend_from_slice(self.name);
        }
        out.push(b'\n');
    }
}

/// Whether the guest has ever opened its own memory as a writable file.
static MEMORY_FILE_OPENED: AtomicBool = AtomicBool::new(false);

/// The same of another process's memory.
static FOREIGN_MEMORY_OPENED: AtomicBool = AtomicBool::new(false);

/// Writes. A write to the guest's own memory file changes code without any fault, even where the guest
/// itself may not write; another process must be told.
pub fn write(nr: u32, args: &Args) -> Outcome {
    let own = MEMORY_FILE_OPENED.load(Ordering::Relaxed);
    let foreign = FOREIGN_MEMORY_OPENED.load(Ordering::Relaxed);
    if !own && !foreign {
        return pass(nr, args);
    }
    let link = alloc::format!("/proc/self/fd/{}\0", args[0] as u32);
    let mut buffer = [0u8; 64];
    let Ok(path) = sys::read_link(link.as_bytes(), &mut buffer) else { return pass(nr, args) };
    let to_memory = own_file(path, is_own_id) == Some(OwnFile::Memory);
    let to_foreign = foreign_name(path).filter(|&(_, name)| name == b"mem").map(|(pid, _)| pid);
    let outcome = pass(nr, args);
    if let (false, Some(pid), Outcome::Value(written)) = (to_memory, to_foreign, outcome)
        && sys::check(written).is_ok()
    {
        // Where the file's position was is not worth asking.
        let (start, end) = match nr {
            c::__NR_pwrite64 => (args[3], args[3].saturating_add(written)),
            _ => (0, GUEST_LIMIT),
        };
        crate::ptrace::memory_written(pid, start, end);
    }
    if to_memory {
        let engine = &mut *engine();
        engine.cache.unprotect_all(&engine.space);
        engine.cache.invalidate_range(0, GUEST_LIMIT);
    }
    outcome
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::maps::Mapping;
    use std::string::String;

    #[test]
    fn names_of_own_files() {
        let check = |path: &str, expected| {
            assert_eq!(own_file(path.as_bytes(), |id| id == b"42"), expected, "{path}");
        };
        check("/proc/self/exe\0", Some(OwnFile::Executable));
        check("/proc/42/maps", Some(OwnFile::Maps));
        check("/proc/43/maps", None);
        check("/proc/thread-self/auxv", Some(OwnFile::AuxiliaryVector));
        check("/proc/self/task/42/smaps", Some(OwnFile::DetailedMaps));
        check("/proc//self//environ", Some(OwnFile::Environment));
        check("/proc/self/exe/x", None);
        check("/proc/self", None);
        check("/etc/passwd", None);
    }

    #[test]
    fn maps_show_the_guest_only() {
        let mut space = AddressSpace::new(8 << 20);
        let code =
            Mapping { start: 0x1000_0000, end: 0x1000_3000, prot: 7, backing: Backing::File };
        space.insert(code);
        let real = "\
10000000-10001000 rwxp 00000000 08:01 77                                 /bin/guest\n\
10001000-10002000 r-xp 00001000 08:01 77                                 /bin/guest\n\
10002000-10003000 rwxp 00002000 08:01 77                                 /bin/guest\n\
700000000000-700000001000 r-xp 00000000 00:01 5                          /memfd:engine (deleted)\n";
        let shown = String::from_utf8(guest_maps(&space, real.as_bytes())).unwrap();
        assert_eq!(
            shown,
            "10000000-10003000 rwxp 00000000 08:01 77                                 /bin/guest\n"
        );
    }
}
