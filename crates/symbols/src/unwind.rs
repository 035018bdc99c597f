//! Call stacks.
//!
//! ```text
//! cfi       the tables by which compilers tell how to find the caller at each instruction
//! guess     what is done where there are none
//! inlining  the functions that stand for one address
//! ```
//!
//! Unwinding goes from frame to frame: the tables of the file that has the code say where the caller's registers
//! are. That is exact at every instruction, in prologues and epilogues and through handlers of signals. Registers that a
//! call may change are not known in outer frames, and say so. Where the tables end, the frame pointer and what looks
//! like a return address are taken, and frames from there on are marked as guessed.
//!
//! What a frame executes when it is resumed is its `pc`; which call it is in, the address before that tells: behind a
//! call that never returns, the next address may be of another line or function. Below the handler of a signal there is
//! no call, and `pc` itself counts.
//!
//! Invariants: no stack makes this hang: the number of frames is bounded, and each is further up than the one before
//! unless a handler ran on a stack of its own, and none comes twice.

mod cfi;
mod guess;
mod inlining;

use std::collections::HashSet;
use std::sync::Arc;

pub(crate) use cfi::FrameTable;
pub(crate) use inlining::CodeFrames;

use crate::lines::Source;
use crate::machine::{Machine, register};
use crate::place::Module;
use crate::symbols::{LoadedModule, Symbols};

/// Frames that are worth looking at.
pub const DEPTH_LIMIT: usize = 10_000;

/// Numbers that DWARF has for registers.
pub(crate) const RBX: u16 = 3;
pub(crate) const RBP: u16 = 6;
pub(crate) const RSP: u16 = 7;
pub(crate) const R12: u16 = 12;
pub(crate) const R15: u16 = 15;
pub(crate) const RIP: u16 = 16;

/// The registers of a frame by their DWARF numbers; those that are not known are missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameRegisters([Option<u64>; 17]);

impl FrameRegisters {
    /// Those of a machine.
    pub fn of(machine: &dyn Machine) -> FrameRegisters {
        let mut registers = FrameRegisters::default();
        for number in 0..=RIP {
            registers.set(number, machine.register(number));
        }
        registers
    }

    /// A register.
    pub fn get(&self, number: u16) -> Option<u64> {
        self.0.get(usize::from(number)).copied().flatten()
    }

    pub(crate) fn set(&mut self, number: u16, value: Option<u64>) {
        if let Some(slot) = self.0.get_mut(usize::from(number)) {
            *slot = value;
        }
    }
}

/// A function that has not returned.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Where it goes on.
    pub pc: u64,
    /// The address that tells what it is doing: `pc`, or the call before it.
    pub lookup: u64,
    /// Where the caller's part of the stack begins, if that is known.
    pub cfa: Option<u64>,
    /// Its registers.
    pub registers: Arc<FrameRegisters>,
    /// The function.
    pub function: Option<Arc<str>>,
    /// The source line.
    pub source: Option<Source>,
    /// The file with its code.
    pub module: Option<Arc<Module>>,
    /// Its code stands in that of the next frame, with which it shares all registers.
    pub is_inlined: bool,
    /// It is what the kernel put there to call the handler of a signal.
    pub is_signal_frame: bool,
    /// It, or one before it, was found without a table that says where it is.
    pub is_guessed: bool,
    /// How many frames with a place of their own on the stack come before it.
    pub depth: usize,
    /// Of the frames that share its place on the stack, how many come before it.
    pub level: usize,
}

/// No system lets a program have code below.
const LOWEST_CODE: u64 = 0x1000;

/// Why a stack has no more frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackEnd {
    /// The last one was not called by any.
    Outermost,
    /// There are more than were asked for.
    Cut,
    /// What is on the stack cannot be right.
    Corrupt,
    /// Nothing says where the next one is.
    Unknown,
}

/// The functions that have not returned, innermost first.
#[derive(Clone, Debug)]
pub struct CallStack {
    /// All of them.
    pub frames: Vec<Frame>,
    /// Why there are no more.
    pub end: StackEnd,
}

/// A moment as a frame sees it: the memory of the moment, its own registers.
pub struct FrameMachine<'a> {
    frame: &'a Frame,
    machine: &'a dyn Machine,
}

impl Frame {
    /// This frame's view of the moment that it was unwound from.
    pub fn machine<'a>(&'a self, machine: &'a dyn Machine) -> FrameMachine<'a> {
        FrameMachine { frame: self, machine }
    }
}

