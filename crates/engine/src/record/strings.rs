//! Repeated string instructions, executed by the engine in pieces: each piece is mended, then done on memory and
//! shadow alike.
//!
//! Invariants: rsi, rdi and rcx always name the work that is left, so that a fault shows the guest the state that the
//! processor would have left; an element that cannot be stored whole is not stored at all.

use super::shadow;
use super::weave::Site;
use super::with;
use crate::context::{Context, Gpr, Registers};
use crate::guest_memory as guest;
use crate::signals::frame::write_over_code;
use crate::signals::{self, Fault};
use iced_x86::{Instruction, Mnemonic, OpKind, Register};
use retro_abi::layout::PAGE;

const DIRECTION: u64 = 0x400;
const PIECE: usize = 4096;
const SHORT_PIECE: usize = 256;

/// What an instruction does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Action {
    Move,
    Store,
    Load,
    Compare,
    Scan,
}

struct Work {
    action: Action,
    width: u64,
    backwards: bool,
    narrow: bool,
    source_base: u64,
    /// For comparisons: go on while equal, or while different.
    while_equal: bool,
    time: u64,
}

/// How an instruction stopped.
enum Left {
    Nothing,
    More,
}

/// A memory access that failed.
struct Failed;

fn action_of(guest: &Instruction) -> Option<(Action, u64)> {
    use Mnemonic::*;
    Some(match guest.mnemonic() {
        Movsb => (Action::Move, 1),
        Movsw => (Action::Move, 2),
        Movsd => (Action::Move, 4),
        Movsq => (Action::Move, 8),
        Stosb => (Action::Store, 1),
        Stosw => (Action::Store, 2),
        Stosd => (Action::Store, 4),
        Stosq => (Action::Store, 8),
        Lodsb => (Action::Load, 1),
        Lodsw => (Action::Load, 2),
        Lodsd => (Action::Load, 4),
        Lodsq => (Action::Load, 8),
        Cmpsb => (Action::Compare, 1),
        Cmpsw => (Action::Compare, 2),
        Cmpsd => (Action::Compare, 4),
        Cmpsq => (Action::Compare, 8),
        Scasb => (Action::Scan, 1),
        Scasw => (Action::Scan, 2),
        Scasd => (Action::Scan, 4),
        Scasq => (Action::Scan, 8),
        _ => return None,
    })
}

fn is_narrow(guest: &Instruction) -> bool {
    (0..guest.op_count()).any(|i| {
        matches!(
            guest.op_kind(i),
            OpKind::MemorySegESI | OpKind::MemoryESEDI | OpKind::MemorySegEDI
        )
    })
}

/// Executes the instruction; false if it faulted, with the fault delivered.
pub fn execute(context: &mut Context, guest: &Instruction, site: &Site) -> bool {
    let Some((action, width)) = action_of(guest) else {
        // Port access: a protection fault in user mode.
        let before = context.registers;
        return fail(context, site, Fault::protection(0), &before);
    };
    let source_base = match guest.segment_prefix() {
        Register::FS => context.guest_fs_base,
        Register::GS => context.guest_gs_base,
        _ => 0,
    };
    let time = with(|r| r.time().wrapping_add_signed(site.adjust as i64)).unwrap_or(0);
    let work = Work {
        action,
        width,
        backwards: context.registers.rflags & DIRECTION != 0,
        narrow: is_narrow(guest),
        source_base,
        while_equal: !guest.has_repne_prefix(),
        time,
    };
    let before = context.registers;
    // Under the trap flag every repetition traps, and so it does for a tracer that steps.
    let one_by_one = context.guest_trap_flag || crate::ptrace::tracee::steps(context);
    if let Some(fault) = work.misaligned(context) {
        return fail(context, site, fault, &before);
    }
    // Most strings are short, and large buffers take time to clear.
    let len = work.elements(context).saturating_mul(work.width);
    let done = match len <= SHORT_PIECE as u64 {
        true => work.run::<SHORT_PIECE>(context, one_by_one),
        false => work.run::<PIECE>(context, one_by_one),
    };
    match done {
        Ok(Left::Nothing) => true,
        Ok(Left::More) => {
            context.trap_armed = false;
            fail(context, site, Fault::step(site.pc), &before)
        }
        Err(Failed) => {
            // The rest of it, which faults at once, does so as the processor sees fit.
            leave(context, site, &before);
            context.careful = true;
            false
        }
    }
}

