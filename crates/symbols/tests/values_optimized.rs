//! Values of optimized programs: registers, pieces, values at the entry, inlined functions, what is gone.

mod scene;
mod values_inferior;

use std::collections::HashMap;

use retro_symbols::{Contents, FormatOptions, FrameContext, Machine, UnknownEntry, VariableKind};
use scene::Scene;
use values_inferior::{Inferior, Moment, line_of};

const SOURCE: &str = r#"
#include <stdio.h>
#include <stdlib.h>
struct pair { long a, b; };
struct mixed { double d; int i; };
struct large { long words[5]; };
volatile int sink;
__attribute__((noipa)) void touch(const void *p) { sink += p != 0; }
__attribute__((noipa)) long leaf(long x, double f) { sink += (int)f; return x * 3; /* LEAF */ }
static inline __attribute__((always_inline)) long squared(long value) {
    long result = value * value; sink += 1; /* INLINED */ 
    return result + leaf(value, 1.5);
}
__attribute__((noipa)) long work(long first, int second, double third, struct pair pair, const char *text) {
    long doubled = first * 2; struct pair copy = { pair.a + 1, pair.b + 1 }; int constant = 5; long gone = first + 77;
    long total = squared(doubled) + copy.a;
    for (int i = 0; i < second; i++) { total += leaf(i, third); sink += i; /* LOOP */ }
    touch(text); return total + copy.b + constant;
}
__attribute__((noipa)) long many(int a, char b, float c, struct mixed d, struct large e, long double f, long *g, short h, int i, int j, double k) {
    return a + b + c + d.i + e.words[4] + f + *g + h + i + j + k;
}
__attribute__((noipa)) struct large returned(int x, double y) { struct large result = { { x, y } }; return result; }
int main(int argc, char **argv) {
    struct pair pair = { argc + 10, argc + 20 }; struct mixed mixed = { 2.5, 7 }; struct large large = { { 1, 2, 3, 4, 5 } }; long g = 8;
    long answer = work(argc + 1, 3, 2.25, pair, "text") + many(1, 'b', 3.5f, mixed, large, 4.25L, &g, -5, 6, 7, 8.5);
    struct large back = returned(argc, 1.0);
    printf("%ld %ld\n", answer, back.words[0]); return 0;
}
"#;

fn optimized(options: &[&str], place: &str, up: usize, questions: &[&str]) -> (Scene, Inferior) {
    let scene = Scene::new();
    let program = scene.compile("values.c", SOURCE, &[&["-w"], options].concat());
    let place =
        if place.starts_with('*') { place.to_string() } else { line_of("values.c", SOURCE, place) };
    let inferior = Inferior::stop(&scene, &program.path, &place, up, questions);
    (scene, inferior)
}

const WORK: &[&str] = &[
    "first",
    "second",
    "third",
    "pair",
    "text",
    "doubled",
    "copy",
    "constant",
    "gone",
    "total",
    "i",
    "sink",
    "pair.a",
    "copy.b",
    "first + second",
    "&sink",
    "argc",
    "sizeof(pair)",
    "doubled == first * 2",
];

#[test]
fn loops() {
    for options in [
        &["-g", "-O2"][..],
        &["-g", "-O1", "-gdwarf-4"],
        &["-g", "-O2", "-gsplit-dwarf"],
        &["-g", "-Og"],
    ] {
        let (_scene, inferior) = optimized(options, "LOOP", 0, WORK);
        inferior.check(WORK);
        inferior.check_locals(&[]);
    }
}

#[test]
fn callers() {
    for options in [&["-g", "-O2"][..], &["-g", "-O2", "-gdwarf-4"], &["-g", "-O1"]] {
        let (_scene, inferior) = optimized(options, "*touch", 1, WORK);
        inferior.check_locals(&[]);
        inferior.check(WORK);
    }
}

/// The values that gdb finds through the caller are found through the caller.
#[test]
fn values_at_the_entry_come_from_the_call() {
    let scene = Scene::new();
    let source = r#"
        volatile int sink;
        __attribute__((noipa)) void other(void) { sink++; /* STOP */ }
        __attribute__((noipa)) int callee(int used_up, long kept) { sink += used_up + kept; other(); return sink; }
        int main(int argc, char **argv) { return callee(1234, argc + 5L) + argc; }
    "#;
    let program = scene.compile("entry.c", source, &["-g", "-O2", "-fno-omit-frame-pointer"]);
    let place = line_of("entry.c", source, "STOP");
    // gdb itself falls back on the caller, too.
    let inferior = Inferior::stop(&scene, &program.path, &place, 1, &["used_up"]);
    let frame = inferior.frame();
    let lost = inferior.symbols.evaluate(&frame, "used_up").unwrap();
    assert!(matches!(lost.contents, Contents::OptimizedOut));
    assert_eq!(inferior.print("used_up").unwrap(), "1234");
    assert_eq!(inferior.answers, ["1234"]);
}

