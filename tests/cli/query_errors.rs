//! Questions that make no sense: a clear line, status 1, and nothing worse.

use retro_testkit::compare::Ending;

use crate::query::crash;
use crate::store::Store;
use crate::text;

#[test]
fn what_is_not_known_is_told_by_its_name() {
    for (question, hint) in [
        (&["print", "nonsense"][..], "no variable `nonsense`"),
        (&["last-write", "nonsense"], "no variable `nonsense`"),
        (&["history", "nonsense"], "no variable `nonsense`"),
        (&["x", "nonsense"], "no variable `nonsense`"),
        (&["print", "(struct nonsense *)0"], "struct nonsense"),
        (&["print", "pair.nonsense"], "no member `nonsense`"),
        (&["print", "$nonsense"], "no register"),
        (&["calls", "nonsense"], "no function `nonsense`"),
        (&["calls", ""], "no function"),
        (&["executions", "nonsense"], "no function `nonsense`"),
        (&["executions", "nonsense.c:1"], "nonsense.c:1"),
        (&["executions", "crash.c:100000"], "crash.c:100000"),
        (&["syscalls", "--name", "nonsense"], "no system call `nonsense`"),
        (&["bt", "--thread", "424242"], "no thread 424242"),
        (&["print", "1", "--thread", "424242"], "no thread 424242"),
        (&["regs", "--thread", "424242"], "no thread 424242"),
        (&["step", "--thread", "424242"], "no thread 424242"),
        (&["print", "1", "--frame", "1000"], "no frame 1000"),
        (&["source", "--frame", "1000"], "no frame 1000"),
        (&["regs", "--frame", "1000"], "no frame 1000"),
        (&["maps", "--process", "424242424"], "no log or process 424242424"),
        (&["goto", "start func_enter nonsense"], "nonsense"),
    ] {
        let complaint = crash().complaint(question);
        assert!(complaint.contains(hint), "{question:?}: {complaint}");
    }
}

#[test]
fn what_is_no_expression_is_pointed_at() {
    for expression in
        ["1 +", "(", "a b c", "pair..name", "*", ")", "'", "\"", "0xzz", "a[", "1 ? 2"]
    {
        for command in ["print", "last-write", "history", "x"] {
            let complaint = crash().complaint(&[command, "--", expression]);
            assert!(complaint.contains('^'), "{command} {expression}: {complaint}");
        }
    }
    let deep = "(".repeat(20_000);
    for command in ["print", "last-write", "history", "x", "goto"] {
        crash().complaint(&[command, &deep]);
    }
}

#[test]
fn times_that_there_are_not() {
    for command in [
        &["print", "1"][..],
        &["last-write", "total"],
        &["history", "total"],
        &["calls", "add"],
        &["executions", "add"],
        &["bt"],
        &["regs"],
        &["x", "$rsp"],
        &["maps"],
        &["threads"],
        &["syscalls"],
        &["signals"],
        &["source"],
        &["step"],
        &["goto", "now"],
    ] {
        let late = [command, &["--at", "900G"]].concat();
        let complaint = crash().complaint(&late);
        assert!(complaint.contains("there is no time 900000000000"), "{late:?}: {complaint}");
        let outcome = crash().store.retro([command, &["--at", "yesterday"]].concat());
        assert_eq!(outcome.status, Ending::Exited(2), "{command:?}");
        assert!(text(&outcome.stderr).contains("expected a number of instructions"), "{outcome:?}");
    }
    let complaint = crash().complaint(&["history", "total", "--since", "end", "--at", "start"]);
    assert!(
        complaint.contains("--since is behind --at") || complaint.contains("no variable"),
        "{complaint}"
    );
}

#[test]
fn addresses_in_the_middle_of_nowhere() {
    for question in [
        &["x", "0x123456789a0"][..],
        &["x", "0"],
        &["x", "/s", "0xffffffffffffffff"],
        &["x", "0xffffffffff600000"],
        &["x", "/999999999xg", "$rsp"],
        &["x", "/4x2", "$rsp"],
        &["x", "/8xg"],
        &["print", "/q", "1"],
        &["print", "/x"],
        &["print", "*(int *)0"],
        &["print", "*(int *)0x123456789a0"],
        &["last-write", "0x123456789a0,8"],
        &["last-write", "0xffffffffffffffff,8"],
        &["last-write", "total,0"],
        &["last-write", "1 + 1"],
        &["history", "total,0"],
    ] {
        crash().complaint(question);
    }
    for question in [
        &["history", "0x123456789a0,8"][..],
        &["executions", "0x123456789a0"],
        &["calls", "0x123456789a0"],
    ] {
        let outcome = crash().store.retro(question);
        assert_eq!(
            (outcome.status, outcome.stdout.is_empty()),
            (Ending::Exited(0), true),
            "{question:?}"
        );
        assert!(!outcome.stderr.is_empty(), "{question:?}");
    }
}

#[test]
fn without_a_recording_there_is_nothing_to_ask() {
    let store = Store::new("query-none");
    for question in
        [&["bt"][..], &["bt", "-r", "nonsense"], &["print", "1", "--recording", "/dev/null"]]
    {
        let outcome = store.retro(question);
        assert_eq!(outcome.status, Ending::Exited(1), "{question:?}");
        assert!(text(&outcome.stderr).starts_with("retro: "), "{outcome:?}");
    }
}

const COMMANDS: [&str; 15] = [
    "last-write",
    "history",
    "calls",
    "executions",
    "print",
    "bt",
    "regs",
    "x",
    "maps",
    "threads",
    "syscalls",
    "signals",
    "source",
    "goto",
    "step",
];

#[test]
fn every_command_has_examples() {
    for command in COMMANDS {
        let help = crash().store.output([command, "--help"]);
        assert!(help.contains(&format!("Examples:\n  retro {command}")), "{help}");
        assert!(help.contains("--at <TIME>") && help.contains("--json"), "{help}");
    }
}

#[test]
fn completions_and_the_manual_have_every_command() {
    let script = crash().store.output(["completions", "bash"]);
    let manual = crash().store.output(["man"]).replace('\\', "");
    for command in COMMANDS {
        assert!(script.contains(&format!("retro,{command})")), "{command}");
        assert!(manual.contains(&format!("RETRO {}", command.to_uppercase())), "{command}");
    }
}
