//! What the ledger did, as its source says: answers are right, and pages fit together.

use serde_json::{Value, json};

use crate::recorded::{Recorded, ledger, workers};

/// All items of a paged method.
fn all_pages(recorded: &Recorded, method: &str, params: &Value, limit: u64) -> Vec<Value> {
    let mut all = Vec::new();
    let mut cursor = Value::Null;
    loop {
        let mut params = params.clone();
        params["limit"] = json!(limit);
        if cursor.is_string() {
            params["cursor"] = cursor;
        }
        let page = recorded.ask(method, params);
        let items = page["items"].as_array().unwrap();
        assert!(items.len() as u64 <= limit);
        all.extend(items.iter().cloned());
        match page.get("next") {
            Some(next) => cursor = next.clone(),
            None => return all,
        }
    }
}

fn times(items: &[Value]) -> Vec<u64> {
    items.iter().map(|item| item["time"].as_u64().unwrap()).collect()
}

#[test]
fn calls_have_their_arguments_and_results() {
    let ledger = ledger();
    let found =
        ledger.ask_at("locate.calls", 0, json!({ "function": "transfer", "results": true }));
    let calls = found["items"].as_array().unwrap();
    assert_eq!(calls.len(), 2);
    let amounts: Vec<&Value> = calls.iter().map(|call| &call["arguments"][2]["value"]).collect();
    assert_eq!(amounts, ["30", "100"]);
    let results: Vec<&Value> = calls.iter().map(|call| &call["end"]["result"]["value"]).collect();
    assert_eq!(results, ["70", "-20"]);
    // The moment of the result is that of the return.
    let returns =
        ledger.ask_at("locate.returns", 0, json!({ "function": "transfer", "calls": true }));
    for (call, returned) in calls.iter().zip(returns["items"].as_array().unwrap()) {
        assert_eq!(call["end"]["time"], returned["time"]);
        assert_eq!(call["end"]["result"], returned["result"]);
        // The call instruction is the one before the first of the function.
        assert_eq!(returned["call"].as_u64().unwrap() + 1, call["time"].as_u64().unwrap());
    }
}

#[test]
fn values_are_those_of_the_moment() {
    let ledger = ledger();
    let balance = |time: u64| {
        let value = ledger.ask_at("evaluate", time, json!({ "expression": "accounts[1].balance" }));
        value["text"].as_str().unwrap().to_owned()
    };
    let writes = ledger.ask_at("locate.writes", 0, json!({ "expression": "accounts[1].balance" }));
    let writes = times(writes["items"].as_array().unwrap());
    assert_eq!(writes.len(), 2);
    assert_eq!([balance(0), balance(writes[0]), balance(writes[0] + 1)], ["50", "50", "80"]);
    assert_eq!(
        [balance(writes[1]), balance(writes[1] + 1), balance(ledger.end())],
        ["80", "-20", "-20"]
    );
    let query = "end backward store accounts[1].balance where newval < 0";
    let found = ledger.ask_at("goto", 0, json!({ "query": query }));
    assert_eq!(times(found["items"].as_array().unwrap()), [writes[1]]);
}

#[test]
fn the_last_writes_of_bytes_are_found() {
    let ledger = ledger();
    let balances = ledger.ask_at("evaluate", 0, json!({ "expression": "&accounts[0].balance" }));
    let address = balances["text"].as_str().unwrap().split(' ').find(|word| word.starts_with("0x"));
    let params = json!({ "address": address.unwrap(), "length": 40 });
    let parts = ledger.ask_at("memory.last_writes", ledger.end(), params.clone());
    let parts: Vec<(u64, bool)> = (parts.as_array().unwrap().iter())
        .map(|part| (part["length"].as_u64().unwrap(), part.get("write").is_some()))
        .collect();
    // Balances were written, the names between them were not.
    assert_eq!(parts, [(8, true), (8, false), (8, true), (8, false), (8, true)]);
    // The same, range by range.
    let start = u64::from_str_radix(&address.unwrap()[2..], 16).unwrap();
    let ranges: Vec<Value> =
        (0..5).map(|number| json!({ "address": start + 8 * number, "length": 8 })).collect();
    for pieces in [json!({}), json!({ "pieces": 1 })] {
        let mut question = json!({ "ranges": ranges });
        question.as_object_mut().unwrap().extend(pieces.as_object().unwrap().clone());
        let each = ledger.ask_at("memory.last_write_of_each", ledger.end(), question);
        let each: Vec<bool> =
            each.as_array().unwrap().iter().map(|one| one.get("write").is_some()).collect();
        assert_eq!(each, [true, false, true, false, true]);
    }
    let before = ledger.ask_at("memory.last_writes", 0, params);
    assert_eq!(before.as_array().unwrap().len(), 1);
    assert!(before[0].get("write").is_none());
}

