//! `retro replay --trace`: what a process does, with names.
//!
//! Everything that a replay tells is looked at once, in the order of time, and printed or not. What is remembered
//! is the calls that each thread is in, and a system call that may return right away.
//!
//! ```text
//! trace.rs      which items are told, and what they mean
//! call_tree.rs  the calls that a thread is in
//! line.rs       one thing that happened, as text or JSON
//! ```
//!
//! Invariant: memory does not grow with the length of the run.

mod call_tree;
pub(crate) mod line;

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use anyhow::{Result, bail};
use retro_abi::log::{Event, register};
use retro_replayer::{Access, AccessKind, Block, Detail, Interval, Item, Replayer, Session};
use retro_symbols::{Place, Symbols};

use super::memory::told;
use super::processes::Wanted;
use crate::arguments::TraceKind;
use crate::output::{Output, OutputError};
use crate::style::Style;
use call_tree::CallTree;
use line::{Format, Line, What};

/// Instructions that are replayed before it is looked whether anybody still reads.
const SLICE: u64 = 4_000_000;

/// Threads whose calls are remembered; more would only be in a log that was made to use up memory.
const THREADS_LIMIT: usize = 1 << 12;

/// General register 4 in the order of the processor.
const RSP: usize = 4;

/// Prints what happens in one log.
pub fn trace(
    replayer: &Replayer,
    wanted: &Wanted,
    kinds: &[TraceKind],
    is_json: bool,
) -> Result<()> {
    let [log] = wanted.logs[..] else { bail!("a trace is of one process") };
    let mut tracer = Tracer {
        log,
        from: wanted.from,
        kinds,
        symbols: Symbols::new(Arc::clone(replayer.recording())),
        threads: HashMap::new(),
        held: None,
        format: if is_json { Format::Json } else { Format::Text(Style::stdout()) },
        output: Output::new(),
    };
    let intervals = replayer.intervals(log).map_err(|error| told(replayer, log, error))?;
    for interval in intervals {
        // An interval ends at the time at which the next begins, and has what happens before then.
        if interval.end < wanted.from || interval.start > wanted.to {
            continue;
        }
        let mut session =
            replayer.session(log, interval.number).map_err(|error| told(replayer, log, error))?;
        tracer.interval(replayer, &mut session, &interval, wanted)?;
    }
    tracer.release()?;
    Ok(tracer.output.flush()?)
}

struct Tracer<'a> {
    log: u64,
    from: u64,
    kinds: &'a [TraceKind],
    symbols: Symbols,
    threads: HashMap<u32, Thread>,
    /// A system call that was the last to be shown: its return may follow.
    held: Option<HeldCall>,
    format: Format,
    output: Output,
}

#[derive(Default)]
struct Thread {
    calls: CallTree,
    /// When and with which slot a call was made whose target is not known yet.
    calling: Option<(u64, u64)>,
    /// A signal whose handler is about to run: its number and the handler.
    signal: Option<(u32, u64)>,
    /// The block that ran last.
    last_block: Option<u64>,
    /// The number of the system call that it is in.
    in_syscall: Option<u64>,
}

struct HeldCall {
    time: u64,
    thread: u32,
    number: u64,
    args: [u64; 6],
    place: Option<Place>,
}

