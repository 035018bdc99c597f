//! The list of the copied files in an unpacked recording.
//!
//! Copies are numbered, and the list says which file each number was: names from the machine that recorded
//! never become names here, so that no path in a pack can lead out of the recording.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::Directory;
use crate::fields::{BadField, FieldReader, FieldWriter};
use crate::header::{is_sealed, seal, u32_at};

/// Name of the list in the directory of copies.
pub(crate) const CATALOGUE_NAME: &str = "catalogue";

const MAGIC: [u8; 8] = *b"retrofil";
const VERSION: u32 = 1;
const HEADER_SIZE: usize = 32;

/// Most bytes of a list.
pub(crate) const CATALOGUE_LIMIT: usize = 64 << 20;

/// What a copied file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The run mapped it.
    Mapped = 1,
    /// Debug information of a mapped file.
    Debug = 2,
    /// Debug information that several files refer to.
    SharedDebug = 3,
}

/// A copied file. Several entries may share one copy, as files share debug information.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredFile {
    /// Number of the copy, which is its name.
    pub(crate) number: u32,
    pub(crate) role: Role,
    /// For debug information, the number of the mapped file that it belongs to.
    pub(crate) owner: Option<u32>,
    pub(crate) path: PathBuf,
    /// Build id of the mapped file, also for its debug information; may be empty.
    pub(crate) build_id: Vec<u8>,
    pub(crate) size: u64,
}

/// The list, and where the copies are.
#[derive(Clone, Debug)]
pub(crate) struct Catalogue {
    directory: Directory,
    pub(crate) files: Vec<StoredFile>,
}

/// The copy of a file that a recording has with it.
#[derive(Clone, Debug)]
pub struct Copied {
    directory: Directory,
    number: u32,
}

/// Two are the same if they are the same file.
impl PartialEq for Copied {
    fn eq(&self, other: &Copied) -> bool {
        let identity = |copied: &Copied| Some(copied.directory.own_status().ok()?.identity);
        self.number == other.number && identity(self) == identity(other)
    }
}

impl Eq for Copied {}

impl Copied {
    /// Opens it.
    pub fn open(&self) -> io::Result<File> {
        self.directory.file(self.number.to_string())
    }

    /// Where it is, for messages and for other programs.
    pub fn path(&self) -> PathBuf {
        self.directory.path_of(self.number.to_string())
    }
}

impl Catalogue {
    /// Reads the list in a directory of copies; `None` if there is none. What is wrong with the list is no error, but
    /// something else in its place is.
    pub(crate) fn load(directory: Directory) -> io::Result<Result<Option<Catalogue>, BadField>> {
        let limit = (HEADER_SIZE + CATALOGUE_LIMIT) as u64;
        let bytes = match directory.read(CATALOGUE_NAME, limit) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Ok(None)),
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                return Ok(Err("it is absurdly long"));
            }
            read => read?,
        };
        Ok(decode(&bytes).map(|files| Some(Catalogue { directory, files })))
    }

    /// A copy.
    pub(crate) fn copy(&self, file: &StoredFile) -> Copied {
        Copied { directory: self.directory.clone(), number: file.number }
    }

    /// The copy of a mapped file.
    pub(crate) fn find(&self, path: &Path, build_id: &[u8]) -> Option<&StoredFile> {
        let mut mapped = self.files.iter().filter(|file| file.role == Role::Mapped);
        if build_id.is_empty() {
            mapped.find(|file| file.path == path)
        } else {
            mapped.find(|file| file.build_id == build_id)
        }
    }

    /// What belongs to a mapped file.
    pub(crate) fn companion(&self, file: &StoredFile, role: Role) -> Option<&StoredFile> {
        self.files.iter().find(|other| other.role == role && other.owner == Some(file.number))
    }
}

/// The bytes of a list.
pub(crate) fn encode(files: &[StoredFile]) -> Vec<u8> {
    let mut fields = FieldWriter::default();
    fields.number(files.len() as u64);
    for file in files {
        fields.number(file.number.into());
        fields.number(file.role as u64);
        fields.optional(file.owner.map(u64::from));
        fields.bytes(file.path.as_os_str().as_bytes());
        fields.bytes(&file.build_id);
        fields.number(file.size);
    }
    let payload = fields.finish();
    let mut header = [0; HEADER_SIZE];
    header[0..8].copy_from_slice(&MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header[12..16].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    header[16..20].copy_from_slice(&crc32fast::hash(&payload).to_le_bytes());
    seal(&mut header);
    [&header[..], &payload].concat()
}

/// The files of a list.
pub(crate) fn decode(bytes: &[u8]) -> Result<Vec<StoredFile>, BadField> {
    let (header, payload) = bytes.split_first_chunk::<HEADER_SIZE>().ok_or("it is too short")?;
    if header[0..8] != MAGIC {
        return Err("it begins otherwise");
    }
    if u32_at(header, 8) != VERSION {
        return Err("it has another version");
    }
    if !is_sealed(header) {
        return Err("its header fails its checksum");
    }
    if u32_at(header, 12) as usize != payload.len() {
        return Err("it has another length than it declares");
    }
    if u32_at(header, 16) != crc32fast::hash(payload) {
        return Err("it fails its checksum");
    }
    let fields = &mut FieldReader::new(payload);
    let count = fields.count(6)?;
    let mut files = Vec::new();
    for _ in 0..count {
        let number = fields.number32()?;
        let role = match fields.number()? {
            1 => Role::Mapped,
            2 => Role::Debug,
            3 => Role::SharedDebug,
            _ => return Err("an unknown role"),
        };
        let owner = fields.optional()?.map(u32::try_from).transpose();
        files.push(StoredFile {
            number,
            role,
            owner: owner.map_err(|_| "a number is too large")?,
            path: PathBuf::from(OsStr::from_bytes(fields.bytes()?)),
            build_id: fields.bytes()?.to_vec(),
            size: fields.number()?,
        });
    }
    Ok(files)
}
