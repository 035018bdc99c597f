//! One JSON object a line, over a Unix or TCP socket.
//!
//! A TCP client says who it is in its first line, before anything else is read; then reading and writing go on side
//! by side. A client may close its sending side and still fetch its answers, as a shell pipe does. From a Unix socket we
//! learn whether it closed the other side, too; from a TCP socket only when we write to it, so that its questions
//! get only so much longer.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde_json::Value;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::time::{sleep, timeout};

use crate::conversation::{Conversation, News};
use crate::limits::Limits;
use crate::message::{
    ErrorCode, Failure, Id, Incoming, Request, encode_answer, encode_failure, parse, too_large,
};
use crate::outbox::{Outbox, Outgoing};
use crate::schedule::Schedule;
use crate::schema::{AUTHENTICATE, AuthenticateParams};
use crate::server::Connection;
use crate::stalls::Patient;

/// How often a half-closed connection is looked at.
const GLANCE: Duration = Duration::from_millis(50);

/// Bytes of the first line of a client that nobody knows yet.
const INTRODUCTION_BYTES: usize = 4096;

/// Serves a connection to its end.
pub(crate) async fn serve<S>(mut stream: BufReader<Patient<S>>, connection: Arc<Connection>)
where
    S: AsyncRead + AsyncWrite + AsFd + Unpin,
{
    if !connection.access.accepts(None) && authenticate(&mut stream, &connection).await.is_err() {
        return;
    }
    let Ok(peer) = stream.get_ref().stream().as_fd().try_clone_to_owned() else { return };
    let limits = &connection.core.limits;
    let (reader, writer) = tokio::io::split(stream);
    let (outbox, outgoing) = Outbox::new(limits.unfetched_bytes);
    let conversation = Conversation::new(&connection.core, outbox, News::Wanted);
    let reading = async {
        if read_requests(BufReader::new(reader), &conversation, &connection).await.is_ok() {
            let _membership = conversation.finish();
            gone(&peer, connection.half_closed).await;
        }
    };
    // Whichever ends first, dropping the other cancels what is outstanding.
    tokio::select! {
        _ = write_answers(writer, outgoing, &connection.core.schedule) => {}
        () = reading => {}
    }
}

/// Reads the first line and answers it. An error means that the connection is over.
async fn authenticate<S>(
    stream: &mut BufReader<Patient<S>>,
    connection: &Connection,
) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let limits = &connection.core.limits;
    let line = timeout(limits.introduction, read_line(stream, INTRODUCTION_BYTES)).await??;
    let presented = match &line {
        Line::Whole(text) => token_in(text, limits),
        Line::TooLong | Line::End => None,
    };
    let (id, token) = presented.unwrap_or((Id::Null, String::new()));
    if connection.access.accepts(Some(&token)) {
        let welcome = encode_answer(&id, &Ok(Value::Null), limits.answer_bytes);
        return stream.write_all(format!("{welcome}\n").as_bytes()).await;
    }
    let message = "the first line must be a call of authenticate with the token that the server \
                   printed when it started";
    let failure = encode_failure(&id, &Failure::new(ErrorCode::NotAuthenticated, message));
    stream.write_all(format!("{failure}\n").as_bytes()).await?;
    stream.shutdown().await?;
    Err(io::ErrorKind::PermissionDenied.into())
}

/// The id and the token of a call of `authenticate`.
fn token_in(line: &[u8], limits: &Limits) -> Option<(Id, String)> {
    let Ok(Incoming::Single(Ok(Request { id, method, params }))) = parse(line, limits) else {
        return None;
    };
    if method != AUTHENTICATE {
        return id.map(|id| (id, String::new()));
    }
    let token = serde_json::from_value::<AuthenticateParams>(params)
        .map_or_else(|_| String::new(), |params| params.token);
    Some((id.unwrap_or(Id::Null), token))
}

