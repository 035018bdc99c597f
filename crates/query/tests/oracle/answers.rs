//! Random questions about guests of the corpus and real programs.

use std::process::Command;

use crate::questions::{Scene, oracles};
use crate::recorded::{Recorded, windows_of};

/// Questions that are asked of each index.
const QUESTIONS: u32 = 50;

/// Sizes of windows.
const WINDOWS: [u64; 2] = [2_000, 50_000];

fn check(recorded: &Recorded) {
    let oracles = oracles(recorded);
    for size in WINDOWS {
        recorded.discard_index();
        recorded.build(&windows_of(size)).unwrap();
        Scene::open(recorded, &oracles).ask(QUESTIONS);
    }
}

macro_rules! guests {
    ($($name:ident: $guest:literal $options:tt;)*) => {
        $(#[test] fn $name() { check(&Recorded::guest($guest, &$options)); })*
    };
}

guests! {
    threads: "thread_mutex" ["--interval", "400k"];
    many_threads: "thread_many" ["--chaos=7"];
    threads_in_short_intervals: "thread_cond_queue" ["--interval", "100k"];
    signals: "signal_async_registers" ["--interval", "700k"];
    signals_in_short_intervals: "signal_altstack_nested" ["--interval", "20k"];
    just_in_time_code: "code_jit_many" ["--interval", "300k"];
    self_modifying_code: "code_self_modify" [];
    string_instructions: "insn_strings" [];
    moved_memory: "memory_mremap" ["--interval", "20k"];
    memory_of_earlier_intervals_moved: "memory_moved_late" ["--interval", "60k"];
    discarded_memory: "memory_madvise" ["--interval", "20k"];
    forks: "process_fork" [];
    coroutines: "flow_coroutines" [];
    long_jumps: "signal_longjmp" ["--interval", "50k"];
    exceptions: "flow_exceptions" ["--interval", "400k"];
    shared_memory: "memory_shared" ["--interval", "30k"];
}

#[test]
fn shell() {
    let mut command = Command::new("sh");
    command.args(["-c", "for i in 1 2 3; do echo $i | wc -c; done; ls / | sort -r"]);
    check(&Recorded::command("shell", command, &["--interval", "200k"]));
}

#[test]
fn sorting() {
    let mut command = Command::new("sh");
    command.args(["-c", "seq 2000 -1 1 | sort -n | tail -1"]);
    check(&Recorded::command("sorting", command, &["--interval", "500k"]));
}
