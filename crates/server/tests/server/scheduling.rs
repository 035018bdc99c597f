//! Who waits for whom: fairness, limits, cancellation, clients that do not fetch their answers.

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::clients::{Client, Lines, Web, cancel, code, request};
use crate::fake::{Running, TOKEN, eventually, limits, start, start_with};

fn started(server: &Running) -> usize {
    server.seen.started.load(Ordering::SeqCst)
}

fn cancelled(server: &Running) -> usize {
    server.seen.cancelled.load(Ordering::SeqCst)
}

/// Whether the server did not close the connection at once.
fn is_served(client: &mut Lines) -> bool {
    let line = format!("{}\n", request(1, "add", json!([1, 2])));
    client.stream.get_mut().write_all(line.as_bytes()).is_ok() && client.receive().is_some()
}

#[test]
fn a_client_with_a_thousand_requests_does_not_starve_others() {
    let server = start();
    let mut greedy = Lines::unix(&server);
    for id in 0..1000 {
        greedy.send(&request(id, "sleep", json!({ "milliseconds": 20 })));
    }
    eventually("the first run", || started(&server) > 4);
    for mut modest in [Lines::unix(&server), Lines::tcp(&server)] {
        let before = started(&server);
        assert_eq!(modest.call(&request(1, "add", json!([1, 2])))["result"], 3);
        let passed = started(&server) - before;
        assert!(passed < 20, "{passed} requests went first");
    }
}

#[test]
fn one_client_cannot_hold_all_workers() {
    let server = start();
    let mut greedy = Lines::unix(&server);
    for id in 0..10 {
        greedy.send(&request(id, "sleep", json!({ "milliseconds": 60_000 })));
    }
    eventually("three of four workers are taken", || started(&server) == 3);
    let mut modest = Lines::unix(&server);
    assert_eq!(modest.call(&request(1, "add", json!([1, 2])))["result"], 3);
    assert_eq!(started(&server), 3);
}

#[test]
fn requests_of_one_client_run_side_by_side() {
    let server = start();
    let mut client = Lines::unix(&server);
    client.send(&request("long", "sleep", json!({ "milliseconds": 60_000 })));
    assert_eq!(client.call(&request("short", "add", json!([1, 2])))["id"], "short");
}

#[test]
fn running_and_waiting_requests_can_be_cancelled() {
    let server = start();
    let mut client = Lines::tcp(&server);
    for id in 0..5 {
        client.send(&request(id, "sleep", json!({ "milliseconds": 60_000 })));
    }
    eventually("three run", || started(&server) == 3);
    // The fifth waits: it ends first though nothing that runs ends.
    client.send(&cancel(4));
    let answer = client.answer();
    assert_eq!((code(&answer), &answer["id"]), (-32800, &json!(4)));
    let mut ended = BTreeSet::new();
    for id in 0..4 {
        client.send(&cancel(id));
        let answer = client.answer();
        assert_eq!(code(&answer), -32800);
        ended.insert(answer["id"].as_u64().unwrap());
    }
    assert_eq!(ended, BTreeSet::from([0, 1, 2, 3]));
    assert_eq!(server.seen.finished.load(Ordering::SeqCst), 0);
    let explicit = client.call(&request("c", "$/cancel", json!({ "id": 1 })));
    assert_eq!(explicit["result"], json!(null));
    assert_eq!(code(&client.call(&request("c", "$/cancel", json!({})))), -32602);
}

#[test]
fn nobody_cancels_what_is_not_theirs() {
    let server = start();
    let (mut first, mut second) = (Lines::unix(&server), Lines::unix(&server));
    first.send(&request(1, "sleep", json!({ "milliseconds": 300 })));
    eventually("it runs", || started(&server) == 1);
    second.send(&cancel(1));
    assert_eq!(first.answer()["result"], "slept");
}

#[test]
fn closing_a_connection_cancels_its_requests() {
    let mut limits = limits();
    limits.half_closed = Duration::from_millis(100);
    let server = start_with(limits, Some(TOKEN));
    check_closing(&server, Lines::unix(&server), Lines::send);
    check_closing(&server, Lines::tcp(&server), Lines::send);
    check_closing(&server, Web::open(&server), Web::send);
}

fn check_closing<C>(server: &Running, mut client: C, send: impl Fn(&mut C, &Value)) {
    let (started_before, cancelled_before) = (started(server), cancelled(server));
    for id in 0..5 {
        send(&mut client, &request(id, "sleep", json!({ "milliseconds": 60_000 })));
    }
    eventually("they run", || started(server) == started_before + 3);
    drop(client);
    eventually("all are cancelled", || cancelled(server) == cancelled_before + 3);
    thread::sleep(Duration::from_millis(20));
    assert_eq!(started(server), started_before + 3, "what waited never runs");
}

