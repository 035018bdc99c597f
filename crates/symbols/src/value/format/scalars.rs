//! Numbers, characters, enumerations, pointers.

use super::{Format, Writer};
use crate::types::{Encoding, Enumeration, Kind, MemberKind, Type};
use crate::value::scalar::{self, bits_of, in_base, sign_extend, zero_extend};
use crate::value::text::{self, Width};
use crate::value::{Contents, Value};

/// Whether it is C's `char`: strings of it need no type before them.
pub(super) fn is_plain_char(ty: &Type) -> bool {
    let stripped = unqualified(ty);
    let name = stripped.own_name().map_or("", |name| name);
    matches!(stripped.kind(), Kind::Base(_)) && name == "char" || is_wide_name(name)
}

/// In C these are other names of numbers.
fn is_wide_name(name: &str) -> bool {
    matches!(name, "wchar_t" | "char16_t" | "char32_t")
}

/// Without `const` and the like, but with its other names.
fn unqualified(ty: &Type) -> Type {
    let mut ty = ty.clone();
    for _ in 0..crate::types::DEPTH_LIMIT {
        let Kind::Qualified(_, next) = ty.kind() else { break };
        ty = next.follow();
    }
    ty
}

/// How the characters of a type are quoted, if they make strings.
pub(super) fn character_width(ty: &Type) -> Option<Width> {
    let mut named = unqualified(ty);
    for _ in 0..crate::types::DEPTH_LIMIT {
        let name = named.own_name().map_or("", |name| name);
        if is_wide_name(name) {
            return Width::of(named.size()?, name);
        }
        let Kind::Typedef(next) = named.kind() else { break };
        named = unqualified(&next.follow());
    }
    match named.kind() {
        Kind::Base(Encoding::SignedChar | Encoding::UnsignedChar) if named.size() == Some(1) => {
            Some(Width::BYTE)
        }
        Kind::Base(Encoding::Unicode) => {
            Width::of(named.size()?, named.own_name().map_or("", |name| name))
        }
        _ => None,
    }
}

