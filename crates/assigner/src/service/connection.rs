//! Connections as they come in: no more than a bound, and none that stays silent.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep_until};
use tonic::codegen::tokio_stream::Stream;
use tonic::transport::server::{Connected, TcpConnectInfo};

use super::limits::{ACCEPT_PAUSE, HANDSHAKE_TIMEOUT};

/// The connections of a listener.
pub(super) struct Connections {
    listener: TcpListener,
    places: Arc<Semaphore>,
    /// While the machine refuses connections.
    pause: Option<Pin<Box<Sleep>>>,
    /// Whether it has been said that there are too many.
    has_warned: bool,
}

impl Connections {
    pub(super) fn new(listener: TcpListener, connections_max: usize) -> Self {
        Self { listener, places: Arc::new(Semaphore::new(connections_max)), pause: None, has_warned: false }
    }

    fn admit(&mut self, stream: TcpStream, peer: SocketAddr) -> Option<Connection> {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            if !self.has_warned {
                tracing::warn!(%peer, "too many connections: further ones are closed until others end");
            }
            self.has_warned = true;
            return None;
        };
        self.has_warned = false;
        // A command that waits for the next one to fill the packet would be late.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%peer, %error, "could not set TCP_NODELAY");
        }
        let patience = Some(Box::pin(sleep_until(Instant::now() + HANDSHAKE_TIMEOUT)));
        Some(Connection { stream, patience, said: 0, _place: place })
    }
}

impl Stream for Connections {
    type Item = io::Result<Connection>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(pause) = &mut self.pause {
                ready!(pause.as_mut().poll(context));
                self.pause = None;
            }
            match ready!(self.listener.poll_accept(context)) {
                Ok((stream, peer)) => {
                    if let Some(connection) = self.admit(stream, peer) {
                        return Poll::Ready(Some(Ok(connection)));
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "could not take a connection");
                    self.pause = Some(Box::pin(tokio::time::sleep(ACCEPT_PAUSE)));
                }
            }
        }
    }
}

/// What a peer has to say before it is asked whether it is there: the preface of HTTP/2 and the head of its first frame.
/// The greeting of TLS is longer, and has a limit of its own.
const GREETING: usize = 24 + 9;

/// A connection that counts for as long as it lives.
pub(super) struct Connection {
    stream: TcpStream,
    /// Runs until the peer has said who it is.
    patience: Option<Pin<Box<Sleep>>>,
    /// How many bytes have come meanwhile.
    said: usize,
    _place: OwnedSemaphorePermit,
}

impl Connected for Connection {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.stream.connect_info()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        match Pin::new(&mut self.stream).poll_read(context, buffer) {
            Poll::Ready(read) => {
                self.said = self.said.saturating_add(buffer.filled().len() - before);
                if self.said >= GREETING {
                    self.patience = None;
                }
                Poll::Ready(read)
            }
            Poll::Pending => {
                if let Some(patience) = &mut self.patience {
                    ready!(patience.as_mut().poll(context));
                    return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                }
                Poll::Pending
            }
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tonic::codegen::tokio_stream::StreamExt as _;

    use super::*;

    #[tokio::test]
    async fn a_connection_too_many_is_closed_and_a_place_that_is_left_is_given_again() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut connections = Connections::new(listener, 1);

        let _one = TcpStream::connect(address).await.unwrap();
        let first = connections.next().await.unwrap().unwrap();
        let mut two = TcpStream::connect(address).await.unwrap();
        let next = tokio::spawn(async move {
            let next = connections.next().await.unwrap().unwrap();
            (connections, next)
        });
        assert_eq!(two.read(&mut [0]).await.unwrap(), 0, "the second one is closed");
        drop(first);
        let _three = TcpStream::connect(address).await.unwrap();
        next.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_says_nothing_or_begins_and_falls_silent_is_not_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut connections = Connections::new(listener, 1);
        for said in ["", "P", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
            let mut silent = TcpStream::connect(address).await.unwrap();
            silent.write_all(said.as_bytes()).await.unwrap();
            let mut connection = connections.next().await.unwrap().unwrap();
            let read = connection.read_to_end(&mut Vec::new()).await;
            assert_eq!(read.unwrap_err().kind(), io::ErrorKind::TimedOut, "{said}");
        }
    }
}
