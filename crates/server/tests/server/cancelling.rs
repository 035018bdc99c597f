//! A long search ends when nobody wants it any more.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::clients::{Client, Lines, Web, cancel, code, request};
use crate::recorded::workers;

/// Looks at the memory of every moment of the run: hours.
const ENDLESS: &str = "start forward instruction all where counter < 0";

#[test]
fn a_long_search_is_cancelled_at_once() {
    let recorded = workers();
    let server = recorded.serve();
    let params = json!({ "process": 0, "time": 0, "query": ENDLESS });
    let mut client = Lines::unix(&server);
    client.send(&request(1, "goto", params.clone()));
    std::thread::sleep(Duration::from_millis(300));
    let begun = Instant::now();
    client.send(&cancel(1));
    let answer = client.answer();
    assert_eq!(code(&answer), -32800, "{answer}");
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    // So it is for one who goes away: all workers are free again.
    for _ in 0..8 {
        let mut client = Web::open(&server);
        client.send(&request(1, "goto", params.clone()));
    }
    let begun = Instant::now();
    let depth =
        client.call(&request(2, "call.depth", json!({ "process": 0, "time": recorded.end() / 2 })));
    assert!(depth["result"]["depth"].is_u64(), "{depth}");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[test]
fn a_server_with_long_searches_stops() {
    let recorded = workers();
    let mut server = recorded.serve();
    let params = json!({ "process": 0, "time": 0, "query": ENDLESS });
    let mut client = Lines::unix(&server);
    (0..4).for_each(|id| client.send(&request(id, "goto", params.clone())));
    std::thread::sleep(Duration::from_millis(200));
    assert!(server.stop() < Duration::from_secs(2));
}
