//! How a program is handed to the engine: one environment variable, which the engine removes
//! before the guest sees its environment.
//!
//! The engine is executed with the guest's own `argv` and `envp` and, as the last entry of
//! `envp`, `RETRO_ENGINE=<key>=<value>;...;path=<path>`. The path comes last and may hold any byte.
//! Guest `execve` calls use the same form to start the engine again in the new image.

use core::fmt::{self, Write};

/// Name of the variable, with the equals sign.
pub const VARIABLE: &str = "RETRO_ENGINE=";

/// What instrumentation the engine applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// None: the guest runs as fast as the translator allows.
    Run,
    /// Count guest instructions, memory accesses, calls and the like, for `--stats`.
    Count,
    /// Keep a shadow of memory and log what replay needs.
    Record,
    /// Run a stretch of a recording again.
    Replay,
}

/// The engine's start-up settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config<'a> {
    /// The instrumentation policy.
    pub policy: Policy,
    /// Shared memory that holds [`crate::stats::Stats`].
    pub stats: Option<SharedFile>,
    /// The recorder's shared memory (see [`crate::channel`]), or a replay's (see [`crate::replay`]).
    pub channel: Option<SharedFile>,
    /// The log that led here: the slot it is in, and whether the program follows on it or is a child of it.
    pub previous: Option<PreviousLog>,
    /// A descriptor of the already opened and checked ELF file: a guest's `execve` resolves
    /// scripts and reports errors before the old image is gone. Absent when `retro` starts the
    /// first program; then the engine resolves `path` itself.
    pub exe_fd: Option<i32>,
    /// Limit on the code cache in KiB; when it is full everything is translated anew.
    pub cache_kib: Option<u32>,
    /// The signals that the program has blocked, if that is not what the engine itself inherits: while one
    /// engine executes the next, everything is blocked.
    pub signal_mask: Option<u64>,
    /// Who stands in for the program, if somebody does.
    pub supervised: Option<Supervised>,
    /// A descriptor of the program's system-call filters.
    pub filters: Option<i32>,
    /// The file name given to `execve`.
    pub path: &'a [u8],
}

/// A process of `retro` between the program and whoever started it: the program should not notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Supervised {
    /// The supervised process; 0 for the one that is told of it first.
    pub process: i32,
    /// Its parent, which kills it when it ends itself.
    pub supervisor: i32,
    /// The supervisor's own parent.
    pub parent: i32,
    /// The signal that the program believes it gets when its parent ends; 0 for none.
    pub death_signal: i32,
}

/// A file that another process keeps open: the guest itself has no descriptor of it to stumble over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedFile {
    /// The process that has it open.
    pub pid: i32,
    /// Its descriptor there.
    pub fd: i32,
}

/// Where the log of the program before an `execve` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreviousLog {
    /// Slot in the channel; it ends with the new program, unless that is a child which borrowed it.
    pub slot: u32,
    /// Number of the log.
    pub log: u64,
    /// Whether the program was executed in place of the one that wrote that log.
    pub replaces: bool,
}

/// Why a configuration string was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadConfig;

