//! Call stacks at every instruction of real programs, compared with those of gdb.

mod scene;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use retro_abi::channel::Stream;
use retro_symbols::{CallStack, DEPTH_LIMIT, Frame, Machine, Symbols};
use scene::{Chunk, Program, Scene, map};

/// Functions with and without frames, that call themselves, through pointers and other libraries, within signals and
/// in each other.
const SOURCE: &str = include_str!("gdb/stepped.c");

/// What gdb saw of a frame.
#[derive(Debug)]
struct Expected {
    kind: char,
    /// rip, rsp, rbx, rbp, r12 to r15.
    registers: Vec<Option<u64>>,
    line: u32,
    file: String,
    function: String,
}

/// A moment of the program.
#[derive(Default)]
struct Moment {
    registers: Vec<u64>,
    frames: Vec<Expected>,
    memory: BTreeMap<u64, u8>,
    files: Vec<(u64, Vec<u8>)>,
}

impl Machine for Moment {
    fn register(&self, number: u16) -> Option<u64> {
        self.registers.get(usize::from(number)).copied()
    }

    fn vector(&self, _: u16) -> Option<[u8; 16]> {
        None
    }

    fn fs_base(&self) -> Option<u64> {
        None
    }

    fn read(&self, address: u64, buffer: &mut [u8]) -> bool {
        for (start, contents) in &self.files {
            if let Some(offset) = address.checked_sub(*start)
                && let Some(found) = contents.get(offset as usize..)
                && let Some(found) = found.get(..buffer.len())
            {
                buffer.copy_from_slice(found);
                return true;
            }
        }
        (address..).zip(buffer).all(|(at, byte)| match self.memory.get(&at) {
            Some(known) => {
                *byte = *known;
                true
            }
            None => false,
        })
    }
}

/// Steps a program under gdb, and hands each moment to `look`.
fn step(
    scene: &Scene,
    program: &Path,
    first: &str,
    steps: u32,
    mut look: impl FnMut(&Symbols, &Moment),
) {
    let output = scene.path("moments");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gdb/steps.py");
    let handler = format!("break {}", first.replace("main", "handler"));
    let status = Command::new("gdb")
        .args(["-q", "-nx", "-batch", "-ex", "set debuginfod enabled off"])
        .env("STEPS", steps.to_string())
        .env("STEPS_OUTPUT", &output)
        .args(["-ex", "set backtrace past-main on", "-ex", "set backtrace past-entry on"])
        .args(["-ex", "set startup-with-shell off"])
        .args(["-ex", "handle SIGUSR1 SIGUSR2 nostop noprint pass", "-ex", &handler])
        .args(["-ex", &format!("break {first}"), "-ex", "run", "-x"])
        .arg(script)
        .arg(program)
        .current_dir(scene.path("."))
        .output()
        .unwrap();
    let text = fs::read_to_string(&output).unwrap_or_else(|_| panic!("gdb failed: {status:?}"));
    let mut maps = Vec::new();
    let mut moment = Moment::default();
    let mut symbols = None;
    for line in text.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        if matches!(fields[0], "S" | "D") && !moment.frames.is_empty() {
            let symbols = symbols.get_or_insert_with(|| {
                moment.files = read_files(&maps);
                record(scene, &maps)
            });
            look(symbols, &moment);
            moment.frames.clear();
        }
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        match fields[0] {
            "M" => maps.push(line.to_string()),
            "S" => moment.registers = fields[1..].iter().map(|field| hex(field).unwrap()).collect(),
            "W" => {
                let bytes = (0..fields[2].len()).step_by(2);
                let bytes = bytes.map(|at| u8::from_str_radix(&fields[2][at..at + 2], 16).unwrap());
                moment.memory.extend((hex(fields[1]).unwrap()..).zip(bytes));
            }
            "F" => moment.frames.push(Expected {
                kind: fields[1].chars().next().unwrap(),
                registers: fields[2..10].iter().map(|field| hex(field)).collect(),
                line: fields[10].parse().unwrap(),
                file: fields[11].to_string(),
                function: fields[12..].join(" "),
            }),
            _ => {}
        }
    }
    assert!(symbols.is_some(), "gdb saw nothing: {status:?}");
}

/// The parts of a line with a mapping: start, length, rights, offset, path.
fn mapping(line: &str) -> (u64, u64, u32, u64, PathBuf) {
    let fields: Vec<&str> = line.splitn(5, ' ').collect();
    let (start, end) = fields[1].split_once('-').unwrap();
    let hex = |text| u64::from_str_radix(text, 16).unwrap();
    let has = |right| u32::from(fields[2].contains(right));
    let rights = has('r') | has('w') << 1 | has('x') << 2;
    (hex(start), hex(end) - hex(start), rights, hex(fields[3]), PathBuf::from(fields[4]))
}

