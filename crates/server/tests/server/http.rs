//! HTTP: what is accepted, from whom, and what is not.

use std::io::Write;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};

use crate::clients::{Client, Http, code, request};
use crate::fake::{TOKEN, eventually, limits, start, start_with};

#[test]
fn requests_are_answered_on_one_connection() {
    let server = start();
    for mut client in [Http::tcp(&server), Http::unix(&server)] {
        for number in 0..3 {
            let answer = client.call(&request(number, "echo", json!({ "value": number })));
            assert_eq!(answer, json!({ "jsonrpc": "2.0", "id": number, "result": number }));
        }
        let batch = json!([request(1, "echo", json!({ "value": 1 })), 2]);
        assert_eq!(client.call(&batch).as_array().unwrap().len(), 2);
        assert_eq!(code(&client.call(&json!([]))), -32600);
        let notification = json!({ "jsonrpc": "2.0", "method": "echo" }).to_string();
        assert_eq!(client.post(&[], notification.as_bytes()).status, 204);
    }
}

#[test]
fn malformed_bodies_are_json_rpc_errors() {
    let server = start();
    let mut client = Http::tcp(&server);
    for body in [&b"{"[..], b"", b"\xff\xfe\x00", b"{\"a\":\"\xff\"}"] {
        let answer = client.post(&[], body);
        assert_eq!(answer.status, 200);
        assert_eq!(code(&serde_json::from_str(&answer.body).unwrap()), -32700);
    }
}

#[test]
fn the_token_is_needed_but_on_a_unix_socket() {
    let server = start();
    let body = request(1, "echo", json!({ "value": 1 })).to_string();
    for header in ["", "Bearer", "Bearer token-of-the-testz", "Basic token-of-the-tests", TOKEN] {
        let answer = Http::tcp(&server).post(&[("Authorization", header)], body.as_bytes());
        assert_eq!(answer.status, 401, "{header}");
        assert!(answer.head.contains("www-authenticate: bearer"));
        assert!(!answer.body.contains(TOKEN));
    }
    let answer = Http::unix(&server).post(&[("Authorization", "")], body.as_bytes());
    assert_eq!(answer.status, 200);
    let open = start_with(limits(), None);
    let answer = Http::tcp(&open).post(&[("Authorization", "")], body.as_bytes());
    assert_eq!(answer.status, 200);
}

#[test]
fn other_pages_get_nothing() {
    // Without a token, only these checks are left.
    let server = start_with(limits(), None);
    let body = request(1, "echo", json!({ "value": 1 })).to_string();
    let status =
        |replaced: &[(&str, &str)]| Http::tcp(&server).post(replaced, body.as_bytes()).status;
    assert_eq!(status(&[("Host", "evil.example")]), 403);
    assert_eq!(status(&[("Host", "evil.example"), ("Origin", "http://evil.example")]), 403);
    assert_eq!(status(&[("Origin", "http://evil.example")]), 403);
    assert_eq!(status(&[("Origin", "null")]), 403);
    assert_eq!(status(&[("Origin", "http://localhost")]), 200);
    assert_eq!(status(&[("Content-Type", "text/plain")]), 415);
    assert_eq!(status(&[("Content-Type", "")]), 415);
    assert_eq!(status(&[("Content-Type", "application/json; charset=utf-8")]), 200);
    let preflight = [("Host", "localhost"), ("Origin", "http://evil.example")];
    let answer = Http::tcp(&server).exchange("OPTIONS /rpc", &preflight, b"");
    assert!(!answer.head.contains("access-control"), "{}", answer.head);
    let page = Http::tcp(&server).exchange("GET /", &[("Host", "evil.example")], b"");
    assert_eq!(page.status, 403);
}

