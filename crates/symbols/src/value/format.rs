//! Values as text, in the form of gdb's `print`.
//!
//! Whoever knows gdb knows how to read it, and the output can be compared with gdb's own. The differences: containers of
//! C++ and Rust look the same whether or not gdb has its Python, and records of Rust look like Rust's own `{:?}`.
//!
//! Invariants: the text is bounded by [`FormatOptions::length`], whatever the value; memory is read in proportion to
//! what is shown, and to repeated elements that are counted.

mod scalars;
mod sequences;

use std::sync::Arc;

use crate::types::{Kind, Language, Record, Type};
use crate::value::containers::{self, Container};
use crate::value::parts::{Label, Part};
use crate::value::{Absent, Contents, Value};
use crate::variables::Scope;

/// One of gdb's format letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `x`: hexadecimal.
    Hexadecimal,
    /// `z`: hexadecimal with all its zeroes.
    Padded,
    /// `d`: decimal with sign.
    Decimal,
    /// `u`: decimal without.
    Unsigned,
    /// `o`: octal.
    Octal,
    /// `t`: binary.
    Binary,
    /// `c`: a character.
    Character,
    /// `f`: floating point.
    Float,
    /// `s`: a string, where it can be one.
    Text,
    /// `a`: an address with its symbol.
    Address,
}

impl Format {
    /// By its letter.
    pub fn from_letter(letter: char) -> Option<Format> {
        Some(match letter {
            'x' => Format::Hexadecimal,
            'z' => Format::Padded,
            'd' => Format::Decimal,
            'u' => Format::Unsigned,
            'o' => Format::Octal,
            't' => Format::Binary,
            'c' => Format::Character,
            'f' => Format::Float,
            's' => Format::Text,
            'a' => Format::Address,
            _ => return None,
        })
    }

    fn letter(self) -> char {
        match self {
            Format::Hexadecimal | Format::Address | Format::Float => 'x',
            Format::Padded => 'z',
            Format::Decimal | Format::Character | Format::Text => 'd',
            Format::Unsigned => 'u',
            Format::Octal => 'o',
            Format::Binary => 't',
        }
    }
}

/// How much is shown, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatOptions {
    /// How numbers are written; None for what suits them.
    pub format: Option<Format>,
    /// Elements of an array and characters of a string.
    pub elements: usize,
    /// Structures within each other.
    pub depth: usize,
    /// Members as they are, no matter what they mean.
    pub raw: bool,
    /// The type of a pointer before it, as gdb's `print` has it.
    pub types: bool,
    /// Bytes of text, all in all.
    pub length: usize,
}

impl Default for FormatOptions {
    fn default() -> FormatOptions {
        FormatOptions {
            format: None,
            elements: 200,
            depth: 20,
            raw: false,
            types: true,
            length: 1 << 18,
        }
    }
}

impl Value {
    /// The value as text.
    pub fn format(&self, scope: &dyn Scope, options: &FormatOptions) -> String {
        let mut writer = Writer { scope, options, text: String::new() };
        writer.outermost(self);
        if writer.text.len() > options.length {
            let end = writer.text.floor_char_boundary(options.length);
            writer.text.truncate(end);
            writer.text.push_str("...");
        }
        writer.text
    }
}

struct Writer<'a> {
    scope: &'a dyn Scope,
    options: &'a FormatOptions,
    text: String,
}

/// The name of a type of Rust without what stands in angle brackets: `&[MaybeUninit]` for `&[MaybeUninit<u8>]`.
fn without_parameters(name: &str) -> String {
    let mut depth = 0usize;
    let mut last = ' ';
    let mut is_kept = |letter: char| {
        // The arrow of a function's result closes nothing.
        let closes = letter == '>' && last != '-';
        depth += usize::from(letter == '<');
        let is_kept = depth == 0;
        depth = depth.saturating_sub(usize::from(closes));
        last = letter;
        is_kept
    };
    name.chars().filter(|&letter| is_kept(letter)).collect()
}

