use retro_recording::NamedFile;
use std::fs;
use std::process::Command;

use tempfile::tempdir;

use super::ledger::Ledger;
use super::*;

const TAG: Tag = *b"TEST";

#[test]
fn frames_are_read_where_they_were_put() {
    let place = tempdir().unwrap();
    let named = NamedFile::at(&place.path().join("file")).unwrap();
    let mut writer = FrameWriter::create(&named, TAG).unwrap();
    let frames: Vec<Frame> =
        (0..60).map(|n| Frame { kind: n, bytes: vec![n; usize::from(n).pow(3)] }).collect();
    let positions: Vec<u64> =
        frames.iter().map(|frame| writer.append(frame.kind, &frame.bytes).unwrap()).collect();
    let committed = writer.commit().unwrap();
    assert_eq!(committed, writer.position());
    let file = FrameFile::open(&named, TAG, committed).unwrap();
    for (frame, &position) in frames.iter().zip(&positions).rev() {
        assert_eq!(file.read(position).unwrap(), *frame);
    }
    assert!(matches!(FrameFile::open(&named, *b"else", 0), Err(FrameError::NotThisFile { .. })));
    for position in [0, positions[5] + 1, committed, u64::MAX] {
        assert!(matches!(file.read(position), Err(FrameError::Damaged { .. })));
    }
}

#[test]
fn what_was_not_committed_does_not_count() {
    let place = tempdir().unwrap();
    let named = NamedFile::at(&place.path().join("file")).unwrap();
    let mut writer = FrameWriter::create(&named, TAG).unwrap();
    let first = writer.append(1, b"first").unwrap();
    let committed = writer.commit().unwrap();
    let second = writer.append(1, &[7; 2 * BUFFER_SIZE]).unwrap();
    drop(writer);
    assert!(fs::metadata(named.path()).unwrap().len() > committed);
    let file = FrameFile::open(&named, TAG, committed).unwrap();
    assert!(file.read(second).is_err());
    let mut writer = FrameWriter::reopen(&named, TAG, committed).unwrap();
    assert_eq!(fs::metadata(named.path()).unwrap().len(), committed);
    assert_eq!(writer.append(2, b"another").unwrap(), second);
    assert_eq!(writer.written().unwrap().read(first).unwrap().bytes, b"first");
    assert_eq!(writer.written().unwrap().read(second).unwrap().bytes, b"another");
    let longer = committed + 1000;
    assert!(matches!(FrameFile::open(&named, TAG, longer), Err(FrameError::TooShort { .. })));
    assert!(matches!(FrameWriter::reopen(&named, TAG, longer), Err(FrameError::TooShort { .. })));
}

#[test]
fn every_flipped_bit_is_noticed() {
    let place = tempdir().unwrap();
    let named = NamedFile::at(&place.path().join("file")).unwrap();
    let mut writer = FrameWriter::create(&named, TAG).unwrap();
    let position = writer.append(3, b"some bytes in a frame").unwrap();
    let committed = writer.commit().unwrap();
    let good = fs::read(named.path()).unwrap();
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        fs::write(named.path(), &bad).unwrap();
        let read = FrameFile::open(&named, TAG, committed).and_then(|file| file.read(position));
        assert!(read.is_err(), "bit {bit}");
    }
}

#[test]
fn a_ledger_is_whole_after_every_commit() {
    let place = tempdir().unwrap();
    let named = NamedFile::at(&place.path().join("file")).unwrap();
    let mut writer = FrameWriter::create(&named, TAG).unwrap();
    let mut ledger = Ledger::default();
    let mut list = Vec::new();
    for round in 0..500u64 {
        let addition = vec![round as u8; (round * 7 % 13) as usize];
        list.extend_from_slice(&addition);
        ledger.end().extend_from_slice(&addition);
        writer.append(0, b"something else").unwrap();
        let committed = ledger.commit(&mut writer, round).unwrap();
        if round % 9 == 0 {
            writer.append(0, &[1; 100]).unwrap();
            writer = FrameWriter::reopen(&named, TAG, committed).unwrap();
            let (loaded, number) = Ledger::load(writer.written().unwrap()).unwrap();
            assert_eq!((loaded.list(), number), (&list[..], round));
            assert!(loaded.pieces.len() < 12, "{} pieces", loaded.pieces.len());
            ledger = loaded;
        }
    }
    let per_commit = fs::metadata(named.path()).unwrap().len() / 500;
    assert!(per_commit < 200, "{per_commit} bytes for each commit");
}

/// A mounted file system that goes away at the end of the test.
struct Mount(PathBuf);

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_leaves_what_was_committed() {
    let place = tempdir().unwrap();
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(place.path());
    if !mount.output().is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: no right to mount a small file system");
        return;
    }
    let _mount = Mount(place.path().into());
    let named = NamedFile::at(&place.path().join("file")).unwrap();
    let mut writer = FrameWriter::create(&named, TAG).unwrap();
    let first = writer.append(1, b"kept").unwrap();
    let committed = writer.commit().unwrap();
    let file = FrameFile::open(&named, TAG, committed).unwrap();
    let error = (0..).find_map(|_| writer.append(1, &[5; 100_000]).err()).unwrap();
    let FrameError::Io { source, .. } = &error else { panic!("{error}") };
    assert_eq!(source.kind(), io::ErrorKind::StorageFull);
    assert!(matches!(writer.append(1, b"more"), Err(FrameError::Poisoned(_))));
    assert!(matches!(writer.commit(), Err(FrameError::Poisoned(_))));
    assert_eq!(fs::metadata(named.path()).unwrap().len(), committed, "the room is given back");
    assert_eq!(file.read(first).unwrap().bytes, b"kept");
    let mut writer = FrameWriter::reopen(&named, TAG, committed).unwrap();
    writer.append(1, b"more").unwrap();
    writer.commit().unwrap();
}
