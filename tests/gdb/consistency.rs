//! The same moment looks the same, however it was reached.

use std::collections::{BTreeSet, HashMap};
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

/// Steps over calls stop in one frame only because the server is told which breakpoints are gdb's own. Without that gdb looks at
/// every hit itself, and has to come to the same end.
#[test]
fn steps_over_recursion_end_where_gdb_by_itself_ends() {
    if !has_gdb() {
        return;
    }
    let recorded = Recorded::of("recursion.c", &["-O0"]);
    let program = "
import random
random.seed(7)
commands = ['step', 'next', 'next', 'nexti', 'finish', 'reverse-step', 'reverse-next', 'reverse-next', 'reverse-nexti']
gdb.execute('retro seek start', to_string=True)
gdb.execute('tbreak walk', to_string=True)
gdb.execute('continue', to_string=True)
middle = _now()
gdb.execute('break 14 if n == 3', to_string=True)
told = _stepping
different = []
moved = 0
for i in range(STEPS):
    if i % 8 == 0:
        gdb.execute('retro seek %d' % (middle + random.randrange(-400, 400)), to_string=True)
    command = random.choice(commands)
    before = _now()
    ends = []
    for step in (lambda *_: None, told):
        _stepping = step
        # Also if nothing moved: gdb steps into inlined functions without the server.
        gdb.execute('retro seek %d' % before, to_string=True)
        try:
            gdb.execute(command, to_string=True)
        except gdb.error:
            pass
        ends.append((_now(), int(gdb.parse_and_eval('$rsp'))))
    moved += ends[0][0] != before
    if ends[0] != ends[1]:
        different.append((before, command, ends))
print('different:', different, 'moved:', moved > STEPS / 2)
";
    let steps = if std::env::var_os("RETRO_FULL").is_some() { 1000 } else { 100 };
    let said = said(&recorded, &[], &program.replace("STEPS", &steps.to_string()));
    assert!(said.contains("different: [] moved: True"), "{said}");
}

/// Writes to eight bytes that `retro history` lists: all times, and those of writes that change something.
fn history(recorded: &Recorded, address: &str) -> (BTreeSet<u64>, BTreeSet<u64>) {
    let mut command = Command::new(retro());
    command.args(["history", &format!("{address},8"), "--json", "--limit", "all", "--recording"]);
    let output = command.arg(recorded.directory()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (mut all, mut changes) = (BTreeSet::new(), BTreeSet::new());
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let write: serde_json::Value = serde_json::from_str(line).unwrap();
        let time = write["time"].as_u64().unwrap();
        all.insert(time);
        if write["old"] != write["new"] {
            changes.insert(time);
        }
    }
    (all, changes)
}

/// `watch` stops at the writes that change something: gdb itself passes over the others, because it compares values. `awatch`
/// stops at all writes, and at the reads that `rwatch` stops at.
#[test]
fn watchpoints_find_what_the_history_lists() {
    if !has_gdb() {
        return;
    }
    let recorded = Recorded::of("writes.c", &["-O0"]);
    let program = "
gdb.execute('tbreak put', to_string=True)
gdb.execute('reverse-continue', to_string=True)
gdb.execute('up', to_string=True)
places = [int(gdb.parse_and_eval('(long)&' + name)) for name in ('global', 'box->value', 'local')]
span = [int(word) for word in gdb.execute('monitor span', to_string=True).split()]
def times(command, address, go, delay):
    gdb.execute('%s -l *(long *)%d' % (command, address), to_string=True)
    found = []
    while True:
        gdb.execute(go, to_string=True)
        time = int(gdb.parse_and_eval('$_retro_time'))
        if time in span:
            break
        found.append(time - delay)
    gdb.execute('delete', to_string=True)
    print('stops', command, hex(address), go, *found)
for address in places:
    for command in ('watch', 'awatch', 'rwatch'):
        gdb.execute('retro seek end', to_string=True)
        times(command, address, 'reverse-continue', 0)
        times(command, address, 'continue', 1)
";
    let said = said(&recorded, &[], program);
    let mut stops: HashMap<(String, String), Vec<BTreeSet<u64>>> = HashMap::new();
    for line in said.lines().filter_map(|line| line.strip_prefix("stops ")) {
        let words: Vec<&str> = line.split(' ').collect();
        let times: Vec<u64> = words[3..].iter().map(|word| word.parse().unwrap()).collect();
        let set: BTreeSet<u64> = times.iter().copied().collect();
        assert_eq!(set.len(), times.len(), "it stops once at each: {line}");
        stops.entry((words[1].to_owned(), words[0].to_owned())).or_default().push(set);
    }
    let places: BTreeSet<String> = stops.keys().map(|(place, _)| place.clone()).collect();
    assert_eq!(places.len(), 3, "{said}");
    for place in places {
        let (all, changes) = history(&recorded, &place);
        assert!(all.len() > changes.len() && changes.len() > 3, "{place}: {all:?}");
        let of = |command: &str| &stops[&(place.clone(), command.to_owned())];
        assert_eq!(*of("watch"), vec![changes.clone(); 2], "watch {place}");
        for (both, reads) in of("awatch").iter().zip(of("rwatch")) {
            assert_eq!(*both, &all | reads, "awatch {place}");
            assert!(!reads.is_empty(), "rwatch {place}");
        }
    }
}

/// A condition that rarely holds is tried at many hits at once; what it finds is what the program's arithmetic says.
#[test]
fn conditions_hold_where_the_arithmetic_says() {
    if !has_gdb() {
        return;
    }
    let recorded = Recorded::of("crash.c", &["-O0"]);
    // Amounts of 6 are in the first half alone; the second half has sums that the first has not.
    let program = "
span = [int(word) for word in gdb.execute('monitor span', to_string=True).split()]
def calls():
    balances = [100, 200, 300, 400]
    for factor in (7, 5):
        for i in range(1000):
            start, end, amount = i % 3, (i + 1) % 3, i % factor
            yield factor, (*balances[:2], amount)
            balances[start] -= amount
            balances[end] += amount
early = {moment for factor, moment in calls() if factor == 7}
late = [moment for factor, moment in calls() if factor == 5 and moment not in early]
def check(condition, expected):
    def found(go):
        hits = []
        while True:
            gdb.execute(go, to_string=True)
            if gdb.newest_frame().name() != 'transfer' or int(gdb.parse_and_eval('$_retro_time')) in span:
                return hits
            hits.append(tuple(int(gdb.parse_and_eval(name)) for name in ('balances[0]', 'balances[1]', 'amount')))
    gdb.execute('retro seek end', to_string=True)
    gdb.execute('break transfer if ' + condition, to_string=True)
    back = found('reverse-continue')
    forth = found('continue')
    gdb.execute('delete', to_string=True)
    print('same:', back[::-1] == expected, forth == expected, 'some:', len(expected) > 2)
check('amount == 6', [moment for _, moment in calls() if moment[2] == 6])
rare = late[0]
check('balances[0] == %d && balances[1] == %d && amount == %d' % rare, [moment for moment in late if moment == rare])
";
    let said = said(&recorded, &[], program);
    assert_eq!(said.matches("same: True True some: True").count(), 2, "{said}");
}
