//! Random questions, asked of the index and of the oracle.

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestRunner};
use retro_query::{Cancel, Direction, Error, Moment, RowClass, RowFilter, Run};
use retro_replayer::Registers;

use crate::memory::{self, Memory, PAGE};
use crate::oracle::{Effect, EffectKind, Oracle};
use crate::recorded::Recorded;

/// Most windows are looked into for one answer.
const MOST_ANSWERS: usize = 60;

/// A run that is open, and all that is to be known of it.
#[derive(Clone)]
pub struct Scene<'a> {
    recorded: &'a Recorded,
    run: Run,
    oracles: &'a HashMap<u64, Oracle>,
    /// Whether the index may be damaged: then there may be errors, but no wrong answers.
    may_fail: bool,
    /// Whether later intervals are not indexed.
    is_partial: bool,
    tables: Rc<Tables>,
}

/// What questions are made from.
struct Tables {
    logs: Vec<u64>,
    /// By log: when windows begin.
    windows: HashMap<u64, Vec<u64>>,
    /// By log: addresses that were executed.
    code: HashMap<u64, Vec<u64>>,
    /// By log: indices of effects that are writes.
    writes: HashMap<u64, Vec<usize>>,
}

/// The oracles of all processes.
pub fn oracles(recorded: &Recorded) -> HashMap<u64, Oracle> {
    let logs = recorded.logs().into_iter();
    logs.map(|log| (log, Oracle::of(recorded, log))).collect()
}

/// A moment that may be special.
#[derive(Clone, Copy, Debug)]
enum When {
    Anywhere(Index),
    Interval(Index, i8),
    Window(Index, i8),
    Effect(Index, i8),
    Row(Index, i8),
    First(i8),
    Last(i8),
}

fn when() -> impl Strategy<Value = When> {
    let index = any::<Index>;
    prop_oneof![
        3 => index().prop_map(When::Anywhere),
        2 => (index(), -2i8..3).prop_map(|(at, by)| When::Interval(at, by)),
        2 => (index(), -2i8..3).prop_map(|(at, by)| When::Window(at, by)),
        2 => (index(), -2i8..3).prop_map(|(at, by)| When::Effect(at, by)),
        2 => (index(), -2i8..3).prop_map(|(at, by)| When::Row(at, by)),
        1 => (0i8..3).prop_map(When::First),
        1 => (-2i8..1).prop_map(When::Last),
    ]
}

/// Memory near something that was written.
#[derive(Clone, Copy, Debug)]
struct Where {
    near: Index,
    shift: i8,
    size: u64,
    whole_page: bool,
}

fn somewhere() -> impl Strategy<Value = Where> {
    let sizes = prop_oneof![Just(1), Just(2), Just(3), Just(8), Just(13), Just(64), Just(5000)];
    let page = prop::bool::weighted(0.1);
    (any::<Index>(), -9i8..10, sizes, page).prop_map(|(near, shift, size, whole_page)| Where {
        near,
        shift,
        size,
        whole_page,
    })
}

#[derive(Clone, Debug)]
enum What {
    Writes(Where, Direction, usize),
    LastWrites(Vec<Where>),
    Executions(Vec<(Index, bool)>, Direction, usize),
    Count(Index),
    Nth(Index, Direction, u64),
    Rows(RowClass, Option<Index>, Direction, usize),
    Registers,
    Memory(Vec<(Index, i8)>),
    Maps,
    Cancelled,
}

/// A question that fits every run.
#[derive(Clone, Debug)]
pub struct Question {
    log: Index,
    when: When,
    what: What,
}

/// Any question.
pub fn question() -> impl Strategy<Value = Question> {
    (any::<Index>(), when(), what()).prop_map(|(log, when, what)| Question { log, when, what })
}

/// So many cases, unless `PROPTEST_CASES` says otherwise.
pub fn config(cases: u32) -> Config {
    let cases = match std::env::var_os("PROPTEST_CASES") {
        Some(_) => Config::default().cases,
        None => cases,
    };
    Config { cases, max_shrink_iters: 100, failure_persistence: None, ..Config::default() }
}

