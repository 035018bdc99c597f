//! The libraries of a process at a moment, from where its dynamic linker keeps them.
//!
//! The program's headers say where its dynamic section is, that says where the linker's own account begins, and that is a list
//! of modules. If the program is the linker itself (`ld.so ./program`), the account is where its symbols say. Whatever is missing (a
//! program without a linker, a moment before it was at work) ends the list.

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;

use retro_query::{Error, State};

use crate::debuggee::Debuggee;
use crate::documents::escaped;
use crate::session::Session;

/// Modules that are listed. More are a list that does not end.
const MOST: usize = 1 << 14;

/// Bytes of a path.
const LONGEST_NAME: u64 = 4096;

/// Keys of an auxiliary vector: where the program's headers are, and how many.
const HEADERS: u64 = 3;
const HEADER_COUNT: u64 = 5;

/// A module as the linker knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Library {
    /// Where the linker's record of it is.
    pub link_map: u64,
    /// How far addresses are from those in the file.
    pub bias: u64,
    /// Its dynamic section.
    pub dynamic: u64,
    /// Its path; maybe empty for the program itself.
    pub name: String,
    /// Whether it is the file that was executed: the program, or the linker that was told which program to load.
    pub is_executed: bool,
}

/// All modules, in the linker's order.
pub fn list(session: &mut Session) -> Result<Vec<Library>, Error> {
    let log = session.debuggee.process.log;
    let vector = session.debuggee.run.auxiliary_vector(log)?.unwrap_or_default();
    let state = session.state()?;
    let Some(executed) = dynamic_section(state, &vector)? else { return Ok(Vec::new()) };
    let Some(mut link_map) = first_link_map(state, executed)? else { return Ok(Vec::new()) };
    // Where not everything is indexed, nobody knows what is mapped.
    let maps = state.run().maps(state.moment()).unwrap_or_default();
    let mut libraries = Vec::new();
    while link_map != 0 && libraries.len() < MOST {
        let Some([bias, name, dynamic, next]) = words(state, link_map)? else { break };
        // The linker's name may go through links that are not there any more; that of the mapped file does not.
        let mapped = maps.iter().find(|mapping| (mapping.start..mapping.end).contains(&dynamic));
        let is_executed = dynamic == executed;
        let name = match mapped.and_then(|mapping| mapping.file.as_ref()) {
            Some(file) if !is_executed => file.to_string_lossy().into_owned(),
            _ => text(state, name)?,
        };
        libraries.push(Library { link_map, bias, dynamic, name, is_executed });
        link_map = next;
    }
    Ok(libraries)
}

/// The list as clients read it: the file that was executed is only named by its record.
pub fn document(session: &mut Session) -> Result<String, Error> {
    let libraries = list(session)?;
    let mut text = String::from("<library-list-svr4 version=\"1.0\"");
    if let Some(executed) = libraries.iter().find(|library| library.is_executed) {
        let _ = write!(text, " main-lm=\"{:#x}\"", executed.link_map);
    }
    text.push_str(">\n");
    let others = libraries.iter().filter(|library| !library.is_executed);
    for Library { link_map, bias, dynamic, name, .. } in others {
        let name = escaped(name);
        let _ = writeln!(
            text,
            "<library name=\"{name}\" lm=\"{link_map:#x}\" l_addr=\"{bias:#x}\" l_ld=\"{dynamic:#x}\" lmid=\"0x0\"/>"
        );
    }
    text.push_str("</library-list-svr4>\n");
    Ok(text)
}

/// The linker's first record, from the dynamic section of the file that was executed.
fn first_link_map(state: &State, dynamic: u64) -> Result<Option<u64>, Error> {
    const DEBUG: u64 = 21;
    let mut account = None;
    for index in 0..MOST as u64 {
        match words(state, dynamic + index * 16)? {
            None | Some([0, _]) => break,
            Some([DEBUG, value]) => account = Some(value).filter(|&value| value != 0),
            Some(_) => {}
        }
    }
    let Some(account) = account.or_else(|| linkers_account(state, dynamic)) else {
        return Ok(None);
    };
    // A version, then the first record.
    Ok(words(state, account)?.map(|[_, first]| first).filter(|&first| first != 0))
}

