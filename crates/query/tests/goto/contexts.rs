//! Conditions of every kind.

use retro_query::{Cancel, Goto, GotoContext};

use crate::scene::{Scene, change, integer};

#[test]
fn variables_arguments_and_values() {
    let scene = Scene::new("variables", &["-O0"]);
    let count = |event: &str, rest: &str| scene.times(event, rest).len();
    assert_eq!(count("func_enter b", "where arg0 > 6"), 4);
    assert_eq!(count("func_enter b", "where step > 6"), 4);
    assert_eq!(count("func_exit b", "where arg0 > 6 and not arg0 = 100"), 3);
    assert_eq!(count("func_enter a", "where step == 3 or step == 5"), 2);
    assert_eq!(count("func_enter change", "where who == &account"), 2);
    assert_eq!(count("func_enter change", "where who->balance > 0 and by < 0"), 1);
    assert_eq!(count("func_exit change", "where result < 0"), 1);
    assert_eq!(count("func_exit change", "where arg1 = 30 and result = 30"), 1);
    assert_eq!(count("func_exit fib", "where result = 1 and arg0 = 2"), 13);
    assert_eq!(count("func_exit halve", "where result = 1.5"), 1);
    assert_eq!(count("func_enter halve", "where value == 3"), 1);
    let add = format!("line scene.c:{}", scene.line("add"));
    assert_eq!(count(&add, "where before >= 10 and before < 45"), 5);
    assert_eq!(count(&add, "where counter == 45 and step == 100"), 1);
    assert_eq!(count("func_enter b", "where $rdi == 9"), 1);

    let jump = scene.found("goto start store counter where newval - oldval > 50");
    assert_eq!(change(&jump), (integer(45), integer(145)));
    let negative = scene.found("goto end store account.balance where newval < 0 and oldval = 150");
    assert_eq!(change(&negative), (integer(150), integer(-50)));
    assert_eq!(scene.find("goto end store account.balance where newval < -50"), None);
}

#[test]
fn call_stacks() {
    let scene = Scene::new("stacks", &["-O0"]);
    let count = |event: &str, rest: &str| scene.times(event, rest).len();
    assert_eq!(count("func_enter b", "where stack = <**, a, b>"), 10);
    assert_eq!(count("func_enter b", "where stack = <**, c, b>"), 1);
    assert_eq!(count("func_enter b", "where stack != <**, a, b>"), 1);
    assert_eq!(count("func_enter b", "where stack = <**, main, *, b>"), 11);
    assert_eq!(count("func_enter b", "where stack = <**, main, b>"), 0);
    assert_eq!(count("func_enter bump", "where stack = <**, work, bump>"), 10);
    assert_eq!(count("func_enter bump", "where stack = <**, main, **>"), 0);
    // fib(8) calls fib(7) and fib(6); a stack with three of them is not that of the first two levels.
    assert_eq!(count("func_enter fib", "where stack = <**, main, fib>"), 1);
    assert_eq!(count("func_enter fib", "where stack = <**, main, fib, fib>"), 2);
    assert_eq!(count("func_enter fib", "where stack = <**, fib, fib, fib>"), 64);
    let outermost = scene.found("goto start func_enter fib");
    let stack_of = |time| {
        let moment = retro_query::Moment { log: scene.log, time };
        let state = scene.run.state(moment).unwrap();
        state.stack(None, 1_000).unwrap().frames().len()
    };
    let depth = stack_of(outermost.time);
    assert_eq!(count("func_enter fib", &format!("where depth = {depth}")), 1);
    assert_eq!(count("func_enter fib", &format!("where depth > {depth}")), 66);
    let deepest = scene.times("func_enter fib", &format!("where depth = {}", depth + 7));
    assert!(!deepest.is_empty());
    assert!(deepest.iter().all(|&time| stack_of(time) == depth + 7));
    // The query of the paper.
    let line = scene.line("add");
    let of_paper =
        format!("goto end backward block_entry 2 where stack=<**,a,b> and src=<scene.c,{line}>");
    assert_eq!(scene.find(&of_paper), None, "no block begins in this line");
    let line = scene.line("fib-leaf");
    let of_paper = format!(
        "goto end backward block_entry 2 where stack=<**,fib,fib> and src=<scene.c,{line}>"
    );
    let found = scene.found(&of_paper);
    let all = scene.times("block_entry", &format!("where src = <scene.c, {line}>"));
    assert_eq!((all.len(), all[all.len() - 2]), (34, found.time));
}

