//! Addresses of compiled programs by name.

mod scene;

use std::fs;

use retro_abi::channel::{Origin, Stream};
use retro_abi::log::{Event, MapKind};
use retro_symbols::{FileState, Symbols};
use scene::{Chunk, Program, Scene, map, unmap};

const BASE: u64 = 0x1000_0000;

const SOURCE: &str = "\
#include <stdio.h>
int zeroes[64];
int numbers[4] = { 1, 2, 3, 4 };
static __attribute__((noinline)) int twice(int x) {
    return x * 2 + numbers[x & 3];
}
int main(int argc, char **argv) {
    puts(argv[0]);
    return twice(argc) + zeroes[argc];
}
";

#[track_caller]
fn check(scene: &Scene, program: &Program, base: u64, address: u64, expected: &str) {
    let name = format!("run-{address:x}-{}", fs::read_dir(scene.path(".")).unwrap().count());
    let recording = scene.record_mapped(&name, program, base);
    let place = Symbols::new(recording.clone()).place(0, 5, base + address);
    assert_eq!(place.to_string(), expected, "{place:?}");
}

#[test]
fn debug_information_gives_lines() {
    let scene = Scene::new();
    for (options, base) in [
        (&["-g", "-O0"][..], BASE),
        (&["-g", "-O0", "-gdwarf-4"], BASE),
        (&["-g", "-O0", "-gz=zlib"], BASE),
        (&["-g", "-O0", "-no-pie"], 0),
        (&["-g", "-O0", "-fuse-ld=bfd", "-Wl,-z,noseparate-code"], BASE),
    ] {
        let program = scene.compile("hello.c", SOURCE, options);
        let main = program.symbol("main");
        check(&scene, &program, base, main, "main (hello.c:7)");
        check(&scene, &program, base, main + 1, "main+0x1 (hello.c:7)");
        check(&scene, &program, base, program.symbol("twice"), "twice (hello.c:4)");
    }
    let program = scene.compile("hello.c", SOURCE, &["-g"]);
    let recording = scene.record_mapped("path", &program, BASE);
    let place = Symbols::new(recording.clone()).place(0, 0, BASE + program.symbol("main"));
    let source = place.source.unwrap();
    assert_eq!(*source.path, *fs::canonicalize(scene.path("hello.c")).unwrap().to_str().unwrap());
    assert_eq!(source.line, 7);
    assert_eq!(place.module.unwrap().state, FileState::Same);
}

#[test]
fn symbol_tables_give_functions_and_variables() {
    let scene = Scene::new();
    let program = scene.compile("plain.c", SOURCE, &["-O1"]);
    check(&scene, &program, BASE, program.symbol("main") + 2, "main+0x2 (plain)");
    check(&scene, &program, BASE, program.symbol("numbers") + 4, "numbers+0x4 (plain)");
    // Behind what the file holds, in memory that begins as zeroes.
    check(&scene, &program, BASE, program.symbol("zeroes") + 8, "zeroes+0x8 (plain)");
    check(&scene, &program, BASE, 0x40, "plain+0x40");
    check(&scene, &program, BASE, 0x100_0000, "0x11000000");
}

#[test]
fn a_stripped_program_has_only_what_it_shares() {
    let scene = Scene::new();
    let program = scene.compile("stripped.c", SOURCE, &["-O1", "-shared", "-fPIC"]);
    let (main, twice) = (program.symbol("main"), program.symbol("twice"));
    scene.run(&["strip", "stripped"]);
    let program = Program::at(&program.path);
    check(&scene, &program, BASE, main, "main (stripped)");
    check(&scene, &program, BASE, twice, &format!("stripped+{twice:#x}"));
}

#[test]
fn stubs_are_called_after_their_functions() {
    let scene = Scene::new();
    for option in ["-Wl,-z,now", "-Wl,-z,lazy", "-fcf-protection=none", "-fno-plt"] {
        let program = scene.compile("stubs.c", SOURCE, &["-O1", option]);
        let recording = scene.record_mapped(option.trim_start_matches("-Wl,"), &program, BASE);
        let symbols = Symbols::new(recording.clone());
        let names: Vec<String> = (0..0x2000)
            .map(|offset| symbols.place(0, 0, BASE + offset).to_string())
            .filter(|text| text.starts_with("puts@plt"))
            .collect();
        assert_eq!(!names.is_empty(), option != "-fno-plt", "{option}");
        // Behind the jump is what binds the function at its first call.
        if option == "-Wl,-z,lazy" {
            assert_eq!(names.first().unwrap(), "puts@plt (stubs)");
            assert_eq!(names.last().unwrap(), "puts@plt+0xf (stubs)");
        }
    }
}

