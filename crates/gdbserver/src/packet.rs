//! Packets on the wire: `$data#sum`, escapes, repetitions, acknowledgements.
//!
//! *Strategy.* [`Decoder`] takes bytes as they come and says what they were: packets, acknowledgements, an interrupt.
//! [`frame`] is the way back.
//!
//! Invariants: no bytes make the decoder panic, or keep more than [`LONGEST`] of them.

/// Bytes of the longest packet that is taken; told to the client, which keeps to it.
pub const LONGEST: usize = 1 << 17;

/// What came from a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// A packet, without escapes.
    Packet(Vec<u8>),
    /// A packet that got damaged on its way, or is too long.
    Damaged,
    /// The last packet of ours has arrived.
    Acknowledged,
    /// It has not.
    Refused,
    /// Stop what is running: Ctrl-C.
    Interrupt,
    /// A byte that no client of this protocol sends where it came: the client speaks another one.
    Foreign,
}

/// Takes bytes apart.
#[derive(Debug, Default)]
pub struct Decoder {
    place: Place,
    packet: Vec<u8>,
    sum: u8,
    is_too_long: bool,
}

/// Where the next byte belongs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Between,
    Packet,
    Escaped,
    FirstDigit,
    SecondDigit(u8),
}

const ESCAPE: u8 = b'}';
const ESCAPED: u8 = 0x20;
const INTERRUPT: u8 = 0x03;

impl Decoder {
    /// Takes a byte. Says what is complete with it.
    pub fn take(&mut self, byte: u8) -> Option<Incoming> {
        match self.place {
            Place::Between => match byte {
                b'$' => {
                    self.begin();
                    None
                }
                b'+' => Some(Incoming::Acknowledged),
                b'-' => Some(Incoming::Refused),
                INTERRUPT => Some(Incoming::Interrupt),
                _ => Some(Incoming::Foreign),
            },
            Place::Packet | Place::Escaped => {
                self.take_data(byte);
                None
            }
            Place::FirstDigit => {
                self.place = Place::SecondDigit(byte);
                None
            }
            Place::SecondDigit(first) => {
                self.place = Place::Between;
                let sum = crate::hex::number(&[first, byte]);
                let packet = std::mem::take(&mut self.packet);
                let is_whole = sum == Some(self.sum.into()) && !self.is_too_long;
                Some(if is_whole { Incoming::Packet(packet) } else { Incoming::Damaged })
            }
        }
    }

    fn begin(&mut self) {
        *self = Decoder { place: Place::Packet, ..Decoder::default() };
    }

    fn take_data(&mut self, byte: u8) {
        if byte == b'$' {
            // The rest of the packet before got lost.
            return self.begin();
        }
        if byte == b'#' {
            self.place = Place::FirstDigit;
            return;
        }
        self.sum = self.sum.wrapping_add(byte);
        let is_escaped = self.place == Place::Escaped;
        if byte == ESCAPE && !is_escaped {
            self.place = Place::Escaped;
            return;
        }
        self.place = Place::Packet;
        if self.packet.len() >= LONGEST {
            self.is_too_long = true;
            return;
        }
        self.packet.push(if is_escaped { byte ^ ESCAPED } else { byte });
    }
}

/// A packet as it goes over the wire. Runs of a byte are shortened.
pub fn frame(data: &[u8]) -> Vec<u8> {
    let mut framed = Vec::with_capacity(data.len() + 4);
    framed.push(b'$');
    let mut rest = data;
    while let Some(&byte) = rest.first() {
        let run = rest.iter().take_while(|&&next| next == byte).count();
        let run = put_run(&mut framed, byte, run);
        rest = &rest[run..];
    }
    let sum = framed[1..].iter().fold(0u8, |sum, &byte| sum.wrapping_add(byte));
    framed.push(b'#');
    crate::hex::put(&mut framed, &[sum]);
    framed
}

/// Appends some bytes of a run. Says how many.
fn put_run(framed: &mut Vec<u8>, byte: u8, run: usize) -> usize {
    /// What is added to the number of repetitions to make it printable.
    const BASE: usize = 29;
    const MOST: usize = 126 - BASE;
    if matches!(byte, b'$' | b'#' | b'*' | ESCAPE) {
        framed.extend([ESCAPE, byte ^ ESCAPED]);
        return 1;
    }
    framed.push(byte);
    let mut repeated = (run - 1).min(MOST);
    // These numbers would look like the end or the beginning of a packet, or an acknowledgement.
    while matches!((repeated + BASE) as u8, b'#' | b'$' | b'+' | b'-') {
        repeated -= 1;
    }
    if repeated < 3 {
        return 1;
    }
    framed.extend([b'*', (repeated + BASE) as u8]);
    repeated + 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decoded(bytes: &[u8]) -> Vec<Incoming> {
        let mut decoder = Decoder::default();
        bytes.iter().filter_map(|&byte| decoder.take(byte)).collect()
    }

    /// What a client makes of repetitions.
    fn expanded(framed: &[u8]) -> Vec<u8> {
        let mut data: Vec<u8> = Vec::new();
        let mut bytes = framed[1..framed.len() - 3].iter();
        while let Some(&byte) = bytes.next() {
            match byte {
                b'}' => data.push(bytes.next().unwrap() ^ 0x20),
                b'*' => {
                    let last = *data.last().unwrap();
                    let count = usize::from(*bytes.next().unwrap()) - 29;
                    data.extend(std::iter::repeat_n(last, count));
                }
                _ => data.push(byte),
            }
        }
        data
    }

    #[test]
    fn a_packet_with_acknowledgements_around_it() {
        let seen = decoded(b"+$m10,4#2e\x03-");
        let packet = Incoming::Packet(b"m10,4".to_vec());
        assert_eq!(seen, [Incoming::Acknowledged, packet, Incoming::Interrupt, Incoming::Refused]);
    }

    #[test]
    fn damage_is_noticed() {
        assert_eq!(decoded(b"$m10,4#2f"), [Incoming::Damaged]);
        assert_eq!(decoded(b"$m10,4#zz"), [Incoming::Damaged]);
        let long = [b"$".to_vec(), vec![b'a'; LONGEST + 1], b"#00".to_vec()].concat();
        assert_eq!(decoded(&long), [Incoming::Damaged]);
    }

    #[test]
    fn runs_are_shortened() {
        assert_eq!(frame(b"00000"), b"$0*!#7b");
        // Seven repetitions would be spelled `$`, which begins packets.
        assert_eq!(frame(b"00000000"), b"$0*\"00#dc");
        assert_eq!(frame(b"ok"), b"$ok#da");
    }

    proptest! {
        #[test]
        fn packets_come_back(data in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert_eq!(expanded(&frame(&data)), data);
        }

        #[test]
        fn long_runs_come_back(byte: u8, len in 1usize..400) {
            let data = vec![byte; len];
            prop_assert_eq!(expanded(&frame(&data)), data);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..500)) {
            decoded(&bytes);
        }
    }
}
