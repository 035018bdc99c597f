//! Access to guest memory that may not be there.
//!
//! The guest's pointers are its own business: every access here reports a fault instead of dying of
//! it, as the kernel would with EFAULT.

use crate::entry;
use crate::sys::{Errno, Result};
use alloc::vec::Vec;
use retro_abi::layout::{GUEST_LIMIT, PAGE};

/// Copies from the guest; returns how many bytes were read before a fault.
pub fn read_partial(address: u64, buffer: &mut [u8]) -> usize {
    // SAFETY: the destination is borrowed; faults on the source end the copy.
    let left = unsafe { entry::copy(buffer.as_mut_ptr(), address as *const u8, buffer.len()) };
    buffer.len() - left
}

/// Copies from the guest.
pub fn read(address: u64, buffer: &mut [u8]) -> Result<()> {
    if read_partial(address, buffer) == buffer.len() { Ok(()) } else { Err(Errno::EFAULT) }
}

/// Copies to the guest. Addresses above the guest's range are refused: they are the engine's.
pub fn write(address: u64, bytes: &[u8]) -> Result<()> {
    if address.checked_add(bytes.len() as u64).is_none_or(|end| end > GUEST_LIMIT) {
        return Err(Errno::EFAULT);
    }
    // SAFETY: the source is borrowed; the destination is in the guest's range; faults end the copy.
    let left = unsafe { entry::copy(address as *mut u8, bytes.as_ptr(), bytes.len()) };
    if left == 0 { Ok(()) } else { Err(Errno::EFAULT) }
}

/// Reads a plain value.
pub fn read_u64(address: u64) -> Result<u64> {
    let mut bytes = [0; 8];
    read(address, &mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

/// Writes a plain value.
pub fn write_u64(address: u64, value: u64) -> Result<()> {
    write(address, &value.to_le_bytes())
}

/// Reads a plain C structure.
///
/// # Safety
/// Every byte pattern must be a valid `T`.
pub unsafe fn read_value<T: Copy>(address: u64) -> Result<T> {
    let mut value = core::mem::MaybeUninit::<T>::zeroed();
    // SAFETY: the bytes belong to `value`.
    let bytes =
        unsafe { core::slice::from_raw_parts_mut(value.as_mut_ptr().cast::<u8>(), size_of::<T>()) };
    read(address, bytes)?;
    // SAFETY: all bytes are written, and any pattern is valid.
    Ok(unsafe { value.assume_init() })
}

/// Writes a plain C structure.
pub fn write_value<T: Copy>(address: u64, value: &T) -> Result<()> {
    // SAFETY: reading a value's bytes; padding may be anything.
    let bytes = unsafe {
        core::slice::from_raw_parts(core::ptr::from_ref(value).cast::<u8>(), size_of::<T>())
    };
    write(address, bytes)
}

/// Reads a NUL-terminated string, with its NUL, of at most `limit` bytes.
pub fn read_string(address: u64, limit: usize) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    let mut at = address;
    let mut chunk = [0u8; 256];
    loop {
        // Never beyond the page that is known to be there.
        let in_page = (PAGE - at % PAGE) as usize;
        let want = in_page.min(chunk.len());
        read(at, &mut chunk[..want])?;
        if let Some(end) = chunk[..want].iter().position(|&b| b == 0) {
            text.extend_from_slice(&chunk[..=end]);
            return if text.len() <= limit { Ok(text) } else { Err(Errno::ENAMETOOLONG) };
        }
        text.extend_from_slice(&chunk[..want]);
        if text.len() > limit {
            return Err(Errno::ENAMETOOLONG);
        }
        at += want as u64;
    }
}
