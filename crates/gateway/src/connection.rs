//! The life of one client.

mod clock;
mod guarding;
mod held;
mod owing;
mod transfer;

use std::collections::VecDeque;
use std::future::{self, Future};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use coordination::op::Op;
use coordination::reply::Reply;
use rail::{Answer, Carrier, Rail};
use tokio::sync::{Semaphore, watch};
use tokio::time::{self, Instant, Sleep};
use tracing::debug;
use wire::{ApiKey, Body, Head, KnownHeartbeat, Request};

use crate::admission::Seat;
use crate::arrival::Connected;
use crate::authentication::Step;
use crate::ending::Ending;
use crate::entrance::Entrance;
use crate::guard::Guard;
use crate::input::{Front, Input};
use crate::limits;
use crate::metrics::{ApiSlot, Metrics, Tally, Traffic};
use crate::options::Options;
use crate::outcome::{first_error, throttle};
use crate::output::Output;
use crate::pauses::Pauses;
use crate::penalty::Penalties;
use crate::relay::Relayed;
use crate::signpost::Signpost;
use crate::stream::Stream;
pub(crate) use clock::after;
use guarding::Passage;
use held::Held;
use owing::{Awaited, Owed};

/// What all connections of a gateway share.
pub(crate) struct Shared {
    pub(crate) rail: Arc<dyn Rail>,
    pub(crate) options: Options,
    pub(crate) metrics: Metrics,
    /// How many bytes the requests hold that have started and are not answered.
    pub(crate) in_flight: AtomicUsize,
    /// Whose producers have to be quiet.
    pub(crate) pauses: Pauses,
    /// Which addresses have failed to show who they are.
    pub(crate) penalties: Penalties,
    /// Who hashes passwords takes one of these.
    pub(crate) hashing: Arc<Semaphore>,
}

/// One client, from accept to close.
///
/// Requests take effect in order and are answered in order. The next one starts when all before it are
/// answered; only Produce, OffsetCommit and Heartbeat may start while earlier ones of these three wait for the
/// disk, so that one sync serves them all. `owed` holds what has started and is not answered.
pub(crate) struct Connection {
    /// Counted for as long as the socket is open, and not longer: fields end in this order.
    _connected: Connected,
    stream: Stream,
    peer: SocketAddr,
    shared: Arc<Shared>,
    entrance: Arc<Entrance>,
    signpost: Signpost,
    carrier: Carrier,
    /// Whether the broker has heard of the client and is to be told that it has gone.
    is_known_to_broker: bool,
    /// Sees every request before it starts, as long as there is one.
    guard: Option<Box<Guard>>,
    hold: Option<Hold>,
    /// Whether the connection has been quiet for a while. The next produce request need not wait for what others have taken
    /// meanwhile: clients do not wait for ever, and send it again by another connection.
    has_waited: bool,
    input: Input,
    output: Output,
    owed: VecDeque<Owed>,
    owed_bytes: Held,
    /// Ops of the last in `owed` that are handed over together once all that has come is read.
    gathered: Vec<Op>,
    /// The client's last heartbeat, which it mostly sends again.
    known_heartbeat: Option<Box<KnownHeartbeat>>,
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
    seat: Seat,
}

/// A client whose connection is about to begin.
pub(crate) struct Caller {
    pub(crate) connected: Connected,
    pub(crate) stream: Stream,
    pub(crate) peer: SocketAddr,
    /// Where it has dialled.
    pub(crate) local: SocketAddr,
    pub(crate) guard: Guard,
    pub(crate) entrance: Arc<Entrance>,
    pub(crate) seat: Seat,
    pub(crate) shared: Arc<Shared>,
}

/// Whether more requests are taken.
enum Intake {
    /// As many as come.
    Open,
    /// Only those that have been read already.
    Finishing { why: Ending, since: Instant },
    /// None.
    Closed(Ending),
}

