//! The program of `scene.c`, recorded and indexed, and ways to ask about it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;

use retro_query::language::{Query, Value};
use retro_query::symbols::FunctionCode;
use retro_query::{Cancel, Error, Found, FoundEvent, Goto, GotoContext, Moment, Run};
use retro_replayer::{AccessKind, Detail, Ending, Item};

use crate::recorded::{Recorded, windows_of};

const SOURCE: &str = include_str!("scene.c");

/// A window has so many instructions: few, so that searches go through many.
const WINDOW: u64 = 6_000;

/// A recorded program.
pub struct Scene {
    pub recorded: Recorded,
    pub run: Run,
    pub log: u64,
    code: RefCell<HashMap<u64, bool>>,
}

/// An instruction that was executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    pub time: u64,
    pub thread: u32,
    pub pc: u64,
    /// The address behind it.
    pub next: u64,
    /// How its block ends, if it is the last one of it.
    pub ending: Option<Ending>,
}

/// Memory that was read or written by an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    pub time: u64,
    pub address: u64,
    pub len: u64,
    pub writes: bool,
}

/// All that a program did.
#[derive(Default)]
pub struct Everything {
    pub steps: Vec<Step>,
    pub accesses: Vec<Access>,
}

impl Scene {
    /// Compiles the program with such options, records and indexes it.
    pub fn new(name: &str, options: &[&str]) -> Scene {
        Scene::indexed(name, options, false)
    }