impl Writer<'_> {
    fn push(&mut self, text: &str) {
        if !self.is_full() {
            self.text.push_str(text);
        }
    }

    fn is_full(&self) -> bool {
        self.text.len() > self.options.length
    }

    /// A value on its own: pointers and references say what they are.
    fn outermost(&mut self, value: &Value) {
        let ty = value.ty.strip();
        let is_there = !matches!(value.contents, Contents::OptimizedOut);
        let is_plain = self.options.format.is_none_or(|format| format == Format::Text);
        match ty.kind() {
            Kind::Pointer(target) if is_there && is_plain && self.options.types => {
                let target = target.follow();
                let is_text = scalars::is_plain_char(&target) && value.ty.own_name().is_none();
                let is_boxed =
                    !self.options.raw && containers::recognize(value, self.scope).is_some();
                if !is_text && !is_boxed {
                    self.push(&format!("({}) ", value.ty.name()));
                }
                self.value(value, 0);
            }
            Kind::Reference(target, _) if is_there => {
                self.outermost_reference(value, self.scope.sized(target.follow()));
            }
            _ => self.value(value, 0),
        }
    }

    fn outermost_reference(&mut self, value: &Value, target: Type) {
        if let Contents::Synthetic(pointer) = &value.contents {
            self.push("<synthetic pointer>: ");
            return match pointer.target_as(target, self.scope) {
                Some(referred) => self.value(&referred, 0),
                None => self.absent(Absent::OptimizedOut),
            };
        }
        let referred = match value.number(self.scope.machine()) {
            Ok(Some(address)) => Value::in_memory(target, address.to_integer() as u64),
            Ok(None) => return self.push("<error: a reference that is no address>"),
            Err(absent) => return self.absent(absent),
        };
        if !self.options.raw && containers::recognize(&referred, self.scope).is_some() {
            return self.value(&referred, 0);
        }
        if self.options.types && self.options.format.is_none() {
            self.push(&format!("({}) ", value.ty.name()));
        }
        if let (None, Contents::Memory(address)) = (self.options.format, &referred.contents) {
            self.push(&format!("@{address:#x}: "));
        }
        self.value(&referred, 0);
    }

    fn value(&mut self, value: &Value, depth: usize) {
        if self.is_full() {
            return;
        }
        if matches!(value.contents, Contents::OptimizedOut) {
            return self.push("<optimized out>");
        }
        if !self.options.raw
            && let Some(container) = containers::recognize(value, self.scope)
        {
            return self.container(container, depth);
        }
        let ty = value.ty.strip();
        match ty.kind() {
            Kind::Array { .. } => self.array(value, depth),
            Kind::Record(_) if ty.language() == Language::Rust => {
                self.rust_record(value, &ty, depth);
            }
            Kind::Record(record) if record.is_declaration => self.push("<incomplete type>"),
            Kind::Record(_) => self.record(value, depth),
            Kind::Function(_) => self.function(value),
            Kind::Void => self.push("void"),
            _ => self.scalar(value, &ty),
        }
    }

    fn absent(&mut self, absent: Absent) {
        match absent {
            Absent::OptimizedOut => self.push("<optimized out>"),
            Absent::Synthetic => self.push("<synthetic pointer>"),
            _ => self.push(&format!("<error: {absent}>")),
        }
    }

    fn function(&mut self, value: &Value) {
        let Contents::Memory(address) = value.contents else {
            return self.push("<optimized out>");
        };
        self.push(&format!("{{{}}} {address:#x}", value.ty.name()));
        self.symbol(address);
    }

    /// The symbol of an address in angle brackets, if it has one.
    fn symbol(&mut self, address: u64) {
        match self.scope.symbol(address) {
            Some((name, 0)) => self.push(&format!(" <{name}>")),
            Some((name, offset)) => self.push(&format!(" <{name}+{offset}>")),
            None => {}
        }
    }

    fn record(&mut self, value: &Value, depth: usize) {
        if depth >= self.options.depth {
            return self.push("{...}");
        }
        let mut parts = value.record_parts(self.scope);
        // Bases come first, wherever they stand.
        parts.sort_by_key(|part| !matches!(part.label, Label::Base(_)));
        let has_fields = parts.iter().any(|part| !matches!(part.label, Label::Base(_)));
        self.push("{");
        for (index, part) in parts.iter().enumerate() {
            if index > 0 {
                self.push(", ");
            }
            self.part(part, depth);
        }
        if !has_fields {
            self.push(if parts.is_empty() { "<No data fields>" } else { ", <No data fields>" });
        }
        self.push("}");
    }

    fn part(&mut self, part: &Part, depth: usize) {
        match &part.label {
            Label::Member(name) => self.push(&format!("{name} = ")),
            Label::Static(name) => self.push(&format!("static {name} = ")),
            Label::Base(name) => self.push(&format!("<{name}> = ")),
            Label::Anonymous => {}
        }
        match &part.value {
            Some(value) => self.value(value, depth + 1),
            None => self.push("<optimized out>"),
        }
    }

    fn container(&mut self, container: Container, depth: usize) {
        if depth >= self.options.depth {
            return self.push("{...}");
        }
        match container {
            Container::Text { address, length, width } => {
                self.text_at(address, length, width);
            }
            Container::Sequence { title, elements } if title.is_empty() => {
                self.array(&elements, depth)
            }
            Container::Sequence { title, elements } => {
                let count = elements.elements().map_or(0, |(_, count)| count);
                self.push(&title);
                if count > 0 {
                    self.push(" = ");
                    self.array(&elements, depth);
                }
            }
            Container::Pointer { title, pointer } => {
                self.push(&format!("{title} = {{get() = "));
                self.value(&pointer, depth + 1);
                self.push("}");
            }
            Container::Boxed(value) => {
                self.push("Box(");
                self.value(&value, depth + 1);
                self.push(")");
            }
        }
    }

    /// Structures, tuples and enumerations of Rust.
    fn rust_record(&mut self, value: &Value, ty: &Type, depth: usize) {
        if depth >= self.options.depth {
            return self.push("{...}");
        }
        let Some(record) = ty.record() else { return };
        if record.variants.is_some() {
            return match value
                .variant(record, self.scope)
                .and_then(|variant| variant.members.first())
            {
                Some(member) => match value.member_value(member, self.scope) {
                    Some(variant) => {
                        self.rust_fields(&variant, &variant.ty.strip(), member.name.as_ref(), depth)
                    }
                    None => self.push("<optimized out>"),
                },
                None => self.unknown_variant(value, record),
            };
        }
        self.rust_fields(value, ty, ty.own_name(), depth);
    }

    /// No variant is meant, or it cannot be read which one.
    fn unknown_variant(&mut self, value: &Value, record: &Record) {
        let discriminant = record.variants.as_ref().and_then(|all| all.discriminant.as_ref());
        let number = discriminant
            .and_then(|discriminant| value.member_value(discriminant, self.scope))
            .map(|number| number.number(self.scope.machine()));
        match number {
            Some(Err(absent)) => self.absent(absent),
            _ => self.push("<unknown variant>"),
        }
    }

    fn rust_fields(&mut self, value: &Value, ty: &Type, name: Option<&Arc<str>>, depth: usize) {
        let name = without_parameters(name.map_or("", |name| name));
        if !name.starts_with('(') {
            self.push(&name);
        }
        let parts = value.with_type(ty.clone()).record_parts(self.scope);
        if parts.is_empty() {
            return self.push(if name.starts_with('(') { "()" } else { "" });
        }
        let is_tuple = parts.iter().all(|part| part.label.text().starts_with("__"));
        self.push(if is_tuple { "(" } else { " {" });
        for (index, part) in parts.iter().enumerate() {
            if index > 0 {
                self.push(", ");
            }
            if !is_tuple {
                self.push(&format!("{}: ", part.label.text()));
            }
            match &part.value {
                Some(value) => self.value(value, depth + 1),
                None => self.push("<optimized out>"),
            }
        }
        self.push(if is_tuple { ")" } else { "}" });
    }
}