/// What keeps requests from starting, and the socket from being read.
enum Hold {
    /// The client's organisation has used up its bytes per second.
    Muted(Instant),
    /// The client is on its way to be let in.
    Step(Step),
}

/// The number of the one API whose requests carry what the broker keeps as it came.
const PRODUCE: i16 = ApiKey::Produce.number();

/// The APIs whose requests take effect within the call, as [`Rail::call`] promises. They may overlap: whoever sends
/// the next one before the first is answered finds them done in order.
const OVERLAPPING: [ApiKey; 3] = [ApiKey::Produce, ApiKey::OffsetCommit, ApiKey::Heartbeat];

/// The APIs whose answers the broker may keep back until something happens.
const PARKED: [ApiKey; 3] = [ApiKey::Fetch, ApiKey::JoinGroup, ApiKey::SyncGroup];

/// After this long without traffic, buffers that a burst has left large are given back.
const REST_AFTER: Duration = Duration::from_secs(10);

impl Connection {
    pub(crate) fn new(caller: Caller, traffic: Arc<Traffic>, on_answer: Arc<Relayed>) -> Self {
        let Caller { connected, stream, peer, local, guard, entrance, seat, shared } = caller;
        let now = Instant::now();
        let (host, listener) = (peer.ip().to_canonical(), Arc::clone(&entrance.name));
        let max_frame = match &entrance.logins {
            Some(logins) => logins.max_receive_size,
            None => shared.options.socket_request_max_bytes,
        };
        let first = after(now, REST_AFTER.min(shared.options.connections_max_idle));
        let first = guard.deadline.map_or(first, |deadline| deadline.min(first));
        Self {
            _connected: connected,
            stream,
            peer,
            signpost: Signpost::new(&entrance, shared.options.node_id, local),
            entrance,
            carrier: Carrier::new(host, listener),
            is_known_to_broker: false,
            guard: Some(Box::new(guard)),
            hold: None,
            has_waited: false,
            input: Input::new(max_frame),
            output: Output::default(),
            owed: VecDeque::new(),
            owed_bytes: Held { bytes: 0, shared: Arc::clone(&shared) },
            gathered: Vec::new(),
            known_heartbeat: None,
            intake: Intake::Open,
            tally: Tally::default(),
            traffic,
            read_at: now,
            active_at: now,
            stalled_since: None,
            timer: Box::pin(time::sleep_until(first)),
            is_resting: false,
            answer_waker: Waker::from(Arc::clone(&on_answer)),
            on_answer,
            seat,
            shared,
        }
    }

    /// Serves the client until either side has had enough.
    pub(crate) async fn run(mut self: Box<Self>, mut drain: watch::Receiver<bool>) {
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
            if let Some(Hold::Step(step)) = &mut self.hold
                && let Poll::Ready(outcome) = step.as_mut().poll(cx)
            {
                self.hold = None;
                self.conclude(outcome);
            }
            self.poll_answers();
            self.start_requests(cx);
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

    /// Starts the requests that are here and may start.
    fn start_requests(&mut self, cx: &mut Context<'_>) {
        self.start_each(cx);
        self.hand_over_gathered();
    }

    fn start_each(&mut self, cx: &mut Context<'_>) {
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
            if self.guard.is_some() {
                match self.pass(cx, length) {
                    Passage::Free => {}
                    Passage::Taken => continue,
                    Passage::Shut => return,
                }
            }
            if let Some(known) = &self.known_heartbeat
                && let Some((head, op)) = known.read(self.input.front_frame(length))
            {
                self.input.skip(length);
                self.start_op(head, op, length);
                continue;
            }
            if self.input.front_api() == Some(PRODUCE)
                && matches!(self.intake, Intake::Open)
                && !std::mem::take(&mut self.has_waited)
                && let Some(until) = self.shared.pauses.until(self.carrier.org())
            {
                self.shared.metrics.throttled.inc();
                return self.wait_until(until);
            }
            let Some(request) = self.take_request(length) else { return };
            self.start(request, length);
        }
    }

