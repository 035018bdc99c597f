//! What the program wrote to its descriptors: to the terminal, mostly.

use std::sync::Arc;

use retro_abi::syscall_names;
use retro_query::{Error, Moment, Row, RowClass, RowFilter, Run, TimedRow};
use schemars::JsonSchema;
use serde::Serialize;

use super::Answer;
use super::rows::Ends;
use super::search::{Find, search_params};
use super::wire::Time;
use crate::methods::Methods;
use crate::paging::Page;
use crate::service::CallContext;

/// Bytes of one write that are shown.
const SHOWN_LIMIT: u64 = 16 << 10;

/// Vectors of one write: the kernel's own limit.
const VECTORS_LIMIT: u64 = 1024;

/// Bytes of an `iovec`.
const VECTOR_SIZE: u64 = 16;

/// Standard output and standard error.
const TERMINAL: [i32; 2] = [1, 2];

pub(super) fn add(methods: Methods<Run>) -> Methods<Run> {
    methods.add("locate.output", "What the program wrote to a descriptor.", output)
}

search_params! {
    /// Parameters of `locate.output`.
    struct OutputParams {
        /// Only what was written to this descriptor; to standard output and standard error unless given.
        descriptor: Option<i32>,
    }
}

/// Something that was written.
#[derive(Debug, Serialize, JsonSchema)]
struct FoundOutput {
    /// The moment right before the system call.
    time: Time,
    /// The thread.
    thread: u32,
    /// The descriptor.
    descriptor: i32,
    /// What was written, as text; bytes that are none are replaced.
    text: String,
    /// How many bytes were written.
    length: u64,
    /// Whether the text is only the first part.
    is_cut: bool,
}

/// Which calls write, and how.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Bytes,
    Vectors,
}

fn shape_of(number: u64) -> Option<Shape> {
    match syscall_names::name(number)? {
        "write" | "pwrite64" => Some(Shape::Bytes),
        "writev" | "pwritev" | "pwritev2" => Some(Shape::Vectors),
        _ => None,
    }
}

fn output(run: &Run, params: OutputParams, context: &CallContext) -> Answer<Page<FoundOutput>> {
    let search = params.search(run, context)?;
    let is_wanted = move |row: &Result<TimedRow, Error>| match row {
        Ok(TimedRow { row: Row::SyscallEnter { number, args }, .. }) => {
            let descriptor = args[0] as i32;
            shape_of(*number).is_some()
                && params.descriptor.map_or(TERMINAL.contains(&descriptor), |it| it == descriptor)
        }
        Ok(_) => false,
        Err(_) => true,
    };
    let filter = RowFilter::Class(RowClass::Syscall);
    let found = run.rows(search.from(), search.way(), filter, search.cancel())?;
    let mut ends = Ends::new(Arc::clone(&search.process));
    let page = search.page(found.filter(is_wanted), |row| {
        let Row::SyscallEnter { number, args } = row.row else { return Ok(None) };
        let end = ends.end_of(&row, context)?;
        // What failed wrote nothing, and what never ended wrote who knows what.
        let Some(length) = end.filter(|end| end.error.is_none()).map(|end| end.result.0) else {
            return Ok(None);
        };
        let moment = Moment { log: search.asked().log, time: row.number() };
        let shown = length.min(SHOWN_LIMIT);
        let bytes = match shape_of(number) {
            Some(Shape::Vectors) => gather(run, moment, args[1], args[2], shown)?,
            _ => run.memory(moment, args[1], shown)?,
        };
        Ok(Some(FoundOutput {
            time: Time(moment.time),
            thread: row.thread,
            descriptor: args[0] as i32,
            text: String::from_utf8_lossy(&bytes).into_owned(),
            length,
            is_cut: length > shown,
        }))
    })?;
    Ok(Page { items: page.items.into_iter().flatten().collect(), next: page.next })
}

/// The bytes that an array of `iovec` leads to.
fn gather(run: &Run, moment: Moment, at: u64, count: u64, length: u64) -> Answer<Vec<u8>> {
    let vectors = run.memory(moment, at, count.min(VECTORS_LIMIT) * VECTOR_SIZE)?;
    let mut bytes = Vec::new();
    for vector in vectors.chunks_exact(VECTOR_SIZE as usize) {
        let word = |at: usize| vector[at..].first_chunk().map(|word| u64::from_le_bytes(*word));
        let (Some(start), Some(size)) = (word(0), word(8)) else { break };
        let left = length.saturating_sub(bytes.len() as u64);
        if left == 0 {
            break;
        }
        bytes.extend(run.memory(moment, start, size.min(left))?);
    }
    Ok(bytes)
}
