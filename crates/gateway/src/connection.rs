//! The life of one client.

use std::collections::VecDeque;
use std::future::{self, Future};
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use coordination::ids::OrgId;
use coordination::reply::Reply;
use rail::{Answer, Carrier, Rail};
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{self, Instant, Sleep};
use tracing::debug;
use wire::{Addresses, ApiKey, Body, DecodeError, Head, Request};

use crate::admission::Seat;
use crate::input::{BadSize, Front, Input};
use crate::limits;
use crate::metrics::{ApiSlot, Metrics, Tally, Traffic};
use crate::options::Options;
use crate::outcome::first_error;
use crate::output::Output;
use crate::relay::Relayed;

/// What all connections of a gateway share.
pub(crate) struct Shared {
    pub(crate) rail: Arc<dyn Rail>,
    pub(crate) options: Options,
    pub(crate) metrics: Metrics,
    /// How many bytes the requests hold that have started and are not answered.
    pub(crate) in_flight: AtomicUsize,
}

/// One client, from accept to close.
///
/// Requests take effect in order and are answered in order. The next one starts when all before it are
/// answered; only Produce, OffsetCommit and Heartbeat may start while earlier ones of these three wait for the
/// disk, so that one sync serves them all. `owed` holds what has started and is not answered.
pub(crate) struct Connection {
    stream: TcpStream,
    peer: SocketAddr,
    shared: Arc<Shared>,
    addresses: Addresses,
    carrier: Carrier,
    input: Input,
    output: Output,
    owed: VecDeque<Owed>,
    owed_bytes: Held,
    intake: Intake,
    tally: Tally,
    traffic: Arc<Traffic>,
    /// When the requests being handled now had been read.
    read_at: Instant,
    /// When bytes last came in, an answer went out, or one that had been stuck went on.
    active_at: Instant,
    /// Since when the client has taken nothing of the output, while there is some.
    stalled_since: Option<Instant>,
    /// One clock for everything: rings at or before the next deadline, and is wound up again when it has rung.
    timer: Pin<Box<Sleep>>,
    /// Whether the buffers have been given back since the last traffic.
    is_resting: bool,
    /// Wakes this connection when an answer is there.
    on_answer: Arc<Relayed>,
    /// The same, as futures want it.
    answer_waker: Waker,
    _connected: Connected,
    _seat: Seat,
}

/// An answer that a client waits for.
struct Owed {
    head: Head,
    answer: Answer,
    started: Instant,
    /// What its frame holds in memory.
    bytes: usize,
}

/// Whether more requests are taken.
enum Intake {
    /// As many as come.
    Open,
    /// Only those that have been read already.
    Finishing { why: Ending, until: Instant },
    /// None.
    Closed(Ending),
}

/// Why a connection ends.
#[derive(Debug, thiserror::Error)]
enum Ending {
    #[error("the client closed it")]
    ClientClosed,
    #[error("the gateway is shutting down")]
    Drained,
    #[error("a producer that wants no answers could not be told of an error otherwise")]
    Refused,
    #[error("{0}")]
    Size(#[from] BadSize),
    #[error("{0}")]
    Decode(#[from] DecodeError),
    #[error("no request for connections.max.idle.ms")]
    Idle,
    #[error("the client does not read its answers")]
    Stalled,
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// Bytes that the requests of one connection hold, counted among those of all.
struct Held {
    bytes: usize,
    shared: Arc<Shared>,
}

impl Held {
    fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.shared.in_flight.fetch_add(bytes, Ordering::Relaxed);
    }

    fn release(&mut self, bytes: usize) {
        self.bytes -= bytes;
        self.shared.in_flight.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.release(self.bytes);
    }
}

/// A client that is counted as connected.
struct Connected(Arc<Shared>);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.metrics.connections.dec();
    }
}

/// The number of the one API whose requests carry what the broker keeps as it came.
const PRODUCE: i16 = ApiKey::Produce.number();

/// The APIs whose requests take effect within the call, as [`Rail::call`] promises. They may overlap: whoever sends
/// the next one before the first is answered finds them done in order.
const OVERLAPPING: [ApiKey; 3] = [ApiKey::Produce, ApiKey::OffsetCommit, ApiKey::Heartbeat];

/// After this long without traffic, buffers that a burst has left large are given back.
const REST_AFTER: Duration = Duration::from_secs(10);

