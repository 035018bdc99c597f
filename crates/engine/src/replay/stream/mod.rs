//! The stream: what blocks do, in the order in which they do it, for an owner who wants all of it.
//!
//! Guest code writes records ([`weave`]) straight into a file that it shares with the owner. The file has two halves:
//! while the owner reads one, the other is filled. Nothing checks in guest code whether there is room; the clock's
//! deadline does, because no instruction leaves more than so many bytes.

pub mod weave;

use super::{memory, socket, summary};
use crate::cache::CodeCache;
use crate::clock::{self, time};
use crate::context::{Context, ExitKind, Gpr, Registers};
use crate::lock::Lock;
use crate::record::access::ranges_of;
use crate::record::weave::Site;
use crate::sys::{self, Result};
use crate::translate::{MAX_INSTRUCTIONS, decoder_options};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use iced_x86::{Decoder, Instruction, Mnemonic, OpKind};
use retro_abi::replay::{
    Access, Header, LOOSE, MAX_PAYLOAD, MOST_BLOCKS, access, ask, detail, ending, mark, tell,
    transfer,
};
use weave::{MOST_PER_INSTRUCTION, Partial, Tracer};

/// Below this much room the half is handed over: a block must fit.
const LOW: u64 = MAX_INSTRUCTIONS as u64 * MOST_PER_INSTRUCTION + 4096;

/// Bytes of a loose record in front of what was accessed.
const LOOSE_HEAD: u64 = 24;

struct Buffer {
    base: u64,
    /// Bytes of a half.
    half: u64,
    second: bool,
    /// Time of the first record in this half.
    since: u64,
    /// What is streamed.
    detail: u64,
    /// The most that an instruction of any block translated so far leaves, on average over the block.
    most: u64,
    /// Halves that the owner has not read yet.
    outstanding: u32,
    /// An instruction that the engine looks at before and after.
    loose: Option<(Instruction, Registers)>,
    /// What it writes.
    writes: Vec<(u64, u64)>,
}

static BUFFER: Lock<Buffer> = Lock::new(Buffer {
    base: 0,
    half: 0,
    second: false,
    since: 0,
    detail: 0,
    most: size_of::<u64>() as u64,
    outstanding: 0,
    loose: None,
    writes: Vec::new(),
});

static ACTIVE: AtomicBool = AtomicBool::new(false);

/// Whether anything is streamed.
pub fn active() -> bool {
    ACTIVE.load(Ordering::Relaxed)
}

impl Buffer {
    fn start(&self) -> u64 {
        self.base + if self.second { self.half } else { 0 }
    }

    fn room(&self) -> u64 {
        (self.start() + self.half).saturating_sub(clock::cursor())
    }

    /// For how many instructions there is room.
    fn instructions(&self) -> u64 {
        self.room() / self.most
    }

    /// Instructions of a block may leave so much each, on average.
    fn expect(&mut self, most: u64) {
        if most > self.most {
            self.most = most;
            let now = time();
            clock::set_deadline(now, clock::deadline().min(now + self.instructions()));
        }
    }

    /// Lets the owner read what there is, and goes on in the other half.
    fn hand_over(&mut self) {
        let len = clock::cursor() - self.start();
        if len > 0 {
            while self.outstanding > 0 {
                self.wait();
            }
            let offset = self.start() - self.base;
            socket::send(Header::new(tell::STREAM, [offset, len, self.since]), &[]);
            self.outstanding += 1;
            self.second = !self.second;
        }
        clock::set_cursor(self.start());
        self.since = time();
    }

    fn wait(&mut self) {
        static ANSWER: Lock<[u8; MAX_PAYLOAD]> = Lock::new([0; MAX_PAYLOAD]);
        let Some(message) = socket::receive_soon(&mut ANSWER.lock()) else { sys::exit_group(1) };
        if message.header.kind() != ask::GO_ON {
            sys::complain(format_args!("the owner of this replay does not read its stream"));
            sys::exit_group(125);
        }
        self.outstanding -= 1;
    }

    /// A record of memory that no description of a block covers.
    fn append(&mut self, kind: u8, address: u64, len: u64) {
        const MOST: u64 = 64 << 10;
        let mut done = 0;
        while done < len {
            let piece = (len - done).min(MOST);
            let size = LOOSE_HEAD + piece.next_multiple_of(8);
            if self.room() < size + LOW {
                self.hand_over();
            }
            let at = clock::cursor();
            // The instruction is the last, and only, one of the block before.
            let head = LOOSE as u64 | (kind as u64) << 32 | 1 << 48;
            // SAFETY: there is room in the shared file's mapping, and nobody else writes there.
            let record = unsafe { core::slice::from_raw_parts_mut(at as *mut u8, size as usize) };
            record[..8].copy_from_slice(&head.to_le_bytes());
            record[8..16].copy_from_slice(&(address + done).to_le_bytes());
            record[16..24].copy_from_slice(&piece.to_le_bytes());
            crate::guest_memory::read_partial(address + done, &mut record[24..24 + piece as usize]);
            clock::set_cursor(at + size);
            done += piece;
        }
    }
}

