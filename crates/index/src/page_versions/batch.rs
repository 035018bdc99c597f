//! Batches of versions, as they are in a frame.
//!
//! ```text
//! batch    packed(index, structures)  packed(words)
//! index    versions, then for each: windows since the one before, pages since the one before in the same window
//!          (or since 0), bytes of its structure, bytes of its words
//! version  structure: form, [windows since the predecessor], [known: structure and words in it], places of changes
//!          words: the page or what changed of it
//! ```
//!
//! Structure and words are apart because numbers of one sort compress better.

use std::ops::Range;

use super::words::{apply_changes, put_changes};
use super::{KNOWN_SIZE, PAGE_SIZE};
use crate::frames::fields::{BadField, Fields, put_bytes, put_number};
use crate::frames::packing::{Packer, unpack};

/// A batch is complete when it has so many bytes.
const BATCH_SIZE: usize = 16 << 10;

/// The most bytes that the index and structures of a batch have, and also its words.
const BATCH_LIMIT: usize = 16 * BATCH_SIZE;

/// What an entry of the index is reckoned to take.
const INDEX_ENTRY: usize = 6;

/// The lowest two bits of a form: what the contents are.
const ZERO: u8 = 0;
const WHOLE: u8 = 1;
const CHANGES: u8 = 2;

/// The next two bits of a form: which bytes are known.
const ALL_KNOWN: u8 = 0;
const SAME_KNOWN: u8 = 1 << 2;
const SOME_KNOWN: u8 = 2 << 2;

/// Which bytes of a page are known; `None` is all of them.
pub(super) type Known = Option<Box<[u8; KNOWN_SIZE]>>;

/// A page as the one that changes are told from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Predecessor<'a> {
    pub(super) window: u32,
    pub(super) bytes: &'a [u8; PAGE_SIZE],
    pub(super) known: &'a Known,
}

/// A version to be stored.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewVersion<'a> {
    pub(super) window: u32,
    pub(super) page: u64,
    pub(super) bytes: &'a [u8; PAGE_SIZE],
    pub(super) known: &'a Known,
}

#[derive(Clone, Debug)]
struct Place {
    window: u32,
    page: u64,
    structure: Range<usize>,
    words: Range<usize>,
}

/// Gathers versions for a batch.
#[derive(Debug, Default)]
pub(super) struct BatchBuilder {
    places: Vec<Place>,
    structure: Vec<u8>,
    words: Vec<u8>,
}

/// A batch that is complete.
#[derive(Debug)]
pub(super) struct EncodedBatch {
    pub(super) windows: (u32, u32),
    pub(super) pages: (u64, u64),
    pub(super) bytes: Vec<u8>,
}

impl BatchBuilder {
    pub(super) fn is_complete(&self) -> bool {
        let index = self.places.len() * INDEX_ENTRY;
        index + self.structure.len() + self.words.len() >= BATCH_SIZE
    }

    /// Adds a version, as changes if there is a predecessor and that is smaller. Tells whether it was.
    pub(super) fn add(&mut self, version: NewVersion, predecessor: Option<Predecessor>) -> bool {
        let (structure, words) = (self.structure.len(), self.words.len());
        let as_changes = predecessor.is_some_and(|before| self.put_changes(version, before));
        if !as_changes {
            self.structure.truncate(structure);
            self.words.truncate(words);
            self.put_whole(version);
        }
        self.places.push(Place {
            window: version.window,
            page: version.page,
            structure: structure..self.structure.len(),
            words: words..self.words.len(),
        });
        as_changes
    }

    fn put_whole(&mut self, version: NewVersion) {
        let zero = version.bytes == &[0; PAGE_SIZE];
        let contents = if zero { ZERO } else { WHOLE };
        let known = if version.known.is_none() { ALL_KNOWN } else { SOME_KNOWN };
        self.structure.push(contents | known);
        self.put_known(version.known);
        if !zero {
            self.words.extend_from_slice(version.bytes);
        }
    }

    /// Tells whether that was worth it.
    fn put_changes(&mut self, version: NewVersion, before: Predecessor) -> bool {
        let same_known = version.known == before.known;
        let known = match version.known {
            None => ALL_KNOWN,
            Some(_) if same_known => SAME_KNOWN,
            Some(_) => SOME_KNOWN,
        };
        self.structure.push(CHANGES | known);
        put_number(&mut self.structure, (version.window - before.window).into());
        if known == SOME_KNOWN {
            self.put_known(version.known);
        }
        let changed =
            put_changes(before.bytes, version.bytes, &mut self.structure, &mut self.words);
        changed * size_of::<u64>() <= PAGE_SIZE * 3 / 4 && version.bytes != &[0; PAGE_SIZE]
    }

    fn put_known(&mut self, known: &Known) {
        if let Some(known) = known {
            let (mut structure, mut words) = (Vec::new(), Vec::new());
            put_changes(&[0; KNOWN_SIZE], known, &mut structure, &mut words);
            put_bytes(&mut self.structure, &structure);
            put_bytes(&mut self.structure, &words);
        }
    }

