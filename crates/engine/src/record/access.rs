//! Instructions whose memory accesses emitted code cannot follow: gathers, masked loads, bit strings, state images,
//! and whatever the engine executes itself.
//!
//! The decoder says which memory an instruction reads and writes. Before it executes, all of that is mended, what it
//! writes included: it may write only part of it. Afterwards the shadow copies what was written.
//!
//! Images that `xsave` and its like store depend on more than the guest's state (which parts the processor
//! considers in use), so they are logged like the effects of a system call.

use super::weave::{Site, is_masked, is_repeated_string};
use super::{Recorder, image_of_vectors, shadow, strings, with};
use crate::context::{Context, Gpr};
use crate::guest_memory as guest;
use crate::sys;
use crate::translate::classify::only_stores;
use crate::translate::decoder_options;
use crate::translate::operand::gpr_of;
use crate::vectors::{self, Image, Layout};
use iced_x86::{
    Decoder, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register, UsedMemory,
};
use retro_abi::layout::PAGE;
use retro_abi::log::Event;

/// A range of memory that an instruction touches.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// Where it is.
    pub address: u64,
    /// How long.
    pub len: usize,
    /// Whether it is written.
    pub written: bool,
    /// Whether it is read.
    pub read: bool,
}

/// Decodes the instruction at a guest address.
fn decode(pc: u64) -> Instruction {
    let mut bytes = [0u8; 15];
    let len = guest::read_partial(pc, &mut bytes);
    Decoder::with_ip(64, &bytes[..len], pc, decoder_options()).decode()
}

/// Before an instruction that the engine follows; false if it was executed here and faulted.
pub fn before(context: &mut Context, site: &Site) -> bool {
    let guest = decode(site.pc);
    if is_repeated_string(&guest) {
        return strings::execute(context, &guest, site);
    }
    with(|recorder| {
        let time = recorder.time().wrapping_add_signed(site.adjust as i64);
        recorder.prepare(context, &guest, time);
        recorder.in_access = is_masked(&guest) || guest.is_vsib();
        recorder.loads_fs = loads_fs(&guest);
    });
    true
}

fn loads_fs(guest: &Instruction) -> bool {
    match guest.mnemonic() {
        Mnemonic::Mov | Mnemonic::Pop => guest.op0_register() == Register::FS,
        mnemonic => mnemonic == Mnemonic::Lfs,
    }
}

/// After it.
pub fn after(context: &mut Context) {
    let loads_fs = with(|recorder| {
        recorder.in_access = false;
        recorder.finish_access();
        recorder.loads_fs
    });
    // In a process that is not recorded, nobody remembers.
    if loads_fs.unwrap_or(true) {
        context.guest_fs_base = sys::fs_base();
    }
}

/// Whether a fault at an instruction may be that of its check, which may touch more than the instruction does, or
/// in another order.
pub fn may_be_ours(pc: u64) -> bool {
    super::watching() && !InstructionInfoFactory::new().info(&decode(pc)).used_memory().is_empty()
}

/// An instruction faulted, maybe one that has done part of its work.
pub fn faulted() {
    with(|recorder| {
        for (address, len) in core::mem::take(&mut recorder.written) {
            recorder.wrote_where_different(address, len);
        }
        if !core::mem::take(&mut recorder.in_access) {
            return;
        }
        let mut image = Image::new();
        let event = Event::Vectors { image: image_of_vectors(&mut image) };
        recorder.event(event);
    });
}

/// Before an instruction that the engine executes itself; it has been counted already.
pub fn before_emulated(context: &Context, guest: &Instruction) {
    with(|recorder| {
        let time = recorder.time().wrapping_sub(1);
        recorder.prepare(context, guest, time);
    });
}

/// After it.
pub fn after_emulated() {
    with(|recorder| recorder.finish_access());
}