    /// The same, with or without the words that are read.
    pub fn indexed(name: &str, options: &[&str], reads: bool) -> Scene {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("goto-{name}"));
        fs::create_dir_all(&directory).unwrap();
        let (source, program) = (directory.join("scene.c"), directory.join("scene"));
        fs::write(&source, SOURCE).unwrap();
        let mut compile = Command::new("gcc");
        compile
            .args(["-g", "-pthread", "-fno-omit-frame-pointer", "-o"])
            .arg(&program)
            .args(options);
        assert!(compile.arg(&source).status().unwrap().success());
        let recorded = Recorded::command(name, Command::new(&program), &[]);
        let options = retro_index::build::Options { reads, ..windows_of(WINDOW) };
        recorded.build(&options).unwrap();
        let log = recorded.logs()[0];
        let run = recorded.open();
        Scene { recorded, run, log, code: RefCell::default() }
    }

    /// The line with a mark.
    pub fn line(&self, mark: &str) -> usize {
        let mark = format!("/* MARK {mark} */");
        1 + SOURCE.lines().position(|line| line.contains(&mark)).unwrap()
    }

    pub fn end(&self) -> u64 {
        self.run.process(self.log).unwrap().end
    }

    /// Asks from the end of the run.
    pub fn goto(&self, query: &str) -> Result<Goto, Error> {
        self.goto_from(query, self.end(), None)
    }

    pub fn goto_from(&self, query: &str, now: u64, last: Option<u64>) -> Result<Goto, Error> {
        let query: Query = query.parse().unwrap_or_else(|error| panic!("{query}: {error}"));
        let context = GotoContext { log: self.log, now, last, thread: None, frame: 0 };
        self.run.goto(&query, &context, &Cancel::new())
    }

    /// The one that is found, if there is one.
    pub fn find(&self, query: &str) -> Option<Found> {
        match self.goto(query).unwrap_or_else(|error| panic!("{query}: {error}")) {
            Goto::Found(found) => found,
            _ => panic!("{query}: no search for one"),
        }
    }

    /// The one that is found.
    pub fn found(&self, query: &str) -> Found {
        self.find(query).unwrap_or_else(|| panic!("{query}: nothing found"))
    }

    /// All that are found.
    pub fn all(&self, query: &str) -> Vec<Found> {
        match self.goto(query).unwrap_or_else(|error| panic!("{query}: {error}")) {
            Goto::All(all) => {
                all.map(|found| found.unwrap_or_else(|error| panic!("{query}: {error}"))).collect()
            }
            _ => panic!("{query}: no search for all"),
        }
    }

    /// Times of all that are found, which must be the same in both directions, and one by one.
    pub fn times(&self, event: &str, rest: &str) -> Vec<u64> {
        let forwards = self.all(&format!("goto start forward {event} all {rest}"));
        let mut backwards = self.all(&format!("goto end backward {event} all {rest}"));
        backwards.reverse();
        // What happens at the very start or end is found from the other end only.
        backwards.retain(|found| found.time > 0);
        assert_eq!(forwards, backwards, "{event} {rest}");
        let times: Vec<u64> = forwards.iter().map(|found| found.time).collect();
        assert!(times.is_sorted(), "{event} {rest}: {times:?}");
        self.check_counts(event, rest, &forwards);
        times
    }

    fn check_counts(&self, event: &str, rest: &str, all: &[Found]) {
        let count = all.len();
        for nth in [1, 2, count / 2, count.saturating_sub(1), count, count + 1] {
            if nth == 0 {
                continue;
            }
            let forwards = self.goto(&format!("goto start forward {event} {nth} {rest}"));
            let backwards = self.goto(&format!("goto end backward {event} {nth} {rest}"));
            let (first, last) = (all.get(nth - 1), count.checked_sub(nth).map(|at| &all[at]));
            for (answer, expected) in [(forwards, first), (backwards, last)] {
                let Ok(Goto::Found(found)) = answer else { panic!("{event} {rest}") };
                // Whatever comes at time 0 is beyond the last from the end.
                if let Some(found) = found.filter(|found| found.time > 0) {
                    assert_eq!(Some(&found), expected, "{event} {nth} {rest}");
                } else {
                    assert_eq!(expected, None, "{event} {nth} {rest}");
                }
            }
        }
    }

    /// Functions with this name.
    pub fn functions(&self, name: &str) -> Vec<FunctionCode> {
        self.run.symbols().functions_named(self.log, self.end(), name)
    }

    /// The only function with this name.
    pub fn function(&self, name: &str) -> FunctionCode {
        let mut functions = self.functions(name);
        assert_eq!(functions.len(), 1, "{name}");
        functions.remove(0)
    }

    /// Where a variable is.
    pub fn address_of(&self, expression: &str) -> (u64, u64) {
        let state = self.run.state(Moment { log: self.log, time: self.end() }).unwrap();
        let stack = state.stack(None, 1).unwrap();
        let range = stack.memory_of(0, expression).unwrap();
        (range.start, range.end - range.start)
    }

    /// Whether the instruction between two addresses jumps on a condition, as the code at the end has it.
    pub fn is_conditional_jump(&self, pc: u64, next: u64) -> bool {
        let mut known = self.code.borrow_mut();
        *known.entry(pc).or_insert_with(|| {
            let end = Moment { log: self.log, time: self.end() };
            let code = self.run.memory(end, pc, next - pc).unwrap();
            matches!(code[..], [0x70..=0x7f, _] | [0x0f, 0x80..=0x8f, ..] | [0xe0..=0xe3, _])
        })
    }

    /// Everything that happened, from a replay of its own.
    pub fn everything(&self) -> Everything {
        let mut all = Everything::default();
        for interval in self.recorded.replayer.intervals(self.log).unwrap() {
            let mut session = self.recorded.replayer.session(self.log, interval.number).unwrap();
            let visit = |item: &Item<'_>| {
                if let Item::Block(block) = item {
                    for time in block.time..block.end() {
                        all.steps.push(Step {
                            time,
                            thread: block.thread,
                            pc: block.pc_at(time),
                            next: block.pc_at(time + 1),
                            ending: (time + 1 == block.end()).then(|| block.ending()),
                        });
                    }
                    for access in block.accesses() {
                        all.accesses.push(Access {
                            time: access.time,
                            address: access.address,
                            len: access.len,
                            writes: matches!(access.kind, AccessKind::Write | AccessKind::Call),
                        });
                    }
                }
                ControlFlow::Continue(())
            };
            let detail = Detail::CALLS | Detail::WRITES | Detail::READS;
            session.stream(interval.end, detail, visit).unwrap();
        }
        all
    }
}

/// A whole number.
pub fn integer(value: i128) -> Option<Value> {
    Some(Value::Integer(value))
}

/// Old and new value of a store.
pub fn change(found: &Found) -> (Option<Value>, Option<Value>) {
    match &found.event {
        FoundEvent::Store { old_value, new_value, .. } => (old_value.clone(), new_value.clone()),
        other => panic!("no store: {other:?}"),
    }
}