impl Writer<'_> {
    pub(super) fn scalar(&mut self, value: &Value, ty: &Type) {
        let bytes = match value.bytes(self.scope.machine()) {
            Ok(bytes) => bytes,
            Err(absent) => return self.absent(absent),
        };
        let size = ty.size().unwrap_or(0);
        if size == 0 {
            // Rust's `()` is its name.
            return self.push(ty.own_name().map_or("void", |name| name));
        }
        if size > 16 && !matches!(ty.kind(), Kind::Base(Encoding::ComplexFloat)) {
            let digits: String = bytes.iter().rev().map(|byte| format!("{byte:02x}")).collect();
            return self.push(&format!("0x{digits}"));
        }
        let bits = bits_of(&bytes);
        let is_reference = matches!(ty.kind(), Kind::Reference(..));
        if let Some(format) =
            self.options.format.filter(|&format| format != Format::Text && !is_reference)
        {
            return self.formatted(format, bits, ty, size);
        }
        let wide = character_width(&value.ty).filter(|width| width.bytes > 1);
        match ty.kind() {
            Kind::Base(Encoding::ComplexFloat) => self.complex(&bytes, ty),
            Kind::Base(_) if let Some(width) = wide => self.wide_character(bits, ty, size, width),
            Kind::Base(encoding) => self.base(*encoding, bits, ty, size),
            Kind::Enumeration(enumeration) => self.enumeration(enumeration, bits, size),
            Kind::Pointer(target) => self.pointer(bits as u64, &target.follow()),
            Kind::Reference(..) => self.push(&format!("@{:#x}", bits as u64)),
            Kind::MemberPointer { class, target } => {
                self.member_pointer(bits, &class.follow(), &target.follow());
            }
            _ => self.push(&format!("{bits:#x}")),
        }
    }

    fn formatted(&mut self, format: Format, bits: u128, ty: &Type, size: u64) {
        let is_float = matches!(ty.kind(), Kind::Base(Encoding::Float));
        match format {
            Format::Float => {
                match scalar::float_format(ty).filter(|_| is_float || matches!(size, 4 | 8)) {
                    Some(format) => self.push(&format.show(bits)),
                    None => self.push(&in_base('d', bits, size)),
                }
            }
            Format::Character => self.character(bits, scalar::is_signed(ty)),
            Format::Address => {
                let address = zero_extend(bits, size) as u64;
                self.push(&format!("{address:#x}"));
                self.symbol(address);
            }
            Format::Decimal | Format::Unsigned if is_float => {
                self.base(Encoding::Float, bits, ty, size);
            }
            _ => {
                // Ten of the sixteen bytes are used.
                let size = if is_float && size == 16 { 10 } else { size };
                self.push(&in_base(format.letter(), bits, size));
            }
        }
    }

    fn character(&mut self, bits: u128, is_signed: bool) {
        let code = bits as u8;
        let number = if is_signed { (code as i8).to_string() } else { code.to_string() };
        self.push(&format!("{number} {}", text::quoted_character(code.into(), Width::BYTE)));
    }

    fn wide_character(&mut self, bits: u128, ty: &Type, size: u64, width: Width) {
        let number = match scalar::is_signed(ty) {
            true => sign_extend(bits, size).to_string(),
            false => zero_extend(bits, size).to_string(),
        };
        let code = zero_extend(bits, size) as u32;
        self.push(&format!("{number} {}", text::quoted_character(code, width)));
    }

    fn base(&mut self, encoding: Encoding, bits: u128, ty: &Type, size: u64) {
        match encoding {
            Encoding::Boolean => match zero_extend(bits, size) {
                0 => self.push("false"),
                1 => self.push("true"),
                other => self.push(&other.to_string()),
            },
            Encoding::SignedChar if size == 1 => self.character(bits, true),
            Encoding::UnsignedChar if size == 1 => self.character(bits, false),
            Encoding::Signed | Encoding::SignedChar => {
                self.push(&sign_extend(bits, size).to_string())
            }
            Encoding::Float => match scalar::float_format(ty) {
                Some(format) => self.push(&format.show(bits)),
                None => self.push(&format!("{bits:#x}")),
            },
            _ => self.push(&zero_extend(bits, size).to_string()),
        }
    }

    fn complex(&mut self, bytes: &[u8], ty: &Type) {
        let half = bytes.len() / 2;
        // The 32 bytes of a complex `long double` are two of ten.
        let part = Type::base(ty.own_name().map_or("", |name| name), Encoding::Float, half as u64);
        let Some(format) = scalar::float_format(&part) else { return };
        let (real, imaginary) =
            (format.show(bits_of(&bytes[..half])), format.show(bits_of(&bytes[half..])));
        self.push(&format!("{real} + {imaginary}i"));
    }

    fn enumeration(&mut self, enumeration: &Enumeration, bits: u128, size: u64) {
        let number = match enumeration.is_signed {
            true => sign_extend(bits, size),
            false => zero_extend(bits, size) as i128,
        };
        if let Some((name, _)) = enumeration.enumerators.iter().find(|(_, value)| *value == number)
        {
            return self.push(name);
        }
        if !enumeration.is_flags {
            return self.push(&number.to_string());
        }
        let mut rest = number;
        let mut shown = Vec::new();
        for (name, value) in &enumeration.enumerators {
            if rest & value != 0 {
                shown.push(name.to_string());
                rest &= !value;
            }
        }
        if rest != 0 {
            shown.push(format!("unknown: {rest:#x}"));
        }
        match shown.is_empty() {
            true => self.push("0"),
            false => self.push(&format!("({})", shown.join(" | "))),
        }
    }

    pub(super) fn pointer(&mut self, address: u64, target: &Type) {
        self.push(&format!("{address:#x}"));
        if address == 0 {
            return;
        }
        self.symbol(address);
        if let Some(width) = character_width(target)
            && target.language() != crate::types::Language::Rust
        {
            self.push(" ");
            self.terminated_text(address, width);
        }
    }

    /// A data member is known by where it is; for functions there is the address.
    fn member_pointer(&mut self, bits: u128, class: &Type, target: &Type) {
        if matches!(target.strip().kind(), Kind::Function(_)) {
            let address = bits as u64;
            return match address {
                0 => self.push("NULL"),
                _ if address & 1 == 1 => {
                    self.push(&format!("&virtual table offset {}", address - 1))
                }
                _ => {
                    self.push(&format!("{address:#x}"));
                    self.symbol(address);
                }
            };
        }
        let offset = bits as u64;
        if offset == u64::MAX {
            return self.push("NULL");
        }
        let stripped = class.strip();
        let members = stripped.record().map_or(&[][..], |record| &record.members);
        let found =
            members.iter().find(|member| matches!(member.kind, MemberKind::At(at) if at == offset));
        match found.and_then(|member| member.name.as_ref()) {
            Some(name) => self.push(&format!("&{}::{name}", class.name())),
            None => self.push(&offset.to_string()),
        }
    }

    /// Whether an element of an array has all its bytes.
    pub(super) fn is_whole(value: &Value) -> bool {
        !matches!(&value.contents, Contents::Held(held) if !held.missing.is_empty())
    }
}
