//! Packing a recording with the files that it mapped, and unpacking what may have been sent by anybody.

mod sample;

use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use retro_abi::channel::Stream;
use retro_abi::log::Event;
use retro_recording::pack::{PackReport, pack_with_debug_from, unpack};
use retro_recording::{Copied, Error, Recording, State, Writer, encode_end};
use tempfile::{TempDir, tempdir};

/// A file that a run maps.
struct Mapped {
    path: PathBuf,
    build_id: Vec<u8>,
}

/// A directory with files, their debug information, and a recording that mapped them.
struct Scene {
    place: TempDir,
    mapped: Vec<Mapped>,
}

const LIBRARY_ID: &[u8] = &[0xab, 0xcd, 0xef, 0x01];
const PROGRAM_ID: &[u8] = &[0x12, 0x34];

impl Scene {
    /// A program with debug information by name, a library with it by build id and a part shared with others,
    /// and data that is larger than a block.
    fn new() -> Scene {
        let place = tempdir().unwrap();
        let root = place.path();
        for directory in ["lib/.debug", "debug/.build-id/ab", "debug/.dwz"] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        let shared = elf(&[(".note.gnu.build-id", note(&[9; 20]))]);
        fs::write(root.join("debug/.dwz/shared"), &shared).unwrap();
        let mut link = b"../../.dwz/shared\0".to_vec();
        link.extend_from_slice(&[9; 20]);
        let library_debug =
            elf(&[(".note.gnu.build-id", note(LIBRARY_ID)), (".gnu_debugaltlink", link)]);
        fs::write(root.join("debug/.build-id/ab/cdef01.debug"), library_debug).unwrap();
        let program_debug = elf(&[(".note.gnu.build-id", note(PROGRAM_ID))]);
        fs::write(root.join("lib/.debug/program.debug"), &program_debug).unwrap();
        let mut link = b"program.debug\0\0\0".to_vec();
        link.extend_from_slice(&crc32fast::hash(&program_debug).to_le_bytes());

        let program = elf(&[(".note.gnu.build-id", note(PROGRAM_ID)), (".gnu_debuglink", link)]);
        let library = elf(&[(".note.gnu.build-id", note(LIBRARY_ID))]);
        let data: Vec<u8> = (0..700_000u32).map(|n| (n.wrapping_mul(n) >> 7) as u8).collect();
        let mut scene = Scene { place, mapped: Vec::new() };
        scene.add("lib/program", &program, PROGRAM_ID);
        scene.add("lib/library.so", &library, LIBRARY_ID);
        scene.add("data", &data, &[]);
        scene.add("empty", &[], &[]);
        scene
    }

