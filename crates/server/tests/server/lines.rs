//! One object a line: framing, authentication, half-closed connections.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::clients::{Client, Lines, cancel, code, request};
use crate::fake::{TOKEN, limits, start, start_with};

#[test]
fn requests_are_answered_with_their_ids() {
    let server = start();
    for mut client in [Lines::unix(&server), Lines::tcp(&server)] {
        for id in [json!(1), json!("one"), json!(null), json!(-2.5), json!(u64::MAX)] {
            let answer = client.call(&request(id.clone(), "add", json!({ "a": 1, "b": 2 })));
            assert_eq!(answer, json!({ "jsonrpc": "2.0", "id": id, "result": 3 }));
        }
        let by_position = client.call(&request(1, "add", json!([3, 4])));
        assert_eq!(by_position["result"], 7);
    }
}

#[test]
fn every_kind_of_error_has_its_code() {
    let server = start();
    let mut client = Lines::unix(&server);
    assert_eq!(code(&client.call(&request(1, "nonsense", json!({})))), -32601);
    assert_eq!(code(&client.call(&request(1, "add", json!({ "a": 1 })))), -32602);
    assert_eq!(code(&client.call(&request(1, "add", json!({ "a": 1, "b": 2, "c": 3 })))), -32602);
    assert_eq!(code(&client.call(&request(1, "panic", json!({})))), -32603);
    let failed = client.call(&request(1, "fail", json!({})));
    assert_eq!(code(&failed), -32000);
    assert_eq!(failed["error"]["data"]["kind"], "nothing_there");
    assert_eq!(failed["error"]["message"], "there was nothing");
    assert_eq!(code(&client.call(&json!({ "id": 1 }))), -32600);
    client.send_bytes(b"{\n");
    assert_eq!(code(&client.answer()), -32700);
    assert_eq!(client.call(&request(1, "echo", json!({ "value": 5 })))["result"], 5);
}

#[test]
fn notifications_and_blank_lines_get_no_answer() {
    let server = start();
    let mut client = Lines::unix(&server);
    client.send_bytes(b"\n\r\n  \n");
    client.send(&json!({ "jsonrpc": "2.0", "method": "echo", "params": { "value": 1 } }));
    client.send(&json!({ "jsonrpc": "2.0", "method": "nonsense" }));
    client.send(&cancel("not there"));
    client.send(&json!([{ "jsonrpc": "2.0", "method": "echo" }]));
    assert_eq!(client.call(&request(2, "echo", json!({ "value": 2 })))["id"], 2);
}

#[test]
fn batches_are_answered_together() {
    let server = start();
    let mut client = Lines::unix(&server);
    let answers = client.call(&json!([
        request(1, "sleep", json!({ "milliseconds": 20 })),
        request(2, "add", json!({ "a": 1, "b": 1 })),
        { "jsonrpc": "2.0", "method": "echo", "params": { "value": 1 } },
        request(3, "nonsense", json!({})),
        7,
    ]));
    let answers = answers.as_array().unwrap();
    assert_eq!(answers.len(), 4);
    let answer_to = |id: Value| answers.iter().find(|answer| answer["id"] == id).unwrap();
    assert_eq!(answer_to(json!(1))["result"], "slept");
    assert_eq!(answer_to(json!(2))["result"], 2);
    assert_eq!(code(answer_to(json!(3))), -32601);
    assert_eq!(code(answer_to(Value::Null)), -32600);
}

#[test]
fn a_batch_can_cancel_its_own_requests() {
    let server = start();
    let mut client = Lines::unix(&server);
    let sleep = request("s", "sleep", json!({ "milliseconds": 60_000 }));
    let answers = client.call(&json!([cancel("s"), sleep]));
    assert_eq!(code(&answers[0]), -32800);
}

