//! Input that no honest client sends.

use std::io::{Read, Write};
use std::thread;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::json;

use crate::clients::{Client, Http, Lines, Web, code, request, tcp, unix};
use crate::fake::{TOKEN, limits, start, start_with};

fn still_answers(client: &mut Lines) {
    assert_eq!(client.call(&request("still", "add", json!([1, 2])))["result"], 3);
}

#[test]
fn huge_lines_are_skipped() {
    let server = start();
    for mut client in [Lines::unix(&server), Lines::tcp(&server)] {
        let mut line = vec![b'x'; 5 << 20];
        line.push(b'\n');
        client.send_bytes(&line);
        assert_eq!(code(&client.answer()), -32600);
        still_answers(&mut client);
    }
}

#[test]
fn a_request_may_have_a_mebibyte() {
    let server = start();
    let mut client = Lines::unix(&server);
    let empty = request(1, "echo", json!({ "value": "" })).to_string().len();
    let value = "x".repeat((1 << 20) - empty);
    assert_eq!(client.call(&request(1, "echo", json!({ "value": value })))["result"], value);
}

#[test]
fn deep_and_crowded_requests_are_refused() {
    let server = start();
    let mut client = Lines::tcp(&server);
    for line in [
        "[".repeat(100_000),
        "{\"a\":".repeat(100_000),
        format!("{}{}", "[".repeat(65), "]".repeat(65)),
        format!("[{}]", "{\"\":0},".repeat(100_000)),
        format!("[{}0]", "0,".repeat(2000)),
    ] {
        client.send_bytes(format!("{line}\n").as_bytes());
        assert_eq!(code(&client.answer()), -32600);
    }
    still_answers(&mut client);
}

#[test]
fn bytes_that_are_no_text_are_parse_errors() {
    let server = start();
    let mut client = Lines::unix(&server);
    for line in [
        &b"\xff\xfe\n"[..],
        b"\0\0\0\n",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xc3\x28\"}\n",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\\ud800\"}\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n",
        b"{\"jsonrpc\":\"2.0\",\"id\":1e999,\"method\":\"echo\"}\n",
    ] {
        client.send_bytes(line);
        assert_eq!(code(&client.answer()), -32700, "{line:?}");
    }
    still_answers(&mut client);
}

#[test]
fn connections_that_break_anywhere_do_no_harm() {
    let server = start();
    let line = format!("{}\n", request(1, "large", json!({ "bytes": 100_000 })));
    for length in 0..=line.len() {
        unix(&server).write_all(&line.as_bytes()[..length]).unwrap();
        tcp(&server).write_all(&line.as_bytes()[..length]).unwrap();
    }
    let head = b"POST /rpc HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{";
    for length in 0..=head.len() {
        tcp(&server).write_all(&head[..length]).unwrap();
    }
    for _ in 0..20 {
        let mut client = Web::open(&server);
        client.send(&request(1, "large", json!({ "bytes": 1_000_000 })));
    }
    still_answers(&mut Lines::unix(&server));
}

#[test]
fn a_flood_of_garbage_from_one_does_not_stop_another() {
    let server = start();
    let flood = {
        let (mut writing, mut reading) = (unix(&server), [0; 1 << 16]);
        let mut also_reading = writing.try_clone().unwrap();
        thread::spawn(move || while also_reading.read(&mut reading).is_ok_and(|read| read > 0) {});
        thread::spawn(move || {
            for _ in 0..20_000 {
                writing.write_all(b"}{\n").unwrap();
            }
            writing.shutdown(std::net::Shutdown::Both).unwrap();
        })
    };
    let mut client = Lines::unix(&server);
    for _ in 0..50 {
        still_answers(&mut client);
    }
    flood.join().unwrap();
}

#[test]
fn who_sends_garbage_must_fetch_the_errors() {
    let mut limits = limits();
    limits.unfetched_bytes = 1 << 16;
    let server = start_with(limits, Some(TOKEN));
    let mut stream = unix(&server);
    stream.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
    let garbage = b"}{\n".repeat(1 << 14);
    let blocked = (0..100).any(|_| stream.write_all(&garbage).is_err());
    assert!(blocked, "the server reads on though nobody fetches its answers");
    still_answers(&mut Lines::unix(&server));
}

#[test]
fn the_last_words_reach_a_client_that_still_sends() {
    let server = start();
    let body = vec![b' '; 3 << 20];
    assert_eq!(Http::tcp(&server).post(&[("Authorization", "")], &body).status, 401);
    let mut client = Lines::stranger(&server);
    client.send_bytes(b"{}\n");
    client.send_bytes(&body);
    assert_eq!(code(&client.answer()), -32003);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_break_the_server(
        messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..20)
    ) {
        let server = start();
        for message in &messages {
            // Errors are welcome: the server may hang up on nonsense.
            let _ = unix(&server).write_all(message);
            let _ = tcp(&server).write_all(message);
            let _ = tcp(&server).write_all(&[b"GET /ws HTTP/1.1\r\n", &message[..]].concat());
        }
        still_answers(&mut Lines::unix(&server));
    }
}
