//! Sessions with a fake process: a thread at the other end of the socket.

use super::*;
use crate::stream::STREAM_FILE_SIZE;
use crate::{Detail, Item, Summary, Transfer, WrittenPage};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, send};
use retro_abi::log::{Encoder, Event, MAX_FIXED, Relative};
use retro_abi::replay::{HEADER_SIZE, WRITTEN_SIZE, ending, record_word};
use std::fs::{File, OpenOptions};
use std::io::IoSliceMut;
use std::ops::ControlFlow;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::thread::{self, JoinHandle};

const START: u64 = 1000;
const END: u64 = 1000 + 3 * LONGEST_RUN;

/// Two events within the interval.
fn log_file() -> LogFile {
    let mut bytes = vec![0; 3 * MAX_FIXED];
    let mut relative = Relative::at(START);
    let mut len = 0;
    for (time, thread) in [(START + 2, 6), (START + 9, 5)] {
        let event = Event::ThreadSwitch { thread, check: 0 };
        len += Encoder::new(&mut bytes[len..]).event(time, &event, &mut relative);
    }
    bytes.truncate(len);
    let interval = Interval { number: 0, start: START, end: END };
    LogFile::of_chunks(interval, &[(START, bytes)])
}

/// A session whose process is a thread that does `behave`.
fn session_with(behave: impl FnOnce(&Fake) + Send + 'static) -> (Session, JoinHandle<()>) {
    let (link, socket) = Link::pair().unwrap();
    let fake = thread::spawn(move || behave(&Fake { socket }));
    let session = Session {
        log: 0,
        interval: Interval { number: 0, start: START, end: END },
        log_file: Arc::new(log_file()),
        link,
        process: ReplayProcess::absent(),
        stop: Stop { reason: StopReason::Time, time: START, thread: 5, pc: 1, events: 0 },
        has_run: false,
        breakpoints: Vec::new(),
        tracking: Tracking::Off,
        start: None,
        read_ahead: Default::default(),
        budget: Budget::new(u64::MAX),
        descriptions: Arc::default(),
        stream: None,
        #[cfg(feature = "fuzzing")]
        script: None,
    };
    (session, fake)
}

/// The fake process's end.
struct Fake {
    socket: OwnedFd,
}

impl Fake {
    /// The next message, with the file that came along; `None` when the session is gone.
    fn receive(&self) -> Option<(Header, Vec<u8>, Option<File>)> {
        let mut buffer = vec![0; HEADER_SIZE + MAX_PAYLOAD];
        let mut control = nix::cmsg_space!([i32; 1]);
        let (len, file) = {
            let mut parts = [IoSliceMut::new(&mut buffer)];
            let flags = MsgFlags::empty();
            let got = recvmsg::<()>(self.socket.as_raw_fd(), &mut parts, Some(&mut control), flags);
            let got = got.unwrap();
            let file = got.cmsgs().unwrap().find_map(|message| match message {
                ControlMessageOwned::ScmRights(files) => files.first().copied(),
                _ => None,
            });
            (got.bytes, file)
        };
        let (header, payload) = buffer[..len].split_first_chunk()?;
        // Opened anew: a number alone is nobody's to close. It stays open for the rest of the test.
        let file = file.and_then(|number| {
            let path = format!("/proc/self/fd/{number}");
            OpenOptions::new().read(true).write(true).open(path).ok()
        });
        Some((Header::from_bytes(header), payload.to_vec(), file))
    }

    fn say(&self, header: Header, payload: &[u8]) {
        let message = [&header.to_bytes(), payload].concat();
        send(self.socket.as_raw_fd(), &message, MsgFlags::MSG_NOSIGNAL).unwrap();
    }

    fn stop(&self, reason: u64, time: u64, pc: u64) {
        self.say(Header::new(tell::STOPPED, [reason, time, 5, pc, 0]), &[]);
    }

    /// Waits for a message of a kind.
    fn expect(&self, kind: u64) -> (Header, Vec<u8>, Option<File>) {
        let message = self.receive().unwrap();
        assert_eq!(message.0.kind(), kind, "{:?}", message.0);
        message
    }
}

