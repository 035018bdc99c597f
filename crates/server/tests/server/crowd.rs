//! Many clients with real questions, over all transports.

use std::thread;

use serde_json::{Value, json};

use crate::clients::{Client, Http, Lines, Web, cancel, code, request};
use crate::fake::Running;
use crate::recorded::{Recorded, at, workers};

const CLIENTS: usize = 64;
const ROUNDS: usize = 12;

#[test]
fn sixty_four_clients_get_right_answers() {
    let recorded = workers();
    let questions = questions(recorded);
    let server = recorded.serve();
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            let (server, questions) = (&server, &questions);
            scope.spawn(move || match number % 5 {
                0 => converse(&mut Lines::unix(server), questions, number),
                1 => converse(&mut Lines::tcp(server), questions, number),
                2 => converse(&mut Http::tcp(server), questions, number),
                3 => converse(&mut Web::open(server), questions, number),
                _ => interrupt(server, questions, number),
            });
        }
    });
}

/// Questions of all kinds with their answers, asked one after the other.
fn questions(recorded: &Recorded) -> Vec<(&'static str, Value, Value)> {
    let end = recorded.end();
    let mut all = vec![("process.list", json!({}))];
    for part in 1..=6 {
        let time = end / 7 * part;
        let backward = json!("backward");
        all.extend([
            ("registers", at(time, json!({}))),
            ("threads", at(time, json!({}))),
            ("stack", at(time, json!({ "limit": 20, "arguments": "none" }))),
            ("maps", at(time, json!({}))),
            ("evaluate", at(time, json!({ "expression": "counter" }))),
            (
                "locate.writes",
                at(time, json!({ "expression": "counter", "limit": 5, "direction": backward })),
            ),
            ("locate.executions", at(time, json!({ "function": "mix", "nth": 100 }))),
            ("locate.syscalls", at(time, json!({ "limit": 5, "direction": backward }))),
            ("step", at(time, json!({ "unit": "instruction", "calls": "into", "count": 10 }))),
            ("call.depth", at(time, json!({}))),
            ("disassemble", at(time, json!({ "count": 5 }))),
        ]);
    }
    // What is wrong is told the same way, too.
    all.push(("registers", at(end + 1, json!({}))));
    all.push(("evaluate", at(end / 2, json!({ "expression": "no such thing" }))));
    let answered = all.into_iter().map(|(method, params)| {
        let answer = match recorded.try_ask(method, params.clone()) {
            Ok(result) => json!({ "result": result }),
            Err(error) => json!({ "message": error.to_string() }),
        };
        (method, params, answer)
    });
    answered.collect()
}

fn check(answer: &Value, id: usize, expected: &Value, method: &str) {
    assert_eq!(answer["id"], id);
    match expected.get("result") {
        Some(result) => assert_eq!(&answer["result"], result, "{method}"),
        None => assert_eq!(answer["error"]["message"], expected["message"], "{method}"),
    }
}

fn converse(client: &mut dyn Client, questions: &[(&str, Value, Value)], number: usize) {
    for round in 0..ROUNDS {
        let (method, params, expected) = &questions[(number * 31 + round * 7) % questions.len()];
        let answer = client.call(&request(round, method, params.clone()));
        check(&answer, round, expected, method);
    }
}

/// Breaks off, cancels, and asks again.
fn interrupt(server: &Running, questions: &[(&str, Value, Value)], number: usize) {
    for round in 0..ROUNDS {
        let mut client = Lines::unix(server);
        let (method, params, expected) = &questions[(number * 17 + round * 5) % questions.len()];
        client.send(&request(1, method, params.clone()));
        if round % 3 == 0 {
            continue;
        }
        client.send(&cancel(1));
        let answer = client.answer();
        match answer.get("error") {
            Some(_) if code(&answer) == -32800 => {}
            _ => check(&answer, 1, expected, method),
        }
    }
}