fn direction() -> impl Strategy<Value = Direction> {
    prop_oneof![Just(Direction::Forward), Just(Direction::Backward)]
}

fn row_class() -> impl Strategy<Value = RowClass> {
    prop_oneof![
        3 => Just(RowClass::Syscall),
        2 => Just(RowClass::Signal),
        2 => Just(RowClass::Map),
        1 => Just(RowClass::ThreadStart),
        1 => Just(RowClass::ThreadEnd),
        1 => Just(RowClass::Fork),
        1 => Just(RowClass::End),
        1 => Just(RowClass::ThreadSwitch),
    ]
}

fn what() -> impl Strategy<Value = What> {
    let index = any::<Index>;
    let addresses = prop::collection::vec((index(), prop::bool::weighted(0.1)), 1..4);
    let pages = prop::collection::vec((index(), -1i8..2), 1..8);
    let number = prop::option::of(index());
    let count = 1usize..MOST_ANSWERS;
    prop_oneof![
        4 => (somewhere(), direction(), count.clone()).prop_map(|(a, b, c)| What::Writes(a, b, c)),
        3 => prop::collection::vec(somewhere(), 1..6).prop_map(What::LastWrites),
        3 => (addresses, direction(), count.clone()).prop_map(|(a, b, c)| What::Executions(a, b, c)),
        2 => index().prop_map(What::Count),
        2 => (index(), direction(), 1u64..40).prop_map(|(a, b, c)| What::Nth(a, b, c)),
        3 => (row_class(), number, direction(), count).prop_map(|(a, b, c, d)| What::Rows(a, b, c, d)),
        3 => Just(What::Registers),
        4 => pages.prop_map(What::Memory),
        1 => Just(What::Maps),
        1 => Just(What::Cancelled),
    ]
}

