//! What the page asks about the run as a whole agrees with searches, which look at every moment.

use std::collections::BTreeMap;

use retro_server::MethodError;
use serde_json::{Value, json};

use crate::recorded::{Recorded, ledger, workers};

/// The times of all executions of a line, for each piece of its code.
fn executions(recorded: &Recorded, line: u64) -> BTreeMap<String, Vec<u64>> {
    let question = json!({ "file": "ledger.c", "line": line, "limit": 10_000 });
    let found = recorded.ask_at("locate.executions", 0, question);
    let mut times: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for item in found["items"].as_array().unwrap() {
        let address = item["pc"]["address"].as_str().unwrap().to_owned();
        times.entry(address).or_default().push(item["time"].as_u64().unwrap());
    }
    times
}

fn second_call(ledger: &Recorded) -> u64 {
    let found = ledger.ask_at("locate.calls", 0, json!({ "function": "transfer", "nth": 2 }));
    found["items"][0]["time"].as_u64().unwrap()
}

#[test]
fn lines_are_counted_as_often_as_they_are_found() {
    let ledger = ledger();
    for now in [0, second_call(ledger) + 9, ledger.end()] {
        let question = json!({ "file": "ledger.c", "first": 1, "count": 100 });
        let counts = ledger.ask_at("lines.counts", now, question);
        let counts = counts.as_array().unwrap();
        assert!(counts.len() > 20, "{counts:?}");
        for count in counts {
            let line = count["line"].as_u64().unwrap();
            let pieces = executions(ledger, line);
            let before = |times: &[u64]| times.iter().filter(|time| **time < now).count();
            // The line of a loop is in two pieces: what is done once, and what is done every time.
            let most = pieces.values().map(Vec::len).max().unwrap_or(0);
            assert_eq!(count["total"], most, "line {line}");
            let mut most = pieces.values().filter(|times| times.len() == most);
            let is_one = most.any(|times| count["before"] == before(times)) || pieces.is_empty();
            assert!(is_one, "line {line} at {now}: {count}");
            let target = json!({ "file": "ledger.c", "line": line });
            let all = ledger.ask_at("executions.count", now, target);
            let times: Vec<u64> = pieces.into_values().flatten().collect();
            assert_eq!(
                (&all["before"], &all["total"]),
                (&json!(before(&times)), &json!(times.len()))
            );
        }
    }
}

#[test]
fn an_invocation_has_the_lines_that_stepping_shows() {
    let ledger = ledger();
    let entry = second_call(ledger);
    let end = ledger.ask_at("call.end", entry, json!({}))["time"].as_u64().unwrap();
    let mut stepped = BTreeMap::<u64, u64>::new();
    for time in entry..=end {
        let place = ledger.ask_at("threads", time, json!({}))[0]["pc"].clone();
        assert_eq!(place["function"], "transfer");
        *stepped.entry(place["source"]["line"].as_u64().unwrap()).or_default() += 1;
    }
    for inside in [entry, entry + 5, end] {
        let told = ledger.ask_at("call.lines", inside, json!({}));
        assert_eq!((&told["from"], &told["to"]), (&json!(entry), &json!(end + 1)));
        assert_eq!(told["is_exact"], true);
        let lines = told["lines"].as_array().unwrap().iter();
        let lines: Vec<u64> = lines.map(|line| line["line"].as_u64().unwrap()).collect();
        assert_eq!(lines, stepped.keys().copied().collect::<Vec<_>>());
        assert!(told["lines"].as_array().unwrap().iter().all(|line| line["count"] == 1));
    }
}

#[test]
fn activity_adds_up() {
    for recorded in [ledger(), workers()] {
        let told = recorded.ask("run.activity", json!({ "process": 0, "parts": 37 }));
        let sum = |name: &str| -> u64 {
            let threads = told["threads"].as_array().unwrap().iter();
            threads
                .flat_map(|thread| thread[name].as_array().unwrap())
                .filter_map(Value::as_u64)
                .sum()
        };
        assert_eq!(sum("instructions"), recorded.end());
        let calls =
            recorded.ask_at("locate.syscalls", 0, json!({ "results": false, "limit": 10_000 }));
        assert_eq!(sum("syscalls"), calls["items"].as_array().unwrap().len() as u64);
    }
    let threads = workers().ask("run.activity", json!({ "process": 0 }));
    assert!(threads["threads"].as_array().unwrap().len() > 1);
}

#[test]
fn output_is_what_was_written() {
    let ledger = ledger();
    let found = ledger.ask_at("locate.output", 0, json!({}));
    let [written] = &found["items"].as_array().unwrap()[..] else { panic!("{found}") };
    let call = ledger.ask_at("locate.syscalls", 0, json!({ "name": "write" }));
    assert_eq!(written["time"], call["items"][0]["time"]);
    assert_eq!(written["length"], written["text"].as_str().unwrap().len());
    let other = ledger.ask_at("locate.output", 0, json!({ "descriptor": 7 }));
    assert_eq!(other["items"], json!([]));
}

#[test]
fn two_clients_do_not_undo_each_other_s_notes() {
    let workers = workers();
    let note = |title: &str| json!({ "process": 0, "time": 1, "title": title });
    let before = workers.ask("notebook.read", json!({}));
    let revision = before["revision"].as_u64().unwrap();
    let write = |revision: u64, title: &str| {
        workers.try_ask("notebook.write", json!({ "revision": revision, "notes": [note(title)] }))
    };
    assert_eq!(write(revision, "<first>").unwrap()["revision"], revision + 1);
    let Err(MethodError::Failed { kind, .. }) = write(revision, "second") else {
        panic!("an old notebook was replaced")
    };
    assert_eq!(kind, "notebook_changed");
    let after = workers.ask("notebook.read", json!({}));
    assert_eq!(after["notes"][0]["title"], "<first>");
}
