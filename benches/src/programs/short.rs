//! Programs that run for half a second or less, as most programs do that people start, and programs that do little but
//! execute string instructions.
//!
//! What they cost is mostly what starting costs: translating code that runs once, binding symbols, making and ending logs.

use super::{Group, Program};
use crate::inputs::Input;

const TEXT: Input = Input::Text { file: "short.txt", bytes: 3_000_000 };

/// A source that lies in `benches/programs/short`.
macro_rules! source {
    ($file:literal) => {
        Input::Source { file: $file, text: include_str!(concat!("../../programs/short/", $file)) }
    };
}

const fn short(
    name: &'static str,
    about: &'static str,
    inputs: &'static [Input],
    command: &'static [&'static str],
) -> Program {
    Program { name, group: Group::Short, headline: false, about, inputs, command }
}

const STRINGS: &[Input] =
    &[Input::CProgram { executable: "strings", text: include_str!("../../programs/strings.c") }];

const fn string(
    name: &'static str,
    about: &'static str,
    command: &'static [&'static str],
) -> Program {
    Program { name, group: Group::String, headline: false, about, inputs: STRINGS, command }
}

/// In the order of the report.
pub const PROGRAMS: &[Program] = &[
    short(
        "sh",
        "a script of a shell's own commands",
        &[source!("script.sh")],
        &["sh", "script.sh"],
    ),
    short(
        "bash",
        "arrays, patterns, a subshell now and then",
        &[source!("script.bash")],
        &["bash", "script.bash"],
    ),
    short(
        "pipeline",
        "ten pipes between six programs",
        &[source!("pipeline.sh")],
        &["sh", "pipeline.sh"],
    ),
    short(
        "git",
        "a repository of thirteen commits, a merge, a log",
        &[source!("git.sh")],
        &["sh", "git.sh"],
    ),
    short(
        "make",
        "two hundred rules, each with a shell",
        &[source!("Makefile.short")],
        &["make", "-s", "-B", "-f", "Makefile.short"],
    ),
    short(
        "make-j2",
        "the same, two at a time",
        &[source!("Makefile.short")],
        &["make", "-s", "-j2", "-B", "-f", "Makefile.short"],
    ),
    short(
        "gcc-hello",
        "compile and link a small program, four times",
        &[source!("hello.c")],
        &["sh", "-c", "for i in 1 2 3 4; do gcc -O1 -o hello hello.c || exit 1; done; ./hello"],
    ),
    short(
        "tclsh",
        "lists, dictionaries, regular expressions",
        &[source!("short.tcl")],
        &["tclsh", "short.tcl"],
    ),
    short(
        "awk",
        "count words of 3 MB",
        &[TEXT, source!("short.awk")],
        &["awk", "-f", "short.awk", "short.txt"],
    ),
    short(
        "sed",
        "substitutions in 3 MB",
        &[TEXT, source!("short.sed")],
        &["sed", "-f", "short.sed", "short.txt"],
    ),
    short(
        "perl-lines",
        "words and letters of 3 MB",
        &[TEXT, source!("short.pl")],
        &["perl", "short.pl", "short.txt"],
    ),
    short("m4", "recursive macros", &[source!("short.m4")], &["m4", "-L", "5000", "short.m4"]),
    short("bc", "900 digits", &[], &["sh", "-c", "echo 'scale=900; 4*a(1)' | bc -l"]),
    short(
        "python3-imports",
        "start and load modules",
        &[source!("imports.py")],
        &["python3", "-I", "imports.py"],
    ),
    short("ls", "list /usr/lib", &[], &["ls", "-lR", "/usr/lib"]),
    string("rep-movs", "rep movsb of 7 to 700 bytes", &["./strings", "movs"]),
    string("rep-movs-back", "the same backwards", &["./strings", "movs-back"]),
    string("rep-cmps", "repe cmpsb", &["./strings", "cmps"]),
    string("rep-scas", "repne scasb", &["./strings", "scas"]),
    string("rep-stos", "rep stosb", &["./strings", "stos"]),
];
