//! Numbers of either sign in the bytes of frames: small ones are short.

use crate::frames::fields::{BadField, Fields, put_number};

/// Appends a number that may be negative.
pub(super) fn put_signed(bytes: &mut Vec<u8>, value: i64) {
    put_number(bytes, ((value << 1) ^ (value >> 63)) as u64);
}

/// Appends how far a number is from another, either way.
pub(super) fn put_difference(bytes: &mut Vec<u8>, value: u64, from: u64) {
    put_signed(bytes, value.wrapping_sub(from) as i64);
}

/// Takes a number that may be negative.
pub(super) fn take_signed(fields: &mut Fields<'_>) -> Result<i64, BadField> {
    let value = fields.number()?;
    Ok((value >> 1) as i64 ^ -((value & 1) as i64))
}

/// Takes a number that is given by how far it is from another.
pub(super) fn take_difference(fields: &mut Fields<'_>, from: u64) -> Result<u64, BadField> {
    Ok(from.wrapping_add(take_signed(fields)? as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_either_sign_come_back() {
        let values = [0, 1, -1, 63, -64, 64, i64::MAX, i64::MIN];
        let mut bytes = Vec::new();
        values.iter().for_each(|&value| put_signed(&mut bytes, value));
        put_difference(&mut bytes, 3, u64::MAX);
        let mut fields = Fields::new(&bytes);
        values.iter().for_each(|&value| assert_eq!(take_signed(&mut fields), Ok(value)));
        assert_eq!(take_difference(&mut fields, u64::MAX), Ok(3));
        assert!(fields.is_empty());
    }
}
