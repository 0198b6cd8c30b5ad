//! One datagram at a time until the other end has heard how often to acknowledge.
//!
//! The QUIC library sends up to ten datagrams in one call, the later ones no larger than the first. It checks that a frame
//! fits before it writes it, except the one that asks for acknowledgements: when that one was lost, or is late, and is sent
//! again behind a datagram of a few bytes, the library panics, and its panic takes the process down. A datagram that
//! is the only one of its call is as large as the path allows.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use iroh::endpoint::{Controller, ControllerFactory, ControllerMetrics, RttEstimator};

/// Makes a controller of `rates` for each path, and holds it to one datagram at a time until the path has settled.
pub(crate) struct Settling<F> {
    /// What decides how much may be on its way.
    pub(crate) rates: Arc<F>,
    /// When what was asked has been heard or was lost, whatever has been seen of it: longer than a link lives in silence.
    pub(crate) at_most: Duration,
}

impl<F: ControllerFactory> ControllerFactory for Settling<F> {
    fn build(self: Arc<Self>, now: Instant, mtu: u16) -> Box<dyn Controller> {
        Box::new(Path {
            rates: Arc::clone(&self.rates).build(now, mtu),
            at_most: self.at_most,
            state: State::Waiting(Packet { sent: now, bytes: 0, number: u64::MAX }),
        })
    }
}

#[derive(Debug)]
struct Path {
    rates: Box<dyn Controller>,
    at_most: Duration,
    state: State,
}

/// How far a path has come in asking for acknowledgements.
#[derive(Debug, Clone, Copy)]
enum State {
    /// The packet that is being written asks.
    Asking,
    /// This packet asked and is not acknowledged. Before any has asked, it is one that nobody acknowledges.
    Waiting(Packet),
    /// The other end has heard.
    Settled,
}

/// Packets are numbered anew in each phase of a handshake, so that a number alone does not tell which one is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Packet {
    sent: Instant,
    bytes: u64,
    number: u64,
}

impl Controller for Path {
    fn on_sent(&mut self, now: Instant, bytes: u64, largest: u64) {
        self.rates.on_sent(now, bytes, largest);
    }

    fn on_packet_sent(&mut self, now: Instant, bytes: u16, number: u64) {
        if matches!(self.state, State::Asking) {
            self.state = State::Waiting(Packet { sent: now, bytes: bytes.into(), number });
        }
        self.rates.on_packet_sent(now, bytes, number);
    }

    fn on_cwnd_limited(&mut self) {
        self.rates.on_cwnd_limited();
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        number: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        if let State::Waiting(asked) = self.state
            && (asked == Packet { sent, bytes, number } || sent >= asked.sent + self.at_most)
        {
            self.state = State::Settled;
        }
        self.rates.on_ack(now, sent, bytes, number, app_limited, rtt);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, largest: Option<u64>) {
        self.rates.on_end_acks(now, in_flight, app_limited, largest);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        persistent: bool,
        ecn: bool,
        lost: u64,
        largest: u64,
    ) {
        self.rates.on_congestion_event(now, sent, persistent, ecn, lost, largest);
    }

    fn on_packet_lost(&mut self, bytes: u16, number: u64, now: Instant) {
        self.rates.on_packet_lost(bytes, number, now);
    }

    fn on_spurious_congestion_event(&mut self) {
        self.rates.on_spurious_congestion_event();
    }

    fn on_mtu_update(&mut self, mtu: u16) {
        self.rates.on_mtu_update(mtu);
    }

    fn on_ack_frequency_update(&mut self, threshold: u64, delay: Duration) {
        self.state = State::Asking;
        self.rates.on_ack_frequency_update(threshold, delay);
    }

    fn window(&self) -> u64 {
        self.rates.window()
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = self.rates.metrics();
        if !matches!(self.state, State::Settled) {
            // Less than one datagram, which the library takes for one.
            metrics.send_quantum = Some(0);
        }
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Path { rates: self.rates.clone_box(), ..*self })
    }

    fn initial_window(&self) -> u64 {
        self.rates.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests;
