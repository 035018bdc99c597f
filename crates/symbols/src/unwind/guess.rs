//! The caller where no table says how to find it.
//!
//! Tried in this order: what the kernel leaves for the handler of a signal, which is known exactly; code that is about
//! to return or has not set up anything yet; the frame pointer; the first word on the stack that looks like a return
//! address. That is one behind a call.

use super::cfi::word;
use super::{FrameRegisters, Physical, RBP, RIP, RSP, Step};
use crate::machine::Machine;
use crate::symbols::LoadedModule;

/// `mov $15, %rax; syscall`: what the handler of a signal returns to.
const SIGNAL_RETURN: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];

/// Where its second instruction is.
const SIGNAL_RETURN_SECOND: u64 = 7;

/// Where registers are in what the kernel saves for it, by their DWARF numbers: behind flags, a link and a stack.
const SAVED: [(u16, u64); 17] = [
    (8, 40),
    (9, 48),
    (10, 56),
    (11, 64),
    (12, 72),
    (13, 80),
    (14, 88),
    (15, 96),
    (5, 104),
    (4, 112),
    (RBP, 120),
    (3, 128),
    (1, 136),
    (0, 144),
    (2, 152),
    (RSP, 160),
    (RIP, 168),
];

const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
const PUSH_RBP: u8 = 0x55;
const PUSH_NUMBER: u8 = 0x68;

/// Words on the stack that are looked at.
const WORDS_LIMIT: u64 = 512;

/// Bytes of the longest call.
const CALL_LIMIT: usize = 8;

/// The way from a frame to its caller, as it seems.
pub(super) fn step(
    module: Option<&LoadedModule>,
    frame: &Physical,
    machine: &dyn Machine,
    is_innermost: bool,
    is_code: impl Fn(u64) -> bool,
) -> Option<Step> {
    if let Some(step) = signal_frame(frame, machine) {
        return Some(step);
    }
    let looks_right = |address: &u64| {
        let returns = || is_behind_call(machine, *address) || is_signal_return(machine, *address);
        is_code(*address) && returns()
    };
    let sp = frame.registers.get(RSP)?;
    if is_innermost
        && let Some(slot) = untouched_stack(module, frame, machine, sp)
        && let Some(pc) = word(machine, slot).filter(looks_right)
    {
        return Some(returning(frame, machine, slot, pc));
    }
    if let Some(base) = frame.registers.get(RBP)
        && base >= sp
        && base.is_multiple_of(8)
        && let Some(slot) = base.checked_add(8)
        && let Some(pc) = word(machine, slot).filter(looks_right)
    {
        return Some(guessed(slot, pc, word(machine, base)));
    }
    let slots = (0..WORDS_LIMIT).map_while(|number| sp.checked_add(number * 8));
    for slot in slots {
        let pc = word(machine, slot)?;
        if looks_right(&pc) {
            return Some(guessed(slot, pc, frame.registers.get(RBP)));
        }
    }
    None
}

/// What a handler of a signal returns to. The stack pointer stands where the kernel saved the registers.
fn signal_frame(frame: &Physical, machine: &dyn Machine) -> Option<Step> {
    let is_first = is_signal_return(machine, frame.pc);
    let is_second = || is_signal_return(machine, frame.pc.wrapping_sub(SIGNAL_RETURN_SECOND));
    if !is_first && !is_second() {
        return None;
    }
    let saved = frame.registers.get(RSP)?;
    let mut caller = FrameRegisters::default();
    for (number, offset) in SAVED {
        caller.set(number, word(machine, saved.checked_add(offset)?));
    }
    let cfa = caller.get(RSP)?;
    Some(Step { cfa, caller: Some(caller), is_signal_frame: true, is_guess: false })
}

fn is_signal_return(machine: &dyn Machine, address: u64) -> bool {
    let mut code = [0; SIGNAL_RETURN.len()];
    machine.read(address, &mut code) && code == SIGNAL_RETURN
}

