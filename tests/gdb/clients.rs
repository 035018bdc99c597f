//! Clients that come and go, ask nonsense, or are several.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use retro_testkit::programs::scratch::Scratch;

use crate::recorded::{Recorded, retro};

/// A server, ended when dropped.
struct Server {
    child: Child,
    socket: PathBuf,
    _scratch: Scratch,
}

impl Server {
    fn start(recorded: &Recorded) -> Server {
        let scratch = Scratch::new("gdbserver");
        let socket = scratch.path().join("socket");
        let mut child = Command::new(retro())
            .arg("gdbserver")
            .arg(recorded.directory())
            .arg("--socket")
            .arg(&socket)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let output = child.stdout.as_mut().unwrap();
        BufReader::new(output).read_line(&mut line).unwrap();
        assert!(line.starts_with("listening: "), "{line}");
        Server { child, socket, _scratch: scratch }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Client(UnixStream);

impl Client {
    fn connect(socket: &Path) -> Client {
        let stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Client(stream)
    }

    fn send(&mut self, packet: &str) {
        let sum = packet.bytes().fold(0u8, u8::wrapping_add);
        self.0.write_all(format!("${packet}#{sum:02x}").as_bytes()).unwrap();
    }

    /// The next packet that is an answer; text for people is none.
    fn receive(&mut self) -> String {
        loop {
            let packet = self.receive_any();
            if packet == "OK" || !packet.starts_with('O') {
                return packet;
            }
        }
    }

    /// The next packet, acknowledged.
    fn receive_any(&mut self) -> String {
        let mut byte = [0];
        let mut packet = Vec::new();
        loop {
            self.0.read_exact(&mut byte).expect("the server answers");
            match byte[0] {
                b'$' => packet.clear(),
                b'#' => break,
                other => packet.push(other),
            }
        }
        self.0.read_exact(&mut [0; 2]).unwrap();
        self.0.write_all(b"+").unwrap();
        String::from_utf8_lossy(&packet).into_owned()
    }

    fn ask(&mut self, packet: &str) -> String {
        self.send(packet);
        self.receive()
    }
}

#[test]
fn every_client_has_a_view_of_its_own() {
    let server = Server::start(&Recorded::of("steps.c", &["-O0"]));
    let (mut one, mut other) = (Client::connect(&server.socket), Client::connect(&server.socket));
    let end = one.ask("?");
    assert_eq!(other.ask("?"), end);
    assert!(one.ask("bc").contains("replaylog:begin"));
    assert_eq!(other.ask("?"), end);
    // One that goes without a word harms nobody, and can come back.
    drop(one);
    assert_eq!(other.ask("?"), end);
    assert_eq!(Client::connect(&server.socket).ask("?"), end);
}

#[test]
fn nonsense_is_answered_or_ignored() {
    let server = Server::start(&Recorded::of("steps.c", &["-O0"]));
    let mut client = Client::connect(&server.socket);
    let end = client.ask("?");
    for nonsense in [
        "",
        "m",
        "m,",
        "mffffffffffffffff,ffffffffffffffff",
        "p",
        "pffff",
        "Z0",
        "Z0,1,1;X",
        "Z9,1,1",
        "vCont;",
        "vCont;x",
        "vCont;r5,1:zz",
        "vFile:open:zz,0,0",
        "vFile:pread:63,1,1",
        "qXfer:features:read:nosuch.xml:0,10",
        "qXfer:threads:read::ffffffff,10",
        "Hg",
        "Hgp1.zz",
        "T7fffffff",
        "qGetTLSAddr:1,2,3",
        "qRcmd,zz",
        "qRcmd,",
        "QCatchSyscalls:9",
        "!",
        "R00",
        "vRun;61",
        "G00",
        "Mff,1:00",
        "X0,0:",
    ] {
        client.send(nonsense);
        client.receive();
    }
    // Damaged, too long for its sum, cut off by the next one.
    client.0.write_all(b"$?#00$ab$cd#zz+++\x03").unwrap();
    assert_eq!(client.ask("?"), end, "it goes on as if nothing had happened");
}

#[test]
fn an_interrupt_ends_a_search() {
    let server = Server::start(&Recorded::of("steps.c", &["-O0"]));
    let mut client = Client::connect(&server.socket);
    // It comes together with what it interrupts, so that it is there in time.
    client.0.write_all(b"$bc#c5\x03").unwrap();
    let stop = client.receive();
    assert!(stop.starts_with("T02") || stop.contains("replaylog:begin"), "{stop}");
    assert!(client.ask("?").starts_with('T'));
}
