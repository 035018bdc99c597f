//! Nothing that anybody sends does harm.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use retro_query::language::{LENGTH_LIMIT, NESTING_LIMIT, ParseError, Problem, Query};

use crate::query;

/// Parses, in a time that only something quadratic would need, and shows what is wrong.
fn parse(text: &str) -> Result<Query, ParseError> {
    let begin = Instant::now();
    let parsed: Result<Query, ParseError> = text.parse();
    if let Err(error) = &parsed {
        assert!(error.to_string().len() < 2000);
    }
    assert!(begin.elapsed() < Duration::from_secs(5), "{} bytes took too long", text.len());
    parsed
}

fn problem(text: &str) -> Problem {
    parse(text).expect_err("is wrong").problem
}

#[test]
fn long_queries_are_refused() {
    assert_eq!(problem(&"x".repeat(1 << 20)), Problem::TooLong);
    assert_eq!(problem(&" ".repeat(LENGTH_LIMIT + 1)), Problem::TooLong);
    let longest = format!("where {}", "x".repeat(LENGTH_LIMIT - 6));
    assert!(parse(&longest).is_ok());
}

#[test]
fn deep_nesting_is_refused() {
    for (opening, inner, closing) in [
        ("(", "x", ")"),
        ("not ", "x", ""),
        ("!", "(x)", ""),
        ("!(", "x", ")"),
        ("f[", "x", "]"),
        ("1 + (", "x", ")"),
        ("not (y and ", "x", ")"),
    ] {
        let nested = |depth: usize| {
            format!("where {}{inner}{}", opening.repeat(depth), closing.repeat(depth))
        };
        assert!(parse(&nested(20)).is_ok(), "{opening}");
        let deep = query(&nested(20));
        assert_eq!(query(&deep.to_string()), deep);
        for depth in [NESTING_LIMIT + 1, 5_000] {
            assert_eq!(problem(&nested(depth)), Problem::TooDeep, "{opening}");
        }
    }
    let name = format!("call {}x{}", "f<".repeat(100), ">".repeat(100));
    assert_eq!(problem(&name), Problem::TooDeep);
}

#[test]
fn no_repetition_takes_long() {
    for piece in [
        "(",
        ")",
        "[",
        "<",
        ">",
        "!",
        "\"",
        "'",
        "\\",
        "not ",
        "and ",
        "x and ",
        "(x) and ",
        "!x and ",
        "(x)",
        "!(x) or ",
        "stack = <",
        "a<",
        "**,",
        "x ",
        "x > ",
        "= ",
        "time < ",
        "1,234",
        "9",
        "_",
        "where ",
        "\n",
        "ü",
        "?",
        "x ? ",
        "(func = ",
        "newval + ",
        "\u{202e}",
        "\0",
    ] {
        for prefix in ["", "store ", "call ", "line where ", "store x where stack = <", "syscall "]
        {
            let room = LENGTH_LIMIT - prefix.len();
            let text = format!("{prefix}{}", piece.repeat(room / piece.len()));
            let _ = parse(&text);
        }
    }
}

#[test]
fn wide_queries_are_fine() {
    let wide = format!("store x where {}newval > 3", "(a or b) and ".repeat(4_000));
    let wide = parse(&wide).expect("is right");
    assert_eq!(query(&wide.to_string()), wide);
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,80}") {
        let _ = parse(&text);
    }

    #[test]
    fn no_mixture_of_tokens_makes_it_panic(
        pieces in prop::collection::vec(
            prop::sample::select(vec![
                "goto", "now", "50", "%", "1,234", "back", "store", "call", "line", "where", "and",
                "or", "not", "!", "(", ")", "<", ">", "<<", "[", "]", "{", "}", "**", "*", ",", ":7",
                "=", "==", "!=", ">=", "&&", "||", "&", "?", ":", "\"", "'", "\\", "x", "f.c", "stack",
                "src", "func", "time", "thread", "newval", "oldval", "result", "arg0", "0x10", "-", "ü",
                "\n", "all", "2nd", "sizeof", "->", "::", "signal", "syscall", "map", "write",
            ]),
            0..24,
        ),
        spaced in any::<bool>(),
    ) {
        let text = pieces.join(if spaced { " " } else { "" });
        if let Ok(parsed) = parse(&text) {
            prop_assert_eq!(query(&parsed.to_string()), parsed);
        }
    }
}
