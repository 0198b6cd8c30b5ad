//! Many connections on one thread.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

/// How much one read takes at most. Short reads are cheap, and a pipelined burst or a leader's list of members comes
/// in few.
const READ_BYTES: usize = 256 << 10;

/// No answer that a benchmark asks for is larger; a size beyond it is a peer that speaks something else.
const MAX_FRAME: usize = 256 << 20;

/// How long a connection may take to be made. A broker with a short queue of waiting connections lets the kernel
/// try again after a second, then after two more.
const CONNECT_WITHIN: Duration = Duration::from_secs(20);

/// Connections that are waited for together.
///
/// What is to be sent is put into [`Lines::outbox`] and leaves with [`Lines::flush`], or with the end of the turn
/// when a frame's handler put it there.
#[derive(Debug)]
pub(crate) struct Lines {
    poll: Poll,
    events: Events,
    lines: Vec<Line>,
    buffer: Vec<u8>,
}

/// Frames that have come in on one connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// Which connection.
    pub(crate) line: usize,
    /// When it was read, the same for all frames of one read: reading the clock for each would cost more than a
    /// frame does.
    pub(crate) at: Instant,
}

/// The other side has closed a connection.
#[derive(Debug)]
pub(crate) struct Closed {
    pub(crate) line: usize,
}

impl std::error::Error for Closed {}

impl std::fmt::Display for Closed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the server closed connection {}", self.line)
    }
}

#[derive(Debug)]
struct Line {
    stream: TcpStream,
    /// The beginning of a frame whose end has not come yet.
    inbound: Vec<u8>,
    outbound: Vec<u8>,
    /// How much of `outbound` has left.
    sent: usize,
}

impl Lines {
    /// No connections yet.
    pub(crate) fn new() -> Result<Self> {
        let poll = Poll::new().context("open a poll")?;
        Ok(Self { poll, events: Events::with_capacity(1024), lines: Vec::new(), buffer: vec![0; READ_BYTES] })
    }

    /// Makes `count` connections.
    pub(crate) fn connect(address: SocketAddr, count: usize) -> Result<Self> {
        let mut lines = Self::new()?;
        for _ in 0..count {
            lines.dial(address)?;
        }
        Ok(lines)
    }

    /// Makes one more connection and says which one it is.
    pub(crate) fn dial(&mut self, address: SocketAddr) -> Result<usize> {
        let stream = std::net::TcpStream::connect_timeout(&address, CONNECT_WITHIN)
            .with_context(|| format!("connect to {address}"))?;
        self.adopt(stream)
    }

    /// Takes over a connection that was made elsewhere.
    pub(crate) fn adopt(&mut self, stream: std::net::TcpStream) -> Result<usize> {
        stream
            .set_nonblocking(true)
            .and_then(|()| stream.set_nodelay(true))
            .context("set up a connection")?;
        let mut stream = TcpStream::from_std(stream);
        let line = self.lines.len();
        // An edge for room to write comes only after a write that found none, so asking for both costs nothing.
        self.poll
            .registry()
            .register(&mut stream, Token(line), Interest::READABLE | Interest::WRITABLE)
            .context("watch a connection")?;
        self.lines.push(Line { stream, inbound: Vec::new(), outbound: Vec::new(), sent: 0 });
        Ok(line)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.lines.len()
    }

    /// Where to put what is to leave on this connection.
    pub(crate) fn outbox(&mut self, line: usize) -> &mut Vec<u8> {
        &mut self.lines[line].outbound
    }

    /// Sends what is in the outbox, as far as there is room; the rest leaves in later turns.
    pub(crate) fn flush(&mut self, line: usize) -> Result<()> {
        sent(line, self.lines[line].flush())
    }

