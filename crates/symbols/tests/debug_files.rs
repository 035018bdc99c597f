//! Debug information in all the places that compilers and distributions put it.

mod scene;

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use retro_symbols::{Machine, Symbols};
use scene::{Program, Scene};

const BASE: u64 = 0x1000_0000;

const SOURCE: &str = include_str!("gdb/stepped.c");

/// A thread that is at an address, and nothing else.
struct At(u64);

impl Machine for At {
    fn register(&self, number: u16) -> Option<u64> {
        (number == 16).then_some(self.0)
    }

    fn vector(&self, _: u16) -> Option<[u8; 16]> {
        None
    }

    fn fs_base(&self) -> Option<u64> {
        None
    }

    fn read(&self, _: u64, _: &mut [u8]) -> bool {
        false
    }
}

fn symbols(scene: &Scene, program: &Program) -> Symbols {
    let name = scene.fresh_name();
    Symbols::new(scene.record_mapped(&name, program, BASE))
}

/// Everything that needs entries of units, and not only line tables.
#[track_caller]
fn check(scene: &Scene, program: &Program) {
    let symbols = symbols(scene, program);
    let found = symbols.functions_named(0, 0, "innermost");
    let callers: BTreeSet<&str> =
        found.iter().filter_map(|function| function.inlined_in.as_deref()).collect();
    assert!(
        callers.is_superset(&BTreeSet::from(["recursive", "with_room", "handler"])),
        "{callers:?}"
    );
    let within = found.iter().find(|found| found.inlined_in.as_deref() == Some("handler")).unwrap();
    let stack = symbols.unwind(0, 0, &At(within.entry), 100);
    let names: Vec<&str> =
        stack.frames.iter().map(|frame| frame.function.as_deref().unwrap_or("-")).collect();
    assert_eq!(names, ["innermost", "inner", "handler"]);
    let lines: Vec<String> =
        stack.frames.iter().map(|frame| frame.source.as_ref().unwrap().to_string()).collect();
    assert_eq!(lines[1..], ["stepped.c:18", "stepped.c:67"]);
    let code = symbols.code_of_line(0, 0, "stepped.c", 24);
    assert_eq!(code[0].function.as_deref(), Some("leaf"));
    assert!(code[0].is_exact);
}

/// Without entries of units, to see that the other checks depend on them.
#[track_caller]
fn check_nothing_is_inlined(scene: &Scene, program: &Program) {
    assert!(symbols(scene, program).functions_named(0, 0, "innermost").is_empty());
}

#[test]
fn every_version_is_read() {
    let scene = Scene::new();
    for options in [
        &["-gdwarf-3", "-gstrict-dwarf"][..],
        &["-gdwarf-4"],
        &["-gdwarf-5"],
        &["-gdwarf-4", "-fdebug-types-section"],
        &["-gdwarf-5", "-fdebug-types-section"],
        &["-g", "-gz=zlib"],
        &["-g", "-flto"],
        &["-g", "-ffunction-sections", "-freorder-blocks-and-partition"],
    ] {
        let options = [&["-O2"], options].concat();
        eprintln!("{options:?}");
        check(&scene, &scene.compile("stepped.c", SOURCE, &options));
    }
}

#[test]
fn split_units_are_found_where_they_were_compiled_and_beside_the_program() {
    let scene = Scene::new();
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        let options = ["-O2", "-g", version, "-gsplit-dwarf", "-c", "-o", "part.o"];
        fs::write(scene.path("stepped.c"), SOURCE).unwrap();
        scene.run(&[&["gcc", "stepped.c"], &options[..]].concat());
        scene.run(&["gcc", "part.o", "-o", "split"]);
        let program = Program::at(&scene.path("split"));
        check(&scene, &program);
        // Somewhere else: no longer where it was compiled, but beside the program.
        let away = scene.path("away");
        let _ = fs::create_dir(&away);
        fs::copy(&program.path, away.join("split")).unwrap();
        fs::rename(scene.path("part.dwo"), away.join("part.dwo")).unwrap();
        check_nothing_is_inlined(&scene, &program);
        check(&scene, &Program::at(&away.join("split")));
        // A file of another compilation does not count.
        fs::write(scene.path("stepped.c"), format!("int other;\n{SOURCE}")).unwrap();
        scene.run(&[&["gcc", "stepped.c"], &options[..]].concat());
        check_nothing_is_inlined(&scene, &program);
        fs::remove_file(scene.path("part.dwo")).unwrap();
    }
}

