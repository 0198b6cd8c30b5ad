//! Bytes in and bytes out.

use std::io;
use std::task::{Context, Poll, ready};

use tokio::time::Instant;

use super::clock::after;
use super::{Connection, REST_AFTER};
use crate::ending::Ending;

impl Connection {
    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let count = ready!(self.stream.poll_read(cx, self.input.spare()))?;
        if count == 0 {
            self.finish(Ending::ClientClosed);
            return Poll::Ready(Ok(()));
        }
        self.input.note_read(count);
        self.traffic.received(count);
        self.read_at = Instant::now();
        self.active_at = self.read_at;
        if self.is_resting {
            self.is_resting = false;
            self.ring_by(self.read_at + REST_AFTER);
        }
        Poll::Ready(Ok(()))
    }

    /// Writes until nothing is left or the client takes no more.
    pub(super) fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.output.is_empty() {
            let stream = &mut self.stream;
            match self.output.write_with(|slices| stream.poll_write(cx, slices)) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => {
                    self.traffic.sent(count);
                    self.goes_on();
                }
                Poll::Ready(Err(failure)) => return Poll::Ready(Err(failure)),
                Poll::Pending => {
                    self.stalls();
                    return Poll::Pending;
                }
            }
        }
        let before = self.stream.sent();
        let flushed = self.stream.poll_flush(cx);
        if before != self.stream.sent() {
            self.goes_on();
        }
        if flushed.is_pending() {
            self.stalls();
        }
        flushed
    }

    /// The client takes what is sent to it.
    #[inline]
    fn goes_on(&mut self) {
        if self.stalled_since.take().is_some() {
            self.active_at = Instant::now();
        }
    }

    /// The client takes nothing at the moment.
    fn stalls(&mut self) {
        if self.stalled_since.is_none() {
            let now = Instant::now();
            self.stalled_since = Some(now);
            self.ring_by(after(now, self.shared.options.write_timeout));
        }
    }

    /// Whether the system has all that was to be written.
    pub(super) fn is_written(&self) -> bool {
        self.output.is_empty() && !self.stream.has_unsent()
    }
}
