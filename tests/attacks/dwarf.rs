//! Debug information that leads in circles, or deeper than any program goes.
//!
//! The files of a recording come with it, so that whoever sends one decides what a debugger reads about types, variables and
//! frames. Each of these is a program with debug information written by hand.

use std::fmt::Write;
use std::fs;
use std::time::{Duration, Instant};

use retro_testkit::compare::Ending;

use crate::place::{Place, most_memory, printed, said};

/// Far less than what has no end.
const SOON: Duration = Duration::from_secs(20);

/// What it may take.
const MOST: u64 = 1 << 30;

/// Tags with their attributes and forms, by number, as `.debug_abbrev` has them.
const ABBREVIATIONS: [&[u8]; 17] = [
    &[0x11, 1, 0x03, 0x08, 0x11, 0x01, 0x12, 0x07], // unit: name, low pc, high pc
    &[0x16, 0, 0x03, 0x08, 0x49, 0x13],             // typedef: name, type
    &[0x34, 0, 0x03, 0x08, 0x49, 0x13, 0x02, 0x18], // variable: name, type, location
    &[0x24, 0, 0x03, 0x08, 0x0b, 0x0b, 0x3e, 0x0b], // base type: name, size, encoding
    &[0x13, 1, 0x03, 0x08, 0x0b, 0x06],             // structure: name, size
    &[0x0d, 0, 0x03, 0x08, 0x49, 0x13, 0x38, 0x0b], // member: name, type, place
    &[0x0f, 0, 0x0b, 0x0b, 0x49, 0x13],             // pointer: size, type
    &[0x01, 1, 0x49, 0x13],                         // array: type
    &[0x21, 0, 0x2f, 0x06],                         // its bounds
    &[0x2e, 1, 0x03, 0x08, 0x11, 0x01, 0x12, 0x07, 0x40, 0x18], // function: name, pcs, frame base
    &[0x0b, 1],                                     // block
    &[0x26, 0, 0x49, 0x13],                         // const: type
    &[0x34, 0, 0x31, 0x13, 0x02, 0x18],             // variable: abstract origin, location
    &[0x34, 0, 0x47, 0x13, 0x02, 0x18],             // variable: specification, location
    &[0x3d, 0, 0x18, 0x10],                         // imported unit
    &[0x02, 1, 0x03, 0x08, 0x0b, 0x06],             // class: name, size
    &[0x05, 0, 0x03, 0x08, 0x49, 0x13, 0x02, 0x18], // parameter: name, type, location
];

const TYPEDEF: u8 = 2;
const VARIABLE: u8 = 3;
const STRUCTURE: u8 = 5;
const MEMBER: u8 = 6;
const POINTER: u8 = 7;
const ARRAY: u8 = 8;
const BOUNDS: u8 = 9;
const BLOCK: u8 = 11;
const CONST: u8 = 12;
const WITH_ORIGIN: u8 = 13;
const WITH_SPECIFICATION: u8 = 14;
const IMPORTED: u8 = 15;
const CLASS: u8 = 16;
const PARAMETER: u8 = 17;

/// Where a variable is, if nothing else is said: `DW_OP_addr data`.
const AT_DATA: &str = ".uleb128 9\n.byte 3\n.quad data\n";

/// Entries in the unit, and those in its function.
#[derive(Default)]
struct Entries {
    unit: String,
    function: String,
    /// Of the function.
    frame_base: Option<&'static str>,
}

impl Entries {
    fn typedef(&mut self, label: &str, of: &str) {
        let _ = writeln!(
            self.unit,
            "{label}: .uleb128 {TYPEDEF}\n.string \"{label}\"\n{}",
            reference(of)
        );
    }

    fn variable(&mut self, name: &str, of: &str) {
        self.variable_at(name, of, AT_DATA);
    }

    fn variable_at(&mut self, name: &str, of: &str, location: &str) {
        let _ = writeln!(
            self.unit,
            "v_{name}: .uleb128 {VARIABLE}\n.string \"{name}\"\n{}{location}",
            reference(of)
        );
    }

