//! Clients for each transport.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde_json::{Value, json};
use tungstenite::client::IntoClientRequest;
use tungstenite::{Message, WebSocket};

use crate::fake::{Running, TOKEN};

/// No test waits longer for a byte.
const PATIENCE: Duration = Duration::from_secs(20);

/// A request.
pub fn request(id: impl Into<Value>, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id.into(), "method": method, "params": params })
}

pub fn cancel(id: impl Into<Value>) -> Value {
    json!({ "jsonrpc": "2.0", "method": "$/cancel", "params": { "id": id.into() } })
}

pub fn code(answer: &Value) -> i64 {
    answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("no error: {answer}"))
}

/// Something with requests and answers.
pub trait Client {
    fn call(&mut self, request: &Value) -> Value;
}

/// A stream of either kind.
pub trait Stream: Read + Write + Send {
    fn close_sending(&self);
}

impl Stream for TcpStream {
    fn close_sending(&self) {
        self.shutdown(Shutdown::Write).unwrap();
    }
}

impl Stream for UnixStream {
    fn close_sending(&self) {
        self.shutdown(Shutdown::Write).unwrap();
    }
}

pub fn tcp(server: &Running) -> TcpStream {
    let stream = TcpStream::connect(server.tcp).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

pub fn unix(server: &Running) -> UnixStream {
    let stream = UnixStream::connect(&server.socket).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// One object a line.
pub struct Lines {
    pub stream: BufReader<Box<dyn Stream>>,
}

impl Lines {
    pub fn unix(server: &Running) -> Lines {
        Lines { stream: BufReader::new(Box::new(unix(server))) }
    }

    /// Not authenticated.
    pub fn stranger(server: &Running) -> Lines {
        Lines { stream: BufReader::new(Box::new(tcp(server))) }
    }

    pub fn tcp(server: &Running) -> Lines {
        let mut client = Lines::stranger(server);
        let welcome = client.call(&request(0, "authenticate", json!({ "token": TOKEN })));
        assert_eq!(welcome, json!({ "jsonrpc": "2.0", "id": 0, "result": null }));
        client
    }

    pub fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).unwrap();
    }

    pub fn send(&mut self, message: &Value) {
        self.send_bytes(format!("{message}\n").as_bytes());
    }

    /// The next message, or none at the end.
    pub fn receive(&mut self) -> Option<Value> {
        let mut line = String::new();
        match self.stream.read_line(&mut line) {
            Ok(0) => None,
            Ok(_) => Some(serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line:?}"))),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => None,
            Err(error) => panic!("{error}"),
        }
    }

    pub fn answer(&mut self) -> Value {
        self.receive().expect("the server closed the connection")
    }
}

impl Client for Lines {
    fn call(&mut self, request: &Value) -> Value {
        self.send(request);
        self.answer()
    }
}

/// An HTTP answer.
#[derive(Debug)]
pub struct HttpAnswer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

/// HTTP on one connection.
pub struct Http {
    pub stream: BufReader<Box<dyn Stream>>,
}

impl Http {
    pub fn tcp(server: &Running) -> Http {
        Http { stream: BufReader::new(Box::new(tcp(server))) }
    }

    pub fn unix(server: &Running) -> Http {
        Http { stream: BufReader::new(Box::new(unix(server))) }
    }

    pub fn send(&mut self, start: &str, headers: &[(&str, &str)], body: &[u8]) {
        let mut head = format!("{start} HTTP/1.1\r\n");
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        let mut bytes = format!("{head}\r\n").into_bytes();
        bytes.extend_from_slice(body);
        self.stream.get_mut().write_all(&bytes).unwrap();
    }

    /// The answer, or none if the connection ends first.
    pub fn receive(&mut self) -> Option<HttpAnswer> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.stream.read_line(&mut head).ok()? == 0 {
                return None;
            }
        }
        let lower = head.to_ascii_lowercase();
        let length = lower.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        self.stream.read_exact(&mut body).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Some(HttpAnswer { status, head: lower, body: String::from_utf8(body).unwrap() })
    }

    pub fn exchange(&mut self, start: &str, headers: &[(&str, &str)], body: &[u8]) -> HttpAnswer {
        self.send(start, headers, body);
        self.receive().expect("the server closed the connection")
    }

    /// A request as it should be, but for some headers.
    pub fn post(&mut self, replaced: &[(&str, &str)], body: &[u8]) -> HttpAnswer {
        self.send_post(replaced, body);
        self.receive().expect("the server closed the connection")
    }

    pub fn send_post(&mut self, replaced: &[(&str, &str)], body: &[u8]) {
        let length = body.len().to_string();
        let bearer = format!("Bearer {TOKEN}");
        let mut headers = vec![
            ("Host", "localhost"),
            ("Authorization", &*bearer),
            ("Content-Type", "application/json"),
            ("Content-Length", &*length),
        ];
        headers.retain(|(name, _)| replaced.iter().all(|(other, _)| name != other));
        headers.extend(replaced.iter().filter(|(_, value)| !value.is_empty()));
        self.send("POST /rpc", &headers, body);
    }
}

impl Client for Http {
    fn call(&mut self, request: &Value) -> Value {
        let answer = self.post(&[], request.to_string().as_bytes());
        assert_eq!(answer.status, 200, "{answer:?}");
        serde_json::from_str(&answer.body).unwrap()
    }
}

/// A WebSocket.
pub struct Web(pub WebSocket<TcpStream>);

impl Web {
    pub fn open(server: &Running) -> Web {
        Web::try_open(server, &format!("?token={TOKEN}"), &[]).unwrap()
    }

    /// The status if it was refused.
    pub fn try_open(
        server: &Running,
        query: &str,
        headers: &[(&'static str, &str)],
    ) -> Result<Web, u16> {
        let url = format!("ws://{}/ws{query}", server.tcp);
        let mut request = url.into_client_request().unwrap();
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        match tungstenite::client(request, tcp(server)) {
            Ok((socket, _)) => Ok(Web(socket)),
            Err(tungstenite::HandshakeError::Failure(tungstenite::Error::Http(answer))) => {
                Err(answer.status().as_u16())
            }
            Err(error) => panic!("{error}"),
        }
    }

    pub fn send(&mut self, message: &Value) {
        self.0.send(Message::Text(message.to_string().into())).unwrap();
    }

    /// The next message, or none when the server closes.
    pub fn receive(&mut self) -> Option<Value> {
        loop {
            match self.0.read() {
                Ok(Message::Text(text)) => return Some(serde_json::from_str(&text).unwrap()),
                Ok(Message::Close(_)) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    pub fn answer(&mut self) -> Value {
        self.receive().expect("the server closed the connection")
    }
}

impl Client for Web {
    fn call(&mut self, request: &Value) -> Value {
        self.send(request);
        self.answer()
    }
}
