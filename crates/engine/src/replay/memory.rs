//! The guest's memory in a replay: as a whole, in pieces that are fetched when touched, or watched for changes.
//!
//! Plain, it is one mapping of zeroes that takes what the log and the guest write. *Lazy*, nothing of it can be
//! accessed at first; the fault on the first access to a piece asks the owner for its pages. *Marked*, a byte beside every
//! byte, where a recording has its shadow, tells whether it was written since the owner asked last; memory can be read only
//! at first, and the fault on the first store to a piece notes that its marks are worth a look. A piece that is written stays
//! writable until it has been left alone for a while: a fault takes longer than many looks at its marks.
//!
//! Invariants: all faults are resolved in the signal handler, before anybody sees them. What the handler needs is behind
//! a lock that is never held while guest memory is touched.

use super::{socket, stream};
use crate::lock::Lock;
use crate::sys::{self, Result};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use linux_raw_sys::general as c;
use retro_abi::layout::{GUEST_MIN, GUEST_RANGES, PAGE, SHADOW_DISTANCE};
use retro_abi::replay::{Header, MAX_PAYLOAD, PIECE, WRITTEN_SIZE, ask, begin, mark, tell};

/// When the kernel has no room for another mapping, this much is made accessible at once.
const LARGE_PIECE: u64 = 64 << 20;

const READ: u32 = c::PROT_READ;
const READ_WRITE: u32 = c::PROT_READ | c::PROT_WRITE;

/// Ranges that do not touch each other, by their start.
struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    fn contains(&self, address: u64) -> bool {
        self.0.range(..=address).next_back().is_some_and(|(_, &end)| address < end)
    }

    fn insert(&mut self, mut start: u64, mut end: u64) {
        while let Some((&other, &other_end)) = self.0.range(..=end).next_back()
            && other_end >= start
        {
            start = start.min(other);
            end = end.max(other_end);
            self.0.remove(&other);
        }
        self.0.insert(start, end);
    }
}

/// What happens to whole pages.
#[derive(Clone, Copy)]
enum Replaced {
    /// They have become zero.
    Cleared { start: u64, end: u64 },
    /// They have come from elsewhere.
    Moved { from: u64, to: u64, len: u64 },
}

/// Memory that may have marks.
#[derive(Clone, Copy)]
struct Writable {
    start: u64,
    end: u64,
    /// How often there were none.
    idle: u8,
}

impl Writable {
    fn new(start: u64, end: u64) -> Writable {
        Writable { start, end, idle: 0 }
    }
}

/// A piece without marks is looked at so often before it is watched again.
const PATIENCE: u8 = 8;

struct Pages {
    mapped: bool,
    lazy: bool,
    marked: bool,
    /// What was fetched, if lazy.
    present: Ranges,
    /// What can be written, if marked.
    changed: Vec<Writable>,
    /// What has become zero or lies elsewhere, if marked.
    replaced: Vec<Replaced>,
}

static PAGES: Lock<Pages> = Lock::new(Pages {
    mapped: false,
    lazy: false,
    marked: false,
    present: Ranges(BTreeMap::new()),
    changed: Vec::new(),
    replaced: Vec::new(),
});

/// Whether faults are to be looked at.
static WATCHED: AtomicBool = AtomicBool::new(false);

/// Whether there are marks.
static MARKED: AtomicBool = AtomicBool::new(false);

/// Whether memory holds what it should only where it was touched.
pub fn lazy() -> bool {
    WATCHED.load(Ordering::Relaxed) && PAGES.lock().lazy
}

/// Whether memory there belongs to the guest.
pub fn is_guest(start: u64, len: u64) -> bool {
    let Some(end) = start.checked_add(len) else { return false };
    GUEST_RANGES.iter().any(|&(first, last)| start >= first && end <= last)
}