/// Where the return address is if the function has not set up anything yet, or has undone it all.
fn untouched_stack(
    module: Option<&LoadedModule>,
    frame: &Physical,
    machine: &dyn Machine,
    sp: u64,
) -> Option<u64> {
    let mut code = [0; 2];
    // A call to where there is no code.
    if !machine.read(frame.pc, &mut code[..1]) {
        return Some(sp);
    }
    machine.read(frame.pc, &mut code);
    let is_return = matches!(code, [0xc3 | 0xc2, _] | [0xf3, 0xc3]);
    if is_return {
        return Some(sp);
    }
    let (module, file) = module.and_then(|module| Some((module, module.file.as_ref()?)))?;
    let address = module.file_address(frame.pc);
    if let Some(start) = file.stub_start(address) {
        let pushed = frame.pc.wrapping_sub(5);
        let mut before = [0];
        let has_pushed = address.wrapping_sub(start) >= 5
            && machine.read(pushed, &mut before)
            && before[0] == PUSH_NUMBER;
        return sp.checked_add(if has_pushed { 8 } else { 0 });
    }
    let (start, _) = file.functions().bounds(address)?;
    let mut prologue = [0; 5];
    if !machine.read(start.wrapping_add(module.bias), &mut prologue) {
        return None;
    }
    let first = if prologue[..4] == ENDBR64 { 4 } else { 0 };
    match address - start {
        passed if passed <= first => Some(sp),
        passed if passed == first + 1 && prologue[first as usize] == PUSH_RBP => sp.checked_add(8),
        // A function that needs no stack has no frame pointer of its own either: there is that of its caller.
        _ => calls(machine, word(machine, sp)?, start.wrapping_add(module.bias)).then_some(sp),
    }
}

/// Whether what ends at an address is a call of a function.
fn calls(machine: &dyn Machine, address: u64, function: u64) -> bool {
    let mut code = [0; 5];
    if !machine.read(address.wrapping_sub(5), &mut code) {
        return false;
    }
    let [0xe8, distance @ ..] = code else { return false };
    address.wrapping_add_signed(i32::from_le_bytes(distance).into()) == function
}

/// The caller of a function that has changed nothing, or only pushed the frame pointer.
fn returning(frame: &Physical, machine: &dyn Machine, slot: u64, pc: u64) -> Step {
    let is_pushed = frame.registers.get(RSP) != Some(slot);
    let base = match is_pushed {
        true => word(machine, slot.wrapping_sub(8)),
        false => frame.registers.get(RBP),
    };
    guessed(slot, pc, base)
}

fn guessed(slot: u64, pc: u64, base: Option<u64>) -> Step {
    let cfa = slot.wrapping_add(8);
    let mut caller = FrameRegisters::default();
    caller.set(RBP, base);
    caller.set(RSP, Some(cfa));
    caller.set(RIP, Some(pc));
    Step { cfa, caller: Some(caller), is_signal_frame: false, is_guess: true }
}

/// Whether a call ends at an address.
fn is_behind_call(machine: &dyn Machine, address: u64) -> bool {
    let mut code = [0; CALL_LIMIT];
    let Some(start) = address.checked_sub(CALL_LIMIT as u64) else { return false };
    // The first bytes may be on a page that is not there.
    let read = (0..CALL_LIMIT - 2)
        .find(|&skipped| machine.read(start + skipped as u64, &mut code[skipped..]));
    let Some(skipped) = read else { return false };
    let code = &code[skipped..];
    let is_direct = code.len() >= 5 && code[code.len() - 5] == 0xe8;
    is_direct || (2..=code.len()).any(|length| is_indirect_call(&code[code.len() - length..]))
}

/// Whether these bytes are `call *operand`, without a prefix.
fn is_indirect_call(code: &[u8]) -> bool {
    let [0xff, operand, rest @ ..] = code else { return false };
    let (kind, extension, register) = (operand >> 6, operand >> 3 & 7, operand & 7);
    if extension != 2 {
        return false;
    }
    let has_index = kind != 3 && register == 4;
    let displacement = match kind {
        0 if register == 5 => 4,
        0 if has_index && rest.first().is_some_and(|index| index & 7 == 5) => 4,
        1 => 1,
        2 => 4,
        _ => 0,
    };
    rest.len() == usize::from(has_index) + displacement
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indirect_calls_are_known_by_their_length() {
        for (code, expected) in [
            (&[0xff, 0xd0][..], true),               // call *%rax
            (&[0xff, 0xe0], false),                  // jmp *%rax
            (&[0xff, 0x15, 1, 2, 3, 4], true),       // call *0x4030201(%rip)
            (&[0xff, 0x15, 1, 2, 3], false),         // cut off
            (&[0xff, 0x10], true),                   // call *(%rax)
            (&[0xff, 0x14, 0x24], true),             // call *(%rsp)
            (&[0xff, 0x14, 0xc5, 1, 2, 3, 4], true), // call *0x4030201(,%rax,8)
            (&[0xff, 0x50, 8], true),                // call *8(%rax)
            (&[0xff, 0x54, 0x24, 8], true),          // call *8(%rsp)
            (&[0xff, 0x90, 1, 2, 3, 4], true),       // call *0x4030201(%rax)
            (&[0xff, 0x90, 1, 2, 3, 4, 5], false),   // too long
        ] {
            assert_eq!(is_indirect_call(code), expected, "{code:x?}");
        }
    }
}