    /// Waits until something comes or `patience` is over, and hands each whole frame, without its size, to `handle`,
    /// together with the outbox of the same connection.
    pub(crate) fn turn(
        &mut self,
        patience: Duration,
        mut handle: impl FnMut(Arrival, &[u8], &mut Vec<u8>) -> Result<()>,
    ) -> Result<()> {
        match self.poll.poll(&mut self.events, Some(patience)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            outcome => outcome.context("wait for connections")?,
        }
        for event in &self.events {
            let number = event.token().0;
            let line = &mut self.lines[number];
            if event.is_readable() {
                line.read(number, event.is_read_closed(), &mut self.buffer, &mut handle)?;
            }
            sent(number, line.flush())?;
        }
        Ok(())
    }
}

/// What sending came to. A server that has gone may be noticed here first.
fn sent(line: usize, outcome: io::Result<()>) -> Result<()> {
    match outcome {
        Err(error) if matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe) => {
            Err(Closed { line }.into())
        }
        outcome => outcome.with_context(|| format!("send on connection {line}")),
    }
}

impl Line {
    fn read(
        &mut self,
        line: usize,
        closing: bool,
        buffer: &mut [u8],
        handle: &mut impl FnMut(Arrival, &[u8], &mut Vec<u8>) -> Result<()>,
    ) -> Result<()> {
        loop {
            let length = match self.stream.read(buffer) {
                Ok(0) => return Err(Closed { line }.into()),
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                    return Err(Closed { line }.into());
                }
                Err(error) => {
                    bail!(anyhow::Error::new(error).context(format!("read from connection {line}")))
                }
            };
            let arrival = Arrival { line, at: Instant::now() };
            let arrived = &buffer[..length];
            if self.inbound.is_empty() {
                let used = frames(arrived, arrival, &mut self.outbound, handle)?;
                self.inbound.extend_from_slice(&arrived[used..]);
            } else {
                self.inbound.extend_from_slice(arrived);
                let used = frames(&self.inbound, arrival, &mut self.outbound, handle)?;
                self.inbound.drain(..used);
            }
            // Less than there was room for means that nothing is left, and that the next arrival is an edge again.
            if length < buffer.len() && !closing {
                return Ok(());
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.sent < self.outbound.len() {
            match self.stream.write(&self.outbound[self.sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(length) => self.sent += length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.outbound.clear();
        self.sent = 0;
        Ok(())
    }
}

/// Hands on every whole frame and says how many bytes they took.
fn frames(
    bytes: &[u8],
    arrival: Arrival,
    outbox: &mut Vec<u8>,
    handle: &mut impl FnMut(Arrival, &[u8], &mut Vec<u8>) -> Result<()>,
) -> Result<usize> {
    let mut used = 0;
    while let Some((size, rest)) = bytes[used..].split_first_chunk::<4>() {
        let size = u32::from_be_bytes(*size) as usize;
        ensure!(size <= MAX_FRAME, "a frame of {size} bytes came in; is this a Kafka server?");
        let Some(frame) = rest.get(..size) else { break };
        handle(arrival, frame, outbox)?;
        used += 4 + size;
    }
    Ok(used)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    #[test]
    fn frames_come_whole_however_they_are_cut() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let address = listener.local_addr().expect("address");
        let peer = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("accept");
            for piece in [&[0, 0][..], &[0, 3, b'a', b'b'], &[b'c', 0, 0, 0, 0, 0, 0, 0, 1, b'd']] {
                stream.write_all(piece).expect("write");
            }
            let mut answer = [0; 5];
            stream.read_exact(&mut answer).expect("read");
            answer
        });
        let mut lines = Lines::connect(address, 1).expect("connect");
        let mut seen = Vec::new();
        let ended = loop {
            let turn = lines.turn(Duration::from_secs(10), |arrival, frame, outbox| {
                assert_eq!(arrival.line, 0);
                seen.push(frame.to_vec());
                if seen.len() == 3 {
                    outbox.extend_from_slice(b"hello");
                }
                Ok(())
            });
            if let Err(error) = turn {
                break error;
            }
        };
        assert_eq!(seen, [b"abc".to_vec(), vec![], b"d".to_vec()]);
        assert_eq!(&peer.join().expect("the peer"), b"hello");
        assert!(ended.downcast_ref::<Closed>().is_some(), "{ended:#}");
    }
}
