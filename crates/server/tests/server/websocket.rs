//! WebSocket: access, messages, silence.

use std::io::Write;
use std::time::{Duration, Instant};

use serde_json::json;
use tungstenite::Message;

use crate::clients::{Client, Web, code, request};
use crate::fake::{TOKEN, limits, start, start_with};

#[test]
fn requests_batches_and_progress_work() {
    let server = start();
    let mut client = Web::open(&server);
    let answer = client.call(&request("x", "echo", json!({ "value": [1, "ä"] })));
    assert_eq!(answer, json!({ "jsonrpc": "2.0", "id": "x", "result": [1, "ä"] }));
    let batch = json!([request(1, "add", json!([1, 2])), request(2, "add", json!([3, 4]))]);
    assert_eq!(client.call(&batch).as_array().unwrap().len(), 2);
    client.send(&request(3, "report", json!({ "progressToken": 9 })));
    let first = client.answer();
    assert_eq!((&first["method"], &first["params"]["token"]), (&json!("$/progress"), &json!(9)));
    let mut last = first;
    while last.get("method").is_some() {
        last = client.answer();
    }
    assert_eq!(last["result"], "done");
}

#[test]
fn strangers_and_other_pages_are_refused() {
    let server = start();
    let right = format!("?token={TOKEN}");
    let bearer = format!("Bearer {TOKEN}");
    let own = format!("http://{}", server.tcp);
    assert_eq!(Web::try_open(&server, "", &[]).err(), Some(401));
    assert_eq!(Web::try_open(&server, "?token=token-of-the-testz", &[]).err(), Some(401));
    assert_eq!(Web::try_open(&server, &right, &[("host", "evil.example")]).err(), Some(403));
    assert_eq!(Web::try_open(&server, &right, &[("origin", "http://a.example")]).err(), Some(403));
    assert!(Web::try_open(&server, "", &[("authorization", &bearer)]).is_ok());
    assert!(Web::try_open(&server, &right, &[("origin", &own)]).is_ok());
}

#[test]
fn garbage_is_answered_and_what_is_too_large_ends_it() {
    let server = start();
    let mut client = Web::open(&server);
    client.0.send(Message::Binary(vec![0xff, 0, 1].into())).unwrap();
    assert_eq!(code(&client.answer()), -32700);
    client.0.send(Message::Text("{".into())).unwrap();
    assert_eq!(code(&client.answer()), -32700);
    assert_eq!(client.call(&request(1, "add", json!([1, 2])))["result"], 3);
    // The server may close before all of it is sent.
    let _ = client.0.send(Message::Text(" ".repeat((1 << 20) + 1).into()));
    assert_eq!(client.receive(), None);
    let mut broken = Web::open(&server);
    broken.0.get_mut().write_all(&[0xff; 100]).unwrap();
    assert_eq!(broken.receive(), None);
}

#[test]
fn silence_is_ended_by_pings_and_not_by_idleness() {
    let mut limits = limits();
    limits.ping = Duration::from_millis(50);
    limits.silence = Duration::from_millis(400);
    let server = start_with(limits, Some(TOKEN));
    let (mut idle, mut dead) = (Web::open(&server), Web::open(&server));
    let begin = Instant::now();
    // Reading is what answers pings.
    while begin.elapsed() < Duration::from_millis(1500) {
        assert!(matches!(idle.0.read(), Ok(Message::Ping(_))));
    }
    assert_eq!(idle.call(&request(1, "add", json!([1, 2])))["result"], 3);
    while dead.0.get_mut().write_all(&[]).is_ok() {
        let mut byte = [0];
        match std::io::Read::read(dead.0.get_mut(), &mut byte) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
}
