//! The end of a server.

use std::env;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{self, SigHandler, Signal, kill};
use nix::unistd::Pid;
use retro_server::{Endpoint, Options, Server, ServerError};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::clients::{Http, Lines, Web, code, request};
use crate::fake::{Seen, eventually, methods, start};

const SECOND: Duration = Duration::from_secs(1);

/// Set for a [`ServerProcess`].
const SOCKET_OF_CHILD: &str = "RETRO_TEST_SERVER_SOCKET";

#[test]
fn outstanding_requests_are_told() {
    let mut server = start();
    let (mut lines, mut web, mut http) =
        (Lines::unix(&server), Web::open(&server), Http::tcp(&server));
    for id in 0..5 {
        lines.send(&request(id, "sleep", json!({ "milliseconds": 60_000 })));
    }
    web.send(&request(1, "sleep", json!({ "milliseconds": 60_000 })));
    eventually("all run", || server.seen.started.load(Ordering::SeqCst) == 4);
    let body = request(1, "sleep", json!({ "milliseconds": 60_000 })).to_string();
    http.send_post(&[], body.as_bytes());
    thread::sleep(Duration::from_millis(50));
    let took = server.stop();
    assert!(took < SECOND, "{took:?}");
    let mut codes: Vec<i64> = (0..5).map(|_| code(&lines.receive().unwrap())).collect();
    codes.sort();
    assert_eq!(codes, [-32800, -32800, -32800, -32004, -32004]);
    assert_eq!(lines.receive(), None);
    assert_eq!(code(&web.receive().unwrap()), -32800);
    assert_eq!(web.receive(), None);
    let answer = http.receive().unwrap();
    assert_eq!(code(&serde_json::from_str(&answer.body).unwrap()), -32004);
    assert!(!server.socket.exists());
}

#[test]
fn questions_that_do_not_listen_are_left_behind() {
    let mut server = start();
    let mut client = Lines::unix(&server);
    client.send(&request(1, "sleep_deaf", json!({ "milliseconds": 3000 })));
    eventually("it runs", || server.seen.started.load(Ordering::SeqCst) == 1);
    let took = server.stop();
    assert!(took < SECOND, "{took:?}");
    assert_eq!(client.receive(), None);
}

#[test]
fn clients_that_do_not_fetch_are_left_behind() {
    let mut server = start();
    let mut client = Lines::unix(&server);
    for id in 0..10 {
        client.send(&request(id, "large", json!({ "bytes": 1 << 20 })));
    }
    let _idle = (Lines::stranger(&server), Lines::unix(&server), Web::open(&server));
    eventually("answers wait", || server.seen.started.load(Ordering::SeqCst) > 3);
    let took = server.stop();
    assert!(took < SECOND, "{took:?}");
}

#[test]
fn only_loopback_unless_told_otherwise() {
    let options = |allow_remote| Options {
        endpoints: vec![Endpoint::Tcp("0.0.0.0:0".parse().unwrap())],
        allow_remote,
        ..Options::default()
    };
    let service = Arc::new(methods(Arc::new(Seen::default())));
    let refused = Server::bind(service.clone(), options(false));
    assert!(matches!(refused, Err(ServerError::NotLoopback(_))));
    assert!(Server::bind(service, options(true)).is_ok());
}

#[test]
fn signals_stop_the_process() {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let mut process = ServerProcess::start();
        let mut client = process.connect();
        assert_eq!(ask(&mut client, "echo", json!({ "value": 1 }))["result"], 1);
        send(&mut client, "sleep_deaf", json!({ "milliseconds": 20_000 }));
        thread::sleep(Duration::from_millis(50));
        let begin = Instant::now();
        kill(Pid::from_raw(process.child.id() as i32), signal).unwrap();
        let status = process.child.wait().unwrap();
        assert!(begin.elapsed() < SECOND, "{signal}: {:?}", begin.elapsed());
        assert!(status.success(), "{signal}: {status}");
        assert!(!process.socket.exists(), "{signal}");
    }
}

#[test]
fn a_client_that_goes_away_does_not_end_the_process() {
    let mut process = ServerProcess::start();
    let large = request(1, "large", json!({ "bytes": 1 << 20 })).to_string();
    let head = "POST /rpc HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    let post = format!("{head}Content-Length: {}\r\n\r\n{large}", large.len());
    for message in [format!("{large}\n{large}\n"), post] {
        for _ in 0..20 {
            let mut leaving = process.connect();
            leaving.write_all(message.as_bytes()).unwrap();
            // The answer is on its way and will not fit.
            leaving.read_exact(&mut [0]).unwrap();
        }
    }
    let mut client = process.connect();
    assert_eq!(ask(&mut client, "echo", json!({ "value": 1 }))["result"], 1);
    process.child.kill().unwrap();
    process.child.wait().unwrap();
}

/// A server in a process of its own.
struct ServerProcess {
    child: Child,
    socket: PathBuf,
    _directory: TempDir,
}

impl ServerProcess {
    fn start() -> ServerProcess {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("socket");
        let child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "stopping::serve_in_a_process", "--ignored", "--nocapture"])
            .env(SOCKET_OF_CHILD, &socket)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        eventually("it listens", || UnixStream::connect(&socket).is_ok());
        ServerProcess { child, socket, _directory: directory }
    }

    fn connect(&self) -> UnixStream {
        UnixStream::connect(&self.socket).unwrap()
    }
}

fn send(stream: &mut UnixStream, method: &str, params: Value) {
    stream.write_all(format!("{}\n", request(1, method, params)).as_bytes()).unwrap();
}

fn ask(stream: &mut UnixStream, method: &str, params: Value) -> Value {
    send(stream, method, params);
    let mut answer = String::new();
    BufReader::new(stream.try_clone().unwrap()).read_line(&mut answer).unwrap();
    serde_json::from_str(&answer).unwrap()
}

/// Not a test of its own.
#[test]
#[ignore = "started by other tests, in a process of its own"]
fn serve_in_a_process() {
    let Some(socket) = env::var_os(SOCKET_OF_CHILD) else { return };
    // As in `retro`, which goes without the start-up code that ignores this signal.
    // SAFETY: the default action is no handler.
    unsafe { signal::signal(Signal::SIGPIPE, SigHandler::SigDfl) }.unwrap();
    let options = Options { endpoints: vec![Endpoint::Unix(socket.into())], ..Options::default() };
    let service = Arc::new(methods(Arc::new(Seen::default())));
    Server::bind(service, options).unwrap().run_until_signal().unwrap();
    std::process::exit(0);
}
