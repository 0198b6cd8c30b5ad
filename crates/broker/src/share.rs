//! What an organisation may have of the broker, and what of it is taken.
//!
//! Each topic and each shard of groups holds the [`Share`] of its organisation, so that a request that has found one of
//! them looks for nothing else. What is not limited is not counted where that would cost: bytes are not.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};

use coordination::error_code::ErrorCode;
use coordination::group::{Room, Usage};
use coordination::ids::OrgId;
use coordination::record::OrgLimits;
use coordination::reply::Refusal;

use crate::throttle;

/// No limit.
const UNLIMITED: u64 = u64::MAX;

/// How often one limit is logged at most: whoever runs into it does so again and again.
const TOLD_EVERY: Duration = Duration::from_secs(60);

/// When something was last logged, in milliseconds of the broker's time; 0 is never.
#[derive(Debug, Default)]
pub(crate) struct Told(AtomicU64);

impl Told {
    /// Whether it is time to log it again, which is then taken for done.
    pub(crate) fn is_due(&self, now: Duration) -> bool {
        // Never 0, which is what has never been told.
        let now = u64::try_from(now.as_millis()).unwrap_or(u64::MAX).saturating_add(1);
        let every = u64::try_from(TOLD_EVERY.as_millis()).unwrap_or(u64::MAX);
        let last = self.0.load(Ordering::Relaxed);
        (last == 0 || now.saturating_sub(last) >= every)
            && self.0.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

/// A limit that is kept here; the catalog keeps those of topics and partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    Groups,
    Members,
    Connections,
    BytesPerSecond,
}

impl Limit {
    const ALL: [Self; 4] = [Self::Groups, Self::Members, Self::Connections, Self::BytesPerSecond];

    /// Its name, as people set it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Groups => "max.groups",
            Self::Members => "max.members",
            Self::Connections => "max.connections",
            Self::BytesPerSecond => "max.bytes.per.second",
        }
    }
}

/// Which way bytes go. As in Kafka, each is counted by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    In,
    Out,
}

/// What one organisation may have, and has.
#[derive(Debug)]
pub(crate) struct Share {
    org: OrgId,
    /// By [`Limit`].
    limits: [AtomicU64; 4],
    told: [Told; 4],
    groups: AtomicI64,
    members: AtomicI64,
    connections: AtomicU64,
    /// Until when the bytes that were taken are paid for, in nanoseconds of the broker's time; by [`Way`].
    paid_until: [AtomicU64; 2],
}

