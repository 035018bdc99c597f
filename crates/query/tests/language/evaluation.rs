//! Whether contexts hold, and what is asked to find out.

use retro_query::language::{Cost, Value};

use crate::scene::Scene;
use crate::search;

fn holds_in(scene: &mut Scene, event: &str, context: &str) -> Result<bool, String> {
    let context = search(&format!("{event} where {context}")).context.expect("there is one");
    context.holds(scene)
}

fn check(event: &str, table: &[(&str, bool)]) {
    for (context, expected) in table {
        assert_eq!(holds_in(&mut Scene::new(), event, context), Ok(*expected), "{context}");
    }
}

#[test]
fn conditions_hold_or_not() {
    check(
        "store x",
        &[
            ("yes", true),
            ("no", false),
            ("half", true),
            ("text", true),
            ("time == 500", true),
            ("time > 50%", false),
            ("time >= 50%", true),
            ("time < now and time > start", true),
            ("thread = 3", true),
            ("thread != 3", false),
            ("depth == 3", true),
            ("pc == 0x401136", true),
            ("func = parse_*", true),
            ("func = ns::*", true),
            ("func = parse", false),
            ("src = <parse.c, 7>", true),
            ("src = <parse.c, 5-6>", false),
            ("src = <src/*.c>", true),
            ("stack = <**, run, parse_line>", true),
            ("stack = <run, parse_line>", false),
            ("stack != <run, parse_line>", true),
            ("newval == 42", true),
            ("newval > oldval", true),
            ("newval > seven", true),
            ("newval < half", false),
            ("oldval < half", true),
            ("newval - oldval > 48", true),
        ],
    );
}

#[test]
fn what_is_unknown_holds_as_little_as_its_negation() {
    check(
        "return f",
        &[
            ("away", false),
            ("not away", false),
            ("away and yes", false),
            ("not (away and yes)", false),
            ("not (away and no)", true),
            ("away or yes", true),
            ("away or no", false),
            ("result == 1", false),
            ("result != 1", false),
            ("result + 1 == 2", false),
            ("arg2 == 1", false),
            ("arg0 == 1", false),
            ("not arg0 == 1", false),
            ("arg0 == text", false),
            ("arg0 != text", true),
            ("arg1 == 5", true),
            ("f(arg0, arg1)", true),
        ],
    );
}

#[test]
fn cheap_conditions_come_first_and_no_more_are_asked_for_than_needed() {
    for (context, expected, asked) in [
        ("stack = <**, nobody> and yes and func = f and time > 900", false, vec!["time"]),
        ("stack = <**> or yes or thread = 3", true, vec!["thread"]),
        ("yes and func = parse_line", true, vec!["function", "yes"]),
        ("(yes or stack = <**>) and (no or thread = 4)", false, vec!["thread", "no"]),
        ("stack = <**, parse_line>", true, vec!["frame 0"]),
        ("stack = <**, main, parse_line>", false, vec!["frame 0", "frame 1"]),
        ("no and nonsense", false, vec!["no"]),
    ] {
        let mut scene = Scene::new();
        assert_eq!(holds_in(&mut scene, "store x", context), Ok(expected), "{context}");
        assert_eq!(scene.asked, asked, "{context}");
    }
}

#[test]
fn errors_end_the_search() {
    let mut scene = Scene::new();
    assert_eq!(holds_in(&mut scene, "line", "nonsense"), Err("there is no nonsense".into()));
    assert_eq!(
        holds_in(&mut scene, "line", "not (time < last)"),
        Err("there is no last result".into())
    );
}

#[test]
fn numbers_that_are_none_differ_from_all() {
    use retro_query::language::Comparison;
    let (none, one) = (Value::Float(f64::NAN), Value::Integer(1));
    assert_eq!(none.compared(Comparison::NotEqual, &one), Some(true));
    assert_eq!(none.compared(Comparison::Equal, &none), Some(false));
    assert_eq!(one.compared(Comparison::Less, &none), Some(false));
}

#[test]
fn the_dearest_condition_sets_the_cost() {
    for (context, cost) in [
        ("time > 3 and thread = 1", Cost::Event),
        ("not (func = f or pc == 3)", Cost::Names),
        ("newval > 3", Cost::Index),
        ("newval > x", Cost::State),
        ("x or stack = <**>", Cost::Stack),
    ] {
        let context = search(&format!("store y where {context}")).context.expect("there is one");
        assert_eq!(context.cost(), cost, "{context}");
    }
}