impl<'a> Scene<'a> {
    pub fn open(recorded: &'a Recorded, oracles: &'a HashMap<u64, Oracle>) -> Scene<'a> {
        let run = recorded.open();
        let logs = recorded.logs();
        let windows_of = |log: u64| {
            let process = run.process(log).unwrap();
            let starts = process.volumes.iter().flat_map(|volume| {
                (0..volume.windows.len()).filter_map(|window| volume.windows.start(window))
            });
            starts.collect()
        };
        let windows = logs.iter().map(|&log| (log, windows_of(log))).collect();
        let code_of = |oracle: &Oracle| {
            let distinct: BTreeSet<u64> = oracle.pcs.iter().copied().collect();
            distinct.into_iter().collect()
        };
        let writes_of = |oracle: &Oracle| {
            let is_write = |effect: &Effect| matches!(effect.kind, EffectKind::Write(_));
            (0..oracle.effects.len()).filter(|&at| is_write(&oracle.effects[at])).collect()
        };
        let code = oracles.iter().map(|(&log, oracle)| (log, code_of(oracle))).collect();
        let writes = oracles.iter().map(|(&log, oracle)| (log, writes_of(oracle))).collect();
        let tables = Rc::new(Tables { logs, windows, code, writes });
        let is_partial = oracles.values().any(|oracle| !oracle.is_whole);
        Scene { recorded, run, oracles, may_fail: false, is_partial, tables }
    }

    /// The same recording, opened again, with an index that may be damaged by now.
    pub fn reopened_with_damage(&self) -> Scene<'a> {
        Scene { run: self.recorded.open(), may_fail: true, ..self.clone() }
    }

    /// Asks so many random questions.
    pub fn ask(&self, questions: u32) {
        let asked = TestRunner::new(config(questions)).run(&question(), |question| {
            self.answer(&question);
            Ok(())
        });
        asked.unwrap_or_else(|error| panic!("{error}"));
    }

    /// Asks a question of both.
    pub fn answer(&self, question: &Question) {
        let oracle = &self.oracles[question.log.get(&self.tables.logs)];
        let time = self.time(oracle, question.when);
        self.check(oracle, time, &question.what);
    }

    /// An answer, or nothing where there may be errors or nobody knows.
    fn allowed<T>(&self, answer: Result<T, Error>) -> Option<T> {
        match answer {
            Ok(answer) => Some(answer),
            Err(Error::NotIndexed { .. }) if self.may_fail || self.is_partial => None,
            Err(Error::Index(_) | Error::Replay(_)) if self.may_fail => None,
            Err(error) => panic!("{error}"),
        }
    }

    fn time(&self, oracle: &Oracle, when: When) -> u64 {
        let near = |time: u64, by: i8| time.saturating_add_signed(by.into());
        let time = match when {
            When::Anywhere(at) => {
                oracle.start + at.index((oracle.end - oracle.start) as usize + 1) as u64
            }
            When::Interval(at, by) => near(at.get(&oracle.intervals).start, by),
            When::Window(at, by) => near(*at.get(&self.tables.windows[&oracle.log]), by),
            When::Effect(at, by) => near(at.get(&oracle.effects).number, by),
            When::Row(at, by) => near(at.get(&oracle.rows).1.time, by),
            When::First(by) => near(oracle.start, by),
            When::Last(by) => near(oracle.end, by),
        };
        time.clamp(oracle.start, oracle.end)
    }

    fn range(&self, oracle: &Oracle, place: Where) -> std::ops::Range<u64> {
        let writes = &self.tables.writes[&oracle.log];
        let address = match writes.is_empty() {
            true => 0x1000_0000,
            false => oracle.effects[*place.near.get(writes)].address,
        };
        if place.whole_page {
            return address / PAGE * PAGE..(address / PAGE + 1) * PAGE;
        }
        let start = address.saturating_add_signed(place.shift.into());
        start..start + place.size
    }

    /// Asks one question of both.
    fn check(&self, oracle: &Oracle, time: u64, what: &What) {
        let from = Moment { log: oracle.log, time };
        let context = || format!("log {} at {time}: {what:x?}", oracle.log);
        match what {
            What::Writes(place, direction, count) => {
                let memory = self.range(oracle, *place);
                let found = self.run.writes(from, *direction, memory.clone(), &Cancel::new());
                let expected = oracle.writes(time, *direction, &memory);
                self.compare(found, &expected, *count, &context(), |found, expected| {
                    oracle.is_write(found, expected)
                });
            }
            What::LastWrites(places) => {
                let memory: Vec<_> =
                    places.iter().map(|place| self.range(oracle, *place)).collect();
                let found = self.run.last_writes(from, &memory, usize::MAX, &Cancel::new());
                let Some(found) = self.allowed(found) else { return };
                assert_eq!(found.len(), memory.len());
                for (found, memory) in found.into_iter().zip(&memory) {
                    let found = found.expect("all windows may be looked into").found();
                    let expected = oracle.writes(time, Direction::Backward, memory);
                    let is_same = match (&found, expected.first()) {
                        (Some(found), Some(expected)) => oracle.is_write(found, expected),
                        (found, expected) => found.is_none() && expected.is_none(),
                    };
                    let expected = expected.first();
                    assert!(is_same, "{}, {memory:x?}\n{found:x?}\n{expected:x?}", context());
                }
            }
            What::Executions(addresses, direction, count) => {
                let code = &self.tables.code[&oracle.log];
                let addresses: Vec<u64> = (addresses.iter())
                    .map(|(at, is_inside)| self.pc(code, *at) + u64::from(*is_inside))
                    .collect();
                let found = self.run.executions(from, *direction, &addresses, &Cancel::new());
                let expected = oracle.executions(time, *direction, &addresses);
                let same = |found: &_, expected: &_| found == expected;
                self.compare(found, &expected, *count, &context(), same);
            }
            What::Count(at) => {
                let address = self.pc(&self.tables.code[&oracle.log], *at);
                let expected = oracle.executions(time, Direction::Backward, &[address]).len();
                let found = self.run.count_executions(from, address);
                let Some(found) = self.allowed(found) else { return };
                assert_eq!(found, expected as u64, "{} of {address:#x}", context());
            }
            What::Nth(at, direction, nth) => {
                let address = self.pc(&self.tables.code[&oracle.log], *at);
                let cancel = Cancel::new();
                let found = self.run.nth_execution(from, *direction, address, *nth, &cancel);
                let expected = oracle.executions(time, *direction, &[address]);
                let expected = expected.get(*nth as usize - 1).copied();
                let Some(found) = self.allowed(found) else {
                    assert!(self.may_fail || expected.is_none(), "{} of {address:#x}", context());
                    return;
                };
                assert_eq!(found, expected, "{} of {address:#x}", context());
            }
            What::Rows(class, number, direction, count) => {
                let filter = self.row_filter(oracle, *class, *number);
                let found = self.run.rows(from, *direction, filter.clone(), &Cancel::new());
                let expected = oracle.rows(time, *direction, &filter);
                let context = format!("{}, {filter:?}", context());
                self.compare(found, &expected, *count, &context, |found, expected| {
                    found == *expected
                });
            }
            What::Registers => self.check_registers(from),
            What::Memory(pages) => self.check_memory(oracle, from, pages, &context()),
            What::Maps => {
                let Some(found) = self.allowed(self.run.maps(from)) else { return };
                let found = memory::pages_of(&found);
                let replayer = &self.recorded.replayer;
                let expected = memory::mapped_at(replayer, self.oracles, oracle.log, time);
                assert!(found == expected, "{}: {}", context(), difference(&found, &expected));
            }
            What::Cancelled => {
                let cancel = Cancel::new();
                cancel.cancel();
                let memory = 0..u64::MAX;
                let found = self.run.writes(from, Direction::Backward, memory, &cancel);
                let Some(mut found) = self.allowed(found) else { return };
                assert!(matches!(found.next(), Some(Err(Error::Cancelled))), "{}", context());
                assert!(found.next().is_none(), "{}", context());
            }
        }
    }

    fn pc(&self, code: &[u64], at: Index) -> u64 {
        if code.is_empty() { 0 } else { *at.get(code) }
    }

    /// A filter for rows of a class, maybe only those with a number that occurs.
    fn row_filter(&self, oracle: &Oracle, class: RowClass, number: Option<Index>) -> RowFilter {
        let keys: BTreeSet<u64> = (oracle.rows.iter())
            .filter_map(|(_, row)| row.row.key())
            .filter(|key| class.keys().contains(key))
            .collect();
        let keys: Vec<u64> = keys.into_iter().collect();
        match number {
            Some(at) if !keys.is_empty() => {
                RowFilter::Number(class, at.get(&keys) - class.keys().start)
            }
            _ => RowFilter::Class(class),
        }
    }

    /// The first answers, and that there are no more if these are all.
    fn compare<T: std::fmt::Debug, E: std::fmt::Debug>(
        &self,
        found: Result<impl Iterator<Item = Result<T, Error>>, Error>,
        expected: &[E],
        count: usize,
        context: &str,
        is_same: impl Fn(&T, &E) -> bool,
    ) {
        let Some(all) = self.allowed(found) else {
            let is_known = !self.may_fail && !expected.is_empty();
            return assert!(!is_known, "{context}: there is no answer");
        };
        let all: Vec<Option<T>> = all.take(count).map(|answer| self.allowed(answer)).collect();
        let has_failed = all.iter().any(Option::is_none);
        let found: Vec<T> = all.into_iter().flatten().collect();
        let expected = &expected[..expected.len().min(count)];
        for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
            assert!(
                is_same(found, expected),
                "{context}, answer {index}:\n{found:x?}\n{expected:x?}"
            );
        }
        if self.may_fail && has_failed && found.len() < expected.len() {
            return;
        }
        let next = (found.get(expected.len()), expected.get(found.len()));
        assert_eq!(found.len(), expected.len(), "{context}: {next:x?}");
    }

    fn check_registers(&self, moment: Moment) {
        let replayer = &self.recorded.replayer;
        let interval = replayer.interval_of(moment.log, moment.time).unwrap();
        let mut session = replayer.session(moment.log, interval.number).unwrap();
        session.run_to(moment.time).unwrap();
        let mut threads = session.threads().unwrap();
        let Some(mut found) = self.allowed(self.run.threads(moment)) else { return };
        assert_eq!(found.first(), threads.first(), "the one that runs comes first at {moment:?}");
        threads.sort_by_key(|info| info.thread);
        found.sort_by_key(|info| info.thread);
        assert_eq!(found, threads, "{moment:?}");
        for info in &threads {
            let expected = session.registers(Some(info.thread)).unwrap();
            let found = self.run.registers(moment, Some(info.thread));
            let Some(found) = self.allowed(found) else { return };
            assert_same_registers(&found, &expected, moment);
        }
        let Some(running) = self.allowed(self.run.registers(moment, None)) else { return };
        assert_eq!((running.thread, running.pc()), (session.thread(), session.pc()));
        if let Some(found) = self.allowed(self.run.running_thread(moment)) {
            assert_eq!(found, session.thread(), "{moment:?}");
        }
        let nobody = threads.iter().map(|info| info.thread).max().map_or(1, |thread| thread + 1);
        let error = self.run.registers(moment, Some(nobody));
        assert!(self.may_fail || matches!(error, Err(Error::NoThread { .. })), "{error:?}");
    }

    /// Whether a volume is lost, as if it had never been built.
    fn is_incomplete(&self, oracle: &Oracle) -> bool {
        let volumes = self.run.process(oracle.log).map_or(0, |process| process.volumes.len());
        self.may_fail && volumes < oracle.intervals.len()
    }

    fn check_memory(&self, oracle: &Oracle, moment: Moment, pages: &[(Index, i8)], context: &str) {
        let model = Memory::at(oracle, moment.time);
        let known: Vec<u64> = model.0.keys().copied().collect();
        for (at, by) in pages.iter().filter(|_| !known.is_empty()) {
            let page = at.get(&known).saturating_add_signed(i64::from(*by) * PAGE as i64);
            let Some(expected) = model.0.get(&page) else { continue };
            let Some(found) = self.allowed(self.run.memory(moment, page, PAGE)) else { return };
            if self.is_incomplete(oracle) {
                // What intervals knew that are not indexed is unknown.
                continue;
            }
            assert_eq!(found.len() as u64, PAGE, "{context}: page {page:#x} is there");
            for (address, (found, expected)) in (page..).zip(found.iter().zip(&expected[..])) {
                let is_same = expected.is_none_or(|expected| expected == *found);
                assert!(is_same, "{context}: {address:#x} is {found:#x}, not {expected:x?}");
            }
        }
    }
}

/// Says where registers differ, rather than all that they are.
fn assert_same_registers(found: &Registers, expected: &Registers, moment: Moment) {
    let general = (found.thread, found.running, found.in_syscall, found.general);
    let wanted = (expected.thread, expected.running, expected.in_syscall, expected.general);
    assert_eq!(general, wanted, "{moment:?}");
    let bytes = found.vectors.iter().zip(&expected.vectors).enumerate();
    let differences: Vec<_> = bytes.filter(|(_, (found, expected))| found != expected).collect();
    assert!(found == expected, "{moment:?}, thread {}: {differences:?}", found.thread);
}

/// The first pages that are not the same.
fn difference(found: &memory::Mapped, expected: &memory::Mapped) -> String {
    let pages: BTreeSet<u64> = found.keys().chain(expected.keys()).copied().collect();
    let differ = pages.into_iter().filter(|page| found.get(page) != expected.get(page));
    let first = differ.take(5);
    first
        .map(|page| format!("{page:#x} {:x?} {:x?}\n", found.get(&page), expected.get(&page)))
        .collect()
}