impl Connection {
    pub(crate) fn new(
        stream: TcpStream,
        peer: SocketAddr,
        advertised: Option<(String, u16)>,
        shared: Arc<Shared>,
        traffic: Arc<Traffic>,
        on_answer: Arc<Relayed>,
        seat: Seat,
    ) -> io::Result<Self> {
        // Replies are gathered here, so waiting for more before sending would only delay them.
        stream.set_nodelay(true)?;
        // As Kafka: a client whose machine is gone is noticed in the end, even while an answer is owed to it.
        SockRef::from(&stream).set_keepalive(true)?;
        let (host, port) = match advertised {
            Some(advertised) => advertised,
            None => {
                let dialled = stream.local_addr()?;
                // An IPv4 client of a `[::]` listener must not be told an address that only IPv6 can dial.
                (dialled.ip().to_canonical().to_string(), dialled.port())
            }
        };
        let now = Instant::now();
        shared.metrics.connections.inc();
        Ok(Self {
            stream,
            peer,
            addresses: Addresses { node_id: shared.options.node_id, host, port },
            carrier: Carrier { org: OrgId::DEFAULT, client_id: None, host: peer.ip().to_canonical() },
            input: Input::new(shared.options.socket_request_max_bytes),
            output: Output::default(),
            owed: VecDeque::new(),
            owed_bytes: Held { bytes: 0, shared: Arc::clone(&shared) },
            intake: Intake::Open,
            tally: Tally::default(),
            traffic,
            read_at: now,
            active_at: now,
            stalled_since: None,
            timer: Box::pin(time::sleep(REST_AFTER.min(shared.options.connections_max_idle))),
            is_resting: false,
            answer_waker: Waker::from(Arc::clone(&on_answer)),
            on_answer,
            _connected: Connected(Arc::clone(&shared)),
            _seat: seat,
            shared,
        })
    }