#[test]
fn inlined_functions_have_their_own_variables() {
    let (_scene, inferior) = optimized(&["-g", "-O2"], "LEAF", 1, &[]);
    let own = inferior.frame();
    let names: Vec<String> =
        inferior.symbols.locals(&own).iter().map(|v| v.name.to_string()).collect();
    assert_eq!(names, ["result", "value"]);
    assert_eq!(inferior.print("value").unwrap(), "4");
    assert_eq!(inferior.print("result").unwrap(), "16");
    let outer = FrameContext { level: Some(1), ..inferior.frame() };
    let names: Vec<String> =
        inferior.symbols.locals(&outer).iter().map(|v| v.name.to_string()).collect();
    assert!(
        names.contains(&"first".to_string()) && !names.contains(&"value".to_string()),
        "{names:?}"
    );
    let all = FrameContext { level: None, ..inferior.frame() };
    let names: Vec<String> =
        inferior.symbols.locals(&all).iter().map(|v| v.name.to_string()).collect();
    assert!(
        names.contains(&"first".to_string()) && names.contains(&"value".to_string()),
        "{names:?}"
    );
}

/// Whatever the optimization, arguments are there in the first instruction.
#[test]
fn arguments_at_the_entry() {
    for options in [&["-g", "-O0"][..], &["-g", "-O2"], &["-g", "-O0", "-gdwarf-4"]] {
        let (_scene, inferior) = optimized(options, "*many", 0, &[]);
        let frame = inferior.frame();
        let scope = inferior.symbols.scope(&frame);
        let arguments: HashMap<String, String> = (inferior.symbols.arguments(&frame).into_iter())
            .inspect(|argument| assert_eq!(argument.kind, VariableKind::Parameter))
            .map(|argument| {
                (
                    argument.name.to_string(),
                    argument.value.format(&scope, &FormatOptions::default()),
                )
            })
            .collect();
        for (name, value) in [
            ("a", "1"),
            ("b", "98 'b'"),
            ("c", "3.5"),
            ("d", "{d = 2.5, i = 7}"),
            ("e", "{words = {1, 2, 3, 4, 5}}"),
            ("f", "4.25"),
            ("h", "-5"),
            ("i", "6"),
            ("j", "7"),
            ("k", "8.5"),
        ] {
            assert_eq!(arguments[name], value, "{name} with {options:?}");
        }
        assert!(arguments["g"].starts_with("(long *) 0x"));
        let (_scene, inferior) = optimized(options, "*returned", 0, &[]);
        let frame = inferior.frame();
        let scope = inferior.symbols.scope(&frame);
        let arguments = inferior.symbols.arguments(&frame);
        let shown: Vec<String> = arguments
            .iter()
            .map(|argument| argument.value.format(&scope, &FormatOptions::default()))
            .collect();
        assert_eq!(shown, ["1", "1"], "{options:?}");
    }
}

#[test]
fn variables_of_threads_are_found_in_libraries() {
    let scene = Scene::new();
    let library = "__thread int filler[9]; __thread int in_library = 31; int *where(void) { return &in_library; }";
    std::fs::write(scene.path("library.c"), library).unwrap();
    scene.run(&["gcc", "-g", "-O0", "-shared", "-fPIC", "library.c", "-o", "liblibrary.so"]);
    let source = "extern __thread int in_library; int *where(void); _Thread_local int own = 5;
        int main(void) { int *p = where(); *p += 1; own += 2;
        return own; /* STOP */ }";
    let directory = scene.path("").to_string_lossy().into_owned();
    let search = format!("-Wl,-rpath,{directory}");
    let program = scene.compile(
        "threads.c",
        source,
        &["-g", "-O0", &format!("-L{directory}"), "-llibrary", &search],
    );
    let place = line_of("threads.c", source, "STOP");
    let inferior = Inferior::stop(&scene, &program.path, &place, 0, &[]);
    assert_eq!(inferior.print("in_library").unwrap(), "32");
    assert_eq!(inferior.print("&in_library == p").unwrap(), "1");
    assert_eq!(inferior.print("filler[8]").unwrap(), "0");
    assert_eq!(inferior.print("own").unwrap(), "7");
    // Without the thread pointer there is an error that says so.
    let blind = Moment { fs_base: None, ..inferior.moment.clone() };
    let frame =
        FrameContext { machine: &blind as &dyn Machine, entry: &UnknownEntry, ..inferior.frame() };
    let error = inferior.symbols.evaluate(&frame, "in_library").unwrap_err();
    assert!(error.to_string().contains("thread pointer"), "{error}");
}

