//! The events of a log and their bytes: what the engine writes and every reader decodes.
//!
//! A chunk is a sequence of events. Decoding needs nothing but the chunk and its base time; times are
//! differences to the event before, the addresses of loads are differences to where the one before ended.
//! docs/format.md draws every byte.
//!
//! ```text
//! 1qlllttt [dt] [address] [length] bytes     Load: q = follows the last, l = length, t = small dt
//! 0kkkkkkk dt fields                         everything else: k = kind
//! ```
//!
//! Numbers are LEB128; signed differences are zigzag.
//!
//! Invariants: decoding never panics and never reads beyond the chunk, whatever the bytes; every byte string
//! is a slice of the chunk, so that a hostile length costs no memory.

/// Kinds of events, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Memory that a load found changed by others.
    Load = 0,
    /// Memory that the kernel or the engine wrote for the guest.
    Write = 1,
    /// A system call begins.
    SyscallEnter = 2,
    /// A system call is over.
    SyscallExit = 3,
    /// Registers that took values from outside.
    Registers = 4,
    /// Vector and x87 state that took values from outside.
    Vectors = 5,
    /// A signal is delivered to a handler, or ends the process.
    Signal = 6,
    /// The address space changes.
    Map = 7,
    /// A thread begins.
    ThreadStart = 8,
    /// Another thread runs from here.
    ThreadSwitch = 9,
    /// A thread ends.
    ThreadEnd = 10,
    /// An interval begins: memory counts as zero from here.
    Interval = 11,
    /// Registers of a thread at the start of an interval.
    ThreadState = 12,
    /// A child process was made.
    Fork = 13,
    /// The process begins.
    Start = 14,
    /// The process ends.
    End = 15,
    /// Code bytes about to be executed (stream `Code`).
    Code = 16,
    /// Identity of a mapped file (stream `Code`).
    File = 17,
    /// Code that a forked process has from its parent (stream `Code`).
    Inherit = 18,
    /// What memory must hold.
    MemorySum = 19,
}

impl Kind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Kind; 20] = [
        Kind::Load,
        Kind::Write,
        Kind::SyscallEnter,
        Kind::SyscallExit,
        Kind::Registers,
        Kind::Vectors,
        Kind::Signal,
        Kind::Map,
        Kind::ThreadStart,
        Kind::ThreadSwitch,
        Kind::ThreadEnd,
        Kind::Interval,
        Kind::ThreadState,
        Kind::Fork,
        Kind::Start,
        Kind::End,
        Kind::Code,
        Kind::File,
        Kind::Inherit,
        Kind::MemorySum,
    ];

    /// Its name in texts.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Load => "load",
            Kind::Write => "write",
            Kind::SyscallEnter => "syscall-enter",
            Kind::SyscallExit => "syscall-exit",
            Kind::Registers => "registers",
            Kind::Vectors => "vectors",
            Kind::Signal => "signal",
            Kind::Map => "map",
            Kind::ThreadStart => "thread-start",
            Kind::ThreadSwitch => "thread-switch",
            Kind::ThreadEnd => "thread-end",
            Kind::Interval => "interval",
            Kind::ThreadState => "thread-state",
            Kind::Fork => "fork",
            Kind::Start => "start",
            Kind::End => "end",
            Kind::Code => "code",
            Kind::File => "file",
            Kind::Inherit => "inherit",
            Kind::MemorySum => "memory-sum",
        }
    }
}

const _: () = {
    let mut number = 0;
    while number < Kind::ALL.len() {
        assert!(Kind::ALL[number] as usize == number);
        number += 1;
    }
};

/// How the address space changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum MapKind {
    /// New memory; whatever was there is gone, and the new counts as zero.
    Map = 0,
    /// Memory goes away.
    Unmap = 1,
    /// Other rights, same contents.
    Protect = 2,
    /// Contents were dropped and count as zero (`madvise`).
    Discard = 3,
    /// `offset` bytes lower or higher in the address space lay what is here now (`mremap`): `offset` is the
    /// old address; contents come along.
    Move = 4,
}

