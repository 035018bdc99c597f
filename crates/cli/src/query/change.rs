//! A write to some memory: who, and what the memory held before and after.

use anyhow::Result;
use retro_query::symbols::{Place, Scope};
use retro_query::{Direction, Moment, Row, RowClass, RowFilter, Run, Write, Writer};
use serde_json::{Map, Value};

use super::as_of::AsOf;
use super::frame::hex;
use super::landing;
use super::question::told;
use super::watched::Watched;
use crate::dump::bytes::hexadecimal;
use crate::dump::calls;
use crate::{place, quoting};

/// A write, with all that is told of it.
pub struct Change {
    moment: Moment,
    write: Write,
    place: Place,
    /// The system call, if the kernel wrote.
    syscall: Option<(u64, [u64; 6])>,
    /// The value before.
    pub old: String,
    /// The value after.
    pub new: String,
}

impl Change {
    /// What a write did to some memory, which a scope tells how to show.
    pub fn new(
        run: &Run,
        log: u64,
        write: Write,
        watched: &Watched,
        scope: &dyn Scope,
    ) -> Result<Change> {
        let moment = Moment { log, time: write.time };
        let length = watched.memory.end - watched.memory.start;
        let before = run.memory(moment, watched.memory.start, length).map_err(told)?;
        let after = write.applied_to(watched.memory.start, &before);
        let then = |time: u64, bytes: &[u8]| {
            let scope = AsOf::new(scope, run, Moment { log, time }, watched.memory.start, bytes);
            watched.shown(&scope, bytes)
        };
        let syscall = match write.by {
            Writer::Kernel => syscall_at(run, moment, write.thread)?,
            Writer::Instruction => None,
        };
        Ok(Change {
            moment,
            place: run.symbols().place(log, write.time, write.pc),
            syscall,
            old: then(write.time, &before),
            new: then(write.time + 1, &after),
            write,
        })
    }

    /// Who wrote, in words.
    pub fn writer(&self) -> String {
        let place = place::text(&self.place);
        match (self.write.by, self.syscall) {
            (Writer::Instruction, _) => place,
            (Writer::Kernel, Some((number, args))) => {
                format!("the kernel in {}, called by {place}", calls::call(number, &args))
            }
            (Writer::Kernel, None) => format!("the kernel at {place}"),
        }
    }

    /// `old -> new`.
    pub fn values(&self) -> String {
        let safe = |text: &str| quoting::printable(text.as_bytes());
        format!("{} -> {}", safe(&self.old), safe(&self.new))
    }

    /// As fields of an object.
    pub fn fields(&self, watched: &Watched) -> Map<String, Value> {
        let Write { address, ref value, by, pc, thread, .. } = self.write;
        let mut fields = landing::fields(self.moment, thread);
        let mut put = |name: &str, value: Value| fields.insert(name.to_string(), value);
        put("memory", hex(watched.memory.start).into());
        put("size", (watched.memory.end - watched.memory.start).into());
        put("type", watched.type_name().into());
        put("old", self.old.clone().into());
        put("new", self.new.clone().into());
        put("written", hex(address).into());
        put("bytes", hexadecimal(value, usize::MAX).into());
        put("kernel", (by == Writer::Kernel).into());
        put("syscall", self.syscall.map(|(number, _)| calls::name(number)).into());
        put("address", hex(pc).into());
        let Place { module, function, source, .. } = &self.place;
        put("function", function.as_ref().map(|function| function.name.to_string()).into());
        put(
            "module",
            module.as_ref().map(|module| module.path.to_string_lossy().into_owned()).into(),
        );
        put("source", source.as_ref().map(|source| source.path.to_string()).into());
        put("line", source.as_ref().map(|source| source.line).into());
        fields
    }
}

/// The system call that the instruction of a moment makes.
pub fn syscall_at(run: &Run, moment: Moment, thread: u32) -> Result<Option<(u64, [u64; 6])>> {
    let filter = RowFilter::Class(RowClass::Syscall);
    let cancel = retro_query::Cancel::new();
    let mut rows = run.rows(moment, Direction::Forward, filter, &cancel).map_err(told)?;
    let first = rows.next().transpose().map_err(told)?;
    Ok(first.and_then(|row| match row.row {
        Row::SyscallEnter { number, args }
            if row.time == moment.time + 1 && row.thread == thread =>
        {
            Some((number, args))
        }
        _ => None,
    }))
}
