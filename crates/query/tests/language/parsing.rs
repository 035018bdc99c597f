//! What is understood, shown by printing it in full.

use retro_query::language::{
    Condition, Context, Event, Expression, Location, Query, TimePoint, Word,
};

use crate::{query, search};

fn check(table: &[(&str, &str)]) {
    for (text, expected) in table {
        assert_eq!(query(text).to_string(), *expected, "{text}");
        assert_eq!(query(expected), query(text), "{expected}");
    }
}

/// Tables of contexts, which stand behind a type that has the words which are used.
fn check_contexts(event: &str, table: &[(&str, &str)]) {
    for (text, expected) in table {
        let printed = query(&format!("{event} where {text}")).to_string();
        let (_, context) = printed.split_once(" where ").expect("there is a context");
        assert_eq!(context, *expected, "{text}");
    }
}

#[test]
fn the_query_of_the_paper() {
    check(&[(
        "goto current backward block_entry 2 where stack=<**,a,b> and src=<foo.c,7>",
        "goto now backward block_entry 2 where stack = <**, a, b> and src = <foo.c, 7>",
    )]);
}

#[test]
fn parts_that_are_left_out_have_defaults() {
    check(&[
        ("store x", "goto now backward store x 1"),
        ("goto store x", "goto now backward store x 1"),
        ("start store x", "goto start forward store x 1"),
        ("first b store x", "goto start backward store x 1"),
        ("end store x", "goto end backward store x 1"),
        ("last store x", "goto last backward store x 1"),
        ("1.5M store x", "goto 1500000 backward store x 1"),
        ("forward", "goto now forward instruction 1"),
        ("back 5", "goto now backward instruction 5"),
        ("fwd where x", "goto now forward instruction 1 where x"),
        ("where x", "goto now backward instruction 1 where x"),
        ("end where x", "goto end backward instruction 1 where x"),
        ("f line", "goto now forward line 1"),
        ("store", "goto now backward store 1"),
        ("store where newval", "goto now backward store 1 where newval"),
    ]);
}

#[test]
fn a_moment_alone_is_a_query() {
    check(&[
        ("now", "goto now"),
        ("goto current", "goto now"),
        ("goto start", "goto start"),
        ("goto end", "goto end"),
        ("goto last", "goto last"),
    ]);
}

#[test]
fn times_are_written_in_many_ways() {
    check(&[
        ("0", "goto 0"),
        ("1500000", "goto 1500000"),
        ("1_500_000", "goto 1500000"),
        ("1,500,000", "goto 1500000"),
        ("1.5M", "goto 1500000"),
        ("1500k", "goto 1500000"),
        ("2g", "goto 2000000000"),
        ("0%", "goto 0%"),
        ("50%", "goto 50%"),
        ("12.345%", "goto 12.345%"),
        ("100.000000%", "goto 100%"),
        ("1,500,000 back call f", "goto 1500000 backward func_enter f 1"),
    ]);
}

#[test]
fn every_type_has_its_operands() {
    check(&[
        ("func_enter", "goto now backward func_enter 1"),
        ("call main", "goto now backward func_enter main 1"),
        ("call parse_*", "goto now backward func_enter parse_* 1"),
        ("call 0x401136", "goto now backward func_enter 0x401136 1"),
        ("call \"operator new\"", "goto now backward func_enter \"operator new\" 1"),
        (
            "return std::map<int, *>::find",
            "goto now backward func_exit \"std::map<int, *>::find\" 1",
        ),
        ("call <T as Trait>::run", "goto now backward func_enter \"<T as Trait>::run\" 1"),
        (
            "call (anonymous namespace)::f",
            "goto now backward func_enter \"(anonymous namespace)::f\" 1",
        ),
        ("block 0x401136", "goto now backward block_entry 0x401136 1"),
        ("block ledger.c:42", "goto now backward block_entry ledger.c:42 1"),
        ("insn main", "goto now backward instruction main 1"),
        ("insn ns::f2", "goto now backward instruction ns::f2 1"),
        ("line ledger.c:42", "goto now backward line ledger.c:42 1"),
        ("line src/*.c:7-12", "goto now backward line src/*.c:7-12 1"),
        ("line ledger.c", "goto now backward line ledger.c 1"),
        ("line \"my file.c\":7", "goto now backward line \"my file.c\":7 1"),
        ("store 0x7ffe1000", "goto now backward store 0x7ffe1000,8 1"),
        ("store 0x7ffe1000,16", "goto now backward store 0x7ffe1000,16 1"),
        ("store 4096, 0x10", "goto now backward store 0x1000,16 1"),
        ("store 0xffffffffffffffff", "goto now backward store 0xffffffffffffffff,1 1"),
        ("store account.balance", "goto now backward store account.balance 1"),
        ("write *(int *)(p + 1)", "goto now backward store *(int *)(p + 1) 1"),
        ("read table[i + 1]->next", "goto now backward load table[i + 1]->next 1"),
        ("store oldval", "goto now backward store oldval 1"),
        ("store (where)", "goto now backward store (where) 1"),
        ("syscall", "goto now backward syscall 1"),
        ("syscall write", "goto now backward syscall write 1"),
        ("syscall *at", "goto now backward syscall *at 1"),
        ("signal SIGSEGV", "goto now backward signal SIGSEGV 1"),
        ("signal segv", "goto now backward signal SIGSEGV 1"),
        ("signal rtmin+3", "goto now backward signal SIGRTMIN+3 1"),
        ("map", "goto now backward map 1"),
        ("map libc.so*", "goto now backward map libc.so* 1"),
        ("map 0x7000, 4096", "goto now backward map 0x7000,4096 1"),
        ("thread_start", "goto now backward thread_start 1"),
        ("thread_end 2", "goto now backward thread_end 2"),
    ]);
}

