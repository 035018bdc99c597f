//! Vector and x87 state: which of it the guest may use, how it lies in images of `xsave`, saving and restoring it.
//!
//! Problem: images of this state are shown to the guest in signal frames, logged, and compared by replays, so they must be those
//! of a native run. Three things stand in the way:
//! - Some state is there only for a process that has asked for it (AMX's tiles): until then the kernel leaves it out
//!   of frames, and so must we.
//! - x87 remembers the address and the opcode of its last instruction. That is an instruction of the code cache; [`save`]
//!   puts the guest's own in its place.
//! - How much memory an instruction like `xsavec` touches depends on a mask in registers.
//!
//! Invariant: no address of the code cache is in an image that [`save`] has made, and none stays in the machine over a flush of the
//! cache ([`settle_pointers`]).

use crate::context::Registers;
use crate::{cache, entry, guest_memory, replay, sys};
use core::arch::asm;
use core::arch::x86_64::{__cpuid_count, _xgetbv};
use core::sync::atomic::{AtomicU64, Ordering};

/// Largest image this engine handles: AMX included.
pub const LARGEST_IMAGE: usize = 12 * 1024;

/// The legacy part of an image and its header.
pub const SMALLEST_IMAGE: usize = 576;

/// Protection keys, as a bit of a feature mask.
const PROTECTION_KEYS: u64 = 1 << 9;
/// AMX's tiles, which the kernel gives out on request.
pub const TILE_DATA: u64 = 1 << 18;
/// The configuration of AMX's tiles, by number.
const TILE_CONFIGURATION: u32 = 17;

/// Offsets in an image.
const OPCODE: usize = 6;
const INSTRUCTION_POINTER: usize = 8;
const HEADER: usize = 512;
/// In the header: which parts a compacted image has, and that it is one.
const COMPACTION: usize = HEADER + 8;
const IS_COMPACT: u64 = 1 << 63;

/// What the processor and the kernel have, whether the guest may use it or not.
static ENABLED: AtomicU64 = AtomicU64::new(0);
static FEATURES: AtomicU64 = AtomicU64::new(0);
static SIZE: AtomicU64 = AtomicU64::new(0);

/// Room for an image of `xsave`.
#[repr(C, align(64))]
pub struct Image(pub [u8; LARGEST_IMAGE]);

impl Image {
    /// Zero.
    pub const fn new() -> Image {
        Image([0; LARGEST_IMAGE])
    }
}

impl Default for Image {
    fn default() -> Self {
        Image::new()
    }
}

/// A part of the state in images of the standard form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Component {
    offset: usize,
    size: usize,
    /// Whether it starts at a multiple of 64 in compacted images.
    aligned: bool,
}

/// Where a part of the state lies. The processor is asked once: on a virtual machine that takes as long as thousands of
/// instructions, and lazy binding saves and restores state for every function.
fn component(feature: u32) -> Component {
    /// As `cpuid` tells: the offset above the size, whose lowest bit, which is never set, says that it is known, and
    /// whose second one is `aligned`.
    static KNOWN: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];
    let known = &KNOWN[feature as usize];
    let mut packed = known.load(Ordering::Relaxed);
    if packed == 0 {
        let answer = __cpuid_count(0xd, feature);
        let aligned = answer.ecx & 2;
        packed = u64::from(answer.ebx) << 32 | u64::from(answer.eax & !3 | aligned | 1);
        known.store(packed, Ordering::Relaxed);
    }
    let size = packed as u32 as usize & !3;
    Component { offset: (packed >> 32) as usize, size, aligned: packed & 2 != 0 }
}

/// Where a part of the state lies in an image of the standard form.
pub fn offset_of(feature: u32) -> usize {
    component(feature).offset
}

/// Length of an image with these features, up to its last one.
fn size_of_image(mask: u64, compact: bool, component: impl Fn(u32) -> Component) -> usize {
    let mut size = SMALLEST_IMAGE;
    for feature in (2..63).filter(|&feature| mask & 1 << feature != 0) {
        let part = component(feature);
        if !compact {
            size = size.max(part.offset + part.size);
            continue;
        }
        if part.aligned {
            size = size.next_multiple_of(64);
        }
        size += part.size;
    }
    size
}

/// Finds out which state this machine has and the guest may use.
pub fn detect() {
    // SAFETY: every x86-64 machine that the engine supports has xsave (checked by cpuid in `start`).
    let enabled = unsafe { xgetbv() };
    ENABLED.store(enabled, Ordering::Relaxed);
    permissions_changed();
}

/// The guest may have been granted state that it has asked for.
pub fn permissions_changed() {
    let enabled = ENABLED.load(Ordering::Relaxed);
    let permitted = if enabled & TILE_DATA == 0 { !0 } else { permitted() };
    let features = enabled & permitted;
    let size = if features == enabled {
        __cpuid_count(0xd, 0).ebx as usize
    } else {
        size_of_image(features, false, component)
    };
    FEATURES.store(features, Ordering::Relaxed);
    SIZE.store(size.min(LARGEST_IMAGE - 64) as u64, Ordering::Relaxed);
}