    fn raw(&mut self, label: &str, text: &str) {
        let _ = writeln!(self.unit, "{label}: {text}");
    }

    /// A program with these.
    fn program(&self) -> String {
        let mut text = String::from(
            ".text\n.globl main\n.type main,@function\nmain: xor %eax,%eax\nret\nmain_end:\n.size main,.-main\n\
             .data\ndata: .quad 1,2,3,4\n.section .note.GNU-stack,\"\",@progbits\n\
             .section .debug_abbrev,\"\",@progbits\nabbreviations:\n",
        );
        for (number, abbreviation) in (1..).zip(ABBREVIATIONS) {
            let bytes: Vec<String> = abbreviation.iter().map(|byte| byte.to_string()).collect();
            let _ = writeln!(text, ".uleb128 {number}\n.byte {},0,0", bytes.join(","));
        }
        let frame_base = self.frame_base.unwrap_or(".uleb128 1\n.byte 0x56\n");
        let _ = writeln!(
            text,
            ".byte 0\n.section .debug_info,\"\",@progbits\ncu: .long cu_end - cu_start\ncu_start: .value 4\n\
             .long abbreviations\n.byte 8\n.uleb128 1\n.string \"hostile.c\"\n.quad main\n.quad main_end - main\n\
             int: .uleb128 4\n.string \"int\"\n.byte 4,5\n\
             .uleb128 {VARIABLE}\n.string \"honest\"\n.long int - cu\n{AT_DATA}{}\
             .uleb128 10\n.string \"main\"\n.quad main\n.quad main_end - main\n{frame_base}{}.byte 0\n\
             .byte 0\ncu_end:",
            self.unit, self.function
        );
        text
    }
}

fn reference(label: &str) -> String {
    format!(".long {label} - cu\n")
}

/// Records a program with hostile debug information and asks about it.
#[track_caller]
fn ask(entries: &Entries, questions: &[&str]) {
    let place = Place::new("dwarf");
    fs::write(place.path().join("hostile.s"), entries.program()).unwrap();
    let built = place.command("gcc").args(["hostile.s", "-o", "hostile"]).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let recorded = place.retro(&["record", "--quiet", "-o", "recording", "--", "./hostile"]);
    assert_eq!(recorded.status, Ending::Exited(0), "{}", said(&recorded));
    let goto = ["goto", "start forward func_enter main", "-r", "recording"];
    assert_eq!(place.retro(&goto).status, Ending::Exited(0), "{}", said(&place.retro(&goto)));
    // What is honest is read and understood, so that the rest is, too.
    let honest = place.retro(&["print", "honest", "--at", "last", "-r", "recording"]);
    assert_eq!(printed(&honest).trim(), "1", "{}", said(&honest));
    let built = most_memory();
    let mut commands: Vec<Vec<&str>> = questions
        .iter()
        .map(|question| vec!["print", question, "--at", "last", "-r", "recording"])
        .collect();
    commands.push(vec!["bt", "--args", "--locals", "--at", "last", "-r", "recording"]);
    commands.push(vec!["calls", "main", "-r", "recording"]);
    commands.push(vec!["source", "--at", "last", "-r", "recording"]);
    for command in commands {
        let begun = Instant::now();
        let outcome = place.retro(&command);
        let said = said(&outcome);
        let is_orderly = matches!(outcome.status, Ending::Exited(0 | 1));
        assert!(
            is_orderly && !said.contains("panicked"),
            "{command:?}: {:?} {said}",
            outcome.status
        );
        assert!(begun.elapsed() < SOON, "{command:?}: {:?}", begun.elapsed());
    }
    assert!(most_memory() <= built.max(MOST), "{} MiB", most_memory() >> 20);
}

#[test]
fn a_type_that_is_itself() {
    let mut entries = Entries::default();
    entries.typedef("self", "self");
    entries.raw("constant", &format!(".uleb128 {CONST}\n{}", reference("constant")));
    entries.raw("pointer", &format!(".uleb128 {POINTER}\n.byte 8\n{}", reference("pointer")));
    entries.variable("a", "self");
    entries.variable("b", "constant");
    entries.variable("c", "pointer");
    ask(&entries, &["a", "b", "c", "*c", "**c", "sizeof(a)", "(self) 1", "&a", "a + b"]);
}

