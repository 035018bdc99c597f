//! Numbers: from bytes, and to the text of one of gdb's formats.

use crate::machine::Machine;
use crate::types::{Encoding, Kind, Type};
use crate::value::decimal::FloatFormat;
use crate::value::{Absent, Value};

/// A number, as arithmetic sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// An integer with sign.
    Signed(i128),
    /// An integer without.
    Unsigned(u128),
    /// A floating-point number. Wider ones are rounded.
    Float(f64),
}

impl Number {
    /// Its bits as an integer; a floating-point number is cut.
    pub fn to_integer(self) -> i128 {
        match self {
            Number::Signed(number) => number,
            Number::Unsigned(number) => number as i128,
            Number::Float(number) => number as i128,
        }
    }

    /// As a floating-point number.
    pub fn to_float(self) -> f64 {
        match self {
            Number::Signed(number) => number as f64,
            Number::Unsigned(number) => number as f64,
            Number::Float(number) => number,
        }
    }

    /// Whether C takes it for true.
    pub fn is_true(self) -> bool {
        match self {
            Number::Signed(number) => number != 0,
            Number::Unsigned(number) => number != 0,
            Number::Float(number) => number != 0.0,
        }
    }
}

/// Whether the numbers of a type have a sign.
pub(crate) fn is_signed(ty: &Type) -> bool {
    match ty.strip().kind() {
        Kind::Base(Encoding::Signed | Encoding::SignedChar) => true,
        // Only this one of the characters of Unicode has a sign.
        Kind::Base(Encoding::Unicode) => {
            ty.strip().own_name().is_some_and(|name| &**name == "wchar_t")
        }
        Kind::Enumeration(enumeration) => enumeration.is_signed,
        _ => false,
    }
}

/// Up to 16 bytes as an integer.
pub(crate) fn bits_of(bytes: &[u8]) -> u128 {
    let mut room = [0; 16];
    let taken = bytes.len().min(16);
    room[..taken].copy_from_slice(&bytes[..taken]);
    u128::from_le_bytes(room)
}

/// The lower `size` bytes with their sign.
pub(crate) fn sign_extend(bits: u128, size: u64) -> i128 {
    let unused = 128 - 8 * size.clamp(1, 16) as u32;
    (bits << unused) as i128 >> unused
}

/// The lower `size` bytes.
pub(crate) fn zero_extend(bits: u128, size: u64) -> u128 {
    let unused = 128 - 8 * size.clamp(1, 16) as u32;
    bits << unused >> unused
}

/// The format of a floating-point type. A `long double` takes 16 bytes, of which 10 are used.
pub(crate) fn float_format(ty: &Type) -> Option<FloatFormat> {
    let stripped = ty.strip();
    let name = stripped.own_name().map_or("", |name| name);
    let size = stripped.size()?;
    let is_quad = name.contains("128") || name == "f128" || name == "__float128";
    if size == 16 && !is_quad {
        return Some(FloatFormat::EXTENDED);
    }
    FloatFormat::of_size(size)
}

impl Value {
    /// Its number, if it is one.
    pub fn number(&self, machine: &dyn Machine) -> Result<Option<Number>, Absent> {
        let ty = self.ty.strip();
        let size = ty.size().unwrap_or(0);
        if size > 16 {
            return Ok(None);
        }
        let is_float = match ty.kind() {
            Kind::Base(Encoding::ComplexFloat) => return Ok(None),
            Kind::Base(encoding) => *encoding == Encoding::Float,
            Kind::Pointer(_) | Kind::Enumeration(_) | Kind::Reference(..) => false,
            Kind::MemberPointer { .. } if size == 8 => false,
            _ => return Ok(None),
        };
        let bits = bits_of(&self.bytes(machine)?);
        Ok(Some(match float_format(&ty) {
            Some(format) if is_float => Number::Float(format.to_f64(bits)),
            _ if is_signed(&ty) => Number::Signed(sign_extend(bits, size)),
            _ => Number::Unsigned(zero_extend(bits, size)),
        }))
    }
}

/// Digits of an integer of `size` bytes in a base, as gdb's formats have them.
pub(crate) fn in_base(letter: char, bits: u128, size: u64) -> String {
    let bits = zero_extend(bits, size);
    match letter {
        'o' if bits == 0 => "0".to_string(),
        'o' => format!("0{bits:o}"),
        't' => format!("{bits:b}"),
        'u' => bits.to_string(),
        'd' => sign_extend(bits, size).to_string(),
        'z' => format!("{bits:#0width$x}", width = 2 + 2 * size.min(16) as usize),
        _ => format!("{bits:#x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_in_all_bases() {
        for (letter, bits, size, shown) in [
            ('x', 0xffff_ffff_ffff_fffbu128, 4, "0xfffffffb"),
            ('d', 0xfb, 1, "-5"),
            ('u', 0xfb, 1, "251"),
            ('o', 200, 1, "0310"),
            ('o', 0, 4, "0"),
            ('t', 5, 4, "101"),
            ('z', 5, 4, "0x00000005"),
            ('x', u128::MAX, 16, "0xffffffffffffffffffffffffffffffff"),
        ] {
            assert_eq!(in_base(letter, bits, size), shown);
        }
    }
}