/// Passes requests on until the client sends no more (an error if it is known to be gone).
async fn read_requests<R: AsyncBufRead + Unpin>(
    mut reader: R,
    conversation: &Conversation,
    connection: &Connection,
) -> io::Result<()> {
    let limits = &connection.core.limits;
    let mut stopping = connection.stopping.clone();
    loop {
        conversation.outbox().backlog().has_room().await;
        let begun = tokio::select! {
            begun = reader.fill_buf() => begun?,
            () = stopping.wait() => return Ok(()),
        };
        if begun.is_empty() {
            return Ok(());
        }
        let line = timeout(limits.request_time, read_line(&mut reader, limits.request_bytes)).await;
        let refusal = match line {
            Ok(Ok(Line::Whole(text))) => {
                if !text.trim_ascii().is_empty() {
                    conversation.receive(&text);
                }
                continue;
            }
            Ok(Ok(Line::End)) => return Ok(()),
            Ok(Err(error)) => return Err(error),
            Ok(Ok(Line::TooLong)) => too_large(limits),
            Err(_) => Failure::new(ErrorCode::InvalidRequest, "the request did not end in time"),
        };
        conversation.outbox().send(encode_failure(&Id::Null, &refusal));
        if line.is_err() {
            return Ok(());
        }
    }
}

async fn write_answers<W: AsyncWrite + Unpin>(
    mut writer: W,
    mut outgoing: Outgoing,
    schedule: &Schedule,
) -> io::Result<()> {
    while let Some(mut answer) = outgoing.next().await {
        let bytes = answer.len();
        answer.push('\n');
        writer.write_all(answer.as_bytes()).await?;
        if outgoing.sent(bytes) {
            schedule.look_again();
        }
    }
    writer.shutdown().await
}

/// Waits until a client that sends no more does not listen either, or has had enough time.
async fn gone(peer: &OwnedFd, patience: Option<Duration>) {
    let hang_up = async {
        while !has_hung_up(peer) {
            sleep(GLANCE).await;
        }
    };
    match patience {
        Some(patience) => {
            let _ = timeout(patience, hang_up).await;
        }
        None => hang_up.await,
    }
}

fn has_hung_up(peer: &OwnedFd) -> bool {
    let mut peers = [PollFd::new(peer.as_fd(), PollFlags::empty())];
    let polled = poll(&mut peers, PollTimeout::ZERO);
    let over = PollFlags::POLLHUP | PollFlags::POLLERR;
    polled.is_ok()
        && peers.iter().any(|peer| peer.revents().is_some_and(|set| set.intersects(over)))
}

enum Line {
    /// Without its end; the last line need not have one.
    Whole(Vec<u8>),
    /// Read to its end and thrown away.
    TooLong,
    End,
}

async fn read_line<R: AsyncBufRead + Unpin>(reader: &mut R, limit: usize) -> io::Result<Line> {
    let mut line = Vec::new();
    let mut too_long = false;
    loop {
        let available = reader.fill_buf().await?;
        let at_end = available.is_empty();
        let newline = available.iter().position(|byte| *byte == b'\n');
        let part = &available[..newline.unwrap_or(available.len())];
        too_long |= line.len() + part.len() > limit;
        if too_long {
            line = Vec::new();
        } else {
            line.extend_from_slice(part);
        }
        let used = part.len() + usize::from(newline.is_some());
        reader.consume(used);
        match (newline, at_end) {
            (None, true) if line.is_empty() && !too_long => return Ok(Line::End),
            (None, false) => {}
            _ if too_long => return Ok(Line::TooLong),
            _ => return Ok(Line::Whole(line)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn lines_of(mut text: &[u8], limit: usize) -> Vec<Option<String>> {
        let mut lines = Vec::new();
        loop {
            match read_line(&mut text, limit).await.unwrap() {
                Line::Whole(line) => lines.push(Some(String::from_utf8(line).unwrap())),
                Line::TooLong => lines.push(None),
                Line::End => return lines,
            }
        }
    }

    #[tokio::test]
    async fn lines_are_split_and_bounded() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(lines_of(b"", 3).await, []);
        assert_eq!(lines_of(b"a\nbc\n", 3).await, [some("a"), some("bc")]);
        assert_eq!(lines_of(b"\nabc\nabcd\nx", 3).await, [some(""), some("abc"), None, some("x")]);
        assert_eq!(lines_of(b"abcd", 3).await, [None]);
    }
}