impl Tracer<'_> {
    fn interval(
        &mut self,
        replayer: &Replayer,
        session: &mut Session,
        interval: &Interval,
        wanted: &Wanted,
    ) -> Result<()> {
        let detail = self.detail();
        let end = interval.end.min(wanted.to);
        // What the log has at the time itself is told when a replay comes there from before.
        let before = wanted.from.saturating_sub(1).min(end);
        if session.time() < before {
            session.run_to(before).map_err(|error| told(replayer, self.log, error))?;
        }
        let mut until = wanted.from.clamp(session.time(), end);
        loop {
            let mut printed: Result<(), OutputError> = Ok(());
            let stop = session.stream(until, detail, |item| {
                printed = self.item(item);
                if printed.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
            printed?;
            let stop = stop.map_err(|error| {
                // What was reached is worth seeing.
                let _ = self.release().and_then(|()| self.output.flush());
                told(replayer, self.log, error)
            })?;
            if until >= end || stop.time < until {
                return Ok(());
            }
            until = until.saturating_add(SLICE).min(end);
        }
    }

    fn shows(&self, kind: TraceKind) -> bool {
        self.kinds.contains(&kind)
    }

    fn detail(&self) -> Detail {
        let mut detail = Detail::BLOCKS;
        if self.shows(TraceKind::Calls) || self.shows(TraceKind::Writes) {
            detail = detail | Detail::CALLS;
        }
        if self.shows(TraceKind::Writes) {
            detail = detail | Detail::WRITES;
        }
        detail
    }

    fn item(&mut self, item: &Item) -> Result<(), OutputError> {
        match item {
            Item::Block(block) => self.block(block),
            Item::Event { time, thread, event } => self.event(*time, *thread, event),
        }
    }

    fn thread(&mut self, id: u32) -> &mut Thread {
        if self.threads.len() > THREADS_LIMIT {
            self.threads.clear();
        }
        self.threads.entry(id).or_default()
    }

    fn place(&mut self, time: u64, address: u64) -> Place {
        self.symbols.place(self.log, time, address)
    }

    fn block(&mut self, block: &Block) -> Result<(), OutputError> {
        let thread = self.thread(block.thread);
        thread.last_block = Some(block.pc_at(block.end() - 1));
        if let Some((time, slot)) = thread.calling.take() {
            self.called(time, block.thread, slot, block.pc(), None)?;
        }
        if self.shows(TraceKind::Blocks) {
            let place = self.place(block.time, block.pc());
            let instructions = block.instructions();
            self.print(block.time, block.thread, What::Block { place: &place, instructions })?;
        }
        let (calls, writes) = (self.shows(TraceKind::Calls), self.shows(TraceKind::Writes));
        if !calls && !writes {
            return Ok(());
        }
        for access in block.accesses() {
            if writes && access.kind.writes() {
                self.written(block, &access)?;
            }
            match access.kind {
                AccessKind::Call if calls => {
                    self.thread(block.thread).calling = Some((access.time, access.address));
                }
                AccessKind::Return if calls => {
                    self.returned(access.time, block.thread, access.address)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn called(
        &mut self,
        time: u64,
        id: u32,
        slot: u64,
        target: u64,
        signal: Option<u32>,
    ) -> Result<(), OutputError> {
        let place = self.place(time, target);
        let name = line::name_of(&place);
        let depth = self.thread(id).calls.call(slot, name);
        self.print(time, id, What::Call { place: &place, depth, signal })
    }

    fn returned(&mut self, time: u64, id: u32, slot: u64) -> Result<(), OutputError> {
        let returned: Option<(usize, Arc<str>)> = self.thread(id).calls.ret(slot);
        let (depth, name) = match &returned {
            Some((depth, name)) => (*depth, Some(&**name)),
            None => (0, None),
        };
        self.print(time, id, What::Return { name, depth })
    }

    fn written(&mut self, block: &Block, access: &Access) -> Result<(), OutputError> {
        let by = self.place(block.time, block.pc_at(access.time));
        let target = self.place(access.time, access.address);
        let what = What::Write {
            by: Some(&by),
            target: &target,
            length: access.len,
            value: access.value,
            is_return_address: access.kind == AccessKind::Call,
        };
        self.print(access.time, block.thread, what)
    }

    fn event(&mut self, time: u64, id: u32, event: &Event) -> Result<(), OutputError> {
        match *event {
            Event::SyscallEnter { number, args, .. } => self.entered(time, id, number, args),
            Event::SyscallExit { result } => self.exited(time, id, result),
            Event::Signal { number, synchronous, handler, info, .. } => {
                if handler != 0 {
                    self.thread(id).signal = Some((number, handler));
                }
                if !self.shows(TraceKind::Syscalls) {
                    return Ok(());
                }
                let handler = (handler != 0).then(|| self.place(time, handler));
                let handler = handler.as_ref();
                self.print(time, id, What::Signal { number, synchronous, handler, info })
            }
            Event::Registers(set) => {
                let Some((number, handler)) = self.thread(id).signal.take() else { return Ok(()) };
                if !self.shows(TraceKind::Calls) || set.mask & 1 << RSP == 0 {
                    return Ok(());
                }
                debug_assert_eq!(register::NAMES[RSP], "rsp");
                self.called(time, id, set.values[RSP], handler, Some(number))
            }
            Event::Write { address, bytes } if self.shows(TraceKind::Writes) => {
                let target = self.place(time, address);
                let what = What::Write {
                    by: None,
                    target: &target,
                    length: bytes.len() as u64,
                    value: bytes,
                    is_return_address: false,
                };
                self.print(time, id, what)
            }
            Event::ThreadEnd { thread, .. } => {
                self.threads.remove(&thread);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn entered(
        &mut self,
        time: u64,
        id: u32,
        number: u64,
        args: [u64; 6],
    ) -> Result<(), OutputError> {
        let thread = self.thread(id);
        thread.in_syscall = Some(number);
        let block = thread.last_block;
        if !self.shows(TraceKind::Syscalls) || time < self.from {
            return Ok(());
        }
        self.release()?;
        let place = block.map(|pc| self.place(time, pc));
        self.held = Some(HeldCall { time, thread: id, number, args, place });
        Ok(())
    }

    fn exited(&mut self, time: u64, id: u32, result: u64) -> Result<(), OutputError> {
        let number = self.thread(id).in_syscall.take();
        if !self.shows(TraceKind::Syscalls) {
            return Ok(());
        }
        match self.held.take_if(|held| held.thread == id) {
            Some(held) => self.print_call(&held, Some(result)),
            None => self.print(time, id, What::SyscallReturn { number, result }),
        }
    }

    /// Prints a call whose return does not follow.
    fn release(&mut self) -> Result<(), OutputError> {
        match self.held.take() {
            Some(held) => self.print_call(&held, None),
            None => Ok(()),
        }
    }

    fn print_call(&mut self, held: &HeldCall, result: Option<u64>) -> Result<(), OutputError> {
        let what = What::Syscall {
            number: held.number,
            args: &held.args,
            result,
            place: held.place.as_ref(),
        };
        self.print(held.time, held.thread, what)
    }

    fn print(&mut self, time: u64, thread: u32, what: What) -> Result<(), OutputError> {
        if time < self.from {
            return Ok(());
        }
        self.release()?;
        let line = Line { log: self.log, time, thread, what };
        self.output.line(&line.shown(self.format))
    }
}
