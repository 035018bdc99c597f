//! Numbers in the bytes of frames: LEB128, and bytes after their length.
//!
//! Invariant: reading never panics, and a hostile count allocates nothing, since every element takes at least a byte.

/// Why bytes make no sense.
pub(crate) type BadField = &'static str;

const CUT_SHORT: BadField = "a field is cut short";

/// Appends a number.
pub(crate) fn put_number(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Appends bytes after their length.
pub(crate) fn put_bytes(bytes: &mut Vec<u8>, contents: &[u8]) {
    put_number(bytes, contents.len() as u64);
    bytes.extend_from_slice(contents);
}

/// Takes fields from bytes.
#[derive(Clone, Debug)]
pub(crate) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Fields<'a> {
        Fields(bytes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All that was not taken.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.0
    }

    pub(crate) fn byte(&mut self) -> Result<u8, BadField> {
        let (&byte, rest) = self.0.split_first().ok_or(CUT_SHORT)?;
        self.0 = rest;
        Ok(byte)
    }

    pub(crate) fn number(&mut self) -> Result<u64, BadField> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err("a number is too long")
    }

    pub(crate) fn number32(&mut self) -> Result<u32, BadField> {
        u32::try_from(self.number()?).map_err(|_| "a number is too large")
    }

    /// So many bytes.
    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8], BadField> {
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(CUT_SHORT)?;
        self.0 = rest;
        Ok(bytes)
    }

    /// Bytes after their length.
    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], BadField> {
        let length = self.number()?;
        self.take(usize::try_from(length).map_err(|_| CUT_SHORT)?)
    }

    /// A number of elements to follow, each at least a byte long.
    pub(crate) fn count(&mut self) -> Result<usize, BadField> {
        let count = self.number()?;
        if count > self.0.len() as u64 {
            return Err(CUT_SHORT);
        }
        Ok(count as usize)
    }
}