fn fail(context: &mut Context, site: &Site, fault: Fault, before: &Registers) -> bool {
    leave(context, site, before);
    signals::deliver_fault(context, &fault.into());
    false
}

/// Leaves the block in front of the instruction, of which part may be done.
fn leave(context: &mut Context, site: &Site, before: &Registers) {
    context.registers.rip = site.pc;
    context.unsettled = site.adjust as i32;
    super::settle(context);
    // How far it got is something that a replay cannot know.
    super::registers_changed(before, &context.registers);
    written_so_far(before, &context.registers);
    context.inside = false;
}

/// Logs what a half-done instruction has stored.
fn written_so_far(before: &Registers, after: &Registers) {
    let (from, to) = (before.get(Gpr::Rdi), after.get(Gpr::Rdi));
    // Backwards, rdi names the element that is next, below those that are done.
    let (start, end) = if from <= to { (from, to) } else { (to + 1, from + 8) };
    if start < end {
        super::wrote(start, end - start);
    }
}

impl Work {
    /// The alignment check, if the guest has asked for it.
    fn misaligned(&self, context: &Context) -> Option<Fault> {
        const ALIGNMENT_CHECK: u64 = 0x4_0000;
        let odd = |used: bool, address: u64| used && !address.is_multiple_of(self.width);
        let misaligned = odd(self.uses_source(), self.source(context))
            || odd(self.uses_destination(), self.destination(context));
        let checked = context.registers.rflags & ALIGNMENT_CHECK != 0;
        let works = self.elements(context) != 0;
        (checked && works && misaligned).then(Fault::alignment)
    }

    fn mask(&self) -> u64 {
        if self.narrow { 0xffff_ffff } else { u64::MAX }
    }

    /// Elements that are left.
    fn elements(&self, context: &Context) -> u64 {
        context.registers.get(Gpr::Rcx) & self.mask()
    }

    fn source(&self, context: &Context) -> u64 {
        (context.registers.get(Gpr::Rsi) & self.mask()).wrapping_add(self.source_base)
    }

    fn destination(&self, context: &Context) -> u64 {
        context.registers.get(Gpr::Rdi) & self.mask()
    }

    fn uses_source(&self) -> bool {
        matches!(self.action, Action::Move | Action::Load | Action::Compare)
    }

    fn uses_destination(&self) -> bool {
        self.action != Action::Load
    }

    fn advance(&self, context: &mut Context, elements: u64) {
        let bytes = elements.wrapping_mul(self.width);
        let bytes = if self.backwards { bytes.wrapping_neg() } else { bytes };
        let mask = self.mask();
        let registers = &mut context.registers;
        if self.uses_source() {
            registers.set(Gpr::Rsi, registers.get(Gpr::Rsi).wrapping_add(bytes) & mask);
        }
        if self.uses_destination() {
            registers.set(Gpr::Rdi, registers.get(Gpr::Rdi).wrapping_add(bytes) & mask);
        }
        registers.set(Gpr::Rcx, (registers.get(Gpr::Rcx) & mask).wrapping_sub(elements) & mask);
    }

    /// Elements that can be done at once: all in one page on either side, none overlapping what it produces.
    fn piece(&self, context: &Context, room: usize) -> u64 {
        let left = self.elements(context);
        let in_page = |address: u64| {
            let bytes = match self.backwards {
                // The element at `address` and those below it.
                true => address % PAGE + self.width,
                false => PAGE - address % PAGE,
            };
            // An element that crosses a border goes alone.
            let crosses = address % PAGE + self.width > PAGE;
            if crosses { 1 } else { (bytes / self.width).max(1) }
        };
        let mut count = left.min(room as u64 / self.width);
        if self.uses_source() {
            count = count.min(in_page(self.source(context)));
        }
        if self.uses_destination() {
            count = count.min(in_page(self.destination(context)));
        }
        if self.action == Action::Move {
            let (source, destination) = (self.source(context), self.destination(context));
            let distance = match self.backwards {
                true => source.wrapping_sub(destination),
                false => destination.wrapping_sub(source),
            };
            if distance < count * self.width {
                count = (distance / self.width).max(1);
            }
        }
        count
    }

