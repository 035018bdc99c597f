//! The ways to run a program.
//!
//! A mode is a command template and a few properties. To add one: a variant, and its arm in
//! [`Mode::template`]. Words of a template:
//!
//! | word        | becomes                                                           |
//! | ----------- | ----------------------------------------------------------------- |
//! | `{retro}`   | the path of the `retro` executable                                |
//! | `{bench}`   | the path of this program, for the tasks that it does in a process of its own |
//! | `{guest}`   | the program's whole command line (several words)                  |
//! | `{scratch}` | (inside a word) a directory that the program's modes share        |
//!
//! The modes of one round run in the order of the enum. A recording that a run leaves in `{scratch}` is measured and removed
//! right after the run ([`crate::recording`]). Modes that replay all use one that was made before, untimed.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use serde::Serialize;

use crate::tools;

/// A way to run a program. [`Mode::Native`] is what the others are compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// The program alone
    Native,
    /// Under `retro run`: translated, nothing recorded
    Run,
    /// Under `retro record`: everything logged that a replay needs
    Record,
    /// The recording replayed, one interval after the other, one process at a time
    Replay,
    /// As replay, with every block, call and write streamed and looked at
    Stream,
    /// Under `retro verify`: the recording replayed on all cores
    Verify,
    /// Under `retro index`: the recording indexed, on all cores
    Index,
    /// Random questions about the recording, in milliseconds; on a few programs
    Query,
    /// Under `valgrind --tool=none`: the peer
    Valgrind,
}

impl Mode {
    /// What is measured unless told otherwise.
    pub const DEFAULT: [Self; 9] = [
        Self::Native,
        Self::Run,
        Self::Record,
        Self::Replay,
        Self::Stream,
        Self::Verify,
        Self::Index,
        Self::Query,
        Self::Valgrind,
    ];

    fn template(self) -> &'static [&'static str] {
        match self {
            Self::Native => &["{guest}"],
            Self::Run => &["{retro}", "run", "--", "{guest}"],
            // Recording alone: an indexer in the background would be measured with it.
            Self::Record => &[
                "{retro}",
                "record",
                "--quiet",
                "--no-index",
                "-o",
                "{scratch}/recording",
                "--",
                "{guest}",
            ],
            Self::Replay => &["{bench}", "replay", "{scratch}/kept/recording"],
            Self::Stream => &["{bench}", "stream", "{scratch}/kept/recording"],
            Self::Verify => &["{retro}", "verify", "--json", "{scratch}/kept/recording"],
            Self::Index => &["{retro}", "index", "--rebuild", "--json", "{scratch}/kept/recording"],
            Self::Query => &["{bench}", "query", "{scratch}/kept/recording"],
            // Without --trace-children the programs of the fork/exec group would run natively.
            Self::Valgrind => &["valgrind", "-q", "--tool=none", "--trace-children=yes", "{guest}"],
        }
    }

    /// The name on the command line and in reports.
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Whether a run leaves a recording behind.
    pub fn records(self) -> bool {
        self == Self::Record
    }

    /// Whether a run leaves something on disk whose size counts, and what that is called.
    pub fn stores(self) -> Option<&'static str> {
        match self {
            Self::Record => Some("log"),
            Self::Index => Some("index"),
            _ => None,
        }
    }

    /// Whether a run works on a recording that was made before.
    pub fn replays(self) -> bool {
        matches!(self, Self::Replay | Self::Stream | Self::Verify | Self::Index | Self::Query)
    }

    /// Whether its cost is given as a multiple of native.
    pub fn is_compared(self) -> bool {
        !matches!(self, Self::Native | Self::Query)
    }

    /// Whether it takes its turn in every round.
    pub fn is_timed(self) -> bool {
        self != Self::Query
    }

    fn needs_retro(self) -> bool {
        !matches!(self, Self::Native | Self::Valgrind)
    }
}

impl std::fmt::Display for Mode {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.pad(&self.name())
    }
}

/// The modes that can run here, with what is needed to build their commands.
pub struct Launcher {
    modes: Vec<Mode>,
    retro: PathBuf,
    bench: PathBuf,
}