/// Goes wherever it is sent.
fn obey(fake: &Fake) {
    while let Some((header, ..)) = fake.receive() {
        match header.kind() {
            ask::RUN => {
                assert!(header.0[1] - START <= 3 * LONGEST_RUN);
                fake.stop(why::TIME, header.0[1], 0x4000 + header.0[1]);
            }
            ask::BREAKPOINTS => fake.say(Header::new(tell::DONE, []), &[]),
            kind => panic!("a message of kind {kind}"),
        }
    }
}

#[test]
fn runs_stop_where_they_should() {
    let (mut session, fake) = session_with(obey);
    assert_eq!(session.run_to(START).unwrap().time, START);
    let stop = session.step().unwrap();
    assert_eq!(
        (stop.time, stop.reason, session.pc()),
        (START + 1, StopReason::Time, 0x4000 + stop.time)
    );
    assert!(matches!(session.run_to(START), Err(Error::Backwards { .. })));
    assert_eq!(session.run_to(END).unwrap().reason, StopReason::Time);
    let stop = session.run_to(u64::MAX).unwrap();
    assert_eq!((stop.time, stop.reason), (END, StopReason::End));
    drop(session);
    fake.join().unwrap();
}

/// A long run is made in stretches; a breakpoint where one of them ends is none that the process stops at.
#[test]
fn a_breakpoint_where_a_stretch_ends_is_noticed() {
    let (mut session, fake) = session_with(obey);
    let end_of_first = START + LONGEST_RUN;
    session.set_breakpoints(&[0x4000 + end_of_first]).unwrap();
    let stop = session.run_to(END).unwrap();
    assert_eq!((stop.time, stop.reason), (end_of_first, StopReason::Breakpoint));
    let stop = session.run_to(END).unwrap();
    assert_eq!((stop.time, stop.reason), (END, StopReason::Time));
    drop(session);
    fake.join().unwrap();
}

#[test]
fn whatever_a_process_says_is_an_error_at_most() {
    type Answer = fn(&Fake);
    let answers: [(&str, Answer); 9] = [
        ("nothing", |_| {}),
        ("a kind that does not exist", |fake| fake.say(Header::new(999, []), &[])),
        ("a request for memory", |fake| fake.say(Header::new(tell::NEED, [0x1000]), &[])),
        ("a stop in the past", |fake| fake.stop(why::TIME, 3, 0)),
        ("a stop in the far future", |fake| fake.stop(why::TIME, END + 1, 0)),
        ("a stop halfway", |fake| fake.stop(why::TIME, START + 1, 0)),
        ("a stop without reason", |fake| fake.stop(77, START + 10, 0)),
        ("half a header", |fake| {
            send(fake.socket.as_raw_fd(), &[64, 0, 0], MsgFlags::empty()).unwrap();
        }),
        ("more than a message holds", |fake| {
            let long = vec![64; HEADER_SIZE + MAX_PAYLOAD + 100];
            send(fake.socket.as_raw_fd(), &long, MsgFlags::empty()).unwrap();
        }),
    ];
    for (what, answer) in answers {
        let (mut session, fake) = session_with(move |fake| {
            fake.expect(ask::RUN);
            answer(fake);
        });
        let stop = session.run_to(START + 10);
        assert!(matches!(stop, Err(Error::Crashed(_))), "{what}: {stop:?}");
        fake.join().unwrap();
        // It is gone for good, and that is no signal for us.
        assert!(matches!(session.step(), Err(Error::Crashed(_))), "{what}");
    }
}

#[test]
fn divergences_and_failures_are_passed_on() {
    let (mut session, fake) = session_with(|fake| {
        fake.expect(ask::RUN);
        fake.say(Header::new(tell::DIVERGED, [1234, 5, 0x4711, 6]), b"expected this, found that");
        fake.expect(ask::THREADS);
        fake.say(Header::new(tell::FAILED, []), b"no memory");
    });
    match session.step() {
        Err(Error::Diverged(divergence)) => assert_eq!(
            *divergence,
            Divergence {
                time: 1234,
                thread: 5,
                pc: 0x4711,
                events: 6,
                text: "expected this, found that".to_owned(),
            }
        ),
        other => panic!("{other:?}"),
    }
    assert!(matches!(session.threads(), Err(Error::Failed(why)) if why == "no memory"));
    fake.join().unwrap();
}