#[test]
fn memory_ranges() {
    let (_scene, inferior) = optimized(&["-g", "-O0"], "LOOP", 0, &["&copy", "&sink"]);
    let frame = inferior.frame();
    let scope = inferior.symbols.scope(&frame);
    let range = |text: &str| retro_symbols::Expression::parse(text).unwrap().memory_range(&scope);
    let address = |answer: &str| {
        let digits = answer.split("0x").nth(1).unwrap().split(' ').next().unwrap();
        u64::from_str_radix(digits, 16).unwrap()
    };
    let copy = address(&inferior.answers[0]);
    assert_eq!(range("copy").unwrap(), (copy, 16));
    assert_eq!(range("copy.b").unwrap(), (copy + 8, 8));
    assert_eq!(range("sink").unwrap(), (address(&inferior.answers[1]), 4));
    assert!(range("first + 1").unwrap_err().to_string().contains("not in memory"));
    assert_eq!(range("*(char*)&copy@3").unwrap(), (copy, 3));
}

/// Pointers to what is in no memory show what they point to.
#[test]
fn pointers_to_registers() {
    let scene = Scene::new();
    let source = r#"
        struct pair { long a, b; };
        volatile long sink;
        __attribute__((noipa)) long leaf(long x) { sink += x; return x; /* STOP */ }
        static inline __attribute__((always_inline)) long use(struct pair *pointer, long *number, unsigned char *low) {
            return leaf(1) + pointer->a + pointer->b * 3 + *number;
        }
        __attribute__((noipa)) long work(long a, long b) {
            struct pair local = { a * 7, b * 5 }; long single = a + b;
            long result = use(&local, &single, (unsigned char *) &single);
            return result + leaf(local.a) + leaf(local.b) + leaf(single);
        }
        int main(int argc, char **argv) { return work(argc, argc + 1) == 0; }
    "#;
    let program = scene.compile("synthetic.c", source, &["-g", "-O2", "-fno-ipa-sra"]);
    let place = line_of("synthetic.c", source, "STOP");
    let inferior = Inferior::stop(&scene, &program.path, &place, 1, &[]);
    for (question, answer) in [
        ("pointer", "(struct pair *) <synthetic pointer>"),
        ("*pointer", "{a = 7, b = 10}"),
        ("pointer->a", "7"),
        ("pointer->b + 1", "11"),
        ("*number", "3"),
        // The type is the pointer's, not the variable's.
        ("*low", "3 '\\003'"),
    ] {
        assert_eq!(inferior.print(question).unwrap(), answer, "{question}");
    }
}

/// What a program only declares may be defined in a library.
#[test]
fn declarations_are_completed_by_libraries() {
    let scene = Scene::new();
    let library = "struct opaque { int inside; const char *name; };
        static struct opaque object = { 12, \"object\" }; struct opaque *get(void) { return &object; }";
    let library = scene.compile("libopaque.c", library, &["-g", "-O0", "-shared", "-fPIC"]).path;
    let source = "typedef struct opaque handle; handle *get(void);
        int main(void) { handle *pointer = get();
        return pointer == 0; /* STOP */ }";
    let program = scene.compile("main.c", source, &["-g", "-O0", library.to_str().unwrap()]);
    let place = line_of("main.c", source, "STOP");
    let questions = ["*pointer", "pointer->inside", "pointer->name"];
    let inferior = Inferior::stop(&scene, &program.path, &place, 0, &questions);
    inferior.check(&questions);
}

/// What one file only declares is shown as the file that defines it says.
#[test]
fn declarations_are_completed() {
    let scene = Scene::new();
    let other = "struct opaque { int inside; const char *name; }; enum late { EARLY, LATE };
        struct opaque object = { 12, \"object\" }; struct opaque *get(void) { return &object; }";
    std::fs::write(scene.path("other.c"), other).unwrap();
    let source = "struct opaque; struct opaque *get(void); extern struct opaque object;
        int main(void) { struct opaque *pointer = get();
        return pointer == 0; /* STOP */ }";
    for options in [&["-g", "-O0"][..], &["-g", "-O0", "-gdwarf-4", "-fdebug-types-section"]] {
        let program = scene.compile("main.c", source, &[&["other.c"], options].concat());
        let place = line_of("main.c", source, "STOP");
        let questions = [
            "*pointer",
            "pointer->inside",
            "pointer",
            "object",
            "sizeof(struct opaque)",
            "LATE",
            "(enum late) 0",
        ];
        let inferior = Inferior::stop(&scene, &program.path, &place, 0, &questions);
        inferior.check(&questions);
    }
}