    /// Serves the client until either side has had enough.
    pub(crate) async fn run(mut self, mut drain: watch::Receiver<bool>) {
        let is_draining = drain.clone();
        let mut draining = pin!(drain.wait_for(|&draining| draining));
        let mut is_registered = false;
        let ending = future::poll_fn(|cx| {
            // The task's waker never changes, so the notice is asked for once; asking on every wake-up would
            // make all connections meet at one lock.
            if !is_registered
                || (is_draining.has_changed().unwrap_or(true) && matches!(self.intake, Intake::Open))
            {
                is_registered = true;
                self.on_answer.stands_for(cx.waker());
                if draining.as_mut().poll(cx).is_ready() {
                    self.finish(Ending::Drained);
                }
            }
            self.poll(cx)
        })
        .await;
        self.close(&ending).await;
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Ending> {
        loop {
            self.poll_answers();
            self.start_requests();
            if !self.tally.is_empty() {
                self.active_at = Instant::now();
                self.tally.flush(&self.traffic, self.active_at - self.read_at);
            }
            if let Poll::Ready(Err(failure)) = self.poll_write(cx) {
                return Poll::Ready(failure.into());
            }
            if let Some(ending) = self.take_ending() {
                return Poll::Ready(ending);
            }
            if self.can_start() {
                // The write has made room for the answers of requests that are here already.
                continue;
            }
            if self.wants_input() {
                match self.poll_read(cx) {
                    Poll::Ready(Ok(())) => continue,
                    Poll::Ready(Err(failure)) => {
                        debug!(peer = %self.peer, %failure, "read failed");
                        self.finish(Ending::ClientClosed);
                        continue;
                    }
                    Poll::Pending => {}
                }
            }
            return self.poll_timer(cx);
        }
    }

    /// Moves replies that are there from `owed` to the output, in order.
    fn poll_answers(&mut self) {
        while let Some(front) = self.owed.front_mut() {
            // Only the front is asked: what is behind it could not leave anyway.
            let later = match &mut front.answer {
                Answer::Now(_) => None,
                Answer::Later(reply) => {
                    match reply.as_mut().poll(&mut Context::from_waker(&self.answer_waker)) {
                        Poll::Ready(reply) => Some(reply),
                        Poll::Pending => return,
                    }
                }
            };
            let Some(Owed { head, answer, started, bytes }) = self.owed.pop_front() else { return };
            self.owed_bytes.release(bytes);
            let reply = match (later, answer) {
                (Some(reply), _) | (None, Answer::Now(reply)) => reply,
                (None, Answer::Later(_)) => return,
            };
            let error = first_error(&reply);
            self.active_at = Instant::now();
            self.traffic.count(ApiSlot::of(head.api), error, self.active_at - started, 1);
            self.send(&head, reply, error.is_some());
        }
    }

    /// Starts the requests that are here and may start.
    fn start_requests(&mut self) {
        while self.can_start() {
            let length = match self.input.front() {
                Ok(Front::Frame(length)) => length,
                Ok(Front::Incomplete) => return,
                Err(bad) => {
                    self.shared.metrics.decode_failures.inc();
                    self.intake = Intake::Closed(bad.into());
                    return;
                }
            };
            let frame = match self.input.front_api() {
                Some(PRODUCE) => self.input.take_to_keep(length),
                _ => self.input.take(length),
            };
            match wire::decode_request(frame) {
                Ok(request) => self.start(request, length),
                Err(bad) => {
                    self.shared.metrics.decode_failures.inc();
                    self.intake = Intake::Closed(bad.into());
                    return;
                }
            }
        }
    }

    /// Whether there is a request, or a frame that is none, whose turn it is.
    fn can_start(&self) -> bool {
        if matches!(self.intake, Intake::Closed(_)) || self.output.len() > limits::OUTPUT {
            return false;
        }
        match self.input.front() {
            Ok(Front::Incomplete) => false,
            Ok(Front::Frame(length)) => self.owed.is_empty() || self.may_overlap(length),
            Err(_) => self.owed.is_empty(),
        }
    }

    /// Whether the request at the front may start although answers are owed.
    fn may_overlap(&self, length: usize) -> bool {
        // When the last one owed is one of these they all are, since nothing else starts behind another.
        self.input.front_api().is_some_and(|api| OVERLAPPING.iter().any(|key| key.number() == api))
            && self.owed.back().is_some_and(|owed| OVERLAPPING.contains(&owed.head.api))
            && self.owed.len() < limits::OVERLAPPING
            && self.owed_bytes.bytes + length <= limits::OVERLAPPING_BYTES
            && self.shared.in_flight.load(Ordering::Relaxed) + length <= limits::IN_FLIGHT_BYTES
    }

    fn start(&mut self, request: Request, bytes: usize) {
        let Request { head, client_id, body } = request;
        let slot = ApiSlot::of(head.api);
        let op = match body {
            Body::Op(op) => op,
            Body::Local(local) => {
                self.tally.add(slot);
                for chunk in wire::answer(&head, local, &self.addresses).into_chunks() {
                    self.output.push(chunk);
                }
                return;
            }
        };
        if !client_id.is(self.carrier.client_id.as_deref()) {
            self.carrier.client_id = client_id.text().map(Arc::from);
        }
        drop(client_id);
        let answer = match self.shared.rail.call(&self.carrier, op) {
            Answer::Later(mut reply) if self.owed.is_empty() => {
                match reply.as_mut().poll(&mut Context::from_waker(&self.answer_waker)) {
                    Poll::Ready(reply) => Answer::Now(reply),
                    Poll::Pending => Answer::Later(reply),
                }
            }
            answer => answer,
        };
        match answer {
            Answer::Now(reply) if self.owed.is_empty() => {
                let error = first_error(&reply);
                match error {
                    None => self.tally.add(slot),
                    Some(_) => self.traffic.count(slot, error, self.read_at.elapsed(), 1),
                }
                self.send(&head, reply, error.is_some());
            }
            answer => {
                self.owed.push_back(Owed { head, answer, started: self.read_at, bytes });
                self.owed_bytes.add(bytes);
            }
        }
    }

    fn send(&mut self, head: &Head, reply: Reply, is_error: bool) {
        if head.expects_reply() {
            let addresses = &self.addresses;
            self.output.push_with(|tail| wire::encode_reply_onto(tail, head, reply, addresses));
        } else if is_error {
            // As in Kafka: a closed connection is all that a producer with acks=0 can notice.
            self.intake = Intake::Closed(Ending::Refused);
        }
    }

    /// Writes until nothing is left or the client takes no more.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.output.is_empty() {
            let stream = Pin::new(&mut self.stream);
            let written = self.output.write_with(|slices| match slices {
                // By far the most are one piece, and the system takes one piece faster than a list of one.
                [one] => stream.poll_write(cx, one),
                several => stream.poll_write_vectored(cx, several),
            });
            match written {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => {
                    self.traffic.sent(count);
                    if self.stalled_since.take().is_some() {
                        self.active_at = Instant::now();
                    }
                }
                Poll::Ready(Err(failure)) => return Poll::Ready(Err(failure)),
                Poll::Pending => {
                    if self.stalled_since.is_none() {
                        let now = Instant::now();
                        self.stalled_since = Some(now);
                        self.ring_by(after(now, self.shared.options.write_timeout));
                    }
                    return Poll::Pending;
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    fn wants_input(&self) -> bool {
        matches!(self.intake, Intake::Open)
            && self.output.len() <= limits::OUTPUT
            && match self.input.front() {
                Ok(Front::Incomplete) => true,
                Ok(Front::Frame(_)) => self.input.len() < limits::READ_AHEAD,
                Err(_) => false,
            }
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let count = ready!(pin!(self.stream.read_buf(self.input.spare())).poll(cx))?;
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

    /// Reads no more, but answers what has been read.
    fn finish(&mut self, why: Ending) {
        if matches!(self.intake, Intake::Open) {
            let until = after(Instant::now(), self.shared.options.drain_timeout);
            self.intake = Intake::Finishing { why, until };
            self.ring_by(until);
        }
    }

    /// Why the connection is over, once it is.
    fn take_ending(&mut self) -> Option<Ending> {
        let is_over = match &self.intake {
            Intake::Open => false,
            Intake::Closed(_) => self.owed.is_empty() && self.output.is_empty(),
            Intake::Finishing { why, .. } => {
                let has_frame = matches!(self.input.front(), Ok(Front::Frame(_)));
                // Nobody waits for what a client that has gone asked to wait for. What it produced or committed is
                // another matter: requests behind it may depend on that.
                let is_abandoned = matches!(why, Ending::ClientClosed)
                    && self.owed.back().is_none_or(|owed| !OVERLAPPING.contains(&owed.head.api));
                !has_frame
                    && (self.owed.is_empty() && self.output.is_empty()
                        || is_abandoned && !self.owed.is_empty())
            }
        };
        if !is_over {
            return None;
        }
        match std::mem::replace(&mut self.intake, Intake::Open) {
            Intake::Open => None,
            Intake::Closed(why) | Intake::Finishing { why, .. } => Some(why),
        }
    }

    /// Ends what has lasted too long. Always the last thing asked, so that traffic counts before clocks.
    fn poll_timer(&mut self, cx: &mut Context<'_>) -> Poll<Ending> {
        while self.timer.as_mut().poll(cx).is_ready() {
            let now = Instant::now();
            let options = &self.shared.options;
            let mut next = now + REST_AFTER;
            if let Some(since) = self.stalled_since {
                let deadline = after(since, options.write_timeout);
                if deadline <= now {
                    self.shared.metrics.connections_stalled_closed.inc();
                    return Poll::Ready(Ending::Stalled);
                }
                next = next.min(deadline);
            }
            if let Intake::Finishing { until, .. } = self.intake {
                if until <= now {
                    return Poll::Ready(Ending::Drained);
                }
                next = next.min(until);
            }
            if self.owed.is_empty() && self.output.is_empty() {
                let deadline = after(self.active_at, options.connections_max_idle);
                if deadline <= now {
                    self.shared.metrics.connections_idle_closed.inc();
                    return Poll::Ready(Ending::Idle);
                }
                let rest_at = self.active_at + REST_AFTER;
                if now < rest_at {
                    next = next.min(rest_at).min(deadline);
                } else {
                    self.input.rest();
                    self.output.rest();
                    self.owed = VecDeque::new();
                    self.is_resting = true;
                    // Thousands of clients may be connected for hours without a word; they cost nothing until then.
                    next = deadline;
                }
            }
            self.timer.as_mut().reset(next);
        }
        Poll::Pending
    }

    /// Makes the timer ring at `deadline` unless it does earlier.
    fn ring_by(&mut self, deadline: Instant) {
        if deadline < self.timer.deadline() {
            self.timer.as_mut().reset(deadline);
        }
    }

    async fn close(mut self, ending: &Ending) {
        debug!(peer = %self.peer, reason = %ending, "connection ends");
        if !matches!(ending, Ending::Drained | Ending::Refused) || self.stream.shutdown().await.is_err() {
            return;
        }
        // Closing with unread bytes makes the kernel reset the connection, and the client may then lose the last
        // answers. So they are read, for a moment, until the client closes too.
        let mut unread = vec![0; limits::READ_MIN];
        let until_closed = async { while let Ok(1..) = self.stream.read(&mut unread).await {} };
        // A client that does not close in this time is reset, which is what it would have been anyway.
        let _ = time::timeout(limits::LINGER, until_closed).await;
    }
}

/// `start + duration`, or a time that nobody lives to see.
fn after(start: Instant, duration: Duration) -> Instant {
    const NEVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
    start + duration.min(NEVER)
}
