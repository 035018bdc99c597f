//! Room on the disk: what a stranger's bytes ask for must not fill it.

use nix::sys::statvfs::fstatvfs;

use super::Directory;
use crate::Error;

/// Room that is left on a disk for others: no more than this ...
const SPARED: u64 = 1 << 30;

/// ... and no more than this part of it.
const SPARED_PART: u64 = 20;

impl Directory {
    /// Refuses what would fill the disk that the directory is on.
    pub fn check_room(&self, needed: u64) -> Result<(), Error> {
        let room = fstatvfs(self).map_err(|errno| Error::io("read", self.path())(errno.into()))?;
        let unit = room.fragment_size();
        let available = room.blocks_available().saturating_mul(unit);
        let spared = (room.blocks().saturating_mul(unit) / SPARED_PART).min(SPARED);
        if needed > available.saturating_sub(spared) {
            let path = self.path().to_path_buf();
            return Err(Error::NoRoom { path, needed, available, spared });
        }
        Ok(())
    }
}
