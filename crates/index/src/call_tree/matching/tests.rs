use proptest::prelude::*;

use super::*;
use crate::frames::fields::Fields;

#[derive(Clone, Copy, Debug)]
enum Happening {
    Call(u64),
    Return(u64),
}
use Happening::{Call, Return};

const STACK: u64 = 0x7fff_0000;
const OTHER: u64 = 0x1000_0000;

/// The parentheses of some events: `(` and `)`, `[` for frames that are open again.
fn check(happenings: &[Happening], expected: &str) -> Matcher {
    let mut matcher = Matcher::default();
    let mut found = String::new();
    happenings.iter().for_each(|happening| feed(&mut matcher, *happening, &mut found));
    assert_eq!(found, expected);
    matcher
}

fn feed(matcher: &mut Matcher, happening: Happening, found: &mut String) {
    let emit = |parenthesis| {
        found.push(match parenthesis {
            Parenthesis::Open { resumed: false, .. } => '(',
            Parenthesis::Open { resumed: true, .. } => '[',
            Parenthesis::Close => ')',
        });
    };
    match happening {
        Call(slot) => matcher.call(slot, 0x40_0000 + slot % 7, emit),
        Return(slot) => matcher.returned(slot, emit),
    }
}

#[test]
fn calls_and_returns_nest() {
    let matcher = check(
        &[
            Call(STACK),
            Call(STACK - 64),
            Return(STACK - 64),
            Call(STACK - 32),
            Return(STACK - 32),
            Return(STACK),
        ],
        "(()())",
    );
    assert_eq!(matcher.open_frames(), 0);
    assert_eq!(matcher.unmatched_returns(), 0);
}

#[test]
fn a_return_closes_the_frames_that_it_skips() {
    check(&[Call(STACK), Call(STACK - 64), Call(STACK - 128), Return(STACK)], "((()))");
}

#[test]
fn a_call_closes_the_frames_that_were_left_by_a_jump() {
    let matcher =
        check(&[Call(STACK), Call(STACK - 64), Call(STACK - 128), Call(STACK - 64)], "((())(");
    assert_eq!(matcher.open_frames(), 2);
}

#[test]
fn a_return_used_as_a_jump_is_no_parenthesis() {
    let matcher =
        check(&[Call(STACK), Return(STACK - 128), Call(STACK - 64), Return(STACK - 64)], "(()");
    assert_eq!(matcher.unmatched_returns(), 1);
}

#[test]
fn a_return_between_frames_ends_those_below_it() {
    check(
        &[Call(STACK), Call(STACK - 64), Call(STACK - 128), Return(STACK - 96), Return(STACK - 64)],
        "((())",
    );
}

#[test]
fn frames_from_before_the_volume_are_closed() {
    check(
        &[
            Return(STACK),
            Call(STACK),
            Call(STACK - 64),
            Return(STACK + 256),
            Return(STACK + (1 << 20)),
        ],
        ")(())))",
    );
}

#[test]
fn a_jump_is_not_taken_for_a_frame_from_before_the_volume() {
    check(&[Call(STACK), Return(STACK), Return(STACK - 8), Return(STACK)], "()");
}

#[test]
fn a_handler_on_an_alternate_stack_is_nested() {
    check(
        &[
            Call(STACK),
            Call(OTHER - 64),
            Call(OTHER - 128),
            Return(OTHER - 128),
            Return(OTHER - 64),
            // The return of the handler itself, which the kernel had called.
            Return(OTHER - 8),
            Call(STACK - 64),
            Return(STACK - 64),
            Return(STACK),
        ],
        "((())())",
    );
}

#[test]
fn a_jump_out_of_a_handler_closes_its_frames() {
    check(
        &[
            Call(STACK),
            Call(OTHER - 64),
            Call(OTHER - 128),
            Return(STACK),
            Call(STACK),
            Call(OTHER - 64),
        ],
        "((()))((",
    );
}

#[test]
fn a_generator_is_resumed_where_it_was() {
    check(
        &[
            Call(STACK),       // main
            Call(STACK - 64),  // resume
            Call(OTHER - 64),  // body
            Call(OTHER - 128), // yield
            Return(STACK - 64),
            Call(STACK - 64), // resume
            Return(OTHER - 128),
            Call(OTHER - 128), // yield
            Return(STACK - 64),
            Return(STACK),
        ],
        "(((()))([())))",
    );
}

#[test]
fn a_large_frame_changes_nothing() {
    let far = STACK - (1 << 20);
    check(
        &[
            Call(STACK),
            Call(far),
            Call(far - 64),
            Return(far - 64),
            Return(far),
            Call(far),
            Return(far),
            Return(STACK),
        ],
        "((())())",
    );
}

