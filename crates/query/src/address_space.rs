//! How the address space of a process changed.
//!
//! The log tells every change ([`retro_index::events::Row::Map`]). They are gathered once for a process, and put together
//! for any time by going through those before it. A forked process begins with what its parent had.

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::path::PathBuf;
use std::sync::Arc;

use retro_abi::channel::Stream;
use retro_abi::log::{Event, MapKind};
use retro_index::events::{Row, RowClass};

use crate::run::{Process, Run, lock};
use crate::{Error, Moment};

/// Flags of `mmap`.
const MAP_SHARED: u32 = 1;
const MAP_GROWSDOWN: u32 = 0x100;

/// A change of the address space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapChange {
    /// When.
    pub time: u64,
    /// How.
    pub kind: MapKind,
    /// Where.
    pub start: u64,
    /// How much.
    pub len: u64,
    /// Rights, as `mmap` has them.
    pub prot: u32,
    /// Flags of `mmap`.
    pub flags: u32,
    /// The file, by number.
    pub file: u64,
    /// Where in the file; where from, if it moved.
    pub offset: u64,
}

/// A mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Its first address.
    pub start: u64,
    /// The address behind it.
    pub end: u64,
    /// Rights, as `mmap` has them.
    pub prot: u32,
    /// Flags of `mmap`.
    pub flags: u32,
    /// The file that it shows.
    pub file: Option<Arc<PathBuf>>,
    /// Where in the file it begins.
    pub offset: u64,
    /// Since when it is there.
    pub since: u64,
}

/// All changes of a process.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    /// When and where a forked process began, if its parent can be asked.
    pub(crate) parent: Option<Moment>,
    inherited: Vec<Mapping>,
    changes: Vec<MapChange>,
    /// How many changes there were before each volume.
    before_volumes: Vec<usize>,
    files: BTreeMap<u64, Arc<PathBuf>>,
}

impl Run {
    /// The mappings at a moment, in the order of their addresses.
    pub fn maps(&self, moment: Moment) -> Result<Vec<Mapping>, Error> {
        let process = self.process(moment.log)?;
        process.volume_of(moment.time)?;
        process.check_indexed(process.start, moment.time)?;
        Ok(self.timeline(&process)?.at(moment.time))
    }

    /// Whether the page at an address is mapped at a moment. Where nobody knows, it may be.
    pub(crate) fn is_mapped(&self, moment: Moment, page: u64) -> Result<bool, Error> {
        let process = self.process(moment.log)?;
        if process.check_indexed(process.start, moment.time).is_err() {
            return Ok(true);
        }
        Ok(self.timeline(&process)?.is_mapped(page, moment.time))
    }

    /// All changes of the address space of a process.
    pub(crate) fn timeline(&self, process: &Process) -> Result<Arc<Timeline>, Error> {
        if let Some(known) = &*lock(&process.timeline) {
            return Ok(Arc::clone(known));
        }
        let made = Arc::new(self.gather_timeline(process)?);
        *lock(&process.timeline) = Some(Arc::clone(&made));
        Ok(made)
    }

