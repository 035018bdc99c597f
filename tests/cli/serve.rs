//! `retro serve` and `retro ui`: a server that is started, asked over every transport, and stopped.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use retro_testkit::compare::Ending;
use serde_json::{Value, json};

use crate::session::Session;
use crate::store::Store;
use crate::{retro_path, text};

const PATIENCE: Duration = Duration::from_secs(30);

/// A server on a socket and a port.
struct Serving {
    session: Session,
    store: Store,
    address: String,
    token: String,
}

impl Serving {
    fn start(name: &str) -> Serving {
        let store = Store::new(name);
        store.record(&["/bin/echo", "served"]);
        let mut command = store.command(retro_path());
        command.args(["serve", "--socket", "socket", "--listen", "127.0.0.1:0"]);
        let mut session = Session::with_pipe(&mut command);
        assert_eq!(session.expect("serving "), "");
        session.expect("socket: ");
        session.expect("address: ");
        let address = session.expect("\n");
        session.expect("token: ");
        let token = session.expect("\n");
        session.expect("page: ");
        assert_eq!(session.expect("\n"), format!("http://{address}/#token={token}"));
        assert_eq!(token.len(), 32);
        Serving { session, store, address, token }
    }

    fn unix(&self) -> UnixStream {
        let stream = UnixStream::connect(self.store.directory().join("socket")).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    fn tcp(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// The status and the body of an HTTP answer.
    fn post(&self, token: &str, body: &str) -> (String, String) {
        let mut stream = self.tcp();
        let length = body.len();
        let head = format!(
            "POST /rpc HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().to_owned(), body.to_owned())
    }
}

/// Asks over a WebSocket, whose frames are simple enough to be made by hand.
fn ask_websocket(serving: &Serving, question: &str) -> Value {
    let mut stream = serving.tcp();
    let Serving { address, token, .. } = serving;
    let head = format!(
        "GET /ws?token={token} HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut answer = String::new();
    while !answer.ends_with("\r\n\r\n") {
        assert_ne!(reader.read_line(&mut answer).unwrap(), 0, "{answer}");
    }
    assert!(answer.starts_with("HTTP/1.1 101 "), "{answer}");
    // One frame of text, masked with zeroes.
    let length = u8::try_from(question.len()).unwrap();
    assert!(length < 126);
    stream.write_all(&[0x81, 0x80 | length, 0, 0, 0, 0]).unwrap();
    stream.write_all(question.as_bytes()).unwrap();
    let mut head = [0; 4];
    reader.read_exact(&mut head).unwrap();
    let [0x81, 126, high, low] = head else { panic!("{head:?} is no frame of middle length") };
    let mut text = vec![0; usize::from(u16::from_be_bytes([high, low]))];
    reader.read_exact(&mut text).unwrap();
    serde_json::from_slice(&text).unwrap()
}

fn call(method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string()
}

/// Sends a line and reads one.
fn exchange(stream: &mut (impl Read + Write), line: &str) -> Value {
    stream.write_all(format!("{line}\n").as_bytes()).unwrap();
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).unwrap();
    serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer:?}"))
}

fn assert_is_echo(answer: &Value) {
    assert_eq!(answer["result"]["command"], json!(["/bin/echo", "served"]), "{answer}");
    assert_eq!(answer["result"]["index"]["is_complete"], true);
    assert_eq!(answer["result"]["end"], json!({ "how": "exited", "status": 0 }));
}

#[test]
fn every_transport_answers_and_a_signal_ends_it() {
    let serving = Serving::start("serve");
    let info = call("run.info", &json!({}));
    let of_unix = exchange(&mut serving.unix(), &info);
    assert_is_echo(&of_unix);
    let mut tcp = serving.tcp();
    let welcome = exchange(&mut tcp, &call("authenticate", &json!({ "token": serving.token })));
    assert_eq!(welcome["result"], Value::Null);
    assert_eq!(exchange(&mut tcp, &info), of_unix);
    let (status, body) = serving.post(&serving.token, &info);
    assert_eq!(status, "200");
    assert_eq!(serde_json::from_str::<Value>(&body).unwrap(), of_unix);
    assert_eq!(ask_websocket(&serving, &info), of_unix);
    // A question that needs a replay.
    let end = of_unix["result"]["processes"][0]["end"].as_u64().unwrap();
    let registers = call("registers", &json!({ "process": 0, "time": end / 2 }));
    assert!(exchange(&mut tcp, &registers)["result"]["general"]["rip"].is_string());
    let mode = fs::metadata(serving.store.directory().join("socket")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    serving.session.signal(libc::SIGTERM);
    let status = serving.session.wait();
    assert!(libc::WIFEXITED(status), "{status:#x}");
    assert_eq!(libc::WEXITSTATUS(status), 0);
    assert!(!serving.store.directory().join("socket").exists());
}

#[test]
fn a_port_needs_the_token() {
    let serving = Serving::start("serve-token");
    let wrong = "0".repeat(32);
    let info = call("run.info", &json!({}));
    assert_eq!(serving.post(&wrong, &info).0, "401");
    let refused = exchange(&mut serving.tcp(), &call("authenticate", &json!({ "token": wrong })));
    assert_eq!(refused["error"]["code"], -32003);
    assert_eq!(exchange(&mut serving.tcp(), &info)["error"]["code"], -32003);
    assert_is_echo(&exchange(&mut serving.unix(), &info));
}

#[test]
fn without_a_token_the_page_has_none() {
    let store = Store::new("serve-open");
    store.record(&["true"]);
    let mut command = store.command(retro_path());
    let mut session = Session::with_pipe(command.args(["serve", "--no-token"]));
    session.expect("page: ");
    let page = session.expect("\n");
    let address = page.strip_prefix("http://").unwrap().strip_suffix('/').unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    assert_eq!(
        exchange(&mut stream, &call("process.list", &json!({})))["result"]["items"][0]["process"],
        0
    );
    session.signal(libc::SIGINT);
    assert!(libc::WIFEXITED(session.wait()));
}

#[test]
fn the_page_is_opened_and_its_token_is_no_argument() {
    let store = Store::new("ui");
    store.record(&["true"]);
    let directory = store.directory();
    let opener = directory.join("xdg-open");
    let script = "#!/bin/sh\necho \"$*\" > arguments\ncp \"$1\" copy && mv copy opened\n";
    fs::write(&opener, script).unwrap();
    fs::set_permissions(&opener, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = store.command(retro_path());
    command.arg("ui").env("DISPLAY", ":0").env("XDG_RUNTIME_DIR", directory);
    command.env("PATH", format!("{}:/usr/bin:/bin", directory.display()));
    let mut session = Session::with_pipe(&mut command);
    session.expect("token: ");
    let token = session.expect("\n");
    session.expect("page: ");
    let page = session.expect("\n");
    let deadline = Instant::now() + PATIENCE;
    while !directory.join("opened").exists() {
        assert!(Instant::now() < deadline, "no browser was started");
        thread::sleep(Duration::from_millis(10));
    }
    assert!(fs::read_to_string(directory.join("opened")).unwrap().contains(&page));
    assert!(!fs::read_to_string(directory.join("arguments")).unwrap().contains(&token));

    let address = page.strip_prefix("http://").unwrap().split('/').next().unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("GET / HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(answer.contains("<title>Retrospect</title>"), "{answer}");
    session.signal(libc::SIGINT);
    assert!(libc::WIFEXITED(session.wait()));
}

#[test]
fn what_cannot_be_served_is_refused() {
    let store = Store::new("serve-refused");
    let nothing = store.retro(["serve"]);
    assert_eq!(nothing.status, Ending::Exited(1));
    store.record(&["true"]);
    for (arguments, complaint) in [
        (&["serve", "--allow-remote", "--no-token"][..], "cannot be used with"),
        (&["serve", "--listen", "0.0.0.0:0"], "can be reached from other machines"),
        (&["serve", "--listen", "127.0.0.1"], "invalid"),
        (&["serve", "--source-map", "nonsense"], "OLD=NEW"),
        (&["serve", "--socket", "/no/such/directory/socket"], "cannot make the socket"),
    ] {
        let refused = store.retro(arguments);
        assert_ne!(refused.status, Ending::Exited(0), "{arguments:?}");
        assert!(
            text(&refused.stderr).contains(complaint),
            "{arguments:?}: {}",
            text(&refused.stderr)
        );
    }
}