/// Maps everything, with `flags` of [`begin`], or everything anew.
pub fn create(flags: u64) -> Result<()> {
    let mut pages = PAGES.lock();
    let replace = core::mem::replace(&mut pages.mapped, true);
    pages.present.0.clear();
    pages.changed.clear();
    pages.replaced.clear();
    pages.lazy = flags & begin::LAZY != 0;
    let had_marks = core::mem::replace(&mut pages.marked, flags & begin::MARK != 0);
    MARKED.store(pages.marked, Ordering::Relaxed);
    let prot = match (pages.lazy, pages.marked) {
        (true, _) => c::PROT_NONE,
        (_, true) => READ,
        _ => READ_WRITE,
    };
    WATCHED.store(prot != READ_WRITE, Ordering::Relaxed);
    for (start, end) in GUEST_RANGES {
        let fixed = if replace { c::MAP_FIXED } else { c::MAP_FIXED_NOREPLACE };
        let flags = c::MAP_PRIVATE | c::MAP_ANONYMOUS | c::MAP_NORESERVE | fixed;
        // SAFETY: replaces nothing, or the same mappings of guest memory, which no reference points to.
        unsafe { sys::mmap(start, end - start, prot, flags, -1, 0)? };
    }
    if pages.marked {
        super::summary::create_counters()?;
        map_marks(had_marks)?;
    }
    Ok(())
}

fn map_marks(replace: bool) -> Result<()> {
    for (start, end) in GUEST_RANGES {
        let first = (start + SHADOW_DISTANCE) & !(PAGE - 1);
        let last = (end + SHADOW_DISTANCE).next_multiple_of(PAGE);
        let fixed = if replace { c::MAP_FIXED } else { c::MAP_FIXED_NOREPLACE };
        let flags = c::MAP_PRIVATE | c::MAP_ANONYMOUS | c::MAP_NORESERVE | fixed;
        // SAFETY: replaces nothing, or the same marks.
        unsafe { sys::mmap(first, last - first, READ_WRITE, flags, -1, 0)? };
    }
    Ok(())
}

/// Marks memory of the guest, if it is marked at all.
pub fn mark(address: u64, len: u64, value: u8) {
    if MARKED.load(Ordering::Relaxed) && is_guest(address, len) {
        let marks = (address + SHADOW_DISTANCE) as *mut u8;
        // SAFETY: the marks of guest memory are mapped as a whole, and the guest does not run now.
        let marks = unsafe { core::slice::from_raw_parts_mut(marks, len as usize) };
        // What was written stays so, whatever comes from outside later.
        marks.iter_mut().for_each(|mark| *mark |= value);
    }
}

/// Makes memory accessible that was touched for the first time; false if that is not what the fault is about.
/// Called by the signal handler.
pub fn supply(address: u64, write: bool) -> bool {
    if !WATCHED.load(Ordering::Relaxed) || !is_guest(address, 1) {
        return false;
    }
    let mut pages = PAGES.lock();
    let absent = pages.lazy && !pages.present.contains(address);
    let first_store = write && pages.marked;
    if !absent && !first_store {
        return false;
    }
    let mut start = address & !(PIECE - 1);
    let mut end = start + PIECE;
    if protect(start, end, READ_WRITE).is_err() {
        start = address & !(LARGE_PIECE - 1);
        end = start + LARGE_PIECE;
        if protect(start.max(GUEST_MIN), end, READ_WRITE).is_err() {
            return false;
        }
        start = start.max(GUEST_MIN);
    }
    if pages.lazy {
        for piece in (start..end).step_by(PIECE as usize) {
            if !pages.present.contains(piece) {
                pages.fetch(piece);
            }
        }
        pages.present.insert(start, end);
    }
    if pages.marked {
        pages.changed.push(Writable::new(start, end));
    }
    true
}

fn protect(start: u64, end: u64, prot: u32) -> Result<()> {
    // SAFETY: guest memory, which no reference points to.
    unsafe { sys::mprotect(start, end - start, prot) }
}

