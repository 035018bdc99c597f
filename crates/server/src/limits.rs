//! How much a client may ask for and how long it may take.
//!
//! Limits on time are for clients that hold something up: a request that does not end, an answer that is not
//! fetched. A client that merely waits, as a debugger left open overnight does, is never cut off.

use std::thread::available_parallelism;
use std::time::Duration;

/// Limits of a server; the default suits an interactive debugger.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Threads that answer questions.
    pub workers: usize,
    /// Connections at once; more are closed as soon as they are made.
    pub connections: usize,
    /// Bytes of a request or batch.
    pub request_bytes: usize,
    /// Arrays and objects inside each other in a request.
    pub request_depth: usize,
    /// Values in a request or batch, which bounds the memory that parsing takes.
    pub request_values: usize,
    /// Requests of a client that have not been answered.
    pub outstanding: usize,
    /// Bytes of all requests, of all clients, that wait for a worker.
    pub waiting_bytes: usize,
    /// Bytes of an answer, or of all answers to a batch.
    pub answer_bytes: usize,
    /// Bytes of answers that a client has not fetched, from which on nothing more is read or run for it.
    pub unfetched_bytes: usize,
    /// Time for a new TCP connection to authenticate, and for the head of an HTTP request.
    pub introduction: Duration,
    /// Time from the first byte of a request to its last.
    pub request_time: Duration,
    /// Time for which a client may leave an answer unfetched.
    pub stall: Duration,
    /// Time for which questions of a TCP client go on after it has closed its sending side.
    pub half_closed: Duration,
    /// Time between pings on a WebSocket.
    pub ping: Duration,
    /// Time after which a WebSocket that answers no ping is closed.
    pub silence: Duration,
    /// Time between progress notifications of a request.
    pub progress: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            workers: available_parallelism().map_or(4, |cores| cores.get().max(4)),
            connections: 256,
            request_bytes: 1 << 20,
            request_depth: 64,
            request_values: 1 << 15,
            outstanding: 1024,
            waiting_bytes: 64 << 20,
            answer_bytes: 32 << 20,
            unfetched_bytes: 4 << 20,
            introduction: Duration::from_secs(10),
            request_time: Duration::from_secs(30),
            stall: Duration::from_secs(60),
            half_closed: Duration::from_secs(10),
            ping: Duration::from_secs(30),
            silence: Duration::from_secs(300),
            progress: Duration::from_millis(100),
        }
    }
}

impl Limits {
    /// Workers that one client may hold, so that the questions of a single client, however long they take, leave
    /// something for the others.
    pub(crate) fn workers_of_a_client(&self) -> usize {
        (self.workers - self.workers.div_ceil(4)).max(1)
    }
}