/// What the kernel lets this process use.
fn permitted() -> u64 {
    let mut mask = 0u64;
    match sys::arch_prctl(sys::arch::GET_XCOMP_PERM, &raw mut mask as u64) {
        Ok(_) => mask,
        // A kernel that gives out nothing on request.
        Err(_) => !TILE_DATA,
    }
}

/// A replay needs whatever the recorded run may have asked for.
pub fn ask_for_all() {
    if ENABLED.load(Ordering::Relaxed) & TILE_DATA != 0 {
        let _ = sys::arch_prctl(sys::arch::REQ_XCOMP_PERM, TILE_DATA.trailing_zeros() as u64);
        permissions_changed();
    }
}

#[target_feature(enable = "xsave")]
fn xgetbv() -> u64 {
    // SAFETY: xsave is enabled.
    unsafe { _xgetbv(0) }
}

/// Which of the state is not in its initial condition; all of it where the processor does not tell.
fn in_use() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: asked only on processors with AMX, all of which have this register.
    unsafe {
        asm!("xgetbv", in("ecx") 1, out("eax") low, out("edx") high, options(nomem, nostack));
    }
    u64::from(high) << 32 | u64::from(low)
}

/// Whether the running thread has used tiles and not given them back.
pub fn tiles_in_use() -> bool {
    features() & TILE_DATA != 0 && in_use() & TILE_DATA != 0
}

/// The state that the guest may use.
pub fn features() -> u64 {
    FEATURES.load(Ordering::Relaxed)
}

/// What images of threads hold: everything but protection keys, which the guest does not know of, and which not every
/// machine that replays has.
pub fn image_features() -> u64 {
    features() & !PROTECTION_KEYS
}

/// Length of an image of [`features`].
pub fn area_size() -> usize {
    SIZE.load(Ordering::Relaxed) as usize
}

/// Length of an image of the standard form with some of [`features`].
pub fn size_of(mask: u64) -> usize {
    if mask == features() { area_size() } else { size_of_image(mask, false, component) }
}

/// How an instruction that stores or loads an image lays it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// At the offsets of the standard form.
    Standard,
    /// Without gaps.
    Compact,
    /// As the image's own header says.
    AsStored,
}

/// Bytes that an instruction touches which stores or loads the parts in `mask` at `address`.
pub fn touched(address: u64, mask: u64, layout: Layout) -> usize {
    let mask = mask & ENABLED.load(Ordering::Relaxed);
    let (mask, compact) = match layout {
        Layout::Standard => (mask, false),
        Layout::Compact => (mask, true),
        Layout::AsStored => match guest_memory::read_u64(address.wrapping_add(COMPACTION as u64)) {
            Ok(parts) if parts & IS_COMPACT != 0 => (parts & !IS_COMPACT, true),
            _ => (mask, false),
        },
    };
    size_of_image(mask, compact, component).min(LARGEST_IMAGE)
}

/// Rows of a tile, and bytes of each, as the running thread has configured them.
pub fn shape_of_tile(tile: usize) -> (usize, usize) {
    const COLUMNS: usize = 16;
    const ROWS: usize = 48;
    let mut image = Image::new();
    let mask = 1 << TILE_CONFIGURATION;
    // SAFETY: aligned, zeroed and large enough.
    unsafe { entry::save_vectors(image.0.as_mut_ptr(), mask) };
    let configuration = &image.0[offset_of(TILE_CONFIGURATION)..][..64];
    let column = COLUMNS + 2 * tile;
    let bytes = u16::from_le_bytes([configuration[column], configuration[column + 1]]);
    (configuration[ROWS + tile] as usize, bytes as usize)
}

/// Saves parts of the running thread's state into an image that is zero, as the guest may see it.
pub fn save(image: &mut Image, mask: u64, fetch: Fetch) {
    // SAFETY: aligned, zeroed and large enough for all features of this machine.
    unsafe { entry::save_vectors(image.0.as_mut_ptr(), mask) };
    correct_pointers(&mut image.0, fetch);
}

/// Makes an image the running thread's state; false if it is malformed.
pub fn restore(image: &Image, mask: u64) -> bool {
    // SAFETY: aligned and as large as any image.
    unsafe { entry::restore_vectors(image.0.as_ptr(), mask) }
}

// ---- the pointers of x87 ----

/// Reads the guest's code; says how much there is.
pub type Fetch<'a> = &'a dyn Fn(u64, &mut [u8]) -> usize;

/// Where a guest that is no replay has its code.
pub const FROM_MEMORY: Fetch = &guest_memory::read_partial;

/// Where the guest has its code.
pub fn guest_code() -> Fetch<'static> {
    if replay::active() { &replay::fetch } else { FROM_MEMORY }
}

/// The guest address of a cache address that x87 remembers; None if no block is there: then it is the guest's own
/// number, loaded by `frstor` or the like.
pub fn guest_pc_of(address: u64) -> Option<u64> {
    if !cache::contains(address) {
        return None;
    }
    let mut scratch = Registers::default();
    cache::recover(address, &mut scratch, &cache::Saved::default()).map(|position| position.pc)
}