/// Where a dynamic linker keeps its account, if the file with this dynamic section is one.
fn linkers_account(state: &State, dynamic: u64) -> Option<u64> {
    let retro_query::Moment { log, time } = state.moment();
    let symbols = state.run().symbols();
    let linker = symbols.module_at(log, time, dynamic)?;
    let found = symbols.symbol_named(log, time, "_r_debug");
    let account = found.iter().find(|symbol| Arc::ptr_eq(&symbol.module, &linker.module));
    account.map(|symbol| symbol.address)
}

/// Where the dynamic section of the file that was executed is in memory.
fn dynamic_section(state: &State, vector: &[u8]) -> Result<Option<u64>, Error> {
    const DYNAMIC: u64 = 2;
    match (entry(vector, HEADERS), entry(vector, HEADER_COUNT)) {
        (Some(headers), Some(count)) => header_address(state, headers, count, DYNAMIC),
        _ => Ok(None),
    }
}

/// The address in memory of what a program header of some kind is about.
fn header_address(
    state: &State,
    headers: u64,
    count: u64,
    kind: u64,
) -> Result<Option<u64>, Error> {
    const HEADER_SIZE: u64 = 56;
    const LOADED: u64 = 1;
    const HEADERS_THEMSELVES: u64 = 6;
    /// Where in a file its program headers are, right behind the header of the file.
    const HEADERS_OFFSET: u64 = 64;
    let (mut told, mut inferred, mut found) = (None, 0, None);
    for index in 0..count.min(256) {
        let at = headers.wrapping_add(index * HEADER_SIZE);
        let Some([kind_and_flags, offset, address]) = words(state, at)? else { break };
        let its_kind = kind_and_flags & 0xffff_ffff;
        if its_kind == kind {
            found = Some(address);
        }
        match its_kind {
            HEADERS_THEMSELVES => told = Some(headers.wrapping_sub(address)),
            // A dynamic linker says nothing of its headers.
            LOADED if offset == 0 => {
                inferred = headers.wrapping_sub(address.wrapping_add(HEADERS_OFFSET))
            }
            _ => {}
        }
    }
    Ok(found.map(|address| address.wrapping_add(told.unwrap_or(inferred))))
}

/// The dynamic linker: its name in the program, which may go through links, and the file that is mapped.
pub fn interpreter(debuggee: &Debuggee) -> Result<Option<(PathBuf, PathBuf)>, Error> {
    const BASE: u64 = 7;
    const INTERPRETER: u64 = 3;
    let Debuggee { run, process, .. } = debuggee;
    let vector = run.auxiliary_vector(process.log)?.unwrap_or_default();
    let [headers, count, base] = [HEADERS, HEADER_COUNT, BASE].map(|key| entry(&vector, key));
    let (Some(headers), Some(count), Some(base)) = (headers, count, base) else { return Ok(None) };
    let state = run.state(debuggee.at(process.start))?;
    let Some(name) = header_address(&state, headers, count, INTERPRETER)? else { return Ok(None) };
    let name = PathBuf::from(text(&state, name)?);
    let maps = run.maps(state.moment())?;
    let mapped = maps.iter().find(|mapping| (mapping.start..mapping.end).contains(&base));
    let file = mapped.and_then(|mapping| mapping.file.as_ref());
    Ok(file.map(|file| (name, PathBuf::clone(file))))
}

/// The value of a key in an auxiliary vector.
pub fn entry(vector: &[u8], key: u64) -> Option<u64> {
    let (pairs, _) = vector.as_chunks::<16>();
    let word = |bytes: &[u8]| bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    pairs.iter().find(|pair| word(&pair[..]) == key).map(|pair| word(&pair[8..]))
}

/// Words of memory, if they are there.
pub fn words<const COUNT: usize>(state: &State, at: u64) -> Result<Option<[u64; COUNT]>, Error> {
    let bytes = state.read(at, COUNT as u64 * 8)?;
    let (words, _) = bytes.as_chunks::<8>();
    let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
    Ok(words.try_into().ok())
}

fn text(state: &State, at: u64) -> Result<String, Error> {
    let bytes = state.read(at, LONGEST_NAME)?;
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    Ok(String::from_utf8_lossy(&bytes[..end]).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_by_key() {
        let vector: Vec<u8> =
            [3u64, 0x40, 5, 9, 0, 0].iter().flat_map(|n| n.to_le_bytes()).collect();
        assert_eq!((entry(&vector, 5), entry(&vector, 6)), (Some(9), None));
    }
}
