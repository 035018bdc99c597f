//! A stream that copes with the ways in which a client can be slow.
//!
//! Below all transports, so that none has to think of it. A client that sends requests and never fetches the answers
//! would hold its connection and its memory for ever: writes that wait for too long fail. And a client that still sends
//! when we close would lose our last words, because its system throws them away when told that nobody reads: so what
//! it sends is read for a moment longer.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// How long we listen after our last words.
const FAREWELL: Duration = Duration::from_millis(200);

/// A stream with patience.
pub(crate) struct Patient<S> {
    stream: S,
    patience: Duration,
    /// Runs while a write waits.
    waiting: Option<Pin<Box<Sleep>>>,
    /// Runs after our side is closed.
    leaving: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    pub fn new(stream: S, patience: Duration) -> Patient<S> {
        Patient { stream, patience, waiting: None, leaving: None }
    }

    pub fn stream(&self) -> &S {
        &self.stream
    }

    fn limit<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waiting = None;
            return written;
        }
        let patience = self.patience;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(patience)));
        waiting.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.limit(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.limit(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.limit(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.leaving.is_none() {
            let shut = Pin::new(&mut self.stream).poll_shutdown(context);
            ready!(self.limit(context, shut))?;
            self.leaving = Some(Box::pin(sleep(FAREWELL)));
        }
        self.poll_farewell(context).map(Ok)
    }
}

impl<S: AsyncRead + Unpin> Patient<S> {
    /// Reads until the client has closed its side, too, or the time is over.
    fn poll_farewell(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.leaving.as_mut().is_none_or(|leaving| leaving.as_mut().poll(context).is_ready()) {
            return Poll::Ready(());
        }
        let mut unwanted = [0; 4096];
        loop {
            let mut buffer = ReadBuf::new(&mut unwanted);
            let read = ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer));
            if read.is_err() || buffer.filled().is_empty() {
                return Poll::Ready(());
            }
        }
    }
}