/// The opcode that x87 remembers of an instruction: the escape byte's low bits and the ModRM byte behind it.
fn opcode_in(code: &[u8]) -> Option<u16> {
    let escape = code.iter().position(|&byte| (0xd8..=0xdf).contains(&byte))?;
    let modrm = *code.get(escape + 1)?;
    Some(u16::from(code[escape] & 7) << 8 | u16::from(modrm))
}

/// The opcode that belongs to the guest instruction at `pc` if x87 remembers `saved` of the instruction at `cache_pc`, which
/// may be another encoding of it. Some processors remember opcodes of instructions only that have caused an exception: what is not
/// of this instruction stays.
pub fn guest_opcode(saved: u16, cache_pc: u64, pc: u64, fetch: Fetch) -> u16 {
    const LONGEST: usize = 15;
    const OPCODE_BITS: u16 = 0x7ff;
    // SAFETY: x87 has executed an instruction here, so these bytes are committed cache memory, as are those behind them: blocks end
    // with an exit.
    let executed = unsafe { core::slice::from_raw_parts(cache_pc as *const u8, LONGEST) };
    if opcode_in(executed) != Some(saved & OPCODE_BITS) {
        return saved;
    }
    let mut code = [0u8; LONGEST];
    let len = fetch(pc, &mut code);
    opcode_in(&code[..len]).unwrap_or(saved)
}

/// Makes the x87 pointers in an image the guest's; true if they were not.
fn correct_pointers(image: &mut [u8], fetch: Fetch) -> bool {
    let mut pointer = [0; 8];
    pointer.copy_from_slice(&image[INSTRUCTION_POINTER..INSTRUCTION_POINTER + 8]);
    let cache_pc = u64::from_le_bytes(pointer);
    let Some(pc) = guest_pc_of(cache_pc) else { return false };
    image[INSTRUCTION_POINTER..INSTRUCTION_POINTER + 8].copy_from_slice(&pc.to_le_bytes());
    let saved = u16::from_le_bytes([image[OPCODE], image[OPCODE + 1]]);
    let opcode = guest_opcode(saved, cache_pc, pc, fetch);
    image[OPCODE..OPCODE + 2].copy_from_slice(&opcode.to_le_bytes());
    true
}

/// A cache address of which only the lower half was saved; anything else stays.
pub fn whole_cache_address(saved: u64) -> u64 {
    let whole = retro_abi::layout::CACHE_BASE & !0xffff_ffff | saved;
    if cache::contains(whole) { whole } else { saved }
}

/// Makes the pointers that the running thread's x87 holds the guest's: before the code cache is thrown away, and with it what
/// tells the guest's address of the last instruction, and before a tracer asks the kernel for them.
pub fn settle_pointers() {
    const X87: u64 = 1;
    let mut image = Image::new();
    // SAFETY: aligned, zeroed and large enough.
    unsafe { entry::save_vectors(image.0.as_mut_ptr(), X87) };
    if correct_pointers(&mut image.0, guest_code()) {
        restore(&image, X87);
        return;
    }
    // AMD processors save and restore the pointers in such images only while an exception is pending. An environment always has them.
    let mut environment = [0u32; 7];
    // SAFETY: writes 28 bytes; it masks all exceptions, which loading the control word undoes.
    unsafe {
        asm!("fnstenv [{0}]", "fldcw [{0}]", in(reg) environment.as_mut_ptr(), options(nostack));
    }
    if let Some(pc) = guest_pc_of(whole_cache_address(u64::from(environment[3]))) {
        environment[3] = pc as u32;
        // No exception is pending: then the image above would have had the pointer.
        entry::restore_x87_environment(&environment);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of an Intel processor with AMX (Sapphire Rapids).
    fn with_tiles(feature: u32) -> Component {
        let (offset, size, aligned) = match feature {
            2 => (576, 256, false),
            5 => (1088, 64, false),
            6 => (1152, 512, false),
            7 => (1664, 1024, false),
            9 => (2688, 8, false),
            17 => (2752, 64, true),
            18 => (2816, 8192, true),
            _ => panic!("no feature {feature}"),
        };
        Component { offset, size, aligned }
    }

    /// Sizes that Linux reports there.
    #[test]
    fn sizes_are_those_of_the_kernel() {
        let size = |mask, compact| size_of_image(mask, compact, with_tiles);
        assert_eq!(size(0x600e7, false), 0x2b00);
        assert_eq!(size(0x200e7, false), 0xb00);
        assert_eq!(size(0x3, false), SMALLEST_IMAGE);
        assert_eq!(size(0xe7, true), 576 + 256 + 64 + 512 + 1024);
        assert_eq!(size(0x7, true), 576 + 256);
        assert_eq!(size(0x200 | 0x20007, true), 832 + 8 + 56 + 64);
    }

    #[test]
    fn opcodes_are_found_behind_prefixes() {
        assert_eq!(opcode_in(&[0xd9, 0xe8]), Some(0x1e8));
        assert_eq!(opcode_in(&[0x41, 0xdd, 0x45, 0x08]), Some(0x545));
        assert_eq!(opcode_in(&[0x90]), None);
        assert_eq!(opcode_in(&[0xdf]), None);
    }
}