    fn gather_timeline(&self, process: &Process) -> Result<Timeline, Error> {
        let mut timeline = Timeline::default();
        let mut parent = None;
        let visit = |_, event: &Event<'_>| {
            match *event {
                Event::File { number, path, .. } => {
                    let path = PathBuf::from(String::from_utf8_lossy(path).into_owned());
                    timeline.files.insert(number, Arc::new(path));
                }
                Event::Inherit { log, time } => parent = Some(Moment { log, time }),
                _ => {}
            }
            ControlFlow::<()>::Continue(())
        };
        let _ = self.recording().for_each_event(process.log, Stream::Code, visit)?;
        for volume in &process.volumes {
            timeline.before_volumes.push(timeline.changes.len());
            for window in volume.row_kinds.windows_from(0, RowClass::Map.keys()) {
                for row in volume.rows.rows(window?)? {
                    if let Row::Map { kind, start, len, prot, flags, file, offset } = row.row {
                        let time = row.time;
                        timeline.changes.push(MapChange {
                            time,
                            kind,
                            start,
                            len,
                            prot,
                            flags,
                            file,
                            offset,
                        });
                    }
                }
            }
        }
        if let Some(parent) = parent {
            self.inherit(process, parent, &mut timeline);
        }
        Ok(timeline)
    }

    /// A forked process says at its start what is mapped, not what that shows; its parent knows. A parent without index leaves
    /// it at that.
    fn inherit(&self, process: &Process, parent: Moment, timeline: &mut Timeline) {
        let Ok(maps) = self.maps(parent) else { return };
        let mut maps = maps.into_iter().map(|mapping| (mapping.start, mapping)).collect();
        let is_inherited =
            |change: &MapChange| change.time == process.start && change.kind == MapKind::Map;
        let told = timeline.changes.iter().take_while(|change| is_inherited(change)).count();
        // Not all of the parent's memory comes along, if it says so.
        let inherited = (timeline.changes.drain(..told))
            .flat_map(|told| cut(&mut maps, told.start, told.start.saturating_add(told.len)))
            .map(|inherited| Mapping { since: process.start, ..inherited })
            .collect();
        for before in &mut timeline.before_volumes {
            *before = before.saturating_sub(told);
        }
        (timeline.inherited, timeline.parent) = (inherited, Some(parent));
    }
}

/// Where the contents of a page come from, as far as some changes tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lineage {
    /// Where they were, and since when; the latest first.
    pub(crate) places: Vec<(u64, u64)>,
    /// Where they were before all of these changes; none if there was nothing of them.
    pub(crate) origin: Option<u64>,
}

impl Timeline {
    /// How many changes there are up to a time.
    pub(crate) fn changes_until(&self, time: u64) -> usize {
        self.changes.partition_point(|change| change.time <= time)
    }

    /// When the last change in a range of times is.
    pub(crate) fn last_change(&self, times: Range<u64>) -> Option<u64> {
        let before = self.changes.partition_point(|change| change.time < times.end);
        let last = self.changes[..before].last().map(|change| change.time);
        last.filter(|time| times.contains(time))
    }

    /// When the first change in a range of times is.
    pub(crate) fn first_change(&self, times: Range<u64>) -> Option<u64> {
        let before = self.changes.partition_point(|change| change.time < times.start);
        let first = self.changes.get(before).map(|change| change.time);
        first.filter(|time| times.contains(time))
    }

    /// How many changes there are before a volume, by its place among those of the process.
    pub(crate) fn changes_before_volume(&self, volume: usize) -> usize {
        self.before_volumes.get(volume).copied().unwrap_or(self.changes.len())
    }

    /// Where the contents of a page come from that is seen behind some changes.
    pub(crate) fn lineage(&self, page: u64, changes: Range<usize>) -> Lineage {
        let mut lineage = Lineage { places: Vec::new(), origin: Some(page) };
        let mut page = page;
        for change in self.changes.get(changes).unwrap_or_default().iter().rev() {
            let Some(offset) = page.checked_sub(change.start).filter(|&at| at < change.len) else {
                continue;
            };
            if change.kind == MapKind::Protect {
                continue;
            }
            lineage.places.push((page, change.time));
            if change.kind != MapKind::Move {
                lineage.origin = None;
                break;
            }
            page = change.offset.saturating_add(offset);
            lineage.origin = Some(page);
        }
        lineage
    }

    /// When other contents take the place of those that a page has at a time, or these go elsewhere.
    pub(crate) fn next_contents(&self, page: u64, time: u64) -> Option<u64> {
        let contains = |start: u64, len: u64| (start..start.saturating_add(len)).contains(&page);
        let later = &self.changes[self.changes_until(time)..];
        let next = later.iter().find(|change| match change.kind {
            MapKind::Protect => false,
            MapKind::Move => {
                contains(change.start, change.len) || contains(change.offset, change.len)
            }
            MapKind::Map | MapKind::Unmap | MapKind::Discard => contains(change.start, change.len),
        });
        next.map(|change| change.time)
    }