#[test]
fn separate_debug_information_is_found() {
    let scene = Scene::new();
    let program = scene.compile("split.c", SOURCE, &["-g", "-O0", "-Wl,--build-id=none"]);
    let twice = program.symbol("twice");
    scene.run(&["objcopy", "--only-keep-debug", "split", "split.debug"]);
    scene.run(&["strip", "--strip-all", "split"]);
    scene.run(&["objcopy", "--add-gnu-debuglink=split.debug", "split"]);
    let program = Program::at(&program.path);
    check(&scene, &program, BASE, twice, "twice (split.c:4)");
    // Another file of that name is not taken.
    fs::write(scene.path("split.debug"), "something else").unwrap();
    check(&scene, &program, BASE, twice, &format!("split+{twice:#x}"));
}

#[test]
fn names_of_other_languages_are_readable() {
    let scene = Scene::new();
    let source = "namespace shape { struct circle { double r; double area() const; }; }
        double shape::circle::area() const { return r * r * 3; }
        int main() { return shape::circle{1}.area(); }";
    let program = scene.compile("area.cpp", source, &["-O0"]);
    let area = program.symbol("_ZNK5shape6circle4areaEv");
    check(&scene, &program, BASE, area, "shape::circle::area (area)");
}

#[test]
fn a_file_that_changed_gives_no_names() {
    let scene = Scene::new();
    let program = scene.compile("changing.c", SOURCE, &["-O1", "-Wl,--build-id"]);
    let main = program.symbol("main");
    let recording = scene.record_mapped("before", &program, BASE);
    let changed =
        scene.compile("changing.c", &SOURCE.replace("x * 2", "x * 3"), &["-O1", "-Wl,--build-id"]);
    assert_ne!(program.build_id, changed.build_id);
    let offset = Symbols::new(recording.clone()).place(0, 0, BASE + main).to_string();
    assert_eq!(offset, format!("changing (changed since)+{main:#x}"));

    // Without a build id, size and time decide.
    let program = scene.compile("changing.c", SOURCE, &["-O1", "-Wl,--build-id=none"]);
    assert!(program.build_id.is_empty());
    let recording = scene.record_mapped("by-time", &program, BASE);
    assert_eq!(
        Symbols::new(recording.clone()).place(0, 0, BASE + main).to_string(),
        "main (changing)"
    );
    scene.run(&["touch", "-d", "2001-01-01", "changing"]);
    let place = Symbols::new(recording.clone()).place(0, 0, BASE + main);
    assert_eq!(place.to_string(), format!("changing (changed since)+{main:#x}"));
    fs::remove_file(&program.path).unwrap();
    let place = Symbols::new(recording.clone()).place(0, 0, BASE + main);
    assert_eq!(place.to_string(), format!("changing+{main:#x}"));
    assert_eq!(place.module.unwrap().state, FileState::Missing);
}

#[test]
fn an_unpacked_recording_brings_its_files() {
    let scene = Scene::new();
    let program = scene.compile("packed.c", SOURCE, &["-g", "-O0"]);
    let recording = scene.record_mapped("to-pack", &program, BASE);
    retro_recording::pack::pack(&recording, &scene.path("it.retro")).unwrap();
    let main = program.symbol("main");
    fs::remove_file(&program.path).unwrap();
    assert_eq!(
        Symbols::new(recording.clone()).place(0, 0, BASE + main).to_string(),
        format!("packed+{main:#x}")
    );
    retro_recording::pack::unpack(&scene.path("it.retro"), &scene.path("unpacked")).unwrap();
    let recording = retro_recording::Recording::open(&scene.path("unpacked")).unwrap();
    assert_eq!(Symbols::new(recording).place(0, 0, BASE + main).to_string(), "main (packed.c:7)");
}