impl Launcher {
    /// Native always takes part. A peer that is not installed is left out with a note; without
    /// `retro` there is nothing to measure, so that is an error.
    pub fn new(requested: &[Mode], retro: Option<&Path>) -> Result<Self> {
        let mut modes = vec![Mode::Native];
        modes.extend_from_slice(requested);
        modes.sort_unstable();
        modes.dedup();

        let mut retro_path = PathBuf::new();
        if modes.iter().any(|mode| mode.needs_retro()) {
            retro_path = locate_retro(retro)?;
        }
        modes.retain(|mode| {
            let program = mode.template()[0];
            let present = program.starts_with('{') || tools::locate(program).is_some();
            if !present {
                eprintln!("retro-bench: {program} is not installed; leaving out mode {mode}");
            }
            present
        });
        let bench = std::env::current_exe().context("finding the path of this program")?;
        Ok(Self { modes, retro: retro_path, bench })
    }

    /// The `retro` executable; empty if no mode needs it.
    pub fn retro(&self) -> &Path {
        &self.retro
    }

    /// In the order of a round.
    pub fn modes(&self) -> &[Mode] {
        &self.modes
    }

    /// The words to execute to run `guest` in `mode`; the first is a path.
    pub fn command(&self, mode: Mode, guest: &[OsString], scratch: &Path) -> Vec<OsString> {
        let mut words: Vec<OsString> = Vec::new();
        for &word in mode.template() {
            match word {
                "{guest}" => words.extend_from_slice(guest),
                "{retro}" => words.push(self.retro.clone().into()),
                "{bench}" => words.push(self.bench.clone().into()),
                _ if words.is_empty() => {
                    words.push(tools::locate(word).unwrap_or_else(|| word.into()).into())
                }
                _ => words.push(word.replace("{scratch}", &scratch.to_string_lossy()).into()),
            }
        }
        words
    }
}

fn locate_retro(given: Option<&Path>) -> Result<PathBuf> {
    let candidates = match given {
        Some(path) => vec![path.to_path_buf()],
        None => {
            let beside = std::env::current_exe().ok().map(|own| own.with_file_name("retro"));
            beside.into_iter().chain([PathBuf::from("target/release/retro")]).collect()
        }
    };
    for candidate in &candidates {
        if candidate.is_file() {
            // Programs run in another directory, so a relative path would not be found there.
            return Ok(candidate.canonicalize()?);
        }
    }
    let tried: Vec<_> = candidates.iter().map(|path| path.display().to_string()).collect();
    bail!(
        "no retro executable at {}; build it (cargo build --release -p retro-cli), name it with --retro PATH, \
         or leave it out with --modes native,valgrind",
        tried.join(" or ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(mode: Mode) -> Vec<String> {
        let launcher = Launcher {
            modes: vec![mode],
            retro: "/opt/retro".into(),
            bench: "/opt/retro-bench".into(),
        };
        let guest = ["/bin/echo".into(), "{retro}".into()];
        let words = launcher.command(mode, &guest, Path::new("/scratch"));
        words.iter().map(|word| word.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn templates_expand() {
        assert_eq!(command(Mode::Native), ["/bin/echo", "{retro}"]);
        assert_eq!(command(Mode::Run), ["/opt/retro", "run", "--", "/bin/echo", "{retro}"]);
        assert_eq!(
            command(Mode::Record),
            [
                "/opt/retro",
                "record",
                "--quiet",
                "--no-index",
                "-o",
                "/scratch/recording",
                "--",
                "/bin/echo",
                "{retro}"
            ]
        );
        assert_eq!(
            command(Mode::Stream),
            ["/opt/retro-bench", "stream", "/scratch/kept/recording"]
        );
        assert_eq!(command(Mode::Valgrind)[1..3], ["-q", "--tool=none"]);
    }

    #[test]
    fn recordings_go_where_they_are_looked_for() {
        let place = crate::recording::place(Path::new("/scratch"));
        assert!(command(Mode::Record).contains(&place.to_string_lossy().into_owned()));
        let kept = crate::recording::place(&crate::recording::kept(Path::new("/scratch")));
        for mode in Mode::DEFAULT.into_iter().filter(|mode| mode.replays()) {
            assert!(command(mode).contains(&kept.to_string_lossy().into_owned()), "{mode}");
        }
    }

    #[test]
    fn native_always_takes_part_and_comes_first() {
        let launcher = Launcher::new(&[Mode::Native], None).expect("needs no retro");
        assert_eq!(launcher.modes(), [Mode::Native]);
        let launcher = Launcher::new(&[Mode::Run, Mode::Native], Some(Path::new("/proc/self/exe")))
            .expect("exists");
        assert_eq!(launcher.modes(), [Mode::Native, Mode::Run]);
    }

    #[test]
    fn a_missing_retro_is_named() {
        let error = Launcher::new(&[Mode::Run], Some(Path::new("/nonexistent/retro")))
            .err()
            .expect("missing");
        assert!(error.to_string().contains("/nonexistent/retro"));
    }
}
