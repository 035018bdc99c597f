//! Memory mapping: the engine decides where things go and keeps its own account of them.
//!
//! Every function makes the real call first and changes the account only when it succeeded. All of it
//! happens under the engine's lock, so that the translator never sees a half-made change.

use super::{Args, Outcome, limits, pass};
use crate::cache::pages::real_protection;
use crate::dispatch::{Engine, engine};
use crate::guest_memory as guest;
use crate::maps::{Backing, Mapping};
use crate::record::{self, maps::Source};
use crate::sys::{self, Errno, Result};
use linux_raw_sys::general as c;
use retro_abi::layout::{GUEST_END, GUEST_LIMIT, GUEST_MIN, PAGE};

const MAP_TYPE: u32 = 0xf;
const MAP_SHARED_VALIDATE: u32 = 3;
/// One past the last address of user space, for errors that depend on it.
const TASK_SIZE: u64 = 0x7fff_ffff_f000;

fn page_up(value: u64) -> Option<u64> {
    value.checked_next_multiple_of(PAGE)
}

/// `mmap`
pub fn mmap(args: &Args) -> Result<u64> {
    let [address, len, prot, flags, fd, offset] = *args;
    let (prot, flags, fd) = (prot as u32, flags as u32, fd as i32);
    if len == 0 {
        return Err(Errno::EINVAL);
    }
    let alignment = if flags & c::MAP_HUGETLB != 0 { 2 << 20 } else { PAGE };
    let len = len.checked_next_multiple_of(alignment).ok_or(Errno::ENOMEM)?;
    if len > GUEST_LIMIT {
        return Err(Errno::ENOMEM);
    }
    let engine = &mut *engine();
    let fixed = flags & (c::MAP_FIXED | c::MAP_FIXED_NOREPLACE) != 0;
    let at = if fixed {
        fixed_place(engine, address, len, flags)?
    } else {
        place(engine, address, len, flags)?
    };
    let private_data = prot & c::PROT_WRITE != 0
        && !matches!(flags & MAP_TYPE, c::MAP_SHARED | MAP_SHARED_VALIDATE);
    limits::allow(&engine.space, len, private_data)?;
    let how = if flags & c::MAP_FIXED != 0 { c::MAP_FIXED } else { c::MAP_FIXED_NOREPLACE };
    let kept = flags & !(c::MAP_FIXED | c::MAP_FIXED_NOREPLACE | c::MAP_32BIT);
    // SAFETY: the range is the guest's.
    let mapped = unsafe { sys::mmap(at, len, real_protection(prot), kept | how, fd, offset) };
    let kernel_chooses = address == 0 && !fixed && flags & c::MAP_ANONYMOUS == 0;
    let (at, mapped) = match mapped {
        Err(Errno::EINVAL) if kernel_chooses => {
            let place = mmap_where_kernel_likes(engine, len, prot, kept, fd, offset)?;
            (place, place)
        }
        mapped => (at, mapped?),
    };
    if mapped != at {
        // A kernel without MAP_FIXED_NOREPLACE took the address as a hint and found it used.
        // SAFETY: just mapped, and unused.
        let _ = unsafe { sys::munmap(mapped, len) };
        return Err(Errno::ENOMEM);
    }
    let backing = match flags & MAP_TYPE {
        c::MAP_SHARED | MAP_SHARED_VALIDATE => Backing::Shared,
        _ if flags & c::MAP_ANONYMOUS != 0 => Backing::Anonymous,
        _ => Backing::File,
    };
    engine.cache.invalidate_range(at, at + len);
    engine.code_changes(at, at + len);
    engine.space.insert(Mapping { start: at, end: at + len, prot: prot & 7, backing });
    if backing == Backing::Shared && prot & c::PROT_WRITE != 0 {
        engine.memory_is_shared();
    }
    let source = (flags & c::MAP_ANONYMOUS == 0).then_some(Source { fd, offset });
    record::maps::mapped(at, len, prot & 7, flags, source);
    Ok(at)
}

