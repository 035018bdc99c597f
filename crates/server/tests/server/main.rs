//! The server, talked to over real sockets by clients that know nothing of its code: with a made-up service, and with
//! recorded programs.

mod clients;
mod fake;
mod layout;
mod recorded;

mod cancelling;
mod crowd;
mod documented;
mod hostile;
mod hostile_questions;
mod http;
mod lines;
mod load;
mod overview;
mod published_schema;
mod scheduling;
mod stopping;
mod story;
mod websocket;
