//! The table of measured programs.
//!
//! A program is a command line in the work directory plus the inputs it needs. Its first word is a
//! program of the system, or `./name` for one compiled by the benchmark. Sizes are such that a CPU-
//! bound program takes about half a second natively: long against start-up, short enough to repeat. What is dominated by
//! start-up is in [`short`].

mod short;

use std::ffi::OsString;
use std::path::Path;

use clap::ValueEnum;
use serde::Serialize;

use crate::inputs::Input;
use crate::tools;

/// What dominates a program's cost under a translator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Group {
    /// Executing translated code
    Cpu,
    /// Passing system calls on
    Syscall,
    /// Starting processes
    Process,
    /// Several threads
    Thread,
    /// Code generated at run time
    Jit,
    /// Translating code that runs once
    Cold,
    /// Half a second of everyday work
    Short,
    /// Repeated string instructions
    String,
}

impl Group {
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

#[derive(Debug)]
pub struct Program {
    pub name: &'static str,
    pub group: Group,
    /// One of the eight CPU-bound programs over which the headline mean is taken.
    pub headline: bool,
    pub about: &'static str,
    pub inputs: &'static [Input],
    pub command: &'static [&'static str],
}

impl Program {
    pub fn is_queried(&self) -> bool {
        QUERIED.contains(&self.name)
    }

    /// The first program of the system that is needed and not installed.
    pub fn missing_tool(&self) -> Option<&'static str> {
        let own = self.command[0];
        let run = (!own.starts_with("./")).then_some(own);
        let build = self.inputs.iter().flat_map(|input| input.tools()).copied();
        run.into_iter().chain(build).find(|tool| tools::locate(tool).is_none())
    }

    /// The command line to execute, its first word a full path.
    pub fn guest(&self, directory: &Path) -> Vec<OsString> {
        let (first, rest) = (self.command[0], &self.command[1..]);
        let path = match first.strip_prefix("./") {
            Some(compiled) => directory.join(compiled),
            None => tools::locate(first).unwrap_or_else(|| first.into()),
        };
        std::iter::once(path.into()).chain(rest.iter().map(OsString::from)).collect()
    }
}

/// The programs about whose recordings the mode `query` asks: interpreters, a data base, a compressor, a compiler; and one
/// of them ten times shorter, because the length of a run should not matter.
pub const QUERIED: &[&str] = &["gzip", "python3", "python3-short", "sqlite3", "perl", "cc1"];

const LARGE_TEXT: Input = Input::Text { file: "large.txt", bytes: 30_000_000 };
const SMALL_TEXT: Input = Input::Text { file: "small.txt", bytes: 10_000_000 };

/// A program compiled from `benches/programs/NAME.c`, printing its result.
macro_rules! c_program {
    ($name:literal, $group:ident, $headline:literal, $about:literal) => {
        Program {
            name: $name,
            group: Group::$group,
            headline: $headline,
            about: $about,
            inputs: &[Input::CProgram {
                executable: $name,
                text: include_str!(concat!("../programs/", $name, ".c")),
            }],
            command: &[concat!("./", $name)],
        }
    };
}

/// All of them, in the order of the report: by group, the eight headline programs first.
pub fn all() -> impl Iterator<Item = &'static Program> {
    LONG.iter().chain(short::PROGRAMS)
}

