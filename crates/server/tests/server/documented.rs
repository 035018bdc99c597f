//! The examples in `docs/protocol.md` are what a server answers.
//!
//! The part of the document about methods is written by this test: `RETRO_BLESS=1` puts it there, otherwise it is compared.
//! What differs from run to run or from machine to machine (process ids, dates, where the stack begins) is replaced.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use retro_server::schema_document;
use serde_json::{Map, Value, json};

use crate::clients::{Client, Http, request};
use crate::layout::pretty;
use crate::recorded::{Recorded, at, ledger};

const BEGIN: &str =
    "<!-- What follows is written by crates/server/tests/server/documented.rs. -->\n";

/// Parameters that the document describes once for all, of all methods and of searches.
const COMMON: [&str; 4] = ["process", "time", "limit", "cursor"];
const OF_SEARCHES: [&str; 4] = ["direction", "thread", "until", "nth"];

/// What process ids, and the directory of the program, are in the document.
const PID: u64 = 4711;
const DIRECTORY: &str = "/home/ada/ledger";

/// Where the stack begins in the document.
const STACK: u64 = 0x17ff_ffff_e000;

/// The questions of the document, in its order.
fn examples(ledger: &Recorded) -> Vec<(&'static str, Value)> {
    let call = |nth: u64| {
        let found = ledger.ask_at("locate.calls", 0, json!({ "function": "transfer", "nth": nth }));
        found["items"][0]["time"].as_u64().unwrap()
    };
    let (first, second) = (call(1), call(2));
    // After the prologue of the second call, in front of the subtraction.
    let inside = ledger.ask_at("step", second, json!({}))["time"].as_u64().unwrap();
    let accounts = ledger.ask_at("evaluate", 0, json!({ "expression": "&accounts" }));
    let accounts =
        accounts["text"].as_str().unwrap().split(' ').find(|word| word.starts_with("0x"));
    let accounts = accounts.unwrap().to_owned();
    let end = ledger.end();
    let note = json!({
        "process": 0, "time": inside, "title": "accounts[1].balance", "place": "transfer at ledger.c:47",
        "text": "below zero from here on", "is_kept": true,
    });
    vec![
        ("run.info", json!({})),
        ("process.list", json!({ "limit": 1 })),
        ("run.activity", json!({ "process": 0, "parts": 4 })),
        ("thread.names", json!({ "process": 0 })),
        ("threads", at(inside, json!({}))),
        ("registers", at(inside, json!({}))),
        ("memory.read", at(end, json!({ "address": accounts, "length": 48 }))),
        ("memory.last_writes", at(end, json!({ "address": accounts, "length": 48 }))),
        (
            "memory.last_write_of_each",
            at(
                end,
                json!({ "ranges": [
                    { "address": accounts, "length": 16 }, { "address": "0x402000", "length": 1 },
                ] }),
            ),
        ),
        ("maps", at(end, json!({ "limit": 2 }))),
        ("stack", at(inside, json!({ "arguments": "at_call" }))),
        ("locals", at(inside, json!({ "frame": 0 }))),
        ("globals", at(inside, json!({ "frame": 0, "limit": 2 }))),
        ("evaluate", at(inside, json!({ "expression": "from->balance - amount" }))),
        ("expand", at(inside, json!({ "expression": "accounts", "path": [1] }))),
        ("symbols.functions", at(0, json!({ "name": "transfer" }))),
        ("symbols.search", at(0, json!({ "text": "al", "limit": 2 }))),
        ("symbols.files", at(0, json!({ "text": "ledger" }))),
        ("symbols.types", at(0, json!({ "text": "acc" }))),
        ("symbols.line", at(0, json!({ "file": "ledger.c", "line": 47 }))),
        ("source.read", at(0, json!({ "path": "ledger.c", "first": 45, "count": 3 }))),
        (
            "locate.writes",
            at(
                end,
                json!({ "direction": "backward", "expression": "accounts[1].balance", "limit": 1 }),
            ),
        ),
        ("locate.executions", at(0, json!({ "file": "ledger.c", "line": 56, "nth": 3 }))),
        ("locate.calls", at(0, json!({ "function": "transfer", "results": true }))),
        (
            "locate.returns",
            at(end, json!({ "direction": "backward", "function": "sum", "calls": true })),
        ),
        ("locate.syscalls", at(0, json!({ "name": "write" }))),
        ("locate.signals", at(0, json!({}))),
        ("locate.maps", at(end, json!({ "direction": "backward", "limit": 2 }))),
        ("locate.threads", at(0, json!({ "event": "end" }))),
        ("locate.forks", at(0, json!({}))),
        ("call.return_of", at(first - 1, json!({}))),
        ("call.lines", at(inside, json!({}))),
        ("call.call_of", at(ledger_return(ledger), json!({}))),
        ("call.enclosing", at(inside, json!({}))),
        ("call.end", at(inside, json!({}))),
        ("call.depth", at(inside, json!({}))),
        ("step", at(inside, json!({ "direction": "backward", "calls": "out" }))),
        (
            "goto",
            at(end, json!({ "query": "end backward store accounts[1].balance where newval < 0" })),
        ),
        ("disassemble", at(inside, json!({ "before": 2, "count": 3 }))),
        ("executions.count", at(inside, json!({ "function": "transfer" }))),
        ("lines.counts", at(inside, json!({ "file": "ledger.c", "first": 45, "count": 5 }))),
        ("locate.output", at(0, json!({}))),
        ("notebook.read", json!({})),
        ("notebook.write", json!({ "revision": 0, "notes": [note] })),
    ]
}

