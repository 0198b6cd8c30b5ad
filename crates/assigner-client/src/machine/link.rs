//! When to connect, to whom, and how long what we were told holds.

use std::time::Duration;

/// The pause before a new attempt, once every endpoint has been tried.
const PAUSE: Duration = Duration::from_millis(100);
pub(super) const PAUSE_MAX: Duration = Duration::from_secs(5);
/// A connection that held for so long was a good one: after it the pauses begin small again.
const STEADY: Duration = Duration::from_secs(5);
/// The lease if the assigner does not say how long it is, and the longest that is believed.
const LEASE: Duration = Duration::from_secs(30);
const LEASE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// One attempt to connect, or the connection that came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LinkId(u64);

#[derive(Debug)]
pub(super) struct Link {
    endpoints: usize,
    endpoint: usize,
    attempts: u32,
    next_id: u64,
    seed: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    Down { again_at: Duration },
    Connecting { id: LinkId, sent_at: Duration },
    Up { id: LinkId, since: Duration },
}

impl Link {
    pub(super) fn new(endpoints: usize, seed: u64) -> Self {
        let state = State::Down { again_at: Duration::ZERO };
        Self { endpoints: endpoints.max(1), endpoint: 0, attempts: 0, next_id: 0, seed, state }
    }

    pub(super) fn is_up(&self) -> bool {
        matches!(self.state, State::Up { .. })
    }

    pub(super) fn is_down(&self) -> bool {
        matches!(self.state, State::Down { .. })
    }

    pub(super) fn is(&self, link: LinkId) -> bool {
        match self.state {
            State::Down { .. } => false,
            State::Connecting { id, .. } | State::Up { id, .. } => id == link,
        }
    }

    /// Begins an attempt if it is time for one, with the endpoint to try.
    pub(super) fn connect(&mut self, now: Duration) -> Option<(LinkId, usize)> {
        match self.state {
            State::Down { again_at } if now >= again_at => {
                let id = LinkId(self.next_id);
                self.next_id += 1;
                self.state = State::Connecting { id, sent_at: now };
                Some((id, self.endpoint))
            }
            _ => None,
        }
    }

    /// The first message has come. Returns when it was asked for, or nothing if there was one before.
    pub(super) fn handle_up(&mut self, now: Duration) -> Option<Duration> {
        match self.state {
            State::Connecting { id, sent_at } => {
                self.state = State::Up { id, since: now };
                Some(sent_at)
            }
            State::Down { .. } | State::Up { .. } => None,
        }
    }

    /// The connection is gone, or there was none. The next endpoint is tried, after a pause that grows: to `pause_max`
    /// at most, since whoever has a lease must be back before it ends.
    pub(super) fn handle_down(&mut self, now: Duration, pause_max: Duration) {
        if let State::Up { since, .. } = self.state
            && now >= since + STEADY
        {
            self.attempts = 0;
        }
        self.take_turn();
        let rounds = usize::try_from(self.attempts).unwrap_or(usize::MAX) / self.endpoints;
        let pause = PAUSE.saturating_mul(1 << rounds.min(10)).min(pause_max);
        self.attempts = self.attempts.saturating_add(1);
        // All consumers of an instance that ends come at the same time.
        let pause = pause / 2 + Duration::from_nanos(self.random() % (nanos(pause / 2) + 1));
        self.state = State::Down { again_at: now + pause };
    }

    pub(super) fn is_connecting(&self) -> bool {
        matches!(self.state, State::Connecting { .. })
    }

    pub(super) fn endpoints(&self) -> usize {
        self.endpoints
    }

    /// The endpoint whose turn it is. After it comes the next.
    pub(super) fn take_turn(&mut self) -> usize {
        let endpoint = self.endpoint;
        self.endpoint = (endpoint + 1) % self.endpoints;
        endpoint
    }

    pub(super) fn next_deadline(&self) -> Option<Duration> {
        match self.state {
            State::Down { again_at } => Some(again_at),
            State::Connecting { .. } | State::Up { .. } => None,
        }
    }

    /// SplitMix64.
    fn random(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.seed;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX - 1)
}

/// For how long the assigner keeps for us what we own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lease {
    ttl: Duration,
    interval: Duration,
    /// When the registration was sent that it began with.
    registered_at: Duration,
    /// When that was sent which was last answered.
    renewed_at: Duration,
}

impl Lease {
    /// What a snapshot says of the lease; zero if it does not.
    pub(super) fn new(ttl: Duration, interval: Duration, renewed_at: Duration) -> Self {
        let registered_at = renewed_at;
        let mut lease = Self { ttl: LEASE, interval, registered_at, renewed_at };
        lease.renew(ttl, renewed_at);
        lease
    }