/// Maps a file whose driver insists on the choice of the address (rings of `io_uring`). Asked for the lower 2 GiB, the
/// kernel chooses in the guest's range.
fn mmap_where_kernel_likes(
    engine: &Engine,
    len: u64,
    prot: u32,
    flags: u32,
    fd: i32,
    offset: u64,
) -> Result<u64> {
    // SAFETY: the kernel chooses what is free.
    let mapped =
        unsafe { sys::mmap(0, len, real_protection(prot), flags | c::MAP_32BIT, fd, offset)? };
    if mapped < GUEST_MIN || mapped + len > GUEST_END || !engine.space.is_free(mapped, mapped + len)
    {
        // SAFETY: just mapped, and unused.
        let _ = unsafe { sys::munmap(mapped, len) };
        return Err(Errno::ENOMEM);
    }
    Ok(mapped)
}

fn fixed_place(engine: &Engine, address: u64, len: u64, flags: u32) -> Result<u64> {
    if !address.is_multiple_of(PAGE) {
        return Err(Errno::EINVAL);
    }
    let end = address.checked_add(len).ok_or(Errno::ENOMEM)?;
    if end > GUEST_LIMIT || !can_be_followed(address, end) {
        return Err(Errno::ENOMEM);
    }
    if flags & c::MAP_FIXED_NOREPLACE != 0 && !engine.space.is_free(address, end) {
        return Err(Errno::EEXIST);
    }
    Ok(address)
}

/// While recording, guest memory must have a shadow.
fn can_be_followed(start: u64, end: u64) -> bool {
    !record::watching() || record::shadow::covers(start, end)
}

fn place(engine: &Engine, hint: u64, len: u64, flags: u32) -> Result<u64> {
    let hint = hint & !(PAGE - 1);
    let space = &engine.space;
    if hint >= GUEST_MIN
        && hint.checked_add(len).is_some_and(|end| {
            end <= GUEST_LIMIT && space.is_free(hint, end) && can_be_followed(hint, end)
        })
        && (flags & c::MAP_32BIT == 0 || hint + len <= 1 << 31)
    {
        return Ok(hint);
    }
    let found = if flags & c::MAP_32BIT != 0 {
        space.place_low(len)
    } else if flags & c::MAP_ANONYMOUS == 0 {
        space.place_module(len)
    } else {
        space.place(len)
    };
    found.ok_or(Errno::ENOMEM)
}

/// Checks a range that a call names; its rounded length.
fn range(address: u64, len: u64, outside: Errno) -> Result<(u64, u64)> {
    if !address.is_multiple_of(PAGE) {
        return Err(Errno::EINVAL);
    }
    let len = page_up(len).ok_or(Errno::EINVAL)?;
    let end = address.checked_add(len).ok_or(Errno::EINVAL)?;
    if end > TASK_SIZE {
        return Err(Errno::EINVAL);
    }
    if end > GUEST_LIMIT || !can_be_followed(address, end) {
        return Err(outside);
    }
    Ok((address, end))
}

/// `munmap`
pub fn munmap(args: &Args) -> Result<()> {
    if args[1] == 0 {
        return Err(Errno::EINVAL);
    }
    let (start, end) = match range(args[0], args[1], Errno::ENOMEM) {
        // Nothing of the guest is there, and unmapping nothing succeeds.
        Err(Errno::ENOMEM) => {
            let end = if record::watching() { GUEST_END } else { GUEST_LIMIT };
            (args[0].min(end), end)
        }
        other => other?,
    };
    if start == end {
        return Ok(());
    }
    let engine = &mut *engine();
    // SAFETY: the range is the guest's.
    unsafe { sys::munmap(start, end - start)? };
    engine.cache.invalidate_range(start, end);
    engine.code_changes(start, end);
    engine.space.remove(start, end);
    record::maps::unmapped(start, end - start);
    Ok(())
}

/// `mprotect` and `pkey_mprotect`
pub fn mprotect(args: &Args, key: Option<u64>) -> Result<()> {
    if key.is_some_and(|key| key as i32 != -1 && key != 0) {
        return Err(Errno::EINVAL);
    }
    let prot = args[2] as u32;
    if args[1] == 0 {
        return if args[0].is_multiple_of(PAGE) { Ok(()) } else { Err(Errno::EINVAL) };
    }
    let (start, end) = range(args[0], args[1], Errno::ENOMEM)?;
    let engine = &mut *engine();
    // SAFETY: the range is the guest's.
    let result = unsafe { sys::mprotect(start, end - start, real_protection(prot)) };
    let changed_to = match result {
        Ok(()) => end,
        // The kernel changes what it can and stops at the first hole.
        Err(Errno::ENOMEM) => first_hole(engine, start, end),
        Err(error) => return Err(error),
    };
    if changed_to > start {
        if prot & c::PROT_EXEC == 0 || prot & c::PROT_WRITE != 0 {
            engine.code_changes(start, changed_to);
        }
        let writable = prot & c::PROT_WRITE != 0;
        if writable && engine.space.overlapping(start, changed_to).any(Mapping::shared) {
            engine.memory_is_shared();
        }
        let stays_code = prot & c::PROT_EXEC != 0 && prot & c::PROT_WRITE == 0;
        if stays_code {
            engine.cache.release_protection(start, changed_to);
        } else {
            engine.cache.invalidate_range(start, changed_to);
        }
        engine.space.protect(start, changed_to, prot & 7);
        record::maps::protected(start, changed_to - start, prot & 7);
    }
    result
}

