//! Where this user keeps what he adds to a recording: the index, notes, where the last answer has led to.
//!
//! The problem: these are written beside the log, which is fine as long as the recording is the user's own. One that came
//! from somebody else is only to be read: whatever its sender has put into it, nothing may be written there, and no index
//! in it is believed.
//!
//! The strategy: a recording is *ours* if this user owns its directory, nobody else can write there, and it is not marked as
//! received. Then the annex is the recording's own directory. Otherwise it is a directory of the store:
//!
//! ```text
//! STORE/.annex/DEVICE-INODE/   named after the directory of the recording
//!     origin                   which recording it is for
//!     index/, notebook.json ...
//! ```
//!
//! Invariant: an annex in the store is only used for the recording that it was made for: the number of a directory can
//! become another's.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::fcntl::AtFlags;
use nix::unistd::{AccessFlags, faccessat};

use crate::{Directory, Error, LOG_NAME, NOTEBOOK_NAME, RECEIVED_NAME, Store};

/// Name of the directory of annexes in the store.
pub(crate) const ANNEXES: &str = ".annex";

/// Name of the file that says what an annex is for.
const ORIGIN: &str = "origin";

/// Longer than any path.
const ORIGIN_LIMIT: u64 = 16 << 10;

/// First line of an origin.
const FORMAT: &str = "retro-annex 1";

/// The place of a recording's annex. It need not be there yet.
#[derive(Clone, Debug)]
pub struct Annex {
    place: Place,
}

#[derive(Clone, Debug)]
enum Place {
    /// In the recording itself.
    Recording(Directory),
    /// In the store.
    Store { store: Store, name: String, origin: Vec<u8> },
    /// There is no store.
    Nowhere,
}

impl Annex {
    /// Of a recording, without making anything.
    pub fn of(recording: &Directory) -> Result<Annex, Error> {
        if is_ours(recording) {
            return Ok(Annex { place: Place::Recording(recording.clone()) });
        }
        match Store::from_environment() {
            Ok(store) => Annex::in_store(recording, store),
            Err(_) => Ok(Annex { place: Place::Nowhere }),
        }
    }

    fn in_store(recording: &Directory, store: Store) -> Result<Annex, Error> {
        let name = name_of(recording).map_err(Error::io("read", recording.path()))?;
        let origin = origin_of(recording).map_err(Error::io("read", recording.path()))?;
        Ok(Annex { place: Place::Store { store, name, origin } })
    }

    /// Whether it lies beside the log.
    pub fn is_in_recording(&self) -> bool {
        matches!(self.place, Place::Recording(_))
    }

    /// Where it is, for messages.
    pub fn path(&self) -> PathBuf {
        match &self.place {
            Place::Recording(directory) => directory.path().to_path_buf(),
            Place::Store { store, name, .. } => store.root().join(ANNEXES).join(name),
            Place::Nowhere => PathBuf::from(ANNEXES),
        }
    }

    /// The directory, if it is there.
    pub fn existing(&self) -> Result<Option<Directory>, Error> {
        let (store, name, origin) = match &self.place {
            Place::Recording(directory) => return Ok(Some(directory.clone())),
            Place::Store { store, name, origin } => (store, name, origin),
            Place::Nowhere => return Ok(None),
        };
        let annexes = match store.private(ANNEXES) {
            // There is nothing of ours in a store that is not.
            Err(Error::ForeignStore { .. } | Error::SharedStore(_)) => None,
            opened => opened?,
        };
        let found = match annexes.map(|annexes| annexes.directory(name)) {
            None => return Ok(None),
            Some(Err(error)) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Some(opened) => opened.map_err(Error::io("open", self.path()))?,
        };
        Ok(is_for(&found, origin).then_some(found))
    }

    /// The directory, which is made if it is not there.
    pub fn directory(&self) -> Result<Directory, Error> {
        match &self.place {
            Place::Recording(directory) => Ok(directory.clone()),
            Place::Nowhere => Err(Error::NoStore),
            Place::Store { store, name, origin } => {
                let failed = |error| Error::io("create", self.path())(error);
                let annexes = store.made_private(ANNEXES)?;
                let found = annexes.made_directory(name).map_err(failed)?;
                if is_for(&found, origin) {
                    return Ok(found);
                }
                // What another recording had whose directory had the same number.
                found.clear().map_err(failed)?;
                found.replace(ORIGIN, origin, false).map_err(failed)?;
                forget_gone(&annexes, name);
                Ok(found)
            }
        }
    }
}

/// Removes the annex of a recording from the store, if there is one.
pub(crate) fn remove(store: &Store, recording: &Directory) -> Result<(), Error> {
    let name = name_of(recording).map_err(Error::io("read", recording.path()))?;
    let annexes = match store.private(ANNEXES) {
        Ok(Some(annexes)) => annexes,
        // There is nothing of ours in a store that is not.
        Ok(None) | Err(Error::ForeignStore { .. } | Error::SharedStore(_)) => return Ok(()),
        Err(error) => return Err(error),
    };
    annexes.remove_all_if_there(&name).map_err(Error::io("remove", annexes.path_of(&name)))
}

/// Whether a recording is this user's own, so that its directory may be written to.
pub(crate) fn is_ours(recording: &Directory) -> bool {
    let Ok(status) = recording.own_status() else { return false };
    status.is_own()
        && !status.is_shared()
        && !recording.has(RECEIVED_NAME)
        && faccessat(recording, ".", AccessFlags::W_OK, AtFlags::AT_EACCESS).is_ok()
}

/// A name that no other directory has while this one is there.
fn name_of(recording: &Directory) -> io::Result<String> {
    let (device, inode) = recording.own_status()?.identity;
    Ok(format!("{device:x}-{inode:x}"))
}