impl Pages {
    /// Asks for a piece, which is accessible and zero.
    fn fetch(&mut self, piece: u64) {
        static ANSWER: Lock<[u8; MAX_PAYLOAD]> = Lock::new([0; MAX_PAYLOAD]);
        let mut payload = ANSWER.lock();
        socket::send(Header::new(tell::NEED, [piece]), &[]);
        loop {
            let Some(message) = socket::receive_soon(&mut payload) else { sys::exit_group(1) };
            let [kind, address, mask, ..] = message.header.0;
            match kind {
                ask::GO_ON => stream::was_read(),
                ask::PAGES if address == piece => {
                    return fill(piece, mask, &payload[..message.len]);
                }
                ask::PAGES => self.take(address, mask, &payload[..message.len]),
                _ => {
                    sys::complain(format_args!("the owner of this replay does not send pages"));
                    sys::exit_group(125);
                }
            }
        }
    }

    /// Takes a piece that nobody has asked for.
    fn take(&mut self, piece: u64, mask: u64, pages: &[u8]) {
        let wanted = self.lazy
            && piece.is_multiple_of(PIECE)
            && is_guest(piece, PIECE)
            && !self.present.contains(piece);
        if !wanted || protect(piece, piece + PIECE, READ_WRITE).is_err() {
            return;
        }
        fill(piece, mask, pages);
        self.present.insert(piece, piece + PIECE);
        if self.marked {
            self.changed.push(Writable::new(piece, piece + PIECE));
        }
    }
}

impl Pages {
    /// A range has other contents from here on: what its marks tell of values is over, what was written stays written.
    fn forget_values(&self, start: u64, end: u64) {
        /// More than this is looked for among what has been touched.
        const SHORT: u64 = 64 << 20;
        if end - start > SHORT {
            for range in self.changed.iter().filter(|range| range.start < end && start < range.end)
            {
                forget_values(range.start.max(start), range.end.min(end));
            }
            return;
        }
        // Marks that nobody has made take no memory, and should not.
        let (first, last) = (start + SHADOW_DISTANCE, end + SHADOW_DISTANCE);
        let every = sys::swap_in_use();
        let mut there = [0u8; 512];
        let mut at = first & !(PAGE - 1);
        while at < last {
            let count = (last - at).div_ceil(PAGE).min(there.len() as u64) as usize;
            let known = sys::resident(at, &mut there[..count]).is_ok() && !every;
            for state in &there[..count] {
                if !known || *state != 0 {
                    let (from, to) = (at.max(first), (at + PAGE).min(last));
                    forget_values(from - SHADOW_DISTANCE, to - SHADOW_DISTANCE);
                }
                at += PAGE;
            }
        }
    }
}

/// The same for a range whose marks may be touched.
fn forget_values(start: u64, end: u64) {
    let marks = (start + SHADOW_DISTANCE) as *mut u8;
    // SAFETY: the marks of guest memory are mapped as a whole, and the guest does not run now.
    let marks = unsafe { core::slice::from_raw_parts_mut(marks, (end - start) as usize) };
    let told = marks.iter_mut().filter(|mark| **mark != 0);
    told.for_each(|mark| *mark &= !(mark::LEARNED | mark::MOVED));
}

/// Puts pages into a piece, which is accessible and zero.
fn fill(piece: u64, mask: u64, pages: &[u8]) {
    let indices = (0..PIECE / PAGE).filter(|index| mask >> index & 1 != 0);
    for (index, page) in indices.zip(pages.chunks_exact(PAGE as usize)) {
        let to = (piece + index * PAGE) as *mut u8;
        // SAFETY: guest memory that was just made writable.
        unsafe { core::ptr::copy_nonoverlapping(page.as_ptr(), to, page.len()) };
    }
}

/// Takes a piece before it is needed.
pub fn put(piece: u64, mask: u64, pages: &[u8]) {
    PAGES.lock().take(piece, mask, pages);
}

/// Writes guest memory, with a mark of [`mark`](retro_abi::replay::mark); false if it is not the guest's.
pub fn write(address: u64, bytes: &[u8], why: u8) -> bool {
    if !is_guest(address, bytes.len() as u64) {
        return false;
    }
    // SAFETY: guest memory is mapped as a whole, and the guest does not run now.
    unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) };
    mark(address, bytes.len() as u64, why);
    true
}

