//! The options of `retro index`.

use std::ffi::OsString;

use clap::Args;
use retro_index::build::{self, Options};

use crate::quantity::parse_count;

const EXAMPLES: &str = "\
Examples:
  retro index                 index the latest recording, or complete its index
  retro index gzip-3 --reads  also index which memory was read
  retro index --status        how much of it is indexed
  retro index --rebuild       throw the index away and build it again

`retro record` starts an indexer by itself, unless it is told --no-index or RETRO_NO_INDEX is set. An index \
lies beside the log; it can be thrown away at any time. Ctrl-C stops the work and keeps what is done.

Exit status: 1 if something could not be indexed, or with --status if the index is not complete.";

/// Fewer instructions would make more index than log.
const SMALLEST_WINDOW: u64 = 1_000;

/// What is replayed for an answer should take no longer than a few seconds.
const LARGEST_WINDOW: u64 = 1_000_000_000;

/// Options of `retro index`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct IndexOptions {
    /// The recording: a path, or a name from `retro ls`; the latest if left out
    #[arg(value_name = "REC")]
    pub recording: Option<OsString>,

    /// Index which memory was read, too; that takes much longer
    #[arg(long)]
    pub reads: bool,

    /// Instructions of a window, for what is not indexed yet
    #[arg(long, value_name = "N", value_parser = parse_window, default_value_t = build::DEFAULT_WINDOW)]
    pub window: u64,

    /// Intervals to index at once [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub jobs: Option<u16>,

    /// Throw away what is indexed, and begin anew
    #[arg(long)]
    pub rebuild: bool,

    /// While the recording goes on, index what is added to it, until its end
    #[arg(long, conflicts_with = "rebuild")]
    pub follow: bool,

    /// Only tell how much is indexed
    #[arg(long, conflicts_with_all = ["follow", "rebuild", "reads", "jobs"])]
    pub status: bool,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

impl IndexOptions {
    /// What to build.
    pub fn build_options(&self) -> Options {
        let Options { workers, .. } = Options::default();
        Options {
            window_size: self.window,
            reads: self.reads,
            workers: self.jobs.map_or(workers, usize::from),
        }
    }
}

fn parse_window(text: &str) -> Result<u64, String> {
    match parse_count(text)? {
        size @ SMALLEST_WINDOW..=LARGEST_WINDOW => Ok(size),
        _ => Err("a window has from 1k to 1G instructions".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{Arguments, Command};
    use clap::Parser;

    fn index(line: &[&str]) -> Result<IndexOptions, clap::Error> {
        let line = ["retro", "index"].iter().chain(line);
        match Arguments::try_parse_from(line)?.command {
            Command::Index(options) => Ok(options),
            other => panic!("not `index`: {other:?}"),
        }
    }

    #[test]
    fn windows_have_bounds_and_jobs_a_default() {
        let options = index(&["--window", "1.5M", "--reads"]).unwrap().build_options();
        assert_eq!((options.window_size, options.reads), (1_500_000, true));
        assert!(options.workers >= 1);
        assert_eq!(index(&["--jobs", "3"]).unwrap().build_options().workers, 3);
        for bad in [["--window", "0"], ["--window", "2G"], ["--jobs", "0"]] {
            assert!(index(&bad).is_err(), "{bad:?}");
        }
        assert!(index(&["--status", "--rebuild"]).is_err());
        assert!(index(&["--follow", "--rebuild"]).is_err());
    }
}
