//! Merging, with streams made by hand.

use super::*;
use crate::log_file::LogFile;
use crate::{Error, Interval};
use retro_abi::log::{Encoder, MAX_FIXED, Relative};
use retro_abi::replay::{self, Header, LOOSE, NUMBER_BITS, access, tell};

fn share() -> retro_recording::Share {
    retro_recording::Budget::new(u64::MAX).share()
}

/// A block of three instructions: one writes 4 bytes, one reads 8 with no value, the last calls.
fn describe(blocks: &mut Descriptions) {
    let accesses = [
        replay::Access {
            instruction: 0,
            kind: access::WRITE,
            len: 4,
            base: 8,
            value: 16,
            displacement: 0x10,
        },
        replay::Access {
            instruction: 1,
            kind: access::READ,
            len: 8,
            base: replay::Access::ABSOLUTE,
            value: replay::Access::NO_VALUE,
            displacement: 0x601000,
        },
        replay::Access {
            instruction: 2,
            kind: access::CALL,
            len: 8,
            base: 8,
            value: replay::Access::NO_VALUE,
            displacement: 8u64.wrapping_neg(),
        },
    ];
    let mut payload: Vec<u8> = accesses.iter().flat_map(|access| access.to_bytes()).collect();
    payload.extend([3, 4, 5]);
    blocks
        .define(&Header::new(tell::BLOCK, [0, 0x401000, 3, ending::CALL, 24, 0]), &payload)
        .unwrap();
    blocks
        .define(&Header::new(tell::BLOCK, [1, 0x402000, 1, ending::SYSCALL, 4, 0]), &[2])
        .unwrap();
}

fn calling(base: u64, value: u32) -> Vec<u8> {
    let mut record = vec![0; 24];
    record[..4].copy_from_slice(&replay::record_word(0, 24).to_le_bytes());
    record[8..16].copy_from_slice(&base.to_le_bytes());
    record[16..20].copy_from_slice(&value.to_le_bytes());
    record
}

fn loose(kind: u8, back: u16, address: u64, bytes: &[u8]) -> Vec<u8> {
    let mut record = LOOSE.to_le_bytes().to_vec();
    record.extend_from_slice(&u16::from(kind).to_le_bytes());
    record.extend_from_slice(&back.to_le_bytes());
    record.extend_from_slice(&address.to_le_bytes());
    record.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    record.extend_from_slice(bytes);
    record.resize(record.len().next_multiple_of(8), 0);
    record
}

fn log_of(events: &[(u64, Event)]) -> LogFile {
    let mut bytes = vec![0; MAX_FIXED * (events.len() + 1)];
    let mut relative = Relative::at(0);
    let mut len = 0;
    for (time, event) in events {
        len += Encoder::new(&mut bytes[len..]).event(*time, event, &mut relative);
    }
    bytes.truncate(len);
    LogFile::of_chunks(Interval { number: 0, start: 0, end: 1 << 40 }, &[(0, bytes)])
}

fn describe_item(item: &Item) -> String {
    match item {
        Item::Block(block) => {
            let mut text = format!("{} t{} {:#x}", block.time, block.thread, block.pc());
            for access in block.accesses() {
                let Access { time, kind, address, len, value } = access;
                text += &format!(" [{time} {kind:?} {address:#x}+{len} {value:x?}]");
            }
            text
        }
        Item::Event { time, thread, event } => format!("{time} t{thread} {:?}", event.kind()),
    }
}

/// Merges pieces of a stream, each with the time of its first block, and tells what comes of it.
fn merge(
    log: &LogFile,
    from: u64,
    pieces: &[(u64, Vec<u8>)],
    until: u64,
) -> Result<Vec<String>, Error> {
    let mut blocks = Descriptions::default();
    describe(&mut blocks);
    let between = log.chunks_between(from, until)?;
    let mut told = Vec::new();
    let mut visit = |item: &Item<'_>| {
        told.push(describe_item(item));
        ControlFlow::Continue(())
    };
    let mut merger = Merger::new(between.events(), from..u64::MAX, 7, share(), &mut visit)?;
    for (time, bytes) in pieces {
        merger.records(&blocks, bytes, *time)?;
    }
    merger.finish(&blocks, until)?;
    Ok(told)
}

const SYSCALL: [u8; 4] = (1u32 | 1 << NUMBER_BITS).to_le_bytes();

#[test]
fn events_come_after_what_retires_at_their_time() {
    let log = log_of(&[
        (10, Event::SyscallExit { result: 0 }),
        (13, Event::ThreadSwitch { thread: 9, check: 0 }),
        (14, Event::SyscallEnter { number: 1, args: [0; 6], check: 0 }),
        (14, Event::SyscallExit { result: 1 }),
        (20, Event::ThreadSwitch { thread: 7, check: 0 }),
    ]);
    let stream = [calling(0x7000, 0xabcd), SYSCALL.to_vec()].concat();
    let told = merge(&log, 10, &[(10, stream.clone())], 14).unwrap();
    assert_eq!(
        told,
        [
            "10 t7 0x401000 [10 Write 0x7010+4 [cd, ab, 0, 0]] [11 Read 0x601000+8 []] [12 Call 0x6ff8+8 [c, 10, 40, 0, 0, 0, 0, 0]]",
            "13 t9 ThreadSwitch",
            "13 t9 0x402000",
            "14 t9 SyscallEnter",
            "14 t9 SyscallExit",
        ]
    );
    let lacking = merge(&log, 10, &[(10, stream)], 15);
    assert!(
        matches!(lacking, Err(Error::Crashed(_))),
        "an instruction is in no block: {lacking:?}"
    );
}

