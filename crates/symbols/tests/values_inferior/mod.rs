//! Programs that gdb has stopped: their registers, their memory, and what gdb prints of them.

// Each test is a program of its own and uses some of it.
#![allow(dead_code)]

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use retro_abi::channel::Stream;
use retro_abi::log::Event;
use retro_symbols::{
    CallSite, EntryRegisters, EvaluationError, Expression, Format, FormatOptions, FrameContext,
    Machine, Symbols, UnknownEntry,
};

use crate::scene::{Chunk, Program, Scene, map};

const SCRIPT: &str = r#"
import gdb, struct, os
where, up, questions, out = WHERE, UP, QUESTIONS, OUT
for command in ["set confirm off", "set style enabled off", "set width 0", "set height 0", "set debuginfod enabled off",
                "set startup-with-shell off", "set breakpoint pending off"]:
    gdb.execute(command)
gdb.execute("break " + where)
gdb.execute("run")
for _ in range(up):
    gdb.execute("up")
frame = gdb.selected_frame()
lines = []
older = frame
while older.type() == gdb.INLINE_FRAME:
    older = older.older()
older = older.older()
names = "rax rdx rcx rbx rsi rdi rbp rsp r8 r9 r10 r11 r12 r13 r14 r15 rip eflags fs_base".split()
for name in names:
    value = frame.read_register(name)
    lost = value.is_optimized_out
    lines.append("register %s %s" % (name, "-" if lost else str(int(value) & 0xffffffffffffffff)))
for number in range(16):
    value = frame.read_register("xmm%d" % number)["v2_int64"]
    low, high = [int(value[half]) & 0xffffffffffffffff for half in (0, 1)]
    lines.append("vector %d %d" % (number, high << 64 | low))
if older:
    older.select()
    for name in names[:17]:
        value = older.read_register(name)
        if not value.is_optimized_out:
            lines.append("caller-register %s %d" % (name, int(value) & 0xffffffffffffffff))
    info = gdb.execute("info frame", to_string=True)
    lines.append("caller-cfa %d" % int(info.split("frame at ")[1].split(":")[0], 16))
    lines.append("caller-pc %d" % older.pc())
    frame.select()
info = gdb.execute("info frame", to_string=True)
lines.append("cfa %d" % int(info.split("frame at ")[1].split(":")[0], 16))
lines.append("pc %d" % (frame.pc() - (1 if up else 0)))
inferior = gdb.selected_inferior()
with open(out + ".memory", "wb") as memory:
    for line in open("/proc/%d/maps" % inferior.pid):
        fields = line.split()
        start, end = [int(part, 16) for part in fields[0].split("-")]
        path = fields[5] if len(fields) > 5 else ""
        if "r" not in fields[1] or path in ("[vvar]", "[vsyscall]", "[vvar_vclock]"):
            continue
        lines.append("map %d %d %s %d %s" % (start, end, fields[1], int(fields[2], 16), path))
        memory.write(struct.pack("<QQ", start, end - start))
        memory.write(bytes(inferior.read_memory(start, end - start)))
for question in questions:
    command = "print " + question if not question.startswith("/") else "print" + question
    try:
        answer = gdb.execute(command, to_string=True).strip()
        answer = answer.split(" = ", 1)[1].replace("\n", "\\n")
    except gdb.error as error:
        answer = "ERROR " + str(error)
    lines.append("answer " + answer)
for command in ["info args", "info locals"]:
    for line in gdb.execute(command, to_string=True).splitlines():
        if " = " in line:
            lines.append("local " + line)
open(out, "w").write("\n".join(lines) + "\n")
gdb.execute("kill")
"#;

/// A stopped program.
pub struct Inferior {
    pub symbols: Symbols,
    pub moment: Moment,
    pub pc: u64,
    pub cfa: u64,
    pub caller: Moment,
    pub caller_cfa: u64,
    /// Where it is returned to.
    pub caller_pc: u64,
    pub answers: Vec<String>,
    pub locals: Vec<(String, String)>,
}

