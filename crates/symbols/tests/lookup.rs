//! Functions and lines by name, compared with where gdb would stop.

mod scene;

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use retro_symbols::{FunctionCode, LineRange, Symbols};
use scene::{Program, Scene};

const BASE: u64 = 0x1000_0000;

const C_SOURCE: &str = include_str!("gdb/stepped.c");

const CPP_SOURCE: &str = "\
#include <cstdio>
namespace shape {
struct circle {
    int radius;
    int area() const;
    int area(int scale) const { return scale * area(); }
};
int circle::area() const {
    return 3 * radius * radius;
}
template <typename T> __attribute__((noinline)) T largest(T a, T b) {
    return a > b ? a : b;
}
}
namespace {
__attribute__((noinline)) int hidden(int x) {
    return x + 2;
}
}
int main(int argc, char **argv) {
    shape::circle circle = { argc };
    auto twice = [](int x) { return x * 2; };
    printf(\"%d\\n\", circle.area(2) + twice(argc));
    return shape::largest(argc, hidden(argc)) + (int)shape::largest(1.5, (double)argc);
}
";

const RUST_SOURCE: &str = "\
mod geometry {
    pub struct Point { pub x: i32 }
    impl Point {
        #[inline(never)]
        pub fn moved(&self, by: i32) -> Point {
            Point { x: self.x + by }
        }
    }
    impl std::fmt::Display for Point {
        fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
            write!(f, \"{}\", self.x)
        }
    }
}
#[inline(never)]
fn largest<T: PartialOrd>(a: T, b: T) -> T {
    if a > b { a } else { b }
}
fn main() {
    let count = std::env::args().count() as i32;
    let point = geometry::Point { x: count }.moved(2);
    println!(\"{point} {} {}\", largest(count, 3), largest(1.5, count as f64));
}
";

fn symbols(scene: &Scene, program: &Program) -> Symbols {
    let name = scene.fresh_name();
    Symbols::new(scene.record_mapped(&name, program, BASE))
}

/// Where gdb sets a breakpoint, each place as the file has it.
fn breakpoints(program: &Program, place: &str) -> BTreeSet<u64> {
    let output = Command::new("gdb")
        .args(["-q", "-nx", "-batch", "-ex", "set debuginfod enabled off"])
        .args(["-ex", &format!("break {place}"), "-ex", "info breakpoints"])
        .arg(&program.path)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let table = text.split("What").nth(1).unwrap_or_else(|| panic!("gdb: {output:?}"));
    let addresses = table.split_whitespace().filter(|word| word.starts_with("0x0"));
    addresses.map(|word| u64::from_str_radix(&word[2..], 16).unwrap()).collect()
}

fn bodies(found: &[FunctionCode]) -> BTreeSet<u64> {
    found.iter().map(|function| function.body - BASE).collect()
}

fn names(found: &[FunctionCode]) -> BTreeSet<&str> {
    found.iter().map(|function| &*function.name).collect()
}

#[test]
fn functions_begin_where_gdb_stops() {
    let scene = Scene::new();
    for options in [
        &["-g", "-O0"][..],
        &["-g", "-O0", "-gdwarf-4", "-fcf-protection"],
        &["-g", "-O0", "-fstack-protector-all"],
        &["-g", "-O2"],
        &["-g", "-Og", "-fno-omit-frame-pointer"],
        &["-O0"],
        &["-O2"],
    ] {
        let program = scene.compile("stepped.c", C_SOURCE, options);
        let symbols = symbols(&scene, &program);
        let functions = ["main", "leaf", "recursive", "variadic", "with_room", "many", "handler"];
        for name in functions {
            let found = symbols.functions_named(0, 0, name);
            assert_eq!(bodies(&found), breakpoints(&program, name), "{name} {options:?}");
            assert_eq!(names(&found), BTreeSet::from([name]));
            assert!(found[0].ranges.iter().any(|range| range.contains(&found[0].entry)));
            assert_eq!(found[0].entry - BASE, program.symbol(name));
        }
    }
}

#[test]
fn inlined_functions_are_found_at_each_place() {
    let scene = Scene::new();
    for options in [&["-g", "-O2"][..], &["-g", "-O1", "-gdwarf-4"]] {
        let program = scene.compile("stepped.c", C_SOURCE, options);
        let symbols = symbols(&scene, &program);
        let found = symbols.functions_named(0, 0, "inner");
        let callers: BTreeSet<&str> =
            found.iter().filter_map(|function| function.inlined_in.as_deref()).collect();
        assert!(callers.is_superset(&BTreeSet::from(["recursive", "with_room", "handler"])));
        for function in &found {
            assert_eq!(&*function.name, "inner");
            let machine = function.ranges.iter().any(|range| range.contains(&function.entry));
            assert!(machine, "{function:?}");
            assert!(function.source.is_some(), "{function:?}");
        }
    }
}

#[test]
fn lines_have_code_where_gdb_stops() {
    let scene = Scene::new();
    for options in [&["-g", "-O0"][..], &["-g", "-O0", "-gdwarf-4"], &["-g", "-O2"]] {
        let program = scene.compile("stepped.c", C_SOURCE, options);
        let symbols = symbols(&scene, &program);
        let mut exact = 0;
        for line in 1..=C_SOURCE.lines().count() as u32 - 1 {
            let found = symbols.code_of_line(0, 0, "stepped.c", line);
            let first: BTreeSet<u64> = found.iter().map(|code| code.entries[0] - BASE).collect();
            let expected = breakpoints(&program, &format!("stepped.c:{line}"));
            let is_exact = found.iter().all(|code| code.is_exact && code.source.line == line);
            exact += u32::from(is_exact);
            // On the line that a function begins with, gdb moves on to its body.
            let begins =
                C_SOURCE.lines().nth(line as usize - 1).unwrap().ends_with(") {") || !is_exact;
            if begins {
                continue;
            }
            // Of several places in one function gdb takes the lowest, and so few that all of them are among ours.
            assert!(
                expected.is_subset(&first) || options.contains(&"-O2"),
                "{line}: {first:x?} {expected:x?}"
            );
            let all: BTreeSet<u64> =
                found.iter().flat_map(|code| &code.entries).map(|entry| entry - BASE).collect();
            assert!(expected.is_subset(&all), "{line} {options:?}: {all:x?} {expected:x?}");
        }
        assert!(exact > 30, "{exact}");
        assert!(symbols.code_of_line(0, 0, "stepped.c", 10_000).is_empty());
        assert!(symbols.code_of_line(0, 0, "tepped.c", 1).is_empty());
        let name = program.path.with_extension("c");
        let name = fs::canonicalize(name).unwrap();
        let line = symbols.code_of_line(0, 0, name.to_str().unwrap(), 1);
        assert!(!line.is_empty() && !line[0].is_exact && line[0].source.line > 1);
    }
}

#[test]
fn a_line_reaches_as_far_as_its_rows() {
    let scene = Scene::new();
    let program = scene.compile("stepped.c", C_SOURCE, &["-g", "-O2"]);
    let symbols = symbols(&scene, &program);
    for function in symbols.functions_named(0, 0, "with_room") {
        for address in function.ranges[0].clone() {
            let source = symbols.source_of(0, 0, address);
            let Some(line) = symbols.line_ranges_around(0, 0, address) else { continue };
            assert!(line.range.contains(&address));
            assert_eq!(Some(line.source.line), source.map(|source| source.line));
            // All of it says the same, and what is beside it does not.
            for other in [line.range.start, line.range.end - 1] {
                let other = symbols.line_ranges_around(0, 0, other).unwrap();
                let of = |line: &LineRange| (line.range.clone(), line.source.line);
                assert_eq!(of(&other), of(&line));
            }
            let beside = symbols.line_ranges_around(0, 0, line.range.end);
            let is_other = beside.is_none_or(|beside| {
                beside.source.line != line.source.line || beside.range.start == line.range.end
            });
            assert!(is_other);
        }
    }
}

#[test]
fn names_of_cpp_are_found_with_and_without_what_is_around_them() {
    let scene = Scene::new();
    for options in [&["-g", "-O0"][..], &["-g", "-O0", "-gdwarf-4"], &["-O0"]] {
        let program = scene.compile("names.cpp", CPP_SOURCE, options);
        let symbols = symbols(&scene, &program);
        for (typed, expected) in [
            ("area", &["shape::circle::area"][..]),
            ("circle::area", &["shape::circle::area"]),
            ("shape::circle::area(int) const", &["shape::circle::area"]),
            ("largest", &["shape::largest<int>", "shape::largest<double>"]),
            ("largest<int>", &["shape::largest<int>"]),
            ("hidden", &["(anonymous namespace)::hidden"]),
            ("main", &["main"]),
            ("square::area", &[]),
            ("lar*", &["shape::largest<int>", "shape::largest<double>"]),
        ] {
            let found = symbols.functions_named(0, 0, typed);
            assert_eq!(names(&found), expected.iter().copied().collect(), "{typed} {options:?}");
        }
        assert_eq!(symbols.functions_named(0, 0, "area").len(), 2);
        assert_eq!(symbols.functions_named(0, 0, "area(int) const").len(), 1);
        let body = bodies(&symbols.functions_named(0, 0, "shape::circle::area(int) const"));
        assert_eq!(body, breakpoints(&program, "shape::circle::area(int) const"));
        let symbol = symbols.symbol_named(0, 0, "_ZNK5shape6circle4areaEv");
        assert!(symbol.is_empty() || symbol[0].is_code);
        assert!(
            symbols.symbol_named(0, 0, "shape::circle::area").iter().all(|found| found.is_code)
        );
    }
}

#[test]
fn names_of_rust_are_found_with_and_without_what_is_around_them() {
    let scene = Scene::new();
    for (options, moved) in [
        (&["-g"][..], "names::geometry::Point::moved"),
        (&["-g", "-Csymbol-mangling-version=v0"], "<names::geometry::Point>::moved"),
    ] {
        let program = scene.compile("names.rs", RUST_SOURCE, options);
        let symbols = symbols(&scene, &program);
        for (typed, expected) in [
            ("geometry::Point::moved", &[moved][..]),
            ("moved", &[moved]),
            ("names::main", &["names::main"]),
        ] {
            let found = symbols.functions_named(0, 0, typed);
            assert_eq!(names(&found), expected.iter().copied().collect(), "{typed} {options:?}");
        }
        assert_eq!(symbols.functions_named(0, 0, "names::largest").len(), 2);
        let found = symbols.functions_named(0, 0, "geometry::Point::fmt");
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].source.as_ref().unwrap().line, 11);
        let body = bodies(&symbols.functions_named(0, 0, "names::geometry::Point::moved"));
        assert_eq!(body, breakpoints(&program, "names::geometry::Point::moved"));
    }
}

