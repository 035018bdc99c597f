//! Call stacks, variables and expressions at random moments of real programs, compared with gdb's.
//!
//! gdb cannot be taken to a moment of a recording, but a core file can ([`retro_query::core_file`]): a program is recorded
//! and indexed, moments are picked at random (always the same ones), each is written as a core file, and gdb tells what it
//! sees there. (Before the program's own first instruction gdb does not know yet which libraries there are.) Both must
//! agree on every frame of every thread (function, line, address, the registers that calls keep), on the variables of the
//! innermost frames, and on expressions made of them. What may differ, and why, is in [`agreement::Understood`].
//!
//! `RETRO_FULL=1` compares hundreds of moments of each program, `RETRO_AGREEMENT_MOMENTS=n` so many, and
//! `RETRO_AGREEMENT_SEED=n` other ones, `RETRO_AGREEMENT_FUNCTION=name` those right after calls of a function. Debug information of `python3` and `sqlite3` is used
//! if it is installed; `RETRO_SQLITE=directory`, with SQLite's `sqlite3.h` and a `sqlite3.o` made by `gcc -g -O2 -c sqlite3.c`,
//! compares SQLite with its debug information, too. `RETRO_BINARY=path` records with another `retro`.

#[path = "gdb_agreement/agreement.rs"]
mod agreement;
#[path = "gdb_agreement/gdb.rs"]
mod gdb;
#[path = "gdb_agreement/recorded.rs"]
mod recorded;
#[path = "gdb_agreement/spelling.rs"]
mod spelling;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use agreement::Tally;
use gdb::Gdb;
use recorded::Recorded;
use retro_query::core_file;
use retro_query::{Cancel, Moment};
use retro_testkit::programs::scratch::Scratch;

/// Moments of each program, if nobody says otherwise.
const MOMENTS: u64 = 6;

/// Moments of each program if `RETRO_FULL=1` is set.
const FULL_MOMENTS: u64 = 300;

/// How far moments are at most from the calls of a function that somebody asks for.
const AFTER_CALL: u64 = 300;

/// A test's place, and what it builds there.
struct Place(Scratch);

impl Place {
    fn new(name: &str) -> Place {
        Place(Scratch::new(&format!("agreement-{name}")))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// A program, made by a compiler from a guest.
    fn compile(&self, compiler: &str, options: &[&str], guest: &str) -> Command {
        let program = self.path().join("program");
        let status = Command::new(compiler)
            .arg(guest_path(guest))
            .args(options)
            .arg("-o")
            .arg(&program)
            .status();
        assert!(
            status.unwrap_or_else(|error| panic!("{compiler}: {error}")).success(),
            "{compiler} {guest}"
        );
        Command::new(program)
    }
}

fn guest_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/gdb_agreement/guests").join(name)
}

/// What a command prints, or None if there is no such program.
fn output_of(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_string())
}

/// Random numbers, the same ones in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % limit
    }
}

fn number_of(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|error| panic!("{variable}={text}: {error}")))
}

/// Compares random moments of a program.
fn compare(name: &str, place: &Place, command: Command) {
    let is_full = std::env::var_os("RETRO_FULL").is_some_and(|value| value == "1");
    let usual = if is_full { FULL_MOMENTS } else { MOMENTS };
    let moments = number_of("RETRO_AGREEMENT_MOMENTS").unwrap_or(usual);
    let seed = number_of("RETRO_AGREEMENT_SEED").unwrap_or(0);
    let program = PathBuf::from(command.get_program());
    let recorded = Recorded::new(place.path(), command);
    let process = recorded.run.process(0).unwrap();
    let mut gdb = Gdb::start(place.path(), &program);
    let mut random = Random(seed << 32 | name.len() as u64);
    let mut tally = Tally::new(name);
    let core = place.path().join("core");
    let start = recorded.program_start();
    let function = std::env::var("RETRO_AGREEMENT_FUNCTION").ok();
    let calls = function.map(|function| recorded.calls(&function));
    for _ in 0..moments {
        let time = match &calls {
            None => start + random.below(process.end - start),
            Some(calls) => {
                let call = calls[random.below(calls.len() as u64) as usize];
                (call + random.below(AFTER_CALL)).min(process.end)
            }
        };
        let moment = Moment { log: 0, time };
        let file = fs::File::create(&core).unwrap();
        core_file::write(&recorded.run, moment, std::io::BufWriter::new(file), &Cancel::new())
            .unwrap();
        match gdb.look_at(&core) {
            Ok(observed) => tally.compare(&recorded.run.state(moment).unwrap(), &observed),
            Err(complaints) => {
                tally.leave_out(&complaints);
                gdb = Gdb::start(place.path(), &program);
            }
        }
    }
    tally.conclude();
}

#[test]
fn python() {
    // What is called python3 may be a script that chooses one.
    let Some(python) = output_of("python3", &["-c", "import sys; print(sys.executable)"]) else {
        return eprintln!("python3 is not installed: nothing is compared");
    };
    let place = Place::new("python");
    let mut command = Command::new(python);
    // The same run each time.
    command.env("PYTHONHASHSEED", "0").env("PYTHONDONTWRITEBYTECODE", "1");
    command.arg("-S").arg(guest_path("interpreter.py"));
    compare("python", &place, command);
}

#[test]
fn sqlite() {
    if output_of("sqlite3", &["--version"]).is_none() {
        return eprintln!("sqlite3 is not installed: nothing is compared");
    }
    let place = Place::new("sqlite");
    let mut command = Command::new(output_of("sh", &["-c", "command -v sqlite3"]).unwrap());
    command.arg(":memory:").arg(fs::read_to_string(guest_path("statements.sql")).unwrap());
    compare("sqlite", &place, command);
}

#[test]
fn sqlite_with_debug_information() {
    let Ok(directory) = std::env::var("RETRO_SQLITE") else {
        return eprintln!("RETRO_SQLITE is not set: nothing is compared");
    };
    let place = Place::new("sqlite-debug");
    let (include, object) = (format!("-I{directory}"), format!("{directory}/sqlite3.o"));
    let options = ["-g", "-O2", &include, &object, "-pthread"];
    let mut command = place.compile("gcc", &options, "statements.c");
    command.arg(guest_path("statements.sql"));
    compare("sqlite with debug information", &place, command);
}

#[test]
fn rust() {
    let place = Place::new("rust");
    let command = place.compile("rustc", &["--edition=2024", "-g"], "collections.rs");
    compare("rust", &place, command);
}

#[test]
fn optimised_rust() {
    let place = Place::new("rust-optimised");
    let command = place.compile("rustc", &["--edition=2024", "-g", "-O"], "collections.rs");
    compare("optimised rust", &place, command);
}

#[test]
fn optimised_cpp() {
    let place = Place::new("cpp");
    let command = place.compile("g++", &["-std=c++20", "-g", "-O2"], "objects.cpp");
    compare("optimised c++", &place, command);
}

#[test]
fn threads_signals_and_libc() {
    let place = Place::new("tasks");
    let command = place.compile("gcc", &["-g", "-O2", "-pthread", "-lm"], "tasks.c");
    compare("threads, signals and libc", &place, command);
}

#[test]
fn functions_that_are_jumped_to() {
    let place = Place::new("jumped");
    let command = place.compile("gcc", &["-g", "-O2"], "jumped.c");
    compare("functions that are jumped to", &place, command);
}

#[test]
fn plain_c() {
    let place = Place::new("plain");
    let command = place.compile("gcc", &["-g", "-O0", "-pthread", "-lm"], "tasks.c");
    compare("plain c", &place, command);
}