/// Registers and memory of a stopped thread.
#[derive(Clone, Default)]
pub struct Moment {
    pub registers: HashMap<u16, u64>,
    pub vectors: HashMap<u16, [u8; 16]>,
    pub fs_base: Option<u64>,
    pub memory: Vec<(u64, Vec<u8>)>,
}

impl Machine for Moment {
    fn register(&self, number: u16) -> Option<u64> {
        self.registers.get(&number).copied()
    }

    fn vector(&self, number: u16) -> Option<[u8; 16]> {
        self.vectors.get(&number).copied()
    }

    fn fs_base(&self) -> Option<u64> {
        self.fs_base
    }

    fn read(&self, address: u64, buffer: &mut [u8]) -> bool {
        let mut done = 0;
        while done < buffer.len() {
            let Some(at) = address.checked_add(done as u64) else { return false };
            let region = self
                .memory
                .iter()
                .find(|(start, bytes)| (*start..*start + bytes.len() as u64).contains(&at));
            let Some((start, bytes)) = region else { return false };
            let rest = &bytes[(at - start) as usize..];
            let length = rest.len().min(buffer.len() - done);
            buffer[done..done + length].copy_from_slice(&rest[..length]);
            done += length;
        }
        true
    }
}

fn python_list(items: &[&str]) -> String {
    let quoted: Vec<String> = items.iter().map(|item| format!("{item:?}")).collect();
    format!("[{}]", quoted.join(", "))
}

impl Inferior {
    /// Runs a program up to a place, and asks gdb for values in the frame that is `up` further out.
    #[track_caller]
    pub fn stop(
        scene: &Scene,
        program: &Path,
        place: &str,
        up: usize,
        questions: &[&str],
    ) -> Inferior {
        let out = scene.path(&format!("{}-gdb", program.file_name().unwrap().to_string_lossy()));
        let script = SCRIPT
            .replace("WHERE", &format!("{place:?}"))
            .replace("UP", &up.to_string())
            .replace("QUESTIONS", &python_list(questions))
            .replace("OUT", &format!("{:?}", out.to_string_lossy()));
        let script_path = scene.path("script.py");
        fs::write(&script_path, script).unwrap();
        let _ = fs::remove_file(&out);
        let output = Command::new("gdb")
            .args(["-q", "-nx", "-batch", "-ex", "add-auto-load-safe-path /usr", "-x"])
            .arg(&script_path)
            .arg(program)
            .env("LC_ALL", "C.UTF-8")
            .output()
            .expect("gdb is installed");
        let text = fs::read_to_string(&out)
            .unwrap_or_else(|_| panic!("gdb failed: {}", String::from_utf8_lossy(&output.stderr)));
        Inferior::read(
            scene,
            &text,
            &out.with_file_name(format!("{}.memory", out.file_name().unwrap().to_string_lossy())),
        )
    }