/// The first return from `transfer`.
fn ledger_return(ledger: &Recorded) -> u64 {
    let found = ledger.ask_at("locate.returns", 0, json!({ "function": "transfer", "nth": 1 }));
    found["items"][0]["time"].as_u64().unwrap()
}

#[test]
fn the_document_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/protocol.md");
    let document = fs::read_to_string(&path).unwrap();
    let (head, written) = document.split_once(BEGIN).expect("the document has the mark");
    let now = methods_section(ledger());
    if std::env::var_os("RETRO_BLESS").is_some() {
        fs::write(&path, format!("{head}{BEGIN}{now}")).unwrap();
        return;
    }
    for (line, (written, now)) in written.lines().zip(now.lines()).enumerate() {
        assert_eq!(
            written, now,
            "line {line} behind the mark; RETRO_BLESS=1 writes docs/protocol.md"
        );
    }
    assert_eq!(written.len(), now.len());
}

fn methods_section(ledger: &Recorded) -> String {
    let server = ledger.serve();
    let mut client = Http::tcp(&server);
    let schema = schema_document(ledger.service());
    let examples = examples(ledger);
    let shown: BTreeSet<&str> = examples.iter().map(|(method, _)| *method).collect();
    let all: BTreeSet<&str> =
        schema["methods"].as_object().unwrap().keys().map(String::as_str).collect();
    let elsewhere = BTreeSet::from(["system.describe", "authenticate", "$/cancel"]);
    assert_eq!(all, &shown | &elsewhere, "every method has an example");
    let tidy = Tidy::of(ledger);
    let mut text = String::new();
    for (method, params) in examples {
        let answer = client.call(&request(1, method, params.clone()));
        let result = answer.get("result").unwrap_or_else(|| panic!("{method}: {answer}"));
        let (params, result) = (tidy.value("", &params), tidy.value("", result));
        let summary = schema["methods"][method]["summary"].as_str().unwrap();
        text += &format!("\n### `{method}`\n\n{summary}\n\n{}", parameters(&schema, method));
        text += &format!("```\n→ {}\n← {}\n```\n", pretty(&params, 2), pretty(&result, 2));
    }
    text
}