/// Another thread runs, for a summary.
pub fn switched(thread: u32) {
    if !active() {
        return;
    }
    let mut buffer = BUFFER.lock();
    if buffer.detail & detail::SUMMARY == 0 {
        return;
    }
    if buffer.room() < LOW {
        buffer.hand_over();
    }
    let at = clock::cursor();
    let word = (thread as u64) << transfer::THREAD_SHIFT | transfer::SWITCH;
    // SAFETY: there is room in the shared file's mapping, and nobody else writes there.
    unsafe { (at as *mut u64).write_unaligned(word) };
    clock::set_cursor(at + size_of::<u64>() as u64);
}

/// Takes the file to write to.
pub fn attach(file: i32, size: u64) -> Result<()> {
    let mut buffer = BUFFER.lock();
    let half = (size / 2) & !0xfff;
    if half < 2 * LOW {
        return Err(sys::Errno::EINVAL);
    }
    buffer.base = sys::map_shared(2 * half, file)?;
    buffer.half = half;
    sys::close(file);
    Ok(())
}

/// A copy of the process has no file: it is another's.
pub fn detach() {
    let mut buffer = BUFFER.lock();
    if buffer.base != 0 {
        // SAFETY: the mapping is this process's own, and no cursor points there while the guest stands still.
        let _ = unsafe { sys::munmap(buffer.base, 2 * buffer.half) };
        buffer.base = 0;
        buffer.second = false;
        // There is nothing to hand over.
        clock::set_cursor(0);
    }
}

/// Begins to stream, or not to; says whether code must be translated anew, or `None` if there is no file.
pub fn begin(detail: u64) -> Option<bool> {
    let mut buffer = BUFFER.lock();
    if detail != 0 && buffer.base == 0 {
        return None;
    }
    let changed = core::mem::replace(&mut buffer.detail, detail) != detail;
    ACTIVE.store(detail != 0, Ordering::Relaxed);
    if detail != 0 {
        clock::set_cursor(buffer.start());
        buffer.since = time();
    }
    Some(changed)
}

/// Nothing is streamed until it begins again; code stays as it is.
pub fn pause() {
    ACTIVE.store(false, Ordering::Relaxed);
}

/// Hands everything over and waits until it was read.
pub fn end() {
    if active() {
        let mut buffer = BUFFER.lock();
        buffer.hand_over();
        while buffer.outstanding > 0 {
            buffer.wait();
        }
    }
}

/// Whether an address lies where records go.
pub fn contains(address: u64) -> bool {
    let buffer = BUFFER.lock();
    (buffer.base..buffer.base + 2 * buffer.half).contains(&address)
}

/// The owner has read a half while something else was asked for.
pub fn was_read() {
    let mut buffer = BUFFER.lock();
    buffer.outstanding = buffer.outstanding.saturating_sub(1);
}

/// For how many instructions there is room, at least as many as a block has.
pub fn room() -> u64 {
    let mut buffer = BUFFER.lock();
    if buffer.room() < LOW {
        buffer.hand_over();
    }
    buffer.instructions()
}

/// Tells the owner about the block that was just translated, and about what it leaves if it is left early.
pub fn describe(cache: &mut CodeCache, block: u32) {
    if !active() {
        return;
    }
    let (pc, instructions) = (cache.blocks[block].pc, cache.blocks[block].instructions() as usize);
    let tracer = cache.tracer();
    let whole = Partial { instructions, accesses: tracer.accesses.len(), len: tracer.len };
    send_description(tracer, pc, tracer.ending, &whole, 0);
    for index in 0..tracer.partial.len() {
        let partial = tracer.partial[index];
        send_description(tracer, pc, ending::JUMP, &partial, index + 1);
    }
    tracer.next += 1 + tracer.partial.len() as u32;
}

fn send_description(tracer: &Tracer, pc: u64, ending: u64, part: &Partial, index: usize) {
    let mut payload = Vec::with_capacity((part.accesses + 4) * Access::SIZE);
    for access in &tracer.accesses[..part.accesses] {
        payload.extend_from_slice(&access.to_bytes());
    }
    payload.extend_from_slice(&tracer.lengths[..part.instructions]);
    BUFFER.lock().expect((part.len as u64).div_ceil(part.instructions as u64));
    let number = tracer.next as u64 + index as u64;
    let (instructions, bytes) = (part.instructions as u64, part.len as u64);
    let words = [number, pc, instructions, ending, bytes, time(), index as u64];
    let head = Header::new(payload.len() as u64, words);
    socket::gather(tell::BLOCK, &[&head.to_bytes(), &payload]);
}

/// All blocks are gone: what they have left is handed over, and numbers start over before they run out.
pub fn flushed(cache: &mut CodeCache) {
    if active() && cache.tracer().next > MOST_BLOCKS / 2 {
        BUFFER.lock().hand_over();
        summary::send_counts(cache.tracer().next);
        cache.tracer().next = 0;
    }
}

