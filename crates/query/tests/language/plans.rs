//! What the index is asked for a query.

use proptest::prelude::*;
use retro_query::language::{
    Callee, Clock, EventKind, Lines, Location, Occurrences, Pattern, Place, Source,
};

use crate::scene::{CLOCK, Scene};
use crate::search;

fn function(name: &str) -> Place {
    Place::Function(Pattern::new(name))
}

fn line(file: &str, first: u32, last: u32) -> Place {
    Place::Source(Source { file: Pattern::new(file), lines: Some(Lines { first, last }) })
}

fn callee(name: &str) -> Callee {
    Callee::Named(Pattern::new(name))
}

#[test]
fn operands_are_looked_up() {
    for (text, expected) in [
        ("call f", Occurrences::Calls(vec![callee("f")])),
        ("return 0x10", Occurrences::Returns(vec![Callee::Address(0x10)])),
        ("line f.c:7", Occurrences::Executions(vec![line("f.c", 7, 7)])),
        ("block main where func = f", Occurrences::Executions(vec![function("main")])),
        ("syscall write", Occurrences::Listed(EventKind::Syscall)),
        ("store", Occurrences::Every(EventKind::Store)),
        ("line where x", Occurrences::Every(EventKind::Line)),
        ("call * where x", Occurrences::Every(EventKind::FunctionEnter)),
    ] {
        assert_eq!(search(text).plan().occurrences, expected, "{text}");
    }
    assert!(matches!(
        search("store x where func = f").plan().occurrences,
        Occurrences::Writes(Location::Expression(_))
    ));
}

#[test]
fn contexts_help_where_operands_are_missing() {
    for (text, expected) in [
        (
            "block where stack = <**, a, b> and src = <foo.c, 7>",
            Occurrences::Executions(vec![line("foo.c", 7, 7)]),
        ),
        ("block where stack = <**, a, b>", Occurrences::Executions(vec![function("b")])),
        ("block where stack = <**, b, *>", Occurrences::Every(EventKind::BlockEntry)),
        ("where pc == 0x10 and func = f", Occurrences::Executions(vec![Place::Address(0x10)])),
        (
            "where src = a.c:1 or func = f and x",
            Occurrences::Executions(vec![line("a.c", 1, 1), function("f")]),
        ),
        ("where src = a.c:1 or x", Occurrences::Every(EventKind::Instruction)),
        ("where src != a.c:1", Occurrences::Every(EventKind::Instruction)),
        (
            "call where func = f or stack = <**, g>",
            Occurrences::Calls(vec![callee("f"), callee("g")]),
        ),
        ("call * where func = f", Occurrences::Calls(vec![callee("f")])),
        ("return where src = f.c:7", Occurrences::Every(EventKind::FunctionExit)),
        ("store where func = f", Occurrences::Executions(vec![function("f")])),
    ] {
        assert_eq!(search(text).plan().occurrences, expected, "{text}");
    }
}

#[test]
fn the_narrowest_place_is_taken() {
    for (context, expected) in [
        ("func = f and src = <f.c> and src = <f.c, 1>", Some(vec![line("f.c", 1, 1)])),
        ("func = f* and func = g", Some(vec![function("g")])),
        ("func = *", None),
        ("pc == -1", Some(vec![])),
        ("not func = f", None),
    ] {
        assert_eq!(
            search(&format!("store x where {context}")).plan().within,
            expected,
            "{context}"
        );
    }
}

#[test]
fn threads_are_fixed_if_nothing_else_fits() {
    for (context, expected) in [
        ("thread = 3 and x", Some(vec![3])),
        ("x and (thread = 3 or thread = 4)", Some(vec![3, 4])),
        ("thread = 3 or x", None),
        ("thread != 3", None),
        ("not thread = 3", None),
        ("thread == 99999999999", Some(vec![])),
    ] {
        assert_eq!(search(&format!("line where {context}")).plan().threads, expected, "{context}");
    }
}

