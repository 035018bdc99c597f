//! Transcripts: commands, and what gdb says.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::recorded::{Recorded, guests, has_gdb, retro};

const PROMPT: &str = "(gdb) ";

/// Compares what gdb says with a transcript.
#[track_caller]
pub fn check(name: &str) {
    if !has_gdb() {
        eprintln!("there is no gdb: {name} is left out");
        return;
    }
    let path = path_of(name);
    let text =
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let transcript = Transcript::parse(&text);
    let said = transcript.replayed();
    if std::env::var_os("RETRO_BLESS").is_some() {
        fs::write(&path, &said).unwrap();
        return;
    }
    if said != text {
        let line =
            text.lines().zip(said.lines()).take_while(|(wanted, said)| wanted == said).count();
        panic!("gdb says something else from line {} of {} on:\n{said}", line + 1, path.display());
    }
}

fn path_of(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../tests/gdb/transcripts/{name}.txt"))
}

/// The parts of a transcript that come from us.
struct Transcript<'a> {
    /// `program: guest options…`, `options: …` for `retro gdb`, `index: …` for `retro index`.
    head: Vec<&'a str>,
    commands: Vec<&'a str>,
}

impl<'a> Transcript<'a> {
    fn parse(text: &'a str) -> Transcript<'a> {
        let is_command = |line: &&str| line.starts_with(PROMPT);
        let head = text.lines().take_while(|line| !is_command(line)).collect();
        let commands = text.lines().filter_map(|line| line.strip_prefix(PROMPT)).collect();
        Transcript { head, commands }
    }

    fn words(&self, key: &str) -> Vec<&'a str> {
        let line = self.head.iter().find_map(|line| line.strip_prefix(key));
        line.map(|line| line.split_whitespace().collect()).unwrap_or_default()
    }

    /// The transcript with what gdb says now.
    fn replayed(&self) -> String {
        let program = self.words("program:");
        let (guest, options) = program.split_first().expect("a transcript names its program");
        let recorded = Recorded::indexed(guest, options, &self.words("index:"));
        let mut command = Command::new(retro());
        command.arg("gdb").arg(recorded.directory()).args(self.words("options:"));
        command.args(["--", "-nx", "-q", "-batch", "-ex", "set width 0"]);
        for line in &self.commands {
            command.arg("-ex").arg(format!("echo {PROMPT}{line}\\n")).arg("-ex").arg(line);
        }
        // One place for both, so that they are in order.
        let said = Said::of(command);
        let begin = said.find(PROMPT).unwrap_or(said.len());
        let heads: String = self.head.iter().map(|line| format!("{line}\n")).collect();
        heads + &normal(&said[begin..], &recorded.directory())
    }
}

struct Said;