#[test]
fn coroutines_in_a_circle_stay_shallow() {
    let mut matcher = Matcher::default();
    let mut found = String::new();
    feed(&mut matcher, Call(STACK), &mut found);
    for turn in 0..1000u64 {
        let stack = OTHER + (turn % 100) * (1 << 20);
        feed(&mut matcher, Call(stack), &mut found);
        feed(&mut matcher, Call(stack - 64), &mut found);
        assert!(matcher.open_frames() <= 1 + 2 * MAX_NESTED);
    }
    feed(&mut matcher, Return(STACK), &mut found);
    assert_eq!(matcher.open_frames(), 0);
    let opens = found.chars().filter(|&parenthesis| parenthesis != ')').count();
    assert_eq!(opens * 2, found.len());
}

#[test]
fn stacks_without_end_are_forgotten() {
    let mut matcher = Matcher::default();
    let mut found = String::new();
    for turn in 0..10_000u64 {
        feed(&mut matcher, Call(OTHER + turn * (1 << 20)), &mut found);
    }
    assert!(matcher.suspended.len() <= MAX_SUSPENDED);
}

#[test]
fn frames_beyond_the_limit_are_as_from_before_the_volume() {
    let mut matcher = Matcher::default();
    let top = 1u64 << 40;
    let mut excess = 0i64;
    let mut count = |parenthesis| excess += if parenthesis == Parenthesis::Close { -1 } else { 1 };
    let frames = MAX_FRAMES as u64 + 10;
    (0..frames).for_each(|frame| matcher.call(top - 16 * frame, 1, &mut count));
    assert!(matcher.open_frames() <= MAX_FRAMES);
    (0..frames).rev().for_each(|frame| matcher.returned(top - 16 * frame, &mut count));
    assert_eq!(excess, 0);
}

fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    let slot = (0u64..4, 0u64..40).prop_map(|(stack, slot)| OTHER + stack * 0x30_000 + slot * 8);
    let happening =
        (any::<bool>(), slot).prop_map(|(call, slot)| if call { Call(slot) } else { Return(slot) });
    proptest::collection::vec(happening, 0..300)
}

proptest! {
    /// A state that was saved in pieces goes on as the one that it was saved from.
    #[test]
    fn saved_states_go_on(
        happenings in happenings(),
        cuts in proptest::collection::vec((0usize..300, any::<bool>()), 1..6),
    ) {
        let mut matcher = Matcher::default();
        let mut copy = Matcher::default();
        let mut whole = true;
        for (index, happening) in happenings.into_iter().enumerate() {
            if let Some(cut) = cuts.iter().find(|cut| cut.0 == index) {
                let mut bytes = Vec::new();
                matcher.save(&mut bytes, whole || cut.1);
                whole = false;
                let mut fields = Fields::new(&bytes);
                copy = copy.load(&mut fields).expect("what was saved is loaded");
                prop_assert!(fields.is_empty());
                prop_assert_eq!(&copy, &matcher);
                let mut ahead = (copy.clone(), String::new());
                let mut original = (matcher.clone(), String::new());
                feed(&mut ahead.0, happening, &mut ahead.1);
                feed(&mut original.0, happening, &mut original.1);
                prop_assert_eq!(ahead, original);
            }
            feed(&mut matcher, happening, &mut String::new());
        }
    }

    /// The ranges of stacks are apart, frames are in order, and the number of open frames is the excess but for
    /// closes of frames from before.
    #[test]
    fn invariants_hold(happenings in happenings()) {
        let mut matcher = Matcher::default();
        let mut found = String::new();
        for happening in happenings {
            feed(&mut matcher, happening, &mut found);
            let mut ranges = Vec::new();
            for (_, stack) in matcher.places() {
                prop_assert!(stack.frames.is_sorted_by(|older, newer| older.slot > newer.slot));
                ranges.push((stack.lowest(), stack.highest));
            }
            ranges.sort();
            prop_assert!(ranges.is_sorted_by(|one, next| one.1 < next.0), "{ranges:x?}");
            let mut open = 0usize;
            for parenthesis in found.chars() {
                open = if parenthesis == ')' { open.saturating_sub(1) } else { open + 1 };
            }
            prop_assert_eq!(open, matcher.open_frames());
        }
    }

    #[test]
    fn hostile_states_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(mut matcher) = Matcher::default().load(&mut Fields::new(&bytes)) {
            feed(&mut matcher, Call(STACK), &mut String::new());
            feed(&mut matcher, Return(STACK), &mut String::new());
        }
    }
}
