//! What is said of queries that are wrong, letter for letter.

use retro_query::language::{ParseError, Query};

fn check(table: &[(&str, &[&str])]) {
    for (text, expected) in table {
        match text.parse::<Query>() {
            Ok(query) => panic!("{text} was understood as {query}"),
            Err(error) => assert_eq!(error.to_string(), expected.join("\n"), "{text}"),
        }
    }
}

#[test]
fn parts_of_a_query() {
    check(&[
        (
            "",
            &[
                "expected a moment to go to, or a type of event to look for, found the end",
                "  ",
                "  ^ for example: goto end backward store counter",
            ],
        ),
        (
            "goto",
            &[
                "expected a moment to go to, or a type of event to look for, found the end",
                "  goto",
                "      ^ for example: goto end backward store counter",
            ],
        ),
        (
            "goto backward stroe x",
            &[
                "expected a type of event, found `stroe`",
                "  goto backward stroe x",
                "                ^^^^^ did you mean `store`?",
            ],
        ),
        (
            "goto bakward store x",
            &[
                "expected a moment, a direction or a type of event, found `bakward`",
                "  goto bakward store x",
                "       ^^^^^^^ did you mean `backward`?",
            ],
        ),
        (
            "goto form",
            &[
                "expected a moment, a direction or a type of event, found `form`",
                "  goto form",
                "       ^^^^ the order is: goto FROM DIRECTION TYPE OPERAND COUNT where CONTEXT",
            ],
        ),
        (
            "store x were y",
            &[
                "expected a count, `where` or the end of the query, found `were`",
                "  store x were y",
                "          ^^^^ did you mean `where`?",
            ],
        ),
        (
            "goto backward now store x",
            &[
                "expected a type of event, found `now`",
                "  goto backward now store x",
                "                ^^^ the order is: goto FROM DIRECTION TYPE OPERAND COUNT where CONTEXT",
            ],
        ),
        (
            "goto main",
            &[
                "expected a moment, a direction or a type of event, found `main`",
                "  goto main",
                "       ^^^^ the order is: goto FROM DIRECTION TYPE OPERAND COUNT where CONTEXT",
            ],
        ),
        ("store x 0", &["a count of 0 leads nowhere", "  store x 0", "          ^ 1 is the first"]),
        (
            "call f 99999999999999999999",
            &[
                "the count is larger than 18446744073709551615",
                "  call f 99999999999999999999",
                "         ^^^^^^^^^^^^^^^^^^^^",
            ],
        ),
        (
            "1.5x",
            &["expected a time such as `start`, `1.5M` or `50%`, found `1.5x`", "  1.5x", "  ^^^^"],
        ),
        ("101%", &["the part of the run is larger than 100%", "  101%", "  ^^^^"]),
        (
            "store x wher y",
            &[
                "expected a count, `where` or the end of the query, found `wher`",
                "  store x wher y",
                "          ^^^^ did you mean `where`?",
            ],
        ),
        (
            "store x and y",
            &[
                "expected a count, `where` or the end of the query, found `and`",
                "  store x and y",
                "          ^^^ conditions stand behind `where`",
            ],
        ),
        (
            "store x,8",
            &[
                "expected a variable or ADDRESS,LENGTH, found `,`",
                "  store x,8",
                "         ^ a length follows only an address that is a number",
            ],
        ),
        (
            "store 0x10,0",
            &[
                "0 bytes of memory can be neither read nor written",
                "  store 0x10,0",
                "             ^ 1 or more",
            ],
        ),
        (
            "store 0xfffffffffffffff0,32",
            &[
                "this goes past the end of the address space",
                "  store 0xfffffffffffffff0,32",
                "        ^^^^^^^^^^^^^^^^^^^^^ a shorter length is needed",
            ],
        ),
        ("store 0x10,x", &["expected a number, found `x`", "  store 0x10,x", "             ^"]),
        ("store 0xzz", &["expected a number, found `0xzz`", "  store 0xzz", "        ^^^^"]),
        ("store x +", &["a value is missing behind `+`", "  store x +", "          ^"]),
        (
            "store x 2 3",
            &[
                "expected a count, `where` or the end of the query, found `2`",
                "  store x 2 3",
                "          ^",
            ],
        ),
        (
            "call f<int",
            &[
                "this `<` is never closed",
                "  call f<int",
                "        ^ names with other characters are written in double quotes",
            ],
        ),
        (
            "call operator<",
            &[
                "this `<` is never closed",
                "  call operator<",
                "               ^ names with other characters are written in double quotes",
            ],
        ),
        (
            "call f<(>",
            &[
                "this `(` is never closed",
                "  call f<(>",
                "         ^ names with other characters are written in double quotes",
            ],
        ),
        (r#"call "abc"#, &["this text has no end", r#"  call "abc"#, "       ^^^^"]),
        (
            "line f.c:0",
            &[
                "there are no such lines",
                "  line f.c:0",
                "           ^ lines count from 1, the smaller one first",
            ],
        ),
        (
            "line f.c:9-3",
            &[
                "there are no such lines",
                "  line f.c:9-3",
                "           ^^^ lines count from 1, the smaller one first",
            ],
        ),
        (
            "line f.c:",
            &["expected the number of a line, found the end", "  line f.c:", "           ^"],
        ),
        (
            "line f.c:99999999999",
            &[
                "the line is larger than 4294967295",
                "  line f.c:99999999999",
                "           ^^^^^^^^^^^",
            ],
        ),
        (
            "syscall wirte",
            &[
                "there is no system call `wirte`",
                "  syscall wirte",
                "          ^^^^^ did you mean `write`?",
            ],
        ),
        (
            "signal SIGSEV",
            &[
                "there is no signal `SIGSEV`",
                "  signal SIGSEV",
                "         ^^^^^^ did you mean `SIGSEGV`?",
            ],
        ),
        (
            "signal sev",
            &["there is no signal `SEV`", "  signal sev", "         ^^^ did you mean `SEGV`?"],
        ),
        (
            "thread_start 7 8",
            &[
                "expected `where` or the end of the query, found `8`",
                "  thread_start 7 8",
                "                 ^ the order is: goto FROM DIRECTION TYPE OPERAND COUNT where CONTEXT",
            ],
        ),
        (
            "thread_start x",
            &[
                "expected a count, `where` or the end of the query, found `x`",
                "  thread_start x",
                "               ^ the order is: goto FROM DIRECTION TYPE OPERAND COUNT where CONTEXT",
            ],
        ),
        (
            "goto 5 6",
            &[
                "expected a direction or a type of event, found `6`",
                "  goto 5 6",
                "         ^ the order is: goto FROM DIRECTION TYPE OPERAND COUNT where CONTEXT",
            ],
        ),
        (
            "back 5 store x",
            &[
                "expected `where` or the end of the query, found `store`",
                "  back 5 store x",
                "         ^^^^^ the order is: goto FROM DIRECTION TYPE OPERAND COUNT where CONTEXT",
            ],
        ),
        (
            "call f: 3",
            &[
                "expected a count, `where` or the end of the query, found `:`",
                "  call f: 3",
                "        ^ the order is: goto FROM DIRECTION TYPE OPERAND COUNT where CONTEXT",
            ],
        ),
    ]);
}

#[test]
fn contexts() {
    check(&[
        ("store (x where y", &["this `(` is never closed", "  store (x where y", "        ^"]),
        ("line where", &["expected a condition, found the end", "  line where", "            ^"]),
        (
            "line where x and",
            &["expected a condition, found the end", "  line where x and", "                  ^"],
        ),
        (
            "line where and x",
            &["expected a condition, found `and`", "  line where and x", "             ^^^"],
        ),
        (
            "line where x adn y > 3",
            &[
                "expected `and`, `or` or the end of the query, found `adn`",
                "  line where x adn y > 3",
                "               ^^^ did you mean `and`?",
            ],
        ),
        (
            "line where x = 3",
            &[
                "`=` would change the program",
                "  line where x = 3",
                "               ^ write `==` to compare",
            ],
        ),
        (
            "line where x += 3",
            &[
                "`+=` would change the program",
                "  line where x += 3",
                "               ^^ only values can be looked at",
            ],
        ),
        (
            "line where (x = 3) + 1 == 2",
            &[
                "`=` would change the program",
                "  line where (x = 3) + 1 == 2",
                "                ^ write `==` to compare",
            ],
        ),
        (
            "line where x == 3 ? y : z",
            &[
                "`?` can be used only within parentheses",
                "  line where x == 3 ? y : z",
                "                    ^ put the whole `a ? b : c` in parentheses",
            ],
        ),
        (
            "line where x, y",
            &[
                "expected `and`, `or` or the end of the query, found `,`",
                "  line where x, y",
                "              ^",
            ],
        ),
        (
            "line where x)",
            &[
                "expected `and`, `or` or the end of the query, found `)`",
                "  line where x)",
                "              ^",
            ],
        ),
        (
            "line where (x and y",
            &["this `(` is never closed", "  line where (x and y", "             ^"],
        ),
        (
            "line where (x and y]",
            &["this `(` is never closed", "  line where (x and y]", "             ^"],
        ),
        (
            "line where f(a or b) == 3",
            &[
                "`or` joins conditions and cannot be part of an expression",
                "  line where f(a or b) == 3",
                "                 ^^ write `&&`, `||` and `!` within an expression",
            ],
        ),
        (
            "line where x > 3 not y",
            &[
                "expected `and`, `or` or the end of the query, found `not`",
                "  line where x > 3 not y",
                "                   ^^^",
            ],
        ),
        (
            "line where x where y",
            &[
                "expected `and`, `or` or the end of the query, found `where`",
                "  line where x where y",
                "               ^^^^^",
            ],
        ),
        (
            "line where newval >",
            &["a value is missing behind `>`", "  line where newval >", "                    ^"],
        ),
        (
            "store x where newval >",
            &[
                "a value is missing behind `>`",
                "  store x where newval >",
                "                       ^",
            ],
        ),
        (
            "store x where > 3",
            &["a value is missing before `>`", "  store x where > 3", "                ^"],
        ),
        (
            "store x where 1 < newval < 5",
            &[
                "`newval` can be compared with one thing at a time",
                "  store x where 1 < newval < 5",
                "                    ^^^^^^ join two comparisons with `and`",
            ],
        ),
        (
            "store x where newval == 3 & y",
            &[
                "`&` binds less tightly than the comparison of `newval`",
                "  store x where newval == 3 & y",
                "                            ^ put its operands in parentheses",
            ],
        ),
        (
            "store x where !newval == 3",
            &[
                "`!` before `newval` does not mean the whole comparison",
                "  store x where !newval == 3",
                "                ^ write `not`, or put the comparison in parentheses",
            ],
        ),
        (
            "line where 5 < time",
            &[
                "`time` stands on the left of a comparison",
                "  line where 5 < time",
                "                 ^^^^ write `time < 50%`, or `(time)` for a variable of the program",
            ],
        ),
        (
            "line where time < soon",
            &[
                "expected a time such as `start`, `1.5M` or `50%`, found `soon`",
                "  line where time < soon",
                "                    ^^^^ a variable called `time` is written `(time)`",
            ],
        ),
        (
            "line where time < strat",
            &[
                "expected a time such as `start`, `1.5M` or `50%`, found `strat`",
                "  line where time < strat",
                "                    ^^^^^ did you mean `start`?",
            ],
        ),
        (
            "line where stack = a",
            &[
                "expected `<`, as in `stack = <**, caller, callee>`, found `a`",
                "  line where stack = a",
                "                     ^ a variable called `stack` is written `(stack)`",
            ],
        ),
        (
            "line where stack = <",
            &[
                "expected a function, `*` for any one or `**` for any number, found the end",
                "  line where stack = <",
                "                      ^",
            ],
        ),
        (
            "line where stack = <a, b",
            &["this `<` is never closed", "  line where stack = <a, b", "                     ^"],
        ),
        (
            "line where stack = <a b>",
            &[
                "expected `,` or `>`, found `b`",
                "  line where stack = <a b>",
                "                        ^",
            ],
        ),
        (
            "line where stack = <a,>",
            &[
                "expected a function, `*` for any one or `**` for any number, found `>`",
                "  line where stack = <a,>",
                "                        ^",
            ],
        ),
        (
            "line where stack = <>",
            &[
                "expected a function, `*` for any one or `**` for any number, found `>`",
                "  line where stack = <>",
                "                      ^",
            ],
        ),
        (
            "line where src = <f.c, x>",
            &[
                "expected the number of a line, found `x`",
                "  line where src = <f.c, x>",
                "                         ^",
            ],
        ),
        (
            "line where src = <f.c, 7",
            &["this `<` is never closed", "  line where src = <f.c, 7", "                   ^"],
        ),
        (
            "line where func =",
            &[
                "expected the name of a function, found the end",
                "  line where func =",
                "                   ^ a variable called `func` is written `(func)`",
            ],
        ),
        (
            "line where func = f g",
            &[
                "expected `and`, `or` or the end of the query, found `g`",
                "  line where func = f g",
                "                      ^",
            ],
        ),
        (
            r#"line where "abc"#,
            &["this text has no end", r#"  line where "abc"#, "             ^^^^"],
        ),
        (
            "line where stack = <**, a, b> adn src = <foo.c, 7>",
            &[
                "expected `and`, `or` or the end of the query, found `adn`",
                "  line where stack = <**, a, b> adn src = <foo.c, 7>",
                "                                ^^^ did you mean `and`?",
            ],
        ),
        (
            "line where not",
            &["expected a condition, found the end", "  line where not", "                ^"],
        ),
        ("line where !", &["a value is missing behind `!`", "  line where !", "             ^"]),
        (
            "line where größe = 3 or größer",
            &[
                "`=` would change the program",
                "  line where größe = 3 or größer",
                "                   ^ write `==` to compare",
            ],
        ),
        (
            "line where x == \n  3 adn y",
            &[
                "expected `and`, `or` or the end of the query, found `adn`",
                "    3 adn y",
                "      ^^^ did you mean `and`?",
            ],
        ),
        (
            "line where x == and y",
            &["a value is missing behind `==`", "  line where x == and y", "               ^^"],
        ),
        (
            "line where x > 3 + and y",
            &[
                "a value is missing behind `+`",
                "  line where x > 3 + and y",
                "                   ^",
            ],
        ),
        (
            "store x 2 3 where y",
            &[
                "expected a count, `where` or the end of the query, found `2`",
                "  store x 2 3 where y",
                "          ^",
            ],
        ),
        (
            "line where (a or b",
            &["this `(` is never closed", "  line where (a or b", "             ^"],
        ),
        (
            "line where stack = <**, a, b> src = <foo.c, 7>",
            &[
                "expected `and`, `or` or the end of the query, found `src`",
                "  line where stack = <**, a, b> src = <foo.c, 7>",
                "                                ^^^",
            ],
        ),
    ]);
}

#[test]
fn errors_say_where_they_are() {
    let error: ParseError = "store größe where x adn y".parse::<Query>().expect_err("is wrong");
    assert_eq!(error.span, 22..25);
    assert_eq!(error.advice.as_deref(), Some("did you mean `and`?"));
}

#[test]
fn long_queries_are_shown_in_part() {
    let text = format!("line where {}z", "x and ".repeat(100) + "y yy and ".repeat(100).as_str());
    let shown = text.parse::<Query>().expect_err("is wrong").to_string();
    let expected = [
        "expected `and`, `or` or the end of the query, found `yy`",
        "  …and x and x and x and x and x and x and x and x and x and y yy and y yy and y yy and y yy and y yy a…",
        "                                                               ^^",
    ];
    assert_eq!(shown, expected.join("\n"));
}
