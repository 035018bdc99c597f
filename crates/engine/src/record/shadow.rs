//! The shadow: a second copy of guest memory that holds exactly what a replay's memory will hold.
//!
//! It is one large anonymous mapping at a fixed distance from guest memory, which the kernel fills with zero pages
//! as they are touched. Emitted code reaches it through GS; here is what the engine does with it.
//!
//! Invariants: a byte of the shadow changes only together with a store of the guest, with an event of the log, or
//! with a change of the address space that is logged. A forked child sees it zero (`MADV_WIPEONFORK`).

use crate::entry;
use crate::sys::{self, Result};
use linux_raw_sys::general as c;
use retro_abi::layout::{GUEST_END, ISLAND_END, ISLAND_START, PAGE, SHADOW_DISTANCE};

/// Maps the shadow. Fails where address space is limited or overcommitting is forbidden.
pub fn create() -> Result<()> {
    let first = (SHADOW_DISTANCE & !(PAGE - 1)) + PAGE;
    for (start, end) in [
        (first, SHADOW_DISTANCE + GUEST_END),
        (SHADOW_DISTANCE + ISLAND_START, SHADOW_DISTANCE + ISLAND_END),
    ] {
        let start = start & !(PAGE - 1);
        let len = end.next_multiple_of(PAGE) - start;
        let prot = c::PROT_READ | c::PROT_WRITE;
        let flags = c::MAP_PRIVATE | c::MAP_ANONYMOUS | c::MAP_NORESERVE | c::MAP_FIXED_NOREPLACE;
        // SAFETY: MAP_FIXED_NOREPLACE never replaces a mapping.
        match unsafe { sys::mmap(start, len, prot, flags, -1, 0) } {
            // In the legacy layout the kernel has put the vDSO here, which nobody uses. Nothing else is below
            // the stack yet.
            Err(sys::Errno::EEXIST) if start < GUEST_END + SHADOW_DISTANCE => {
                let flags = flags & !c::MAP_FIXED_NOREPLACE | c::MAP_FIXED;
                // SAFETY: the engine's own memory lies elsewhere, see the layout.
                unsafe { sys::mmap(start, len, prot, flags, -1, 0)? };
            }
            mapped => drop(mapped?),
        }
        sys::advise(start, len, c::MADV_WIPEONFORK);
        sys::advise(start, len, c::MADV_DONTDUMP);
        // Most of the shadow is touched sparsely.
        sys::advise(start, len, c::MADV_NOHUGEPAGE);
    }
    Ok(())
}

/// Whether an address has a shadow.
pub fn covers(start: u64, end: u64) -> bool {
    end <= GUEST_END || start >= ISLAND_START && end <= ISLAND_END
}

/// Shadow address of a guest address.
fn of(address: u64) -> u64 {
    address.wrapping_add(SHADOW_DISTANCE)
}

/// The shadow of a range.
///
/// The caller must not keep it across anything else that uses the shadow.
pub fn bytes(address: u64, len: usize) -> &'static mut [u8] {
    debug_assert!(covers(address, address + len as u64));
    // SAFETY: the shadow of every guest address is mapped for good. Guest code and the engine take turns on
    // it: only the thread that runs the guest gets here.
    unsafe { core::slice::from_raw_parts_mut(of(address) as *mut u8, len) }
}

/// Makes a range zero.
pub fn clear(start: u64, end: u64) {
    let (from, to) = (of(start), of(end));
    let (first, last) = (from.next_multiple_of(PAGE), to & !(PAGE - 1));
    if first >= last {
        bytes(start, (end - start) as usize).fill(0);
        return;
    }
    // Filling would allocate pages that are not there; what is zero already is left alone.
    for (edge, len) in [(start, first - from), (end - (to - last), to - last)] {
        let edge = bytes(edge, len as usize);
        if edge.iter().any(|&byte| byte != 0) {
            edge.fill(0);
        }
    }
    sys::advise(first, last - first, c::MADV_DONTNEED);
}

/// Moves the shadow along with guest memory.
pub fn relocate(from: u64, to: u64, len: u64) {
    let (start, end) = (of(from), of(from) + len);
    let (first, last) = (start.next_multiple_of(PAGE), end & !(PAGE - 1));
    let delta = to.wrapping_sub(from);
    clear(to, to + len);
    if first < last {
        let flags = (c::MREMAP_MAYMOVE | c::MREMAP_FIXED | c::MREMAP_DONTUNMAP) as u64;
        let target = first.wrapping_add(delta);
        let args = [first, last - first, last - first, flags, target, 0];
        // SAFETY: both ranges are whole pages of the shadow of guest memory that is being moved likewise.
        let moved = sys::check(unsafe { sys::syscall(c::__NR_mremap, args) });
        if moved.is_err() {
            copy_over(from + (first - start), to + (first - start), (last - first) as usize);
        }
        copy_over(from, to, (first - start) as usize);
        copy_over(from + (last - start), to + (last - start), (end - last) as usize);
    } else {
        copy_over(from, to, len as usize);
    }
    clear(from, from + len);
}

fn copy_over(from: u64, to: u64, len: usize) {
    if len > 0 {
        let source = bytes(from, len);
        bytes(to, len).copy_from_slice(source);
    }
}

/// Copies guest memory to the shadow, silently: what the guest itself has just written.
pub fn follow(address: u64, len: usize) {
    // SAFETY: the shadow is mapped; faults on the guest's side end the copy.
    unsafe { entry::copy(of(address) as *mut u8, address as *const u8, len) };
}
