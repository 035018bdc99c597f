//! Steps of a thread until it is outside of a range of addresses: how clients step by source lines.
//!
//! A loop may stay in its line for billions of instructions. What a window executed is known by its trace, block by block;
//! windows that execute nothing but code in the range are passed over without one, since the index knows that.

use std::ops::Range;

use retro_query::{Error, Process, Trace};

use crate::resume::Resume;

/// The first moment from a time on at which a thread is about to execute something outside of a range.
pub fn first_outside(
    resume: &Resume<'_>,
    thread: u32,
    from: u64,
    range: Range<u64>,
) -> Result<Option<u64>, Error> {
    let process = resume.process;
    let mut time = from;
    while time < process.end {
        resume.cancel.check()?;
        let place = process.window_of(time)?;
        let trace = resume.run.trace(process, place)?;
        if let Some(found) = first_in(&trace, thread, time, &range) {
            return Ok(Some(found));
        }
        time = next_window_outside(process, trace.range.end, &range)?;
    }
    Ok(None)
}

/// The first instruction of a thread outside of a range, in a window, from a time on.
fn first_in(trace: &Trace, thread: u32, from: u64, range: &Range<u64>) -> Option<u64> {
    for stretch in trace.stretches_of(thread, from..trace.range.end) {
        // The block that a stretch begins in may have begun before it.
        let first = trace.block_with(stretch.start);
        let begin = first.map_or(stretch.start, |block| block.time);
        for block in trace.blocks_from(begin).take_while(|block| block.time < stretch.end) {
            let len: u64 = block.lengths.iter().map(|&len| u64::from(len)).sum();
            if range.contains(&block.pc) && block.pc + len <= range.end {
                continue;
            }
            let outside = block
                .instructions()
                .find(|(time, pc)| stretch.contains(time) && !range.contains(pc));
            if let Some((time, _)) = outside {
                return Some(time);
            }
        }
    }
    None
}

/// Where the first window from a time on begins that executes something outside of a range.
fn next_window_outside(process: &Process, from: u64, range: &Range<u64>) -> Result<u64, Error> {
    if from >= process.end {
        return Ok(from);
    }
    let (first, _) = process.volume_of(from)?;
    for (index, volume) in process.volumes.iter().enumerate().skip(first) {
        let reached = from.max(volume.start);
        process.check_indexed(from, reached)?;
        let window = if index == first { volume.window_of(reached) } else { 0 };
        let mut inside: Vec<u64> = volume.pieces.touching(range.start, range.end);
        inside.retain(|&number| {
            let piece = volume.pieces.get(number);
            piece.is_some_and(|piece| range.contains(&piece.pc) && piece.end() <= range.end)
        });
        inside.sort_unstable();
        let outside = gaps(&inside, volume.pieces.len() as u64);
        if let Some(found) = volume.code.first_from(window, outside)? {
            return Ok(volume.window_range(found).start.max(from));
        }
    }
    Ok(process.end)
}

/// What some numbers in order leave of those below a limit.
fn gaps(numbers: &[u64], limit: u64) -> Vec<Range<u64>> {
    let mut gaps = Vec::new();
    let mut next = 0;
    for &number in numbers {
        if number > next {
            gaps.push(next..number);
        }
        next = number + 1;
    }
    if next < limit {
        gaps.push(next..limit);
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_what_is_left() {
        assert_eq!(gaps(&[], 5), vec![0..5; 1]);
        assert_eq!(gaps(&[0, 1, 4], 5), vec![2..4; 1]);
        assert_eq!(gaps(&[2], 5), [0..2, 3..5]);
        assert_eq!(gaps(&[0], 1), []);
    }
}
