//! What is printed parses to what was printed.

use std::num::NonZeroU64;

use proptest::prelude::*;
use retro_query::language::*;

use crate::query;

fn name() -> impl Strategy<Value = Pattern> {
    prop_oneof![
        "[a-z_*?:.<>(), 0-9-]{1,12}".prop_map(|text| Pattern::new(&text)),
        "\\PC{1,8}".prop_map(|text| Pattern::exact(&text)),
        prop::sample::select(vec![
            "all", "where", "where.c", "and", "**", "f.c:7", ":7", "a\"b", "\\"
        ])
        .prop_map(Pattern::exact),
    ]
}

fn time_point() -> impl Strategy<Value = TimePoint> {
    prop_oneof![
        Just(TimePoint::Now),
        Just(TimePoint::Start),
        Just(TimePoint::End),
        Just(TimePoint::Last),
        any::<u64>().prop_map(TimePoint::Instructions),
        (0..=TimePoint::WHOLE).prop_map(TimePoint::Part),
    ]
}

fn lines() -> impl Strategy<Value = Lines> {
    (1..u32::MAX, 0..50u32)
        .prop_map(|(first, more)| Lines { first, last: first.saturating_add(more) })
}

fn source() -> impl Strategy<Value = Source> {
    (name(), prop::option::of(lines())).prop_map(|(file, lines)| Source { file, lines })
}

fn bytes() -> impl Strategy<Value = Bytes> {
    (any::<u64>(), 1..=u64::MAX).prop_map(|(address, length)| {
        // At least one byte, and not past the end.
        let room = u64::MAX - address;
        Bytes { address, length: length.min(room.saturating_add(1)) }
    })
}

/// Expressions in which all names are the program's.
fn expression() -> impl Strategy<Value = Expression> {
    let value = prop::sample::select(vec![
        "x",
        "p->n",
        "(depth)",
        "a[i + 1]",
        "*(int *)p",
        "!flag",
        "f(a, \"x and )\")",
        "3",
        "'a'",
        "(a && b) + 1",
        "(a ? b : c) * 2",
        "sizeof x",
        "$rax",
        "größe",
        "::x",
        "-1",
    ]);
    let operator = prop::sample::select(vec!["+", "==", " != ", " < ", "&", "%", " >> ", "|"]);
    (value.clone(), prop::collection::vec((operator, value), 0..3)).prop_map(|(first, more)| {
        let mut text = first.to_string();
        for (operator, value) in more {
            text.push_str(operator);
            // Not to make an operator longer.
            text.push(' ');
            text.push_str(value);
        }
        Expression { text, span: 0..0, words: Vec::new() }
    })
}

fn event() -> impl Strategy<Value = Event> {
    let callee = || {
        prop::option::of(prop_oneof![
            any::<u64>().prop_map(Callee::Address),
            name().prop_map(Callee::Named)
        ])
    };
    let place = || {
        prop::option::of(prop_oneof![
            any::<u64>().prop_map(Place::Address),
            (name(), lines())
                .prop_map(|(file, lines)| Place::Source(Source { file, lines: Some(lines) })),
            name().prop_map(Place::Function),
        ])
    };
    let location = || {
        prop::option::of(prop_oneof![
            bytes().prop_map(Location::Bytes),
            // A number alone is a count.
            expression()
                .prop_filter("a number", |expression| expression.text != "3")
                .prop_map(Location::Expression),
        ])
    };
    let mapping = prop::option::of(prop_oneof![
        bytes().prop_map(Mapping::Bytes),
        name().prop_map(Mapping::File)
    ]);
    let syscall = prop::sample::select(vec!["read", "*at", "?rite"]).prop_map(Pattern::new);
    let signal =
        prop::sample::select(vec!["SIGSEGV", "SIGRT*", "SIGRTMAX-3"]).prop_map(Pattern::new);
    prop_oneof![
        callee().prop_map(Event::FunctionEnter),
        callee().prop_map(Event::FunctionExit),
        place().prop_map(Event::BlockEntry),
        place().prop_map(Event::Instruction),
        prop::option::of(source()).prop_map(Event::Line),
        location().prop_map(Event::Store),
        location().prop_map(Event::Load),
        prop::option::of(syscall).prop_map(Event::Syscall),
        prop::option::of(signal).prop_map(Event::Signal),
        mapping.prop_map(Event::Map),
        Just(Event::ThreadStart),
        Just(Event::ThreadEnd),
    ]
}

