//! The guest corpus: `tests/guests`, one small program per behaviour.
//!
//! A guest is one source file. Its opening comment says what it checks and may carry
//! directives, each on its own line:
//!
//! ```text
//! // build: -O2 -pthread      flags for the compiler, after the default ones
//! // args: one two            arguments of the run
//! // exit: 3                  the exit code that is expected instead of 0
//! // signal: SIGSEGV          the signal that is expected to kill it
//! // record: --interval 1M   recorded with these options, too; one line for each way
//! // needs: avx2 avx512f      skipped unless the processor has these (names of /proc/cpuinfo)
//! // sanitizer: address       built with it; skipped unless the compiler has its library
//! // stderr: has TEXT         errors vary, with addresses say; only that this text is in them counts
//! ```
//!
//! The language follows from the extension: `.c`, `.cc`, `.S`, `.rs`. A file `NAME.PART.c` is a
//! companion of the guest `NAME`: it is built as a shared library, and the paths of all
//! companions, in the order of their names, are the guest's first arguments.
//!
//! Invariants:
//! 1. A file in the output directory is complete: it is built under a private name and renamed,
//!    so test processes may build the same guest at the same time.
//! 2. A built file is used again only when it is newer than everything it was made from.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

use anyhow::{Context, Result, bail, ensure};

use crate::compare::Ending;

/// One program of the corpus and what its directives say.
#[derive(Clone, Debug)]
pub struct Guest {
    pub name: String,
    source: PathBuf,
    companions: Vec<PathBuf>,
    flags: Vec<String>,
    arguments: Vec<String>,
    /// How a right run ends.
    pub ending: Ending,
    /// The part of the error stream that is compared, when not all of it is.
    pub error_text: Option<String>,
    needs: Vec<String>,
    /// Options of `retro record` that it is recorded with besides none at all.
    pub records: Vec<Vec<String>>,
    sanitizer: Option<String>,
}

/// The directory of the guests' sources.
pub fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/guests")
}

/// The names of all guests, sorted.
pub fn names() -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for path in sources(&directory())? {
        let (name, part) = split_name(&path);
        if part.is_none() {
            ensure!(names.insert(name.to_owned()), "two guests are called {name}");
        }
    }
    Ok(names)
}

impl Guest {
    /// Finds a guest of the corpus by name and reads its directives.
    pub fn load(name: &str) -> Result<Guest> {
        Guest::load_from(&directory(), name)
    }

    /// Finds a guest by name in another directory, for tests that have guests of their own.
    pub fn load_from(directory: &Path, name: &str) -> Result<Guest> {
        let (mut source, mut companions) = (None, Vec::new());
        for path in sources(directory)? {
            match split_name(&path) {
                (found, None) if found == name => source = Some(path),
                (found, Some(_)) if found == name => companions.push(path),
                _ => {}
            }
        }
        let source = source.with_context(|| format!("there is no guest called {name}"))?;
        companions.sort();
        let text = fs::read_to_string(&source)
            .with_context(|| format!("cannot read {}", source.display()))?;
        let mut guest = Guest {
            name: name.to_owned(),
            source,
            companions,
            flags: Vec::new(),
            arguments: Vec::new(),
            ending: Ending::Exited(0),
            error_text: None,
            needs: Vec::new(),
            records: Vec::new(),
            sanitizer: None,
        };
        guest
            .read_directives(&text)
            .with_context(|| format!("in the opening comment of {}", guest.source.display()))?;
        Ok(guest)
    }

    /// What this machine lacks for the guest; `None` when it can be built and run.
    pub fn missing(&self) -> Option<String> {
        let sanitizer = self.sanitizer.as_deref().filter(|name| !has_sanitizer(name));
        let feature =
            || self.missing_feature().map(|feature| format!("a processor with {feature}"));
        sanitizer.map(|name| format!("the compiler's {name} sanitizer")).or_else(feature)
    }

    fn missing_feature(&self) -> Option<&str> {
        if self.needs.is_empty() {
            return None;
        }
        let description = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let features: BTreeSet<&str> = description
            .lines()
            .find_map(|line| line.strip_prefix("flags")?.split_once(':'))
            .map(|(_, flags)| flags.split_whitespace().collect())
            .unwrap_or_default();
        self.needs.iter().map(String::as_str).find(|need| !features.contains(need))
    }