#[test]
fn split_units_are_found_in_packages() {
    let scene = Scene::new();
    let options = ["-O2", "-g", "-gdwarf-4", "-gsplit-dwarf", "-fdebug-types-section"];
    fs::write(scene.path("stepped.c"), SOURCE).unwrap();
    scene.run(&[&["gcc", "stepped.c", "-c", "-o", "part.o"], &options[..]].concat());
    scene.run(&["gcc", "part.o", "-o", "packed"]);
    scene.run(&["dwp", "-e", "packed", "-o", "packed.dwp"]);
    fs::remove_file(scene.path("part.dwo")).unwrap();
    let program = Program::at(&scene.path("packed"));
    check(&scene, &program);
    fs::remove_file(scene.path("packed.dwp")).unwrap();
    check_nothing_is_inlined(&scene, &program);
}

/// The packages of DWARF 5 are others, and only Rust's compiler makes them everywhere.
#[test]
fn split_units_of_rust_are_found_in_packages() {
    let scene = Scene::new();
    let source = "#[inline(always)] fn within(x: usize) -> usize { std::hint::black_box(x) * 3 }
        #[inline(never)] fn around(x: usize) -> usize { within(x) + 1 }
        fn main() { std::process::exit(around(std::env::args().count()) as i32) }";
    for version in ["-Cdwarf-version=4", "-Cdwarf-version=5"] {
        let options = ["-g", "-O", version, "-Csplit-debuginfo=packed"];
        let program = scene.compile("packed.rs", source, &options);
        let found = symbols(&scene, &program).functions_named(0, 0, "packed::within");
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].inlined_in.as_deref(), Some("packed::around"));
        fs::remove_file(scene.path("packed.dwp")).unwrap();
        assert!(symbols(&scene, &program).functions_named(0, 0, "packed::within").is_empty());
    }
}

#[test]
fn stripped_programs_are_found_by_their_link() {
    let scene = Scene::new();
    let program = scene.compile("stepped.c", SOURCE, &["-O2", "-g"]);
    scene.run(&["objcopy", "--only-keep-debug", "stepped", "stepped.debug"]);
    scene.run(&["objcopy", "--strip-all", "--add-gnu-debuglink=stepped.debug", "stepped"]);
    let program = Program::at(&program.path);
    check(&scene, &program);
    fs::create_dir(scene.path(".debug")).unwrap();
    fs::rename(scene.path("stepped.debug"), scene.path(".debug/stepped.debug")).unwrap();
    check(&scene, &program);
    fs::remove_file(scene.path(".debug/stepped.debug")).unwrap();
    check_nothing_is_inlined(&scene, &program);
}

#[test]
fn debug_information_that_is_shared_is_followed() {
    let scene = Scene::new();
    if Command::new("dwz").arg("--version").output().is_err() {
        eprintln!("dwz is not there: shared debug information is not tried");
        return;
    }
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        fs::write(scene.path("stepped.c"), SOURCE).unwrap();
        scene.run(&["gcc", "-O2", "-g", version, "stepped.c", "-o", "first"]);
        scene.run(&["gcc", "-O2", "-g", version, "-DOTHER", "stepped.c", "-o", "second"]);
        scene.run(&["dwz", "-m", "shared", "first", "second"]);
        check(&scene, &Program::at(&scene.path("first")));
        check(&scene, &Program::at(&scene.path("second")));
        // What is common to both is in the shared file alone.
        fs::rename(scene.path("shared"), scene.path("gone")).unwrap();
        let symbols = symbols(&scene, &Program::at(&scene.path("first")));
        let found = symbols.functions_named(0, 0, "innermost");
        assert!(found.iter().all(|found| found.inlined_in.is_none()), "{found:?}");
    }
}