    /// Takes the request at the front; what is none ends the connection.
    fn take_request(&mut self, length: usize) -> Option<Request> {
        let frame = match self.input.front_api() {
            Some(PRODUCE) => self.input.take_to_keep(length),
            _ => self.input.take(length),
        };
        match wire::decode_request(frame) {
            Ok(request) => Some(request),
            Err(bad) => {
                self.shared.metrics.decode_failures.inc();
                self.intake = Intake::Closed(bad.into());
                None
            }
        }
    }

    /// Whether there is a request, or a frame that is none, whose turn it is.
    fn can_start(&self) -> bool {
        if matches!(self.intake, Intake::Closed(_))
            || self.hold.is_some()
            || self.output.len() > limits::OUTPUT
        {
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
        if !request.client_id.is(self.carrier.client_id().map(|id| &**id))
            && matches!(request.body, Body::Op(_))
        {
            // What was sent under the other name is told under it.
            self.hand_over_gathered();
            self.carrier.calls_itself(request.client_id.text().map(Arc::from));
            // Its bytes hold the other name.
            self.known_heartbeat = None;
        }
        KnownHeartbeat::keep(&mut self.known_heartbeat, &request);
        let Request { head, client_id, body } = request;
        drop(client_id);
        let op = match body {
            Body::Op(op) => op,
            Body::Local(local) => {
                self.tally.add(ApiSlot::of(head.api));
                for chunk in wire::answer(&head, local).into_chunks() {
                    self.output.push(chunk);
                }
                return;
            }
            Body::Sasl(asked) => return self.answer_out_of_place(&head, &asked),
        };
        self.start_op(head, op, bytes);
    }

    fn start_op(&mut self, head: Head, op: Op, bytes: usize) {
        if self.shared.rail.gathers(&op)
            && bytes <= limits::GATHERED
            && !matches!(self.intake, Intake::Closed(_))
        {
            return self.gather(head, op, bytes);
        }
        self.hand_over_gathered();
        if matches!(self.intake, Intake::Closed(_)) {
            // What came before it is lost, and an answer to this one would be taken for the answer to that.
            return;
        }
        let slot = ApiSlot::of(head.api);
        let mut answer = self.shared.rail.call(&self.carrier, op);
        if !matches!(answer, Answer::Now(_)) && self.owed.is_empty() {
            match answer.poll(&mut Context::from_waker(&self.answer_waker)) {
                Poll::Ready(Ok(reply)) => answer = Answer::Now(reply),
                Poll::Ready(Err(lost)) => return self.lose(lost),
                Poll::Pending => {}
            }
        }
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
                let answer = Awaited::One(answer);
                self.owed.push_back(Owed { head, answer, started: self.read_at, bytes });
                self.owed_bytes.add(bytes);
            }
        }
    }

    fn send(&mut self, head: &Head, reply: Reply, is_error: bool) {
        let throttle = throttle(&reply);
        if !throttle.is_zero() {
            self.mute(throttle, head.api);
        }
        if head.expects_reply() {
            let addresses = self.signpost.addresses(head.api, &*self.shared.rail);
            self.output.push_with(|tail| wire::encode_reply_onto(tail, head, reply, addresses));
        } else if is_error {
            // As in Kafka: a closed connection is all that a producer with acks=0 can notice.
            self.intake = Intake::Closed(Ending::Refused);
        }
    }

    /// Starts and reads nothing more for a while. As in Kafka the answer says how long, but not every client waits.
    #[cold]
    fn mute(&mut self, throttle: Duration, api: ApiKey) {
        let until = after(Instant::now(), throttle);
        if api == ApiKey::Produce {
            self.shared.pauses.begin(self.carrier.org(), until);
        }
        if self.is_draining() {
            return;
        }
        self.shared.metrics.throttled.inc();
        self.wait_until(match self.hold {
            Some(Hold::Muted(longer)) => longer.max(until),
            Some(Hold::Step(_)) | None => until,
        });
    }

    fn wait_until(&mut self, until: Instant) {
        self.has_waited = true;
        self.hold = Some(Hold::Muted(until));
        self.ring_by(until);
    }

    /// Whether a few requests are left and no more come. They must not hold up everyone who waits for the drain.
    fn is_draining(&self) -> bool {
        matches!(self.intake, Intake::Finishing { why: Ending::Drained, .. })
    }

    fn wants_input(&self) -> bool {
        matches!(self.intake, Intake::Open)
            && self.hold.is_none()
            && self.output.len() <= limits::OUTPUT
            && match self.input.front() {
                Ok(Front::Incomplete) => true,
                Ok(Front::Frame(_)) => self.input.len() < limits::READ_AHEAD,
                Err(_) => false,
            }
    }

    /// Reads no more, but answers what has been read.
    fn finish(&mut self, why: Ending) {
        if matches!(self.intake, Intake::Open) {
            let since = Instant::now();
            if matches!((&why, &self.hold), (Ending::Drained, Some(Hold::Muted(_)))) {
                self.hold = None;
            }
            self.intake = Intake::Finishing { why, since };
            self.ring_by(self.finished_by(since).min(since + limits::DRAIN_LOOK));
        }
    }

    /// Until when a connection that reads no more since `since` waits for the answers that it owes.
    fn finished_by(&self, since: Instant) -> Instant {
        let Options { drain_timeout, drain_parked_timeout, .. } = self.shared.options;
        let until = after(since, drain_timeout);
        let is_parked = self.owed.front().is_some_and(|owed| PARKED.contains(&owed.head.api));
        // What is behind it and may not start before it is answered need not be of that kind.
        let is_alone = is_parked && self.is_written() && !matches!(self.input.front(), Ok(Front::Frame(_)));
        if is_alone { until.min(after(since.max(self.active_at), drain_parked_timeout)) } else { until }
    }

    /// Why the connection is over, once it is.
    fn take_ending(&mut self) -> Option<Ending> {
        let is_over = match &self.intake {
            Intake::Open => false,
            Intake::Closed(_) => self.owed.is_empty() && self.is_written(),
            Intake::Finishing { why, .. } => {
                let has_frame = matches!(self.input.front(), Ok(Front::Frame(_)));
                // Nobody waits for what a client that has gone asked to wait for. What it produced or committed is
                // another matter: requests behind it may depend on that.
                let is_abandoned = matches!(why, Ending::ClientClosed)
                    && self.owed.back().is_none_or(|owed| !OVERLAPPING.contains(&owed.head.api));
                !has_frame
                    && (self.owed.is_empty() && self.is_written() || is_abandoned && !self.owed.is_empty())
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

    async fn close(mut self: Box<Self>, ending: &Ending) {
        debug!(peer = %self.peer, reason = %ending, "connection ends");
        // TLS wants to be told of the end in any case.
        let says_so = ending.has_last_words() || self.stream.is_tls() && ending.is_ours();
        if !says_so {
            return;
        }
        // Closing with unread bytes makes the kernel reset the connection, and the client may then lose the last
        // answers. So they are read, for a moment, until the client closes too.
        let until_closed = async {
            if self.stream.shutdown().await.is_ok() && ending.has_last_words() {
                self.stream.drain().await;
            }
        };
        // A client that does not close in this time is reset, which is what it would have been anyway.
        let _ = time::timeout(limits::LINGER, until_closed).await;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // An op that still waits for room on the link is taken back with its answer. Sent after the client has left, it
        // would announce it anew, and nobody would say a second time that it has gone.
        self.owed.clear();
        self.hold = None;
        if self.is_known_to_broker {
            self.shared.rail.leave(&self.carrier);
        }
    }
}