    fn read(scene: &Scene, text: &str, memory: &Path) -> Inferior {
        let names: Vec<&str> = "rax rdx rcx rbx rsi rdi rbp rsp r8 r9 r10 r11 r12 r13 r14 r15 rip"
            .split(' ')
            .collect();
        let (mut moment, mut caller) = (Moment::default(), Moment::default());
        let (mut pc, mut cfa, mut caller_pc, mut caller_cfa) = (0, 0, 0, 0);
        let (mut answers, mut locals, mut maps) = (Vec::new(), Vec::new(), Vec::new());
        for line in text.lines() {
            let (kind, rest) = line.split_once(' ').unwrap();
            let fields: Vec<&str> = rest.split(' ').collect();
            match kind {
                "register" => {
                    let Ok(value) = fields[1].parse() else { continue };
                    match fields[0] {
                        "fs_base" => moment.fs_base = Some(value),
                        "eflags" => drop(moment.registers.insert(49, value)),
                        name => {
                            let number = names.iter().position(|own| *own == name).unwrap();
                            moment.registers.insert(number as u16, value);
                        }
                    }
                }
                "vector" => {
                    let value: u128 = fields[1].parse().unwrap();
                    moment.vectors.insert(fields[0].parse().unwrap(), value.to_le_bytes());
                }
                "caller-register" => {
                    let number = names.iter().position(|own| *own == fields[0]).unwrap();
                    caller.registers.insert(number as u16, fields[1].parse().unwrap());
                }
                "caller-cfa" => caller_cfa = rest.parse().unwrap(),
                "caller-pc" => caller_pc = rest.parse().unwrap(),
                "cfa" => cfa = rest.parse().unwrap(),
                "pc" => pc = rest.parse().unwrap(),
                "map" => {
                    maps.push(fields.iter().map(|field| field.to_string()).collect::<Vec<_>>())
                }
                "answer" => answers.push(rest.to_string()),
                "local" => {
                    let (name, value) = rest.split_once(" = ").unwrap();
                    locals.push((name.to_string(), value.to_string()));
                }
                _ => panic!("{line}"),
            }
        }
        caller.memory = read_memory(&fs::read(memory).unwrap());
        moment.memory = read_memory(&fs::read(memory).unwrap());
        let recording = record(scene, &maps);
        Inferior {
            symbols: Symbols::new(recording),
            moment,
            pc,
            cfa,
            caller,
            caller_cfa,
            caller_pc,
            answers,
            locals,
        }
    }

    pub fn frame(&self) -> FrameContext<'_> {
        self.frame_with(&UnknownEntry)
    }

    /// What the caller says about the call.
    pub fn call_site(&self) -> CallSite<'_> {
        let caller = FrameContext {
            pc: self.caller_pc.wrapping_sub(1),
            machine: &self.caller,
            cfa: Some(self.caller_cfa),
            ..self.frame()
        };
        CallSite::new(&self.symbols, &caller, self.caller_pc)
    }

    pub fn frame_with<'a>(&'a self, entry: &'a dyn EntryRegisters) -> FrameContext<'a> {
        let machine: &dyn Machine = &self.moment;
        FrameContext {
            log: 0,
            time: 1,
            pc: self.pc,
            machine,
            cfa: Some(self.cfa),
            entry,
            level: Some(0),
        }
    }

    pub fn print(&self, question: &str) -> Result<String, EvaluationError> {
        let (format, text) = match question.strip_prefix('/') {
            Some(rest) => {
                let letter = rest.chars().next().unwrap();
                (letter, &rest[1..])
            }
            None => (' ', question),
        };
        let raw = format == 'r';
        let options =
            FormatOptions { format: Format::from_letter(format), raw, ..FormatOptions::default() };
        let call = self.call_site();
        let frame = self.frame_with(&call);
        let scope = self.symbols.scope(&frame);
        let value = Expression::parse(text.trim())?.evaluate(&scope)?;
        Ok(value.format(&scope, &options))
    }

    /// Compares all answers with gdb's, and fails with a list of all that differ.
    #[track_caller]
    pub fn check(&self, questions: &[&str]) {
        assert_eq!(questions.len(), self.answers.len());
        let mut wrong = Vec::new();
        for (question, theirs) in questions.iter().zip(&self.answers) {
            let ours = self.print(question);
            let is_right = match (&ours, theirs.strip_prefix("ERROR ")) {
                (Ok(ours), None) => *ours == without_parameters(theirs),
                (Ok(ours), Some(_)) => ours.contains("<error: "),
                (Err(_), Some(_)) => true,
                (Err(_), None) => false,
            };
            if !is_right {
                let ours = ours.unwrap_or_else(|error| format!("ERROR {error}"));
                wrong.push(format!("{question}\n  ours: {ours}\n  gdb:  {theirs}"));
            }
        }
        assert!(
            wrong.is_empty(),
            "{} of {} differ:\n{}",
            wrong.len(),
            questions.len(),
            wrong.join("\n")
        );
    }

    /// Compares all visible variables with gdb's.
    #[track_caller]
    pub fn check_locals(&self, but: &[&str]) {
        let call = self.call_site();
        let frame = self.frame_with(&call);
        let scope = self.symbols.scope(&frame);
        let options = FormatOptions { types: false, ..FormatOptions::default() };
        let mut ours: Vec<(String, String)> = (scope.locals().into_iter())
            .map(|variable| (variable.name.to_string(), variable.value.format(&scope, &options)))
            .collect();
        let mut theirs: Vec<(String, String)> = (self.locals.iter())
            .map(|(name, value)| (name.clone(), without_parameters(value)))
            .collect();
        ours.retain(|(name, _)| !but.contains(&name.as_str()));
        theirs.retain(|(name, _)| !but.contains(&name.as_str()));
        ours.sort();
        theirs.sort();
        let missing: Vec<_> = theirs.iter().filter(|own| !ours.contains(own)).collect();
        let extra: Vec<_> = ours.iter().filter(|own| !theirs.contains(own)).collect();
        assert!(missing.is_empty() && extra.is_empty(), "gdb has {missing:#?}\nand not {extra:#?}");
        assert!(!ours.is_empty());
    }
}