fn first_hole(engine: &Engine, start: u64, end: u64) -> u64 {
    let mut reached = start;
    for mapping in engine.space.overlapping(start, end) {
        if mapping.start > reached {
            break;
        }
        reached = mapping.end.min(end);
    }
    reached
}

fn mremap_raw(old: u64, old_len: u64, new_len: u64, flags: u32, to: u64) -> Result<u64> {
    // SAFETY: the callers have checked that both ranges are the guest's.
    sys::check(unsafe {
        sys::syscall(c::__NR_mremap, [old, old_len, new_len, flags as u64, to, 0])
    })
}

/// `mremap`
pub fn mremap(args: &Args) -> Result<u64> {
    let [old, old_len, new_len, flags, to, _] = *args;
    let flags = flags as u32;
    let (fixed, may_move) = (flags & c::MREMAP_FIXED != 0, flags & c::MREMAP_MAYMOVE != 0);
    let keep_old = flags & c::MREMAP_DONTUNMAP != 0;
    let (start, end) = range(old, old_len, Errno::EFAULT)?;
    let new_len =
        page_up(new_len).filter(|&len| len != 0 && len <= GUEST_LIMIT).ok_or(Errno::EINVAL)?;
    if (fixed || keep_old) && !may_move {
        return Err(Errno::EINVAL);
    }
    let engine = &mut *engine();
    let Some(&source) = engine.space.find(start) else { return Err(Errno::EFAULT) };
    if new_len > end - start {
        let data = source.writable() && !source.shared();
        limits::allow(&engine.space, new_len - (end - start), data)?;
    }
    // Moved pages keep their real protection, so none of them may be the engine's doing.
    engine.cache.invalidate_range(start, end.max(start + PAGE));
    restore_protection(engine, start, end);
    let moved_to = if fixed {
        let (to, to_end) = range(to, new_len, Errno::EINVAL)?;
        if !can_be_followed(to, to_end) {
            return Err(Errno::ENOMEM);
        }
        mremap_raw(start, old_len, new_len, flags, to)?;
        engine.cache.invalidate_range(to, to_end);
        to
    } else {
        let in_place = if keep_old || old_len == 0 {
            Err(Errno::ENOMEM)
        } else {
            mremap_raw(start, old_len, new_len, 0, 0)
        };
        match in_place {
            Ok(at) => at,
            Err(Errno::ENOMEM) if may_move => {
                let to = match source.backing {
                    Backing::File => engine.space.place_module(new_len),
                    _ => engine.space.place(new_len),
                };
                let to = to.ok_or(Errno::ENOMEM)?;
                mremap_raw(start, old_len, new_len, flags | c::MREMAP_FIXED, to)?
            }
            Err(error) => return Err(error),
        }
    };
    engine.code_changes(start, end);
    engine.code_changes(moved_to, moved_to + new_len);
    if !keep_old && end > start {
        engine.space.remove(start, end);
    }
    let mapping = Mapping { start: moved_to, end: moved_to + new_len, ..source };
    engine.space.insert(mapping);
    record::maps::moved(start, end - start, moved_to, new_len, source.prot, keep_old);
    Ok(moved_to)
}

/// Gives a range the protection that the guest believes in.
fn restore_protection(engine: &Engine, start: u64, end: u64) {
    for mapping in engine.space.overlapping(start, end) {
        if mapping.writable() && mapping.executable() {
            let (from, to) = (mapping.start.max(start), mapping.end.min(end));
            // SAFETY: guest memory gets the rights the guest gave it.
            let _ = unsafe { sys::mprotect(from, to - from, real_protection(mapping.prot)) };
        }
    }
}