const LONG: &[Program] = &[
    Program {
        name: "gzip",
        group: Group::Cpu,
        headline: true,
        about: "compress 30 MB of text",
        inputs: &[LARGE_TEXT],
        command: &["gzip", "-c", "-n", "large.txt"],
    },
    Program {
        name: "xz",
        group: Group::Cpu,
        headline: true,
        about: "compress 10 MB of text at level 1",
        inputs: &[SMALL_TEXT],
        command: &["xz", "-1", "-T1", "-c", "small.txt"],
    },
    Program {
        name: "python3",
        group: Group::Cpu,
        headline: true,
        about: "n-body, dictionaries, strings, JSON, a sieve",
        inputs: &[Input::Source {
            file: "workload.py",
            text: include_str!("../programs/workload.py"),
        }],
        command: &["python3", "-I", "workload.py"],
    },
    Program {
        name: "sqlite3",
        group: Group::Cpu,
        headline: true,
        about: "inserts, indices, joins and aggregates in memory",
        inputs: &[Input::Source {
            file: "workload.sql",
            text: include_str!("../programs/workload.sql"),
        }],
        command: &["sqlite3", "-batch", ":memory:", ".read workload.sql"],
    },
    Program {
        name: "perl",
        group: Group::Cpu,
        headline: true,
        about: "regular expressions, hashes, strings, sorting",
        inputs: &[Input::Source {
            file: "workload.pl",
            text: include_str!("../programs/workload.pl"),
        }],
        command: &["perl", "workload.pl"],
    },
    Program {
        name: "cc1",
        group: Group::Cpu,
        headline: true,
        about: "compile a generated C file at -O1",
        inputs: &[Input::PreprocessedC { file: "unit.i", functions: 270 }],
        command: &["cc1", "-quiet", "-fpreprocessed", "-O1", "-w", "unit.i", "-o", "-"],
    },
    Program {
        name: "python3-short",
        group: Group::Cpu,
        headline: false,
        about: "a tenth of python3",
        inputs: &[Input::Source {
            file: "workload.py",
            text: include_str!("../programs/workload.py"),
        }],
        command: &["python3", "-I", "workload.py", "short"],
    },
    c_program!("ray", Cpu, true, "ray tracer: floating point, short calls"),
    c_program!("queens", Cpu, true, "n queens: integers, branches, recursion"),
    c_program!("interp", Cpu, false, "bytecode interpreter: an indirect jump per operation"),
    c_program!("chase", Cpu, false, "pointer chasing: memory latency"),
    c_program!("matmul", Cpu, false, "matrix product: vector loops"),
    c_program!("hashsort", Cpu, false, "hash table, then qsort with a callback"),
    c_program!("fib", Cpu, false, "recursion: a call and a return every few instructions"),
    Program {
        name: "virtual",
        group: Group::Cpu,
        headline: false,
        about: "C++ virtual calls, std::function, std::map, std::sort",
        inputs: &[Input::CxxProgram {
            executable: "virtual",
            text: include_str!("../programs/virtual.cpp"),
        }],
        command: &["./virtual"],
    },
    Program {
        name: "openssl",
        group: Group::Cpu,
        headline: false,
        about: "SHA-256 of 30 MB, sixteen times, with the CPU's own instructions",
        inputs: &[LARGE_TEXT],
        command: &[
            "openssl",
            "dgst",
            "-sha256",
            "large.txt",
            "large.txt",
            "large.txt",
            "large.txt",
            "large.txt",
            "large.txt",
            "large.txt",
            "large.txt",
            "large.txt",
            "large.txt",
            "large.txt",
            "large.txt",
            "large.txt",
            "large.txt",
            "large.txt",
            "large.txt",
        ],
    },
    Program {
        name: "dd",
        group: Group::Syscall,
        headline: false,
        about: "a million one-byte reads and writes",
        inputs: &[],
        command: &["dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=500000", "status=none"],
    },
    Program {
        name: "find",
        group: Group::Syscall,
        headline: false,
        about: "walk /usr",
        inputs: &[],
        command: &["find", "/usr", "-xdev"],
    },
    Program {
        name: "sh-loop",
        group: Group::Process,
        headline: false,
        about: "a shell starting /bin/true 300 times",
        inputs: &[],
        command: &["sh", "-c", "i=0; while [ $i -lt 300 ]; do /bin/true; i=$((i+1)); done"],
    },
    c_program!("threads", Thread, false, "four threads: a queue, mutexes, atomics, computation"),
    Program {
        name: "sort",
        group: Group::Thread,
        headline: false,
        about: "sort two million lines on two threads",
        inputs: &[Input::Lines { file: "lines.txt", count: 2_000_000 }],
        command: &["sort", "--parallel=2", "--buffer-size=300M", "lines.txt"],
    },
    Program {
        name: "xz-t2",
        group: Group::Thread,
        headline: false,
        about: "compress 10 MB of text on two threads",
        inputs: &[SMALL_TEXT],
        command: &["xz", "-1", "-T2", "-c", "small.txt"],
    },
    Program {
        name: "node",
        group: Group::Jit,
        headline: false,
        about: "JavaScript: optimised and deoptimised loops",
        inputs: &[Input::Source {
            file: "workload.js",
            text: include_str!("../programs/workload.js"),
        }],
        command: &["node", "workload.js"],
    },
    Program {
        name: "java",
        group: Group::Jit,
        headline: false,
        about: "Java: compiled lambdas, a hash map, garbage",
        inputs: &[Input::JavaClass {
            class: "Workload",
            text: include_str!("../programs/Workload.java"),
        }],
        command: &["java", "-cp", ".", "Workload"],
    },
    Program {
        name: "true",
        group: Group::Cold,
        headline: false,
        about: "/bin/true",
        inputs: &[],
        command: &["true"],
    },
    Program {
        name: "python3-pass",
        group: Group::Cold,
        headline: false,
        about: "python3 -c pass",
        inputs: &[],
        command: &["python3", "-c", "pass"],
    },
    Program {
        name: "gcc-version",
        group: Group::Cold,
        headline: false,
        about: "gcc --version",
        inputs: &[],
        command: &["gcc", "--version"],
    },
    Program {
        name: "perl-1",
        group: Group::Cold,
        headline: false,
        about: "perl -e 1",
        inputs: &[],
        command: &["perl", "-e", "1"],
    },
];

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_are_unique_and_eight_are_headline() {
        let names: HashSet<_> = all().map(|program| program.name).collect();
        assert_eq!(names.len(), all().count());
        let headline: Vec<_> = all().filter(|program| program.headline).collect();
        assert_eq!(headline.len(), 8);
        assert!(headline.iter().all(|program| program.group == Group::Cpu));
    }

    #[test]
    fn queried_programs_are_in_the_table() {
        let queried = all().filter(|program| program.is_queried());
        assert_eq!(queried.count(), QUERIED.len());
    }

    #[test]
    fn compiled_programs_lie_in_the_work_directory() {
        let queens = all().find(|program| program.name == "queens").expect("present");
        assert_eq!(queens.guest(Path::new("/work-directory")), ["/work-directory/queens"]);
    }
}