/// What cannot change of the mapped files.
fn read_files(maps: &[String]) -> Vec<(u64, Vec<u8>)> {
    let read = |line: &String| {
        let (start, length, rights, offset, path) = mapping(line);
        let contents = fs::read(path).unwrap();
        let end = contents.len().min((offset + length) as usize);
        (rights & 2 == 0).then(|| (start, contents[offset as usize..end].to_vec()))
    };
    maps.iter().filter_map(read).collect()
}

/// A recording in which those files are mapped.
fn record(scene: &Scene, maps: &[String]) -> Symbols {
    let mut paths: Vec<PathBuf> = maps.iter().map(|line| mapping(line).4).collect();
    paths.dedup();
    let programs: Vec<Program> = paths.iter().map(|path| Program::at(path)).collect();
    let files = (programs.iter().enumerate())
        .map(|(number, program)| (0, program.event(number as u64)))
        .collect();
    let mapped = maps.iter().map(|line| {
        let (start, length, rights, offset, path) = mapping(line);
        let number = paths.iter().position(|known| *known == path).unwrap() as u64;
        (0, map(start, length, rights, number + 1, offset))
    });
    let files = Chunk { log: 0, stream: Stream::Code, base_time: 0, events: files };
    let main = Chunk { log: 0, stream: Stream::Main, base_time: 0, events: mapped.collect() };
    let name = scene.fresh_name();
    Symbols::new(scene.record(&name, &[files, main]))
}

/// How much is compared with what gdb saw.
#[derive(Clone, Copy, PartialEq)]
enum Compared {
    /// All of every frame.
    Everything,
    /// Where frames go on, which is what can be guessed.
    Addresses,
    /// As addresses, up to what a signal interrupted, where that is to be seen.
    Handlers,
}

/// What is different from what gdb saw.
fn differences(stack: &CallStack, expected: &[Expected], compared: Compared) -> Option<String> {
    let seen = match compared {
        Compared::Handlers => {
            let trampoline = expected.iter().position(|frame| frame.kind == 'S')?;
            trampoline + 2
        }
        _ if stack.frames.len() != expected.len() => {
            let end = stack.end;
            return Some(format!(
                "{} frames ({end:?}), not {}",
                stack.frames.len(),
                expected.len()
            ));
        }
        _ => expected.len(),
    };
    if stack.frames.len() < seen {
        return Some(format!("{} frames ({:?})", stack.frames.len(), stack.end));
    }
    let compare = |(frame, expected)| frame_differences(frame, expected, compared);
    let mut found = stack.frames.iter().zip(expected).take(seen).map(compare).enumerate();
    found.find_map(|(number, found)| Some(format!("frame {number}: {}", found?)))
}

fn frame_differences(frame: &Frame, expected: &Expected, compared: Compared) -> Option<String> {
    let kind = match () {
        () if frame.is_signal_frame => 'S',
        () if frame.is_inlined => 'I',
        () => 'N',
    };
    if kind != expected.kind {
        return Some(format!("it is {kind}, not {}", expected.kind));
    }
    let numbers = [16, 7, 3, 6, 12, 13, 14, 15];
    for (number, expected) in numbers.into_iter().zip(&expected.registers) {
        let found = frame.registers.get(number);
        let is_compared = number == 16 || compared == Compared::Everything;
        if is_compared && found != *expected {
            return Some(format!("register {number} is {found:x?}, not {expected:x?}"));
        }
    }
    if compared != Compared::Everything {
        return None;
    }
    if frame.is_guessed {
        return Some("it is guessed".to_string());
    }
    if expected.function != "-" && kind != 'S' {
        let function = without_arguments(frame.function.as_deref().unwrap_or("-"));
        let expected = without_arguments(&expected.function);
        if function != expected {
            return Some(format!("it is {function}, not {expected}"));
        }
    }
    // Elsewhere gdb passes over rows that continue a line in another block of it.
    if expected.file.starts_with("stepped.") && kind != 'S' {
        let source = frame.source.as_ref().map(ToString::to_string);
        let expected = format!("{}:{}", expected.file, expected.line);
        // Code of no line is not shown as if it were of the line before.
        if source.as_ref().is_some_and(|source| *source != expected) {
            return Some(format!("it is at {source:?}, not {expected}"));
        }
    }
    None
}

