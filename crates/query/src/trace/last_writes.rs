//! The last write to each of many ranges of memory in a window, in one pass from its end.

use std::ops::Range;

use super::{Access, AccessKind, Trace, TracedWrite, Writer, touches};

/// Words of eight bytes that are told apart when an access is compared with all ranges at once.
const WORDS: usize = 1 << 12;

/// Which words may be in a range: most accesses are in none.
struct Filter(Box<[bool; WORDS]>);

impl Filter {
    fn of(ranges: &[Range<u64>]) -> Filter {
        let mut may_be = Box::new([false; WORDS]);
        for range in ranges {
            for word in words(range.start, range.end - range.start).take(WORDS) {
                may_be[word as usize % WORDS] = true;
            }
        }
        Filter(may_be)
    }

    fn may_touch(&self, address: u64, len: u64) -> bool {
        words(address, len).take(WORDS).any(|word| self.0[word as usize % WORDS])
    }
}

/// The words of eight bytes that some memory lies in.
fn words(address: u64, len: u64) -> impl Iterator<Item = u64> {
    address / 8..=address.saturating_add(len.saturating_sub(1)) / 8
}

impl Trace {
    /// For each range of memory, none of them empty, the last write to it by instructions with numbers in a range.
    pub(crate) fn last_writes(
        &self,
        memory: &[Range<u64>],
        times: &Range<u64>,
    ) -> Vec<Option<TracedWrite<'_>>> {
        let stream = &self.stream;
        let writes_some: Vec<bool> =
            (0..stream.codes()).map(|code| stream.kinds(code).any(AccessKind::writes)).collect();
        let filter = Filter::of(memory);
        let mut found: Vec<Option<TracedWrite<'_>>> = vec![None; memory.len()];
        let mut left = memory.len();
        for block in self.blocks_of(times).rev() {
            if left == 0 {
                break;
            }
            if !writes_some[stream.code(block)] && !stream.has_loose(block) {
                continue;
            }
            // Accesses of a block come in order: the last one counts.
            let mut of_block: Vec<(usize, TracedWrite<'_>)> = Vec::new();
            for Access { time, address, value, kind, .. } in stream.accesses(block) {
                let len = value.len() as u64;
                if !kind.writes() || !times.contains(&time) || !filter.may_touch(address, len) {
                    continue;
                }
                let write =
                    TracedWrite { time, address, value, by: Writer::Instruction, of_kernel: None };
                let touched = memory.iter().enumerate();
                let touched = touched.filter(|(_, range)| touches(range, address, len));
                of_block.extend(touched.map(|(index, _)| (index, write)));
            }
            for (index, write) in of_block.into_iter().rev() {
                if found[index].is_none() {
                    found[index] = Some(write);
                    left -= 1;
                }
            }
        }
        for (range, found) in memory.iter().zip(&mut found) {
            let of_kernel = self.kernel_writes_in(range, times).last();
            // What the log has at the time of an instruction happened before it.
            if let Some((logged, write)) = of_kernel
                && found.is_none_or(|found| found.time < logged)
            {
                *found = Some(write);
            }
        }
        found
    }
}