#[test]
fn counts_stand_behind_the_operand() {
    check(&[
        ("call 3", "goto now backward func_enter 3"),
        ("call f 3", "goto now backward func_enter f 3"),
        ("call f 3rd", "goto now backward func_enter f 3"),
        ("call f 1_000", "goto now backward func_enter f 1000"),
        ("call f all", "goto now backward func_enter f all"),
        ("call all", "goto now backward func_enter all"),
        ("call \"all\"", "goto now backward func_enter \"all\" 1"),
        ("call \"3\"", "goto now backward func_enter \"3\" 1"),
        ("store 3", "goto now backward store 3"),
        ("store x 3", "goto now backward store x 3"),
        ("store x * 3", "goto now backward store x * 3 1"),
        ("store x[3]", "goto now backward store x[3] 1"),
        ("store x[3] 3", "goto now backward store x[3] 3"),
        ("store pair.0", "goto now backward store pair.0 1"),
        ("store pair.0 2", "goto now backward store pair.0 2"),
        ("store *p all where x", "goto now backward store *p all where x"),
        ("store 0x10,8 3", "goto now backward store 0x10,8 3"),
        ("store 0x10 8", "goto now backward store 0x10,8 8"),
        ("line f.c:3 3", "goto now backward line f.c:3 3"),
    ]);
}

#[test]
fn expressions_end_where_they_should() {
    check_contexts(
        "line",
        &[
            ("x->n > 3 and y == 2", "x->n > 3 and y == 2"),
            ("x->n>3&&y==2", "x->n>3 and y==2"),
            ("a or b and c or d", "a or b and c or d"),
            ("(a or b) and c", "(a or b) and c"),
            ("((a)) and ((b and c))", "a and b and c"),
            ("(a + 1) * 2 > 3 or b", "(a + 1) * 2 > 3 or b"),
            ("(a > 1) == (b > 1)", "(a > 1) == (b > 1)"),
            ("(int)x > 3 and y", "(int)x > 3 and y"),
            ("(a || b) && c", "(a or b) and c"),
            ("f[(a && b)] == 1", "f[(a && b)] == 1"),
            ("(a && b) + 1 == 2", "(a && b) + 1 == 2"),
            ("(a ? b : c) and d", "(a ? b : c) and d"),
            ("name == \"x and (y\" and z", "name == \"x and (y\" and z"),
            ("c == ')' or d == '\\''", "c == ')' or d == '\\''"),
            ("x < y", "x < y"),
            ("x & 1 == 0", "x & 1 == 0"),
            ("sizeof x > 3", "sizeof x > 3"),
            ("$rax == 3", "$rax == 3"),
            ("x as u64 > 3 and pair.0 == 1", "x as u64 > 3 and pair.0 == 1"),
            ("{int} p == 1 and *p@10 == 2", "{int} p == 1 and *p@10 == 2"),
            ("'ledger.c'::total > 3 or run::total", "'ledger.c'::total > 3 or run::total"),
            ("not a == 1", "not a == 1"),
            ("not not a", "not not a"),
            ("not (a and b)", "not (a and b)"),
            ("not (a)", "not a"),
            ("!a == 1", "!a == 1"),
            ("!(a) == 1", "!(a) == 1"),
            ("!(a == 1)", "not a == 1"),
            ("!!(a or b)", "not not (a or b)"),
            ("!stack = <f>", "not stack = <f>"),
            ("  x \n and\ty ", "x and y"),
        ],
    );
}

#[test]
fn patterns_are_conditions() {
    check_contexts(
        "line",
        &[
            ("stack = <**, a, b>", "stack = <**, a, b>"),
            (
                "stack==<*,std::vector<int, A>::f , ** >",
                "stack = <*, \"std::vector<int, A>::f\", **>",
            ),
            ("stack = <<T as X>::f>", "stack = <\"<T as X>::f\">"),
            ("stack = <\"**\">", "stack = <*>"),
            ("stack != <a>", "not stack = <a>"),
            ("not stack != <a>", "not not stack = <a>"),
            ("src = <foo.c, 7>", "src = <foo.c, 7>"),
            ("src = <foo.c, 7 - 12>", "src = <foo.c, 7-12>"),
            ("src = <foo.c>", "src = <foo.c>"),
            ("src = foo.c:7-12", "src = <foo.c, 7-12>"),
            ("src != dir/foo.c", "not src = <dir/foo.c>"),
            ("func = parse_* and x", "func = parse_* and x"),
            ("(func = a?b or func = \"operator==\")", "func = a?b or func = \"operator==\""),
            ("func=f&&x", "func = f and x"),
        ],
    );
}

