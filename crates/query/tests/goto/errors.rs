//! Queries without an answer say why.

use retro_query::language::Query;
use retro_query::{Cancel, Error, Goto, GotoContext};

use crate::scene::Scene;

#[test]
fn what_is_unknown_is_told() {
    let scene = Scene::new("unknown", &["-O0"]);
    let error = |query: &str| {
        let answer = scene.goto(query).and_then(|goto| match goto {
            Goto::All(mut all) => all.next().transpose(),
            Goto::Found(found) => Ok(found),
            Goto::Moment(_) => Ok(None),
        });
        match answer {
            Ok(found) => panic!("{query}: {found:?}"),
            Err(error) => error,
        }
    };
    for (query, part) in [
        ("goto end func_enter nosuch", "no function `nosuch`"),
        ("goto end func_exit nosuch", "no function `nosuch`"),
        ("goto end instruction where func = nosuch", "no function `nosuch`"),
        ("goto end line nosuch.c:7", "`nosuch.c`"),
        ("goto end line nosuch.c", "`nosuch.c`"),
        ("goto end line scene.c:1", "next line with code is"),
        ("goto end line scene.c:99999", "no code"),
        ("goto end store nosuch", "`nosuch`"),
        ("goto end store account.nosuch", "no member `nosuch`"),
        ("goto end store 3 + counter", "not in memory"),
        (
            "goto end func_enter b where nosuch == 3",
            "`nosuch` means nothing at any of the 11 events",
        ),
        ("goto end func_enter b all where nosuch == 3", "`nosuch` means nothing"),
        ("goto end func_enter b where $nosuch == 3", "$nosuch"),
        ("goto end func_enter b where account.nosuch == 3", "no member"),
        ("goto end func_enter b where step + == 3", "a value is expected"),
        ("goto 99999999999", "no time 99999999999"),
        ("goto 99999999999 store counter", "no time 99999999999"),
        ("goto last store counter", "last result"),
        ("goto end func_exit 0x1", "0x1"),
        ("goto end store text where newval == 3", "are numbers, and a `char [16]` is none"),
    ] {
        let told = error(query).to_string();
        assert!(told.contains(part), "{query}: {told}");
    }
}

#[test]
fn what_is_not_visible_everywhere_is_no_error() {
    let scene = Scene::new("scopes", &["-O0"]);
    // `before` is a variable of `b` alone; `step` of `a` and `b`.
    let seen = scene.times("instruction", "where func = b and before == 45 and step == 100");
    assert!(!seen.is_empty());
    assert_eq!(
        scene.find("goto end func_enter a where before == 45 or step == 3").map(|_| ()),
        Some(())
    );
    // The negation of what has no value does not hold.
    assert!(scene.goto("goto end func_enter a where not before == 45").is_err());
    // Pointers that lead nowhere.
    assert_eq!(
        scene.find("goto end func_enter b where *(int *)8 == 3 or 1 / (step - step) == 1"),
        None
    );
}

#[test]
fn searches_can_be_stopped() {
    let scene = Scene::new("stopped", &["-O0"]);
    let cancel = Cancel::new();
    let context =
        GotoContext { log: scene.log, now: scene.end(), last: None, thread: None, frame: 0 };
    let query: Query = "goto start instruction all where counter == 3".parse().unwrap();
    let Ok(Goto::All(mut all)) = scene.run.goto(&query, &context, &cancel) else {
        panic!("a list");
    };
    assert!(all.next().unwrap().is_ok());
    cancel.cancel();
    assert!(matches!(all.next(), Some(Err(Error::Cancelled))));
    assert!(all.next().is_none());
    let query: Query = "goto end store counter".parse().unwrap();
    assert!(matches!(scene.run.goto(&query, &context, &cancel), Err(Error::Cancelled)));
}
