//! Packs: files from anybody.

use std::fs;
use std::path::Path;
use std::process::Command;

use retro_testkit::compare::Ending;

use crate::forged::{Forged, LOOP};
use crate::place::{Place, assert_refused, is_root, said};

fn packed(place: &Place) -> Vec<u8> {
    Forged::new(LOOP, 1000).write(&place.recording());
    let outcome = place.retro(&["pack", "recording", "-o", "p.retro"]);
    assert_eq!(outcome.status, Ending::Exited(0), "{}", said(&outcome));
    fs::read(place.path().join("p.retro")).unwrap()
}

/// Writes a pack whose header says something else, with the checksum that belongs to it.
fn declare(place: &Place, pack: &[u8], offset: usize, bytes: &[u8]) {
    let mut forged = pack.to_vec();
    forged[offset..offset + bytes.len()].copy_from_slice(bytes);
    let sum = crc32(&forged[..44]);
    forged[44..48].copy_from_slice(&sum.to_le_bytes());
    fs::write(place.path().join("forged.retro"), forged).unwrap();
}

/// As in docs/format.md.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |sum, &byte| {
        (0..8).fold(sum ^ u32::from(byte), |sum, _| {
            (sum >> 1) ^ (0xedb8_8320 & (sum & 1).wrapping_neg())
        })
    })
}

#[track_caller]
fn assert_not_unpacked(place: &Place, words: &[&str]) {
    assert_refused(&place.retro(&["unpack", "forged.retro", "-o", "unpacked"]), words);
    let names: Vec<_> =
        fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    let left = names.iter().find(|name| name.to_string_lossy().contains("unpack"));
    assert_eq!(left, None, "{names:?}");
    place.assert_unharmed();
}

/// It declares more than it can hold.
#[test]
fn a_pack_that_declares_too_much() {
    let place = Place::new("declares");
    let pack = packed(&place);
    for total in [u64::MAX, 1 << 60, 1 << 40] {
        declare(&place, &pack, 32, &total.to_le_bytes());
        assert_not_unpacked(&place, &["it declares more than it can hold"]);
    }
    declare(&place, &pack, 12, &u32::MAX.to_le_bytes());
    assert_not_unpacked(&place, &["it declares more than it can hold"]);
}

/// It would fill the disk.
#[test]
fn a_pack_that_would_fill_the_disk() {
    if !is_root("mounting a small disk") {
        return;
    }
    let place = Place::new("fills");
    let small = place.path().join("small");
    fs::create_dir(&small).unwrap();
    let mounted =
        Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(&small).status();
    if !mounted.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: a small disk cannot be mounted here");
        return;
    }
    let _mount = Mount(&small);
    let pack = packed(&place);
    // As much as there is, of which some is left alone.
    let total: u64 = 1020 << 10;
    let mut forged = pack.clone();
    forged.resize(4 << 20, 0);
    declare(&place, &forged, 32, &total.to_le_bytes());
    let outcome = place.retro(&["unpack", "forged.retro", "-o", "small/unpacked"]);
    assert_refused(&outcome, &["are free on the disk"]);
    assert_eq!(fs::read_dir(&small).unwrap().count(), 0);
    assert_eq!(
        place.retro(&["unpack", "p.retro", "-o", "small/unpacked"]).status,
        Ending::Exited(0)
    );
}

struct Mount<'a>(&'a Path);

impl Drop for Mount<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.0).status();
    }
}

/// Names in a pack are numbers; names of the pack itself are the user's, and made harmless.
#[test]
fn a_name_of_a_pack_leads_nowhere() {
    let place = Place::new("named");
    packed(&place);
    for name in [
        "..retro",
        "-rf.retro",
        "latest.retro",
        ".annex.retro",
        "a b;touch x.retro",
        "\u{1b}[2J.retro",
    ] {
        fs::copy(place.path().join("p.retro"), place.path().join(name)).unwrap();
        let outcome = place.retro(&["unpack", "--", &format!("./{name}")]);
        assert_eq!(outcome.status, Ending::Exited(0), "{name}: {}", said(&outcome));
        assert!(
            said(&outcome).chars().all(|c| c == '\n' || !c.is_control()),
            "{:?}",
            said(&outcome)
        );
    }
    for entry in fs::read_dir(place.store()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "._+-".contains(c));
        assert!(is_plain, "{name:?}");
    }
    assert!(!place.path().join("x").exists());
    // The link is a link, and nothing took its place.
    assert!(fs::symlink_metadata(place.store().join("latest")).unwrap().is_symlink());
}

/// What a pack is unpacked to must not be there, not even as a link.
#[test]
fn a_pack_replaces_nothing() {
    let place = Place::new("replaces");
    packed(&place);
    let link = place.path().join("target");
    std::os::unix::fs::symlink(place.home(), &link).unwrap();
    for target in ["target", "home", "home/.bashrc"] {
        assert_refused(&place.retro(&["unpack", "p.retro", "-o", target]), &["exists already"]);
        assert_refused(&place.retro(&["import", "recording", "-o", target]), &["exists already"]);
    }
    place.assert_unharmed();
}