#[test]
fn mappings_come_and_go() {
    let scene = Scene::new();
    for name in ["first", "second"] {
        fs::write(scene.path(name), [b'x'; 0x3000]).unwrap();
    }
    let (first, second) = (Program::at(&scene.path("first")), Program::at(&scene.path("second")));
    let moved = Event::Map {
        kind: MapKind::Move,
        start: 0x90000,
        len: 0x1000,
        prot: 1,
        flags: 0,
        file: 0,
        offset: 0x12000,
    };
    let chunks = [
        Chunk {
            log: 0,
            stream: Stream::Code,
            base_time: 0,
            events: vec![(0, first.event(0)), (50, second.event(1))],
        },
        Chunk {
            log: 0,
            stream: Stream::Main,
            base_time: 0,
            events: vec![
                (10, map(0x10000, 0x3000, 1, 1, 0)),
                (20, map(0x11000, 0x1000, 1, 2, 0x2000)),
                (30, unmap(0x10000, 0x1000)),
            ],
        },
        Chunk {
            log: 0,
            stream: Stream::Main,
            base_time: 30,
            events: vec![
                (40, map(0x90000, 0x1000, 1, 0, 0)),
                (40, moved),
                (40, unmap(0x12000, 0x1000)),
                (60, map(0x10000, 0x10000, 1, 0, 0)),
            ],
        },
    ];
    let recording = scene.record("maps", &chunks);
    let expected = [
        (9, 0x10800, "0x10800"),
        (10, 0x10800, "first+0x800"),
        (10, 0x11800, "first+0x1800"),
        (19, 0x11800, "first+0x1800"),
        (20, 0x11800, "second+0x2800"),
        (29, 0x10800, "first+0x800"),
        (30, 0x10800, "0x10800"),
        (30, 0x12800, "first+0x2800"),
        (40, 0x12800, "0x12800"),
        (40, 0x90800, "first+0x2800"),
        (59, 0x11800, "second+0x2800"),
        (60, 0x11800, "0x11800"),
        (u64::MAX, 0x90800, "first+0x2800"),
    ];
    let symbols = Symbols::new(recording.clone());
    for (time, address, text) in expected {
        assert_eq!(symbols.place(0, time, address).to_string(), text, "at {time}");
    }
    // The order of questions does not matter, nor what was asked before.
    for (time, address, text) in expected.into_iter().rev().chain(expected) {
        assert_eq!(symbols.place(0, time, address).to_string(), text, "at {time}, again");
    }
    assert_eq!(symbols.place(7, 0, 0x10800).to_string(), "0x10800");
}

#[test]
fn a_forked_process_has_what_its_parent_had() {
    let scene = Scene::new();
    for name in ["one", "two", "three"] {
        fs::write(scene.path(name), [b'x'; 0x1000]).unwrap();
    }
    let files = ["one", "two", "three"].map(|name| Program::at(&scene.path(name)));
    let start = Event::Start {
        pid: 7,
        parent: 6,
        origin: Origin::Fork as u8,
        seconds: 0,
        nanoseconds: 0,
        path: b"",
        arguments: b"",
        environment: b"",
        directory: b"",
    };
    let main = |log, events| Chunk { log, stream: Stream::Main, base_time: 0, events };
    let code = |log, events| Chunk { log, stream: Stream::Code, base_time: 0, events };
    let chunks = [
        code(0, vec![(0, files[0].event(0)), (0, files[1].event(1))]),
        main(0, vec![(10, map(0x10000, 0x1000, 1, 1, 0)), (20, map(0x10000, 0x1000, 1, 2, 0))]),
        code(1, vec![(0, Event::Inherit { log: 0, time: 15 }), (5, files[2].event(0))]),
        main(
            1,
            vec![
                (0, start),
                (0, map(0x10000, 0x1000, 1, 0, 0)),
                (0, Event::Interval { number: 0, running: 7, threads: 1 }),
                (5, map(0x20000, 0x1000, 1, 1, 0)),
                (8, map(0x10000, 0x1000, 1, 0, 0)),
            ],
        ),
        code(2, vec![(0, Event::Inherit { log: 1, time: 6 })]),
        main(2, vec![(0, start), (0, Event::Interval { number: 0, running: 8, threads: 1 })]),
        // Nobody inherits from the future, or from themselves.
        code(3, vec![(0, Event::Inherit { log: 3, time: 6 })]),
    ];
    let recording = scene.record("forks", &chunks);
    let symbols = Symbols::new(recording.clone());
    for (log, time, address, text) in [
        (2, 0, 0x10000, "one+0x0"),
        (2, 0, 0x20000, "three+0x0"),
        (1, 7, 0x10000, "one+0x0"),
        (1, 8, 0x10000, "0x10000"),
        (1, 4, 0x20000, "0x20000"),
        (0, 20, 0x10000, "two+0x0"),
        (3, 0, 0x10000, "0x10000"),
    ] {
        assert_eq!(symbols.place(log, time, address).to_string(), text, "log {log} at {time}");
    }
}
