//! Whatever the parameters are, every method answers, and soon.

use std::cell::Cell;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};
use retro_server::{MethodError, schema_document};
use serde_json::{Map, Value, json};

use crate::recorded::{Recorded, at, ledger};

/// No question about 283 instructions takes longer, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

fn methods(recorded: &Recorded) -> Vec<(String, Vec<String>)> {
    let schema = schema_document(recorded.service());
    let methods = schema["methods"].as_object().unwrap();
    let built_in = ["system.describe", "authenticate", "$/cancel"];
    let own = methods.iter().filter(|(name, _)| !built_in.contains(&name.as_str()));
    let described = own.map(|(name, method)| {
        let reference = method["params"]["$ref"].as_str().unwrap();
        let params = schema.pointer(&reference[1..]).unwrap();
        let names = params["properties"].as_object().map(|all| all.keys().cloned().collect());
        (name.clone(), names.unwrap_or_default())
    });
    described.collect()
}

fn ask(recorded: &Recorded, method: &str, params: Value) -> Result<Value, MethodError> {
    let begun = Instant::now();
    let shown: String = format!("{method} {params}").chars().take(300).collect();
    let answer = recorded.try_ask(method, params);
    assert!(begun.elapsed() < PATIENCE, "{shown} took {:?}", begun.elapsed());
    answer
}

/// Numbers at which something may go wrong.
fn edges() -> Vec<u64> {
    let powers = (0..64).step_by(4).map(|bit| 1 << bit);
    let near = [0, 1, 2, 99, 100, 101, 281, 282, 283, 284, 0x401000, 0x403000, 0x17ff_ffff_f000];
    powers.chain(near).chain([u64::MAX, u64::MAX - 1, u64::MAX - 4095, i64::MAX as u64]).collect()
}

