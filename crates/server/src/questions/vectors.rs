//! The wide registers in an image of `xsave`.
//!
//! Where the parts of wider registers are in the image differs from processor to processor. It is the replay that made
//! the image, on this machine, so that this processor knows.

use std::arch::x86_64::__cpuid_count;
use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::Serialize;

/// Where the control words of the legacy part are.
const CONTROL: usize = 0;
const STATUS: usize = 2;
const MXCSR: usize = 24;

/// The first x87 register; 16 bytes apart, of which 10 are used.
const X87: usize = 32;

/// The lowest 16 bytes of the first 16 vector registers.
const XMM: usize = 160;

/// The word that says which parts are in use; others are as after a reset.
const IN_USE: usize = 512;

/// The leaf of `cpuid` that knows where parts are.
const LAYOUT_LEAF: u32 = 0xd;

/// A wide register.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct WideRegister {
    /// Its name: the widest that the processor has, such as `ymm0`.
    pub name: String,
    /// All its bits as one number in hexadecimal.
    pub value: String,
}

/// A part of the image.
#[derive(Clone, Copy, Debug)]
struct Part {
    bit: u32,
    offset: usize,
    /// Bytes of each register.
    width: usize,
}

/// Parts that extend the legacy ones: upper halves of ymm0-15, masks, upper halves of zmm0-15, zmm16-31.
#[derive(Clone, Copy, Debug)]
struct Layout {
    upper_ymm: Option<Part>,
    masks: Option<Part>,
    upper_zmm: Option<Part>,
    high_zmm: Option<Part>,
}

impl Layout {
    fn of_this_processor() -> &'static Layout {
        static LAYOUT: OnceLock<Layout> = OnceLock::new();
        LAYOUT.get_or_init(|| {
            let part = |bit, width| {
                let found = __cpuid_count(LAYOUT_LEAF, bit);
                (found.eax != 0).then_some(Part { bit, offset: found.ebx as usize, width })
            };
            Layout {
                upper_ymm: part(2, 16),
                masks: part(5, 8),
                upper_zmm: part(6, 32),
                high_zmm: part(7, 64),
            }
        })
    }
}

/// The wide registers of an image, as far as it reaches.
pub(super) fn wide_registers(image: &[u8]) -> Vec<WideRegister> {
    decode(image, Layout::of_this_processor())
}

fn decode(image: &[u8], layout: &Layout) -> Vec<WideRegister> {
    let mut all = Vec::new();
    let mut add =
        |name: String, bytes: &[u8]| all.push(WideRegister { name, value: number(bytes) });
    for index in 0..16 {
        let Some(low) = bytes_at(image, XMM + 16 * index, 16) else { break };
        let mut bytes = low.to_vec();
        let mut name = "xmm";
        for (part, wider) in [(layout.upper_ymm, "ymm"), (layout.upper_zmm, "zmm")] {
            let Some(part) = part.filter(|part| bytes.len() == part.width) else { break };
            let Some(upper) = part_of(image, part, index) else { break };
            bytes.extend_from_slice(&upper);
            name = wider;
        }
        add(format!("{name}{index}"), &bytes);
    }
    for index in 0..16 {
        let Some(bytes) = layout.high_zmm.and_then(|part| part_of(image, part, index)) else {
            break;
        };
        add(format!("zmm{}", 16 + index), &bytes);
    }
    for index in 0..8 {
        let Some(bytes) = layout.masks.and_then(|part| part_of(image, part, index)) else { break };
        add(format!("k{index}"), &bytes);
    }
    for index in 0..8 {
        let Some(bytes) = bytes_at(image, X87 + 16 * index, 10) else { break };
        add(format!("st{index}"), bytes);
    }
    for (name, at, len) in [("fctrl", CONTROL, 2), ("fstat", STATUS, 2), ("mxcsr", MXCSR, 4)] {
        if let Some(bytes) = bytes_at(image, at, len) {
            add(name.to_owned(), bytes);
        }
    }
    all
}

/// A register of a part; zero if the part is not in use.
fn part_of(image: &[u8], part: Part, index: usize) -> Option<Vec<u8>> {
    let in_use = u64::from_le_bytes(*bytes_at(image, IN_USE, 8)?.first_chunk()?);
    let bytes = bytes_at(image, part.offset + part.width * index, part.width)?;
    let is_used = in_use >> part.bit & 1 != 0;
    Some(if is_used { bytes.to_vec() } else { vec![0; part.width] })
}

fn bytes_at(image: &[u8], at: usize, len: usize) -> Option<&[u8]> {
    image.get(at..at + len)
}

fn number(bytes: &[u8]) -> String {
    let highest_first: Vec<u8> = bytes.iter().rev().copied().collect();
    format!("0x{}", super::wire::hex(&highest_first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_as_wide_as_the_processor_has_them() {
        let upper_ymm = Some(Part { bit: 2, offset: 576, width: 16 });
        let mut layout = Layout { upper_ymm, masks: None, upper_zmm: None, high_zmm: None };
        let mut image = vec![0; 832];
        image[XMM] = 0x11;
        image[576] = 0x22;
        let first = |image: &[u8], layout: &Layout| decode(image, layout).swap_remove(0);
        let unused = first(&image, &layout);
        assert_eq!((unused.name.as_str(), unused.value.len()), ("ymm0", 66));
        assert!(unused.value.ends_with("011") && !unused.value.contains('2'));
        image[IN_USE] = 0b111;
        assert!(first(&image, &layout).value.ends_with("2200000000000000000000000000000011"));
        layout.upper_ymm = None;
        assert_eq!(first(&image, &layout).name, "xmm0");
        assert_eq!(decode(&image[..100], &layout).len(), 4 + 3);
        assert_eq!(decode(&[], &layout), []);
    }
}