/// `brk`: returns the new end, or the old one on failure, as the kernel does.
pub fn brk(wanted: u64) -> u64 {
    let engine = &mut *engine();
    let (start, end) = engine.heap;
    if wanted < start || wanted > GUEST_END || wanted - start > limits::data() {
        return end;
    }
    let (Some(old_top), Some(new_top)) = (page_up(end), page_up(wanted)) else { return end };
    if new_top > old_top {
        let allowed = limits::allow(&engine.space, new_top - old_top, true).is_ok();
        if !allowed || !engine.space.is_free(old_top, new_top) {
            return end;
        }
        let prot = c::PROT_READ | c::PROT_WRITE;
        let flags = c::MAP_PRIVATE | c::MAP_ANONYMOUS | c::MAP_FIXED_NOREPLACE;
        // SAFETY: the range is free, and the guest's.
        if unsafe { sys::mmap(old_top, new_top - old_top, prot, flags, -1, 0) } != Ok(old_top) {
            return end;
        }
        let backing = Backing::Heap;
        engine.space.insert(Mapping { start: old_top, end: new_top, prot, backing });
        record::maps::mapped(old_top, new_top - old_top, prot, flags, None);
    } else if new_top < old_top {
        // SAFETY: the guest gives this part of its heap back.
        let _ = unsafe { sys::munmap(new_top, old_top - new_top) };
        engine.cache.invalidate_range(new_top, old_top);
        engine.space.remove(new_top, old_top);
        record::maps::unmapped(new_top, old_top - new_top);
    }
    engine.heap.1 = wanted;
    wanted
}

/// `madvise`
pub fn madvise(args: &Args) -> Outcome {
    if args[0] >= GUEST_LIMIT && args[1] != 0 {
        return Errno::ENOMEM.into();
    }
    let drops_contents = matches!(
        args[2] as u32,
        c::MADV_DONTNEED | c::MADV_FREE | c::MADV_REMOVE | c::MADV_DONTNEED_LOCKED
    );
    if drops_contents && let Ok((start, end)) = range(args[0], args[1], Errno::ENOMEM) {
        let engine = &mut *engine();
        engine.cache.invalidate_range(start, end.max(start));
        restore_protection(engine, start, end);
    }
    let outcome = pass(c::__NR_madvise, args);
    let dropped =
        matches!(args[2] as u32, c::MADV_DONTNEED | c::MADV_REMOVE | c::MADV_DONTNEED_LOCKED);
    if dropped
        && outcome == Outcome::Value(0)
        && let Ok((start, end)) = range(args[0], args[1], Errno::ENOMEM)
    {
        record::maps::discarded(start, end - start);
    }
    outcome
}

/// `mlockall`: the kernel would lock the shadow too. What is mapped is locked piece by piece; for what will be
/// mapped there is no such way, and it is let go.
pub fn mlockall(args: &Args) -> Outcome {
    const MCL_CURRENT: u64 = 1;
    const MCL_KNOWN: u64 = 7;
    if args[0] == 0 || args[0] & !MCL_KNOWN != 0 {
        return Errno::EINVAL.into();
    }
    if args[0] & MCL_CURRENT != 0 {
        let engine = engine();
        for mapping in engine.space.mappings().filter(|m| m.backing != Backing::Stack) {
            let args = [mapping.start, mapping.end - mapping.start, 0, 0, 0, 0];
            // SAFETY: locks guest memory.
            let locked = sys::check(unsafe { sys::syscall(c::__NR_mlock, args) });
            if let Err(error @ (Errno::EPERM | Errno::EAGAIN)) = locked {
                return error.into();
            }
        }
    }
    Outcome::Value(0)
}

/// Size of a System V segment.
fn segment_size(id: u64) -> Result<u64> {
    // SAFETY: all-zero is a valid value of this plain C struct.
    let mut status = [0u64; 32];
    const IPC_STAT: u64 = 2;
    // SAFETY: the kernel writes struct shmid64_ds (112 bytes) into a larger buffer.
    sys::check(unsafe {
        sys::syscall(c::__NR_shmctl, [id, IPC_STAT, status.as_mut_ptr() as u64, 0, 0, 0])
    })?;
    // shm_segsz follows struct ipc64_perm, which has 48 bytes.
    Ok(status[6])
}