fn texts() -> Vec<&'static str> {
    vec![
        "",
        "*",
        "**",
        "total",
        "accounts",
        "accounts[1]",
        "*accounts@1000000",
        "transfer",
        "ledger.c",
        "/etc/passwd",
        "../ledger.c",
        "\0",
        "ä",
        "hex",
        "base64",
        "forward",
        "backward",
        "line",
        "out",
        "x",
        "at_call",
        "none",
        "start",
        "end",
        "SIGUSR1",
        "write",
        "0x",
        "0x403000",
        "0xffffffffffffffff",
        "(((((((((((((((((",
        "end backward store total",
        "start forward instruction all",
        "accounts[99999999999]",
        "&*&*&accounts",
        "start forward func_enter all where depth > 0",
        "*(char (*)[9999999999])accounts",
        "1/0",
        "!!!!",
    ]
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        3 => select(edges()).prop_map(|number| json!(number)),
        3 => select(edges()).prop_map(|number| json!(format!("{number:#x}"))),
        4 => select(texts()).prop_map(|text| json!(text)),
        1 => any::<i64>().prop_map(|number| json!(number)),
        1 => any::<f64>().prop_map(|number| json!(number)),
        1 => any::<bool>().prop_map(|truth| json!(truth)),
        1 => Just(Value::Null),
        1 => ".{0,20}".prop_map(|text| json!(text)),
    ];
    leaf.prop_recursive(2, 8, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(".{0,4}", inner, 0..3)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Parameters with the right names; process and time are good more often than not.
fn params(names: Vec<String>) -> impl Strategy<Value = Value> {
    let count = names.len().min(6);
    let others = prop::collection::vec(
        (select(if names.is_empty() { vec![String::new()] } else { names.clone() }), any_value()),
        0..=count,
    );
    let time = prop_oneof![3 => (0u64..=283).prop_map(|time| json!(time)), 1 => any_value()];
    let has_moment = names.iter().any(|name| name == "process");
    (others, time).prop_map(move |(others, time)| {
        let mut all = Map::new();
        if has_moment {
            all.insert("process".to_owned(), json!(0));
            all.insert("time".to_owned(), time);
        }
        for (name, value) in others {
            if name != "process" && name != "time" || value.is_object() {
                all.insert(name, value);
            }
        }
        Value::Object(all)
    })
}

#[test]
fn no_parameters_make_a_method_panic() {
    const CASES: u32 = 64;
    let recorded = ledger();
    let (mut asked, mut answered) = (0, 0);
    for (method, names) in methods(recorded) {
        let mut runner = TestRunner::new(Config {
            cases: CASES,
            failure_persistence: None,
            ..Config::default()
        });
        let strategy = prop_oneof![8 => params(names), 1 => any_value()];
        let answers = Cell::new(0);
        let outcome = runner.run(&strategy, |params| {
            // Any answer will do, and any error.
            answers.set(answers.get() + u32::from(ask(recorded, &method, params).is_ok()));
            Ok(())
        });
        asked += CASES;
        answered += answers.get();
        if let Err(error) = outcome {
            panic!("{method}: {error}");
        }
    }
    // Parameters that are all refused would not say much.
    assert!(answered > asked / 20, "{answered} of {asked}");
}

#[track_caller]
fn refused(method: &str, params: Value) -> MethodError {
    let recorded = ledger();
    ask(recorded, method, params).expect_err("this has no answer")
}

#[test]
fn every_method_refuses_what_is_no_moment() {
    for (method, names) in methods(ledger()) {
        if !names.iter().any(|name| name == "time") {
            continue;
        }
        let required = |mut params: Value| {
            let others = match method.as_str() {
                "memory.read" | "memory.last_writes" => {
                    json!({ "address": "0x403000", "length": 1 })
                }
                "memory.last_write_of_each" => json!({ "ranges": [] }),
                "evaluate" | "expand" => json!({ "expression": "total" }),
                "symbols.functions" => json!({ "name": "sum" }),
                "symbols.search" | "symbols.files" | "symbols.types" => json!({ "text": "sum" }),
                "executions.count" => json!({ "function": "sum" }),
                "lines.counts" => json!({ "file": "ledger.c", "first": 1 }),
                "symbols.line" => json!({ "file": "ledger.c", "line": 1 }),
                "source.read" => json!({ "path": "ledger.c" }),
                "locate.writes" | "locate.executions" => json!({ "address": "0x403000" }),
                "locate.calls" | "locate.returns" => json!({ "function": "sum" }),
                "goto" => json!({ "query": "end" }),
                _ => json!({}),
            };
            params.as_object_mut().unwrap().extend(others.as_object().unwrap().clone());
            params
        };
        let kind = |params: Value| match refused(&method, required(params)) {
            MethodError::Failed { kind, .. } => kind,
            other => panic!("{method}: {other:?}"),
        };
        for time in [284, 1 << 40, u64::MAX] {
            assert_eq!(
                kind(json!({ "process": 0, "time": time })),
                "time_out_of_range",
                "{method}"
            );
        }
        for process in [1, 1 << 40, u64::MAX] {
            assert_eq!(
                kind(json!({ "process": process, "time": 0 })),
                "no_such_process",
                "{method}"
            );
        }
        for wrong in [
            json!({ "process": 0 }),
            json!({ "process": 0, "time": -1 }),
            json!({ "process": "0", "time": 0 }),
        ] {
            let error = refused(&method, required(wrong));
            assert!(matches!(error, MethodError::InvalidParams(_)), "{method}: {error:?}");
        }
        let misspelt = refused(&method, required(json!({ "process": 0, "time": 0, "tread": 1 })));
        assert!(matches!(misspelt, MethodError::InvalidParams(_)), "{method}: {misspelt:?}");
    }
}

#[test]
fn huge_requests_are_refused_at_once() {
    let long = "(".repeat(1 << 20);
    let many = u64::MAX;
    for (method, params) in [
        ("memory.read", json!({ "address": 0, "length": many })),
        ("memory.last_writes", json!({ "address": 0, "length": many })),
        ("memory.last_writes", json!({ "address": "0xffffffffffffffff", "length": 2 })),
        ("locate.writes", json!({ "address": "0xffffffffffffffff", "length": 2 })),
        ("locate.writes", json!({ "address": 0, "length": 0 })),
        ("stack", json!({ "limit": u32::MAX })),
        ("locals", json!({ "frame": u32::MAX })),
        ("locals", json!({ "frame": 9 })),
        ("globals", json!({ "frame": 9 })),
        ("evaluate", json!({ "expression": long })),
        ("evaluate", json!({ "expression": "1+".repeat(1 << 19) })),
        ("expand", json!({ "expression": "total", "path": vec![0; 10_000] })),
        ("expand", json!({ "expression": "total", "limit": u32::MAX })),
        ("step", json!({ "count": u32::MAX })),
        ("goto", json!({ "query": long })),
        ("goto", json!({ "query": "not ".repeat(10_000) })),
        ("symbols.functions", json!({ "name": long })),
        ("symbols.search", json!({ "text": "x", "limit": u32::MAX })),
        ("disassemble", json!({ "count": u32::MAX })),
        ("source.read", json!({ "path": "ledger.c", "first": 0 })),
        ("locate.syscalls", json!({ "nth": many })),
        ("locate.syscalls", json!({ "limit": 0 })),
        ("locate.syscalls", json!({ "cursor": "00" })),
        ("registers", json!({ "thread": u32::MAX })),
    ] {
        refused(method, at(100, params));
    }
}

#[test]
fn only_sources_of_the_program_are_read() {
    for path in ["/etc/passwd", "/etc/hostname", "", "/", "ledger.s", "../ledger.c"] {
        refused("source.read", json!({ "process": 0, "time": 0, "path": path }));
    }
}
