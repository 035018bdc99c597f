//! `retro serve` and `retro ui`: other users of the machine, and pages in the user's own browser.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use retro_testkit::compare::Ending;

use crate::place::{Place, retro_path, said};

/// A server, ended when dropped.
struct Server {
    child: Child,
    address: String,
    token: String,
}

impl Server {
    fn start(place: &Place, arguments: &[&str]) -> Server {
        let recorded = place.retro(&["record", "--quiet", "-o", "recording", "--", "true"]);
        assert_eq!(recorded.status, Ending::Exited(0), "{}", said(&recorded));
        let mut command = place.command(retro_path());
        command.args(["serve", "recording", "--listen", "127.0.0.1:0"]).args(arguments);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut next = |start: &str| loop {
            let line = lines.next().unwrap().unwrap();
            if let Some(rest) = line.strip_prefix(start) {
                return rest.to_owned();
            }
        };
        let address = next("address: ");
        let page = next("page: ");
        let token =
            page.split_once("#token=").map_or_else(String::new, |(_, token)| token.to_owned());
        Server { child, address, token }
    }

    /// The status of the answer to a request, and the rest of it.
    fn ask(&self, request: &str) -> (String, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (first, rest) = answer.split_once("\r\n").unwrap_or((&answer, ""));
        (first.split(' ').nth(1).unwrap_or_default().to_owned(), rest.to_owned())
    }

    /// A question with headers of the caller's choice.
    fn question(&self, headers: &str) -> (String, String) {
        let body = r#"{"jsonrpc":"2.0","id":1,"method":"run.info"}"#;
        self.ask(&format!(
            "POST /rpc HTTP/1.1\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{headers}\r\n{body}",
            body.len()
        ))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Another user of the machine does not know the token.
#[test]
fn without_the_token_there_is_no_answer() {
    let place = Place::new("token");
    let server = Server::start(&place, &[]);
    let host = format!("Host: {}\r\n", server.address);
    let wrong = "0".repeat(server.token.len());
    for headers in [
        host.clone(),
        format!("{host}Authorization: Bearer {wrong}\r\n"),
        format!("{host}Authorization: Bearer {}x\r\n", server.token),
        format!("{host}Authorization: Bearer \r\n"),
        format!("{host}Cookie: token={}\r\n", server.token),
        format!("{host}Authorization: Basic {}\r\n", server.token),
    ] {
        let (status, answer) = server.question(&headers);
        assert_eq!(status, "401", "{headers} {answer}");
        assert!(!answer.contains("command"), "{answer}");
    }
    let right = format!("{host}Authorization: Bearer {}\r\n", server.token);
    assert_eq!(server.question(&right).0, "200");
}

/// A page of another site has the name of that site, whatever address the name stands for.
#[test]
fn a_foreign_page_gets_no_answer() {
    let place = Place::new("foreign-page");
    for arguments in [&[][..], &["--no-token"]] {
        let server = Server::start(&place, arguments);
        let token = format!("Authorization: Bearer {}\r\n", server.token);
        let host = format!("Host: {}\r\n", server.address);
        for headers in [
            "Host: evil.example\r\n".to_owned(),
            format!("Host: evil.example:{}\r\n", server.address.rsplit(':').next().unwrap()),
            format!("{host}Origin: http://evil.example\r\n"),
            format!("{host}Origin: null\r\n"),
            format!("{host}Origin: https://{}.evil.example\r\n", server.address),
            format!("{host}Host: evil.example\r\n"),
            String::new(),
        ] {
            let (status, _) = server.question(&format!("{headers}{token}"));
            assert!(["400", "403"].contains(&status.as_str()), "{headers}: {status}");
        }
        // What a form can send without asking the server first.
        let body = r#"{"jsonrpc":"2.0","id":1,"method":"run.info"}"#;
        let (status, answer) = server.ask(&format!(
            "POST /rpc HTTP/1.1\r\nConnection: close\r\n{host}{token}Content-Type: text/plain\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ));
        assert!(status.starts_with('4'), "{status} {answer}");
        drop(server);
        let removed = place.retro(&["rm", "./recording"]);
        assert_eq!(removed.status, Ending::Exited(0), "{}", said(&removed));
    }
}

/// Nothing but the page's own files is served, and they may load nothing else.
#[test]
fn no_file_of_the_machine_is_served() {
    let place = Place::new("static");
    let server = Server::start(&place, &[]);
    for path in [
        "/../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "//etc/passwd",
        "/etc/passwd",
        "/recording/log",
        "/notebook.json",
        "/proc/self/environ",
        "/.",
        "/main.js/../../Cargo.toml",
    ] {
        let (status, answer) = server.ask(&format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
            server.address
        ));
        assert!(status.starts_with('4'), "{path}: {status}");
        assert!(!answer.contains("root:"), "{answer}");
    }
    let (status, page) = server
        .ask(&format!("GET / HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", server.address));
    assert_eq!(status, "200");
    for header in ["default-src 'none'", "frame-ancestors 'none'", "nosniff", "no-referrer"] {
        assert!(page.contains(header), "no {header} in {page}");
    }
    assert!(!page.to_lowercase().contains("access-control-allow-origin"));
}

/// What is neither HTTP nor JSON is let go of.
#[test]
fn nonsense_does_not_stop_the_server() {
    let place = Place::new("nonsense");
    let server = Server::start(&place, &[]);
    let long = "A".repeat(1 << 20);
    for bytes in
        ["\0\0\0\0", "GET", "GET / HTTP/9.9\r\n\r\n", "\x16\x03\x01", "$?#3f", &long, "{", "[[[[[["]
    {
        let mut stream = TcpStream::connect(&server.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let _ = stream.write_all(bytes.as_bytes());
        let _ = stream.read(&mut [0; 100]);
    }
    let page = format!("http://{}/", server.address);
    let curl = Command::new("curl")
        .args(["--silent", "--fail", "--max-time", "20", &page])
        .output()
        .unwrap();
    assert!(curl.status.success(), "{curl:?}");
}