#[test]
fn types_that_are_each_other() {
    let mut entries = Entries::default();
    entries.typedef("one", "two");
    entries.typedef("two", "three");
    entries.raw("three", &format!(".uleb128 {CONST}\n{}", reference("one")));
    entries.variable("a", "one");
    ask(&entries, &["a", "sizeof(one)", "(two) 1", "&a"]);
}

#[test]
fn a_structure_that_has_itself() {
    let mut entries = Entries::default();
    let member = |name: &str, of: &str| {
        format!(".uleb128 {MEMBER}\n.string \"{name}\"\n{}.byte 0\n", reference(of))
    };
    let head = format!(".uleb128 {STRUCTURE}\n.string \"loop\"\n.long 8\n");
    entries
        .raw("loop", &format!("{head}{}{}.byte 0\n", member("one", "loop"), member("two", "loop")));
    entries.variable("a", "loop");
    ask(&entries, &["a", "a.one", "a.one.two.one", "sizeof(a)", "&a.one", "a.nothing"]);
}

#[test]
fn an_array_of_itself() {
    let mut entries = Entries::default();
    let bounds = format!(".uleb128 {BOUNDS}\n.long 0x7fffffff\n");
    entries.raw(
        "array",
        &format!(".uleb128 {ARRAY}\n{}{bounds}{bounds}{bounds}.byte 0\n", reference("array")),
    );
    entries.variable("a", "array");
    ask(&entries, &["a", "a[1]", "a[1][2][3]", "sizeof(a)", "a@100"]);
}

#[test]
fn variables_that_are_each_other() {
    let mut entries = Entries::default();
    for (label, kind, of) in [
        ("first", WITH_ORIGIN, "second"),
        ("second", WITH_SPECIFICATION, "first"),
        ("third", WITH_ORIGIN, "third"),
    ] {
        entries.raw(label, &format!(".uleb128 {kind}\n{}{AT_DATA}", reference(of)));
        let _ = writeln!(entries.function, ".uleb128 {kind}\n{}{AT_DATA}", reference(of));
    }
    ask(&entries, &["first", "nothing"]);
}

#[test]
fn a_unit_that_imports_itself() {
    let mut entries = Entries::default();
    entries.raw("import", &format!(".uleb128 {IMPORTED}\n.long cu_start + 7 - cu\n"));
    entries.variable("a", "int");
    ask(&entries, &["a", "nothing"]);
}

/// Programs for where variables are that never end, or call themselves.
#[test]
fn locations_without_an_end() {
    let mut entries = Entries::default();
    for (name, location) in [
        // skip -3
        ("a", ".uleb128 3\n.byte 0x2f\n.value -3\n".to_owned()),
        // lit1, branch -4 if that is not 0
        ("b", ".uleb128 4\n.byte 0x31,0x28\n.value -4\n".to_owned()),
        // dup, over and over
        ("c", ".uleb128 5\n.byte 0x31,0x12,0x2f\n.value -4\n".to_owned()),
        // call this very entry
        ("d", ".uleb128 5\n.byte 0x99\n.long v_d - cu\n".to_owned()),
        // the value at entry of the value at entry of ...
        ("e", format!(".uleb128 60\n{}.byte 0x55\n.zero 1\n", ".byte 0xa3,1\n".repeat(29))),
        // a piece of 2^60 bytes
        (
            "f",
            ".uleb128 10\n.byte 0x50,0x93\n.uleb128 0x1000000000000000-1\n.zero 0\n.byte 0x96\n"
                .replace(".uleb128 10", ".uleb128 12"),
        ),
        // implicit value longer than there is
        ("g", ".uleb128 4\n.byte 0x9e,0xff,0x7f,0x01\n".to_owned()),
    ] {
        entries.variable_at(name, "int", &location);
    }
    ask(&entries, &["a", "b", "c", "d", "e", "f", "g", "&a", "&d"]);
}