#[test]
fn functions_that_must_be_on_the_stack_are_known() {
    for (context, expected) in [
        ("stack = <main, **, a, *, b>", vec!["main", "a", "b"]),
        ("stack = <**, a, **> and func = b and x", vec!["a", "b"]),
        ("stack = <**, a, b> or stack = <**, b>", vec!["b"]),
        ("stack = <**, a> or x", vec![]),
        ("not stack = <**, a>", vec![]),
    ] {
        let expected: Vec<Pattern> = expected.into_iter().map(Pattern::new).collect();
        assert_eq!(search(&format!("line where {context}")).plan().on_stack, expected, "{context}");
    }
}

#[test]
fn bounds_leave_a_window() {
    for (context, expected) in [
        ("x", Some(0..=1000)),
        ("time > 50% and time <= now", Some(501..=600)),
        ("time >= 10 and x and time < 20", Some(10..=19)),
        ("time == 7", Some(7..=7)),
        ("time != 7", Some(0..=1000)),
        ("time < start", None),
        ("time > 18446744073709551615", None),
        ("time > 20 and time < 10", None),
        ("time > 20 or time < 10", Some(0..=1000)),
        ("time < last", Some(0..=1000)),
    ] {
        let plan = search(&format!("line where {context}")).plan();
        assert_eq!(plan.window(&CLOCK), expected, "{context}");
    }
}

/// Contexts about a few threads, times and functions.
fn context() -> impl Strategy<Value = String> {
    let condition = prop::sample::select(vec![
        "thread = 1",
        "thread = 2",
        "thread != 1",
        "time < 10",
        "time >= 5",
        "time == 7",
        "func = a",
        "func = b*",
        "func = *",
        "stack = <**, a, b>",
        "stack = <a, **>",
        "stack = <**, b, **>",
        "yes",
        "no",
        "away",
    ]);
    condition.prop_map(str::to_string).prop_recursive(4, 16, 3, |part| {
        prop_oneof![
            (part.clone(), part.clone()).prop_map(|(left, right)| format!("({left} and {right})")),
            (part.clone(), part.clone()).prop_map(|(left, right)| format!("({left} or {right})")),
            part.prop_map(|part| format!("not {part}")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn no_moment_that_fits_is_left_out(
        context in context(),
        time in 0..15u64,
        thread in 1..4u32,
        stack in prop::collection::vec(prop::sample::select(vec!["a", "b", "c"]), 1..4),
    ) {
        let search = search(&format!("where {context}"));
        let mut scene = Scene::new();
        (scene.time, scene.thread, scene.stack) = (time, thread, stack.clone());
        let holds = search.context.as_ref().expect("there is one").holds(&mut scene);
        if holds != Ok(true) {
            return Ok(());
        }

        let plan = search.plan();
        let innermost = stack[stack.len() - 1];
        let is_there = |place: &Place| match place {
            Place::Function(name) => name.matches_function(innermost),
            other => panic!("nothing was said of {other:?}"),
        };
        prop_assert!(plan.window(&CLOCK).is_some_and(|window| window.contains(&time)));
        prop_assert!(plan.threads.is_none_or(|threads| threads.contains(&thread)));
        prop_assert!(plan.within.is_none_or(|places| places.iter().any(is_there)));
        for name in &plan.on_stack {
            prop_assert!(stack.iter().any(|function| name.matches_function(function)));
        }
    }

    /// Whatever the bounds are, no time that satisfies them is left out, and no other is let in.
    #[test]
    fn windows_are_exact(
        bounds in prop::collection::vec((prop::sample::select(vec!["<", "<=", ">", ">=", "=="]), 0..30u64), 1..4),
        time in 0..30u64,
    ) {
        let conditions: Vec<String> =
            bounds.iter().map(|(sign, bound)| format!("time {sign} {bound}")).collect();
        let plan = search(&format!("line where {}", conditions.join(" and "))).plan();
        let clock = Clock { now: 0, last: None, end: 30 };
        let expected = bounds.iter().all(|(sign, bound)| match *sign {
            "<" => time < *bound,
            "<=" => time <= *bound,
            ">" => time > *bound,
            ">=" => time >= *bound,
            _ => time == *bound,
        });
        let window = plan.window(&clock);
        prop_assert_eq!(window.is_some_and(|window| window.contains(&time)), expected);
    }
}
