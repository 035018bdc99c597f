//! Printing to stdout, for commands whose reader may go away.
//!
//! A reader such as `head` closes the pipe when it has seen enough; that is no failure. Standard output is
//! buffered, so that millions of lines do not cost millions of system calls.

use std::io::{self, BufWriter, StdoutLock, Write};

use nix::sys::signal::{SigHandler, Signal, signal};

/// Why nothing more can be printed.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// Whoever read has seen enough.
    #[error("nobody reads the output any more")]
    Closed,
    /// The system refused, as a full disk does.
    #[error("cannot write to stdout: {0}")]
    Failed(io::Error),
}

impl From<io::Error> for OutputError {
    fn from(error: io::Error) -> OutputError {
        match error.kind() {
            io::ErrorKind::BrokenPipe => OutputError::Closed,
            _ => OutputError::Failed(error),
        }
    }
}

/// Standard output of a command that starts no program.
#[derive(Debug)]
pub struct Output {
    stream: BufWriter<StdoutLock<'static>>,
}

impl Output {
    /// Takes standard output.
    pub fn new() -> Output {
        // SAFETY: installs no handler. No program is executed from here on that would inherit it.
        // The signal would end this process before it can end in order; a failure leaves that as it is.
        let _ = unsafe { signal(Signal::SIGPIPE, SigHandler::SigIgn) };
        Output { stream: BufWriter::with_capacity(64 << 10, io::stdout().lock()) }
    }

    /// Prints a text as it is.
    pub fn text(&mut self, text: &str) -> Result<(), OutputError> {
        Ok(self.stream.write_all(text.as_bytes())?)
    }

    /// Prints bytes as they are.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), OutputError> {
        Ok(self.stream.write_all(bytes)?)
    }

    /// Prints a text and ends the line.
    pub fn line(&mut self, text: &str) -> Result<(), OutputError> {
        self.text(text)?;
        self.text("\n")
    }

    /// Makes everything visible that was printed.
    pub fn flush(&mut self) -> Result<(), OutputError> {
        Ok(self.stream.flush()?)
    }
}

impl Default for Output {
    fn default() -> Output {
        Output::new()
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        // Whoever wants to know whether it worked has flushed before. `process::exit` would lose the rest.
        if !std::thread::panicking() {
            let _ = self.stream.flush();
        }
    }
}