    /// What was sent then is answered: the lease is that long from then on.
    pub(super) fn renew(&mut self, ttl: Duration, sent_at: Duration) {
        // The answer may be to a question from before this lease, which was longer.
        if sent_at < self.renewed_at {
            return;
        }
        if !ttl.is_zero() {
            self.ttl = ttl.min(LEASE_MAX);
        }
        self.renewed_at = sent_at;
    }

    pub(super) fn registered_at(&self) -> Duration {
        self.registered_at
    }

    /// When to stop all work. The lease itself ends later by a third: that is for what is under way by then.
    pub(super) fn stop_at(&self) -> Duration {
        self.renewed_at + self.ttl * 2 / 3
    }

    /// How often to renew it: as told, but neither all the time nor too late.
    pub(super) fn interval(&self) -> Duration {
        if self.interval.is_zero() { self.ttl / 6 } else { self.interval.clamp(self.ttl / 60, self.ttl / 3) }
    }

    /// How long to wait for the next attempt to connect at most, so that several fit in.
    pub(super) fn pause_max(&self) -> Duration {
        PAUSE_MAX.min(self.ttl / 9)
    }

    /// How long an answer may take, so that there is time for a second attempt and for another endpoint.
    pub(super) fn answer_within(&self) -> Duration {
        self.ttl / 9
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn endpoints_take_turns_and_pauses_grow() {
        let mut link = Link::new(2, 7);
        let mut now = ms(1_000);
        let mut tried = Vec::new();
        let mut pauses = Vec::new();
        for _ in 0..16 {
            let (_, endpoint) = link.connect(now).unwrap();
            tried.push(endpoint);
            link.handle_down(now, PAUSE_MAX);
            let again_at = link.next_deadline().unwrap();
            pauses.push(again_at - now);
            assert!(link.connect(again_at - ms(1)).is_none(), "too early");
            now = again_at;
        }
        assert_eq!(tried[..5], [0, 1, 0, 1, 0]);
        assert!(pauses[0] <= PAUSE && pauses[0] >= PAUSE / 2, "{pauses:?}");
        assert!(pauses[15] <= PAUSE_MAX && pauses[15] >= PAUSE_MAX / 2, "{pauses:?}");
    }

    #[test]
    fn a_connection_that_held_forgives_the_attempts_before_it() {
        let mut link = Link::new(1, 7);
        let mut now = ms(0);
        for _ in 0..20 {
            now += PAUSE_MAX;
            link.connect(now).unwrap();
            link.handle_up(now);
            link.handle_down(now, PAUSE_MAX);
        }
        assert!(link.next_deadline().unwrap() - now >= PAUSE_MAX / 2, "it never held");
        now += PAUSE_MAX;
        link.connect(now).unwrap();
        link.handle_up(now);
        now += STEADY;
        link.handle_down(now, PAUSE_MAX);
        assert!(link.next_deadline().unwrap() - now <= PAUSE);
    }

    #[test]
    fn pauses_do_not_outgrow_the_lease() {
        let lease = Lease::new(ms(900), ms(100), ms(0));
        let mut link = Link::new(1, 7);
        let mut now = ms(0);
        for _ in 0..20 {
            link.connect(now).unwrap();
            link.handle_down(now, lease.pause_max());
            let again_at = link.next_deadline().unwrap();
            assert!(again_at - now <= ms(100), "{:?}", again_at - now);
            now = again_at;
        }
        assert_eq!(Lease::new(ms(300_000), ms(0), ms(0)).pause_max(), PAUSE_MAX);
    }

    #[test]
    fn an_answer_to_what_was_asked_under_a_longer_lease_does_not_lengthen_the_present_one() {
        let mut lease = Lease::new(ms(9_000), ms(1_000), ms(1_000));
        lease.renew(ms(30_000), ms(900));
        assert_eq!(lease.stop_at(), ms(7_000));
        lease.renew(ms(6_000), ms(2_000));
        assert_eq!(lease.stop_at(), ms(6_000));
    }

    #[test]
    fn whatever_lease_is_told_there_is_time_to_renew_it() {
        for ttl in [0, 1, 300, 30_000, u64::MAX] {
            for interval in [0, 1, 5_000, u64::MAX] {
                let lease = Lease::new(ms(ttl), ms(interval), ms(10));
                assert!(lease.interval() <= lease.ttl / 3, "{lease:?}");
                assert!(lease.interval() >= lease.ttl / 60, "{lease:?}");
                assert!(lease.stop_at() < ms(10) + lease.ttl || ttl == 1, "{lease:?}");
                assert!(lease.answer_within() <= lease.ttl / 9, "{lease:?}");
            }
        }
    }
}
