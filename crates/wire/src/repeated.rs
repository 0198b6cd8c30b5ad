//! What clients send again and again, and what they are answered.

use std::sync::Arc;

use coordination::op::{self, Op};

use crate::request::{Body, Head, Request};

/// A heartbeat as it came. Until the next rebalance a member sends the same bytes again and again, but for the number of the
/// request, and they need not be understood each time.
#[derive(Clone, Debug)]
pub struct KnownHeartbeat {
    frame: Vec<u8>,
    head: Head,
    op: Arc<op::Heartbeat>,
}

/// What is longer is no client's, and not worth the memory.
const LONGEST: usize = 512;

/// Where the number of a request stands in its frame.
const CORRELATION_ID: std::ops::Range<usize> = 4..8;

impl KnownHeartbeat {
    /// Keeps the heartbeat that `request` is, if it is one, in the place of the one before.
    pub fn keep(known: &mut Option<Box<Self>>, request: &Request) {
        let (Body::Op(Op::Heartbeat(op)), frame) = (&request.body, request.client_id.frame()) else { return };
        if frame.len() > LONGEST {
            return;
        }
        let (head, op) = (request.head.clone(), Arc::clone(op));
        match known {
            Some(known) => {
                known.frame.clear();
                known.frame.extend_from_slice(frame);
                (known.head, known.op) = (head, op);
            }
            None => *known = Some(Box::new(Self { frame: frame.to_vec(), head, op })),
        }
    }

    /// The request in `frame`, if it is this heartbeat again.
    #[inline]
    pub fn read(&self, frame: &[u8]) -> Option<(Head, Op)> {
        let (before, after) = (..CORRELATION_ID.start, CORRELATION_ID.end..);
        if frame.len() != self.frame.len()
            || frame[before] != self.frame[before]
            || frame[after.clone()] != self.frame[after]
        {
            return None;
        }
        let correlation_id = i32::from_be_bytes(*frame.get(CORRELATION_ID)?.first_chunk()?);
        Some((Head { correlation_id, ..self.head.clone() }, Op::Heartbeat(Arc::clone(&self.op))))
    }
}

/// Makes of an encoded reply the same reply to another request of the same API and version.
pub fn address_reply(encoded: &mut [u8], head: &Head) {
    // Behind the size.
    if let Some(number) = encoded.get_mut(CORRELATION_ID) {
        number.copy_from_slice(&head.correlation_id.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use coordination::reply::{self, Reply};

    use super::*;
    use crate::api::heartbeat::HeartbeatRequest;
    use crate::{Addresses, decode_request, encode_reply, encode_request};

    fn frame(member: &str, version: i16, correlation_id: i32, client: &str) -> Bytes {
        let request = HeartbeatRequest {
            group_id: "billing".to_owned(),
            generation_id: 4,
            member_id: member.to_owned(),
            group_instance_id: None,
        };
        let frame = encode_request(&request, version, correlation_id, Some(client));
        let bytes: Vec<u8> = frame.into_chunks().flatten().collect();
        Bytes::from(bytes).slice(4..)
    }

    fn known(frame: &Bytes) -> Option<Box<KnownHeartbeat>> {
        let mut known = None;
        KnownHeartbeat::keep(&mut known, &decode_request(frame.clone()).expect("a request"));
        known
    }

    #[test]
    fn the_same_heartbeat_is_known_again_with_its_own_number() {
        for version in 0..=4 {
            let known = known(&frame("m-1", version, 7, "c")).expect("a heartbeat");
            let again = frame("m-1", version, -9, "c");
            let Request { head, body, .. } = decode_request(again.clone()).expect("a request");
            let Body::Op(op) = body else { panic!("{body:?}") };
            assert_eq!(known.read(&again), Some((head, op)));
        }
    }

    #[test]
    fn whatever_differs_but_in_its_number_is_not_known() {
        let first = frame("m-1", 4, 7, "c");
        let known = known(&first).expect("a heartbeat");
        for other in [frame("m-2", 4, 7, "c"), frame("m-1", 3, 7, "c"), frame("m-1", 4, 7, "d")] {
            assert_eq!(known.read(&other), None);
        }
        for length in 0..first.len() {
            assert_eq!(known.read(&first[..length]), None);
        }
        for place in (0..first.len()).filter(|place| !CORRELATION_ID.contains(place)) {
            let mut other = first.to_vec();
            other[place] ^= 1;
            assert_eq!(known.read(&other), None, "byte {place}");
        }
    }

    #[test]
    fn only_the_last_heartbeat_is_kept_and_no_long_one() {
        let mut known = known(&frame("m-1", 4, 1, "c"));
        let second = frame("m-22", 4, 1, "c");
        KnownHeartbeat::keep(&mut known, &decode_request(second.clone()).expect("a request"));
        let long = frame(&"m".repeat(LONGEST), 4, 1, "c");
        KnownHeartbeat::keep(&mut known, &decode_request(long.clone()).expect("a request"));
        let known = known.expect("a heartbeat");
        assert!(known.read(&second).is_some() && known.read(&long).is_none());
        assert!(known.read(&frame("m-1", 4, 1, "c")).is_none());
    }

    #[test]
    fn a_reply_is_the_reply_to_another_request_but_for_its_number() {
        let addresses = Addresses::alone(1, "here", 9092);
        for version in 0..=4 {
            let reply = || Reply::Heartbeat(reply::Heartbeat { error: None });
            let heads =
                [5, 77].map(|id| decode_request(frame("m", version, id, "c")).expect("a request").head);
            let [mut one, other] = heads.clone().map(|head| {
                encode_reply(&head, reply(), &addresses).into_chunks().flatten().collect::<Vec<u8>>()
            });
            assert_ne!(one, other);
            address_reply(&mut one, &heads[1]);
            assert_eq!(one, other);
        }
    }
}
