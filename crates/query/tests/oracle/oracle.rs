//! A whole run in memory, and naive answers: each looks through everything.
//!
//! *Numbers.* What an instruction does has its number. What the log has at time `t` has the number of the instruction
//! before `t`; at the very start of an interval, where there is none, that of the first.

use std::collections::{HashMap, HashSet};
use std::ops::{ControlFlow, Range};

use retro_abi::channel::Stream;
use retro_abi::log::{Event, MapKind};
use retro_query::{Direction, Execution, Row, RowFilter, TimedRow, Write, Writer};
use retro_replayer::{AccessKind, Detail, Interval, Item, Replayer};

use crate::recorded::Recorded;

/// What one process did, in its first intervals.
pub struct Oracle {
    pub log: u64,
    pub start: u64,
    pub end: u64,
    pub intervals: Vec<Interval>,
    /// Whether these are all: later ones are not indexed.
    pub is_whole: bool,
    /// Addresses of all instructions.
    pub pcs: Vec<u64>,
    /// Their threads.
    pub threads: Vec<u32>,
    pub effects: Vec<Effect>,
    pub values: Vec<u8>,
    /// What the log tells, with its numbers.
    pub rows: Vec<(u64, TimedRow)>,
    /// Memory that was read: number of the instruction, first word, last word.
    pub reads: Vec<(u64, u64, u64)>,
    /// The last instruction of each thread so far.
    last: HashMap<u32, u64>,
    /// Threads that are in a system call.
    in_syscall: HashSet<u32>,
    /// When the interval begins that is being streamed.
    interval_start: u64,
}

/// Something that memory shows.
#[derive(Clone, Debug)]
pub struct Effect {
    pub number: u64,
    /// From when on.
    pub seen: u64,
    pub thread: u32,
    /// None where it cannot be told.
    pub pc: Option<u64>,
    pub kind: EffectKind,
    pub address: u64,
    pub len: u64,
    /// Where its value is.
    value: usize,
}

/// What happens to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EffectKind {
    Write(Writer),
    /// Its contents have become known.
    Load,
    Map {
        kind: MapKind,
        is_anonymous: bool,
        from: u64,
    },
}