/// Moves guest memory, by whole pages; false if it is not the guest's, or cannot be moved.
pub fn relocate(from: u64, to: u64, len: u64) -> bool {
    let Some(len) = len.checked_next_multiple_of(PAGE) else { return false };
    if len == 0 || from == to {
        return true;
    }
    let apart = from.max(to) - from.min(to) >= len;
    let whole = from.is_multiple_of(PAGE) && to.is_multiple_of(PAGE);
    if !apart || !whole || !is_guest(from, len) || !is_guest(to, len) {
        return false;
    }
    clear(to, len);
    if WATCHED.load(Ordering::Relaxed) {
        copy_pages(from, to, len);
        note_move(from, to, len);
        clear(from, len);
        return true;
    }
    let flags = (c::MREMAP_MAYMOVE | c::MREMAP_FIXED | c::MREMAP_DONTUNMAP) as u64;
    // SAFETY: both ranges are whole pages of guest memory, which no reference points to.
    let moved = sys::check(unsafe { sys::syscall(c::__NR_mremap, [from, len, len, flags, to, 0]) });
    if moved.is_err() {
        copy_pages(from, to, len);
        clear(from, len);
    }
    true
}

fn note_move(from: u64, to: u64, len: u64) {
    let mut pages = PAGES.lock();
    if pages.marked {
        pages.replaced.push(Replaced::Moved { from, to, len });
    }
}

/// What is known of a page since the owner asked last comes along with it.
fn move_marks(from: u64, to: u64) {
    if !MARKED.load(Ordering::Relaxed) {
        return;
    }
    for offset in 0..PAGE {
        // SAFETY: the marks of guest memory are mapped as a whole, and the guest does not run now.
        let known = unsafe { ((from + offset + SHADOW_DISTANCE) as *const u8).read() };
        mark(to + offset, 1, mark::MOVED | known & mark::LEARNED);
    }
}

/// Copies what there is to pages that are zero.
fn copy_pages(from: u64, to: u64, len: u64) {
    let every = sys::swap_in_use();
    for piece in (from & !(PIECE - 1)..from + len).step_by(PIECE as usize) {
        let (first, end) = (piece.max(from), (piece + PIECE).min(from + len));
        // What is not there yet comes when it is touched, a whole piece at once.
        // SAFETY: guest memory is mapped as a whole.
        unsafe { (first as *const u8).read_volatile() };
        let mut there = [0u8; (PIECE / PAGE) as usize];
        let pages = ((end - first) / PAGE) as usize;
        let known = sys::resident(first, &mut there[..pages]).is_ok() && !every;
        for (index, state) in there[..pages].iter().enumerate() {
            if !known || state & 1 != 0 {
                let offset = first - from + index as u64 * PAGE;
                let (source, target) = ((from + offset) as *const u8, (to + offset) as *mut u8);
                // SAFETY: both pages are guest memory, and the ranges do not overlap.
                unsafe { core::ptr::copy_nonoverlapping(source, target, PAGE as usize) };
                move_marks(from + offset, to + offset);
            }
        }
    }
}

/// Makes guest memory zero, by whole pages.
pub fn clear(start: u64, len: u64) {
    if len == 0 || !is_guest(start, len) {
        return;
    }
    let (start, end) = (start & !(PAGE - 1), (start + len).next_multiple_of(PAGE));
    if lazy() {
        need_not_fetch(start, end);
    }
    sys::advise(start, end - start, c::MADV_DONTNEED);
    let mut pages = PAGES.lock();
    if pages.marked {
        pages.replaced.push(Replaced::Cleared { start, end });
        pages.forget_values(start, end);
    }
}

/// A range is about to be cleared: what is around it in the same pieces is fetched, the rest need not be.
fn need_not_fetch(start: u64, end: u64) {
    let (first, last) = (start & !(PIECE - 1), end.next_multiple_of(PIECE));
    for edge in [first, last - PIECE] {
        // SAFETY: guest memory is mapped as a whole.
        unsafe { (edge as *const u8).read_volatile() };
    }
    let mut pages = PAGES.lock();
    pages.present.insert(first, last);
    // What cannot be made accessible now is when it is touched: it is not zero by accident.
    let _ = protect(first, last, if pages.marked { READ } else { READ_WRITE });
}

