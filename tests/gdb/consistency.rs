//! The same moment looks the same, however it was reached.

use std::process::{Command, Stdio};

use crate::recorded::{Recorded, has_gdb, retro};

/// What gdb says when it executes a program in Python.
fn said(recorded: &Recorded, options: &[&str], program: &str) -> String {
    let mut command = Command::new(retro());
    command.arg("gdb").arg(recorded.directory()).args(options);
    command.args(["--", "-nx", "-q", "-batch", "-ex"]).arg(format!("python exec({program:?})"));
    let output = command.stdin(Stdio::null()).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!told.contains("Exception") && !told.contains("Error"), "{told}");
    String::from_utf8(output.stdout).unwrap()
}

/// Steps each way; ten thousand if `RETRO_FULL=1` is set.
fn steps() -> u32 {
    if std::env::var_os("RETRO_FULL").is_some() { 10_000 } else { 1_500 }
}

#[test]
fn steps_back_and_forth_show_the_same_registers() {
    if !has_gdb() {
        return;
    }
    let recorded = Recorded::of("crash.c", &["-O0"]);
    let program = "
steps = STEPS
names = [r.name for r in gdb.selected_frame().architecture().registers()]
names = [n for n in names if n in ('rip','eflags','fs_base','orig_rax') or n[0] == 'r' and n[-1] != 'l']
def look():
    frame = gdb.newest_frame()
    stack = frame.read_register('rsp')
    memory = bytes(gdb.selected_inferior().read_memory(int(stack), 64))
    return tuple(int(frame.read_register(n)) for n in names), str(frame.read_register('ymm0')), memory
seen = [look()]
for i in range(steps):
    gdb.execute('reverse-stepi', to_string=True)
    seen.append(look())
different = 0
for i in range(steps):
    if look() != seen.pop():
        different += 1
    gdb.execute('stepi', to_string=True)
different += look() != seen.pop()
print('different:', different, 'names:', len(names) > 16)
";
    let said = said(&recorded, &[], &program.replace("STEPS", &steps().to_string()));
    assert!(said.contains("different: 0 names: True"), "{said}");
}

#[test]
fn a_watchpoint_finds_what_the_history_lists() {
    if !has_gdb() {
        return;
    }
    let recorded = Recorded::of("steps.c", &["-O0"]);
    let program = "
times = []
gdb.execute('retro seek end', to_string=True)
rows = [line.split()[0] for line in gdb.execute('retro history total 1000', to_string=True).splitlines()]
gdb.execute('watch -l total', to_string=True)
while True:
    gdb.execute('reverse-continue', to_string=True)
    time = int(gdb.parse_and_eval('$_retro_time'))
    if time == 0 or len(times) > 1000:
        break
    times.append(str(time))
times.reverse()
# A write of the same value is in the history, and nothing that a watchpoint stops at.
print('found:', len(times), 'all:', set(times) <= set(rows), 'missing:', len(set(rows) - set(times)))
";
    let said = said(&recorded, &[], program);
    let found: Vec<&str> = said.lines().filter(|line| line.starts_with("found:")).collect();
    assert_eq!(found, ["found: 8 all: True missing: 2"], "{said}");
}
