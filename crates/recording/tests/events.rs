//! The bytes of events: whatever is encoded is decoded to the same, and no bytes make decoding panic.

use proptest::collection::vec;
use proptest::prelude::*;
use retro_abi::log::{
    BadEvent, Decoder, Encoder, Event, Kind, MAX_BYTES, MAX_FIXED, MapKind, RegisterSet, Relative,
    register,
};

/// What an event is made of; which of it is used depends on the kind.
#[derive(Clone, Debug)]
struct Material {
    kind: Kind,
    dt: u64,
    numbers: [u64; 24],
    strings: [Vec<u8>; 4],
}

impl Material {
    fn event(&self) -> Event<'_> {
        let number = |index: usize| self.numbers[index];
        let small = |index: usize| self.numbers[index] as u32;
        let string = |index: usize| &self.strings[index][..];
        match self.kind {
            Kind::Load => Event::Load { address: number(0), bytes: string(0) },
            Kind::Write => Event::Write { address: number(0), bytes: string(0) },
            Kind::SyscallEnter => Event::SyscallEnter {
                number: number(0),
                args: std::array::from_fn(|index| number(index + 1)),
                check: small(7),
            },
            Kind::SyscallExit => Event::SyscallExit { result: number(0) },
            Kind::Registers => Event::Registers(self.registers()),
            Kind::Vectors => Event::Vectors { image: string(0) },
            Kind::Signal => Event::Signal {
                // Its number shares 32 bits with the flag beside it.
                number: small(0) >> 1,
                synchronous: number(1) & 1 != 0,
                handler: number(2),
                check: small(3),
                info: string(0),
            },
            Kind::Map => Event::Map {
                kind: MapKind::from_number(number(0) % 5).unwrap(),
                start: number(1),
                len: number(2),
                prot: small(3),
                flags: small(4),
                file: number(5),
                offset: number(6),
            },
            Kind::ThreadStart => Event::ThreadStart { thread: small(0) },
            Kind::ThreadSwitch => Event::ThreadSwitch { thread: small(0), check: small(1) },
            Kind::ThreadEnd => Event::ThreadEnd { thread: small(0), code: small(1) },
            Kind::Interval => {
                Event::Interval { number: number(0), running: small(1), threads: small(2) }
            }
            Kind::ThreadState => Event::ThreadState {
                thread: small(21),
                in_syscall: small(22),
                registers: self.registers(),
                image: string(0),
            },
            Kind::Fork => Event::Fork { pid: small(0), log: number(1) },
            Kind::Start => Event::Start {
                pid: small(0),
                parent: small(1),
                origin: number(2) as u8,
                seconds: number(3),
                nanoseconds: small(4),
                path: string(0),
                arguments: string(1),
                environment: string(2),
                directory: string(3),
            },
            Kind::End => Event::End { how: small(0), code: small(1) },
            Kind::Code => Event::Code { address: number(0), bytes: string(0) },
            Kind::Inherit => Event::Inherit { log: number(0), time: number(1) },
            Kind::MemorySum => {
                Event::MemorySum { start: number(0), len: number(1), sum: number(2) }
            }
            Kind::File => Event::File {
                number: number(0),
                device: number(1),
                inode: number(2),
                size: number(3),
                modified_seconds: number(4) as i64,
                modified_nanoseconds: small(5),
                build_id: string(0),
                path: string(1),
            },
        }
    }

    fn registers(&self) -> RegisterSet {
        let mut set = RegisterSet::default();
        for register in 0..register::COUNT as u32 {
            if self.numbers[20] & 1 << register != 0 {
                set.set(register, self.numbers[register as usize]);
            }
        }
        set
    }
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..20u64, any::<u64>(), any::<u64>().prop_map(|n| n >> 32), Just(u64::MAX)]
}

fn string() -> impl Strategy<Value = Vec<u8>> {
    let lengths = prop_oneof![
        8 => 0..70usize,
        4 => prop::sample::select(vec![0, 1, 2, 4, 8, 16, 32, 64]),
        1 => Just(MAX_BYTES),
    ];
    lengths.prop_flat_map(|length| vec(any::<u8>(), length))
}

fn material() -> impl Strategy<Value = Material> {
    let kind = prop::sample::select(Kind::ALL.to_vec());
    let numbers = prop::array::uniform24(number());
    let strings = prop::array::uniform4(string());
    (kind, number(), numbers, strings).prop_map(|(kind, dt, numbers, strings)| Material {
        kind,
        dt,
        numbers,
        strings,
    })
}

