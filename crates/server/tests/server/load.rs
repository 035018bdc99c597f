//! Many clients at once, over all transports.

use std::thread;

use serde_json::{Value, json};

use crate::clients::{Client, Http, Lines, Web, cancel, code, request};
use crate::fake::{Running, start};

const CLIENTS: usize = 64;
const ROUNDS: u64 = 30;

#[test]
fn sixty_four_clients_get_their_own_answers() {
    let server = start();
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            let server = &server;
            scope.spawn(move || match number % 5 {
                0 => converse(&mut Lines::unix(server), number),
                1 => converse(&mut Lines::tcp(server), number),
                2 => converse(&mut Http::tcp(server), number),
                3 => converse(&mut Web::open(server), number),
                _ => interrupt(server, number),
            });
        }
    });
    assert_eq!(Lines::unix(&server).call(&request(1, "add", json!([1, 2])))["result"], 3);
}

fn converse(client: &mut dyn Client, number: usize) {
    for round in 0..ROUNDS {
        let id = format!("{number}/{round}");
        let value = json!([number, round, "x".repeat(round as usize * 100)]);
        let echo = client.call(&request(&*id, "echo", json!({ "value": value })));
        assert_eq!(echo, json!({ "jsonrpc": "2.0", "id": id, "result": value }));
        match round % 5 {
            0 => assert_eq!(code(&client.call(&request(&*id, "nonsense", json!({})))), -32601),
            1 => {
                let slept = client.call(&request(&*id, "sleep", json!({ "milliseconds": 2 })));
                assert_eq!(slept["result"], "slept");
            }
            2 => {
                let batch: Vec<Value> =
                    (0..10).map(|id| request(id, "add", json!([id, number]))).collect();
                let mut sums: Vec<(u64, u64)> = client
                    .call(&json!(batch))
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|sum| (sum["id"].as_u64().unwrap(), sum["result"].as_u64().unwrap()))
                    .collect();
                sums.sort();
                let right: Vec<_> = (0..10).map(|id| (id, id + number as u64)).collect();
                assert_eq!(sums, right);
            }
            3 => {
                let large = client.call(&request(&*id, "large", json!({ "bytes": 100_000 })));
                assert_eq!(large["result"].as_str().unwrap().len(), 100_000);
            }
            _ => assert_eq!(code(&client.call(&request(&*id, "fail", json!({})))), -32000),
        }
    }
}

/// Cancels, breaks off, comes again.
fn interrupt(server: &Running, number: usize) {
    for round in 0..ROUNDS {
        let mut client = Lines::unix(server);
        client.send(&request(0, "sleep", json!({ "milliseconds": 60_000 })));
        client.send(&request(1, "sleep", json!({ "milliseconds": 60_000 })));
        if round % 2 == 0 {
            client.send(&cancel(0));
            assert_eq!(code(&client.answer()), -32800);
        } else {
            client.send(&request(2, "echo", json!({ "value": number })));
        }
    }
}