    /// Where a piece begins in memory whose first element, in the order of work, is at `address`.
    fn start_of(&self, address: u64, count: u64) -> u64 {
        if self.backwards { address.wrapping_sub((count - 1) * self.width) } else { address }
    }

    fn run<const PIECE: usize>(
        &self,
        context: &mut Context,
        one_by_one: bool,
    ) -> Result<Left, Failed> {
        let mut done = false;
        let mut buffer = [0u8; PIECE];
        while self.elements(context) != 0 {
            if one_by_one && core::mem::replace(&mut done, true) {
                return Ok(Left::More);
            }
            let count = if one_by_one { 1 } else { self.piece(context, PIECE) };
            let source = self.start_of(self.source(context), count);
            let destination = self.start_of(self.destination(context), count);
            let bytes = &mut buffer[..(count * self.width) as usize];
            match self.action {
                Action::Move => {
                    self.load(source, bytes)?;
                    self.store(destination, bytes)?;
                    self.advance(context, count);
                }
                Action::Store => {
                    let value = context.registers.get(Gpr::Rax).to_le_bytes();
                    fill(bytes, &value[..self.width as usize]);
                    self.store(destination, bytes)?;
                    self.advance(context, count);
                }
                Action::Load => {
                    self.load(source, bytes)?;
                    let width = self.width as usize;
                    let last = if self.backwards { 0 } else { bytes.len() - width };
                    let mut value = context.registers.get(Gpr::Rax).to_le_bytes();
                    value[..width].copy_from_slice(&bytes[last..last + width]);
                    if width == 4 {
                        value[4..].fill(0);
                    }
                    context.registers.set(Gpr::Rax, u64::from_le_bytes(value));
                    self.advance(context, count);
                }
                Action::Compare | Action::Scan => {
                    if self.action == Action::Compare {
                        self.load(source, bytes)?;
                    } else {
                        let value = context.registers.get(Gpr::Rax).to_le_bytes();
                        fill(bytes, &value[..self.width as usize]);
                    }
                    if self.compare::<PIECE>(context, bytes, destination)? {
                        break;
                    }
                }
            }
        }
        Ok(Left::Nothing)
    }

    /// Compares elements with those at an address, up to one that ends the instruction; says whether there is one.
    fn compare<const PIECE: usize>(
        &self,
        context: &mut Context,
        left: &[u8],
        address: u64,
    ) -> Result<bool, Failed> {
        let width = self.width as usize;
        let count = left.len() / width;
        let mut right = [0u8; PIECE];
        let right = &mut right[..left.len()];
        self.load(address, right)?;
        let stops = match self.backwards {
            true => (0..count).rev().find(|&element| {
                let at = element * width..(element + 1) * width;
                (left[at.clone()] == right[at]) != self.while_equal
            }),
            false if self.while_equal => {
                super::first_difference(left, right, 0).map(|at| at / width)
            }
            false => first_equal(left, right, width),
        };
        let last = stops.unwrap_or(if self.backwards { 0 } else { count - 1 });
        let done = if self.backwards { count - last } else { last + 1 };
        let number = |bytes: &[u8]| {
            let mut all = [0u8; 8];
            all[..width].copy_from_slice(&bytes[last * width..(last + 1) * width]);
            u64::from_le_bytes(all)
        };
        let flags = compare_flags(number(left), number(right), self.width * 8);
        context.registers.rflags = context.registers.rflags & !0x8d5 | flags;
        self.advance(context, done as u64);
        Ok(stops.is_some())
    }

    /// Loads through the shadow: mends it, then takes what is there.
    fn load(&self, address: u64, bytes: &mut [u8]) -> Result<(), Failed> {
        guest::read(address, bytes).map_err(|_| Failed)?;
        let covered = shadow::covers(address, address + bytes.len() as u64);
        if covered
            && super::first_difference(bytes, shadow::bytes(address, bytes.len()), 0).is_some()
        {
            with(|recorder| recorder.mend(self.time, address, bytes.len() as u64));
            bytes.copy_from_slice(shadow::bytes(address, bytes.len()));
        }
        Ok(())
    }

