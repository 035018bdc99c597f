//! `--stats`: what was counted is right where it can be known, and plausible elsewhere.

use std::fs;
use std::process::Command;

use retro_testkit::compare::{Ending, run};
use retro_testkit::programs::scratch::Scratch;
use serde_json::Value;

use crate::{MODES, TIMEOUT, bash, retro, text};

/// Runs a command with `--stats=json` and returns the counters.
fn counters(command: &[&str]) -> Value {
    let outcome = retro(["run", "--stats=json", "--"].iter().chain(command));
    let stderr = text(&outcome.stderr);
    let line = stderr.lines().last().unwrap_or_default();
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {stderr}"))
}

fn number(counters: &Value, name: &str) -> u64 {
    counters[name].as_u64().unwrap_or_else(|| panic!("no {name} in {counters}"))
}

#[test]
fn every_instruction_is_counted_once() {
    let scratch = Scratch::new("count");
    let source = "
        .globl _start
        _start: mov $1000000, %ecx
        again:  push %rcx
                call leaf
                pop %rcx
                dec %ecx
                jnz again
                xor %edi, %edi
                mov $231, %eax
                syscall
        leaf:   ret
    ";
    fs::write(scratch.path().join("count.s"), source).unwrap();
    let mut assembler = Command::new("cc");
    assembler.current_dir(scratch.path());
    assembler.args(["-nostdlib", "-static", "-o", "count", "count.s"]);
    let assembled = run(&mut assembler, TIMEOUT);
    assert_eq!(assembled.status, Ending::Exited(0), "{}", text(&assembled.stderr));

    let counters = counters(&[scratch.path().join("count").to_str().unwrap()]);
    assert_eq!(number(&counters, "guest_instructions"), 6_000_004);
    assert_eq!(number(&counters, "calls"), 1_000_000);
    assert_eq!(number(&counters, "returns"), 1_000_000);
    assert_eq!(number(&counters, "memory_writes"), 2_000_000);
    assert_eq!(number(&counters, "memory_reads"), 2_000_000);
    assert_eq!(number(&counters, "syscalls"), 1);
    assert_eq!(number(&counters, "processes"), 1);
}

#[test]
fn a_small_program_has_plausible_numbers() {
    let counters = counters(&["/bin/true"]);
    let instructions = number(&counters, "guest_instructions");
    assert!((10_000..10_000_000).contains(&instructions), "{counters}");
    assert!(number(&counters, "memory_reads") < instructions, "{counters}");
    assert!(number(&counters, "memory_writes") < instructions, "{counters}");
    assert!(number(&counters, "syscalls") > 10, "{counters}");
    assert_eq!(number(&counters, "processes"), 1);
    assert_eq!(number(&counters, "threads"), 1);
    let translated = number(&counters, "instructions_translated");
    assert!(translated > 1000 && translated < instructions, "{counters}");
    assert!(number(&counters, "blocks_translated") < translated, "{counters}");
    assert!(number(&counters, "cache_bytes") > translated, "{counters}");
    assert!(number(&counters, "elapsed_nanoseconds") < 60_000_000_000, "{counters}");
    assert!(
        number(&counters, "translator_nanoseconds") < number(&counters, "elapsed_nanoseconds"),
        "{counters}"
    );
}

#[test]
fn the_whole_tree_is_counted() {
    let one = counters(&["bash", "-c", "/bin/true"]);
    let many = counters(&["bash", "-c", "for i in 1 2 3 4 5; do /bin/true; done"]);
    assert!(number(&many, "processes") >= number(&one, "processes") + 4, "{one}\n{many}");
    assert!(number(&many, "guest_instructions") > number(&one, "guest_instructions"));
}

#[test]
fn text_comes_after_the_program_s_own_output() {
    let outcome = run(&mut bash(&["run", "--stats"], "echo out; echo err >&2; exit 3"), TIMEOUT);
    assert_eq!((outcome.status, text(&outcome.stdout)), (Ending::Exited(3), "out\n".into()));
    let stderr = text(&outcome.stderr);
    assert!(stderr.starts_with("err\nretro: what the engine counted\n"), "{stderr}");
    for label in ["guest instructions", "blocks translated", "exits to the engine", "syscall"] {
        assert!(stderr.contains(label), "{label} is missing in {stderr}");
    }
    assert!(!stderr.contains('\x1b'), "no colours in a pipe: {stderr}");
}

#[test]
fn counting_changes_nothing_else() {
    let script = "seq 1 2000 | sort -R --random-source=/dev/zero | sha256sum";
    let outcomes = MODES.map(|mode| run(&mut bash(mode, script), TIMEOUT));
    assert_eq!(outcomes[0].stdout, outcomes[1].stdout);
    assert_eq!(outcomes[0].status, outcomes[1].status);
}
