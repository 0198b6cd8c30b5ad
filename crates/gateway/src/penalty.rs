//! How long an address waits that fails to show who it is.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::limits::{PENALTIES, PENALTY_DOUBLINGS, PENALTY_FORGOTTEN, PENALTY_MAX};

/// The addresses that have failed of late.
#[derive(Debug, Default)]
pub(crate) struct Penalties {
    failed: Mutex<HashMap<IpAddr, Failed>>,
}

#[derive(Clone, Copy, Debug)]
struct Failed {
    times: u32,
    last: Instant,
}

impl Penalties {
    /// Takes note that `host` has failed, and says how long it waits for the answer: `delay`, and twice as long with
    /// each time that it failed before.
    pub(crate) fn note(&self, host: IpAddr, delay: Duration, now: Instant) -> Duration {
        let mut failed = self.failed.lock();
        let host = network(host);
        let is_recent = |failed: &Failed| now.saturating_duration_since(failed.last) < PENALTY_FORGOTTEN;
        if failed.len() >= PENALTIES && !failed.contains_key(&host) {
            failed.retain(|_, failed| is_recent(failed));
        }
        if failed.len() >= PENALTIES && !failed.contains_key(&host) {
            // Someone has more addresses than we remember. The one that was silent for longest makes room.
            let oldest = failed.iter().min_by_key(|(_, failed)| failed.last).map(|(host, _)| *host);
            if let Some(oldest) = oldest {
                failed.remove(&oldest);
            }
        }
        let entry = failed.entry(host).or_insert(Failed { times: 0, last: now });
        if !is_recent(entry) {
            entry.times = 0;
        }
        let doublings = entry.times.min(PENALTY_DOUBLINGS);
        *entry = Failed { times: entry.times.saturating_add(1), last: now };
        delay.saturating_mul(1 << doublings).min(PENALTY_MAX.max(delay))
    }
}

/// Who has one IPv6 address has the 64 bits of a network to choose from.
pub(crate) fn network(host: IpAddr) -> IpAddr {
    match host {
        IpAddr::V4(_) => host,
        IpAddr::V6(host) => {
            let [a, b, c, d, ..] = host.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const DELAY: Duration = Duration::from_millis(100);

    fn host(number: u32) -> IpAddr {
        Ipv4Addr::from_bits(number).into()
    }

    #[test]
    fn who_keeps_failing_waits_longer_up_to_a_bound_and_is_forgiven_in_time() {
        let penalties = Penalties::default();
        let now = Instant::now();
        let waits: Vec<_> = (0..4).map(|_| penalties.note(host(1), DELAY, now)).collect();
        assert_eq!(waits, [DELAY, DELAY * 2, DELAY * 4, DELAY * 8]);
        for _ in 0..100 {
            penalties.note(host(1), DELAY, now);
        }
        assert_eq!(penalties.note(host(1), DELAY, now), PENALTY_MAX);
        assert_eq!(penalties.note(host(2), DELAY, now), DELAY, "another address has not failed");
        assert_eq!(penalties.note(host(1), DELAY, now + PENALTY_FORGOTTEN), DELAY);
        let long = PENALTY_MAX * 2;
        assert_eq!(penalties.note(host(3), long, now), long, "as long as it is set to, at least");
        assert_eq!(penalties.note(host(4), Duration::ZERO, now), Duration::ZERO);
    }

    #[test]
    fn no_crowd_of_addresses_makes_it_grow() {
        let penalties = Penalties::default();
        let mut now = Instant::now();
        let bound = u32::try_from(PENALTIES).expect("small");
        for number in 0..bound + 10 {
            penalties.note(host(number), DELAY, now);
            now += Duration::from_nanos(1);
        }
        assert_eq!(penalties.failed.lock().len(), PENALTIES);
        assert!(!penalties.failed.lock().contains_key(&host(0)), "the oldest made room");
        penalties.note(host(bound + 20), DELAY, now + PENALTY_FORGOTTEN);
        assert_eq!(penalties.failed.lock().len(), 1);
    }

    #[test]
    fn one_network_is_one_address() {
        let penalties = Penalties::default();
        let now = Instant::now();
        let [one, two]: [IpAddr; 2] =
            ["2001:db8::1", "2001:db8::2"].map(|host| host.parse().expect("an address"));
        penalties.note(one, DELAY, now);
        assert_eq!(penalties.note(two, DELAY, now), DELAY * 2);
    }
}
