//! Clients that come and go, ask nonsense, or are several.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use retro_testkit::programs::scratch::Scratch;

use crate::recorded::{Recorded, retro};

/// A server, ended when dropped.
pub struct Server {
    child: Child,
    pub socket: PathBuf,
    _scratch: Scratch,
}

impl Server {
    pub fn start(recorded: &Recorded) -> Server {
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

pub struct Client(UnixStream);

impl Client {
    pub fn connect(socket: &Path) -> Client {
        let stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Client(stream)
    }

    pub fn send(&mut self, packet: &str) {
        let sum = packet.bytes().fold(0u8, u8::wrapping_add);
        self.0.write_all(format!("${packet}#{sum:02x}").as_bytes()).unwrap();
    }

    /// The next packet that is an answer; text for people is none.
    pub fn receive(&mut self) -> String {
        loop {
            let packet = self.receive_any();
            if packet == "OK" || !packet.starts_with('O') {
                return packet;
            }
        }
    }

    /// The next packet, acknowledged.
    pub fn receive_any(&mut self) -> String {
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

    pub fn ask(&mut self, packet: &str) -> String {
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

/// Numbers that look like chance, the same every time.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn hex(&mut self, most: u64) -> String {
        (0..self.below(most)).map(|_| format!("{:02x}", self.below(256))).collect()
    }

    fn number(&mut self) -> String {
        const NUMBERS: [&str; 8] = [
            "0",
            "1",
            "fff",
            "7fffffffffffffff",
            "ffffffffffffffff",
            "10000000000000000",
            "-1",
            "",
        ];
        NUMBERS[self.below(8) as usize].to_owned()
    }

    /// The path of a file that no client may read, or of one that is none.
    fn path(&mut self) -> String {
        const PATHS: [&str; 8] = [
            "/etc/passwd",
            "/proc/self/../../etc/passwd",
            "/proc/1/environ",
            "/proc/self/maps/../environ/..",
            "../../../../etc/shadow",
            "",
            "/",
            "/proc/self/task/../../../etc/passwd",
        ];
        PATHS[self.below(8) as usize].bytes().map(|byte| format!("{byte:02x}")).collect()
    }

    fn packet(&mut self) -> String {
        const OBJECTS: [&str; 7] =
            ["features", "threads", "libraries-svr4", "auxv", "exec-file", "siginfo", "memory-map"];
        const ANNEXES: [&str; 5] = ["", "target.xml", "../target.xml", "a:b:c", "\u{1}"];
        match self.below(8) {
            0 => format!("vFile:open:{},{},0", self.path(), self.number()),
            1 => format!("vFile:pread:{},{},{}", self.number(), self.number(), self.number()),
            2 => format!("vFile:readlink:{}", self.path()),
            3 => {
                let object = OBJECTS[self.below(7) as usize];
                let annex = ANNEXES[self.below(5) as usize];
                format!("qXfer:{object}:read:{annex}:{},{}", self.number(), self.number())
            }
            4 => {
                let condition = self.hex(40);
                format!("Z0,{},1;X{:x},{condition}", self.number(), condition.len() / 2)
            }
            5 => format!("qRcmd,{}", self.hex(20)),
            6 => format!("m{},{}", self.number(), self.number()),
            _ => (0..self.below(20)).map(|_| (b' ' + self.below(90) as u8) as char).collect(),
        }
    }
}

#[test]
fn chance_harms_nothing_and_reads_no_other_files() {
    let server = Server::start(&Recorded::of("steps.c", &["-O0"]));
    let mut client = Client::connect(&server.socket);
    let end = client.ask("?");
    let mut chance = Chance(7);
    for _ in 0..2000 {
        let packet = chance.packet();
        // Those that resume, leave, or end the frame are tested elsewhere.
        let first = packet.chars().next().unwrap_or(' ');
        if packet.contains(['#', '$', '}', '\u{3}'])
            || "bcCsSDkvHQ?".contains(first) && !packet.starts_with("vFile")
        {
            continue;
        }
        let answer = client.ask(&packet);
        let is_open = packet.starts_with("vFile:open") && answer.starts_with('F');
        assert!(!is_open || answer.starts_with("F-1"), "{packet}: {answer}");
    }
    // Conditions that make no sense are none.
    client.ask("Z0,1,1;X1,27");
    assert_eq!(client.ask("?"), end);
    assert!(client.ask("bc").contains("replaylog:begin"));
}

#[test]
fn a_refused_packet_is_not_sent_twice_while_it_is_at_work() {
    let server = Server::start(&Recorded::of("steps.c", &["-O0"]));
    let mut client = Client::connect(&server.socket);
    // A client that loses patience asks again and again; the answer comes once, and the next one is the next.
    client.0.write_all(b"$bc#c5---").unwrap();
    assert!(client.receive().contains("replaylog:begin"));
    assert_eq!(client.ask("qAttached"), "1");
}
