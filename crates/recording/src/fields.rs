//! Fields of payloads: numbers as LEB128 and byte strings after their length, as in the events of a log.
//!
//! Payloads may grow by fields at their end: readers ignore what follows the fields they know.
//!
//! Invariant: reading never panics, and a hostile count or length allocates nothing, since every element
//! takes at least a byte of the payload and byte strings are slices of it.

/// Why a payload makes no sense.
pub(crate) type BadField = &'static str;

const CUT_SHORT: BadField = "a field is cut short";

/// Appends fields to a payload.
#[derive(Default)]
pub(crate) struct FieldWriter(Vec<u8>);

impl FieldWriter {
    pub(crate) fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// An absent value is 0, a present one is one more than itself. Values are far from the limit.
    pub(crate) fn optional(&mut self, value: Option<u64>) {
        self.number(value.map_or(0, |value| value.saturating_add(1)));
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.0
    }
}

/// Takes fields from a payload.
pub(crate) struct FieldReader<'a>(&'a [u8]);

impl<'a> FieldReader<'a> {
    pub(crate) fn new(payload: &'a [u8]) -> FieldReader<'a> {
        FieldReader(payload)
    }

    /// Whether there is nothing left: what was added to a payload later is not in old ones.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn number(&mut self) -> Result<u64, BadField> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first().ok_or(CUT_SHORT)?;
            self.0 = rest;
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

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], BadField> {
        let length = usize::try_from(self.number()?).map_err(|_| CUT_SHORT)?;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(CUT_SHORT)?;
        self.0 = rest;
        Ok(bytes)
    }

    pub(crate) fn text(&mut self) -> Result<String, BadField> {
        Ok(String::from_utf8_lossy(self.bytes()?).into_owned())
    }

    pub(crate) fn optional(&mut self) -> Result<Option<u64>, BadField> {
        Ok(self.number()?.checked_sub(1))
    }

    /// A number of elements to follow, each at least `least` bytes long.
    pub(crate) fn count(&mut self, least: usize) -> Result<usize, BadField> {
        let count = usize::try_from(self.number()?).map_err(|_| CUT_SHORT)?;
        if count > self.0.len() / least {
            return Err(CUT_SHORT);
        }
        Ok(count)
    }
}