impl Said {
    /// What a command writes to standard output and error.
    fn of(mut command: Command) -> String {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let mut child = command
            .stdin(Stdio::null())
            .stdout(writer.try_clone().unwrap())
            .stderr(writer)
            .spawn()
            .unwrap();
        // Its copies of the writing ends are all that is left to wait for.
        drop(command);
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut reader, &mut bytes).unwrap();
        child.wait().unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// What lines about code of libraries have in them.
const LIBRARY_WORDS: [&str; 7] = ["../", "./", " from /", "_exit", "libc", "/rustc/", "_dl_"];

/// How functions of the C library are called of which the processor decides which one is used.
const VARIANTS: [&str; 6] = ["_sse", "_ssse", "_avx", "_evex", "_erms", "_fsrm"];

/// Whether a line is about code of a library.
fn is_library(line: &str) -> bool {
    let is_variant = |word: &str| {
        word.starts_with("__") && VARIANTS.iter().any(|variant| word.contains(variant))
    };
    let names = line.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    // By its name, in what has no debug information.
    let is_nowhere = line.starts_with("Temporary breakpoint ") && line.ends_with(" at 0x…");
    LIBRARY_WORDS.iter().any(|word| line.contains(word))
        || names.into_iter().any(is_variant)
        || is_nowhere
}

/// Without what differs between machines.
fn normal(text: &str, recording: &Path) -> String {
    let guests = format!("{}/", guests().display());
    let scratch = recording.parent().unwrap().to_string_lossy();
    let mut normal = String::new();
    for line in text.lines() {
        // Our own words are what they are.
        if line.starts_with(PROMPT) {
            normal.push_str(line);
            normal.push('\n');
            continue;
        }
        let line = line.replace(&guests, "").replace(&*scratch, "DIRECTORY");
        // The last word, as the client leaves.
        if line.starts_with("[Inferior 1 (process") {
            continue;
        }
        let line = without_offsets(&without_addresses(&line));
        let line = without_times(&without_ids(&line));
        let line = match line.find("Catchpoint").and_then(|at| Some(at + line[at..].find("),")?)) {
            // Where in the library it is says nothing.
            Some(end) => line[..=end].to_owned(),
            None => line,
        };
        // What is of the C library depends on which one, on the processor, and whether it has debug information.
        match is_library(&line) {
            true if normal.ends_with("…\n") => {}
            true => normal.push_str("…\n"),
            false => {
                normal.push_str(&line);
                normal.push('\n');
            }
        }
    }
    normal
}

/// `0x…` for all addresses of some length; small ones are numbers.
fn without_addresses(line: &str) -> String {
    let mut normal = String::new();
    let mut rest = line;
    while let Some(at) = rest.find("0x") {
        let digits = rest[at + 2..].bytes().take_while(u8::is_ascii_hexdigit).count();
        let end = at + 2 + digits;
        normal.push_str(&rest[..at]);
        normal.push_str(if digits >= 7 { "0x…" } else { &rest[at..end] });
        rest = &rest[end..];
    }
    normal + rest
}

/// How far an address is from a symbol depends on the compiler; what a half-written pointer points to, on where things are.
fn without_offsets(line: &str) -> String {
    if line.starts_with("Old value = ") || line.starts_with("New value = ") {
        let symbol = line.find(" <").filter(|_| line.ends_with('>'));
        return symbol.map_or(line, |at| &line[..at]).to_owned();
    }
    let mut normal = String::new();
    let mut rest = line;
    while let Some(at) = rest.find('+') {
        let digits = rest[at + 1..].bytes().take_while(u8::is_ascii_digit).count();
        let end = at + 1 + digits;
        let is_offset = digits > 0 && rest[end..].starts_with('>');
        normal.push_str(&rest[..=at]);
        normal.push_str(if is_offset { "…" } else { &rest[at + 1..end] });
        rest = &rest[end..];
    }
    normal + rest
}

/// Environments differ in size, and so does the time that it takes to read them.
fn without_times(line: &str) -> String {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let begin = line.len() - line.trim_start_matches([' ', '*']).len();
    let behind = line.find("at time ").map(|at| at + "at time ".len());
    let Some(at) = behind.or_else(|| (begin >= 2).then_some(begin)) else { return line.to_owned() };
    match digits(&line[at..]) {
        count if count > 3 => format!("{}…{}", line[..at].trim_end(), &line[at + count..]),
        _ => line.to_owned(),
    }
}

/// Columns are as wide as ids are long.
fn narrow(line: &str) -> String {
    let words: Vec<&str> =
        line.split("  ").map(str::trim).filter(|word| !word.is_empty()).collect();
    words.join("  ")
}

/// `Thread …` for `Thread 123.456`, `process …`, `thread …`.
fn without_ids(line: &str) -> String {
    let mut normal = line.to_owned();
    for word in ["Thread ", "process ", "thread "] {
        let mut from = 0;
        while let Some(at) = normal[from..].find(word) {
            let start = from + at + word.len();
            let is_id = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
            let len = normal.as_bytes()[start..].iter().take_while(|byte| is_id(byte)).count();
            let id = &normal[start..start + len];
            // gdb's own numbers of threads are the same everywhere: `Thread 2 hit`, `Switching to thread 2`.
            let is_gdbs = match word {
                "Thread " => !id.contains('.'),
                "thread " => normal[..start].ends_with("Switching to thread "),
                _ => false,
            };
            if len > 0 && !is_gdbs {
                normal.replace_range(start..start + len, "…");
            }
            from = start;
        }
    }
    if normal.contains("Target Id") || normal.contains("Thread …") {
        narrow(&normal)
    } else {
        normal
    }
}