/// An image of vector or x87 state has been stored: what is in it is the processor's word.
pub fn stored_image(context: &Context, guest: &Instruction) {
    let mut ranges = [None; 4];
    for (place, range) in ranges.iter_mut().zip(ranges_of(context, guest)) {
        *place = Some(range);
    }
    // A replay executes what also changes the state, and whatever that stores there gives way to all of this.
    let all = !only_stores(guest);
    with(|recorder| {
        for range in ranges.into_iter().flatten().filter(|r| r.written) {
            if all {
                recorder.wrote(range.address, range.len as u64);
            } else {
                recorder.wrote_where_different(range.address, range.len);
            }
        }
    });
}

impl Recorder {
    fn prepare(&mut self, context: &Context, guest: &Instruction, time: u64) {
        self.written.clear();
        for range in ranges_of(context, guest) {
            let end = range.address.saturating_add(range.len as u64);
            if !shadow::covers(range.address, end) {
                continue;
            }
            self.mend(time, range.address, range.len as u64);
            if range.written {
                self.written.push((range.address, range.len));
            }
        }
    }

    fn finish_access(&mut self) {
        for (address, len) in self.written.drain(..) {
            shadow::follow(address, len);
        }
    }

    /// Logs what an instruction may have written, as far as it has.
    fn wrote_where_different(&mut self, address: u64, len: usize) {
        let end = address.saturating_add(len as u64);
        if !shadow::covers(address, end) {
            return;
        }
        let time = self.time();
        let mut page = core::mem::take(&mut self.page);
        let mut at = address;
        while at < end {
            // Where a page cannot be read, none of it can.
            let next = (at & !(PAGE - 1)) + PAGE;
            let piece = &mut page[..(end.min(next) - at) as usize];
            let got = guest::read_partial(at, piece);
            let copy = shadow::bytes(at, got);
            if *copy != piece[..got] {
                copy.copy_from_slice(&piece[..got]);
                self.write(time, at, &piece[..got]);
            }
            at = next;
        }
        self.page = page;
    }
}

/// The memory that an instruction touches with the registers as they are.
pub fn ranges_of(context: &Context, guest: &Instruction) -> alloc::vec::Vec<Range> {
    let mut ranges = alloc::vec::Vec::new();
    let mut factory = InstructionInfoFactory::new();
    let mut image = None;
    for used in factory.info(guest).used_memory() {
        let written = matches!(
            used.access(),
            OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
        );
        let read = !matches!(used.access(), OpAccess::Write | OpAccess::CondWrite);
        if matches!(used.access(), OpAccess::None | OpAccess::NoMemAccess) {
            continue;
        }
        let len = match used.memory_size().size() {
            0 => size_of_image(context, guest, used),
            len => len,
        };
        if used.index().is_vector_register() {
            let image = image.get_or_insert_with(|| {
                let mut image = alloc::boxed::Box::new(Image::new());
                image_of_vectors(&mut image);
                image
            });
            for address in gather(context, used, image) {
                ranges.push(Range { address, len, written, read });
            }
            continue;
        }
        let Some(address) = address_of(context, used) else { continue };
        if is_tile_access(guest) {
            for (address, len) in rows_of_tile(context, guest, address) {
                ranges.push(Range { address, len, written, read });
            }
            continue;
        }
        let address = address.wrapping_add(bit_string_offset(context, guest));
        ranges.push(Range { address, len, written, read });
    }
    ranges
}

fn address_of(context: &Context, used: &UsedMemory) -> Option<u64> {
    used.virtual_address(0, |register, _, _| value_of(context, register))
}

/// Bytes of a state image: registers, or the image itself, say what is in it.
fn size_of_image(context: &Context, guest: &Instruction, used: &UsedMemory) -> usize {
    use Mnemonic::*;
    let layout = match guest.mnemonic() {
        Xsave | Xsave64 | Xsaveopt | Xsaveopt64 => Layout::Standard,
        Xsavec | Xsavec64 => Layout::Compact,
        Xrstor | Xrstor64 => Layout::AsStored,
        _ => return vectors::area_size(),
    };
    let half = |register| context.registers.get(register) & 0xffff_ffff;
    let mask = half(Gpr::Rdx) << 32 | half(Gpr::Rax);
    vectors::touched(address_of(context, used).unwrap_or(0), mask, layout)
}

