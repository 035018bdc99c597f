//! Listening, accepting, stopping.
//!
//! Every endpoint speaks every transport: HTTP requests begin with a capital letter, which JSON cannot, so that the
//! first byte tells them apart. Stopping takes three steps, each with its limit: questions are asked to give up,
//! connections are told to send what they have and close, then everything is dropped. Threads that do not give up are
//! left behind; the process is about to end.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};
use nix::unistd::geteuid;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, BufReader};
use tokio::runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{sleep, timeout};

use crate::access::{Access, Token, WebRule};
use crate::conversation::Core;
use crate::error::ServerError;
use crate::http::{self, SIGNPOST, StaticFile};
use crate::limits::Limits;
use crate::lines;
use crate::schedule::Schedule;
use crate::service::Service;
use crate::stalls::Patient;
use crate::unix_socket::{self, SocketFile};

/// Time for questions to notice that they are cancelled.
const TIME_TO_GIVE_UP: Duration = Duration::from_millis(400);

/// Time for connections to send what they have.
const TIME_TO_CLOSE: Duration = Duration::from_millis(300);

/// Pause after a failure to accept, for example for lack of descriptors.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(100);

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A socket file for this user alone. A stale one is replaced.
    Unix(PathBuf),
    /// A port; 0 for any that is free.
    Tcp(SocketAddr),
}

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A socket file.
    Unix(PathBuf),
    /// An address with its port.
    Tcp(SocketAddr),
}

/// How to serve.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where to listen; may be several.
    pub endpoints: Vec<Endpoint>,
    /// What TCP clients must know; none lets every user of the machine ask.
    pub token: Option<Token>,
    /// Allows TCP addresses that other machines can reach.
    pub allow_remote: bool,
    /// Names of this machine that may stand in an HTTP `Host`, besides `localhost` and addresses.
    pub host_names: Vec<String>,
    /// The web page.
    pub files: &'static [StaticFile],
    /// How much clients may ask for.
    pub limits: Limits,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            endpoints: Vec::new(),
            token: None,
            allow_remote: false,
            host_names: Vec::new(),
            files: SIGNPOST,
            limits: Limits::default(),
        }
    }
}

/// A server that listens already and serves when it is run.
pub struct Server {
    core: Arc<Core>,
    listeners: Vec<Listener>,
    files: &'static [StaticFile],
    stop: watch::Sender<bool>,
    tcp_access: Arc<Access>,
}

enum Listener {
    Unix(UnixListener, SocketFile),
    Tcp(TcpListener),
}

/// Stops a server from elsewhere.
#[derive(Clone, Debug)]
pub struct Stopper(watch::Sender<bool>);

impl Stopper {
    /// Makes [`Server::run`] return within a second.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

/// The other end of a [`Stopper`].
#[derive(Clone)]
pub(crate) struct Stopping(watch::Receiver<bool>);

impl Stopping {
    pub async fn wait(&mut self) {
        // When the sender is gone, so is the server.
        let _ = self.0.wait_for(|stopping| *stopping).await;
    }
}

/// What a transport needs to serve a connection.
pub(crate) struct Connection {
    pub core: Arc<Core>,
    pub access: Arc<Access>,
    pub files: &'static [StaticFile],
    /// Ends when no more is to be read.
    pub stopping: Stopping,
    /// How long questions go on after the client has closed its sending side; none if we learn about the other side.
    pub half_closed: Option<Duration>,
    _place: OwnedSemaphorePermit,
}

impl Server {
    /// Listens; clients can connect from now on, and are served by [`Server::run`].
    pub fn bind(service: Arc<dyn Service>, options: Options) -> Result<Server, ServerError> {
        let listeners = options
            .endpoints
            .iter()
            .map(|endpoint| listen(endpoint, options.allow_remote))
            .collect::<Result<_, _>>()?;
        let schedule = Schedule::new(&options.limits);
        let web = WebRule::Names(options.host_names);
        Ok(Server {
            core: Arc::new(Core::new(service, schedule, options.limits)),
            listeners,
            files: options.files,
            stop: watch::Sender::new(false),
            tcp_access: Arc::new(Access { token: options.token, web }),
        })
    }

    /// Where it listens.
    pub fn addresses(&self) -> Vec<Address> {
        let address_of = |listener: &Listener| match listener {
            Listener::Unix(_, file) => Some(Address::Unix(file.path().to_owned())),
            Listener::Tcp(listener) => listener.local_addr().ok().map(Address::Tcp),
        };
        self.listeners.iter().filter_map(address_of).collect()
    }

    /// For stopping it from another thread.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.stop.clone())
    }

    /// Serves until it is stopped.
    pub fn run(self) -> Result<(), ServerError> {
        self.run_with(async |_| Ok(()))
    }