/// gdb shows the parameters of C++ functions behind their names.
fn without_parameters(text: &str) -> String {
    let mut result = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(" <") {
        let is_address = rest[..at]
            .rsplit([' ', '{', '(', '='])
            .next()
            .is_some_and(|word| word.starts_with("0x"));
        result.push_str(&rest[..at + 2]);
        rest = &rest[at + 2..];
        if !is_address {
            continue;
        }
        let end = rest.find('>').unwrap_or(rest.len());
        let name = &rest[..end];
        match (name.find('('), name.rfind(')')) {
            (Some(open), Some(close)) if open < close => {
                result.push_str(&name[..open]);
                result.push_str(&name[close + 1..]);
            }
            _ => result.push_str(name),
        }
        rest = &rest[end..];
    }
    result.push_str(rest);
    result
}

fn read_memory(mut bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let mut memory = Vec::new();
    while bytes.len() >= 16 {
        let start = u64::from_le_bytes(bytes[..8].try_into().unwrap());
        let length = u64::from_le_bytes(bytes[8..16].try_into().unwrap()) as usize;
        memory.push((start, bytes[16..16 + length].to_vec()));
        bytes = &bytes[16 + length..];
    }
    memory
}

/// A recording of a process with these mappings.
fn record(scene: &Scene, maps: &[Vec<String>]) -> std::sync::Arc<retro_recording::Recording> {
    let mut paths: Vec<PathBuf> = Vec::new();
    let mut events: Vec<(u64, Event<'static>)> = Vec::new();
    for fields in maps {
        let (start, end): (u64, u64) = (fields[0].parse().unwrap(), fields[1].parse().unwrap());
        let path = PathBuf::from(&fields[4]);
        let prot = ["r", "w", "x"]
            .iter()
            .enumerate()
            .map(|(bit, right)| u32::from(fields[2].contains(right)) << bit);
        let file = if path.is_absolute() && path.exists() {
            let known = paths.iter().position(|own| *own == path).unwrap_or_else(|| {
                paths.push(path.clone());
                paths.len() - 1
            });
            known as u64 + 1
        } else {
            0
        };
        events.push((0, map(start, end - start, prot.sum(), file, fields[3].parse().unwrap())));
    }
    let programs: Vec<Program> = paths.iter().map(|path| Program::at(path)).collect();
    let files = programs
        .iter()
        .enumerate()
        .map(|(number, program)| (0, program.event(number as u64)))
        .collect();
    let code = Chunk { log: 0, stream: Stream::Code, base_time: 0, events: files };
    let main = Chunk { log: 0, stream: Stream::Main, base_time: 0, events };
    let name = format!(
        "recording-{}",
        std::process::id() as usize + fs::read_dir(scene.path("")).unwrap().count()
    );
    scene.record(&name, &[code, main])
}

/// The line of a source with a mark, as a place to stop.
#[track_caller]
pub fn line_of(file: &str, source: &str, mark: &str) -> String {
    let line =
        source.lines().position(|line| line.contains(mark)).expect("the mark is in the source") + 1;
    format!("{file}:{line}")
}