/// Loose accesses are sorted in among those that the description has.
#[test]
fn loose_accesses_belong_to_the_block_before() {
    let stream = [
        calling(0x7000, 1),
        loose(access::WRITE, 2, 0x9000, b"hello"),
        loose(access::READ, 1, 0x9100, b"longer than eight"),
        SYSCALL.to_vec(),
    ];
    let told = merge(&log_of(&[]), 100, &[(100, stream.concat())], 104).unwrap();
    let kinds: Vec<&str> = told[0].split(" [").skip(1).filter(|part| part.contains('+')).collect();
    assert_eq!(
        kinds,
        [
            "100 Write 0x7010+4",
            "101 Read 0x601000+8",
            "101 Write 0x9000+5",
            "102 Call 0x6ff8+8",
            "102 Read 0x9100+17",
        ]
    );
    assert_eq!(told[1], "103 t7 0x402000");
}

/// Wherever the file's halves end, the same is told.
#[test]
fn pieces_can_end_anywhere_between_records() {
    let log =
        log_of(&[(53, Event::SyscallExit { result: 0 }), (57, Event::SyscallExit { result: 0 })]);
    let mut records: Vec<(u64, Vec<u8>)> = Vec::new();
    let mut time = 50;
    for index in 0..6u64 {
        records.push((time, calling(0x1000 * index, index as u32)));
        time += 3;
        for extra in 0..index % 3 {
            records.push((time, loose(access::WRITE, 1 + extra as u16, 0x90 + extra, b"abc")));
        }
        records.push((time, SYSCALL.to_vec()));
        time += 1;
    }
    let join = |records: &[(u64, Vec<u8>)]| -> (u64, Vec<u8>) {
        (records[0].0, records.iter().flat_map(|(_, bytes)| bytes.clone()).collect())
    };
    let whole = merge(&log, 50, &[join(&records)], time).unwrap();
    assert_eq!(whole.len(), 14);
    for first in 1..records.len() {
        for second in first + 1..records.len() {
            let pieces = [&records[..first], &records[first..second], &records[second..]].map(join);
            assert_eq!(
                merge(&log, 50, &pieces, time).unwrap(),
                whole,
                "cut at {first} and {second}"
            );
        }
    }
}

#[test]
fn streams_that_make_no_sense_are_refused() {
    let log = log_of(&[]);
    let huge = {
        let mut record = loose(access::WRITE, 1, 0, b"");
        record[16..24].copy_from_slice(&u64::MAX.to_le_bytes());
        [SYSCALL.to_vec(), record].concat()
    };
    let streams: [(&str, Vec<u8>); 6] = [
        ("an unknown block", 3u32.to_le_bytes().to_vec()),
        ("a block far beyond all", 0xffff_0000u32.to_le_bytes().to_vec()),
        ("half a number", vec![2, 0]),
        ("half a block", calling(0, 0)[..20].to_vec()),
        ("a loose record without a block", loose(access::WRITE, 1, 0, b"x")),
        ("a loose record longer than memory", huge),
    ];
    for (what, stream) in streams {
        let merged = merge(&log, 0, &[(0, stream)], 10);
        assert!(matches!(merged, Err(Error::Crashed(_))), "{what}: {merged:?}");
    }
    let back = merge(&log, 0, &[(5, SYSCALL.to_vec()), (3, SYSCALL.to_vec())], 10);
    assert!(matches!(back, Err(Error::Crashed(_))), "time goes back: {back:?}");
}

#[test]
fn descriptions_that_make_no_sense_are_refused() {
    let mut blocks = Descriptions::default();
    let good = [0, 0x1000, 2, ending::NEXT, 16, 0];
    let access = replay::Access {
        instruction: 1,
        kind: access::READ,
        len: 8,
        base: 8,
        value: 8,
        displacement: 0,
    };
    let mut define = |words: [u64; 6], access: replay::Access| {
        let mut payload = access.to_bytes().to_vec();
        payload.extend([1, 2]);
        blocks.define(&Header::new(tell::BLOCK, words), &payload)
    };
    assert_eq!(define(good, access), Ok(()));
    for (index, wrong) in
        [(0, u64::MAX), (0, 7), (2, 0), (2, 1 << 40), (3, 99), (4, 3), (4, 18), (4, 1 << 20)]
    {
        let mut words = good;
        words[index] = wrong;
        assert!(define(words, access).is_err(), "word {index} = {wrong}");
    }
    for wrong in [
        replay::Access { instruction: 2, ..access },
        replay::Access { kind: 4, ..access },
        replay::Access { base: 9, ..access },
        replay::Access { value: 9, ..access },
        replay::Access { len: u16::MAX, ..access },
    ] {
        assert!(define(good, wrong).is_err(), "{wrong:?}");
    }
    assert!(blocks.define(&Header::new(tell::BLOCK, good), &[0; 15]).is_err());
}

#[test]
fn a_visitor_that_has_enough_is_told_nothing_more() {
    let log = log_of(&[(1, Event::SyscallExit { result: 0 })]);
    let mut blocks = Descriptions::default();
    describe(&mut blocks);
    let between = log.chunks_between(0, 9).unwrap();
    let mut told = 0;
    let mut visit = |_: &Item<'_>| {
        told += 1;
        ControlFlow::Break(())
    };
    let mut merger = Merger::new(between.events(), 0..u64::MAX, 7, share(), &mut visit).unwrap();
    merger.records(&blocks, &SYSCALL.repeat(3), 0).unwrap();
    assert!(merger.is_done);
    merger.finish(&blocks, 3).unwrap();
    assert_eq!(told, 1);
}