fn comparison() -> impl Strategy<Value = Comparison> {
    prop::sample::select(vec![
        Comparison::Equal,
        Comparison::NotEqual,
        Comparison::Less,
        Comparison::LessOrEqual,
        Comparison::Greater,
        Comparison::GreaterOrEqual,
    ])
}

fn word(kind: EventKind) -> impl Strategy<Value = Word> {
    let words = [
        Word::Thread,
        Word::Depth,
        Word::Pc,
        Word::OldValue,
        Word::NewValue,
        Word::Result,
        Word::Argument(0),
        Word::Argument(255),
    ];
    prop::sample::select(words.into_iter().filter(|word| word.belongs_to(kind)).collect::<Vec<_>>())
}

fn operand(kind: EventKind) -> impl Strategy<Value = Operand> {
    prop_oneof![
        any::<i64>().prop_map(|value| Operand::Integer(value.into())),
        any::<u64>().prop_map(|value| Operand::Integer(value.into())),
        word(kind).prop_map(Operand::Word),
        // Comparisons and looser operators need brackets; numbers would be integers.
        expression().prop_map(|Expression { text, .. }| {
            let text = format!("*({text})");
            Operand::Expression(Expression { text, span: 0..0, words: Vec::new() })
        }),
    ]
}

fn stack() -> impl Strategy<Value = StackPattern> {
    let element = prop_oneof![Just(StackElement::Frames), name().prop_map(StackElement::Frame)];
    prop::collection::vec(element, 1..5).prop_map(|elements| StackPattern { elements })
}

fn context(kind: EventKind) -> impl Strategy<Value = Context> {
    let condition = prop_oneof![
        stack().prop_map(Condition::Stack),
        source().prop_map(Condition::Source),
        name().prop_map(Condition::Function),
        (comparison(), time_point()).prop_map(|(how, point)| Condition::Time(how, point)),
        (word(kind), comparison(), operand(kind))
            .prop_map(|(word, how, operand)| Condition::Compare(word, how, operand)),
        expression().prop_map(Condition::Expression),
    ];
    condition.prop_map(Context::Condition).prop_recursive(5, 32, 4, |part| {
        prop_oneof![
            prop::collection::vec(part.clone(), 1..4).prop_map(Context::all_of),
            prop::collection::vec(part.clone(), 1..4).prop_map(Context::any_of),
            part.prop_map(|part| Context::Not(Box::new(part))),
        ]
    })
}

fn any_query() -> impl Strategy<Value = Query> {
    let direction = prop_oneof![Just(Direction::Forward), Just(Direction::Backward)];
    let count = prop_oneof![
        Just(Count::All),
        (1..=u64::MAX).prop_map(|count| Count::Nth(NonZeroU64::new(count).expect("not zero")))
    ];
    let search = (time_point(), direction, event(), count).prop_flat_map(
        |(from, direction, event, count)| {
            let contexts = prop::option::of(context(event.kind()));
            contexts.prop_map(move |context| {
                let event = event.clone();
                Query::Search(Search { from, direction, event, count, context })
            })
        },
    );
    prop_oneof![1 => time_point().prop_map(Query::Moment), 9 => search]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn what_is_printed_parses_to_what_was_printed(expected in any_query()) {
        let text = expected.to_string();
        prop_assert_eq!(query(&text), expected, "{}", text);
    }
}