impl Share {
    fn new(org: OrgId) -> Self {
        Self {
            org,
            limits: std::array::from_fn(|_| AtomicU64::new(UNLIMITED)),
            told: Default::default(),
            groups: AtomicI64::new(0),
            members: AtomicI64::new(0),
            connections: AtomicU64::new(0),
            paid_until: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    fn limit(&self, limit: Limit) -> u64 {
        self.limits[limit as usize].load(Ordering::Relaxed)
    }

    fn set(&self, limit: Limit, max: Option<u64>) {
        self.limits[limit as usize].store(max.unwrap_or(UNLIMITED), Ordering::Relaxed);
    }

    /// What there is room for within the organisation, if that is less than `room`.
    pub(crate) fn within(&self, room: Room) -> Room {
        let left = |limit, used: &AtomicI64, room: usize| match self.limit(limit) {
            UNLIMITED => room,
            max => {
                let used = u64::try_from(used.load(Ordering::Relaxed)).unwrap_or(0);
                room.min(usize::try_from(max.saturating_sub(used)).unwrap_or(usize::MAX))
            }
        };
        Room {
            groups: left(Limit::Groups, &self.groups, room.groups),
            members: left(Limit::Members, &self.members, room.members),
            bytes: room.bytes,
        }
    }

    /// A shard takes `after` where it took `before`.
    pub(crate) fn replace(&self, before: Usage, after: Usage) {
        for (total, before, after) in
            [(&self.groups, before.groups, after.groups), (&self.members, before.members, after.members)]
        {
            if before != after {
                let signed = |count| i64::try_from(count).unwrap_or(i64::MAX);
                total.fetch_add(signed(after) - signed(before), Ordering::Relaxed);
            }
        }
    }

    /// What is taken now.
    pub(crate) fn usage(&self) -> ShareUsage {
        let count = |total: &AtomicI64| u64::try_from(total.load(Ordering::Relaxed)).unwrap_or(0);
        ShareUsage {
            groups: count(&self.groups),
            members: count(&self.members),
            connections: self.connections.load(Ordering::Relaxed),
        }
    }

    /// Whether bytes are counted.
    pub(crate) fn is_throttled(&self) -> bool {
        self.limit(Limit::BytesPerSecond) != UNLIMITED
    }

    /// How many bytes one answer may carry, as in Kafka: what is more would not be paid for.
    pub(crate) fn most_at_once(&self) -> i32 {
        let most = self.limit(Limit::BytesPerSecond).saturating_mul(throttle::HIGHEST_PRICE.as_secs());
        i32::try_from(most).unwrap_or(i32::MAX)
    }

    /// Bytes have come at `now`, the broker's time. Says how long whoever sent them has to be quiet.
    pub(crate) fn take_in(&self, now: Duration, bytes: usize) -> Duration {
        match self.take_bytes(now, Way::In, bytes, Duration::MAX) {
            Ok(pause) | Err(pause) => pause,
        }
    }

    /// How long nothing may go out, since what went before is not paid for.
    pub(crate) fn owes(&self, now: Duration) -> Duration {
        if !self.is_throttled() {
            return Duration::ZERO;
        }
        let paid_until = self.paid_until[Way::Out as usize].load(Ordering::Relaxed);
        Duration::from_nanos(paid_until).saturating_sub(now)
    }

    /// Bytes shall go out at `now`, the broker's time, for whoever asked when nothing was owed. Says how long whoever gets
    /// them has to be quiet.
    ///
    /// # Errors
    /// When others were so much faster that these could not be paid for either. Nothing may go then, for so long.
    pub(crate) fn take_out(&self, now: Duration, bytes: usize) -> Result<Duration, Duration> {
        // One that is faster, every time perhaps, must not leave the slower one with nothing.
        self.take_bytes(now, Way::Out, bytes, throttle::HIGHEST_PRICE)
    }

    /// Takes bytes unless more is owed than this.
    fn take_bytes(
        &self,
        now: Duration,
        way: Way,
        bytes: usize,
        owing: Duration,
    ) -> Result<Duration, Duration> {
        let rate = self.limit(Limit::BytesPerSecond);
        if rate == UNLIMITED || bytes == 0 {
            return Ok(Duration::ZERO);
        }
        let mut pause = Duration::ZERO;
        let paid_until = &self.paid_until[way as usize];
        let taken = paid_until.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |paid_until| {
            let paid_until = Duration::from_nanos(paid_until);
            pause = paid_until.saturating_sub(now);
            if pause > owing {
                return None;
            }
            let taken = throttle::take(paid_until, now, bytes, rate);
            pause = taken.saturating_sub(now);
            Some(u64::try_from(taken.as_nanos()).unwrap_or(u64::MAX))
        });
        if !pause.is_zero() {
            self.tell(now, Limit::BytesPerSecond);
        }
        taken.map(|_| pause).map_err(|_| pause)
    }

    /// Logs that a limit was met, now and then. What has no limit has met the broker's, which is another story.
    pub(crate) fn tell(&self, now: Duration, limit: Limit) {
        let max = self.limit(limit);
        if max != UNLIMITED && self.told[limit as usize].is_due(now) {
            let (org, name) = (self.org, limit.name());
            tracing::warn!(%org, limit = name, max, "an organisation has met its limit");
        }
    }

    fn enter(&self) -> Result<(), u64> {
        let max = self.limit(Limit::Connections);
        let more = |count: u64| (count < max).then_some(count + 1);
        match self.connections.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => Ok(()),
            Err(_) => Err(max),
        }
    }

    fn leave(&self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What an organisation has of what can be limited, besides topics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShareUsage {
    /// Groups.
    pub groups: u64,
    /// Members of all groups.
    pub members: u64,
    /// Connections of clients.
    pub connections: u64,
}

/// The shares of all organisations, and the connections that have taken their places.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    by_org: RwLock<HashMap<OrgId, Arc<Share>>>,
    /// By the number of the carrier.
    entered: Mutex<HashMap<u64, Arc<Share>>>,
}

impl Shares {
    /// The organisation's share. One that nobody has heard of before has no limits.
    pub(crate) fn of(&self, org: OrgId) -> Arc<Share> {
        if let Some(share) = self.by_org.read().get(&org) {
            return Arc::clone(share);
        }
        Arc::clone(self.by_org.write().entry(org).or_insert_with(|| Arc::new(Share::new(org))))
    }

    /// What the organisation has.
    pub(crate) fn usage(&self, org: OrgId) -> ShareUsage {
        self.by_org.read().get(&org).map(|share| share.usage()).unwrap_or_default()
    }

    /// The organisation may have as much as this from now on. What it has beyond stays.
    pub(crate) fn limit(&self, org: OrgId, limits: &OrgLimits) {
        let share = self.of(org);
        for limit in Limit::ALL {
            let max = match limit {
                Limit::Groups => limits.groups,
                Limit::Members => limits.members,
                Limit::Connections => limits.connections,
                // Nothing at all would be a client that waits for ever.
                Limit::BytesPerSecond => limits.bytes_per_second.map(|rate| rate.max(1)),
            };
            share.set(limit, max);
        }
    }

    /// The organisation is gone.
    pub(crate) fn remove(&self, org: OrgId) {
        self.by_org.write().remove(&org);
    }

