//! Which unit has the code at an address.
//!
//! `.debug_aranges` says it without a look at the units, but not for all of them: compilers differ in whether they
//! write it. For each unit that it does not mention, the root entry is asked.
//!
//! A hostile file can let many units share one long list of ranges or abbreviations, which is quadratic. Gathering is
//! therefore bounded in ranges and in time; what comes later is not found by address.

use std::thread;
use std::time::{Duration, Instant};

use super::units::UnitTable;

const RANGES_LIMIT: usize = 1 << 22;
const GATHERING_LIMIT: Duration = Duration::from_secs(5);
/// Units that are asked about one address. Ranges of units do not overlap but in broken files.
const UNITS_ASKED: usize = 8;
/// Units that are worth a thread of their own.
const UNITS_FOR_A_THREAD: usize = 256;

/// Where a unit has code.
#[derive(Clone, Copy, Debug)]
struct UnitRange {
    start: u64,
    end: u64,
    /// The largest end of this and all before it in order.
    reach: u64,
    unit: usize,
}

/// The code of all units.
#[derive(Debug, Default)]
pub(super) struct UnitRanges {
    /// Sorted by `start`.
    ranges: Vec<UnitRange>,
}

impl UnitRanges {
    pub(super) fn gather(units: &UnitTable) -> UnitRanges {
        let deadline = Instant::now() + GATHERING_LIMIT;
        let mut ranges = Vec::new();
        let listed = listed_ranges(units, deadline, &mut ranges);
        let unlisted: Vec<usize> = (0..units.len()).filter(|number| !listed[*number]).collect();
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let share = unlisted.len().div_ceil(threads).max(UNITS_FOR_A_THREAD);
        thread::scope(|scope| {
            let workers: Vec<_> = unlisted
                .chunks(share)
                .map(|part| scope.spawn(move || root_ranges(units, part, deadline)))
                .collect();
            for worker in workers {
                ranges.append(&mut worker.join().unwrap_or_default());
            }
        });
        ranges.truncate(RANGES_LIMIT);
        ranges.sort_by_key(|range| range.start);
        let mut reach = 0;
        for range in &mut ranges {
            reach = range.end.max(reach);
            range.reach = reach;
        }
        UnitRanges { ranges }
    }

    /// The numbers of the units that have an address.
    pub(super) fn units_at(&self, address: u64) -> impl Iterator<Item = usize> + '_ {
        let after = self.ranges.partition_point(|range| range.start <= address);
        let near = self.ranges[..after].iter().rev();
        near.take_while(move |range| address < range.reach)
            .take(UNITS_ASKED)
            .filter(move |range| address < range.end)
            .map(|range| range.unit)
    }
}

/// Takes what `.debug_aranges` has, and says of which units that is.
fn listed_ranges(units: &UnitTable, deadline: Instant, ranges: &mut Vec<UnitRange>) -> Vec<bool> {
    let mut listed = vec![false; units.len()];
    let mut headers = units.dwarf().debug_aranges.headers();
    while let Ok(Some(header)) = headers.next() {
        let Some(unit) = units.number_of(header.debug_info_offset()) else { continue };
        let mut entries = header.entries();
        let before = ranges.len();
        let is_whole = loop {
            match entries.next() {
                Ok(Some(entry)) => push(ranges, unit, entry.range()),
                Ok(None) => break true,
                Err(_) => break false,
            }
            if ranges.len() >= RANGES_LIMIT || Instant::now() > deadline {
                return listed;
            }
        };
        // An empty list is what some tools leave of one that they did not understand.
        listed[unit] |= is_whole && ranges.len() > before;
    }
    listed
}

fn root_ranges(units: &UnitTable, numbers: &[usize], deadline: Instant) -> Vec<UnitRange> {
    let mut found = Vec::new();
    for &number in numbers {
        let Some(unit) = units.skeleton(number) else { continue };
        let Ok(mut ranges) = units.dwarf().unit_ranges(&unit) else { continue };
        while let Ok(Some(range)) = ranges.next() {
            push(&mut found, number, range);
            if found.len() >= RANGES_LIMIT {
                return found;
            }
        }
        if Instant::now() > deadline {
            return found;
        }
    }
    found
}

fn push(ranges: &mut Vec<UnitRange>, unit: usize, range: gimli::Range) {
    // Functions that the linker dropped are left at address 0.
    if range.begin != 0 && range.begin < range.end {
        ranges.push(UnitRange { start: range.begin, end: range.end, reach: 0, unit });
    }
}