#[test]
fn long_answers_come_in_pages() {
    let server = start();
    let mut client = Lines::tcp(&server);
    let mut params = json!({ "to": 250 });
    let mut counted = Vec::new();
    let mut pages = 0;
    loop {
        let page = client.call(&request(1, "count", params.clone()))["result"].clone();
        counted.extend(page["items"].as_array().unwrap().iter().map(|item| item.as_u64().unwrap()));
        pages += 1;
        let Some(next) = page.get("next") else { break };
        params["cursor"] = next.clone();
    }
    assert_eq!(counted, (0..250).collect::<Vec<_>>());
    assert_eq!(pages, 3);
    params["to"] = json!(251);
    assert_eq!(code(&client.call(&request(1, "count", params))), -32602);
}

#[test]
fn progress_comes_to_who_asks_for_it() {
    let mut limits = limits();
    limits.progress = Duration::from_millis(1);
    let server = start_with(limits, Some(TOKEN));
    let mut client = Lines::unix(&server);
    assert_eq!(client.call(&request(1, "report", json!({})))["result"], "done");
    client.send(&request(2, "report", json!({ "progressToken": "p" })));
    let mut reports = Vec::new();
    let answer = loop {
        let message = client.answer();
        if message["method"] != "$/progress" {
            break message;
        }
        assert_eq!(message["params"]["token"], "p");
        assert_eq!(message["params"]["total"], 10);
        reports.push(message["params"]["done"].as_u64().unwrap());
    };
    assert_eq!(answer["result"], "done");
    assert!(reports.len() > 1 && reports.is_sorted(), "{reports:?}");
}

#[test]
fn tcp_needs_the_token_first() {
    let server = start();
    let wrong = [
        request(1, "authenticate", json!({ "token": "token-of-the-testz" })),
        request(1, "authenticate", json!({})),
        request(1, "echo", json!({ "value": 1 })),
        json!([request(1, "authenticate", json!({ "token": TOKEN }))]),
        json!("nonsense"),
    ];
    for line in wrong {
        let mut client = Lines::stranger(&server);
        client.send(&line);
        client.send(&request(2, "echo", json!({ "value": 2 })));
        assert_eq!(code(&client.answer()), -32003, "{line}");
        assert_eq!(client.receive(), None, "{line}");
    }
}

#[test]
fn authenticating_is_harmless_where_it_is_not_needed() {
    let server = start_with(limits(), None);
    for mut client in [Lines::unix(&server), Lines::stranger(&server)] {
        assert_eq!(client.call(&request(1, "echo", json!({ "value": 1 })))["result"], 1);
        let welcome = client.call(&request(0, "authenticate", json!({ "token": "any" })));
        assert_eq!(welcome["result"], Value::Null);
        assert!(welcome.get("error").is_none());
    }
}

#[test]
fn answers_reach_a_client_that_sends_no_more() {
    let server = start();
    for mut client in [Lines::unix(&server), Lines::tcp(&server)] {
        client.send(&request(1, "sleep", json!({ "milliseconds": 200 })));
        client.send_bytes(request(2, "echo", json!({ "value": 2 })).to_string().as_bytes());
        client.stream.get_ref().close_sending();
        assert_eq!(client.answer()["id"], 2);
        assert_eq!(client.answer()["result"], "slept");
        assert_eq!(client.receive(), None);
    }
}

#[test]
fn strangers_and_slow_requests_are_cut_off_and_idle_clients_are_not() {
    let mut limits = limits();
    limits.introduction = Duration::from_millis(200);
    limits.request_time = Duration::from_millis(200);
    let server = start_with(limits, Some(TOKEN));
    let mut idle = Lines::tcp(&server);
    let begin = Instant::now();
    assert_eq!(Lines::stranger(&server).receive(), None);
    let mut half = Lines::stranger(&server);
    half.send_bytes(b"{\"jsonrpc\"");
    assert_eq!(half.receive(), None);
    let mut slow = Lines::tcp(&server);
    slow.send_bytes(b"{\"jsonrpc\":");
    assert_eq!(code(&slow.answer()), -32600);
    assert_eq!(slow.receive(), None);
    assert!(begin.elapsed() >= Duration::from_millis(550), "{:?}", begin.elapsed());
    assert_eq!(idle.call(&request(1, "echo", json!({ "value": 1 })))["result"], 1);
}
