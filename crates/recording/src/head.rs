//! What is known when a recording begins: the command, the machine, the options.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::{fs, io, io::Read};

use crate::fields::{BadField, FieldReader, FieldWriter};

/// What a recording says of itself before its first event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// A random number that tells recordings apart wherever they are moved.
    pub id: [u8; 16],
    /// When it was begun, in seconds since 1970.
    pub created_seconds: u64,
    /// Nanoseconds beyond that.
    pub created_nanoseconds: u32,
    /// The command line.
    pub command: Vec<OsString>,
    /// The directory it was started in.
    pub directory: PathBuf,
    /// The version of retro.
    pub retro_version: String,
    /// Where it ran.
    pub machine: Machine,
    /// How it was recorded.
    pub options: Options,
}

/// The options of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Instructions per interval; 0 if the engine decided.
    pub interval: u64,
    /// Seed of the chaos scheduler, if it was on.
    pub chaos: Option<u64>,
    /// Whether children were recorded too.
    pub follow: bool,
}

/// The machine that a recording was made on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Host name.
    pub host: String,
    /// Kernel release.
    pub kernel: String,
    /// CPU vendor, as in `/proc/cpuinfo`.
    pub cpu_vendor: String,
    /// CPU model name.
    pub cpu_model: String,
    /// Names of the CPU's features: what a replay elsewhere must have.
    pub cpu_features: Vec<String>,
}

impl Machine {
    /// The machine that this runs on; what the system does not tell stays empty.
    pub fn this() -> Machine {
        let line = |path| fs::read_to_string(path).unwrap_or_default().trim().to_string();
        let mut machine = Machine {
            host: line("/proc/sys/kernel/hostname"),
            kernel: line("/proc/sys/kernel/osrelease"),
            ..Machine::default()
        };
        machine.take_cpu(&line("/proc/cpuinfo"));
        machine
    }

    /// Takes what `/proc/cpuinfo` says of the first processor.
    fn take_cpu(&mut self, description: &str) {
        let first = description.split("\n\n").next().unwrap_or_default();
        for (key, value) in first.lines().filter_map(|line| line.split_once(':')) {
            let value = value.trim();
            match key.trim() {
                "vendor_id" => self.cpu_vendor = value.to_string(),
                "model name" => self.cpu_model = value.to_string(),
                "flags" => {
                    self.cpu_features = value.split_whitespace().map(str::to_string).collect();
                }
                _ => {}
            }
        }
    }
}

impl Head {
    /// The head of a recording that begins now on this machine.
    pub fn new(command: Vec<OsString>, directory: PathBuf, options: Options) -> io::Result<Head> {
        let mut id = [0; 16];
        fs::File::open("/dev/urandom")?.read_exact(&mut id)?;
        let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
        Ok(Head {
            id,
            created_seconds: now.as_secs(),
            created_nanoseconds: now.subsec_nanos(),
            command,
            directory,
            retro_version: env!("CARGO_PKG_VERSION").to_string(),
            machine: Machine::this(),
            options,
        })
    }

    /// Encodes what is not in the fixed part of the file's header.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = FieldWriter::default();
        out.number(self.command.len() as u64);
        for argument in &self.command {
            out.bytes(argument.as_bytes());
        }
        out.bytes(self.directory.as_os_str().as_bytes());
        let machine = &self.machine;
        for text in [
            &self.retro_version,
            &machine.host,
            &machine.kernel,
            &machine.cpu_vendor,
            &machine.cpu_model,
        ] {
            out.bytes(text.as_bytes());
        }
        out.number(machine.cpu_features.len() as u64);
        for feature in &machine.cpu_features {
            out.bytes(feature.as_bytes());
        }
        out.number(self.options.interval);
        // A seed may be any number, so that its presence is a field of its own.
        out.number(self.options.chaos.is_some().into());
        out.number(self.options.chaos.unwrap_or_default());
        out.number(self.options.follow.into());
        out.finish()
    }

    /// Decodes what [`Head::encode`] wrote; the caller adds the fixed part.
    pub(crate) fn decode(payload: &[u8]) -> Result<Head, BadField> {
        let fields = &mut FieldReader::new(payload);
        let arguments = fields.count(1)?;
        let command = (0..arguments)
            .map(|_| Ok(OsString::from_vec(fields.bytes()?.to_vec())))
            .collect::<Result<_, BadField>>()?;
        let directory = PathBuf::from(OsStr::from_bytes(fields.bytes()?));
        let retro_version = fields.text()?;
        let (host, kernel) = (fields.text()?, fields.text()?);
        let (cpu_vendor, cpu_model) = (fields.text()?, fields.text()?);
        let features = fields.count(1)?;
        let cpu_features = (0..features).map(|_| fields.text()).collect::<Result<_, BadField>>()?;
        let interval = fields.number()?;
        let has_chaos = fields.number()? != 0;
        let seed = fields.number()?;
        let follow = fields.number()? != 0;
        Ok(Head {
            command,
            directory,
            retro_version,
            machine: Machine { host, kernel, cpu_vendor, cpu_model, cpu_features },
            options: Options { interval, chaos: has_chaos.then_some(seed), follow },
            ..Head::default()
        })
    }
}