    fn add(&mut self, name: &str, content: &[u8], build_id: &[u8]) {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        self.mapped.push(Mapped { path, build_id: build_id.to_vec() });
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// Records that all files are mapped, each twice.
    fn record(&self) -> Recording {
        let directory = self.path("run");
        let mut writer = Writer::create(&directory, &sample::head()).unwrap();
        for sequence in 0..2 {
            let metadata: Vec<_> =
                self.mapped.iter().map(|file| fs::metadata(&file.path).unwrap()).collect();
            let events: Vec<_> = (0..)
                .zip(self.mapped.iter().zip(&metadata))
                .map(|(number, (file, metadata))| {
                    let event = Event::File {
                        number,
                        device: metadata.dev(),
                        inode: metadata.ino(),
                        size: metadata.len(),
                        modified_seconds: metadata.mtime(),
                        modified_nanoseconds: metadata.mtime_nsec() as u32,
                        build_id: &file.build_id,
                        path: file.path.as_os_str().as_bytes(),
                    };
                    (number, event)
                })
                .collect();
            writer.append(&sample::segment(3, Stream::Code, sequence, 0, &events)).unwrap();
        }
        writer.append(&encode_end(&sample::run_end())).unwrap();
        Recording::open(&directory).unwrap()
    }

    fn pack(&self, recording: &Recording, name: &str) -> PackReport {
        pack_with_debug_from(recording, &self.path(name), &[self.path("debug")]).unwrap()
    }
}

/// A note section with a build id.
fn note(build_id: &[u8]) -> Vec<u8> {
    let mut note = Vec::new();
    for word in [4, build_id.len() as u32, 3] {
        note.extend_from_slice(&word.to_le_bytes());
    }
    note.extend_from_slice(b"GNU\0");
    note.extend_from_slice(build_id);
    note.resize(note.len().next_multiple_of(4), 0);
    note
}

/// An ELF file with the given sections and nothing else.
fn elf(sections: &[(&str, Vec<u8>)]) -> Vec<u8> {
    const HEADER: usize = 64;
    let mut names = vec![0];
    let mut content = Vec::new();
    let mut table = vec![0; 64];
    let names_section = (".shstrtab", Vec::new());
    for (name, bytes) in sections.iter().chain([&names_section]) {
        let name_offset = names.len() as u32;
        names.extend_from_slice(name.as_bytes());
        names.push(0);
        let is_names = *name == ".shstrtab";
        let bytes = if is_names { &names } else { bytes };
        let kind: u32 = match *name {
            ".shstrtab" => 3,
            ".note.gnu.build-id" => 7,
            _ => 1,
        };
        let offset = (HEADER + content.len()) as u64;
        content.extend_from_slice(bytes);
        content.resize(content.len().next_multiple_of(8), 0);
        table.extend_from_slice(&name_offset.to_le_bytes());
        table.extend_from_slice(&kind.to_le_bytes());
        for field in [0, 0, offset, bytes.len() as u64, 0, 4, 0] {
            table.extend_from_slice(&u64::to_le_bytes(field));
        }
    }
    let count = (table.len() / 64) as u16;
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    file.extend_from_slice(&[3, 0, 62, 0, 1, 0, 0, 0]);
    for field in [0, 0, (HEADER + content.len()) as u64] {
        file.extend_from_slice(&u64::to_le_bytes(field));
    }
    file.extend_from_slice(&[0, 0, 0, 0, 64, 0, 56, 0, 0, 0, 64, 0]);
    file.extend_from_slice(&count.to_le_bytes());
    file.extend_from_slice(&(count - 1).to_le_bytes());
    file.extend_from_slice(&content);
    file.extend_from_slice(&table);
    file
}

fn same(copy: Option<Copied>, original: &Path) {
    let copy = copy.unwrap_or_else(|| panic!("no copy of {}", original.display()));
    assert_eq!(
        fs::read(copy.path()).unwrap(),
        fs::read(original).unwrap(),
        "{}",
        original.display()
    );
}

/// Checks that an unpacked recording is the scene's and has all of its files.
fn check_unpacked(scene: &Scene, directory: &Path) {
    assert_eq!(fs::read(directory.join("log")).unwrap(), fs::read(scene.path("run/log")).unwrap());
    let recording = Recording::open(directory).unwrap();
    assert_eq!((recording.state(), recording.damage()), (State::Finished, None));
    for file in &scene.mapped {
        same(recording.file_for(&file.path, &file.build_id), &file.path);
        same(recording.file_for(&file.path, &[]), &file.path);
    }
    same(recording.file_for(Path::new("/moved"), LIBRARY_ID), &scene.path("lib/library.so"));
    let library = scene.path("lib/library.so");
    let library_debug = scene.path("debug/.build-id/ab/cdef01.debug");
    same(recording.debug_file_for(&library, LIBRARY_ID), &library_debug);
    same(recording.shared_debug_file_for(&library, LIBRARY_ID), &scene.path("debug/.dwz/shared"));
    let program = scene.path("lib/program");
    same(recording.debug_file_for(&program, &[]), &scene.path("lib/.debug/program.debug"));
    assert_eq!(recording.shared_debug_file_for(&program, &[]), None);
    assert_eq!(recording.debug_file_for(&scene.path("data"), &[]), None);
    assert_eq!(recording.file_for(&program, &[1, 2, 3]), None);
    assert_eq!(recording.file_for(Path::new("/nowhere"), &[]), None);
}

#[test]
fn a_pack_brings_the_log_the_files_and_their_debug_information() {
    let scene = Scene::new();
    let recording = scene.record();
    assert_eq!(recording.file_for(&scene.path("data"), &[]), None);
    let report = scene.pack(&recording, "pack");
    assert_eq!(report.left_out, []);
    assert_eq!(report.bytes, fs::metadata(scene.path("pack")).unwrap().len());
    let mut packed: Vec<_> = report
        .packed
        .iter()
        .map(|file| (file.path.file_name().unwrap().to_str().unwrap(), file.debug))
        .collect();
    packed.sort();
    let expected = [
        ("cdef01.debug", true),
        ("data", false),
        ("empty", false),
        ("library.so", false),
        ("program", false),
        ("program.debug", true),
        ("shared", true),
    ];
    assert_eq!(packed, expected);
    unpack(&scene.path("pack"), &scene.path("unpacked")).unwrap();
    check_unpacked(&scene, &scene.path("unpacked"));

    let mode = |name: &str| fs::metadata(scene.path(name)).unwrap().permissions().mode() & 0o777;
    for name in ["pack", "unpacked/log", "unpacked/files/catalogue", "unpacked/files/0"] {
        assert_eq!(mode(name), 0o600, "{name}");
    }
    for name in ["unpacked", "unpacked/files"] {
        assert_eq!(mode(name), 0o700, "{name}");
    }
    retro_recording::Store::at(scene.path("store"))
        .remove(scene.path("unpacked").to_str().unwrap())
        .unwrap();
    assert!(!scene.path("unpacked").exists());
}

#[test]
fn an_unpacked_recording_is_packed_with_the_files_it_brought() {
    let scene = Scene::new();
    scene.pack(&scene.record(), "pack");
    unpack(&scene.path("pack"), &scene.path("unpacked")).unwrap();
    let data = fs::read(scene.path("data")).unwrap();
    fs::write(scene.path("data"), "something else on this machine").unwrap();
    let again = Recording::open(&scene.path("unpacked")).unwrap();
    let report = scene.pack(&again, "again");
    assert_eq!((report.packed.len(), report.left_out.len()), (7, 0));
    unpack(&scene.path("again"), &scene.path("twice")).unwrap();
    fs::write(scene.path("data"), data).unwrap();
    check_unpacked(&scene, &scene.path("twice"));
}

#[test]
fn files_that_are_not_what_they_were_are_left_out() {
    let mut scene = Scene::new();
    scene.add("gone", b"x", &[]);
    scene.add("longer", b"x", &[]);
    scene.add("touched", b"x", &[]);
    scene.add("rebuilt", &elf(&[(".note.gnu.build-id", note(&[1, 1]))]), &[1, 1]);
    scene.add("reinstalled", &elf(&[(".note.gnu.build-id", note(&[2, 2]))]), &[2, 2]);
    scene.add("pipe", b"x", &[]);
    let recording = scene.record();
    let long_ago = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1000);
    let set_time = |name| {
        File::options().write(true).open(scene.path(name)).unwrap().set_modified(long_ago).unwrap();
    };
    fs::remove_file(scene.path("gone")).unwrap();
    fs::write(scene.path("longer"), "xy").unwrap();
    set_time("touched");
    fs::write(scene.path("rebuilt"), elf(&[(".note.gnu.build-id", note(&[1, 2]))])).unwrap();
    set_time("reinstalled");
    fs::remove_file(scene.path("pipe")).unwrap();
    nix::unistd::mkfifo(&scene.path("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();

    let report = scene.pack(&recording, "pack");
    let mut left_out: Vec<_> = report
        .left_out
        .iter()
        .map(|file| (file.path.file_name().unwrap().to_str().unwrap(), file.reason.as_str()))
        .collect();
    left_out.sort();
    let expected = [
        ("gone", "No such file or directory (os error 2)"),
        ("longer", "it was changed since: its size differs"),
        ("pipe", "it is not a regular file"),
        ("rebuilt", "it was replaced since: its build id differs"),
        ("touched", "it was changed since: its modification time differs"),
    ];
    assert_eq!(left_out, expected);
    assert!(report.packed.iter().any(|file| file.path == scene.path("reinstalled")));
    unpack(&scene.path("pack"), &scene.path("unpacked")).unwrap();
    check_unpacked(
        &Scene { mapped: scene.mapped.into_iter().take(4).collect(), place: scene.place },
        &recording.directory().with_file_name("unpacked"),
    );
}

#[test]
fn nothing_is_overwritten() {
    let scene = Scene::new();
    let recording = scene.record();
    scene.pack(&recording, "pack");
    let before = fs::read(scene.path("pack")).unwrap();
    let again = pack_with_debug_from(&recording, &scene.path("pack"), &[]);
    assert!(matches!(again, Err(Error::Exists(_))));
    assert_eq!(fs::read(scene.path("pack")).unwrap(), before);
    fs::create_dir(scene.path("directory")).unwrap();
    symlink(scene.path("elsewhere"), scene.path("link")).unwrap();
    for name in ["directory", "data", "link", "."] {
        let unpacked = unpack(&scene.path("pack"), &scene.path(name));
        assert!(matches!(unpacked, Err(Error::Exists(_))), "{name}");
    }
    assert!(!scene.path("elsewhere").exists());
}

/// Names in a directory.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A pack that is small enough to try every byte of it.
fn small_pack() -> (TempDir, Vec<u8>) {
    let place = tempdir().unwrap();
    let mut scene = Scene { place: tempdir().unwrap(), mapped: Vec::new() };
    scene.add("program", &elf(&[(".note.gnu.build-id", note(&[7, 7]))]), &[7, 7]);
    scene.add("data", b"some data", &[]);
    scene.pack(&scene.record(), "pack");
    (place, fs::read(scene.path("pack")).unwrap())
}

/// Unpacks bytes; whatever comes of it, nothing but a whole recording may be left.
fn unpack_bytes(place: &Path, bytes: &[u8]) -> Result<(), Error> {
    let (pack, directory) = (place.join("pack"), place.join("out"));
    fs::write(&pack, bytes).unwrap();
    let result = unpack(&pack, &directory);
    match result {
        Ok(()) => {
            assert_eq!(names(&directory), ["files", "log", "received"]);
            Recording::open(&directory).unwrap();
            fs::remove_dir_all(&directory).unwrap();
        }
        Err(_) => assert_eq!(names(place), ["pack"]),
    }
    result
}

#[test]
fn a_pack_cut_anywhere_is_refused_and_leaves_nothing() {
    let (place, bytes) = small_pack();
    unpack_bytes(place.path(), &bytes).unwrap();
    for cut in 0..bytes.len() {
        let error = unpack_bytes(place.path(), &bytes[..cut]).unwrap_err();
        assert!(matches!(error, Error::BadPack { .. }), "cut at {cut}: {error}");
    }
    let longer = [&bytes[..], b"x"].concat();
    let error = unpack_bytes(place.path(), &longer).unwrap_err().to_string();
    assert!(error.contains("bytes follow its end"), "{error}");
}

#[test]
fn a_flipped_bit_in_a_pack_is_always_noticed() {
    let (place, bytes) = small_pack();
    for byte in 0..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[byte] ^= 1 << (byte % 8);
        let error = unpack_bytes(place.path(), &flipped).unwrap_err();
        assert!(matches!(error, Error::BadPack { .. }), "byte {byte}: {error}");
    }
}

/// The blocks of a pack, as offsets of their headers and ends.
fn blocks(bytes: &[u8]) -> Vec<(usize, usize)> {
    let mut blocks = Vec::new();
    let mut at = 48;
    while at < bytes.len() {
        let stored = u32::from_le_bytes(bytes[at + 20..at + 24].try_into().unwrap()) as usize;
        blocks.push((at, at + 32 + stored));
        at += 32 + stored;
    }
    blocks
}

/// Gives the header of a pack and all its blocks the checksums that their bytes have.
fn seal(bytes: &mut [u8], blocks: &[(usize, usize)]) {
    let mut put = |at: usize, from: usize, to: usize| {
        let sum = crc32fast::hash(&bytes[from..to]);
        bytes[at..at + 4].copy_from_slice(&sum.to_le_bytes());
    };
    put(44, 0, 44);
    for &(start, end) in blocks {
        put(start + 24, start + 32, end);
        put(start + 28, start, start + 28);
    }
}

fn check_forged(change: impl Fn(&mut Vec<u8>, &[(usize, usize)]), reason: &str) {
    let (place, mut bytes) = small_pack();
    let blocks = blocks(&bytes);
    change(&mut bytes, &blocks);
    seal(&mut bytes, &blocks);
    let error = unpack_bytes(place.path(), &bytes).unwrap_err().to_string();
    assert!(error.contains(reason), "{error}");
}

#[test]
fn forged_packs_are_refused() {
    // The blocks are: member log, data, member catalogue, data, member file 0, its data, ...
    check_forged(|bytes, _| bytes[8] = 9, "another version");
    check_forged(|bytes, _| bytes[16] ^= 1, "another one than it declares");
    check_forged(|bytes, _| bytes[12] = 3, "not what it declares");
    check_forged(|bytes, _| bytes[15] = 0x7f, "more than it can hold");
    check_forged(|bytes, _| bytes[39] = 0x7f, "more than it can hold");
    check_forged(|bytes, _| bytes[33] += 1, "not what it declares");
    check_forged(|bytes, _| bytes[33] = 0, "larger than it declares");
    check_forged(|bytes, blocks| bytes[blocks[1].0 + 8] = 7, "a block is missing");
    check_forged(|bytes, blocks| bytes[blocks[1].0 + 18] = 0xff, "absurd length");
    check_forged(|bytes, blocks| bytes[blocks[1].0 + 4] = 9, "an unknown kind of block");
    check_forged(|bytes, blocks| bytes[blocks[1].0 + 5] = 9, "an unknown compression");
    check_forged(|bytes, blocks| bytes[blocks[1].0 + 4] = 3, "a member is cut short");
    check_forged(|bytes, blocks| bytes[blocks[0].0 + 32] = 3, "another member was due");
    check_forged(|bytes, blocks| bytes[blocks[0].0 + 32] = 8, "an unknown kind of member");
    check_forged(|bytes, blocks| bytes[blocks[4].0 + 36] = 1, "another member was due");
    check_forged(|bytes, blocks| bytes[blocks[0].0 + 47] = 1, "larger than it declares");
    check_forged(|bytes, blocks| bytes[blocks[2].0 + 44] = 8, "absurdly long");
    check_forged(
        |bytes, blocks| {
            assert_eq!(&bytes[blocks[5].0 + 32..blocks[5].1], b"some data");
            bytes[blocks[5].0 + 16] -= 1;
            bytes[blocks[5].0 + 20] -= 1;
        },
        "a block fails its checksum",
    );
}

#[test]
fn random_changes_in_a_pack_never_panic() {
    let (place, bytes) = small_pack();
    let blocks = blocks(&bytes);
    let mut state = 0x1234_5678_9abc_def1u64;
    let mut below = |limit: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % limit as u64) as usize
    };
    for round in 0..2000 {
        let mut changed = bytes.clone();
        for _ in 0..1 + below(3) {
            changed[below(bytes.len())] = [below(256) as u8, 0, 0xff, 0x80][below(4)];
        }
        if round % 4 != 0 {
            seal(&mut changed, &blocks);
        }
        let _ = unpack_bytes(place.path(), &changed);
    }
}

#[test]
fn a_catalogue_that_is_damaged_later_is_reported() {
    let scene = Scene::new();
    scene.pack(&scene.record(), "pack");
    unpack(&scene.path("pack"), &scene.path("unpacked")).unwrap();
    let path = scene.path("unpacked/files/catalogue");
    let good = fs::read(&path).unwrap();
    for byte in 0..good.len() {
        let mut flipped = good.clone();
        flipped[byte] ^= 0x10;
        fs::write(&path, flipped).unwrap();
        let recording = Recording::open(&scene.path("unpacked")).unwrap();
        assert!(recording.damage().is_some(), "byte {byte}");
        assert_eq!(recording.file_for(&scene.path("data"), &[]), None);
    }
}
