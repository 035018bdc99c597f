//! Writes that fail halfway: the log keeps all whole segments and nothing else.

mod sample;

use std::cell::RefCell;
use std::fs::{self, OpenOptions};
use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::rc::Rc;

use retro_abi::channel::Stream;
use retro_recording::{Error, Recording, State, Storage, Writer, encode_end};
use tempfile::tempdir;

/// Storage with room for so many bytes, that writes at most so many at once.
#[derive(Clone, Default)]
struct Small(Rc<RefCell<SmallState>>);

#[derive(Default)]
struct SmallState {
    bytes: Vec<u8>,
    room: usize,
    at_once: usize,
    can_truncate: bool,
    interruptions: usize,
}

impl Small {
    fn new(room: usize, at_once: usize) -> Small {
        let state = SmallState { room, at_once, can_truncate: true, ..SmallState::default() };
        Small(Rc::new(RefCell::new(state)))
    }
}

impl Storage for Small {
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.0.borrow_mut();
        if state.interruptions > 0 {
            state.interruptions -= 1;
            return Err(io::ErrorKind::Interrupted.into());
        }
        let length = bytes.len().min(state.at_once).min(state.room - state.bytes.len());
        if length == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        state.bytes.extend_from_slice(&bytes[..length]);
        Ok(length)
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        let mut state = self.0.borrow_mut();
        if !state.can_truncate {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        state.bytes.truncate(length as usize);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_disk_full_at_any_byte_leaves_whole_segments() {
    let place = tempdir().unwrap();
    let good = place.path().join("good");
    let lengths = sample::write(&good);
    let log = fs::read(good.join("log")).unwrap();
    for room in 0..log.len() {
        let storage = Small::new(room, 100);
        let created = Writer::on_storage(storage.clone(), &sample::head());
        if (room as u64) < lengths[0] {
            assert!(matches!(created, Err(Error::Append(_))), "room for {room}");
            assert_eq!(storage.0.borrow().bytes, []);
            continue;
        }
        let mut writer = created.unwrap();
        let failed = sample::segments().iter().find_map(|segment| writer.append(segment).err());
        assert!(matches!(failed, Some(Error::Append(_))), "room for {room}");
        let whole = *lengths.iter().rfind(|&&length| length <= room as u64).unwrap();
        assert_eq!(writer.length(), whole);
        assert_eq!(storage.0.borrow().bytes, log[..whole as usize], "room for {room}");
    }
}

#[test]
fn what_still_fits_can_be_appended_after_a_failure() {
    let storage = Small::new(4096, usize::MAX);
    let mut writer = Writer::on_storage(storage.clone(), &sample::head()).unwrap();
    let noise: Vec<u8> =
        (0..5000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let head = retro_recording::ChunkHead {
        log: 0,
        stream: Stream::Main,
        sequence: 0,
        base_time: 0,
        interval: 0,
    };
    let large = retro_recording::encode_chunk(head, &noise, -50).unwrap();
    assert!(large.stored_length() > 4096);
    assert!(matches!(writer.append(&large), Err(Error::Append(_))));
    storage.0.borrow_mut().interruptions = 3;
    writer.append(&sample::segments()[0]).unwrap();
    writer.append(&encode_end(&sample::run_end())).unwrap();
    writer.sync().unwrap();
    let place = tempdir().unwrap();
    sample::write_bytes(place.path(), &storage.0.borrow().bytes);
    let recording = Recording::open(place.path()).unwrap();
    assert_eq!((recording.state(), recording.damage()), (State::Finished, None));
    assert_eq!(recording.segments(0, Stream::Main).len(), 1);
}

#[test]
fn a_failure_that_cannot_be_undone_ends_the_writing() {
    let storage = Small::new(700, 100);
    let mut writer = Writer::on_storage(storage.clone(), &sample::head()).unwrap();
    storage.0.borrow_mut().can_truncate = false;
    let failed = sample::segments().iter().find_map(|segment| writer.append(segment).err());
    assert!(matches!(failed, Some(Error::Append(_))));
    storage.0.borrow_mut().room = 1 << 20;
    let end = encode_end(&sample::run_end());
    assert!(matches!(writer.append(&end), Err(Error::Poisoned)));
    // The torn tail is cut off by the reader instead.
    let place = tempdir().unwrap();
    sample::write_bytes(place.path(), &storage.0.borrow().bytes);
    let recording = Recording::open(place.path()).unwrap();
    assert_eq!(recording.damage().unwrap().offset, writer.length());
}

#[test]
fn a_device_that_is_always_full_is_an_error() {
    let full = OpenOptions::new().append(true).open("/dev/full").unwrap();
    let error = Writer::on_storage(full, &sample::head()).unwrap_err();
    let Error::Append(source) = &error else { panic!("{error}") };
    assert_eq!(source.kind(), io::ErrorKind::StorageFull);
}

/// A mounted file system that goes away at the end of the test.
struct Mount(PathBuf);

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

#[test]
fn a_real_file_system_that_fills_up_leaves_whole_segments() {
    let place = tempdir().unwrap();
    let small = place.path().join("small");
    fs::create_dir(&small).unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=128k", "tmpfs"])
        .arg(&small)
        .output()
        .is_ok_and(|output| output.status.success());
    if !mounted {
        eprintln!("SKIPPED: no right to mount a small file system");
        return;
    }
    let _mount = Mount(small.clone());
    let directory = small.join("run");
    let mut writer = Writer::create(&directory, &sample::head()).unwrap();
    let mut noise = vec![0u8; 40_000];
    let mut state = 1u32;
    let mut count = 0;
    let error = loop {
        for byte in &mut noise {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            *byte = (state >> 24) as u8;
        }
        let head = retro_recording::ChunkHead {
            log: 0,
            stream: Stream::Main,
            sequence: count,
            base_time: 0,
            interval: 0,
        };
        match writer.append(&retro_recording::encode_chunk(head, &noise, 1).unwrap()) {
            Ok(()) => count += 1,
            Err(error) => break error,
        }
    };
    let Error::Append(source) = &error else { panic!("{error}") };
    assert_eq!(source.kind(), io::ErrorKind::StorageFull);
    assert_eq!(count, 3);
    // The room that the failed chunk gave back is enough for the end.
    writer.append(&encode_end(&sample::run_end())).unwrap();
    drop(writer);
    let recording = Recording::open(&directory).unwrap();
    assert_eq!((recording.state(), recording.damage()), (State::Finished, None));
    assert_eq!(recording.segments(0, Stream::Main).len() as u64, count);
    recording.verify().unwrap();
}
