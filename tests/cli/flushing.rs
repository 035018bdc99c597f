//! A code cache that is much too small: all of it is thrown away again and again while threads run
//! in it and signals arrive, and nothing but time may tell.

use std::path::Path;
use std::process::Command;

use retro_testkit::compare::{Outcome, assert_same, run, under_retro_with};
use retro_testkit::corpus::Guest;
use retro_testkit::programs::scratch::Scratch;
use serde_json::Value;

use crate::{TIMEOUT, retro_path, text};

/// In KiB: a start of the C library fills it.
const SMALL: &str = "256";

/// Compares `command` with a run in the small cache, without and with counters.
fn check(command: &Command) {
    let scratch = Scratch::new("flushing");
    let in_scratch = |mut command: Command| {
        scratch.empty();
        run(command.current_dir(scratch.path()), TIMEOUT)
    };
    let mut native = Command::new(command.get_program());
    native.args(command.get_args());
    let native = in_scratch(native);

    let options = ["--code-cache", SMALL];
    assert_same(&native, &in_scratch(under_retro_with(retro_path(), &options, command)));

    let options = ["--stats=json", "--code-cache", SMALL];
    let mut counted = in_scratch(under_retro_with(retro_path(), &options, command));
    let counters = take_counters(&mut counted);
    assert_same(&native, &counted);
    assert!(counters["cache_flushes"].as_u64().is_some_and(|count| count > 0), "{counters}");
}

/// Cuts the counters off the end of the error stream.
fn take_counters(outcome: &mut Outcome) -> Value {
    let stderr = text(&outcome.stderr);
    let start = stderr.rfind("{\"guest_instructions\"").expect("counters are printed");
    outcome.stderr.truncate(start);
    serde_json::from_str(&stderr[start..]).expect("the counters are JSON")
}

fn check_guest(name: &str) {
    let guest = Guest::load(name).unwrap_or_else(|error| panic!("{error:?}"));
    let output = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guests");
    check(&guest.build(&output).unwrap_or_else(|error| panic!("{error:?}")));
}

/// Runs `program` with `arguments` if it is installed.
fn check_program(program: &str, arguments: &[&str]) {
    if !Path::new(program).exists() {
        eprintln!("skipped: {program} is not installed");
        return;
    }
    let mut command = Command::new(program);
    check(command.args(arguments));
}

#[test]
fn python() {
    let script = "
import json, re, threading
total = []
def work(n):
    numbers = sorted(i * 7919 % 1009 for i in range(500 * n))
    total.append(sum(map(int, re.findall('[0-9]+', json.dumps(numbers)))))
threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 5)]
for thread in threads: thread.start()
for thread in threads: thread.join()
try: [][1]
except IndexError as error: print(error)
print(sorted(total))
";
    check_program("/usr/bin/python3", &["-c", script]);
}

#[test]
fn java() {
    check_program("/usr/bin/java", &["-version"]);
}

#[test]
fn a_shell_and_its_children() {
    let script =
        "for i in 1 2 3; do seq 1 200 | sort -rn | head -$i; done; (exit 7); echo $?; kill -9 $$";
    check_program("/bin/bash", &["-c", script]);
}

macro_rules! guests {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            check_guest(stringify!($name));
        })*
    };
}

guests! {
    code_jit_many
    flow_exceptions
    flow_many_returns
    signal_async_registers
    signal_storm
    signal_ucontext_modify
    thread_cancel
    thread_clone_vm
    thread_fork
    thread_many
    thread_mutex
    thread_sixty_four
}
