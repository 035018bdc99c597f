//! Arrays and strings.

use super::{Format, Writer};
use crate::types::Language;
use crate::value::format::scalars::character_width;
use crate::value::text::{self, REPEATS, Width};
use crate::value::{Absent, Contents, READ_LIMIT, Value, containers};

/// Bytes that are read at once while looking for the end of a string or of a repetition.
const STEP: usize = 256;

/// Elements that are compared to count repetitions.
const COMPARED_LIMIT: u64 = 1 << 20;

impl Writer<'_> {
    pub(super) fn array(&mut self, value: &Value, depth: usize) {
        let Some((element, count)) = value.elements() else { return };
        if let (0, Contents::Memory(address)) = (count, &value.contents)
            && element.language() != Language::Rust
        {
            // What has no length is as good as a pointer to its first element.
            return self.pointer(*address, &element);
        }
        let is_text = self.options.format.is_none_or(|format| format == Format::Text);
        if let Some(width) =
            character_width(&element).filter(|_| is_text && element.language() != Language::Rust)
        {
            return self.character_array(value, count, width);
        }
        if depth >= self.options.depth {
            return self.push("{...}");
        }
        let (open, close) =
            if element.language() == Language::Rust { ("[", "]") } else { ("{", "}") };
        self.push(open);
        self.elements(value, depth);
        self.push(close);
    }

    fn elements(&mut self, value: &Value, depth: usize) {
        let Some((element, count)) = value.elements() else { return };
        let element = self.scope.sized(element);
        let size = element.size().unwrap_or(0);
        let mut index = 0;
        let mut shown = 0;
        while index < count && shown < self.options.elements && !self.is_full() {
            if index > 0 {
                self.push(", ");
            }
            let current = value.part(index.saturating_mul(size), element.clone());
            let repeats = self.repeats(value, index, count, size);
            self.value(&current, depth + 1);
            if repeats > REPEATS as u64 {
                self.push(&format!(" <repeats {repeats} times>"));
                index += repeats;
                shown += REPEATS;
            } else {
                index += 1;
                shown += 1;
            }
        }
        if index < count {
            self.push("...");
        }
    }

    /// How many elements from one on are the same, byte for byte.
    fn repeats(&self, value: &Value, index: u64, count: u64, size: u64) -> u64 {
        if size == 0 || size > READ_LIMIT / 2 {
            return 1;
        }
        let read = |from: u64, elements: u64| {
            let ty = crate::types::Type::base("", crate::types::Encoding::Other, elements * size);
            let part = value.part(from.saturating_mul(size), ty);
            match Self::is_whole(&part) {
                true => part.raw_bytes(elements * size, self.scope.machine()).ok(),
                false => None,
            }
        };
        let Some(first) = read(index, 1) else { return 1 };
        let limit = count.min(index.saturating_add(COMPARED_LIMIT));
        let mut next = index + 1;
        // Small steps at first: mostly the next element is another one.
        let mut step = 1;
        while next < limit {
            let wanted = step.min(limit - next).min((STEP as u64 * 16 / size).max(1));
            let bytes = match read(next, wanted).or_else(|| read(next, 1)) {
                Some(bytes) => bytes,
                None => break,
            };
            let same = bytes.chunks_exact(size as usize).take_while(|chunk| *chunk == first).count()
                as u64;
            next += same;
            if same < bytes.len() as u64 / size {
                break;
            }
            step *= 2;
        }
        next - index
    }

    /// An array of characters is a string; one zero at its end is not shown.
    fn character_array(&mut self, value: &Value, count: u64, width: Width) {
        let size = count.saturating_mul(width.bytes as u64);
        let mut bytes = match &value.contents {
            Contents::Held(held) if !Self::is_whole(value) => {
                let _ = held;
                return self.push("<optimized out>");
            }
            _ => match value.raw_bytes(size.min(READ_LIMIT), self.scope.machine()) {
                Ok(bytes) => bytes,
                Err(absent) => return self.absent(absent),
            },
        };
        let goes_on = size > READ_LIMIT;
        let ends_in_zero = bytes.len() >= width.bytes
            && bytes[bytes.len() - width.bytes..].iter().all(|&byte| byte == 0);
        let is_cut = self.shows_less(&bytes, width);
        if ends_in_zero && !goes_on && !is_cut {
            bytes.truncate(bytes.len() - width.bytes);
        }
        self.push(&text::quoted(&bytes, width, self.options.elements, goes_on));
    }

    /// Whether a string is longer than what is shown of it when everything behind its last character is zeroes.
    fn shows_less(&self, bytes: &[u8], width: Width) -> bool {
        let trailing = bytes
            .chunks_exact(width.bytes)
            .rev()
            .take_while(|unit| unit.iter().all(|&byte| byte == 0));
        let zeroes = trailing.count();
        let before = bytes.len() / width.bytes - zeroes;
        // The one zero that ends a text of just that length is none of it.
        before > self.options.elements || before == self.options.elements && zeroes > 1
    }

    /// A string in memory up to its zero.
    pub(super) fn terminated_text(&mut self, address: u64, width: Width) {
        let limit = self.options.elements * width.bytes;
        let mut bytes = Vec::new();
        while bytes.len() < limit {
            let at = address.wrapping_add(bytes.len() as u64);
            let Some(mut step) = self.readable(at, width) else { break };
            let zero =
                step.chunks_exact(width.bytes).position(|unit| unit.iter().all(|&byte| byte == 0));
            if let Some(zero) = zero {
                step.truncate(zero * width.bytes);
                bytes.extend(step);
                // Neither is a repetition counted further than is shown.
                let goes_on = bytes.len() > limit;
                bytes.truncate(limit);
                let shown = text::quoted(&bytes, width, self.options.elements, goes_on);
                return self.push(&shown);
            }
            bytes.extend(step);
        }
        if bytes.is_empty() {
            return self.absent(Absent::Unreadable(address));
        }
        let is_broken = bytes.len() < limit;
        bytes.truncate(limit);
        let shown = text::quoted(&bytes, width, self.options.elements, !is_broken);
        self.push(&shown);
        if is_broken {
            let end = address.wrapping_add(bytes.len() as u64);
            self.absent(Absent::Unreadable(end));
        }
    }

    /// Some bytes at an address: as many as can be read without leaving the last page that is there.
    fn readable(&self, address: u64, width: Width) -> Option<Vec<u8>> {
        let to_page_end = 4096 - (address % 4096) as usize;
        let length = STEP.min(to_page_end.max(width.bytes)) / width.bytes * width.bytes;
        let mut bytes = vec![0; length];
        self.scope.machine().read(address, &mut bytes).then_some(bytes)
    }

    pub(super) fn text_at(&mut self, address: u64, length: u64, width: Width) {
        match containers::text_bytes(self.scope, address, length, width, self.options.elements) {
            Ok((bytes, goes_on)) => {
                let shown = text::quoted(&bytes, width, self.options.elements, goes_on);
                self.push(&shown);
            }
            Err(absent) => self.absent(absent),
        }
    }
}
