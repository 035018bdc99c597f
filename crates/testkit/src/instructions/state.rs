//! Initial extended state: XSAVE images of random x87, vector and opmask registers.
//!
//! A guest carries a pool of images and every case starts from one of them. Registers that serve
//! as gather and scatter indices hold small numbers ([`DWORD_INDICES`], [`QWORD_INDICES`]), so
//! that a VSIB operand stays near its base.
//!
//! Invariant: `xrstor` accepts every image (reserved fields are zero, MXCSR is valid), and with
//! [`Exceptions::Masked`] no instruction raises a floating-point exception.

use super::cpu::Cpu;
use super::random::Random;

/// Vector registers whose 32-bit lanes are small signed numbers.
pub const DWORD_INDICES: [usize; 4] = [5, 13, 21, 29];
/// Vector registers whose 64-bit lanes are small signed numbers.
pub const QWORD_INDICES: [usize; 4] = [6, 14, 22, 30];
/// Bound of the index lanes' magnitude.
const INDEX_BOUND: i64 = 48;

/// Whether floating-point exceptions may be delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exceptions {
    /// All masked: results are defaults and sticky flags.
    Masked,
    /// Some unmasked: an operation may raise SIGFPE.
    Unmasked,
}

const FCW: usize = 0;
const FSW: usize = 2;
const TAGS: usize = 4;
const MXCSR: usize = 24;
const X87_REGISTERS: usize = 32;
const XMM_REGISTERS: usize = 160;
const STATE_BITMAP: usize = 512;
const COMPACTION_BITMAP: usize = 520;
const HEADER_END: usize = 576;

/// A random state image in the standard format.
pub fn image(cpu: &Cpu, random: &mut Random, exceptions: Exceptions) -> Vec<u8> {
    let mut image = vec![0; cpu.area_size];
    let masks = match exceptions {
        Exceptions::Masked => 0x3f,
        Exceptions::Unmasked => random.below(0x40) as u16,
    };
    let control =
        masks | 0x40 | (random.below(4) as u16) << 10 | random.pick(&[0u16, 2, 3, 3]) << 8;
    let sticky = if random.percent(50) { 0 } else { random.below(0x40) as u16 };
    let summary = if sticky & !masks & 0x3f != 0 { 0x8080 } else { 0 };
    let conditions = random.bits() as u16 & 0x4700;
    let top = if random.percent(60) { 0 } else { random.below(8) as u16 };
    put(&mut image, FCW, &control.to_le_bytes());
    put(&mut image, FSW, &(sticky | summary | conditions | top << 11).to_le_bytes());
    image[TAGS] = random.pick(&[0xff, 0xff, 0x00, 0x0f, 0x3f, random.clone().bits() as u8]);
    put(&mut image, MXCSR, &mxcsr(random, exceptions).to_le_bytes());
    for register in 0..8 {
        put(&mut image, X87_REGISTERS + 16 * register, &extended(random));
    }
    for register in 0..32 {
        set_vector(cpu, &mut image, register, &vector(random, register));
    }
    let opmasks = cpu.layout[5];
    for k in 0..opmasks.size / 8 {
        let mask = random.pick(&[
            0,
            u64::MAX,
            1,
            0x5555_5555_5555_5555,
            0x0080_0080_8080,
            random.clone().bits(),
        ]);
        put(&mut image, opmasks.offset + 8 * k, &mask.to_le_bytes());
    }
    put(&mut image, STATE_BITMAP, &cpu.components.to_le_bytes());
    image
}

/// The same state in the compacted format, as `xsavec` writes it.
pub fn compacted(cpu: &Cpu, standard: &[u8]) -> Vec<u8> {
    let mut image = standard[..HEADER_END].to_vec();
    put(&mut image, COMPACTION_BITMAP, &(1u64 << 63 | cpu.components).to_le_bytes());
    for component in cpu.layout.iter().filter(|component| component.size != 0) {
        if component.aligned {
            image.resize(image.len().next_multiple_of(64), 0);
        }
        image.extend_from_slice(&standard[component.offset..component.offset + component.size]);
    }
    image
}

/// A value `ldmxcsr` accepts.
pub fn mxcsr(random: &mut Random, exceptions: Exceptions) -> u32 {
    let masks = match exceptions {
        Exceptions::Masked => 0x1f80,
        Exceptions::Unmasked => (random.below(0x40) as u32) << 7,
    };
    let sticky = if random.percent(50) { 0 } else { random.below(0x40) as u32 };
    let flushes = if random.percent(25) { random.pick(&[0x8000, 0x0040, 0x8040]) } else { 0 };
    masks | sticky | flushes | (random.below(4) as u32) << 13
}

/// An 80-bit number: every class the x87 distinguishes, and MMX contents.
fn extended(random: &mut Random) -> [u8; 10] {
    let sign = (random.below(2) as u16) << 15;
    let integer_bit = 1u64 << 63;
    let (exponent, significand) = match random.below(9) {
        0 => (0, 0),
        1 => (0, random.bits() >> 1),
        2 => (0x7fff, integer_bit),
        3 => (0x7fff, integer_bit | 0x4000_0000_0000_0001),
        4 => (0x7fff, integer_bit | 1),
        5 => (0x7fff, random.lane()),
        6 => (random.below(0x8000) as u16, random.bits()),
        7 => (0x3fff + random.below(64) as u16, integer_bit | (random.word() >> 1)),
        _ => (0x3fff - random.below(70) as u16, integer_bit | (random.bits() >> 1)),
    };
    let mut bytes = [0; 10];
    bytes[..8].copy_from_slice(&significand.to_le_bytes());
    bytes[8..].copy_from_slice(&(sign | exponent).to_le_bytes());
    bytes
}

fn vector(random: &mut Random, register: usize) -> [u8; 64] {
    let mut bytes = [0; 64];
    if DWORD_INDICES.contains(&register) {
        for lane in bytes.chunks_mut(4) {
            lane.copy_from_slice(&(random.between(-INDEX_BOUND, INDEX_BOUND) as i32).to_le_bytes());
        }
    } else if QWORD_INDICES.contains(&register) {
        for lane in bytes.chunks_mut(8) {
            lane.copy_from_slice(&random.between(-INDEX_BOUND, INDEX_BOUND).to_le_bytes());
        }
    } else {
        random.fill(&mut bytes);
    }
    bytes
}

/// Stores the full width of a vector register, as far as the processor has it.
fn set_vector(cpu: &Cpu, image: &mut [u8], register: usize, bytes: &[u8; 64]) {
    let [upper_halves, upper_quarters, high_registers] =
        [cpu.layout[2], cpu.layout[6], cpu.layout[7]];
    if register < 16 {
        put(image, XMM_REGISTERS + 16 * register, &bytes[..16]);
        if upper_halves.size != 0 {
            put(image, upper_halves.offset + 16 * register, &bytes[16..32]);
        }
        if upper_quarters.size != 0 {
            put(image, upper_quarters.offset + 32 * register, &bytes[32..]);
        }
    } else if high_registers.size != 0 {
        put(image, high_registers.offset + 64 * (register - 16), bytes);
    }
}

fn put(image: &mut [u8], offset: usize, bytes: &[u8]) {
    image[offset..offset + bytes.len()].copy_from_slice(bytes);
}
