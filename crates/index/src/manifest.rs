//! What of a volume's files is complete.
//!
//! A volume is built for minutes, and may be killed at any moment. Its files only grow; now and then all of
//! them are committed, and their lengths go into the manifest, which is replaced as a whole. What lies behind those lengths does
//! not count.

use std::io;

use retro_recording::Directory;

use crate::Error;
use crate::page_versions::Committed;

const NAME: &str = "manifest";

/// More than any manifest has.
const LENGTH_LIMIT: u64 = 4096;

/// Format of the whole index. Another one is built anew.
const FORMAT: &str = "retro-index 1";

/// Instructions of intervals that take longer to index than their files take to reach the disk.
const WORTH_SYNCING: u64 = 50_000_000;

/// The lengths up to which files are complete, and what for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// When the interval begins and ends, as far as was known.
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Instructions of a window.
    pub(crate) window_size: u64,
    /// Windows that are complete.
    pub(crate) windows: u32,
    /// Whether these are all.
    pub(crate) has_all_windows: bool,
    /// Whether everything that belongs to them is there, too.
    pub(crate) is_complete: bool,
    pub(crate) window_table: u64,
    pub(crate) pages: Committed,
    pub(crate) words: u64,
    pub(crate) code: u64,
    pub(crate) pieces: u64,
    pub(crate) calls: u64,
    /// Zero while they are not there.
    pub(crate) rows: u64,
    pub(crate) row_kinds: u64,
    pub(crate) reads: u64,
}

impl Manifest {
    fn fields(&mut self) -> [(&'static str, &mut u64); 12] {
        [
            ("start", &mut self.start),
            ("end", &mut self.end),
            ("window-size", &mut self.window_size),
            ("window-table", &mut self.window_table),
            ("pages", &mut self.pages.contents),
            ("changed-pages", &mut self.pages.changed),
            ("words", &mut self.words),
            ("code", &mut self.code),
            ("pieces", &mut self.pieces),
            ("calls", &mut self.calls),
            ("rows", &mut self.rows),
            ("row-kinds", &mut self.row_kinds),
        ]
    }

    pub(crate) fn empty(start: u64, end: u64, window_size: u64) -> Manifest {
        Manifest {
            start,
            end,
            window_size,
            windows: 0,
            has_all_windows: false,
            is_complete: false,
            window_table: 0,
            pages: Committed { contents: 0, changed: 0 },
            words: 0,
            code: 0,
            pieces: 0,
            calls: 0,
            rows: 0,
            row_kinds: 0,
            reads: 0,
        }
    }

    /// Whether the files are worth waiting for the disk. Those of short intervals, of which there may be thousands, are
    /// built anew in less time; if power is lost before they are on the disk, their checksums tell.
    pub(crate) fn is_worth_syncing(&self) -> bool {
        self.end - self.start >= WORTH_SYNCING
    }

    /// The files, and the lengths up to which they are complete.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let files = [
            ("windows", self.window_table),
            ("pages", self.pages.contents),
            ("changed-pages", self.pages.changed),
            ("words", self.words),
            ("code", self.code),
            ("pieces", self.pieces),
            ("calls", self.calls),
            ("rows", self.rows),
            ("row-kinds", self.row_kinds),
            ("reads", self.reads),
        ];
        files.into_iter().filter(|&(_, committed)| committed != 0)
    }

    /// Of a volume; none if it was never begun.
    pub(crate) fn load(volume: &Directory) -> Result<Option<Manifest>, Error> {
        let path = volume.path_of(NAME);
        let text = match volume.read(NAME, LENGTH_LIMIT) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                return Err(Error::Manifest(path));
            }
            Err(source) => return Err(Error::io("read", &path, source)),
        };
        let parsed = std::str::from_utf8(&text).ok().and_then(Manifest::parse);
        parsed.map(Some).ok_or(Error::Manifest(path))
    }

    fn parse(text: &str) -> Option<Manifest> {
        let (body, sum) = text.trim_end().rsplit_once("\nsum ")?;
        if u32::from_str_radix(sum, 16).ok()? != crc32fast::hash(body.as_bytes()) {
            return None;
        }
        let mut lines = body.lines();
        if lines.next()? != FORMAT {
            return None;
        }
        let mut manifest = Manifest::empty(0, 0, 0);
        for line in lines {
            let (name, value) = line.split_once(' ')?;
            let value: u64 = value.parse().ok()?;
            match name {
                "windows" => manifest.windows = value.try_into().ok()?,
                "all-windows" => manifest.has_all_windows = value != 0,
                "complete" => manifest.is_complete = value != 0,
                "reads" => manifest.reads = value,
                _ => *manifest.fields().into_iter().find(|(known, _)| *known == name)?.1 = value,
            }
        }
        Some(manifest).filter(|manifest| manifest.start <= manifest.end)
    }

    /// Replaces the manifest of a volume.
    pub(crate) fn store(mut self, volume: &Directory) -> Result<(), Error> {
        let mut text = format!("{FORMAT}\n");
        for (name, value) in self.fields() {
            text += &format!("{name} {value}\n");
        }
        let Manifest { windows, has_all_windows, is_complete, reads, .. } = self;
        let (has_all, is_complete) = (u8::from(has_all_windows), u8::from(is_complete));
        text += &format!("windows {windows}\nall-windows {has_all}\n");
        text += &format!("complete {is_complete}\nreads {reads}");
        text += &format!("\nsum {:08x}\n", crc32fast::hash(text.as_bytes()));
        volume
            .replace(NAME, text.as_bytes(), self.is_worth_syncing())
            .map_err(|source| Error::io("write", &volume.path_of(NAME), source))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_manifest_comes_back_whole_or_not_at_all() {
        let place = tempfile::tempdir().unwrap();
        let volume = Directory::open(place.path()).unwrap();
        assert_eq!(Manifest::load(&volume).unwrap(), None);
        let manifest = Manifest {
            windows: 7,
            is_complete: true,
            calls: 99,
            reads: 5,
            ..Manifest::empty(5, 1 << 40, 1000)
        };
        manifest.store(&volume).unwrap();
        assert_eq!(Manifest::load(&volume).unwrap(), Some(manifest));
        let path = place.path().join(NAME);
        let text = fs::read_to_string(&path).unwrap();
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            fs::write(&path, &bytes).unwrap();
            match Manifest::load(&volume) {
                Err(Error::Manifest(_)) => {}
                // The last character is white space.
                Ok(Some(same)) if at + 1 == text.len() => assert_eq!(same, manifest),
                other => panic!("byte {at}: {other:?}"),
            }
        }
    }
}