#[test]
fn registers_threads_and_memory_come_in() {
    let (mut session, fake) = session_with(|fake| {
        assert_eq!(fake.expect(ask::THREADS).0.0[1], 0);
        let numbers = [5u32, 0, 6, 203];
        fake.say(Header::new(tell::THREADS, []), &numbers.map(u32::to_le_bytes).concat());
        assert_eq!(fake.expect(ask::REGISTERS).0.0[1], 6);
        let words: Vec<u8> = (0..20u64).flat_map(u64::to_le_bytes).chain([1, 2, 3]).collect();
        fake.say(Header::new(tell::REGISTERS, [6, 203, 0]), &words);
        fake.expect(ask::REGISTERS);
        fake.say(Header::new(tell::DONE, []), &[]);
        while let Some((header, ..)) = fake.receive() {
            // Memory is there up to 0x80000.
            let [_, address, len, ..] = header.0;
            let len = len.min(0x80000 - address) as usize;
            fake.say(Header::new(tell::MEMORY, [address]), &vec![(address >> 16) as u8; len]);
        }
    });
    let threads = session.threads().unwrap();
    let expected = [(5, None), (6, Some(202))];
    assert_eq!(threads, expected.map(|(thread, in_syscall)| ThreadInfo { thread, in_syscall }));
    let registers = session.registers(Some(6)).unwrap();
    assert_eq!((registers.thread, registers.in_syscall, registers.running), (6, Some(202), false));
    assert_eq!((registers.pc(), registers.by_name("rbx")), (16, Some(3)));
    assert_eq!(registers.vectors, [1, 2, 3]);
    assert!(matches!(session.registers(Some(99)), Err(Error::NoThread(99))));
    assert_eq!(session.read(0x10ff0, 3).unwrap(), [1, 1, 1]);
    let long = session.read(0x1fff0, 1 << 30).unwrap();
    assert_eq!(long.len(), 0x80000 - 0x1fff0);
    drop(session);
    fake.join().unwrap();
}

/// Two pieces in the file, with descriptions that come when they are needed.
#[test]
fn a_stream_is_read_from_the_file_and_merged_with_the_log() {
    let (mut session, fake) = session_with(|fake| {
        let (header, _, file) = fake.expect(ask::STREAM_FILE);
        let file = file.unwrap();
        assert_eq!(header.0[1], STREAM_FILE_SIZE as u64);
        fake.say(Header::new(tell::DONE, []), &[]);
        let (header, ..) = fake.expect(ask::RUN);
        assert_eq!(header.0[1..3], [START + 4, Detail::BLOCKS.bits() | Detail::WRITES.bits()]);
        for (number, offset) in [(0u32, 0), (1, STREAM_FILE_SIZE as u64 / 2)] {
            let words = [number.into(), 0x100 * u64::from(number + 8), 2, ending::JUMP, 4, 0];
            let description = [&Header::new(2, words).to_bytes()[..], &[1, 2]].concat();
            fake.say(Header::new(tell::BLOCK, []), &description);
            file.write_all_at(&record_word(number, 4).to_le_bytes(), offset).unwrap();
            let time = START + 2 * u64::from(number);
            fake.say(Header::new(tell::STREAM, [offset, 4, time]), &[]);
            fake.expect(ask::GO_ON);
        }
        fake.stop(why::TIME, START + 4, 0);
        fake.expect(ask::RUN);
        let beyond = STREAM_FILE_SIZE as u64 - 3;
        fake.say(Header::new(tell::STREAM, [beyond, 4, START + 4]), &[]);
    });
    let mut told = Vec::new();
    let stop = session.stream(START + 4, Detail::WRITES, |item| {
        told.push(match item {
            Item::Block(block) => (block.time - START, block.thread, block.pc()),
            Item::Event { time, thread, .. } => (time - START, *thread, 0),
        });
        ControlFlow::Continue(())
    });
    assert_eq!(stop.unwrap().time, START + 4);
    assert_eq!(told, [(0, 5, 0x800), (2, 6, 0), (2, 6, 0x900)]);
    let beyond = session.stream(START + 8, Detail::BLOCKS, |_| ControlFlow::Continue(()));
    assert!(matches!(beyond, Err(Error::Crashed(_))));
    fake.join().unwrap();
}