/// Whether there are so many blocks that they must go.
pub fn is_full(cache: &mut CodeCache) -> bool {
    cache.tracer().next > MOST_BLOCKS - 2 * MAX_INSTRUCTIONS as u32
}

// ---- instructions that the engine looks at ----

/// An instruction is about to be executed, or has been, whose accesses only the engine can tell.
pub fn access(context: &Context, kind: ExitKind, site: &Site) {
    let mut buffer = BUFFER.lock();
    if kind == ExitKind::BeforeAccess {
        let guest = decode(site.pc);
        buffer.writes.clear();
        buffer.loose = Some((guest, context.registers));
        if let Some(ranges) = string_ranges(&guest, &context.registers, None) {
            buffer.take(ranges);
        } else if !guest.is_string_instruction() {
            let ranges = ranges_of(context, &guest);
            buffer.take(ranges.iter().map(|r| (r.address, r.len as u64, r.written)));
            buffer.take(
                ranges
                    .iter()
                    .filter(|r| r.written && r.read)
                    .map(|r| (r.address, r.len as u64, false)),
            );
        }
        return;
    }
    if let Some((guest, before)) = buffer.loose.take()
        && let Some(ranges) = string_ranges(&guest, &before, Some(&context.registers))
    {
        buffer.take(ranges);
    }
    let summarises = buffer.detail & detail::SUMMARY != 0;
    for (address, len) in core::mem::take(&mut buffer.writes) {
        if summarises {
            memory::mark(address, len, mark::WRITTEN);
        } else {
            buffer.append(access::WRITE, address, len);
        }
    }
}

impl Buffer {
    /// Notes what is written, and streams what is read.
    fn take(&mut self, ranges: impl IntoIterator<Item = (u64, u64, bool)>) {
        for (address, len, written) in ranges {
            if written && self.detail & detail::WRITES != 0 {
                self.writes.push((address, len));
            } else if !written && self.detail & detail::READS != 0 {
                self.append(access::READ, address, len);
            }
        }
    }
}

fn decode(pc: u64) -> Instruction {
    let mut bytes = [0u8; 15];
    let len = super::fetch(pc, &mut bytes);
    Decoder::with_ip(64, &bytes[..len], pc, decoder_options()).decode()
}

/// Address, length, and whether it is written, of what a string instruction accesses. Instructions that may end
/// early are known only by the registers they leave `after`; the others only before. `None` at the wrong moment.
fn string_ranges(
    guest: &Instruction,
    before: &Registers,
    after: Option<&Registers>,
) -> Option<impl Iterator<Item = (u64, u64, bool)>> {
    use Mnemonic::*;
    const DIRECTION: u64 = 0x400;
    let width = match guest.mnemonic() {
        Movsb | Stosb | Lodsb | Cmpsb | Scasb => 1,
        Movsw | Stosw | Lodsw | Cmpsw | Scasw => 2,
        Movsd | Stosd | Lodsd | Cmpsd | Scasd => 4,
        Movsq | Stosq | Lodsq | Cmpsq | Scasq => 8,
        _ => return None,
    };
    if !guest.is_string_instruction() {
        return None;
    }
    let ends_early =
        matches!(guest.mnemonic(), Cmpsb | Cmpsw | Cmpsd | Cmpsq | Scasb | Scasw | Scasd | Scasq);
    if ends_early != after.is_some() {
        return None;
    }
    let repeated = guest.has_rep_prefix() || guest.has_repne_prefix();
    let narrow = (0..guest.op_count()).any(|i| {
        matches!(
            guest.op_kind(i),
            OpKind::MemorySegESI | OpKind::MemoryESEDI | OpKind::MemorySegEDI
        )
    });
    let mask = if narrow { 0xffff_ffff } else { u64::MAX };
    let left = after.map_or(0, |after| after.get(Gpr::Rcx) & mask);
    let count = if repeated { (before.get(Gpr::Rcx) & mask).wrapping_sub(left) } else { 1 };
    let len = count.saturating_mul(width);
    let first = |register: Gpr| {
        let at = before.get(register) & mask;
        if before.rflags & DIRECTION == 0 { at } else { at.wrapping_add(width).wrapping_sub(len) }
    };
    let (source, target) = (first(Gpr::Rsi), first(Gpr::Rdi));
    let (reads_source, target_access) = match guest.mnemonic() {
        Movsb | Movsw | Movsd | Movsq => (true, Some(true)),
        Stosb | Stosw | Stosd | Stosq => (false, Some(true)),
        Lodsb | Lodsw | Lodsd | Lodsq => (true, None),
        Cmpsb | Cmpsw | Cmpsd | Cmpsq => (true, Some(false)),
        _ => (false, Some(false)),
    };
    let source = (reads_source && len > 0).then_some((source, len, false));
    let target = target_access.filter(|_| len > 0).map(|written| (target, len, written));
    Some(source.into_iter().chain(target))
}

/// Shares what is streamed with the translator.
pub fn instruct(cache: &mut CodeCache) {
    cache.tracer().detail = BUFFER.lock().detail;
}
