//! Every type of event, with answers that are known from the source.

use retro_query::language::Value;
use retro_query::{FoundEvent, Goto, Moment, Writer};

use crate::scene::{Scene, change, integer};

#[test]
fn moments() {
    let scene = Scene::new("moments", &["-O0"]);
    let end = scene.end();
    let time = |query: &str, now, last| match scene.goto_from(query, now, last).unwrap() {
        Goto::Moment(moment) => moment,
        _ => panic!("{query} is no search"),
    };
    let at = |time| Moment { log: scene.log, time };
    assert_eq!(time("goto start", 17, None), at(0));
    assert_eq!(time("goto end", 17, None), at(end));
    assert_eq!(time("goto now", 17, None), at(17));
    assert_eq!(time("goto last", 17, Some(99)), at(99));
    assert_eq!(time("goto 1,234", 17, None), at(1_234));
    assert_eq!(time("goto 50%", 17, None), at(end / 2));
    assert!(scene.goto_from("goto last", 17, None).is_err());
    assert!(scene.goto_from(&format!("goto {}", end + 1), 17, None).is_err());
}

#[test]
fn functions_are_entered_and_left() {
    let scene = Scene::new("functions", &["-O0"]);
    assert_eq!(scene.times("func_enter a", "").len(), 10);
    assert_eq!(scene.times("func_enter b", "").len(), 11);
    assert_eq!(scene.times("func_enter fib", "").len(), 67);
    assert_eq!(scene.times("func_exit fib", "").len(), 67);
    assert_eq!(scene.times("func_exit b", "").len(), 11);
    let entry = scene.function("fib").entry;
    assert_eq!(scene.times(&format!("func_enter {entry:#x}"), "").len(), 67);
    assert_eq!(scene.times(&format!("func_exit {entry:#x}"), "").len(), 67);

    let first = scene.found("goto start func_enter fib");
    assert_eq!((first.pc, &first.event), (entry, &FoundEvent::FunctionEnter));
    // The outermost call returns last.
    let last = scene.found("goto end func_exit fib");
    assert_eq!(last.event, FoundEvent::FunctionExit { result: integer(21) });
    let results: Vec<_> = scene
        .all("goto start func_exit change all")
        .into_iter()
        .map(|found| match found.event {
            FoundEvent::FunctionExit { result } => result,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(results, [integer(150), integer(-50), integer(30)]);
    let halved = scene.found("goto end func_exit halve").event;
    assert_eq!(halved, FoundEvent::FunctionExit { result: Some(Value::Float(1.5)) });
}

#[test]
fn wildcards_stand_for_several_functions() {
    let scene = Scene::new("wildcards", &["-O0"]);
    let b = scene.times("func_enter b", "");
    let bump = scene.times("func_enter bump", "");
    let mut both = [b, bump].concat();
    both.sort_unstable();
    let own: Vec<u64> = scene
        .all("goto start func_enter b* all where src = scene.c")
        .iter()
        .map(|found| found.time)
        .collect();
    assert_eq!(own, both);
    assert_eq!(scene.times("func_exit fi?", "where src = scene.c").len(), 67);
}

#[test]
fn inlined_functions_are_entered() {
    let scene = Scene::new("inlined", &["-O1", "-fno-inline-functions-called-once"]);
    assert!(scene.functions("twice").iter().any(|function| function.inlined_in.is_some()));
    let entered = scene.found("goto end func_enter twice");
    assert!(scene.find("goto end func_enter twice where stack = <**, main, twice>").is_some());
    assert_eq!(scene.times("func_enter twice", ""), [entered.time]);
    let Err(error) = scene.goto("goto end func_exit twice") else { panic!("it never returns") };
    assert!(error.to_string().contains("inlined"), "{error}");
}

#[test]
fn lines_begin() {
    let scene = Scene::new("lines", &["-O0"]);
    let line = |mark| format!("line scene.c:{}", scene.line(mark));
    assert_eq!(scene.times(&line("add"), "").len(), 11);
    assert_eq!(scene.times(&line("fib-leaf"), "").len(), 34);
    assert_eq!(scene.times(&line("fib-sum"), "").len(), 33);
    assert_eq!(scene.times(&line("bump"), "").len(), 10);
    let (first, last) = (scene.line("fib-leaf"), scene.line("fib-sum"));
    assert_eq!(scene.times(&format!("line scene.c:{first}-{last}"), "").len(), 67);
    // All lines of the file, found by what was executed, have those of one line among them.
    let all = scene.times("line scene.c", "");
    for time in scene.times(&line("change"), "") {
        assert!(all.contains(&time));
    }
    let found = scene.found(&format!("goto end {}", line("add")));
    assert_eq!(found.event, FoundEvent::Line);
    // Without an operand every line counts: back from one to the one before.
    let Goto::Found(Some(before)) =
        scene.goto_from("goto backward line", found.time, None).unwrap()
    else {
        panic!("there are lines before");
    };
    let place = scene.run.symbols().place(scene.log, before.time, before.pc);
    assert_eq!(place.source.unwrap().line as usize, scene.line("add") - 1);
}

#[test]
fn stores_have_old_and_new_values() {
    let scene = Scene::new("stores", &["-O0"]);
    let values = |what: &str| -> Vec<_> {
        scene
            .all(&format!("goto start store {what} all where src = scene.c"))
            .iter()
            .map(change)
            .collect()
    };
    let expected: Vec<_> = [0, 1, 3, 6, 10, 15, 21, 28, 36, 45, 145]
        .windows(2)
        .map(|pair| (integer(pair[0]), integer(pair[1])))
        .chain([(integer(145), integer(290))])
        .collect();
    assert_eq!(values("counter")[1..], expected);
    assert_eq!(
        values("account.balance"),
        [(integer(100), integer(150)), (integer(150), integer(-50))]
    );
    assert_eq!(values("account.flags"), [(integer(0), integer(200))]);
    // Fields of bits share their bytes: a store to one of them is a store to the other's byte.
    assert_eq!(values("account.kind").last(), Some(&(integer(5), integer(5))));
    assert!(values("account.kind").contains(&(integer(0), integer(5))));
    assert_eq!(values("account.delta").last(), Some(&(integer(0), integer(-3))));
    let float = |value| Some(Value::Float(value));
    assert_eq!(values("account.rate"), [(float(0.5), float(1.5)), (float(1.5), float(-2.5))]);
    // Memory without a type is a number without sign.
    let (address, _) = scene.address_of("account.balance");
    let last = scene.found(&format!("goto end store {address:#x},4"));
    assert_eq!(change(&last), (integer(150), integer(0xffff_ffce)));
    let last = scene.found(&format!("goto end store {address:#x},1"));
    assert_eq!(change(&last), (integer(150), integer(0xce)));
}

#[test]
fn what_was_never_written_is_zero() {
    let scene = Scene::new("zeroes", &["-O0"]);
    // Behind what the file has of them, variables begin as zeroes, even if the file goes on with something else.
    assert_eq!(change(&scene.found("goto start store counter")), (integer(0), integer(0)));
    assert_eq!(change(&scene.found("goto start store other.balance")), (integer(0), integer(30)));
}

#[test]
fn the_kernel_stores_too() {
    let scene = Scene::new("kernel", &["-O0"]);
    let read = scene.found("goto end syscall read");
    let stored = scene.found("goto end store text");
    assert_eq!(stored.time, read.time);
    let FoundEvent::Store { memory, new, by, .. } = stored.event else { panic!("a store") };
    assert_eq!((new.get(..5), by), (Some(&b"hello"[..]), Writer::Kernel));
    assert_eq!(memory.start, scene.address_of("text").0);
}

#[test]
fn system_calls_have_arguments_and_results() {
    let scene = Scene::new("syscalls", &["-O0"]);
    let FoundEvent::Syscall { number, args, result } = scene.found("goto end syscall close").event
    else {
        panic!("a system call");
    };
    assert_eq!((number, args[0] as u32, result), (3, u32::MAX, Some(-9)));
    let failed = scene.all("goto start syscall all where result < 0");
    assert!(
        failed.iter().any(|found| matches!(found.event, FoundEvent::Syscall { number: 3, .. }))
    );
    for found in &failed {
        assert!(matches!(found.event, FoundEvent::Syscall { result: Some(..0), .. }));
    }
    let written = scene.found("goto end syscall write where arg2 = 5 and result = 5");
    assert!(scene.found("goto end syscall read where result = 5").time > written.time);
    assert_eq!(scene.find("goto end syscall write where result = 6"), None);
    // The moment is that of the instruction, which is in the C library.
    let state = scene.run.state(Moment { log: scene.log, time: written.time }).unwrap();
    assert_eq!(state.pc().unwrap(), written.pc);
    assert_eq!(state.read(written.pc, 2).unwrap(), [0x0f, 0x05]);
    let all = scene.times("syscall", "");
    assert!(all.len() > scene.times("syscall m*", "").len());
    assert!(scene.times("syscall m*", "").len() > scene.times("syscall mprotect", "").len());
}

#[test]
fn signals_mappings_and_threads() {
    let scene = Scene::new("signals", &["-O0"]);
    let handler = scene.function("on_signal").entry;
    let signal = scene.found("goto end signal USR1");
    assert_eq!(signal.event, FoundEvent::Signal { number: 10, synchronous: false, handler });
    let entered = scene.found("goto end func_enter on_signal where arg0 = 10");
    assert_eq!(entered.time, signal.time, "a handler is entered when the signal arrives");
    assert_eq!(scene.times("signal", ""), [signal.time]);
    assert_eq!(scene.times("signal SEGV", ""), []);

    let libc = scene.found("goto end map libc.so*");
    let FoundEvent::Map(change) = &libc.event else { panic!("a mapping") };
    let mapped = scene.run.maps(Moment { log: scene.log, time: libc.time + 1 }).unwrap();
    let at = mapped.iter().find(|mapping| mapping.start == change.start).unwrap();
    assert!(at.file.as_ref().unwrap().to_string_lossy().contains("libc.so"));
    let start = change.start;
    assert!(scene.times(&format!("map {start:#x},1"), "").contains(&libc.time));
    assert!(scene.times("map", "").len() > scene.times("map libc.so*", "").len());

    let begun = scene.all("goto start thread_start all");
    assert_eq!(begun.len(), 2, "the first thread is there from the start");
    let ended = scene.times("thread_end", "");
    assert!(ended.len() >= 2);
    for thread in begun {
        assert_eq!(thread.event, FoundEvent::ThreadStart);
        let number = thread.thread;
        let first = scene.found(&format!("goto start instruction where thread = {number}"));
        assert!(first.time >= thread.time);
        let end = scene.found(&format!("goto start thread_end where thread = {number}"));
        assert!(end.time > first.time);
    }
}

#[test]
fn loads() {
    for reads in [false, true] {
        let scene = Scene::indexed(&format!("loads-{reads}"), &["-O0"], reads);
        let (address, len) = scene.address_of("shared");
        let everything = scene.everything();
        let mut expected: Vec<u64> = everything
            .accesses
            .iter()
            .filter(|at| !at.writes && at.address < address + len && address < at.address + at.len)
            .map(|access| access.time)
            .collect();
        expected.dedup();
        assert!(expected.len() >= 10);
        assert_eq!(scene.times("load shared", ""), expected);
    }
}