    /// All versions, and none are left; `None` if there were none.
    pub(super) fn finish(&mut self, packer: &mut Packer) -> Option<EncodedBatch> {
        let mut places = std::mem::take(&mut self.places);
        let (first, last) = (places.first()?.window, places.last()?.window);
        let pages = places.iter().map(|place| place.page);
        let pages = (pages.clone().min()?, pages.max()?);
        // The later one of two in the same window counts.
        places.reverse();
        places.sort_by_key(|place| (place.window, place.page));
        places.dedup_by_key(|place| (place.window, place.page));

        let mut head = Vec::with_capacity(self.structure.len() + places.len() * INDEX_ENTRY);
        put_index(&mut head, &places, first);
        let mut words = Vec::with_capacity(self.words.len());
        for place in &places {
            head.extend_from_slice(&self.structure[place.structure.clone()]);
            words.extend_from_slice(&self.words[place.words.clone()]);
        }
        let mut bytes = Vec::new();
        packer.put(&mut bytes, &head);
        packer.put(&mut bytes, &words);
        self.structure.clear();
        self.words.clear();
        Some(EncodedBatch { windows: (first, last), pages, bytes })
    }
}

fn put_index(head: &mut Vec<u8>, places: &[Place], first_window: u32) {
    put_number(head, places.len() as u64);
    let (mut window, mut page) = (first_window, 0);
    for place in places {
        if place.window != window {
            page = 0;
        }
        put_number(head, (place.window - window).into());
        put_number(head, place.page - page);
        put_number(head, place.structure.len() as u64);
        put_number(head, place.words.len() as u64);
        (window, page) = (place.window, place.page);
    }
}

/// A batch that was read.
#[derive(Debug)]
pub(super) struct Batch {
    places: Vec<Place>,
    structure: Vec<u8>,
    words: Vec<u8>,
}

/// A version that was read.
#[derive(Clone, Debug)]
pub(super) struct StoredVersion<'a> {
    form: u8,
    /// How many windows ago the version was that it changes.
    pub(super) predecessor: Option<u32>,
    structure: Fields<'a>,
    words: Fields<'a>,
}

impl Batch {
    pub(super) fn decode(bytes: &[u8], first_window: u32) -> Result<Batch, BadField> {
        let mut fields = Fields::new(bytes);
        let structure = unpack(&mut fields, BATCH_LIMIT, 0)?;
        let words = unpack(&mut fields, BATCH_LIMIT, 0)?;
        let mut index = Fields::new(&structure);
        let mut places = Vec::new();
        let (mut window, mut page) = (first_window, 0u64);
        let (mut structure_end, mut words_end) = (0usize, 0usize);
        for _ in 0..index.count()? {
            let windows = index.number32()?;
            if windows > 0 {
                page = 0;
            }
            window = window.checked_add(windows).ok_or("a window is too large")?;
            page = page.checked_add(index.number()?).ok_or("a page is nowhere")?;
            let structure = structure_end..structure_end + index.number32()? as usize;
            let words = words_end..words_end + index.number32()? as usize;
            (structure_end, words_end) = (structure.end, words.end);
            places.push(Place { window, page, structure, words });
        }
        let rest = index.rest().len();
        if rest != structure_end || words.len() != words_end {
            return Err("an index of versions makes no sense");
        }
        let head = structure.len() - rest;
        for place in &mut places {
            place.structure = place.structure.start + head..place.structure.end + head;
        }
        Ok(Batch { places, structure, words })
    }

    /// Bytes in memory.
    pub(super) fn size(&self) -> usize {
        self.places.len() * size_of::<Place>() + self.structure.len() + self.words.len()
    }

    pub(super) fn version(
        &self,
        window: u32,
        page: u64,
    ) -> Result<Option<StoredVersion<'_>>, BadField> {
        let place =
            self.places.binary_search_by_key(&(window, page), |place| (place.window, place.page));
        let Ok(place) = place.map(|index| &self.places[index]) else { return Ok(None) };
        let mut structure = Fields::new(&self.structure[place.structure.clone()]);
        let words = Fields::new(&self.words[place.words.clone()]);
        let form = structure.byte()?;
        let mut predecessor = None;
        if form & 3 == CHANGES {
            let windows = structure.number32()?;
            predecessor = Some(windows.max(1));
        }
        Ok(Some(StoredVersion { form, predecessor, structure, words }))
    }
}

impl StoredVersion<'_> {
    /// Makes this version of its predecessor.
    pub(super) fn apply(
        mut self,
        bytes: &mut [u8; PAGE_SIZE],
        known: &mut [u8; KNOWN_SIZE],
    ) -> Result<(), BadField> {
        match self.form & !3 {
            ALL_KNOWN => known.fill(0xff),
            SAME_KNOWN => {}
            SOME_KNOWN => {
                known.fill(0);
                let mut structure = Fields::new(self.structure.bytes()?);
                let mut words = Fields::new(self.structure.bytes()?);
                apply_changes(known, &mut structure, &mut words)?;
            }
            _ => return Err("a version is of an unknown form"),
        }
        match self.form & 3 {
            ZERO => bytes.fill(0),
            WHOLE => bytes.copy_from_slice(self.words.take(PAGE_SIZE)?),
            CHANGES => apply_changes(bytes, &mut self.structure, &mut self.words)?,
            _ => return Err("a version is of an unknown form"),
        }
        Ok(())
    }
}