/// A list of the parameters of a method that are its own: those that are required first.
fn parameters(schema: &Value, method: &str) -> String {
    let resolve = |value: &Value| match value["$ref"].as_str() {
        Some(reference) => schema.pointer(&reference[1..]).unwrap().clone(),
        None => value.clone(),
    };
    let params = resolve(&schema["methods"][method]["params"]);
    let Some(properties) = params["properties"].as_object() else { return String::new() };
    let required = params["required"].as_array().cloned().unwrap_or_default();
    let is_required = |name: &str| required.iter().any(|known| known == name);
    let mut names: Vec<&String> = properties.keys().collect();
    names.retain(|name| {
        let is_of_search = method.starts_with("locate.") && OF_SEARCHES.contains(&name.as_str());
        !COMMON.contains(&name.as_str()) && !is_of_search
    });
    names.sort_by_key(|name| !is_required(name));
    let line = |name: &String| {
        let property = &properties[name];
        let own = property["description"].as_str().map(str::to_owned);
        let text = own.or_else(|| resolve(property)["description"].as_str().map(str::to_owned));
        let text = text.unwrap_or_default().replace('\n', " ");
        let optional = if is_required(name) { "" } else { " (optional)" };
        format!("- `{name}`{optional}: {text}\n")
    };
    let lines: String = names.into_iter().map(line).collect();
    if lines.is_empty() { lines } else { format!("{lines}\n") }
}

/// Replaces what differs from run to run.
struct Tidy {
    pid: u64,
    /// The stack pointer at the beginning.
    stack: u64,
    directories: [(String, &'static str); 2],
}

impl Tidy {
    fn of(ledger: &Recorded) -> Tidy {
        let registers = ledger.ask_at("registers", 0, json!({}));
        let stack = registers["general"]["rsp"].as_str().unwrap();
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ledger");
        Tidy {
            pid: registers["thread"].as_u64().unwrap(),
            stack: u64::from_str_radix(&stack[2..], 16).unwrap(),
            directories: [
                (ledger.directory().display().to_string(), DIRECTORY),
                (sources.display().to_string(), "/home/ada/sources/ledger"),
            ],
        }
    }

    fn value(&self, name: &str, value: &Value) -> Value {
        match (name, value) {
            ("machine", _) => json!({ "host": "lovelace", "kernel": "6.1.0", "cpu": "AMD EPYC" }),
            ("created" | "modified", _) => json!(1_760_000_000.5),
            ("duration", _) => json!(0.05),
            ("id", _) => json!("0f1e2d3c4b5a69788796a5b4c3d2e1f0"),
            ("bytes", Value::Number(_)) => json!(24_576),
            ("is_newer", _) => json!(false),
            // How wide registers are differs; the document shows what all have.
            ("wide", Value::Array(registers)) => {
                registers.iter().filter(|register| register["name"] == "mxcsr").cloned().collect()
            }
            ("thread" | "pid" | "sender", Value::Number(number)) => {
                if number.as_u64() == Some(self.pid) { json!(PID) } else { value.clone() }
            }
            (_, Value::String(text)) => json!(self.text(text)),
            (_, Value::Array(items)) => items.iter().map(|item| self.value(name, item)).collect(),
            (_, Value::Object(members)) => {
                let tidied =
                    members.iter().map(|(name, value)| (name.clone(), self.value(name, value)));
                Value::Object(tidied.collect::<Map<String, Value>>())
            }
            _ => value.clone(),
        }
    }

    fn text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (found, shown) in &self.directories {
            text = text.replace(found, shown);
        }
        let mut parts = text.split("0x");
        let mut tidied = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let digits = part.bytes().take_while(u8::is_ascii_hexdigit).count();
            match u64::from_str_radix(&part[..digits], 16) {
                Ok(number) => tidied += &format!("{:#x}{}", self.number(number), &part[digits..]),
                Err(_) => tidied += &format!("0x{part}"),
            }
        }
        tidied
    }

    fn number(&self, number: u64) -> u64 {
        const STACK_SIZE: u64 = 1 << 16;
        match number {
            _ if number == self.pid => PID,
            _ if number.abs_diff(self.stack) < STACK_SIZE => {
                number.wrapping_sub(self.stack).wrapping_add(STACK)
            }
            _ => number,
        }
    }
}
