//! A service whose methods show how they are run, and a server for it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use retro_server::{
    Address, Endpoint, Limits, MethodError, Methods, Options, Page, PageRequest, Server, Service,
    Stopper, Token,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tempfile::TempDir;

pub const TOKEN: &str = "token-of-the-tests";

/// What the methods have seen.
#[derive(Default)]
pub struct Seen {
    pub started: AtomicUsize,
    pub cancelled: AtomicUsize,
    pub finished: AtomicUsize,
}

#[derive(Deserialize, JsonSchema)]
struct Echo {
    value: Value,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Add {
    a: i64,
    b: i64,
}

#[derive(Deserialize, JsonSchema)]
struct Sleep {
    milliseconds: u64,
}

#[derive(Deserialize, JsonSchema)]
struct Large {
    bytes: usize,
}

#[derive(Deserialize, JsonSchema)]
struct Count {
    to: u64,
    #[serde(flatten)]
    page: PageRequest,
}

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

pub fn methods(seen: Arc<Seen>) -> Methods<Arc<Seen>> {
    Methods::new(seen)
        .add("echo", "Returns its value.", |_, echo: Echo, _| Ok(echo.value))
        .add("add", "Adds.", |_, add: Add, _| Ok(add.a.wrapping_add(add.b)))
        .add("sleep", "Sleeps until cancelled.", |seen, sleep: Sleep, context| {
            seen.started.fetch_add(1, Ordering::SeqCst);
            let end = Instant::now() + Duration::from_millis(sleep.milliseconds);
            while Instant::now() < end {
                context.cancel().check().inspect_err(|_| {
                    seen.cancelled.fetch_add(1, Ordering::SeqCst);
                })?;
                thread::sleep(Duration::from_millis(1));
            }
            seen.finished.fetch_add(1, Ordering::SeqCst);
            Ok("slept")
        })
        .add("sleep_deaf", "Sleeps and does not care.", |seen, sleep: Sleep, _| {
            seen.started.fetch_add(1, Ordering::SeqCst);
            thread::sleep(Duration::from_millis(sleep.milliseconds));
            Ok("slept")
        })
        .add("large", "Returns many bytes.", |seen, large: Large, _| {
            seen.started.fetch_add(1, Ordering::SeqCst);
            Ok("x".repeat(large.bytes))
        })
        .add("count", "Counts.", |_, count: Count, context| {
            let pager = context.pager::<u64>(&count.page)?;
            let first = pager.start.unwrap_or(0);
            let end = first.saturating_add(pager.limit as u64).min(count.to);
            let next = (end < count.to).then_some(&end);
            Ok::<Page<u64>, MethodError>(pager.page((first..end).collect(), next))
        })
        .add("report", "Reports progress.", |_, _: Nothing, context| {
            for step in 1..=10 {
                context.progress(step, Some(10));
                thread::sleep(Duration::from_millis(5));
            }
            Ok("done")
        })
        .add("fail", "Has no answer.", |_, _: Nothing, _| -> Result<(), _> {
            let message = "there was nothing".to_owned();
            Err(MethodError::Failed { kind: "nothing_there", message })
        })
        .add("panic", "Has a bug.", |_, _: Nothing, _| -> Result<(), _> {
            panic!("this panic belongs to the test")
        })
}

/// A server that runs until dropped.
pub struct Running {
    pub seen: Arc<Seen>,
    pub tcp: SocketAddr,
    pub socket: PathBuf,
    pub stopper: Stopper,
    thread: Option<JoinHandle<()>>,
    _directory: TempDir,
}

/// Limits with short times.
pub fn limits() -> Limits {
    Limits { workers: 4, ..Limits::default() }
}

pub fn start() -> Running {
    start_with(limits(), Some(TOKEN))
}

pub fn start_with(limits: Limits, token: Option<&str>) -> Running {
    let seen = Arc::new(Seen::default());
    serve(Arc::new(methods(seen.clone())), seen, limits, token)
}

/// A server for any service, on a socket and a port.
pub fn serve(
    service: Arc<dyn Service>,
    seen: Arc<Seen>,
    limits: Limits,
    token: Option<&str>,
) -> Running {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    let options = Options {
        endpoints: vec![
            Endpoint::Unix(socket.clone()),
            Endpoint::Tcp("127.0.0.1:0".parse().unwrap()),
        ],
        token: token.map(|token| Token::from_text(token).unwrap()),
        limits,
        ..Options::default()
    };
    let server = Server::bind(service, options).unwrap();
    let stopper = server.stopper();
    let addresses = server.addresses();
    let tcp = addresses.iter().find_map(|address| match address {
        Address::Tcp(address) => Some(*address),
        Address::Unix(_) => None,
    });
    let thread = Some(thread::spawn(move || server.run().unwrap()));
    Running { seen, tcp: tcp.unwrap(), socket, stopper, thread, _directory: directory }
}

impl Running {
    /// Stops it and says how long that took.
    pub fn stop(&mut self) -> Duration {
        let begin = Instant::now();
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
        begin.elapsed()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Waits for something that another thread does.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < deadline, "never: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}