/// Encodes as an engine does: each event into room for it at the end of the chunk.
fn encode(base_time: u64, material: &[Material]) -> Vec<u8> {
    let mut chunk = Vec::new();
    let mut relative = Relative::at(base_time);
    let mut time = base_time;
    for part in material {
        time = time.wrapping_add(part.dt);
        let strings: usize = part.strings.iter().map(Vec::len).sum();
        let mut room = vec![0; MAX_FIXED + strings];
        let length = Encoder::new(&mut room).event(time, &part.event(), &mut relative);
        chunk.extend_from_slice(&room[..length]);
    }
    chunk
}

proptest! {
    #[test]
    fn events_are_decoded_as_they_were_encoded(
        base_time in number(),
        material in vec(material(), 0..12),
    ) {
        let chunk = encode(base_time, &material);
        let mut decoder = Decoder::new(&chunk, base_time);
        let mut time = base_time;
        for part in &material {
            time = time.wrapping_add(part.dt);
            prop_assert_eq!(decoder.next(), Some(Ok((time, part.event()))));
            prop_assert_eq!(decoder.time(), time);
        }
        prop_assert_eq!(decoder.next(), None);
        prop_assert_eq!(decoder.offset(), chunk.len());
    }

    #[test]
    fn every_kind_makes_the_round_trip(material in material()) {
        for kind in Kind::ALL {
            let material = Material { kind, ..material.clone() };
            let chunk = encode(0, std::slice::from_ref(&material));
            let decoded: Vec<_> = Decoder::new(&chunk, 0).collect();
            prop_assert_eq!(decoded, vec![Ok((material.dt, material.event()))]);
            prop_assert_eq!(material.event().kind(), kind);
        }
    }

    #[test]
    fn a_chunk_that_is_cut_gives_the_whole_events_before_the_cut(
        material in vec(material(), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let chunk = encode(5, &material);
        let whole: Vec<_> = Decoder::new(&chunk, 5).collect();
        let cut = cut.index(chunk.len());
        for (index, event) in Decoder::new(&chunk[..cut], 5).enumerate() {
            match event {
                Ok(_) => prop_assert_eq!(&event, &whole[index]),
                Err(BadEvent { offset, .. }) => prop_assert!(offset < cut),
            }
        }
    }

    #[test]
    fn random_bytes_never_panic(base_time in any::<u64>(), chunk in vec(any::<u8>(), 0..600)) {
        check_decoding_ends(&chunk, base_time);
    }

    #[test]
    fn changed_bytes_never_panic(
        material in vec(material(), 1..6),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut chunk = encode(0, &material);
        for (index, byte) in changes {
            let index = index.index(chunk.len());
            chunk[index] = byte;
        }
        check_decoding_ends(&chunk, 0);
    }
}

/// Decodes everything: each event takes at least a byte, and an error is the last item.
fn check_decoding_ends(chunk: &[u8], base_time: u64) {
    let items: Vec<_> = Decoder::new(chunk, base_time).collect();
    assert!(items.len() <= chunk.len());
    let failed = items.iter().position(Result::is_err);
    assert!(failed.is_none_or(|index| index == items.len() - 1));
}

/// The bytes that docs/format.md shows as examples.
#[test]
fn events_have_the_documented_bytes() {
    let mut relative = Relative::at(100);
    let mut check = |time: u64, event: Event, expected: &[u8]| {
        let mut room = [0; 512];
        let length = Encoder::new(&mut room).event(time, &event, &mut relative);
        assert_eq!(&room[..length], expected, "{event:?}");
    };
    check(103, Event::Load { address: 0x40, bytes: &[7] }, &[0x8b, 0x80, 0x01, 7]);
    check(103, Event::Load { address: 0x41, bytes: &[1, 2] }, &[0xd0, 1, 2]);
    check(110, Event::Load { address: 0x43, bytes: &[9; 3] }, &[0xc7, 0, 3, 9, 9, 9]);
    check(300, Event::SyscallExit { result: -2i64 as u64 }, &[3, 0xbe, 0x01, 3]);
    check(300, Event::ThreadSwitch { thread: 2, check: 0x01020304 }, &[9, 0, 2, 4, 3, 2, 1]);
}