#[test]
fn the_page_says_what_this_is() {
    let server = start();
    let mut client = Http::tcp(&server);
    let page = client.exchange("GET /?token=any", &[("Host", "127.0.0.1")], b"");
    assert_eq!(page.status, 200);
    assert!(page.body.contains("Retrospect") && page.body.contains("/rpc"));
    assert!(page.head.contains("referrer-policy: no-referrer"));
    assert_eq!(client.exchange("GET /other", &[("Host", "localhost")], b"").status, 404);
    assert_eq!(client.exchange("GET /rpc", &[("Host", "localhost")], b"").status, 405);
    let put = [("Host", "localhost"), ("Content-Length", "0")];
    assert_eq!(client.exchange("PUT /", &put, b"").status, 405);
}

#[test]
fn large_bodies_are_refused() {
    let server = start();
    let body = vec![b' '; (1 << 20) + 1];
    assert_eq!(Http::tcp(&server).post(&[], &body).status, 413);
    let claimed = [("Content-Length", "99999999999")];
    assert_eq!(Http::tcp(&server).post(&claimed, b"{").status, 413);
    let chunked = [("Transfer-Encoding", "chunked"), ("Content-Length", "")];
    let chunk = [format!("{:x}\r\n", body.len()).as_bytes(), &body, b"\r\n0\r\n\r\n"].concat();
    assert_eq!(Http::tcp(&server).post(&chunked, &chunk).status, 413);
}

#[test]
fn chunked_bodies_are_read_and_contradictory_ones_are_not() {
    let server = start();
    let body = request(1, "echo", json!({ "value": 1 })).to_string();
    let chunked = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let headers = [("Transfer-Encoding", "chunked"), ("Content-Length", "")];
    let answer = Http::tcp(&server).post(&headers, chunked.as_bytes());
    assert_eq!(answer.status, 200, "{answer:?}");
    // What follows the end of the chunks must not be taken for another request by one side only.
    let smuggled = "0\r\n\r\nGET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let length = smuggled.len().to_string();
    let both = [("Transfer-Encoding", "chunked"), ("Content-Length", &*length)];
    let mut client = Http::tcp(&server);
    client.send_post(&both, smuggled.as_bytes());
    client.receive();
    assert!(client.receive().is_none(), "the connection must not go on");
    let twice = [("Content-Length", "3"), ("content-length", "4")];
    assert_eq!(Http::tcp(&server).post(&twice, b"{}  ").status, 400);
}

#[test]
fn slow_requests_are_cut_off() {
    let mut limits = limits();
    limits.introduction = Duration::from_millis(200);
    limits.request_time = Duration::from_millis(200);
    let server = start_with(limits, Some(TOKEN));
    let mut slow_head = Http::tcp(&server);
    slow_head.stream.get_mut().write_all(b"POST /rpc HTTP/1.1\r\nHost: ").unwrap();
    assert!(slow_head.receive().is_none_or(|answer| answer.status == 408));
    let mut slow_body = Http::tcp(&server);
    slow_body.send_post(&[("Content-Length", "100")], b"{");
    assert_eq!(slow_body.receive().unwrap().status, 408);
}

#[test]
fn a_client_that_leaves_cancels_its_request() {
    let server = start();
    for mut client in [Http::tcp(&server), Http::unix(&server)] {
        let cancelled = server.seen.cancelled.load(Ordering::SeqCst);
        let started = server.seen.started.load(Ordering::SeqCst);
        let body = request(1, "sleep", json!({ "milliseconds": 60_000 })).to_string();
        client.send_post(&[], body.as_bytes());
        eventually("started", || server.seen.started.load(Ordering::SeqCst) > started);
        drop(client);
        eventually("cancelled", || server.seen.cancelled.load(Ordering::SeqCst) > cancelled);
    }
}

#[test]
fn progress_is_not_mistaken_for_the_answer() {
    let server = start();
    let answer: Value =
        Http::tcp(&server).call(&request(1, "report", json!({ "progressToken": 1 })));
    assert_eq!(answer["result"], "done");
}
