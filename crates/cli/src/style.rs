//! Colours, for a terminal whose user wants them.

use std::env;
use std::io::{self, IsTerminal};

/// Whether and how a stream is coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    on: bool,
}

impl Style {
    /// For standard output.
    pub fn stdout() -> Style {
        Style { on: wanted() && io::stdout().is_terminal() }
    }

    /// For standard error.
    pub fn stderr() -> Style {
        Style { on: wanted() && io::stderr().is_terminal() }
    }

    /// Headings.
    pub fn bold(self, text: &str) -> String {
        self.coloured("1", text)
    }

    /// What is less important.
    pub fn dim(self, text: &str) -> String {
        self.coloured("2", text)
    }

    /// What is wrong.
    pub fn alarming(self, text: &str) -> String {
        self.coloured("1;31", text)
    }

    fn coloured(self, code: &str, text: &str) -> String {
        if self.on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }
}

fn wanted() -> bool {
    env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && env::var_os("TERM").is_some_and(|term| term != "dumb")
}