/// Whether an instruction loads or stores one of AMX's tiles.
fn is_tile_access(guest: &Instruction) -> bool {
    matches!(guest.mnemonic(), Mnemonic::Tileloadd | Mnemonic::Tileloaddt1 | Mnemonic::Tilestored)
}

/// A tile's rows: its operand's index is the distance from one to the next, and its address without that is the first.
fn rows_of_tile(
    context: &Context,
    guest: &Instruction,
    address: u64,
) -> alloc::vec::Vec<(u64, usize)> {
    let stride = match guest.memory_index() {
        Register::None => 0,
        index => {
            value_of(context, index).unwrap_or(0) << guest.memory_index_scale().trailing_zeros()
        }
    };
    let tile = match guest.op0_kind() {
        OpKind::Register => guest.op0_register(),
        _ => guest.op1_register(),
    };
    let (rows, bytes) = vectors::shape_of_tile(tile.number());
    let first = address.wrapping_sub(stride);
    (0..rows as u64).map(|row| (first.wrapping_add(stride.wrapping_mul(row)), bytes)).collect()
}

/// The addresses of a gather or scatter.
fn gather(context: &Context, used: &UsedMemory, image: &Image) -> alloc::vec::Vec<u64> {
    let index_size = match used.vsib_size() {
        0 => 4,
        size => size as usize,
    };
    let count = used.index().size() / index_size;
    let address = |element| {
        used.virtual_address(element, |register, at, size| {
            if register.is_vector_register() {
                vector_element(image, register, at, size)
            } else {
                value_of(context, register)
            }
        })
    };
    (0..count).filter_map(address).collect()
}

/// Element of a vector register in an image of `xsave` in standard form.
fn vector_element(image: &Image, register: Register, element: usize, size: usize) -> Option<u64> {
    let number = register.number();
    let at = element * size;
    let component = vectors::offset_of;
    let place = match (number, at) {
        (16.., _) => component(7) + (number - 16) * 64 + at,
        (_, 0..16) => 160 + number * 16 + at,
        (_, 16..32) => component(2) + number * 16 + at - 16,
        _ => component(6) + number * 32 + at - 32,
    };
    let mut bytes = [0u8; 8];
    bytes[..size].copy_from_slice(image.0.get(place..place + size)?);
    let value = u64::from_le_bytes(bytes);
    Some(if size == 4 { value as u32 as i32 as i64 as u64 } else { value })
}

/// Value of a register in an address.
fn value_of(context: &Context, register: Register) -> Option<u64> {
    Some(match register {
        Register::None | Register::ES | Register::CS | Register::SS | Register::DS => 0,
        Register::FS => context.guest_fs_base,
        Register::GS => context.guest_gs_base,
        register if register.is_gpr() => {
            let value = context.registers.get(gpr_of(register));
            match register.size() {
                4 => value & 0xffff_ffff,
                2 => value & 0xffff,
                1 => value & 0xff,
                _ => value,
            }
        }
        _ => return None,
    })
}

/// `bt` and its kin address memory beyond their operand by the bit number.
fn bit_string_offset(context: &Context, guest: &Instruction) -> u64 {
    use Mnemonic::{Bt, Btc, Btr, Bts};
    if !matches!(guest.mnemonic(), Bt | Btc | Btr | Bts)
        || guest.op0_kind() != OpKind::Memory
        || guest.op1_kind() != OpKind::Register
    {
        return 0;
    }
    let register = guest.op1_register();
    let value = context.registers.get(gpr_of(register));
    let (bit, size) = match register.size() {
        2 => (value as i16 as i64, 2),
        4 => (value as i32 as i64, 4),
        _ => (value as i64, 8),
    };
    (bit.div_euclid(size * 8) * size) as u64
}