    /// Builds the guest into `output` where needed, and returns the command that runs it.
    pub fn build(&self, output: &Path) -> Result<Command> {
        fs::create_dir_all(output)
            .with_context(|| format!("cannot create {}", output.display()))?;
        // Guests compare their own name with what the kernel says; it must not contain links.
        let output = output.canonicalize()?;
        let program = output.join(&self.name);
        compile(&self.source, &program, &self.flags, false)?;
        let mut command = Command::new(program);
        for companion in &self.companions {
            let library =
                output.join(companion.file_stem().unwrap_or_default()).with_added_extension("so");
            compile(companion, &library, &[], true)?;
            command.arg(library);
        }
        command.args(&self.arguments);
        Ok(command)
    }

    fn read_directives(&mut self, text: &str) -> Result<()> {
        for line in text.lines().map_while(|line| line.strip_prefix("//")) {
            let Some((key, value)) = line.split_once(':') else {
                continue;
            };
            let value = value.trim();
            let words = || value.split_whitespace().map(str::to_owned);
            match key.trim() {
                "build" => self.flags.extend(words()),
                "args" => self.arguments.extend(words()),
                "needs" => self.needs.extend(words()),
                "record" => self.records.push(words().collect()),
                "exit" => {
                    let code =
                        value.parse().with_context(|| format!("`{value}` is no exit code"))?;
                    self.ending = Ending::Exited(code);
                }
                "signal" => self.ending = Ending::Signaled(signal_number(value)?),
                "sanitizer" => {
                    self.flags.push(format!("-fsanitize={value}"));
                    self.sanitizer = Some(value.to_owned());
                }
                "stderr" => {
                    let text =
                        value.strip_prefix("has ").context("stderr can only be `has TEXT`")?;
                    self.error_text = Some(text.to_owned());
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Whether the compiler has a sanitizer's library, which distributions package on its own.
fn has_sanitizer(name: &str) -> bool {
    let library = match name {
        "address" => "libasan.so",
        "undefined" => "libubsan.so",
        _ => return false,
    };
    // A file that it does not find it prints as it was asked for, without a directory.
    let asked = Command::new("gcc").arg(format!("-print-file-name={library}")).output();
    asked.is_ok_and(|result| result.stdout.contains(&b'/'))
}

/// Everything in the directory that a compiler takes.
fn sources(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory)
        .with_context(|| format!("cannot read the guests in {}", directory.display()))?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if Compiler::of(&path).is_some() {
            found.push(path);
        }
    }
    Ok(found)
}

/// `signal_nested.c` is a guest; `code_dlopen.one.c` is part `one` of the guest `code_dlopen`.
fn split_name(path: &Path) -> (&str, Option<&str>) {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    match stem.split_once('.') {
        Some((name, part)) => (name, Some(part)),
        None => (stem, None),
    }
}

struct Compiler {
    program: &'static str,
    flags: &'static [&'static str],
    package: &'static str,
}

impl Compiler {
    fn of(source: &Path) -> Option<Compiler> {
        let (program, flags, package): (_, &[_], _) = match source.extension()?.to_str()? {
            "c" => ("gcc", &["-O1", "-g", "-Wall"], "gcc and libc6-dev"),
            "cc" => ("g++", &["-O1", "-g", "-Wall"], "g++"),
            "S" => ("gcc", &["-g"], "gcc and libc6-dev"),
            "rs" => ("rustc", &["--edition=2024", "-Copt-level=1", "-g"], "rustc"),
            _ => return None,
        };
        Some(Compiler { program, flags, package })
    }
}

fn compile(source: &Path, target: &Path, flags: &[String], shared_library: bool) -> Result<()> {
    static BUILDS: AtomicU32 = AtomicU32::new(0);

    if is_fresh(target, source)? {
        return Ok(());
    }
    let compiler = Compiler::of(source).context("the source has a known extension")?;
    let unfinished = target.with_added_extension(format!(
        "{}-{}.unfinished",
        std::process::id(),
        BUILDS.fetch_add(1, Ordering::Relaxed)
    ));
    let mut command = Command::new(compiler.program);
    command.args(compiler.flags).arg(source).arg("-o").arg(&unfinished);
    if shared_library {
        command.args(["-shared", "-fPIC"]);
    }
    // After the source: the linker takes a `-l` only for what stands before it.
    command.args(flags);
    let result = match command.output() {
        Ok(result) => result,
        Err(error) if error.kind() == ErrorKind::NotFound => bail!(
            "the guest {} needs `{}`, which is not installed (it comes with {})",
            source.display(),
            compiler.program,
            compiler.package
        ),
        Err(error) => return Err(error).with_context(|| format!("cannot run {command:?}")),
    };
    if !result.status.success() {
        // Best effort: the error that matters is the compiler's.
        let _ = fs::remove_file(&unfinished);
        bail!("{command:?} failed:\n{}", String::from_utf8_lossy(&result.stderr));
    }
    fs::rename(&unfinished, target)
        .with_context(|| format!("cannot put {} in its place", target.display()))
}

/// Whether `target` is newer than the source and the header that guests share.
fn is_fresh(target: &Path, source: &Path) -> Result<bool> {
    let Some(built) = modified(target)? else {
        return Ok(false);
    };
    for ingredient in [source, &directory().join("check.h")] {
        if modified(ingredient)?.is_some_and(|changed| changed >= built) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn modified(path: &Path) -> Result<Option<SystemTime>> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(Some(metadata.modified()?)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot look at {}", path.display())),
    }
}

fn signal_number(name: &str) -> Result<i32> {
    Ok(match name {
        "SIGHUP" => libc::SIGHUP,
        "SIGINT" => libc::SIGINT,
        "SIGILL" => libc::SIGILL,
        "SIGTRAP" => libc::SIGTRAP,
        "SIGABRT" => libc::SIGABRT,
        "SIGBUS" => libc::SIGBUS,
        "SIGFPE" => libc::SIGFPE,
        "SIGKILL" => libc::SIGKILL,
        "SIGUSR1" => libc::SIGUSR1,
        "SIGSEGV" => libc::SIGSEGV,
        "SIGPIPE" => libc::SIGPIPE,
        "SIGALRM" => libc::SIGALRM,
        "SIGTERM" => libc::SIGTERM,
        "SIGSYS" => libc::SIGSYS,
        _ => bail!("`{name}` is not a signal the corpus knows"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directives(text: &str) -> Result<Guest> {
        let mut guest = Guest {
            name: "sample".to_owned(),
            source: PathBuf::from("sample.c"),
            companions: Vec::new(),
            flags: Vec::new(),
            arguments: Vec::new(),
            ending: Ending::Exited(0),
            error_text: None,
            needs: Vec::new(),
            records: Vec::new(),
            sanitizer: None,
        };
        guest.read_directives(text)?;
        Ok(guest)
    }

    #[test]
    fn directives_end_with_the_opening_comment() {
        let guest = directives(
            "// Checks this: and that.\n// build: -O2 -static\n// args: a b\n\n// exit: 9\nint x;\n",
        )
        .unwrap();
        assert_eq!(guest.flags, ["-O2", "-static"]);
        assert_eq!(guest.arguments, ["a", "b"]);
        assert_eq!(guest.ending, Ending::Exited(0));
    }

    #[test]
    fn endings_are_codes_or_signal_names() {
        assert_eq!(directives("// exit: 3").unwrap().ending, Ending::Exited(3));
        let signal = directives("// signal: SIGSEGV").unwrap().ending;
        assert_eq!(signal, Ending::Signaled(libc::SIGSEGV));
        assert!(directives("// exit: three").is_err());
        assert!(directives("// signal: SIGWRONG").is_err());
    }

    #[test]
    fn errors_that_vary_have_a_text_that_does_not() {
        let guest =
            directives("// sanitizer: address\n// stderr: has heap-buffer-overflow").unwrap();
        assert_eq!(guest.error_text.as_deref(), Some("heap-buffer-overflow"));
        assert_eq!(guest.flags, ["-fsanitize=address"]);
        assert!(directives("// stderr: whatever").is_err());
    }

    #[test]
    fn a_dotted_name_is_a_companion() {
        assert_eq!(split_name(Path::new("a/code.one.c")), ("code", Some("one")));
        assert_eq!(split_name(Path::new("a/code.c")), ("code", None));
    }

    #[test]
    fn a_feature_no_processor_has_is_missing() {
        let guest = directives("// needs: fpu no-such-feature").unwrap();
        assert_eq!(guest.missing().unwrap(), "a processor with no-such-feature");
        assert!(directives("// sanitizer: thought").unwrap().missing().is_some());
        assert_eq!(directives("// needs: fpu").unwrap().missing(), None);
    }
}