    /// Whether a page of a time began as zeroes that only this process and its system calls can change. Not so the
    /// first stack: what is on it was there before the first instruction.
    pub(crate) fn begins_empty(&self, page: u64, time: u64) -> bool {
        let before = &self.changes[..self.changes_until(time)];
        let mut page = page;
        for change in before.iter().rev() {
            let Some(offset) = page.checked_sub(change.start).filter(|&at| at < change.len) else {
                continue;
            };
            match change.kind {
                MapKind::Protect | MapKind::Discard => {}
                MapKind::Move => page = change.offset.saturating_add(offset),
                MapKind::Unmap => return false,
                MapKind::Map => {
                    return change.file == 0 && change.flags & (MAP_SHARED | MAP_GROWSDOWN) == 0;
                }
            }
        }
        false
    }

    /// Without putting all mappings together.
    fn is_mapped(&self, page: u64, time: u64) -> bool {
        let contains = |start: u64, len: u64| (start..start.saturating_add(len)).contains(&page);
        let before = self.changes.partition_point(|change| change.time <= time);
        for change in self.changes[..before].iter().rev() {
            match change.kind {
                MapKind::Map | MapKind::Protect | MapKind::Move
                    if contains(change.start, change.len) =>
                {
                    return true;
                }
                MapKind::Unmap if contains(change.start, change.len) => return false,
                MapKind::Move if contains(change.offset, change.len) => return false,
                _ => {}
            }
        }
        let inherited = |mapping: &Mapping| (mapping.start..mapping.end).contains(&page);
        self.inherited.iter().any(inherited)
    }

    fn at(&self, time: u64) -> Vec<Mapping> {
        let mut maps: BTreeMap<u64, Mapping> =
            self.inherited.iter().map(|mapping| (mapping.start, mapping.clone())).collect();
        for change in self.changes.iter().take_while(|change| change.time <= time) {
            self.apply(&mut maps, change);
        }
        maps.into_values().collect()
    }

    fn apply(&self, maps: &mut BTreeMap<u64, Mapping>, change: &MapChange) {
        let (start, end) = (change.start, change.start.saturating_add(change.len));
        match change.kind {
            MapKind::Discard => {}
            MapKind::Unmap => drop(cut(maps, start, end)),
            MapKind::Protect => {
                for mut mapping in cut(maps, start, end) {
                    mapping.prot = change.prot;
                    maps.insert(mapping.start, mapping);
                }
            }
            MapKind::Map => {
                cut(maps, start, end);
                let file = change.file.checked_sub(1).and_then(|file| self.files.get(&file));
                let mapping = Mapping {
                    start,
                    end,
                    prot: change.prot,
                    flags: change.flags,
                    file: file.cloned(),
                    offset: change.offset,
                    since: change.time,
                };
                maps.insert(start, mapping);
            }
            MapKind::Move => {
                cut(maps, start, end);
                let from = change.offset;
                let moved = cut(maps, from, from.saturating_add(change.len));
                let mut reached = start;
                for mut mapping in moved {
                    mapping.start = mapping.start - from + start;
                    mapping.end = (mapping.end - from + start).min(end);
                    mapping.since = change.time;
                    reached = mapping.end;
                    maps.insert(mapping.start, mapping);
                }
                // What grows goes on as it was.
                if reached < end
                    && let Some((_, last)) = maps.range_mut(start..end).next_back()
                {
                    last.end = end;
                }
            }
        }
    }
}

/// Takes a range out of the mappings; what is cut off at its ends stays.
fn cut(maps: &mut BTreeMap<u64, Mapping>, start: u64, end: u64) -> Vec<Mapping> {
    let mut taken = Vec::new();
    let touched: Vec<u64> = maps
        .range(..end)
        .rev()
        .take_while(|(_, mapping)| mapping.end > start)
        .map(|(&first, _)| first)
        .collect();
    for first in touched.into_iter().rev() {
        let Some(whole) = maps.remove(&first) else { continue };
        if whole.start < start {
            maps.insert(first, Mapping { end: start, ..whole.clone() });
        }
        if whole.end > end {
            maps.insert(end, part(&whole, end, whole.end));
        }
        taken.push(part(&whole, whole.start.max(start), whole.end.min(end)));
    }
    taken
}

fn part(mapping: &Mapping, start: u64, end: u64) -> Mapping {
    Mapping { start, end, offset: mapping.offset + (start - mapping.start), ..mapping.clone() }
}
