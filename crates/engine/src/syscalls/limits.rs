//! Limits on memory that must not hit the engine: RLIMIT_AS and RLIMIT_DATA.
//!
//! The kernel would count the engine's own memory against them, and refuse it memory in the middle of a
//! translation. So they are kept here, for the guest to read and for its mappings to be measured by, and
//! become real only for the next program: the hard limits stay the kernel's, and while the guest runs the
//! real soft limits are as high as they allow.

use super::{Args, Outcome};
use crate::guest_memory as guest;
use crate::maps::AddressSpace;
use crate::sys::{self, Errno, Result};
use core::sync::atomic::{AtomicU64, Ordering};
use linux_raw_sys::general as c;

/// The guest's soft limits.
static ADDRESS_SPACE: AtomicU64 = AtomicU64::new(u64::MAX);
static DATA: AtomicU64 = AtomicU64::new(u64::MAX);

fn soft_limit(resource: u64) -> Option<&'static AtomicU64> {
    match resource as u32 {
        c::RLIMIT_AS => Some(&ADDRESS_SPACE),
        c::RLIMIT_DATA => Some(&DATA),
        _ => None,
    }
}

const KEPT: [u32; 2] = [c::RLIMIT_AS, c::RLIMIT_DATA];

/// Takes the inherited limits over.
pub fn adopt() {
    for resource in KEPT {
        let (soft, hard) = sys::resource_limit(resource);
        if let Some(limit) = soft_limit(resource as u64) {
            limit.store(soft, Ordering::Relaxed);
        }
        if soft != hard {
            let _ = sys::set_resource_limit(resource, hard, hard);
        }
    }
}

/// Makes the guest's limits real, for a program it is about to execute; undone if that fails.
pub fn expose(expose: bool) {
    for resource in KEPT {
        let (_, hard) = sys::resource_limit(resource);
        let soft = soft_limit(resource as u64).map_or(hard, |l| l.load(Ordering::Relaxed));
        let _ = sys::set_resource_limit(resource, if expose { soft } else { hard }, hard);
    }
}

/// Whether `more` bytes can be added to the guest's mappings, `private` ones counting as data.
pub fn allow(space: &AddressSpace, more: u64, data: bool) -> Result<()> {
    let limit = ADDRESS_SPACE.load(Ordering::Relaxed);
    if limit != u64::MAX && space.total().saturating_add(more) > limit {
        return Err(Errno::ENOMEM);
    }
    let limit = DATA.load(Ordering::Relaxed);
    if data && limit != u64::MAX && space.total_data().saturating_add(more) > limit {
        return Err(Errno::ENOMEM);
    }
    Ok(())
}

/// The guest's limit on data.
pub fn data() -> u64 {
    DATA.load(Ordering::Relaxed)
}

/// `getrlimit` of a kept resource.
pub fn get(args: &Args) -> Option<Outcome> {
    soft_limit(args[0])?;
    Some(read(args[0], args[1]).into())
}

/// `setrlimit` of a kept resource.
pub fn set(args: &Args) -> Option<Outcome> {
    soft_limit(args[0])?;
    Some(write(args[0], args[1]).into())
}

/// `prlimit64` of a kept resource of this process.
pub fn exchange(args: &Args) -> Option<Outcome> {
    let [pid, resource, new, old, ..] = *args;
    soft_limit(resource)?;
    if pid as i32 != 0 && pid as i32 != sys::getpid() {
        return None;
    }
    let before = pair(resource);
    let result = if new != 0 { write(resource, new) } else { Ok(()) };
    let result =
        result.and_then(|()| if old == 0 { Ok(()) } else { guest::write_value(old, &before) });
    Some(result.into())
}

fn pair(resource: u64) -> [u64; 2] {
    let (_, hard) = sys::resource_limit(resource as u32);
    [soft_limit(resource).map_or(hard, |l| l.load(Ordering::Relaxed)), hard]
}

fn read(resource: u64, at: u64) -> Result<()> {
    guest::write_value(at, &pair(resource))
}

fn write(resource: u64, at: u64) -> Result<()> {
    // SAFETY: plain words.
    let [soft, hard]: [u64; 2] = unsafe { guest::read_value(at)? };
    if soft > hard {
        return Err(Errno::EINVAL);
    }
    let (_, old_hard) = sys::resource_limit(resource as u32);
    if hard > old_hard {
        // Only the kernel knows whether this is permitted.
        sys::set_resource_limit(resource as u32, hard, hard)?;
    }
    if let Some(limit) = soft_limit(resource) {
        limit.store(soft, Ordering::Relaxed);
    }
    Ok(())
}
