//! Vector, mask and floating-point registers, from an image of `xsave` in standard form.
//!
//! Where its parts lie differs between processors. The image is of the processor that replays, which is this one: it tells
//! by `cpuid`. A part that is not in the image is not shown.

use std::arch::x86_64::__cpuid_count;
use std::fmt::Write;

/// Where the parts of an image are that are the same everywhere.
const CONTROL_WORD: usize = 0;
const STATUS_WORD: usize = 2;
const TAG_WORD: usize = 4;
const MXCSR: usize = 24;
const ST: usize = 32;
const XMM: usize = 160;

/// Numbers of the other parts.
const YMM_UPPER: u32 = 2;
const MASKS: u32 = 5;
const ZMM_UPPER: u32 = 6;
const ZMM_HIGH: u32 = 7;

/// A register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vector {
    /// Its name.
    pub name: String,
    /// Its bytes, the lowest first.
    pub bytes: Vec<u8>,
}

impl Vector {
    fn new(name: impl Into<String>, bytes: Vec<u8>) -> Vector {
        Vector { name: name.into(), bytes }
    }

    /// All digits as one number.
    pub fn hexadecimal(&self) -> String {
        let mut text = "0x".to_string();
        for byte in self.bytes.iter().rev() {
            let _ = write!(text, "{byte:02x}");
        }
        text
    }

    /// For people: groups of eight bytes, the highest first, as in the number.
    pub fn text(&self) -> String {
        if self.bytes.len() <= 10 {
            return self.hexadecimal();
        }
        let groups: Vec<String> = (self.bytes.chunks(8).rev())
            .map(|group| group.iter().rev().map(|byte| format!("{byte:02x}")).collect())
            .collect();
        format!("0x{}", groups.join("_"))
    }
}

/// All registers of an image.
pub fn registers(image: &[u8]) -> Vec<Vector> {
    let offset = |component: u32| {
        let [size, offset] = part(component);
        (size != 0 && (offset as usize) < image.len()).then_some(offset as usize)
    };
    registers_at(image, offset)
}

/// Size and place of a part; zeroes if this processor does not have it.
fn part(component: u32) -> [u32; 2] {
    if __cpuid_count(0, 0).eax < 0xd {
        return [0; 2];
    }
    let answer = __cpuid_count(0xd, component);
    [answer.eax, answer.ebx]
}

fn registers_at(image: &[u8], offset: impl Fn(u32) -> Option<usize>) -> Vec<Vector> {
    let take = |at: usize, len: usize| image.get(at..at + len).map(<[u8]>::to_vec);
    let mut all = Vec::new();
    let mut add = |name: String, bytes: Option<Vec<u8>>| {
        all.extend(bytes.map(|bytes| Vector::new(name, bytes)));
    };
    for number in 0..32 {
        let (name, bytes) = widest(image, number, &offset);
        add(format!("{name}{number}"), bytes);
    }
    if let Some(masks) = offset(MASKS) {
        (0..8).for_each(|number| add(format!("k{number}"), take(masks + 8 * number, 8)));
    }
    add("mxcsr".to_string(), take(MXCSR, 4));
    (0..8).for_each(|number| add(format!("st{number}"), take(ST + 16 * number, 10)));
    add("fctrl".to_string(), take(CONTROL_WORD, 2));
    add("fstat".to_string(), take(STATUS_WORD, 2));
    add("ftag".to_string(), take(TAG_WORD, 1));
    all
}

/// A vector register as far as the image has it, and what it is called then.
fn widest(
    image: &[u8],
    number: usize,
    offset: impl Fn(u32) -> Option<usize>,
) -> (&'static str, Option<Vec<u8>>) {
    let take = |at: usize, len: usize| image.get(at..at + len);
    let part = |component: u32, len: usize| take(offset(component)? + number % 16 * len, len);
    if number >= 16 {
        return ("zmm", part(ZMM_HIGH, 64).map(<[u8]>::to_vec));
    }
    let Some(low) = take(XMM + 16 * number, 16) else { return ("xmm", None) };
    let (name, upper) = match (part(YMM_UPPER, 16), part(ZMM_UPPER, 32)) {
        (Some(middle), Some(upper)) => ("zmm", [middle, upper].concat()),
        (Some(middle), None) => ("ymm", middle.to_vec()),
        (None, _) => ("xmm", Vec::new()),
    };
    (name, Some([low, &upper].concat()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named<'a>(all: &'a [Vector], name: &str) -> &'a Vector {
        all.iter().find(|vector| vector.name == name).expect("the register is there")
    }

    #[test]
    fn parts_of_an_image_are_put_together() {
        let mut image = vec![0; 2816];
        image[XMM + 16] = 0x11;
        image[576 + 16] = 0x22;
        image[1152 + 32] = 0x33;
        image[1664 + 64] = 0x44;
        image[1088 + 8] = 0x55;
        let intel = |component| match component {
            2 => Some(576),
            5 => Some(1088),
            6 => Some(1152),
            7 => Some(1664),
            _ => None,
        };
        let all = registers_at(&image, intel);
        let zmm1 = named(&all, "zmm1");
        assert_eq!(
            (zmm1.bytes[0], zmm1.bytes[16], zmm1.bytes[32], zmm1.bytes.len()),
            (0x11, 0x22, 0x33, 64)
        );
        assert_eq!(named(&all, "zmm17").bytes[0], 0x44);
        assert_eq!(named(&all, "k1").hexadecimal(), "0x0000000000000055");
        assert_eq!(named(&all, "st0").bytes.len(), 10);
    }

    #[test]
    fn short_images_have_fewer_registers() {
        let all = registers_at(&[0; 512], |_| None);
        assert_eq!(named(&all, "xmm15").text(), "0x0000000000000000_0000000000000000");
        assert!(!all.iter().any(|vector| vector.name == "xmm16" || vector.name == "k0"));
        assert!(registers_at(&[], |_| Some(usize::MAX - 4096)).is_empty());
        let avx = registers_at(&[0; 832], |component| (component == 2).then_some(576));
        assert_eq!(named(&avx, "ymm15").bytes.len(), 32);
    }
}
