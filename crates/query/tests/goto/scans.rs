//! Searches against naive scans of everything that a program did.

use std::collections::HashMap;

use retro_replayer::Ending;

use crate::scene::{Everything, Scene, Step};

fn times(steps: &[Step], fits: impl Fn(&Step) -> bool) -> Vec<u64> {
    steps.iter().filter(|step| step.time > 0 && fits(step)).map(|step| step.time).collect()
}

#[test]
fn executions() {
    for (name, options) in [("scan-o0", ["-O0"]), ("scan-o1", ["-O1"])] {
        let scene = Scene::new(name, &options);
        let Everything { steps, .. } = scene.everything();
        assert_eq!(steps.len() as u64, scene.end());

        for function in ["fib", "b", "bump", "main", "pthread_mutex_lock"] {
            for code in scene.functions(function) {
                let entry = code.entry;
                let expected = times(&steps, |step| step.pc == entry);
                assert_eq!(scene.times(&format!("instruction {entry:#x}"), ""), expected);
                assert_eq!(scene.times("instruction", &format!("where pc = {entry:#x}")), expected);
            }
        }
        let entries: Vec<u64> = scene.functions("fib").iter().map(|code| code.entry).collect();
        let expected = times(&steps, |step| entries.contains(&step.pc));
        assert_eq!(scene.times("func_enter fib", ""), expected);

        let ranges: Vec<_> =
            scene.functions("b").into_iter().flat_map(|code| code.ranges).collect();
        let is_in = |pc: u64| ranges.iter().any(|range| range.contains(&pc));
        assert_eq!(scene.times("instruction b", ""), times(&steps, |step| is_in(step.pc)));

        let returns = times(&steps, |step| is_in(step.pc) && step.ending == Some(Ending::Return));
        assert_eq!(scene.times("func_exit b", ""), returns);
    }
}

#[test]
fn blocks() {
    let scene = Scene::new("scan-blocks", &["-O0"]);
    let Everything { steps, .. } = scene.everything();
    let mut last: HashMap<u32, Step> = HashMap::new();
    let mut entries = Vec::new();
    let mut calls = Vec::new();
    for step in &steps {
        let before = last.insert(step.thread, *step);
        let follows = before.is_some_and(|before| {
            before.next == step.pc
                && matches!(before.ending, None | Some(Ending::Next))
                && !scene.is_conditional_jump(before.pc, before.next)
        });
        if !follows && step.time > 0 {
            entries.push(step.time);
        }
        if before.is_some_and(|before| before.ending == Some(Ending::Call)) {
            calls.push(step.time);
        }
    }
    assert_eq!(scene.times("block_entry", ""), entries);
    let main = scene.function("main").ranges;
    let in_main = |time: &u64| main.iter().any(|range| range.contains(&steps[*time as usize].pc));
    let expected: Vec<u64> = entries.into_iter().filter(in_main).collect();
    assert_eq!(scene.times("block_entry main", ""), expected);
    assert_eq!(scene.times("block_entry", "where func = main"), expected);
    assert_eq!(scene.times("block", "where stack = <**, main>"), expected);
    // Every call enters a function; so do jumps to one, such as those of stubs.
    let entered = scene.times("func_enter", "");
    assert!(calls.iter().all(|call| entered.binary_search(call).is_ok()));
    assert!(entered.len() > calls.len());
}

#[test]
fn stores() {
    let scene = Scene::new("scan-stores", &["-O0"]);
    let Everything { accesses, steps } = scene.everything();
    for what in ["counter", "account", "account.balance", "shared", "other"] {
        let (address, len) = scene.address_of(what);
        let mut expected: Vec<u64> = accesses
            .iter()
            .filter(|at| at.writes && at.address < address + len && address < at.address + at.len)
            .map(|access| access.time)
            .collect();
        expected.dedup();
        assert!(!expected.is_empty(), "{what}");
        assert_eq!(scene.times(&format!("store {what}"), ""), expected, "{what}");
        assert_eq!(scene.times(&format!("store {address:#x},{len}"), ""), expected, "{what}");
        let in_change = scene.function("change").ranges;
        let is_in =
            |time: &u64| in_change.iter().any(|range| range.contains(&steps[*time as usize].pc));
        let expected: Vec<u64> = expected.into_iter().filter(is_in).collect();
        assert_eq!(
            scene.times(&format!("store {what}"), "where func = change"),
            expected,
            "{what}"
        );
    }
    // Without an operand, all stores of a function.
    let body = scene.function("b").ranges;
    let is_in = |time: u64| body.iter().any(|range| range.contains(&steps[time as usize].pc));
    let mut expected: Vec<u64> = accesses
        .iter()
        .filter(|at| at.writes && is_in(at.time))
        .map(|access| access.time)
        .collect();
    expected.dedup();
    assert_eq!(scene.times("store", "where func = b"), expected);
}

#[test]
fn from_anywhere() {
    let scene = Scene::new("scan-anywhere", &["-O0"]);
    let Everything { steps, .. } = scene.everything();
    let entry = scene.function("fib").entry;
    let all = times(&steps, |step| step.pc == entry);
    let near: Vec<u64> = all.iter().flat_map(|&time| [time - 1, time, time + 1]).collect();
    for now in near {
        let after = all.partition_point(|&time| time <= now);
        let before = all.partition_point(|&time| time < now);
        for (query, expected) in [
            ("goto forward func_enter fib", all.get(after).copied()),
            ("goto forward func_enter fib where n >= 0", all.get(after).copied()),
            ("goto backward func_enter fib", before.checked_sub(1).map(|at| all[at])),
            (
                "goto backward func_enter fib 2 where n >= 0",
                before.checked_sub(2).map(|at| all[at]),
            ),
            ("goto backward 10", Some(now - 10)),
            ("goto forward 10", Some(now + 10)),
        ] {
            let Ok(retro_query::Goto::Found(found)) = scene.goto_from(query, now, None) else {
                panic!("{query} from {now}");
            };
            assert_eq!(found.map(|found| found.time), expected, "{query} from {now}");
        }
    }
}