/// `shmat`
pub fn shmat(args: &Args) -> Result<u64> {
    const SHM_RDONLY: u64 = 0o10000;
    const SHM_RND: u64 = 0o20000;
    const SHM_REMAP: u64 = 0o40000;
    const SHM_EXEC: u64 = 0o100000;
    let [id, mut address, flags, ..] = *args;
    let len = page_up(segment_size(id)?).ok_or(Errno::EINVAL)?;
    let engine = &mut *engine();
    if address == 0 {
        address = engine.space.place(len).ok_or(Errno::ENOMEM)?;
    } else if flags & SHM_RND != 0 {
        address &= !(PAGE - 1);
    }
    let (start, end) = range(address, len, Errno::EINVAL)?;
    if flags & SHM_REMAP == 0 && !engine.space.is_free(start, end) {
        return Err(Errno::EINVAL);
    }
    // SAFETY: the range is the guest's.
    let at = sys::check(unsafe { sys::syscall(c::__NR_shmat, [id, start, flags, 0, 0, 0]) })?;
    let mut prot = c::PROT_READ;
    if flags & SHM_RDONLY == 0 {
        prot |= c::PROT_WRITE;
    }
    if flags & SHM_EXEC != 0 {
        prot |= c::PROT_EXEC;
    }
    engine.cache.invalidate_range(at, end);
    engine.memory_is_shared();
    engine.space.insert(Mapping { start: at, end, prot, backing: Backing::SharedSegment });
    record::maps::mapped(at, end - at, prot, c::MAP_SHARED, None);
    Ok(at)
}

/// `shmdt`
pub fn shmdt(args: &Args) -> Result<()> {
    let address = args[0];
    if address >= GUEST_LIMIT {
        return Err(Errno::EINVAL);
    }
    let engine = &mut *engine();
    // SAFETY: the segment at this address is the guest's.
    sys::check(unsafe { sys::syscall(c::__NR_shmdt, [address, 0, 0, 0, 0, 0]) })?;
    let segment = engine.space.find(address).copied();
    if let Some(segment) = segment.filter(|m| m.backing == Backing::SharedSegment) {
        engine.cache.invalidate_range(segment.start, segment.end);
        engine.space.remove(segment.start, segment.end);
        record::maps::unmapped(segment.start, segment.end - segment.start);
    }
    Ok(())
}

/// `io_setup`: the kernel maps a ring where it likes, and names the context by its address. The ring is
/// `io_uring_setup`: from now on the kernel may write any memory at any time, as another process would.
pub fn io_uring_setup(args: &Args) -> Outcome {
    let outcome = pass(c::__NR_io_uring_setup, args);
    if let Outcome::Value(value) = outcome
        && sys::check(value).is_ok()
    {
        let engine = &mut *engine();
        engine.cache.check_all_pages(&engine.space);
        engine.memory_is_shared();
    }
    outcome
}

/// moved to the guest's range, and its name with it.
pub fn io_setup(args: &Args) -> Outcome {
    let outcome = pass(c::__NR_io_setup, args);
    if outcome != Outcome::Value(0) {
        return outcome;
    }
    let moved = guest::read_u64(args[1]).and_then(|ring| {
        let len = super::files::mapping_length(ring)?;
        let engine = &mut *engine();
        let to = engine.space.place(len).ok_or(Errno::ENOMEM)?;
        mremap_raw(ring, len, len, c::MREMAP_MAYMOVE | c::MREMAP_FIXED, to)?;
        let prot = c::PROT_READ | c::PROT_WRITE;
        engine.space.insert(Mapping { start: to, end: to + len, prot, backing: Backing::Shared });
        record::maps::mapped(to, len, prot, c::MAP_SHARED, None);
        guest::write_u64(args[1], to)
    });
    moved.into()
}

/// `io_destroy`
pub fn io_destroy(args: &Args) -> Outcome {
    let outcome = pass(c::__NR_io_destroy, args);
    if outcome == Outcome::Value(0) {
        let engine = &mut *engine();
        if let Some(ring) = engine.space.find(args[0]).copied().filter(|m| m.start == args[0]) {
            engine.space.remove(ring.start, ring.end);
            record::maps::unmapped(ring.start, ring.end - ring.start);
        }
    }
    outcome
}

/// `remap_file_pages`
pub fn remap_file_pages(args: &Args) -> Outcome {
    if let Ok((start, end)) = range(args[0], args[1], Errno::EINVAL) {
        engine().cache.invalidate_range(start, end.max(start));
        pass(c::__NR_remap_file_pages, args)
    } else {
        Errno::EINVAL.into()
    }
}
