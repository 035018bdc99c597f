//! The guest's output on ours.

use std::io::{self, BufWriter, IsTerminal, Stderr, Write};

use anyhow::Result;
use serde_json::{Map, Value};

use super::family::OutputPiece;
use super::streams::Stream;
use crate::dump::bytes::hexadecimal;
use crate::output::Output;

/// Standard output and error, each in the order of the other.
pub struct Printer {
    out: Output,
    err: BufWriter<Stderr>,
    last: Stream,
    /// Output is shown as it comes.
    is_watched: bool,
}

impl Printer {
    /// Takes both streams.
    pub fn new() -> Printer {
        Printer {
            out: Output::new(),
            err: BufWriter::with_capacity(64 << 10, io::stderr()),
            last: Stream::Out,
            is_watched: io::stdout().is_terminal() || io::stderr().is_terminal(),
        }
    }

    /// Writes a piece where it went.
    pub fn print(&mut self, piece: OutputPiece) -> Result<()> {
        // Both may be the same terminal or file.
        if piece.stream != self.last {
            self.flush()?;
            self.last = piece.stream;
        }
        match piece.stream {
            Stream::Out => self.out.bytes(piece.bytes)?,
            // Nobody can be told when stderr is closed; stdout goes on.
            Stream::Err => drop(self.err.write_all(piece.bytes)),
        }
        if self.is_watched {
            self.flush()?;
        }
        Ok(())
    }

    /// Writes a piece as an object.
    pub fn print_object(&mut self, piece: OutputPiece) -> Result<()> {
        let mut object = Map::new();
        object.insert("log".into(), piece.log.into());
        object.insert("time".into(), piece.time.into());
        object.insert("thread".into(), piece.thread.into());
        object.insert("kind".into(), "output".into());
        let stream = match piece.stream {
            Stream::Out => "stdout",
            Stream::Err => "stderr",
        };
        object.insert("stream".into(), stream.into());
        object.insert("length".into(), piece.bytes.len().into());
        // Text where it is text; what is not must not be lost.
        match str::from_utf8(piece.bytes) {
            Ok(text) => object.insert("text".into(), text.into()),
            Err(_) => object.insert("bytes".into(), hexadecimal(piece.bytes, usize::MAX).into()),
        };
        Ok(self.out.line(&Value::Object(object).to_string())?)
    }

    /// Makes everything visible.
    pub fn flush(&mut self) -> Result<()> {
        let _ = self.err.flush();
        Ok(self.out.flush()?)
    }
}