#[test]
fn pages_are_parts_of_the_whole() {
    let ledger = ledger();
    let end = ledger.end();
    for (method, others) in [
        ("locate.executions", json!({ "file": "ledger.c", "line": 56 })),
        ("locate.executions", json!({ "function": "system_call" })),
        ("locate.writes", json!({ "address": 0, "length": 0x7fff_ffff_ffff_u64 })),
        ("locate.syscalls", json!({})),
        ("locate.signals", json!({})),
        ("locate.maps", json!({})),
        ("goto", json!({ "query": "start forward func_enter all" })),
    ] {
        for (direction, from) in [("forward", 0), ("backward", end)] {
            let mut params = others.clone();
            params["process"] = json!(0);
            params["time"] = json!(from);
            if method != "goto" {
                params["direction"] = json!(direction);
            }
            let whole = all_pages(ledger, method, &params, 10_000);
            assert!(!whole.is_empty(), "{method} {params}");
            for limit in [1, 2, 7] {
                assert_eq!(all_pages(ledger, method, &params, limit), whole, "{method} {params}");
            }
            let mut ordered = times(&whole);
            if direction == "backward" && method != "goto" {
                ordered.reverse();
            }
            assert!(ordered.is_sorted(), "{method} {params}: {ordered:?}");
        }
    }
}

#[test]
fn both_directions_find_the_same() {
    let ledger = ledger();
    let end = ledger.end();
    for (method, others) in [
        ("locate.executions", json!({ "function": "system_call" })),
        ("locate.writes", json!({ "expression": "alarms" })),
        ("locate.syscalls", json!({})),
        ("locate.signals", json!({})),
        ("locate.maps", json!({})),
    ] {
        let found = |direction: &str, from: u64| {
            let mut params = others.clone();
            params["direction"] = json!(direction);
            let page = ledger.ask_at(method, from, params);
            page["items"].as_array().unwrap().clone()
        };
        let forward = found("forward", 0);
        let mut backward = found("backward", end);
        backward.reverse();
        assert_eq!(forward, backward, "{method}");
        assert!(!forward.is_empty(), "{method}");
        // The n-th is the n-th of all.
        let mut params = others.clone();
        params["nth"] = json!(forward.len());
        assert_eq!(
            ledger.ask_at(method, 0, params)["items"][0],
            forward[forward.len() - 1],
            "{method}"
        );
    }
}

#[test]
fn searches_end_where_they_are_told_to() {
    let ledger = ledger();
    let all = ledger.ask_at("locate.syscalls", 0, json!({}));
    let all = times(all["items"].as_array().unwrap());
    let (first, last) = (all[0], all[all.len() - 1]);
    let until = |from: u64, direction: &str, until: u64| {
        let page = ledger.ask_at(
            "locate.syscalls",
            from,
            json!({ "direction": direction, "until": until }),
        );
        times(page["items"].as_array().unwrap())
    };
    assert_eq!(until(0, "forward", last), all[..all.len() - 1]);
    let mut rest = all[1..].to_vec();
    rest.reverse();
    assert_eq!(until(ledger.end(), "backward", first + 1), rest);
}