impl MapKind {
    /// From its number.
    pub fn from_number(number: u64) -> Option<MapKind> {
        use MapKind::*;
        [Map, Unmap, Protect, Discard, Move].into_iter().find(|&k| k as u64 == number)
    }
}

/// Bits of [`Event::Registers`] beyond the sixteen general-purpose registers in encoding order.
pub mod register {
    /// Instruction pointer.
    pub const RIP: u32 = 16;
    /// Flags.
    pub const RFLAGS: u32 = 17;
    /// FS base.
    pub const FS_BASE: u32 = 18;
    /// GS base as the guest sees it.
    pub const GS_BASE: u32 = 19;
    /// How many there are.
    pub const COUNT: usize = 20;
    /// Names in texts.
    pub const NAMES: [&str; COUNT] = [
        "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12",
        "r13", "r14", "r15", "rip", "rflags", "fs_base", "gs_base",
    ];
}

/// A set of registers with values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegisterSet {
    /// Which: bit `n` stands for register `n`.
    pub mask: u32,
    /// The values, by register number; those not in `mask` are zero.
    pub values: [u64; register::COUNT],
}

impl RegisterSet {
    /// Adds a register.
    pub fn set(&mut self, register: u32, value: u64) {
        self.mask |= 1 << register;
        self.values[register as usize] = value;
    }
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the variants' texts tell of their fields")]
pub enum Event<'a> {
    /// Before the instruction at this time executes, memory takes these bytes.
    Load { address: u64, bytes: &'a [u8] },
    /// At this time, memory takes these bytes: an effect of the system call or signal around it.
    Write { address: u64, bytes: &'a [u8] },
    /// The instruction before this time was a system call. `check` is [`check_sum`] of the registers.
    SyscallEnter { number: u64, args: [u64; 6], check: u32 },
    /// What the system call returned in rax. Effects follow as [`Event::Write`], [`Event::Registers`],
    /// [`Event::Vectors`] and [`Event::Map`].
    SyscallExit { result: u64 },
    /// Registers take these values.
    Registers(RegisterSet),
    /// Vector state takes these values: an image of `xsave` in standard form.
    Vectors { image: &'a [u8] },
    /// A signal. `info` is `siginfo_t` without trailing zeroes. With `handler` 0 it ends the process.
    /// The frame and the registers that it changes follow as events.
    Signal { number: u32, synchronous: bool, handler: u64, check: u32, info: &'a [u8] },
    /// The address space changes. `file` is the number of an [`Event::File`] plus one, 0 for none.
    Map { kind: MapKind, start: u64, len: u64, prot: u32, flags: u32, file: u64, offset: u64 },
    /// A thread begins; its registers follow in [`Event::ThreadState`].
    ThreadStart { thread: u32 },
    /// This thread runs from here.
    ThreadSwitch { thread: u32, check: u32 },
    /// A thread ends.
    ThreadEnd { thread: u32, code: u32 },
    /// An interval begins: memory counts as zero. The states of all threads follow.
    Interval { number: u64, running: u32, threads: u32 },
    /// State of a thread; in a system call, `in_syscall` is its number plus one.
    ThreadState { thread: u32, in_syscall: u32, registers: RegisterSet, image: &'a [u8] },
    /// A child process was made. `log` is the number of its log plus one, 0 if it has none.
    Fork { pid: u32, log: u64 },
    /// The process begins. `arguments` and `environment` are strings that end in NUL.
    Start {
        pid: u32,
        parent: u32,
        origin: u8,
        seconds: u64,
        nanoseconds: u32,
        path: &'a [u8],
        arguments: &'a [u8],
        environment: &'a [u8],
        directory: &'a [u8],
    },
    /// The process ends as `how` says (see [`crate::channel::ended`]).
    End { how: u32, code: u32 },
    /// These bytes are what is executed at `address` from this time on.
    Code { address: u64, bytes: &'a [u8] },
    /// A file that is mapped.
    File {
        number: u64,
        device: u64,
        inode: u64,
        size: u64,
        modified_seconds: i64,
        modified_nanoseconds: u32,
        build_id: &'a [u8],
        path: &'a [u8],
    },
    /// The code of the log with this number, as of that time of it, is here from the start.
    Inherit { log: u64, time: u64 },
    /// At this time the memory of this range, as the log and the guest's own stores made it, has this sum (see
    /// [`crate::memory_sum`]). Every interval that is cut ends with one, maybe of no memory at all, so that a replay knows how
    /// far the interval goes.
    MemorySum { start: u64, len: u64, sum: u64 },
}

impl Event<'_> {
    /// Its kind.
    pub fn kind(&self) -> Kind {
        match self {
            Event::Load { .. } => Kind::Load,
            Event::Write { .. } => Kind::Write,
            Event::SyscallEnter { .. } => Kind::SyscallEnter,
            Event::SyscallExit { .. } => Kind::SyscallExit,
            Event::Registers(_) => Kind::Registers,
            Event::Vectors { .. } => Kind::Vectors,
            Event::Signal { .. } => Kind::Signal,
            Event::Map { .. } => Kind::Map,
            Event::ThreadStart { .. } => Kind::ThreadStart,
            Event::ThreadSwitch { .. } => Kind::ThreadSwitch,
            Event::ThreadEnd { .. } => Kind::ThreadEnd,
            Event::Interval { .. } => Kind::Interval,
            Event::ThreadState { .. } => Kind::ThreadState,
            Event::Fork { .. } => Kind::Fork,
            Event::Start { .. } => Kind::Start,
            Event::End { .. } => Kind::End,
            Event::Code { .. } => Kind::Code,
            Event::File { .. } => Kind::File,
            Event::Inherit { .. } => Kind::Inherit,
            Event::MemorySum { .. } => Kind::MemorySum,
        }
    }
}

/// Longest byte string in an event; longer ones are split (memory) or cut (texts).
pub const MAX_BYTES: usize = 32 << 10;

/// Room that an event takes beyond its byte strings, at most.
pub const MAX_FIXED: usize = 320;

/// Mixes register values into the number that lets a replay notice a divergence.
pub fn check_sum(values: &[u64]) -> u32 {
    let mut sum = 0x9e37_79b9_7f4a_7c15u64;
    for &value in values {
        sum = (sum ^ value).wrapping_mul(0xff51_afd7_ed55_8ccd);
        sum ^= sum >> 32;
    }
    sum as u32
}

/// What the next event's bytes are relative to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relative {
    /// Time of the event before.
    pub time: u64,
    /// End of the last load.
    pub load_end: u64,
}

impl Relative {
    /// At the start of a chunk.
    pub fn at(base_time: u64) -> Relative {
        Relative { time: base_time, load_end: 0 }
    }
}

/// Encodes into a slice that is known to be long enough.
pub struct Encoder<'a> {
    out: &'a mut [u8],
    len: usize,
}

/// Lengths of loads that the first byte can say.
const LOAD_LENGTHS: [usize; 8] = [0, 1, 2, 4, 8, 16, 32, 64];

impl<'a> Encoder<'a> {
    /// Writes from the start of `out`, which has room for [`MAX_FIXED`] bytes and all byte strings.
    pub fn new(out: &'a mut [u8]) -> Encoder<'a> {
        Encoder { out, len: 0 }
    }

    fn byte(&mut self, byte: u8) {
        self.out[self.len] = byte;
        self.len += 1;
    }

    fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.byte(value as u8 | 0x80);
            value >>= 7;
        }
        self.byte(value as u8);
    }

    fn signed(&mut self, value: i64) {
        self.number(((value << 1) ^ (value >> 63)) as u64);
    }

    fn raw(&mut self, bytes: &[u8]) {
        self.out[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.raw(bytes);
    }

    fn fixed32(&mut self, value: u32) {
        self.raw(&value.to_le_bytes());
    }

    fn fixed64(&mut self, value: u64) {
        self.raw(&value.to_le_bytes());
    }

    fn registers(&mut self, set: &RegisterSet) {
        self.number(set.mask as u64);
        for (register, &value) in set.values.iter().enumerate() {
            if set.mask & 1 << register != 0 {
                self.number(value);
            }
        }
    }

    fn load(&mut self, dt: u64, address: u64, bytes: &[u8], relative: &mut Relative) {
        let follows = address == relative.load_end;
        let code = LOAD_LENGTHS.iter().skip(1).position(|&l| l == bytes.len());
        let code = code.map_or(0, |position| position + 1) as u8;
        let small = dt.min(7) as u8;
        self.byte(0x80 | (follows as u8) << 6 | code << 3 | small);
        if small == 7 {
            self.number(dt - 7);
        }
        if !follows {
            self.signed(address.wrapping_sub(relative.load_end) as i64);
        }
        if code == 0 {
            self.number(bytes.len() as u64);
        }
        self.raw(bytes);
        relative.load_end = address.wrapping_add(bytes.len() as u64);
    }

    /// Encodes one event; returns its length.
    pub fn event(mut self, time: u64, event: &Event, relative: &mut Relative) -> usize {
        let dt = time.wrapping_sub(relative.time);
        relative.time = time;
        if let Event::Load { address, bytes } = *event {
            self.load(dt, address, bytes, relative);
            return self.len;
        }
        self.byte(event.kind() as u8);
        self.number(dt);
        match *event {
            Event::Load { .. } => {}
            Event::Write { address, bytes } | Event::Code { address, bytes } => {
                self.number(address);
                self.bytes(bytes);
            }
            Event::SyscallEnter { number, args, check } => {
                self.number(number);
                args.iter().for_each(|&arg| self.number(arg));
                self.fixed32(check);
            }
            Event::SyscallExit { result } => self.signed(result as i64),
            Event::Registers(ref set) => self.registers(set),
            Event::Vectors { image } => self.bytes(image),
            Event::Signal { number, synchronous, handler, check, info } => {
                self.number((number as u64) << 1 | synchronous as u64);
                self.number(handler);
                self.fixed32(check);
                self.bytes(info);
            }
            Event::Map { kind, start, len, prot, flags, file, offset } => {
                self.byte(kind as u8);
                for value in [start, len, prot as u64, flags as u64, file, offset] {
                    self.number(value);
                }
            }
            Event::ThreadStart { thread } => self.number(thread as u64),
            Event::ThreadSwitch { thread, check } => {
                self.number(thread as u64);
                self.fixed32(check);
            }
            Event::ThreadEnd { thread, code } => {
                self.number(thread as u64);
                self.number(code as u64);
            }
            Event::Interval { number, running, threads } => {
                self.number(number);
                self.number(running as u64);
                self.number(threads as u64);
            }
            Event::ThreadState { thread, in_syscall, ref registers, image } => {
                self.number(thread as u64);
                self.number(in_syscall as u64);
                self.registers(registers);
                self.bytes(image);
            }
            Event::Fork { pid, log } => {
                self.number(pid as u64);
                self.number(log);
            }
            Event::Start {
                pid,
                parent,
                origin,
                seconds,
                nanoseconds,
                path,
                arguments,
                environment,
                directory,
            } => {
                self.number(pid as u64);
                self.number(parent as u64);
                self.byte(origin);
                self.number(seconds);
                self.number(nanoseconds as u64);
                for text in [path, arguments, environment, directory] {
                    self.bytes(text);
                }
            }
            Event::End { how, code } => {
                self.number(how as u64);
                self.number(code as u64);
            }
            Event::File {
                number,
                device,
                inode,
                size,
                modified_seconds,
                modified_nanoseconds,
                build_id,
                path,
            } => {
                for value in [number, device, inode, size] {
                    self.number(value);
                }
                self.signed(modified_seconds);
                self.number(modified_nanoseconds as u64);
                self.bytes(build_id);
                self.bytes(path);
            }
            Event::Inherit { log, time } => {
                self.number(log);
                self.number(time);
            }
            Event::MemorySum { start, len, sum } => {
                self.number(start);
                self.number(len);
                self.fixed64(sum);
            }
        }
        self.len
    }
}

/// Why bytes are not a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadEvent {
    /// Offset in the chunk of the event that makes no sense.
    pub offset: usize,
    /// What is wrong with it.
    pub reason: &'static str,
}

impl core::fmt::Display for BadEvent {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} at offset {}", self.reason, self.offset)
    }
}