#[test]
fn symbols_are_found_without_debug_information() {
    let scene = Scene::new();
    let program = scene.compile("stepped.c", C_SOURCE, &["-O1"]);
    let symbols = symbols(&scene, &program);
    let sink = symbols.symbol_named(0, 0, "sink");
    assert_eq!(sink.len(), 1);
    assert_eq!((sink[0].address - BASE, sink[0].size), (program.symbol("sink"), 4));
    assert!(!sink[0].is_code);
    assert!(symbols.symbol_named(0, 0, "leaf")[0].is_code);
    assert!(symbols.symbol_named(0, 0, "nothing").is_empty());
}

/// What is found for a name, whoever asks first.
fn found(symbols: &Symbols, name: &str) -> Vec<(String, u64, Option<String>)> {
    let functions = symbols.functions_named(0, 0, name).into_iter();
    functions
        .map(|function| {
            let inlined_in = function.inlined_in.map(|name| name.to_string());
            (function.name.to_string(), function.entry, inlined_in)
        })
        .collect()
}

/// The first names are looked for in the units that mention them, later ones in the list of all.
#[track_caller]
fn check_first_names(scene: &Scene, program: &Program, names: &[&str]) {
    let all = symbols(scene, program);
    for _ in 0..8 {
        assert_eq!(found(&all, "nobody"), []);
    }
    for name in names {
        let first = found(&symbols(scene, program), name);
        assert!(!first.is_empty(), "{name}");
        assert_eq!(first, found(&all, name), "{name}");
    }
}

