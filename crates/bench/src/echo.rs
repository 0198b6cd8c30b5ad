//! A server that sends every frame back: what sockets and system calls cost here, and so the most that any server
//! can reach under the same load.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::closed_loop::Work;
use crate::lines::{Closed, Lines};
use crate::template::Template;

/// What the echo is called among targets.
pub(crate) const NAME: &str = "echo";

/// Starts a server for exactly `connections` connections and says where it listens; it ends when they do.
pub(crate) fn start(connections: usize, threads: usize) -> Result<SocketAddr> {
    // A thread without a connection would not notice the end.
    let threads = threads.min(connections);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("listen for echoes")?;
    let address = listener.local_addr().context("listen for echoes")?;
    thread::Builder::new()
        .name("echo".to_owned())
        .spawn(move || {
            let mut shares = Vec::new();
            for _ in 0..threads {
                let Ok(lines) = Lines::new() else { return };
                shares.push(lines);
            }
            for number in 0..connections {
                let Ok((stream, _)) = listener.accept() else { return };
                if shares[number % threads].adopt(stream).is_err() {
                    return;
                }
            }
            thread::scope(|scope| {
                for lines in shares {
                    scope.spawn(move || echo(lines));
                }
            });
        })
        .context("start the echo server")?;
    Ok(address)
}

/// Sends frames back until a connection ends.
fn echo(mut lines: Lines) {
    loop {
        let turn = lines.turn(Duration::from_secs(1), |_, frame, outbox| {
            let size = u32::try_from(frame.len()).context("send a frame back")?;
            outbox.extend_from_slice(&size.to_be_bytes());
            outbox.extend_from_slice(frame);
            Ok(())
        });
        if let Err(error) = turn {
            debug_assert!(error.is::<Closed>() || error.is::<std::io::Error>(), "{error:#}");
            return;
        }
    }
}

/// Frames that come back as they went.
#[derive(Debug)]
pub(crate) struct Echoes {
    /// A request for each connection.
    pub(crate) requests: Vec<Template>,
}

impl Work for Echoes {
    fn put(&mut self, line: usize, correlation_id: i32, outbox: &mut Vec<u8>) {
        self.requests[line].put(correlation_id, 0, outbox);
    }

    fn check(&mut self, line: usize, frame: &[u8]) -> Result<i32> {
        ensure!(frame.len() + 4 == self.requests[line].len(), "a frame came back with another length");
        let id = frame.get(4..8).and_then(|id| id.first_chunk()).context("a frame came back too short")?;
        Ok(i32::from_be_bytes(*id))
    }
}
