//! The JSON API to a recorded run: JSON-RPC 2.0 over Unix sockets, TCP sockets, HTTP and WebSocket, from one server.
//!
//! ```text
//! server ── accepts, shuts down ── unix_socket
//!    │ a connection: stalls (writes that hang)
//!    ├─► lines ─────┐
//!    └─► http ──────┼─► conversation ─► schedule ─► worker threads ─► Service
//!          └► websocket┘    │ message, shape         (fair queues)       │ cancel, progress, paging
//!                access     └◄──────── outbox ◄──── answers ◄───────────┘
//!                                                                          questions ─► retro_query
//! ```
//!
//! Sockets are served by one thread with an event loop; it only parses and passes on. Questions block, so that they
//! run on threads of their own, each client getting its turn. A transport turns bytes into messages and back and knows
//! nothing of JSON; [`Service`] knows nothing of transports; [`questions`] is the one that asks about a recording.
//!
//! Invariants: the server keeps nothing about a client beyond its connection; nothing a client sends makes it panic or
//! take memory out of proportion (see [`Limits`]); no client can make another wait for longer than the questions that
//! run already; nobody without the token gets further than the static files.
//!
//! The protocol is described in `docs/protocol.md`, the types in `docs/api.schema.json`.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod access;
mod cancel;
mod conversation;
mod error;
mod http;
mod limits;
mod lines;
mod message;
mod methods;
mod outbox;
mod paging;
mod progress;
mod questions;
mod schedule;
mod schema;
mod server;
mod service;
mod shape;
mod stalls;
mod unix_socket;
mod websocket;

pub use access::Token;
pub use cancel::{Cancel, Cancelled};
pub use error::ServerError;
pub use http::StaticFile;
pub use limits::Limits;
pub use methods::Methods;
pub use paging::{Page, PageRequest, Pager};
pub use questions::questions;
pub use schema::{MethodDescription, schema_document};
pub use server::{Address, Endpoint, Options, Server, Stopper};
pub use service::{CallContext, MethodError, Service};
pub use unix_socket::{SocketFile, listen as listen_privately};