    fn store(&self, address: u64, bytes: &[u8]) -> Result<(), Failed> {
        let last = address.wrapping_add(bytes.len() as u64 - 1);
        if last / PAGE != address / PAGE {
            // One element across two pages: both must take it.
            for at in [address, last] {
                let mut probe = [0u8];
                guest::read(at, &mut probe)
                    .and_then(|()| write_over_code(at, &probe))
                    .map_err(|_| Failed)?;
            }
        }
        write_over_code(address, bytes).map_err(|_| Failed)?;
        if shadow::covers(address, address + bytes.len() as u64) {
            shadow::bytes(address, bytes.len()).copy_from_slice(bytes);
        }
        Ok(())
    }
}

/// The first element that is the same in two equally long strings.
fn first_equal(left: &[u8], right: &[u8], width: usize) -> Option<usize> {
    let same = |(a, b): (&[u8], &[u8])| a == b;
    let from = if width == 1 { words_without_equal_bytes(left, right) } else { 0 };
    let elements = left[from..].chunks_exact(width).zip(right[from..].chunks_exact(width));
    elements.into_iter().position(same).map(|element| from / width + element)
}

/// How many bytes at the start of two strings surely differ, in steps of a word.
fn words_without_equal_bytes(left: &[u8], right: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let word = |bytes: &[u8]| {
        let mut word = [0; 8];
        word.copy_from_slice(bytes);
        u64::from_le_bytes(word)
    };
    let words = left.chunks_exact(8).zip(right.chunks_exact(8));
    // A byte of the difference that is zero borrows from its highest bit.
    let different = words
        .map(|(a, b)| word(a) ^ word(b))
        .take_while(|difference| difference.wrapping_sub(ONES) & !difference & HIGH == 0);
    8 * different.count()
}

/// Repeats an element of one, two, four or eight bytes.
fn fill(bytes: &mut [u8], element: &[u8]) {
    if let &[one] = element {
        bytes.fill(one);
        return;
    }
    let mut word = [0u8; 8];
    for piece in word.chunks_exact_mut(element.len()) {
        piece.copy_from_slice(element);
    }
    let mut words = bytes.chunks_exact_mut(8);
    for piece in &mut words {
        piece.copy_from_slice(&word);
    }
    let rest = words.into_remainder();
    let len = rest.len();
    rest.copy_from_slice(&word[..len]);
}

/// The arithmetic flags of `cmp left, right`.
fn compare_flags(left: u64, right: u64, bits: u64) -> u64 {
    let mask = u64::MAX >> (64 - bits);
    let (left, right) = (left & mask, right & mask);
    let result = left.wrapping_sub(right) & mask;
    let sign = 1 << (bits - 1);
    let carry = (left < right) as u64;
    let parity = ((result as u8).count_ones().is_multiple_of(2)) as u64;
    let adjust = (left ^ right ^ result) >> 4 & 1;
    let zero = (result == 0) as u64;
    let negative = (result & sign != 0) as u64;
    let overflow = ((left ^ right) & (left ^ result) & sign != 0) as u64;
    carry | parity << 2 | adjust << 4 | zero << 6 | negative << 7 | overflow << 11
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    #[test]
    fn equal_elements_are_found() {
        for width in [1, 2, 4, 8] {
            for len in [width, 3 * width, 64, 200 - 200 % width] {
                let left = std::vec![0x5au8; len];
                let right = std::vec![0xa5u8; len];
                assert_eq!(first_equal(&left, &right, width), None);
                for element in 0..len / width {
                    let mut right = right.clone();
                    right[element * width..].fill(0x5a);
                    assert_eq!(first_equal(&left, &right, width), Some(element));
                }
            }
        }
        // A byte that differs by one from its neighbour's zero is no zero.
        assert_eq!(first_equal(&[0, 1, 9, 9, 9, 9, 9, 9], &[1, 1, 0, 0, 0, 0, 0, 0], 1), Some(1));
    }
}