#[test]
fn the_first_names_are_found_as_well_as_later_ones() {
    let scene = Scene::new();
    let cpp = ["main", "area", "circle::area", "largest", "largest<int>", "hidden", "operator()"];
    for options in [
        &["-g", "-O2"][..],
        &["-g", "-O2", "-gdwarf-4"],
        &["-g", "-O0", "-gdwarf64"],
        &["-g", "-O2", "-flto"],
        &["-g", "-O1", "-fdebug-types-section"],
        &["-g", "-O1", "-gsplit-dwarf"],
        &["-g", "-O0", "-Wl,-O2"],
    ] {
        let program = scene.compile("first.cpp", CPP_SOURCE, options);
        check_first_names(&scene, &program, &cpp);
    }
    // Entries that complete those of another unit.
    fs::write(scene.path("far.c"), "int near_one(int); int far_one(int x) { return near_one(x); }")
        .unwrap();
    let near = "int near_one(int x) { static int kept; return kept += x; }
        int far_one(int); int main(int argc, char **argv) { return far_one(argc) + near_one(1); }";
    for options in [&["-g", "-O2", "-flto", "far.c"][..], &["-g", "-O2", "far.c"]] {
        let program = scene.compile("near.c", near, options);
        check_first_names(&scene, &program, &["main", "near_one", "far_one"]);
    }
    let rust = ["main", "moved", "Point::moved", "largest", "fmt"];
    for options in [
        &["-g"][..],
        &["-g", "-Cdwarf-version=5"],
        &["-g", "-Copt-level=2", "-Ccodegen-units=8", "-Cdwarf-version=5"],
        &["-g", "-Copt-level=2", "-Clto=thin"],
    ] {
        let program = scene.compile("first.rs", RUST_SOURCE, options);
        check_first_names(&scene, &program, &rust);
    }
}
