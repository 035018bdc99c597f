//! How large call trees are and how long questions take. Not part of a normal test run:
//! `cargo test --release -p retro-index --test call_tree -- --ignored --nocapture`.

use std::time::{Duration, Instant};

use retro_index::call_tree::{CallOrReturn, CallTree, CallTreeWriter, Columns, Error, ThreadCalls};
use retro_recording::NamedFile;
use tempfile::tempdir;

use crate::runs::Chance;

const QUESTIONS: u64 = 10_000;
const WINDOW: u64 = 4_000_000;

/// A thread that writes what it does, and ends a window in time.
struct Guest {
    writer: CallTreeWriter,
    chance: Chance,
    time: u64,
    slots: Vec<u64>,
    /// What happened in the window, if callees are not recorded, and how long it took to write what happened before.
    events: Vec<CallOrReturn>,
    took: Duration,
    callees: bool,
    written: u64,
    limit: u64,
}

impl Guest {
    fn new(named: &NamedFile, callees: bool, limit: u64) -> Guest {
        let writer = CallTreeWriter::create(named, Columns { callees }).unwrap();
        let (chance, slots) = (Chance::new(1), vec![0x7fff_0000_0000]);
        let (events, took) = (Vec::new(), Duration::ZERO);
        Guest { writer, chance, time: 0, slots, events, took, callees, written: 0, limit }
    }

    fn is_done(&self) -> bool {
        self.written >= self.limit
    }

    fn call(&mut self, function: u64) {
        let slot = self.slots[self.slots.len() - 1] - 48 - 16 * (function % 5);
        self.slots.push(slot);
        self.spend();
        if self.callees {
            self.writer.call(1, self.time, slot, 0x40_1000 + 0x170 * function).unwrap();
        } else {
            self.events.push(CallOrReturn::call(slot));
        }
    }

    fn ret(&mut self) {
        let slot = self.slots.pop().unwrap();
        self.spend();
        if self.callees {
            self.writer.returned(1, self.time, slot).unwrap();
        } else {
            self.events.push(CallOrReturn::returned(slot));
        }
    }

    fn spend(&mut self) {
        let before = self.time;
        self.time += 10 + self.chance.below(60);
        self.written += 1;
        if before / WINDOW != self.time / WINDOW {
            self.end_window(before);
        }
    }

    fn end_window(&mut self, time: u64) -> u64 {
        let start = Instant::now();
        self.writer.append(1, time, &self.events).unwrap();
        self.writer.end_window().unwrap();
        let committed = self.writer.commit().unwrap();
        self.took += start.elapsed();
        self.events.clear();
        committed
    }

    fn fib(&mut self, n: u64) {
        self.call(1);
        if n >= 2 && !self.is_done() {
            self.fib(n - 1);
            self.fib(n - 2);
        }
        self.ret();
    }

    /// A function of an interpreter: few are common, most are rare, and callers have their favourites.
    fn interpret(&mut self, caller: u64, depth: u64) {
        while self.chance.below(100) < 55 && depth < 60 && !self.is_done() {
            let rank = 200 / (1 + self.chance.below(200));
            let function =
                if self.chance.below(2) == 0 { rank } else { (caller * 7 + rank % 8) % 200 };
            self.call(function);
            self.interpret(function, depth + 1);
            self.ret();
        }
    }

    fn recurse(&mut self, depth: u64) {
        while !self.is_done() {
            (0..depth).for_each(|_| self.call(3));
            (0..depth).for_each(|_| self.ret());
        }
    }
}

/// What a thread does.
type Work = fn(&mut Guest);

#[test]
#[ignore = "takes a minute and checks nothing"]
fn measure() {
    let works: [(&str, Work); 4] = [
        ("fib", |guest| {
            while !guest.is_done() {
                guest.fib(30)
            }
        }),
        ("interpreter", |guest| {
            while !guest.is_done() {
                guest.interpret(0, 0)
            }
        }),
        ("random", |guest| {
            while !guest.is_done() {
                random(guest)
            }
        }),
        ("recursion of 100,000", |guest| guest.recurse(100_000)),
    ];
    for (name, work) in works {
        let plain = measure_size(name, work, false, 10_000_000);
        let with_callees = measure_size(name, work, true, 10_000_000);
        println!("{name}: callees take {:.3} bits per call", with_callees - plain);
    }
    let place = tempdir().unwrap();
    let named = NamedFile::at(&place.path().join("calls")).unwrap();
    let mut guest = Guest::new(&named, true, 50_000_000);
    while !guest.is_done() {
        guest.interpret(0, 0);
    }
    let committed = guest.end_window(guest.time);
    measure_questions(&named, committed);
}