/// A frame base that is told by the frame base.
#[test]
fn a_frame_base_that_needs_itself() {
    let mut entries =
        Entries { frame_base: Some(".uleb128 2\n.byte 0x91,0\n"), ..Entries::default() };
    let variable = format!(
        ".uleb128 {VARIABLE}\n.string \"a\"\n{}.uleb128 2\n.byte 0x91,0\n",
        reference("int")
    );
    entries.function.push_str(&variable);
    ask(&entries, &["a", "&a"]);
}

/// Entries within entries, deeper than a stack is.
#[test]
fn blocks_within_blocks() {
    let mut entries = Entries::default();
    const DEPTH: usize = 200_000;
    let _ = writeln!(entries.function, ".rept {DEPTH}\n.uleb128 {BLOCK}\n.endr");
    let _ = writeln!(
        entries.function,
        ".uleb128 {VARIABLE}\n.string \"deep\"\n{}{AT_DATA}.rept {DEPTH}\n.byte 0\n.endr",
        reference("int")
    );
    entries.variable("a", "int");
    ask(&entries, &["a", "deep"]);
}

/// Types of types of types, longer than a stack is.
#[test]
fn a_chain_of_types() {
    let mut entries = Entries::default();
    const LENGTH: usize = 200_000;
    // Each is the type of the entry five bytes before it.
    let _ = writeln!(
        entries.unit,
        "first: .uleb128 {CONST}\n{}.rept {LENGTH}\n.uleb128 {CONST}\n.long . - cu - 6\n.endr\n\
         last: .uleb128 {CONST}\n.long . - cu - 6",
        reference("int")
    );
    entries.variable("a", "last");
    ask(&entries, &["a", "sizeof(a)", "&a"]);
}

/// Structures in structures, by value.
#[test]
fn structures_within_structures() {
    let mut entries = Entries::default();
    const DEPTH: usize = 20_000;
    let mut text = String::new();
    for level in 0..DEPTH {
        let inner = if level == 0 { "int".to_owned() } else { format!("s{}", level - 1) };
        let _ = writeln!(
            text,
            "s{level}: .uleb128 {STRUCTURE}\n.string \"s\"\n.long 8\n.uleb128 {MEMBER}\n.string \"m\"\n{}.byte 0\n.byte 0",
            reference(&inner)
        );
    }
    entries.unit.push_str(&text);
    entries.variable("a", &format!("s{}", DEPTH - 1));
    ask(&entries, &["a", "a.m.m.m", "sizeof(a)"]);
}

/// Expressions are the user's own, but come from pages and other programs too.
/// How an object is passed depends on its parts, and those of its parts: there are 40^8 ways through these.
#[test]
fn classes_that_have_all_others() {
    const COUNT: usize = 40;
    let mut entries = Entries::default();
    for class in 0..COUNT {
        let mut text = format!(".uleb128 {CLASS}\n.string \"c{class}\"\n.long 8\n");
        for member in 0..COUNT {
            let name = format!(".uleb128 {MEMBER}\n.string \"m{member}\"\n");
            text += &format!("{name}{}.byte 0\n", reference(&format!("c{member}")));
        }
        entries.raw(&format!("c{class}"), &format!("{text}.byte 0"));
    }
    entries.variable("object", "c0");
    entries.function =
        format!(".uleb128 {PARAMETER}\n.string \"given\"\n{}{AT_DATA}", reference("c1"));
    ask(&entries, &["sizeof(object)", "&object", "given"]);
}

#[test]
fn expressions_within_expressions() {
    let mut entries = Entries::default();
    entries.variable("a", "int");
    let deep = "(".repeat(50_000) + "a" + &")".repeat(50_000);
    let stars = "*".repeat(50_000) + "a";
    let nots = "!".repeat(100_000) + "a";
    let sums = "a".to_owned() + &"+a".repeat(50_000);
    let casts = "(int)".repeat(20_000) + "a";
    ask(&entries, &[&deep, &stars, &nots, &sums, &casts]);
}