/// What tells a recording from others that had the same directory before: its log, and the first bytes of that, which have
/// its random number.
fn origin_of(recording: &Directory) -> io::Result<Vec<u8>> {
    let (_, inode) = recording.status(LOG_NAME)?.identity;
    let mut head = [0; crate::header::HEADER_SIZE];
    let log = recording.file(LOG_NAME)?;
    // A log that is too short has no index.
    let _ = std::os::unix::fs::FileExt::read_exact_at(&log, &mut head, 0);
    let path = std::path::absolute(recording.path())?;
    let head: String = head.iter().map(|byte| format!("{byte:02x}")).collect();
    let text = format!("{FORMAT}\nlog {inode:x} {head}\npath ");
    Ok([text.as_bytes(), path.as_os_str().as_bytes()].concat())
}

/// Whether an annex was made for a recording, wherever that lies by now.
fn is_for(annex: &Directory, origin: &[u8]) -> bool {
    let known = annex.read(ORIGIN, ORIGIN_LIMIT).unwrap_or_default();
    let lines = |text: &[u8]| {
        text.splitn(3, |&byte| byte == b'\n').take(2).flatten().copied().collect::<Vec<u8>>()
    };
    !known.is_empty() && lines(&known) == lines(origin)
}

/// Removes annexes whose recordings are not where they were any more, unless somebody has noted something there.
fn forget_gone(annexes: &Directory, but: &str) {
    let is_gone = |name: &OsStr| -> bool {
        let Ok(annex) = annexes.directory(name) else { return false };
        let Ok(origin) = annex.read(ORIGIN, ORIGIN_LIMIT) else { return false };
        let path = origin.splitn(3, |&byte| byte == b'\n').nth(2);
        let Some(path) = path.and_then(|line| line.strip_prefix(b"path ")) else { return false };
        let there = Directory::open(Path::new(OsStr::from_bytes(path)));
        let is_there = there.is_ok_and(|found| name_of(&found).is_ok_and(|its| *its == *name));
        !is_there && !annex.has(NOTEBOOK_NAME)
    };
    for name in annexes.names().unwrap_or_default() {
        if name != but && is_gone(&name) {
            // Whoever it belongs to builds it again.
            let _ = annexes.remove_all_if_there(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A directory with a log, and a store.
    fn scene() -> (tempfile::TempDir, Directory, Store) {
        let place = tempfile::tempdir().unwrap();
        let recording = Directory::create(&place.path().join("recording")).unwrap();
        fs::write(place.path().join("recording").join(LOG_NAME), [7; 100]).unwrap();
        let store = Store::at(place.path().join("store"));
        (place, recording, store)
    }

    #[test]
    fn what_is_ours_is_written_beside_the_log() {
        let (_place, recording, _) = scene();
        let annex = Annex::of(&recording).unwrap();
        assert!(annex.is_in_recording());
        assert_eq!(annex.path(), recording.path());
        assert!(annex.existing().unwrap().is_some());
    }

    #[test]
    fn what_was_received_or_can_be_written_by_others_is_not_ours() {
        let (place, recording, _) = scene();
        assert!(is_ours(&recording));
        let path = place.path().join("recording");
        for mode in [0o720, 0o702, 0o777] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert!(!is_ours(&recording), "{mode:o}");
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        assert!(is_ours(&recording));
        recording.new_file(RECEIVED_NAME).unwrap();
        assert!(!is_ours(&recording));
    }

    #[test]
    fn an_annex_in_the_store_is_for_one_recording() {
        let (place, recording, store) = scene();
        let annex = Annex::in_store(&recording, store.clone()).unwrap();
        assert!(annex.existing().unwrap().is_none() && !store.root().exists());
        annex.directory().unwrap().new_file("index").unwrap();
        assert!(annex.existing().unwrap().unwrap().has("index"));
        assert!(!recording.has("index"));
        // Moved, it is still the same.
        let moved = place.path().join("moved");
        fs::rename(recording.path(), &moved).unwrap();
        let moved = Directory::open(&moved).unwrap();
        let annex = Annex::in_store(&moved, store.clone()).unwrap();
        assert!(annex.existing().unwrap().unwrap().has("index"));
        // Another log in the same directory is another recording.
        fs::write(moved.path().join(LOG_NAME), [8; 100]).unwrap();
        let annex = Annex::in_store(&moved, store.clone()).unwrap();
        assert!(annex.existing().unwrap().is_none());
        assert!(!annex.directory().unwrap().has("index"));
        remove(&store, &moved).unwrap();
        assert!(annex.existing().unwrap().is_none());
        remove(&store, &moved).unwrap();
    }

    #[test]
    fn annexes_of_what_is_gone_go_unless_somebody_noted_something() {
        let (place, first, store) = scene();
        let other = |name: &str| {
            let made = Directory::create(&place.path().join(name)).unwrap();
            fs::write(place.path().join(name).join(LOG_NAME), name).unwrap();
            Annex::in_store(&made, store.clone()).unwrap()
        };
        let (second, third) = (other("second"), other("third"));
        let noted = second.directory().unwrap();
        noted.new_file(NOTEBOOK_NAME).unwrap();
        third.directory().unwrap();
        for name in ["second", "third"] {
            fs::remove_dir_all(place.path().join(name)).unwrap();
        }
        Annex::in_store(&first, store.clone()).unwrap().directory().unwrap();
        let left = Directory::open(&store.root().join(ANNEXES)).unwrap().names().unwrap();
        assert_eq!(left.len(), 2);
        assert!(second.existing().unwrap().is_some());
    }
}