/// A summary that notes what it is told of pages.
#[derive(Default)]
struct Noted {
    pages: Vec<(u64, u8)>,
    cleared: Vec<(u64, u64)>,
    executed: Vec<(u64, u32)>,
}

impl Summary for Noted {
    fn transfer(&mut self, _: Transfer) {}

    fn executed(&mut self, pc: u64, _: &[u8], times: u32, _: bool) {
        self.executed.push((pc, times));
    }

    fn cleared(&mut self, start: u64, end: u64) -> Result<(), Error> {
        self.cleared.push((start, end));
        Ok(())
    }

    fn written(&mut self, page: WrittenPage<'_>) -> Result<(), Error> {
        self.pages.push((page.address, page.bytes[0]));
        Ok(())
    }
}

#[test]
fn a_summary_is_counted_and_written() {
    let (mut session, fake) = session_with(|fake| {
        fake.expect(ask::STREAM_FILE);
        fake.say(Header::new(tell::DONE, []), &[]);
        for cut in [0, 1] {
            fake.expect(ask::COUNTS);
            // Nobody has described this block.
            fake.say(Header::new(tell::COUNTS, []), &[7, 0, 0, 0, 1, 0, 0, 0]);
            fake.say(Header::new(tell::DONE, []), &[]);
            fake.expect(ask::CHANGES);
            fake.say(Header::new(tell::CLEARED, [0x3000, 0x5000]), &[]);
            let page = |address: u64, byte: u8| {
                let mut bytes = vec![byte; WRITTEN_SIZE];
                bytes[..8].copy_from_slice(&address.to_le_bytes());
                bytes
            };
            let pages = [page(0x3000, 1), page(0x9000, 2)].concat();
            fake.say(Header::new(tell::WRITTEN, []), &pages[..pages.len() - cut]);
            if cut == 0 {
                fake.say(Header::new(tell::DONE, []), &[]);
            }
        }
    });
    let mut noted = Noted::default();
    session.summarise(START, &mut noted).unwrap();
    assert_eq!(noted.pages, [(0x3000, 1), (0x9000, 2)]);
    assert_eq!(noted.cleared, [(0x3000, 0x5000)]);
    assert_eq!(noted.executed, []);
    assert!(matches!(session.summarise(START, &mut noted), Err(Error::Crashed(_))));
    fake.join().unwrap();
}

/// The process whose number a copy would have to have is not one that we have made.
#[test]
fn a_copy_that_is_no_child_of_ours_is_refused() {
    let (mut session, fake) = session_with(|fake| {
        // Both ends are ours here, so that the message comes from this very process.
        let mut control = nix::cmsg_space!([i32; 1]);
        let mut buffer = [0; HEADER_SIZE];
        let mut parts = [IoSliceMut::new(&mut buffer)];
        let socket = fake.socket.as_raw_fd();
        let got = recvmsg::<()>(socket, &mut parts, Some(&mut control), MsgFlags::empty()).unwrap();
        let Some(ControlMessageOwned::ScmRights(files)) = got.cmsgs().unwrap().next() else {
            panic!("no socket came along")
        };
        let done = Header::new(tell::DONE, [1]).to_bytes();
        fake.say(Header::new(tell::DONE, [1]), &[]);
        send(files[0], &done, MsgFlags::empty()).unwrap();
    });
    assert!(matches!(session.fork(), Err(Error::Start(_))));
    fake.join().unwrap();
}