impl core::error::Error for BadEvent {}

/// Decodes the events of a chunk, as `(time, event)`. Ends after the first error.
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    chunk: &'a [u8],
    at: usize,
    relative: Relative,
    failed: bool,
}

type Field<T> = Result<T, &'static str>;

const CUT_SHORT: &str = "an event is cut short";

impl<'a> Decoder<'a> {
    /// Reads a chunk.
    pub fn new(chunk: &'a [u8], base_time: u64) -> Decoder<'a> {
        Decoder { chunk, at: 0, relative: Relative::at(base_time), failed: false }
    }

    /// Offset of the next event.
    pub fn offset(&self) -> usize {
        self.at
    }

    /// Time of the last event.
    pub fn time(&self) -> u64 {
        self.relative.time
    }

    fn byte(&mut self) -> Field<u8> {
        let byte = *self.chunk.get(self.at).ok_or(CUT_SHORT)?;
        self.at += 1;
        Ok(byte)
    }

    fn number(&mut self) -> Field<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = (byte & 0x7f) as u64;
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err("a number is too long")
    }

    fn number32(&mut self) -> Field<u32> {
        u32::try_from(self.number()?).map_err(|_| "a number is too large")
    }

    fn signed(&mut self) -> Field<i64> {
        let value = self.number()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    fn raw(&mut self, len: usize) -> Field<&'a [u8]> {
        let end = self.at.checked_add(len).ok_or(CUT_SHORT)?;
        let bytes = self.chunk.get(self.at..end).ok_or(CUT_SHORT)?;
        self.at = end;
        Ok(bytes)
    }

