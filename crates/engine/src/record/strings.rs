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
    match work.run(context, one_by_one) {
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
        let works = context.registers.get(Gpr::Rcx) & self.mask() != 0;
        (checked && works && misaligned).then(Fault::alignment)
    }

    fn mask(&self) -> u64 {
        if self.narrow { 0xffff_ffff } else { u64::MAX }
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
    fn piece(&self, context: &Context) -> u64 {
        let left = context.registers.get(Gpr::Rcx) & self.mask();
        if self.backwards {
            return 1;
        }
        let in_page = |address: u64| ((PAGE - address % PAGE) / self.width).max(1);
        let mut count = left.min(PIECE as u64 / self.width);
        if self.uses_source() {
            count = count.min(in_page(self.source(context)));
        }
        if self.uses_destination() {
            count = count.min(in_page(self.destination(context)));
        }
        if self.action == Action::Move {
            let distance = self.destination(context).wrapping_sub(self.source(context));
            if distance < count * self.width {
                count = (distance / self.width).max(1);
            }
        }
        count
    }

    fn run(&self, context: &mut Context, one_by_one: bool) -> Result<Left, Failed> {
        let mut done = false;
        let mut buffer = [0u8; PIECE];
        while context.registers.get(Gpr::Rcx) & self.mask() != 0 {
            if one_by_one && core::mem::replace(&mut done, true) {
                return Ok(Left::More);
            }
            let count = if one_by_one { 1 } else { self.piece(context) };
            let bytes = &mut buffer[..(count * self.width) as usize];
            match self.action {
                Action::Move => {
                    self.load(self.source(context), bytes)?;
                    self.store(self.destination(context), bytes)?;
                    self.advance(context, count);
                }
                Action::Store => {
                    let value = context.registers.get(Gpr::Rax).to_le_bytes();
                    fill(bytes, &value[..self.width as usize]);
                    self.store(self.destination(context), bytes)?;
                    self.advance(context, count);
                }
                Action::Load => {
                    self.load(self.source(context), bytes)?;
                    let mut value = context.registers.get(Gpr::Rax).to_le_bytes();
                    let width = self.width as usize;
                    value[..width].copy_from_slice(&bytes[bytes.len() - width..]);
                    if width == 4 {
                        value[4..].fill(0);
                    }
                    context.registers.set(Gpr::Rax, u64::from_le_bytes(value));
                    self.advance(context, count);
                }
                Action::Compare | Action::Scan => {
                    if self.compare(context, bytes)? {
                        break;
                    }
                }
            }
        }
        Ok(Left::Nothing)
    }

    /// Compares the elements that fit into `left`, up to one that ends the instruction; says whether there is one.
    fn compare(&self, context: &mut Context, left: &mut [u8]) -> Result<bool, Failed> {
        let width = self.width as usize;
        let count = left.len() / width;
        let mut right = [0u8; PIECE];
        let right = &mut right[..left.len()];
        if self.action == Action::Compare {
            self.load(self.source(context), left)?;
        } else {
            let value = context.registers.get(Gpr::Rax).to_le_bytes();
            fill(left, &value[..width]);
        }
        self.load(self.destination(context), right)?;
        let stops = (0..count).find(|&i| {
            let at = i * width..(i + 1) * width;
            (left[at.clone()] == right[at]) != self.while_equal
        });
        let done = stops.map_or(count, |i| i + 1);
        let last = (done - 1) * width..done * width;
        let number = |bytes: &[u8]| {
            let mut all = [0u8; 8];
            all[..width].copy_from_slice(bytes);
            u64::from_le_bytes(all)
        };
        let flags =
            compare_flags(number(&left[last.clone()]), number(&right[last]), self.width * 8);
        context.registers.rflags = context.registers.rflags & !0x8d5 | flags;
        self.advance(context, done as u64);
        Ok(stops.is_some())
    }

    /// Loads through the shadow: mends it, then takes what is there.
    fn load(&self, address: u64, bytes: &mut [u8]) -> Result<(), Failed> {
        let got = guest::read_partial(address, bytes);
        if got < bytes.len() {
            return Err(Failed);
        }
        with(|recorder| {
            recorder.mend(self.time, address, bytes.len() as u64);
            if shadow::covers(address, address + bytes.len() as u64) {
                bytes.copy_from_slice(shadow::bytes(address, bytes.len()));
            }
        });
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