    /// A client takes a place among its organisation's connections. One that has shown anew who it is gives back the
    /// place it had.
    ///
    /// # Errors
    /// When there is none left.
    pub(crate) fn enter(&self, now: Duration, client: u64, org: OrgId) -> Result<(), Refusal> {
        let share = self.of(org);
        let mut entered = self.entered.lock();
        if entered.get(&client).is_some_and(|before| Arc::ptr_eq(before, &share)) {
            return Ok(());
        }
        if let Err(max) = share.enter() {
            drop(entered);
            share.tell(now, Limit::Connections);
            let name = Limit::Connections.name();
            let message = format!("The organisation has the {max} connections that {name} allows.");
            return Err(Refusal::new(ErrorCode::PolicyViolation, message));
        }
        if let Some(before) = entered.insert(client, share) {
            before.leave();
        }
        Ok(())
    }

    /// A client has gone, and with it what it took.
    pub(crate) fn leave(&self, client: u64) {
        let left = self.entered.lock().remove(&client);
        if let Some(share) = left {
            share.leave();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORG: OrgId = OrgId::DEFAULT;

    fn limited(limits: OrgLimits) -> Shares {
        let shares = Shares::default();
        shares.limit(ORG, &limits);
        shares
    }

    #[test]
    fn connections_beyond_the_limit_are_refused_until_one_leaves() {
        let shares = limited(OrgLimits { connections: Some(2), ..OrgLimits::default() });
        let enter = |client| shares.enter(Duration::ZERO, client, ORG);
        assert_eq!((enter(1), enter(2)), (Ok(()), Ok(())));
        let refusal = enter(3).expect_err("there are two");
        assert_eq!(refusal.code, ErrorCode::PolicyViolation);
        assert!(refusal.message.is_some_and(|message| message.contains("max.connections")));
        shares.leave(3);
        assert!(enter(3).is_err(), "who was refused has nothing to give back");
        assert_eq!(enter(1), Ok(()), "who is in is in");
        shares.leave(1);
        shares.leave(1);
        assert_eq!(enter(3), Ok(()));
        assert_eq!(shares.usage(ORG).connections, 2);
    }

    #[test]
    fn who_goes_over_to_another_organisation_gives_its_place_back() {
        let shares = limited(OrgLimits { connections: Some(1), ..OrgLimits::default() });
        let other = OrgId::from_u128(7);
        shares.enter(Duration::ZERO, 1, ORG).expect("there is room");
        shares.enter(Duration::ZERO, 1, other).expect("there is no limit");
        shares.enter(Duration::ZERO, 2, ORG).expect("the place is free");
        assert_eq!(shares.usage(other).connections, 1);
    }

    #[test]
    fn what_is_met_again_and_again_is_told_now_and_then() {
        let told = Told::default();
        let due = |second: u64| told.is_due(Duration::from_secs(second));
        assert_eq!(
            [due(0), due(0), due(59), due(60), due(119), due(120)],
            [true, false, false, true, false, true]
        );
    }

    #[test]
    fn room_is_what_the_limits_leave() {
        let shares = limited(OrgLimits { groups: Some(3), members: Some(1), ..OrgLimits::default() });
        let share = shares.of(ORG);
        share.replace(Usage::default(), Usage { groups: 2, members: 5, bytes: 100 });
        assert_eq!(share.within(Room::UNLIMITED), Room { groups: 1, members: 0, bytes: usize::MAX });
        assert_eq!(share.within(Room { groups: 0, members: 9, bytes: 4 }).groups, 0);
        shares.limit(ORG, &OrgLimits::default());
        assert_eq!(share.within(Room::UNLIMITED), Room::UNLIMITED);
    }

    #[test]
    fn bytes_are_counted_only_where_they_are_limited() {
        let shares = limited(OrgLimits { bytes_per_second: Some(100), ..OrgLimits::default() });
        let (share, second) = (shares.of(ORG), Duration::from_secs(1));
        assert!(share.is_throttled());
        assert_eq!(share.most_at_once(), 1_000);
        assert_eq!(share.take_in(10 * second, 300), 2 * second);
        assert_eq!(share.take_in(10 * second, 100), 3 * second, "what has come has come");
        assert_eq!(share.take_out(10 * second, 200), Ok(second), "what is fetched counts for itself");
        assert_eq!(share.owes(10 * second), second);
        assert_eq!(share.owes(11 * second), Duration::ZERO);
        assert_eq!(share.take_out(10 * second, 950), Ok(10 * second + second / 2), "who asked before that");
        assert_eq!(share.take_out(10 * second, 1), Err(10 * second + second / 2), "is served, within bounds");
        shares.limit(ORG, &OrgLimits::default());
        assert!(!share.is_throttled() && share.owes(10 * second).is_zero());
        assert_eq!(share.most_at_once(), i32::MAX);
        assert_eq!(share.take_in(10 * second, 300), Duration::ZERO);
    }
}
