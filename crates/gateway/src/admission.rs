//! Who may connect: `max.connections` and `max.connections.per.ip`.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

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
}

/// Why a connection is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    Total,
    PerIp,
}

impl Admission {
    pub(crate) fn new(max_connections: usize, max_connections_per_ip: usize) -> Arc<Self> {
        Arc::new(Self { max_connections, max_connections_per_ip, taken: Mutex::default() })
    }

    /// Takes a seat, which is given back when it is dropped.
    pub(crate) fn admit(self: &Arc<Self>, ip: IpAddr) -> Result<Seat, Full> {
        let mut taken = self.taken.lock();
        if taken.total >= self.max_connections {
            return Err(Full::Total);
        }
        let of_ip = taken.per_ip.get(&ip).copied().unwrap_or(0);
        if of_ip >= self.max_connections_per_ip {
            return Err(Full::PerIp);
        }
        taken.per_ip.insert(ip, of_ip + 1);
        taken.total += 1;
        Ok(Seat { admission: Arc::clone(self), ip })
    }
}

/// The right to be connected.
#[derive(Debug)]
pub(crate) struct Seat {
    admission: Arc<Admission>,
    ip: IpAddr,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.admission.taken.lock();
        taken.total -= 1;
        // An address without connections is forgotten, so that the map does not grow with every address ever seen.
        if let Some(of_ip) = taken.per_ip.get_mut(&self.ip) {
            *of_ip -= 1;
            if *of_ip == 0 {
                taken.per_ip.remove(&self.ip);
            }
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
        let first = admission.admit(A).expect("there is room");
        let _second = admission.admit(A).expect("there is room");
        assert_eq!(admission.admit(A).map(|_| ()), Err(Full::PerIp));
        let _third = admission.admit(B).expect("there is room");
        assert_eq!(admission.admit(B).map(|_| ()), Err(Full::Total));
        drop(first);
        admission.admit(A).expect("there is room again");
    }

    #[test]
    fn an_address_without_connections_is_forgotten() {
        let admission = Admission::new(1, 1);
        drop(admission.admit(A));
        assert!(admission.taken.lock().per_ip.is_empty());
    }
}