/// A name without parameters and template arguments: demanglers differ in how they write numbers. Of Rust's names, which
/// gdb puts together from what is around a function, the last part.
fn without_arguments(name: &str) -> String {
    let mut depth = 0;
    let outer = name.chars().filter(|letter| {
        depth += i32::from(*letter == '<');
        let is_outer = depth == 0;
        depth -= i32::from(*letter == '>');
        is_outer
    });
    let name: String = outer.take_while(|letter| *letter != '(').collect();
    match name.trim_end_matches("::").rsplit("::").next() {
        Some(closure) if closure.contains("closure") => "closure".to_string(),
        Some(last) => last.to_string(),
        None => name,
    }
}

fn shown(stack: &CallStack) -> String {
    let line = |frame: &Frame| {
        let guessed = if frame.is_guessed { "?" } else { "" };
        format!("  {:#x}{guessed} {:?} {:?}\n", frame.pc, frame.function, frame.source)
    };
    stack.frames.iter().map(line).collect()
}

/// Steps through a program and compares all that gdb sees.
#[track_caller]
fn check(scene: &Scene, program: &Program, first: &str, steps: u32, compared: Compared) {
    let (mut moments, mut wrong) = (0, Vec::new());
    let (mut kinds, mut functions) = (String::new(), BTreeSet::new());
    step(scene, &program.path, first, steps, |symbols, moment| {
        let stack = symbols.unwind(0, 0, moment, DEPTH_LIMIT);
        moments += 1;
        kinds.extend(moment.frames.iter().map(|frame| frame.kind));
        functions.extend(moment.frames.first().map(|frame| frame.function.clone()));
        if let Some(difference) = differences(&stack, &moment.frames, compared) {
            wrong.push(format!("{difference}\n{}{:x?}", shown(&stack), moment.frames));
        }
    });
    let first = wrong[..wrong.len().min(3)].join("\n");
    assert!(wrong.is_empty(), "{} of {moments} are wrong: {first}", wrong.len());
    assert!(moments > 40, "{moments}");
    assert!(kinds.contains('S'), "no handler was seen, but {functions:?}");
}

#[test]
fn plain_code_is_unwound_at_every_instruction() {
    let scene = Scene::new();
    let program = scene.compile("stepped.c", SOURCE, &["-g", "-O0"]);
    check(&scene, &program, "main", 4000, Compared::Everything);
}

#[test]
fn optimised_code_is_unwound_at_every_instruction() {
    let scene = Scene::new();
    let program = scene.compile("stepped.c", SOURCE, &["-g", "-O2", "-Wl,-z,lazy"]);
    check(&scene, &program, "main", 4000, Compared::Everything);
}

#[test]
fn tables_in_debug_information_are_enough() {
    let scene = Scene::new();
    let options = ["-g", "-gdwarf-4", "-O2", "-fno-asynchronous-unwind-tables", "-Wl,-z,now"];
    let program = scene.compile("stepped.c", SOURCE, &options);
    check(&scene, &program, "main", 2000, Compared::Everything);
}

#[test]
fn code_of_cpp_is_unwound_at_every_instruction() {
    let scene = Scene::new();
    let source = include_str!("gdb/stepped.cpp");
    for level in ["-O0", "-O2"] {
        let program = scene.compile("stepped.cpp", source, &["-g", level, "-Wl,-z,now"]);
        check(&scene, &program, "main", 2500, Compared::Everything);
    }
}

#[test]
fn code_of_rust_is_unwound_at_every_instruction() {
    let scene = Scene::new();
    let source = include_str!("gdb/stepped.rs");
    for options in [&["-g"][..], &["-g", "-O"]] {
        let program = scene.compile("stepped.rs", source, options);
        check(&scene, &program, "stepped::main", 2500, Compared::Everything);
    }
}

#[test]
fn frame_pointers_do_where_there_are_no_tables() {
    let scene = Scene::new();
    let options = ["-O0", "-fno-asynchronous-unwind-tables", "-Wl,-z,now", "-DWITHOUT_FRAME"];
    let program = scene.compile("stepped.c", SOURCE, &options);
    check(&scene, &program, "main", 2000, Compared::Addresses);
}

#[test]
fn handlers_are_known_by_what_they_return_to() {
    let scene = Scene::new();
    fs::write(scene.path("stepped.c"), SOURCE).unwrap();
    let options = ["-g", "-O0", "-static", "stepped.c", "-o", "stepped"];
    scene.run(&[&["musl-gcc"], &options[..]].concat());
    let program = Program::at(&scene.path("stepped"));
    check(&scene, &program, "handler", 1000, Compared::Handlers);
}