    fn bytes(&mut self) -> Field<&'a [u8]> {
        let len = self.number()?;
        self.raw(usize::try_from(len).map_err(|_| CUT_SHORT)?)
    }

    fn fixed32(&mut self) -> Field<u32> {
        let bytes = self.raw(4)?;
        Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    fn fixed64(&mut self) -> Field<u64> {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(self.raw(8)?);
        Ok(u64::from_le_bytes(bytes))
    }

    fn registers(&mut self) -> Field<RegisterSet> {
        let mask = self.number32()?;
        if mask >> register::COUNT != 0 {
            return Err("an unknown register");
        }
        let mut set = RegisterSet::default();
        for register in 0..register::COUNT as u32 {
            if mask & 1 << register != 0 {
                let value = self.number()?;
                set.set(register, value);
            }
        }
        Ok(set)
    }

    fn load(&mut self, first: u8) -> Field<Event<'a>> {
        let small = (first & 7) as u64;
        let dt = if small == 7 { self.number()?.wrapping_add(7) } else { small };
        self.relative.time = self.relative.time.wrapping_add(dt);
        let difference = if first & 0x40 != 0 { 0 } else { self.signed()? };
        let address = self.relative.load_end.wrapping_add(difference as u64);
        let bytes = match LOAD_LENGTHS[(first >> 3 & 7) as usize] {
            0 => self.bytes()?,
            len => self.raw(len)?,
        };
        self.relative.load_end = address.wrapping_add(bytes.len() as u64);
        Ok(Event::Load { address, bytes })
    }

    fn event(&mut self) -> Field<Event<'a>> {
        let first = self.byte()?;
        if first & 0x80 != 0 {
            return self.load(first);
        }
        let kind = *Kind::ALL.get(first as usize).ok_or("an unknown kind of event")?;
        let dt = self.number()?;
        self.relative.time = self.relative.time.wrapping_add(dt);
        Ok(match kind {
            Kind::Load => return Err("a load in the wrong form"),
            Kind::Write => Event::Write { address: self.number()?, bytes: self.bytes()? },
            Kind::SyscallEnter => {
                let number = self.number()?;
                let mut args = [0; 6];
                for arg in &mut args {
                    *arg = self.number()?;
                }
                Event::SyscallEnter { number, args, check: self.fixed32()? }
            }
            Kind::SyscallExit => Event::SyscallExit { result: self.signed()? as u64 },
            Kind::Registers => Event::Registers(self.registers()?),
            Kind::Vectors => Event::Vectors { image: self.bytes()? },
            Kind::Signal => {
                let number = self.number32()?;
                Event::Signal {
                    number: number >> 1,
                    synchronous: number & 1 != 0,
                    handler: self.number()?,
                    check: self.fixed32()?,
                    info: self.bytes()?,
                }
            }
            Kind::Map => Event::Map {
                kind: MapKind::from_number(self.byte()? as u64)
                    .ok_or("an unknown kind of mapping")?,
                start: self.number()?,
                len: self.number()?,
                prot: self.number32()?,
                flags: self.number32()?,
                file: self.number()?,
                offset: self.number()?,
            },
            Kind::ThreadStart => Event::ThreadStart { thread: self.number32()? },
            Kind::ThreadSwitch => {
                Event::ThreadSwitch { thread: self.number32()?, check: self.fixed32()? }
            }
            Kind::ThreadEnd => {
                Event::ThreadEnd { thread: self.number32()?, code: self.number32()? }
            }
            Kind::Interval => Event::Interval {
                number: self.number()?,
                running: self.number32()?,
                threads: self.number32()?,
            },
            Kind::ThreadState => Event::ThreadState {
                thread: self.number32()?,
                in_syscall: self.number32()?,
                registers: self.registers()?,
                image: self.bytes()?,
            },
            Kind::Fork => Event::Fork { pid: self.number32()?, log: self.number()? },
            Kind::Start => Event::Start {
                pid: self.number32()?,
                parent: self.number32()?,
                origin: self.byte()?,
                seconds: self.number()?,
                nanoseconds: self.number32()?,
                path: self.bytes()?,
                arguments: self.bytes()?,
                environment: self.bytes()?,
                directory: self.bytes()?,
            },
            Kind::End => Event::End { how: self.number32()?, code: self.number32()? },
            Kind::Code => Event::Code { address: self.number()?, bytes: self.bytes()? },
            Kind::File => Event::File {
                number: self.number()?,
                device: self.number()?,
                inode: self.number()?,
                size: self.number()?,
                modified_seconds: self.signed()?,
                modified_nanoseconds: self.number32()?,
                build_id: self.bytes()?,
                path: self.bytes()?,
            },
            Kind::Inherit => Event::Inherit { log: self.number()?, time: self.number()? },
            Kind::MemorySum => Event::MemorySum {
                start: self.number()?,
                len: self.number()?,
                sum: self.fixed64()?,
            },
        })
    }
}

impl<'a> Iterator for Decoder<'a> {
    type Item = Result<(u64, Event<'a>), BadEvent>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed || self.at == self.chunk.len() {
            return None;
        }
        let offset = self.at;
        Some(match self.event() {
            Ok(event) => Ok((self.relative.time, event)),
            Err(reason) => {
                self.failed = true;
                Err(BadEvent { offset, reason })
            }
        })
    }
}