impl Oracle {
    /// Streams a log.
    pub fn of(recorded: &Recorded, log: u64) -> Oracle {
        let replayer = &recorded.replayer;
        let (intervals, is_whole) = recorded.intervals(log);
        let (start, end) = (intervals[0].start, intervals[intervals.len() - 1].end);
        let mut oracle = Oracle {
            log,
            start,
            end,
            intervals: intervals.clone(),
            is_whole,
            pcs: Vec::new(),
            threads: Vec::new(),
            effects: Vec::new(),
            values: Vec::new(),
            rows: Vec::new(),
            reads: Vec::new(),
            last: HashMap::new(),
            in_syscall: HashSet::new(),
            interval_start: start,
        };
        for interval in &intervals {
            oracle.interval_start = interval.start;
            oracle.take_start(replayer, interval);
            let mut session = replayer.session(log, interval.number).unwrap();
            let detail = Detail::CALLS | Detail::WRITES | Detail::READS;
            let visit = |item: &Item<'_>| {
                oracle.take(item);
                ControlFlow::Continue(())
            };
            session.stream(interval.end, detail, visit).unwrap();
        }
        assert_eq!(oracle.pcs.len() as u64, end - start, "every instruction is there");
        oracle
    }

    /// What the log has where an interval begins: a session has it already when it starts.
    fn take_start(&mut self, replayer: &Replayer, interval: &Interval) {
        let (log, mut begun) = (self.log, interval.number == self.intervals[0].number);
        let mut thread = 0;
        let visit = |time: u64, event: &Event<'_>| {
            match *event {
                Event::Interval { number, running, .. } if number == interval.number => {
                    (begun, thread) = (true, running);
                    self.rows.iter_mut().filter(|(_, row)| row.thread == 0).for_each(|(_, row)| {
                        row.thread = running;
                    });
                }
                Event::Interval { number, .. } if number > interval.number => {
                    return ControlFlow::Break(());
                }
                Event::ThreadSwitch { thread: next, .. } | Event::ThreadStart { thread: next } => {
                    thread = next;
                }
                _ => {}
            }
            if time > interval.start {
                return ControlFlow::Break(());
            }
            if begun {
                self.event(time, thread, event);
            }
            ControlFlow::Continue(())
        };
        let recording = replayer.recording();
        let _ = recording.for_each_event_from(log, Stream::Main, interval.start, visit).unwrap();
    }

    fn take(&mut self, item: &Item<'_>) {
        let block = match item {
            Item::Event { time, thread, event } => return self.event(*time, *thread, event),
            Item::Block(block) => block,
        };
        for time in block.time..block.end() {
            self.pcs.push(block.pc_at(time));
            self.threads.push(block.thread);
        }
        self.last.insert(block.thread, block.pc_at(block.end() - 1));
        for access in block.accesses() {
            let number = access.time;
            if access.kind.writes() {
                let value = self.keep(access.value);
                self.effects.push(Effect {
                    number,
                    seen: number + 1,
                    thread: block.thread,
                    pc: Some(block.pc_at(number)),
                    kind: EffectKind::Write(Writer::Instruction),
                    address: access.address,
                    len: access.len,
                    value,
                });
            } else if matches!(access.kind, AccessKind::Read | AccessKind::Return) && access.len > 0
            {
                let last = access.address + (access.len - 1);
                self.reads.push((number, access.address / 8, last / 8));
            }
        }
    }

    fn event(&mut self, time: u64, thread: u32, event: &Event<'_>) {
        if let Some(row) = Row::of(event) {
            let number = time.saturating_sub(1).max(self.interval_start);
            self.rows.push((number, TimedRow { time, thread, row }));
        }
        match event {
            Event::SyscallEnter { .. } => drop(self.in_syscall.insert(thread)),
            Event::SyscallExit { .. } => drop(self.in_syscall.remove(&thread)),
            _ => {}
        }
        let (kind, address, len, bytes): (_, _, _, &[u8]) = match *event {
            Event::Write { address, bytes } => {
                (EffectKind::Write(Writer::Kernel), address, bytes.len() as u64, bytes)
            }
            Event::Load { address, bytes } => {
                (EffectKind::Load, address, bytes.len() as u64, bytes)
            }
            Event::Map { kind, start, len, flags, file, offset, .. } => {
                // What grows is told without flags, and may show a file.
                let is_anonymous = file == 0 && flags != 0;
                (EffectKind::Map { kind, is_anonymous, from: offset }, start, len, &[])
            }
            _ => return,
        };
        let value = self.keep(bytes);
        let number = time.saturating_sub(1).max(self.interval_start);
        let is_syscall = time > self.interval_start && self.in_syscall.contains(&thread);
        let pc = self.last.get(&thread).copied().filter(|_| is_syscall);
        let effect = Effect { number, seen: time, thread, pc, kind, address, len, value };
        self.effects.push(effect);
    }

    fn keep(&mut self, bytes: &[u8]) -> usize {
        let at = self.values.len();
        self.values.extend_from_slice(bytes);
        at
    }

    /// What an effect wrote.
    pub fn value(&self, effect: &Effect) -> &[u8] {
        self.values.get(effect.value..effect.value + effect.len as usize).unwrap_or_default()
    }

    /// Writes to a range, the nearest first.
    pub fn writes(&self, from: u64, direction: Direction, memory: &Range<u64>) -> Vec<&Effect> {
        let found = self.effects.iter().filter(|effect| {
            matches!(effect.kind, EffectKind::Write(_))
                && effect.address < memory.end
                && memory.start < effect.address + effect.len
        });
        nearest_first(found, from, direction, |effect| effect.number)
    }

    /// Executions of some addresses, the nearest first.
    pub fn executions(&self, from: u64, direction: Direction, addresses: &[u64]) -> Vec<Execution> {
        let all = (self.start..).zip(self.pcs.iter().zip(&self.threads));
        let found = all
            .filter(|(_, (pc, _))| addresses.contains(pc))
            .map(|(time, (&pc, &thread))| Execution { time, thread, pc });
        nearest_first(found, from, direction, |execution| execution.time)
    }

    /// What the log tells, the nearest first.
    pub fn rows(&self, from: u64, direction: Direction, filter: &RowFilter) -> Vec<&TimedRow> {
        let found = self.rows.iter().filter(|(_, row)| match filter {
            RowFilter::Class(class) => row.row.key().is_some_and(|key| key >> 32 == *class as u64),
            RowFilter::Number(class, number) => row.row.key() == Some(class.key(*number)),
        });
        let found = nearest_first(found, from, direction, |(number, _)| *number);
        found.into_iter().map(|(_, row)| row).collect()
    }

    /// Whether an answer is this effect.
    pub fn is_write(&self, found: &Write, effect: &Effect) -> bool {
        found.time == effect.number
            && found.thread == effect.thread
            && effect.pc.is_none_or(|pc| pc == found.pc)
            && found.address == effect.address
            && found.value == self.value(effect)
            && EffectKind::Write(found.by) == effect.kind
    }
}

/// From a number on, or before it.
fn nearest_first<T>(
    all: impl Iterator<Item = T>,
    from: u64,
    direction: Direction,
    number: impl Fn(&T) -> u64,
) -> Vec<T> {
    match direction {
        Direction::Forward => all.filter(|found| number(found) >= from).collect(),
        Direction::Backward => {
            let mut before: Vec<T> = all.filter(|found| number(found) < from).collect();
            before.reverse();
            before
        }
    }
}
