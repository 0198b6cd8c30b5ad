//! Who may connect: `max.connections` and `max.connections.per.ip`.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::limits::UNKNOWN_PER_IP;
use crate::penalty::network;

/// Counts the connections of all listeners together.
#[derive(Debug)]
pub(crate) struct Admission {
    max_connections: usize,
    max_connections_per_ip: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    total: usize,
    per_ip: HashMap<IpAddr, usize>,
    /// Those of them that have not shown yet who they are, where that is asked.
    unknown_per_ip: HashMap<IpAddr, usize>,
}

/// Why a connection is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    Total,
    PerIp,
    UnknownPerIp,
}

impl Admission {
    pub(crate) fn new(max_connections: usize, max_connections_per_ip: usize) -> Arc<Self> {
        Arc::new(Self { max_connections, max_connections_per_ip, taken: Mutex::default() })
    }

    /// Takes a seat, which is given back when it is dropped; `is_unknown` of a client that has yet to show who it is.
    pub(crate) fn admit(self: &Arc<Self>, ip: IpAddr, is_unknown: bool) -> Result<Seat, Full> {
        let mut taken = self.taken.lock();
        if taken.total >= self.max_connections {
            return Err(Full::Total);
        }
        if taken.per_ip.get(&ip).is_some_and(|count| *count >= self.max_connections_per_ip) {
            return Err(Full::PerIp);
        }
        if is_unknown {
            let unknown = taken.unknown_per_ip.entry(network(ip)).or_default();
            if *unknown >= UNKNOWN_PER_IP {
                return Err(Full::UnknownPerIp);
            }
            *unknown += 1;
        }
        *taken.per_ip.entry(ip).or_default() += 1;
        taken.total += 1;
        Ok(Seat { admission: Arc::clone(self), ip, is_unknown })
    }
}

/// The right to be connected.
#[derive(Debug)]
pub(crate) struct Seat {
    admission: Arc<Admission>,
    ip: IpAddr,
    is_unknown: bool,
}

impl Seat {
    /// The client has shown who it is.
    pub(crate) fn becomes_known(&mut self) {
        if std::mem::take(&mut self.is_unknown) {
            count_down(&mut self.admission.taken.lock().unknown_per_ip, network(self.ip));
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.becomes_known();
        let mut taken = self.admission.taken.lock();
        taken.total -= 1;
        count_down(&mut taken.per_ip, self.ip);
    }
}

/// An address without connections is forgotten, so that the map does not grow with every address ever seen.
fn count_down(counts: &mut HashMap<IpAddr, usize>, ip: IpAddr) {
    if let Some(count) = counts.get_mut(&ip) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&ip);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const A: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    const B: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

    #[test]
    fn a_seat_that_is_given_back_can_be_taken_again() {
        let admission = Admission::new(3, 2);
        let first = admission.admit(A, false).expect("there is room");
        let _second = admission.admit(A, false).expect("there is room");
        assert_eq!(admission.admit(A, false).map(|_| ()), Err(Full::PerIp));
        let _third = admission.admit(B, false).expect("there is room");
        assert_eq!(admission.admit(B, false).map(|_| ()), Err(Full::Total));
        drop(first);
        admission.admit(A, false).expect("there is room again");
    }

    #[test]
    fn an_address_without_connections_is_forgotten() {
        let admission = Admission::new(1, 1);
        drop(admission.admit(A, false));
        assert!(admission.taken.lock().per_ip.is_empty());
    }

    #[test]
    fn an_address_has_only_so_many_clients_that_nobody_knows() {
        let admission = Admission::new(usize::MAX, usize::MAX);
        let admit = |ip| admission.admit(ip, true);
        let mut unknown: Vec<_> = (0..UNKNOWN_PER_IP).map(|_| admit(A).expect("there is room")).collect();
        assert_eq!(admit(A).map(|_| ()), Err(Full::UnknownPerIp));
        let _other = admit(B).expect("another address has its own");
        let _plain = admission.admit(A, false).expect("who is not asked is not counted");
        unknown[0].becomes_known();
        unknown[0].becomes_known();
        unknown.push(admit(A).expect("the one that is known does not count"));
        assert_eq!(admit(A).map(|_| ()), Err(Full::UnknownPerIp));
        unknown.clear();
        assert!(!admission.taken.lock().unknown_per_ip.contains_key(&A));
        assert_eq!(admission.taken.lock().total, 2);
    }
}