#[test]
fn places_threads_and_times() {
    let scene = Scene::new("places", &["-O0"]);
    let bumps = scene.all("goto start func_enter bump all");
    let mut threads: Vec<u32> = bumps.iter().map(|found| found.thread).collect();
    threads.sort_unstable();
    threads.dedup();
    assert_eq!(threads.len(), 2);
    for thread in &threads {
        let rest = format!("where thread = {thread}");
        let expected: Vec<u64> =
            bumps.iter().filter(|found| found.thread == *thread).map(|found| found.time).collect();
        assert_eq!(scene.times("func_enter bump", &rest), expected);
        assert_eq!(expected.len(), 5);
        let stored = scene.times("store shared", &rest);
        assert_eq!(stored.len(), 5);
    }
    assert_eq!(scene.times("store shared", "where newval - oldval == 100").len(), 5);

    let (third, seventh) = (bumps[2].time, bumps[6].time);
    let between = format!("where time >= {third} and time < {seventh}");
    assert_eq!(scene.times("func_enter bump", &between).len(), 4);
    assert_eq!(scene.times("func_enter bump", &format!("where time = {third}")), [third]);
    assert_eq!(scene.times("func_enter bump", &format!("where not time < {third}")).len(), 8);
    assert_eq!(scene.times("func_enter bump", "where time < 0").len(), 0);
    assert_eq!(scene.times("func_enter bump", "where time > start and time <= end").len(), 10);

    let line = scene.line("bump");
    let in_line = scene.times("instruction", &format!("where src = scene.c:{line}"));
    assert!(in_line.len() >= 20);
    assert_eq!(scene.times(&format!("instruction scene.c:{line}"), ""), in_line);
    let others = scene.times("instruction bump", &format!("where src != scene.c:{line}"));
    let all = scene.times("instruction bump", "");
    assert_eq!(in_line.len() + others.len(), all.len());
    assert_eq!(scene.times("instruction", "where func = bump"), all);
    assert_eq!(scene.times("instruction", "where func = bum?"), all);
    assert_eq!(scene.times("instruction", "where func = bump or func = halve").len(), {
        all.len() + scene.times("instruction halve", "").len()
    });
}

#[test]
fn last_results_and_frames() {
    let scene = Scene::new("last", &["-O0"]);
    let leaf = scene.found("goto end func_enter fib where n == 0");
    // A variable of an outer frame is found from within.
    let find =
        |last| match scene.goto_from("goto last backward store ends[0]", 0, Some(last)).unwrap() {
            Goto::Found(found) => found,
            _ => panic!("a search"),
        };
    let store = find(leaf.time).expect("`ends` is a variable of main");
    assert!(store.time < leaf.time);
    assert_eq!(find(store.time + 1), Some(store.clone()));
    // Its memory was something else before.
    assert!(find(store.time).is_none_or(|before| before.time < store.time));
    // Frames can be chosen: that of main is the one around the outermost call.
    let outermost = scene.found("goto start func_enter fib");
    let query = "goto backward store ends[0]".parse().unwrap();
    let ask = |frame| {
        let now = outermost.time;
        let context = GotoContext { log: scene.log, now, last: None, thread: None, frame };
        match scene.run.goto(&query, &context, &Cancel::new()) {
            Ok(Goto::Found(found)) => Ok(found),
            Ok(_) => panic!("a search"),
            Err(error) => Err(error.to_string()),
        }
    };
    assert_eq!(ask(0), Ok(Some(store.clone())));
    assert_eq!(ask(1), Ok(Some(store)));
    assert!(ask(2).unwrap_err().contains("`ends`"), "nobody around main knows it");
    assert!(ask(99).unwrap_err().contains("no frame 99"));
}