impl<'a> Config<'a> {
    /// The default settings for a program.
    pub fn new(path: &'a [u8]) -> Config<'a> {
        Config {
            policy: Policy::Run,
            stats: None,
            channel: None,
            previous: None,
            exe_fd: None,
            cache_kib: None,
            signal_mask: None,
            supervised: None,
            filters: None,
            path,
        }
    }

    /// Parses the value of the variable (the part after `RETRO_ENGINE=`).
    pub fn parse(mut text: &'a [u8]) -> Result<Config<'a>, BadConfig> {
        let mut config = Config::new(b"");
        loop {
            let equals = text.iter().position(|&b| b == b'=').ok_or(BadConfig)?;
            let (key, rest) = (&text[..equals], &text[equals + 1..]);
            if key == b"path" {
                config.path = rest;
                return Ok(config);
            }
            let end = rest.iter().position(|&b| b == b';').ok_or(BadConfig)?;
            let value = &rest[..end];
            match key {
                b"policy" => {
                    config.policy = match value {
                        b"run" => Policy::Run,
                        b"count" => Policy::Count,
                        b"record" => Policy::Record,
                        b"replay" => Policy::Replay,
                        _ => return Err(BadConfig),
                    }
                }
                b"stats" => config.stats = Some(shared_file(value)?),
                b"channel" => config.channel = Some(shared_file(value)?),
                b"previous" => {
                    let mut parts = value.split(|&b| b == b'/');
                    let mut next = || parts.next().ok_or(BadConfig);
                    config.previous = Some(PreviousLog {
                        slot: number(next()?)?,
                        log: number(next()?)?,
                        replaces: number::<u8>(next()?)? != 0,
                    });
                }
                b"exe" => config.exe_fd = Some(number(value)?),
                b"filters" => config.filters = Some(number(value)?),
                b"mask" => config.signal_mask = Some(number(value)?),
                b"supervised" => {
                    let mut parts = value.split(|&b| b == b'/');
                    let mut next = || number(parts.next().ok_or(BadConfig)?);
                    config.supervised = Some(Supervised {
                        process: next()?,
                        supervisor: next()?,
                        parent: next()?,
                        death_signal: next()?,
                    });
                }
                b"cache" => config.cache_kib = Some(number(value)?),
                _ => return Err(BadConfig),
            }
            text = &rest[end + 1..];
        }
    }

    /// Writes everything of the variable but the path's bytes: `RETRO_ENGINE=...;path=`.
    /// The caller appends the path, which need not be UTF-8.
    pub fn write_prefix(&self, out: &mut impl Write) -> fmt::Result {
        out.write_str(VARIABLE)?;
        match self.policy {
            Policy::Run => {}
            Policy::Count => out.write_str("policy=count;")?,
            Policy::Record => out.write_str("policy=record;")?,
            Policy::Replay => out.write_str("policy=replay;")?,
        }
        if let Some(SharedFile { pid, fd }) = self.stats {
            write!(out, "stats={pid}/{fd};")?;
        }
        if let Some(SharedFile { pid, fd }) = self.channel {
            write!(out, "channel={pid}/{fd};")?;
        }
        if let Some(PreviousLog { slot, log, replaces }) = self.previous {
            write!(out, "previous={slot}/{log}/{};", replaces as u8)?;
        }
        if let Some(fd) = self.exe_fd {
            write!(out, "exe={fd};")?;
        }
        if let Some(kib) = self.cache_kib {
            write!(out, "cache={kib};")?;
        }
        if let Some(mask) = self.signal_mask {
            write!(out, "mask={mask};")?;
        }
        if let Some(Supervised { process, supervisor, parent, death_signal }) = self.supervised {
            write!(out, "supervised={process}/{supervisor}/{parent}/{death_signal};")?;
        }
        if let Some(fd) = self.filters {
            write!(out, "filters={fd};")?;
        }
        out.write_str("path=")
    }
}

fn shared_file(value: &[u8]) -> Result<SharedFile, BadConfig> {
    let slash = value.iter().position(|&b| b == b'/').ok_or(BadConfig)?;
    Ok(SharedFile { pid: number(&value[..slash])?, fd: number(&value[slash + 1..])? })
}

fn number<N: core::str::FromStr>(digits: &[u8]) -> Result<N, BadConfig> {
    core::str::from_utf8(digits).ok().and_then(|s| s.parse().ok()).ok_or(BadConfig)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::String;

    fn check(config: Config) {
        let mut text = String::new();
        config.write_prefix(&mut text).unwrap();
        text.push_str(core::str::from_utf8(config.path).unwrap());
        let value = text.strip_prefix(VARIABLE).unwrap();
        assert_eq!(Config::parse(value.as_bytes()), Ok(config));
    }

    #[test]
    fn round_trips() {
        let plain = Config::new(b"/bin/ls");
        check(plain);
        check(Config {
            policy: Policy::Count,
            stats: Some(SharedFile { pid: 1000, fd: 7 }),
            exe_fd: Some(999),
            ..plain
        });
        check(Config {
            policy: Policy::Record,
            channel: Some(SharedFile { pid: 12, fd: 3 }),
            previous: Some(PreviousLog { slot: 4, log: 5, replaces: true }),
            ..plain
        });
        check(Config { cache_kib: Some(512), signal_mask: Some(u64::MAX), ..plain });
        let supervised = Supervised { process: 0, supervisor: 20, parent: 10, death_signal: 15 };
        check(Config { supervised: Some(supervised), filters: Some(701), ..plain });
        check(Config { path: b"odd;path=x", ..plain });
        check(Config { path: b"", ..plain });
    }

    #[test]
    fn refuses_what_it_does_not_know() {
        for bad in [
            "",
            "path",
            "policy=fly;path=x",
            "stats=x;path=y",
            "stats=7;path=y",
            "stats=7/;path=y",
            "colour=1;path=z",
            "supervised=1/2/3;path=y",
            "stats=1",
        ] {
            assert_eq!(Config::parse(bad.as_bytes()), Err(BadConfig), "{bad}");
        }
    }
}
