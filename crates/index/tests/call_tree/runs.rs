//! Runs to build call trees from: what threads did, window by window.

use retro_index::call_tree::{CallTreeWriter, Error};

/// Something that a thread did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    Call { slot: u64, target: u64 },
    Return { slot: u64 },
}

/// Something that happened.
#[derive(Clone, Copy, Debug)]
pub struct Happening {
    pub window: u64,
    pub thread: u32,
    pub time: u64,
    pub deed: Deed,
}

/// Numbers that look random and are always the same.
#[derive(Clone)]
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Chance {
        Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit.max(1)
    }
}

const TOP: u64 = 0x7000_0000_0000;

/// How the depth of a run goes.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// Up and down at random, around the start and below it.
    Wandering,
    /// Deeper most of the time.
    Sinking,
    /// Returns most of the time, from frames that nobody saw.
    Rising,
    /// Only calls, then only returns.
    Recursion,
    /// A function that calls leaves.
    Flat,
}

pub const SHAPES: [Shape; 5] =
    [Shape::Wandering, Shape::Sinking, Shape::Rising, Shape::Recursion, Shape::Flat];

/// The deeds of a thread that calls and returns in order: as many as asked for, each one parenthesis.
pub fn orderly(shape: Shape, length: u64, chance: &mut Chance) -> Vec<Deed> {
    let mut depth = 0i64;
    let mut tide = 50;
    let deeds = (0..length).map(|index| {
        if index % 1000 == 0 {
            tide = 35 + chance.below(31);
        }
        let is_call = match shape {
            Shape::Wandering => chance.below(100) < tide,
            Shape::Sinking => chance.below(100) < 60,
            Shape::Rising => chance.below(100) < 40,
            Shape::Recursion => index < length / 2,
            Shape::Flat => index == 0 || (index % 2 == 1 && index + 1 < length),
        };
        if is_call {
            depth += 1;
            return Deed::Call { slot: slot_of(depth), target: 0x40_0000 + 16 * chance.below(40) };
        }
        depth -= 1;
        Deed::Return { slot: slot_of(depth + 1) }
    });
    deeds.collect()
}

fn slot_of(depth: i64) -> u64 {
    TOP.wrapping_sub((16 * depth) as u64)
}

/// The deeds of a thread with jumps out of frames, several stacks and returns of any kind.
pub fn messy(length: u64, chance: &mut Chance) -> Vec<Deed> {
    let deeds = (0..length).map(|_| {
        let slot = TOP + chance.below(3) * 0x30_000 + chance.below(60) * 8;
        match chance.below(2) {
            0 => Deed::Call { slot, target: 0x40_0000 + 16 * chance.below(300) },
            _ => Deed::Return { slot },
        }
    });
    deeds.collect()
}

/// Threads that run in turn, in windows of about so many happenings. Some windows are empty.
pub fn interleaved(
    threads: &[(u32, Vec<Deed>)],
    window_length: u64,
    chance: &mut Chance,
) -> Vec<Happening> {
    let mut rest: Vec<(u32, &[Deed])> =
        threads.iter().map(|(thread, deeds)| (*thread, &deeds[..])).collect();
    let (mut window, mut time) = (0, 1000);
    let mut run = Vec::new();
    while !rest.is_empty() {
        let turn = chance.below(rest.len() as u64) as usize;
        let (thread, deeds) = &mut rest[turn];
        let (now, later) = deeds.split_at((1 + chance.below(400)).min(deeds.len() as u64) as usize);
        for &deed in now {
            time += chance.below(60);
            if chance.below(window_length) == 0 {
                window += 1 + chance.below(20) / 18;
            }
            run.push(Happening { window, thread: *thread, time, deed });
        }
        *deeds = later;
        rest.retain(|(_, deeds)| !deeds.is_empty());
    }
    run
}

/// Writes happenings into the windows that they belong to, and ends the windows before.
pub fn write(writer: &mut CallTreeWriter, run: &[Happening]) -> Result<(), Error> {
    for happening in run {
        while writer.windows() < happening.window {
            writer.end_window()?;
        }
        match happening.deed {
            Deed::Call { slot, target } => {
                writer.call(happening.thread, happening.time, slot, target)?
            }
            Deed::Return { slot } => writer.returned(happening.thread, happening.time, slot)?,
        }
    }
    Ok(())
}