#[test]
fn too_many_outstanding_requests_are_refused() {
    let mut limits = limits();
    limits.outstanding = 10;
    let server = start_with(limits, Some(TOKEN));
    let mut client = Lines::unix(&server);
    for id in 0..11 {
        client.send(&request(id, "sleep", json!({ "milliseconds": 60_000 })));
    }
    let refused = client.answer();
    assert_eq!((code(&refused), &refused["id"]), (-32001, &json!(10)));
    client.send(&cancel(0));
    assert_eq!(client.answer()["id"], 0);
    let mut other = Lines::unix(&server);
    assert_eq!(other.call(&request(1, "add", json!([1, 2])))["result"], 3);
    let batch: Vec<_> = (0..11).map(|id| request(id, "add", json!([1, 2]))).collect();
    assert_eq!(code(&other.call(&json!(batch))), -32600);
}

#[test]
fn the_bytes_of_waiting_requests_are_bounded_over_all_clients() {
    let mut limits = limits();
    limits.waiting_bytes = 10_000;
    let server = start_with(limits, Some(TOKEN));
    let mut clients: Vec<Lines> = (0..8).map(|_| Lines::unix(&server)).collect();
    let long = "x".repeat(4000);
    let params = json!({ "milliseconds": 60_000, "more": long });
    // Four run, two more may wait.
    for (id, client) in clients.iter_mut().enumerate().take(6) {
        client.send(&request(id, "sleep", params.clone()));
        eventually("it runs", || started(&server) == (id + 1).min(4));
    }
    thread::sleep(Duration::from_millis(50));
    assert_eq!(code(&clients[6].call(&request(6, "sleep", params))), -32001);
}

#[test]
fn a_client_that_does_not_fetch_its_answers_gets_no_more_of_them() {
    let mut limits = limits();
    limits.unfetched_bytes = 1 << 20;
    let server = start_with(limits, Some(TOKEN));
    for client in [Lines::unix(&server), Lines::tcp(&server)] {
        let mut client = client;
        let before = started(&server);
        // In one piece, which fits into the socket: a server that stops reading must not stop this test.
        let lines = (0..500).map(|id| request(id, "large", json!({ "bytes": 256 << 10 })));
        let lines: Vec<String> = lines.map(|line| format!("{line}\n")).collect();
        client.send_bytes(lines.concat().as_bytes());
        let mut last = 0;
        eventually("it stops", || {
            thread::sleep(Duration::from_millis(200));
            std::mem::replace(&mut last, started(&server)) == started(&server)
        });
        // One MiB, what ran already, and what the sockets hold.
        let run = started(&server) - before;
        assert!((4..100).contains(&run), "{run}");
        let mut other = Lines::unix(&server);
        assert_eq!(other.call(&request(1, "add", json!([1, 2])))["result"], 3);
        let answered: BTreeSet<u64> =
            (0..500).map(|_| client.answer()["id"].as_u64().unwrap()).collect();
        assert_eq!(answered.len(), 500, "all come in the end");
    }
}

#[test]
fn a_client_that_never_fetches_is_cut_off() {
    let mut limits = limits();
    limits.stall = Duration::from_millis(300);
    limits.connections = 1;
    let server = start_with(limits, Some(TOKEN));
    let mut client = Lines::unix(&server);
    for id in 0..20 {
        client.send(&request(id, "large", json!({ "bytes": 1 << 20 })));
    }
    let begin = Instant::now();
    eventually("its place is free", || is_served(&mut Lines::unix(&server)));
    assert!(begin.elapsed() >= Duration::from_millis(250));
}

#[test]
fn answers_that_are_too_large_become_errors() {
    let mut limits = limits();
    limits.answer_bytes = 10_000;
    let server = start_with(limits, Some(TOKEN));
    let mut client = Lines::unix(&server);
    assert_eq!(code(&client.call(&request(1, "large", json!({ "bytes": 10_000 })))), -32002);
    assert!(client.call(&request(1, "large", json!({ "bytes": 9_000 }))).get("result").is_some());
    let batch: Vec<_> = (0..10).map(|id| request(id, "large", json!({ "bytes": 3_000 }))).collect();
    let answers = client.call(&json!(batch));
    let answers = answers.as_array().unwrap();
    let good = answers.iter().filter(|answer| answer.get("result").is_some()).count();
    assert_eq!((answers.len(), good), (10, 3));
}

#[test]
fn connections_are_counted() {
    let mut limits = limits();
    limits.connections = 3;
    let server = start_with(limits, Some(TOKEN));
    let mut clients: Vec<Lines> = (0..3).map(|_| Lines::unix(&server)).collect();
    for client in &mut clients {
        assert_eq!(client.call(&request(1, "add", json!([1, 2])))["result"], 3);
    }
    let mut refused = Lines::unix(&server);
    assert_eq!(refused.receive(), None);
    clients.pop();
    eventually("a place is free", || is_served(&mut Lines::unix(&server)));
    // A WebSocket keeps its place, too.
    drop(clients);
    eventually("all places are free", || {
        Web::try_open(&server, &format!("?token={TOKEN}"), &[]).is_ok()
    });
}
