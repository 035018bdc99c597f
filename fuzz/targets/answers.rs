//! Everything that a session can be asked, answered by a process that says anything.

#![no_main]

use std::ops::ControlFlow;

use libfuzzer_sys::fuzz_target;
use retro_fuzz::{END, Input, recording};
use retro_replayer::{
    Block, Condition, Detail, Error, Item, KeptStream, Session, Snapshot, Summary, Transfer,
    Visitor, WrittenPage, fuzzing,
};

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let questions: Vec<u8> = (0..input.byte() % 8).map(|_| input.byte()).collect();
    let replayer = fuzzing::replayer(recording(), input.script());
    let Ok(mut session) = replayer.session(0, 0) else { return };
    for question in questions {
        if ask(&mut session, question).is_err() {
            break;
        }
    }
});

fn ask(session: &mut Session, question: u8) -> Result<(), Error> {
    let until = session.time().saturating_add(u64::from(question >> 4) * 50).min(END);
    match question % 12 {
        0 => session.run_to(until).map(drop),
        1 => session.registers(None).map(drop),
        2 => session.threads().map(drop),
        3 => session.read(0x1000_0000, 10_000).map(drop),
        4 => session.summarise(until, &mut Gathered::default()).map(drop),
        5 => {
            let mut kept = Kept::default();
            kept.stream.begin(session.time());
            session.stream_to(until, Detail::WRITES | Detail::READS | Detail::CALLS, &mut kept)?;
            kept.look();
            Ok(())
        }
        6 => session.sample_to(until, |_| ()).map(drop),
        7 => session.fork().map(drop),
        8 => session.set_breakpoints(&[0x1000_0001]),
        9 => session.translate_ahead(Some(Detail::WRITES), &[0x1000_0000, 0x1000_0001]),
        10 => Snapshot::take(session, None).map(drop),
        _ => {
            let wanted = Condition::Written(0x1000_0000..0x2000_0000);
            session.run_until(until, &wanted).map(drop)
        }
    }
}

/// Looks at all that a summary tells.
#[derive(Default)]
struct Gathered(u64);

impl Summary for Gathered {
    fn transfer(&mut self, transfer: Transfer) {
        self.0 = self.0.wrapping_add(match transfer {
            Transfer::Call { slot } | Transfer::Return { slot } => slot,
            Transfer::Switch { thread } => thread.into(),
        });
    }

    fn executed(&mut self, pc: u64, lengths: &[u8], times: u32, _: bool) {
        self.0 = self.0.wrapping_add(pc + lengths.iter().map(|&len| u64::from(len)).sum::<u64>());
        self.0 = self.0.wrapping_add(times.into());
    }

    fn cleared(&mut self, _: u64, _: u64) -> Result<(), Error> {
        Ok(())
    }

    fn written(&mut self, page: WrittenPage<'_>) -> Result<(), Error> {
        assert!(page.address.is_multiple_of(4096));
        Ok(())
    }
}

/// Keeps a stream, and looks at it afterwards, as queries do.
#[derive(Default)]
struct Kept {
    stream: KeptStream,
}

impl Visitor for &mut Kept {
    fn block(&mut self, block: &Block<'_>) -> ControlFlow<()> {
        for access in block.accesses() {
            std::hint::black_box(access.value);
        }
        match self.stream.keep(block) {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    }

    fn event(
        &mut self,
        time: u64,
        thread: u32,
        event: &retro_abi::log::Event<'_>,
    ) -> ControlFlow<()> {
        std::hint::black_box(Item::Event { time, thread, event });
        ControlFlow::Continue(())
    }

    fn records(&mut self, bytes: &[u8]) {
        self.stream.keep_records(bytes);
    }
}

impl Kept {
    fn look(&self) {
        for block in 0..self.stream.len() {
            let code = self.stream.code(block);
            let (pc, lengths) = self.stream.instructions(code);
            std::hint::black_box((pc, lengths, self.stream.ending(code), self.stream.time(block)));
            std::hint::black_box(self.stream.has_loose(block));
            for access in self.stream.accesses(block) {
                std::hint::black_box((access.time, access.address, access.value));
            }
        }
    }
}