#[test]
fn words_are_compared() {
    check_contexts(
        "store x",
        &[
            ("newval = 3", "newval == 3"),
            ("newval == 0x10", "newval == 16"),
            ("newval != -1", "newval != -1"),
            ("3 < newval", "newval > 3"),
            ("y >= oldval", "oldval <= y"),
            ("newval > oldval", "newval > oldval"),
            ("newval > limits[3].high", "newval > limits[3].high"),
            ("newval == 010", "newval == 010"),
            ("newval == &y", "newval == &y"),
            ("thread = 4711", "thread == 4711"),
            ("depth<5", "depth < 5"),
            ("pc == 4198710", "pc == 0x401136"),
            ("time > 50%", "time > 50%"),
            ("time <= 1,000,000 and time != end", "time <= 1000000 and time != end"),
        ],
    );
    check_contexts("call f", &[("arg0 == 3 and arg12 == 4", "arg0 == 3 and arg12 == 4")]);
    check_contexts("syscall", &[("result < 0", "result < 0")]);
}

fn only_condition(text: &str) -> Condition {
    match search(text).context {
        Some(Context::Condition(condition)) => condition,
        other => panic!("{text} has the context {other:?}"),
    }
}

fn words_in(text: &str) -> Vec<(Word, String)> {
    match only_condition(text) {
        Condition::Expression(Expression { text, words, .. }) => {
            words.into_iter().map(|used| (used.word, text[used.range].to_string())).collect()
        }
        other => panic!("{text} is {other:?}"),
    }
}

#[test]
fn words_of_the_event_stand_within_expressions() {
    let old_and_new =
        [(Word::NewValue, "newval".to_string()), (Word::OldValue, "oldval".to_string())];
    assert_eq!(words_in("store x where newval - oldval > 100"), old_and_new);
    assert_eq!(words_in("store x where f[newval + oldval]"), old_and_new);
    assert_eq!(words_in("return where ((char *)result)[0]"), [(Word::Result, "result".into())]);
}

#[test]
fn names_of_the_program_are_not_words() {
    for text in [
        "store x where p->newval - q.oldval > 1",
        "store x where (newval) > 1",
        "store x where ns::newval > 1",
        "store x where result > 1",
        "store x where arg0 > 1",
        "line where newval > oldval",
        "call f where result == 1",
        "return f where arg01 == 1",
        "return f where arg256 == 1",
        "line where (depth) > 1",
        "line where depth + 1 > 2",
        "line where thread->id == 2",
        "line where (time) == 3",
        "line where stack[0] == 1",
        "line where func(3)",
        "line where depth",
    ] {
        assert_eq!(words_in(text), [], "{text}");
    }
}

#[test]
fn expressions_know_where_they_were() {
    let text = "store  größe where  x->n > 3 and y";
    let search = search(text);
    let Event::Store(Some(Location::Expression(operand))) = search.event else {
        panic!("not a variable")
    };
    assert_eq!(&text[operand.span], "größe");
    let Some(Context::All(parts)) = search.context else { panic!("not joined") };
    let Context::Condition(Condition::Expression(first)) = &parts[0] else {
        panic!("not an expression")
    };
    assert_eq!(&text[first.span.clone()], "x->n > 3");
}

#[test]
fn moments_are_found_on_the_clock() {
    use retro_query::language::Clock;
    let clock = Clock { now: 7, last: None, end: 200 };
    for (text, expected) in [
        ("now", Some(7)),
        ("start", Some(0)),
        ("end", Some(200)),
        ("last", None),
        ("50%", Some(100)),
        ("100%", Some(200)),
        ("1k", Some(1000)),
    ] {
        let Query::Moment(moment) = query(text) else { panic!("{text} is not a moment") };
        assert_eq!(moment.on(&clock), expected, "{text}");
    }
    let whole = Clock { now: 0, last: Some(3), end: u64::MAX };
    assert_eq!(TimePoint::Part(TimePoint::WHOLE).on(&whole), Some(u64::MAX));
    assert_eq!(TimePoint::Last.on(&whole), Some(3));
}

#[test]
fn the_examples_of_the_manual_are_right() {
    let manual = include_str!("../../../../docs/query-language.md");
    let (_, examples) = manual.split_once("\n## Examples\n").expect("there are examples");
    let (examples, _) = examples.split_once("\n## ").expect("something follows");
    let queries: Vec<&str> =
        examples.lines().map(str::trim).filter(|line| line.starts_with("goto ")).collect();
    assert!(queries.len() > 10);
    for text in queries {
        query(text);
    }
}
