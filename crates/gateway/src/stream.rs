//! A client's socket, plain or under TLS.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use crate::limits::{READ_MAX, READ_MIN};

/// What a connection reads from and writes to.
pub(crate) enum Stream {
    Plain(TcpStream),
    /// Boxed, so that plain connections do not carry its size around.
    Tls(Box<TlsStream<Wide>>),
}

impl Stream {
    /// Reads what is there into the room that `buffer` has. Zero is the end.
    #[inline]
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut BytesMut,
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(stream) => pin!(stream.read_buf(buffer)).poll(cx),
            Self::Tls(stream) => pin!(stream.read_buf(buffer)).poll(cx),
        }
    }

    /// Writes what can be written of `slices`, of which there is one at least.
    #[inline]
    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match (self, slices) {
            // By far the most are one piece, and the system takes one piece faster than a list of one.
            (Self::Plain(stream), [one]) => Pin::new(stream).poll_write(cx, one),
            (Self::Plain(stream), several) => Pin::new(stream).poll_write_vectored(cx, several),
            (Self::Tls(stream), [one]) => Pin::new(stream).poll_write(cx, one),
            (Self::Tls(stream), several) => Pin::new(stream).poll_write_vectored(cx, several),
        }
    }

    /// Sends what was written and is still held here.
    #[inline]
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(_) => Poll::Ready(Ok(())),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    /// Whether something that was written is still held here.
    #[inline]
    pub(crate) fn has_unsent(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(stream) => stream.get_ref().1.wants_write(),
        }
    }

    /// How many bytes TLS has handed to the system; plain connections need not know.
    #[inline]
    pub(crate) fn sent(&self) -> u64 {
        match self {
            Self::Plain(_) => 0,
            Self::Tls(stream) => stream.get_ref().0.sent,
        }
    }

    pub(crate) fn is_tls(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    /// The certificate that the client has shown.
    pub(crate) fn certificate(&self) -> Option<&[u8]> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(stream) => {
                stream.get_ref().1.peer_certificates().and_then(|chain| chain.first()).map(AsRef::as_ref)
            }
        }
    }

    /// Tells the client that nothing more comes.
    pub(crate) async fn shutdown(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.shutdown().await,
            Self::Tls(stream) => stream.shutdown().await,
        }
    }

    /// Reads and forgets until the client closes.
    pub(crate) async fn drain(&mut self) {
        let stream = match self {
            Self::Plain(stream) => stream,
            // What is under TLS is of no interest any more.
            Self::Tls(stream) => &mut stream.get_mut().0.stream,
        };
        drain(stream).await;
    }

    /// Lets go of memory that a connection without anything to do should not keep.
    pub(crate) fn rest(&mut self) {
        if let Self::Tls(stream) = self {
            stream.get_mut().0.rest();
        }
    }
}

/// Reads and forgets until the client closes.
pub(crate) async fn drain(stream: &mut TcpStream) {
    let mut unread = vec![0; READ_MIN];
    while let Ok(1..) = stream.read(&mut unread).await {}
}

/// A socket that is read in large pieces. TLS asks for 4 KiB at a time, which would be a call to the system each.
pub(crate) struct Wide {
    stream: TcpStream,
    /// What was read and TLS has not taken yet.
    buffer: BytesMut,
    /// How much the next read may bring: grows while the client sends much.
    room: usize,
    /// How many bytes the system has taken.
    sent: u64,
}

impl Wide {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self { stream, buffer: BytesMut::new(), room: READ_MIN, sent: 0 }
    }

    pub(crate) fn into_inner(self) -> TcpStream {
        self.stream
    }

    fn rest(&mut self) {
        if self.buffer.is_empty() {
            self.buffer = BytesMut::new();
            self.room = READ_MIN;
        }
    }
}

impl AsyncRead for Wide {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        wanted: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { stream, buffer, room, .. } = &mut *self;
        if buffer.is_empty() {
            buffer.reserve(*room);
            let count = ready!(pin!(stream.read_buf(buffer)).poll(cx))?;
            if count >= *room {
                *room = (*room * 2).min(READ_MAX);
            }
        }
        let count = buffer.len().min(wanted.remaining());
        wanted.put_slice(&buffer[..count]);
        buffer.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wide {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let count = ready!(Pin::new(&mut self.stream).poll_write(cx, bytes))?;
        self.sent += count as u64;
        Poll::Ready(Ok(count))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let count = ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, slices))?;
        self.sent += count as u64;
        Poll::Ready(Ok(count))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
