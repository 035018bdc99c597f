//! One JSON object a message, over a WebSocket.
//!
//! One task reads, writes and pings in turn. Pings find out whether a silent client is still there; one that answers
//! them may stay for ever.

use std::sync::Arc;

use axum::extract::ws::{CloseFrame, Message, WebSocket, close_code};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::conversation::{Conversation, News};
use crate::outbox::{Outbox, Outgoing};
use crate::server::Connection;

/// Serves a connection to its end; returning cancels what is outstanding.
pub(crate) async fn serve(mut socket: WebSocket, connection: Arc<Connection>) {
    let (outbox, mut outgoing) = Outbox::new(connection.core.limits.unfetched_bytes);
    let conversation = Conversation::new(&connection.core, outbox, News::Wanted);
    if converse(&mut socket, &conversation, &mut outgoing, &connection).await.is_ok() {
        let _membership = conversation.finish();
        let _ = say_goodbye(&mut socket, &mut outgoing).await;
    }
}

/// The client is gone.
struct Gone;

impl From<axum::Error> for Gone {
    fn from(_: axum::Error) -> Gone {
        Gone
    }
}

/// Until the server stops or the client is gone.
async fn converse(
    socket: &mut WebSocket,
    conversation: &Conversation,
    outgoing: &mut Outgoing,
    connection: &Connection,
) -> Result<(), Gone> {
    let limits = &connection.core.limits;
    let mut stopping = connection.stopping.clone();
    let mut ping = interval_at(Instant::now() + limits.ping, limits.ping);
    ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last_heard = Instant::now();
    loop {
        let has_room = !conversation.outbox().backlog().is_full();
        tokio::select! {
            received = socket.recv(), if has_room => {
                last_heard = Instant::now();
                match received.ok_or(Gone)?? {
                    Message::Text(text) => {
                        conversation.receive(text.as_bytes());
                    }
                    Message::Binary(bytes) => {
                        conversation.receive(&bytes);
                    }
                    Message::Ping(_) | Message::Pong(_) => {}
                    Message::Close(_) => return Err(Gone),
                }
            }
            Some(answer) = outgoing.next() => {
                let bytes = answer.len();
                socket.send(Message::Text(answer.into())).await?;
                if outgoing.sent(bytes) {
                    conversation.look_again();
                }
            }
            _ = ping.tick() => {
                // While we do not read, a client cannot be heard; that its answers move is seen to elsewhere.
                if has_room && last_heard.elapsed() > limits.silence {
                    return Err(Gone);
                }
                socket.send(Message::Ping(Default::default())).await?;
            }
            () = stopping.wait() => return Ok(()),
        }
    }
}

/// Sends what is left, and why it ends.
async fn say_goodbye(socket: &mut WebSocket, outgoing: &mut Outgoing) -> Result<(), Gone> {
    while let Some(answer) = outgoing.next().await {
        socket.send(Message::Text(answer.into())).await?;
    }
    let reason = "the server stops".into();
    socket.send(Message::Close(Some(CloseFrame { code: close_code::AWAY, reason }))).await?;
    Ok(())
}