#[test]
fn system_calls_and_signals_are_told() {
    let ledger = ledger();
    let calls = ledger.ask_at("locate.syscalls", 0, json!({}));
    let names: Vec<&str> = calls["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| call["name"].as_str().unwrap())
        .collect();
    let expected =
        ["rt_sigaction", "getpid", "kill", "rt_sigreturn", "mmap", "munmap", "write", "exit_group"];
    assert_eq!(names, expected);
    let written = ledger.ask_at("locate.syscalls", 0, json!({ "name": "write" }));
    assert_eq!(written["items"][0]["end"]["result"], "0x5");
    let signals = ledger.ask_at("locate.signals", 0, json!({ "name": "SIGUSR1" }));
    assert_eq!(signals["items"].as_array().unwrap().len(), 1);
    assert_eq!(signals["items"][0]["handler"]["function"], "on_alarm");
    let alarms = ledger.ask_at("evaluate", ledger.end(), json!({ "expression": "alarms" }));
    assert_eq!(alarms["text"], "10");
}

#[test]
fn calls_and_returns_belong_together() {
    let ledger = ledger();
    let returns = ledger.ask_at("locate.returns", 0, json!({ "function": "sum", "calls": true }));
    let returned = returns["items"][0]["time"].as_u64().unwrap();
    let called = returns["items"][0]["call"].as_u64().unwrap();
    assert_eq!(returns["items"][0]["result"]["value"], "150");
    assert_eq!(ledger.ask_at("call.return_of", called, json!({}))["time"], returned);
    assert_eq!(ledger.ask_at("call.call_of", returned, json!({}))["time"], called);
    assert_eq!(ledger.ask_at("call.enclosing", returned, json!({}))["time"], called);
    assert_eq!(ledger.ask_at("call.end", called + 1, json!({}))["time"], returned);
    assert_eq!(ledger.ask_at("call.depth", called, json!({}))["depth"], 0);
    assert_eq!(ledger.ask_at("call.depth", called + 1, json!({}))["depth"], 1);
    // What is no call returns nowhere.
    assert_eq!(ledger.ask_at("call.return_of", called + 1, json!({})), Value::Null);
}

#[test]
fn steps_lead_through_the_lines() {
    let ledger = ledger();
    let at = |time: u64, params: Value| {
        let stepped = ledger.ask_at("step", time, params);
        (stepped["time"].as_u64().unwrap(), stepped["pc"]["source"]["line"].as_u64().unwrap())
    };
    let (time, line) = at(0, json!({}));
    assert_eq!(line, 62, "the line behind the opening brace");
    let (over, line) = at(time, json!({}));
    assert_eq!(line, 63, "over the call");
    let (into, line) = at(time, json!({ "calls": "into" }));
    assert_eq!(line, 46, "into the call");
    assert!(time < into && into < over);
    assert_eq!(at(over, json!({ "direction": "backward" })), (time, 62));
    let (out, _) = at(into, json!({ "calls": "out" }));
    assert!(into < out && out <= over);
    let stepped = ledger.ask_at("step", 0, json!({ "unit": "instruction", "count": 10_000 }));
    assert!(stepped["steps"].as_u64().unwrap() < 283);
}

#[test]
fn names_of_libraries_are_known_before_they_are_loaded() {
    let workers = workers();
    let calls =
        workers.ask_at("locate.calls", 0, json!({ "function": "pthread_create", "results": true }));
    let calls = calls["items"].as_array().unwrap();
    assert_eq!(calls.len(), 3);
    assert!(calls.iter().all(|call| call["end"]["result"]["rax"] == "0x0"), "{calls:?}");
    let returns = workers.ask_at("locate.returns", 0, json!({ "function": "pthread_create" }));
    let ends: Vec<&Value> = calls.iter().map(|call| &call["end"]["time"]).collect();
    let returned: Vec<&Value> =
        returns["items"].as_array().unwrap().iter().map(|returned| &returned["time"]).collect();
    assert_eq!(returned, ends);
}

#[test]
fn threads_are_told_apart() {
    let workers = workers();
    let end = workers.end();
    let counted = workers.ask_at("evaluate", end, json!({ "expression": "counter" }));
    assert_eq!(counted["text"], "6000");
    let starts = workers.ask_at("locate.threads", 0, json!({ "event": "start" }));
    let threads: Vec<u64> = (starts["items"].as_array().unwrap().iter())
        .map(|start| start["thread"].as_u64().unwrap())
        .collect();
    let mut sum = 0;
    for thread in &threads {
        let params = json!({ "process": 0, "time": 0, "thread": thread, "address": null,
            "function": "mix", "arguments": false });
        sum += all_pages(workers, "locate.calls", &params, 1000).len();
    }
    assert_eq!(sum, 6000);
    let every = json!({ "process": 0, "time": end, "direction": "backward" });
    let events = all_pages(workers, "locate.threads", &every, 10_000);
    assert_eq!(events.len(), 2 * threads.len());
    assert_eq!(all_pages(workers, "locate.threads", &every, 1), events);
    // The n-th of all, by the index alone and one by one.
    let nth = workers.ask_at("locate.executions", 0, json!({ "function": "mix", "nth": 4321 }));
    let every = json!({ "process": 0, "time": 0, "function": "mix" });
    assert_eq!(nth["items"][0], all_pages(workers, "locate.executions", &every, 3000)[4320]);
}