/// Reads guest memory as far as there can be any.
pub fn read(address: u64, bytes: &mut [u8]) -> usize {
    if is_guest(address, bytes.len() as u64) {
        crate::guest_memory::read_partial(address, bytes)
    } else {
        0
    }
}

/// Sends the pages that have marks, and starts over.
pub fn send_changes() {
    let mut changed = core::mem::take(&mut PAGES.lock().changed);
    changed.sort_unstable_by_key(|range| range.start);
    let replaced = core::mem::take(&mut PAGES.lock().replaced);
    for range in replaced {
        let header = match range {
            Replaced::Cleared { start, end } => Header::new(tell::CLEARED, [start, end]),
            Replaced::Moved { from, to, len } => Header::new(tell::MOVED, [from, to, len]),
        };
        socket::send(header, &[]);
    }
    let mut quiet = Vec::new();
    changed.retain_mut(|range| {
        let mut has_marks = false;
        for page in (range.start..range.end).step_by(PAGE as usize) {
            has_marks |= send_marked_page(page);
        }
        range.idle = if has_marks { 0 } else { range.idle + 1 };
        // What is larger takes too long to be looked at for nothing.
        let stays = range.idle < PATIENCE && range.end - range.start <= PIECE;
        if !stays {
            quiet.push((range.start, range.end));
        }
        stays
    });
    PAGES.lock().changed.append(&mut changed);
    watch_again(joined(quiet));
}

/// Neighbours become one; they are in the order of their starts.
fn joined(ranges: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    let mut joined: Vec<(u64, u64)> = Vec::with_capacity(ranges.len());
    for (start, end) in ranges {
        match joined.last_mut() {
            Some(last) if last.1 >= start => last.1 = last.1.max(end),
            _ => joined.push((start, end)),
        }
    }
    joined
}

fn watch_again(changed: Vec<(u64, u64)>) {
    for (start, end) in changed {
        // Where that fails the pages are sent again next time: they are not forgotten.
        if protect(start, end, READ).is_err() {
            PAGES.lock().changed.push(Writable::new(start, end));
        }
    }
}

/// Sends a page if it has marks, and takes these away. Whether it had any.
fn send_marked_page(page: u64) -> bool {
    const WORDS: usize = PAGE as usize / 8;
    /// The highest bit of every byte, which only `WRITTEN` has.
    const WRITTEN: u64 = u64::from_ne_bytes([mark::WRITTEN & !0x7f; 8]);
    /// The lowest, which all marks have that tell of a value.
    const ANY: u64 = u64::from_ne_bytes([mark::LEARNED; 8]);
    // SAFETY: the marks of a page, at a multiple of 64 bytes; the guest does not run now.
    let marks = unsafe { &mut *((page + SHADOW_DISTANCE) as *mut [u64; WORDS]) };
    if marks.iter().fold(0, |all, word| all | word) == 0 {
        return false;
    }
    let mut payload = [0u8; WRITTEN_SIZE];
    let (address, rest) = payload.split_at_mut(8);
    address.copy_from_slice(&page.to_le_bytes());
    let (contents, bits) = rest.split_at_mut(PAGE as usize);
    let (words, bytes) = bits.split_at_mut(WORDS / 8);
    // SAFETY: guest memory is mapped as a whole, and the guest does not run now.
    contents.copy_from_slice(unsafe { &*(page as *const [u8; PAGE as usize]) });
    for (index, word) in marks.iter_mut().enumerate() {
        if *word != 0 {
            words[index / 8] |= ((*word & WRITTEN != 0) as u8) << (index % 8);
            // Gathers the lowest bit of each byte in the highest byte.
            bytes[index] = ((*word & ANY).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8;
            *word = 0;
        }
    }
    socket::gather(tell::WRITTEN, &[&payload]);
    true
}