/// Two hundred functions with equal chances, and nothing that repeats itself.
fn random(guest: &mut Guest) {
    let function = guest.chance.below(200);
    if guest.slots.len() < 2 || guest.chance.below(100) < 50 {
        guest.call(function)
    } else {
        guest.ret()
    }
}

/// Bits per call.
fn measure_size(name: &str, work: Work, callees: bool, limit: u64) -> f64 {
    let place = tempdir().unwrap();
    let mut guest =
        Guest::new(&NamedFile::at(&place.path().join("calls")).unwrap(), callees, limit);
    let start = Instant::now();
    work(&mut guest);
    let committed = guest.end_window(guest.time);
    let took = if callees { start.elapsed() } else { guest.took };
    let bits = committed as f64 * 8.0;
    let per_call = bits / (guest.written as f64 / 2.0);
    println!(
        "{name}, callees {callees}: {:.3} bits per call, {:.4} per instruction, {} commits, {:.1} ns to write one",
        per_call,
        bits / guest.time as f64,
        guest.writer.windows(),
        took.as_nanos() as f64 / guest.written as f64,
    );
    per_call
}

/// A question about a position.
type Question = fn(&ThreadCalls, u64) -> Result<(), Error>;

fn measure_questions(named: &NamedFile, committed: u64) {
    let start = Instant::now();
    let tree = CallTree::open(named, committed).unwrap();
    let calls = tree.thread(1).unwrap().unwrap();
    println!("{} parentheses in {committed} bytes, opened in {:?}", calls.len(), start.elapsed());
    let questions: [(&str, Question); 12] = [
        ("is_open", |calls, position| calls.is_open(position).map(drop)),
        ("excess", |calls, position| calls.excess(position).map(drop)),
        ("find_close", |calls, position| calls.find_close(position).map(drop)),
        ("find_open", |calls, position| calls.find_open(position).map(drop)),
        ("enclosing", |calls, position| calls.enclosing(position).map(drop)),
        ("step out", |calls, position| {
            let excess = calls.excess(position)?;
            calls.next_at_or_below(position, excess - 1).map(drop)
        }),
        ("end of tree", |calls, position| calls.next_at_or_below(position, i64::MIN / 2).map(drop)),
        ("call stack", |calls, position| {
            calls.enclosing_calls(position).try_for_each(|open| open.map(drop))
        }),
        ("children", |calls, position| calls.children(position).map(drop)),
        ("select_open", |calls, position| calls.select_open(position / 2).map(drop)),
        ("positions_before", |calls, position| calls.positions_before(position * 30).map(drop)),
        ("callee", |calls, position| calls.callee(position).map(drop)),
    ];
    for (name, question) in questions {
        let chance = &mut Chance::new(7);
        let mut times: Vec<Duration> = (0..QUESTIONS)
            .map(|_| {
                let position = chance.below(calls.len());
                let start = Instant::now();
                question(&calls, position).unwrap();
                start.elapsed()
            })
            .collect();
        times.sort_unstable();
        println!(
            "{name}: median {:?}, 99% {:?}, maximum {:?}",
            times[times.len() / 2],
            times[times.len() * 99 / 100],
            times[times.len() - 1]
        );
    }
    let start = Instant::now();
    for window in 0..100 {
        calls.matcher_at(window * tree.windows() / 100).unwrap();
    }
    println!("matcher_at: {:?}", start.elapsed() / 100);
    let start = Instant::now();
    calls.find_call_of(0x40_1000 + 0x170 * 1000, 0..calls.len(), 0).unwrap();
    println!("find_call_of a function that is never called: {:?}", start.elapsed());
}