    /// Serves until it is stopped or the process gets SIGINT, SIGTERM or SIGHUP.
    pub fn run_until_signal(self) -> Result<(), ServerError> {
        self.run_with(async |stopper| {
            for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
                let mut signals = signal(kind)?;
                let stopper: Stopper = stopper.clone();
                tokio::spawn(async move {
                    signals.recv().await;
                    stopper.stop();
                });
            }
            Ok(())
        })
    }

    fn run_with(
        self,
        prepare: impl AsyncFnOnce(Stopper) -> io::Result<()>,
    ) -> Result<(), ServerError> {
        let events = runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(ServerError::Start)?;
        let outcome = events.block_on(async {
            prepare(self.stopper()).await?;
            // A client that goes away while it is written to must not end the process. Unlike ignoring the signal,
            // this is not passed on to programs that are started from here.
            let _pipe = signal(SignalKind::pipe())?;
            self.core.schedule.start_workers()?;
            self.serve().await
        });
        // Drops all connections without waiting for anything.
        events.shutdown_background();
        outcome.map_err(ServerError::Start)
    }

    async fn serve(self) -> io::Result<()> {
        let mut stopped = Stopping(self.stop.subscribe());
        let (no_more, stopping) = watch::channel(false);
        let stopping = Stopping(stopping);
        let places = Arc::new(Semaphore::new(self.core.limits.connections));
        let mut socket_files = Vec::new();
        let mut accepting = Vec::new();
        for listener in self.listeners {
            let acceptor = Acceptor {
                core: self.core.clone(),
                files: self.files,
                stopping: stopping.clone(),
                places: places.clone(),
            };
            accepting.push(match listener {
                Listener::Unix(listener, file) => {
                    socket_files.push(file);
                    listener.set_nonblocking(true)?;
                    tokio::spawn(
                        acceptor.accept_unix(tokio::net::UnixListener::from_std(listener)?),
                    )
                }
                Listener::Tcp(listener) => {
                    let access = self.tcp_access.clone();
                    listener.set_nonblocking(true)?;
                    let listener = tokio::net::TcpListener::from_std(listener)?;
                    tokio::spawn(acceptor.accept_tcp(listener, access))
                }
            });
        }
        stopped.wait().await;
        drop(socket_files);
        accepting.iter().for_each(|task| task.abort());
        stop_questions(&self.core.schedule).await;
        no_more.send_replace(true);
        let all_places = places.acquire_many(self.core.limits.connections as u32);
        let _ = timeout(TIME_TO_CLOSE, all_places).await;
        Ok(())
    }
}

/// Whether a client is this user's, or root's, who can do everything anyway.
fn is_own(stream: &tokio::net::UnixStream) -> bool {
    const ROOT: u32 = 0;
    stream.peer_cred().is_ok_and(|peer| [ROOT, geteuid().as_raw()].contains(&peer.uid()))
}

async fn stop_questions(schedule: &Arc<Schedule>) {
    schedule.stop();
    let schedule = schedule.clone();
    // The event loop goes on meanwhile: answers may have to leave for questions to end.
    let idle = tokio::task::spawn_blocking(move || schedule.wait_until_idle(TIME_TO_GIVE_UP));
    let _ = idle.await;
}

fn listen(endpoint: &Endpoint, allow_remote: bool) -> Result<Listener, ServerError> {
    match endpoint {
        Endpoint::Unix(path) => {
            let (listener, file) = unix_socket::listen(path)?;
            Ok(Listener::Unix(listener, file))
        }
        Endpoint::Tcp(address) if !address.ip().is_loopback() && !allow_remote => {
            Err(ServerError::NotLoopback(*address))
        }
        Endpoint::Tcp(address) => match TcpListener::bind(address) {
            Ok(listener) => Ok(Listener::Tcp(listener)),
            Err(error) => Err(ServerError::Listen { address: *address, error }),
        },
    }
}

/// Turns connections of one endpoint into tasks.
struct Acceptor {
    core: Arc<Core>,
    files: &'static [StaticFile],
    stopping: Stopping,
    places: Arc<Semaphore>,
}

impl Acceptor {
    async fn accept_unix(self, listener: tokio::net::UnixListener) {
        let access = Arc::new(Access { token: None, web: WebRule::Any });
        loop {
            match listener.accept().await {
                // Somebody else may have been given the socket, or have found a way to it.
                Ok((stream, _)) if is_own(&stream) => self.start(stream, &access, None),
                Ok(_) => {}
                Err(_) => sleep(PAUSE_AFTER_FAILURE).await,
            }
        }
    }

    async fn accept_tcp(self, listener: tokio::net::TcpListener, access: Arc<Access>) {
        let half_closed = Some(self.core.limits.half_closed);
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    // Without these it works, too, only worse.
                    let _ = stream.set_nodelay(true);
                    let _ = setsockopt(&stream, sockopt::KeepAlive, &true);
                    self.start(stream, &access, half_closed);
                }
                Err(_) => sleep(PAUSE_AFTER_FAILURE).await,
            }
        }
    }

    fn start<S>(&self, stream: S, access: &Arc<Access>, half_closed: Option<Duration>)
    where
        S: AsyncRead + AsyncWrite + AsFd + Unpin + Send + 'static,
    {
        // Too many: dropping the stream tells the client.
        let Ok(place) = self.places.clone().try_acquire_owned() else { return };
        let connection = Arc::new(Connection {
            core: self.core.clone(),
            access: access.clone(),
            files: self.files,
            stopping: self.stopping.clone(),
            half_closed,
            _place: place,
        });
        tokio::spawn(serve_connection(stream, connection));
    }
}

async fn serve_connection<S>(stream: S, connection: Arc<Connection>)
where
    S: AsyncRead + AsyncWrite + AsFd + Unpin + Send + 'static,
{
    let limits = &connection.core.limits;
    let mut stream = BufReader::new(Patient::new(stream, limits.stall));
    let mut stopping = connection.stopping.clone();
    // Who needs no token may take its time from the beginning.
    let patience =
        if connection.access.accepts(None) { Duration::MAX } else { limits.introduction };
    let first = tokio::select! {
        first = timeout(patience, stream.fill_buf()) => first,
        () = stopping.wait() => return,
    };
    match first {
        Ok(Ok([b'A'..=b'Z', ..])) => http::serve(stream, connection).await,
        Ok(Ok([_, ..])) => lines::serve(stream, connection).await,
        _ => {}
    }
}
