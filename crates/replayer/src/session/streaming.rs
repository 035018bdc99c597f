//! Everything that happens while a session goes on: the stream of its process.

use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use nix::sys::memfd::{MFdFlags, memfd_create};
use retro_abi::replay::{HEADER_SIZE, Header, MAX_PAYLOAD, ask, tell};

use super::{Session, Stop};
use crate::Error;
use crate::stream::{Descriptions, Detail, Item, Merger, STREAM_FILE_SIZE, Visitor};

/// The file that a process streams into, and what was read of it last.
#[derive(Debug)]
pub(super) struct StreamFile {
    file: File,
    buffer: Box<[u8]>,
}

impl Session {
    /// Translates code before it is needed, as for a stream with this detail or for no stream: copies of this session have
    /// it already. Code that changes is left out.
    pub fn translate_ahead(&mut self, detail: Option<Detail>, pcs: &[u64]) -> Result<(), Error> {
        let bits = detail.map_or(0, |detail| (detail | Detail::BLOCKS).bits());
        if bits != 0 {
            self.prepare_stream()?;
        }
        for some in pcs.chunks(MAX_PAYLOAD / 8) {
            let payload: Vec<u8> = some.iter().flat_map(|pc| pc.to_le_bytes()).collect();
            self.send(&Header::new(ask::TRANSLATE, [bits]), &payload)?;
            loop {
                let (header, len) = self.answer_length()?;
                match header.kind() {
                    tell::BLOCK => self.define_blocks(len, |_| Ok(()))?,
                    tell::DONE => break,
                    kind => return Err(self.unexpected(kind)),
                }
            }
        }
        Ok(())
    }

    /// Goes on to a time as [`Session::run_to`] does, and tells `visit` everything that happens, in the order of
    /// time: what blocks are executed and what they access, as far as `detail` says, and the events of the
    /// log after now and up to `until`. An event comes after the block whose last instruction retires at its time.
    ///
    /// When `visit` breaks, it is told nothing more; the session goes on to `until` all the same.
    pub fn stream(
        &mut self,
        until: u64,
        detail: Detail,
        visit: impl FnMut(&Item<'_>) -> ControlFlow<()>,
    ) -> Result<Stop, Error> {
        self.stream_to(until, detail, visit)
    }

    /// The same for a visitor with methods.
    pub fn stream_to(
        &mut self,
        until: u64,
        detail: Detail,
        visit: impl Visitor,
    ) -> Result<Stop, Error> {
        self.check_forward(until)?;
        let file = Arc::clone(&self.log_file);
        let events = file.chunks_between(self.time(), until.min(self.interval.end))?;
        let bits = (detail | Detail::BLOCKS).bits();
        let times = self.time()..until.min(self.interval.end);
        let share = self.budget.share();
        let mut merger = Merger::new(events.events(), times, self.thread(), share, visit)?;
        self.prepare_stream()?;
        let stop = self.run_in_stretches(until, |session, stretch_end| {
            session.send(&Header::new(ask::RUN, [stretch_end, bits]), &[])?;
            session.await_stop_merging(&mut merger)
        })?;
        merger.finish(&self.descriptions, stop.time)?;
        Ok(stop)
    }

    /// Takes everything that is streamed until the process stops.
    fn await_stop_merging<V: Visitor>(&mut self, merger: &mut Merger<'_, V>) -> Result<(), Error> {
        loop {
            let (header, len) = self.answer_length()?;
            match header.kind() {
                tell::BLOCK => {
                    // What is described so far may be forgotten then.
                    self.define_blocks(len, |known| merger.tell_kept(known))?;
                }
                tell::STREAM => {
                    let [_, offset, len, time, ..] = header.0;
                    if !merger.is_done {
                        self.read_stream(offset, len)?;
                    }
                    // The process fills the file again while this is looked at.
                    self.send(&Header::new(ask::GO_ON, []), &[])?;
                    if let Some(stream) = &self.stream
                        && !merger.is_done
                    {
                        let records = &stream.buffer[..len as usize];
                        merger.records(&self.descriptions, records, time)?;
                    }
                }
                _ => return self.take_stop(&header),
            }
        }
    }

    /// Takes in descriptions of blocks. Before those that there are so far are forgotten, `forget` sees them.
    pub(crate) fn define_blocks(
        &mut self,
        len: usize,
        mut forget: impl FnMut(&Descriptions) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut payload = self.link.payload(len);
        let mut defined = Ok(());
        while let Some((head, rest)) = payload.split_first_chunk::<HEADER_SIZE>()
            && defined.is_ok()
        {
            let header = Header::from_bytes(head);
            let Some((body, rest)) = rest.split_at_checked(header.0[0] as usize) else {
                defined = Err("a description of a block is cut short");
                break;
            };
            payload = rest;
            if header.0[1] == 0 {
                forget(&self.descriptions)?;
            }
            defined = Arc::make_mut(&mut self.descriptions).define(&header, body);
        }
        defined.map_err(|what| self.nonsense(what))
    }

    pub(crate) fn descriptions(&self) -> &Descriptions {
        &self.descriptions
    }

    /// What [`Session::read_stream`] has read.
    pub(crate) fn streamed(&self, len: u64) -> &[u8] {
        let buffer = self.stream.as_ref().map_or(&[][..], |stream| &stream.buffer);
        &buffer[..(len as usize).min(buffer.len())]
    }

    pub(crate) fn read_stream(&mut self, offset: u64, len: u64) -> Result<(), Error> {
        let Some(stream) = &mut self.stream else {
            return Err(self.nonsense("it streams unasked"));
        };
        let end = offset.checked_add(len);
        if end.is_none_or(|end| end > STREAM_FILE_SIZE as u64) {
            return Err(self.nonsense("its stream is longer than the file"));
        }
        let bytes = &mut stream.buffer[..len as usize];
        stream.file.read_exact_at(bytes, offset).map_err(Error::Start)
    }

    /// Gives the process a file to stream into.
    pub(crate) fn prepare_stream(&mut self) -> Result<(), Error> {
        if self.stream.is_some() {
            return Ok(());
        }
        let file = memfd_create(c"retro-stream", MFdFlags::MFD_CLOEXEC).map_err(io::Error::from);
        let file = File::from(file.map_err(Error::Start)?);
        file.set_len(STREAM_FILE_SIZE as u64).map_err(Error::Start)?;
        #[cfg(feature = "fuzzing")]
        if let Some((script, _)) = &self.script {
            let bytes = &script.stream[..script.stream.len().min(STREAM_FILE_SIZE)];
            file.write_all_at(bytes, 0).map_err(Error::Start)?;
        }
        let sent =
            self.link.send_file(&Header::new(ask::STREAM_FILE, [STREAM_FILE_SIZE as u64]), &file);
        sent.map_err(|broken| self.broken(broken))?;
        self.await_done()?;
        self.stream =
            Some(StreamFile { file, buffer: vec![0; STREAM_FILE_SIZE].into_boxed_slice() });
        Ok(())
    }
}