impl Machine for FrameMachine<'_> {
    fn register(&self, number: u16) -> Option<u64> {
        match number {
            // Any call may change the flags.
            register::RFLAGS => (self.frame.depth == 0).then(|| self.machine.register(number))?,
            register::FS_BASE | register::GS_BASE => self.machine.register(number),
            _ => self.frame.registers.get(number),
        }
    }

    fn vector(&self, number: u16) -> Option<[u8; 16]> {
        // Any call may change them.
        (self.frame.depth == 0).then(|| self.machine.vector(number))?
    }

    fn fs_base(&self) -> Option<u64> {
        self.machine.fs_base()
    }

    fn read(&self, address: u64, buffer: &mut [u8]) -> bool {
        self.machine.read(address, buffer)
    }
}

/// A frame on the stack, whatever is inlined in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Physical {
    pub(crate) registers: FrameRegisters,
    pub(crate) pc: u64,
    /// It was entered from the handler of a signal, or it is the first: `pc` is no return address.
    pub(crate) is_interrupted: bool,
    pub(crate) is_guessed: bool,
}

impl Physical {
    pub(crate) fn lookup(&self) -> u64 {
        if self.is_interrupted { self.pc } else { self.pc.wrapping_sub(1) }
    }
}

/// The way from a frame to its caller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) cfa: u64,
    /// None if there is no caller.
    pub(crate) caller: Option<FrameRegisters>,
    pub(crate) is_signal_frame: bool,
    pub(crate) is_guess: bool,
}

impl Symbols {
    /// The call stack of a thread at a moment of a log, of at most `limit` frames ([`DEPTH_LIMIT`]).
    pub fn unwind(&self, log: u64, time: u64, machine: &dyn Machine, limit: usize) -> CallStack {
        let mut stack = CallStack { frames: Vec::new(), end: StackEnd::Unknown };
        let registers = FrameRegisters::of(machine);
        let Some(pc) = registers.get(RIP) else { return stack };
        let mut frame = Physical { registers, pc, is_interrupted: true, is_guessed: false };
        let mut seen = HashSet::new();
        for depth in 0.. {
            let module = self.module_at(log, time, frame.lookup());
            let step = self.step(log, time, module.as_ref(), &frame, machine, depth == 0);
            push_frames(&mut stack.frames, &frame, depth, module.as_ref(), step.as_ref());
            if stack.frames.len() >= limit {
                stack.frames.truncate(limit);
                stack.end = StackEnd::Cut;
                return stack;
            }
            let Some(step) = step else { return stack };
            let next = step.caller.and_then(|registers| Some((registers, registers.get(RIP)?)));
            // A function that is entered without a call finds the number of arguments where others have a return address.
            let Some((registers, pc)) = next.filter(|&(_, pc)| pc >= LOWEST_CODE) else {
                stack.end = StackEnd::Outermost;
                return stack;
            };
            let goes_up = frame.registers.get(RSP).is_none_or(|sp| sp < step.cfa);
            if !goes_up && !step.is_signal_frame || !seen.insert((pc, step.cfa)) {
                stack.end = StackEnd::Corrupt;
                return stack;
            }
            frame = Physical {
                registers,
                pc,
                is_interrupted: step.is_signal_frame,
                is_guessed: frame.is_guessed || step.is_guess,
            };
        }
        stack
    }

    fn step(
        &self,
        log: u64,
        time: u64,
        module: Option<&LoadedModule>,
        frame: &Physical,
        machine: &dyn Machine,
        is_innermost: bool,
    ) -> Option<Step> {
        let by_table = module.and_then(|module| {
            let table = module.file.as_ref()?.frame_table();
            table.step(module.bias, frame, machine)
        });
        by_table.or_else(|| {
            let is_code = |address| {
                let module = self.module_at(log, time, address);
                module.is_none_or(|module| {
                    let file = module.file.as_ref();
                    file.is_none_or(|file| file.is_code(module.file_address(address)))
                })
            };
            guess::step(module, frame, machine, is_innermost, is_code)
        })
    }
}

/// Adds what is shown for a frame: first what is inlined in it, then its own function.
fn push_frames(
    frames: &mut Vec<Frame>,
    physical: &Physical,
    depth: usize,
    module: Option<&LoadedModule>,
    step: Option<&Step>,
) {
    let frame = Frame {
        pc: physical.pc,
        lookup: physical.lookup(),
        cfa: step.map(|step| step.cfa),
        registers: Arc::new(physical.registers),
        function: None,
        source: None,
        module: module.map(|module| Arc::clone(&module.module)),
        is_inlined: false,
        is_signal_frame: step.is_some_and(|step| step.is_signal_frame),
        is_guessed: physical.is_guessed,
        depth,
        level: 0,
    };
    let Some((module, file)) = module.and_then(|module| Some((module, module.file.as_ref()?)))
    else {
        frames.push(frame);
        return;
    };
    let shown = file.code_frames(module.file_address(physical.lookup()));
    frames.extend(shown.iter().enumerate().map(|(level, shown)| Frame {
        level,
        function: shown.function.clone(),
        source: shown.source.clone(),
        is_inlined: shown.is_inlined,
        ..frame.clone()
    }));
}
