//! Telling good replies from bad ones without decoding each.

use std::fmt;

use anyhow::{Context, Result};
use bytes::Bytes;
use wire::{RequestMessage, decode_response};

/// Knows a good reply by its bytes. One that differs is decoded and judged, and known from then on if it is good.
pub(crate) struct ReplyCheck<R: RequestMessage> {
    version: i16,
    judge: Judge<R::Response>,
    /// The last good reply without its correlation id.
    good: Vec<u8>,
}

/// Fails when a reply is not what was asked for.
type Judge<T> = Box<dyn Fn(&T) -> Result<()> + Send>;

impl<R: RequestMessage> fmt::Debug for ReplyCheck<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplyCheck").field("version", &self.version).finish_non_exhaustive()
    }
}

impl<R: RequestMessage> ReplyCheck<R> {
    pub(crate) fn new(version: i16, judge: impl Fn(&R::Response) -> Result<()> + Send + 'static) -> Self {
        Self { version, judge: Box::new(judge), good: Vec::new() }
    }

    /// The correlation id of a good reply.
    #[inline]
    pub(crate) fn check(&mut self, frame: &[u8]) -> Result<i32> {
        let (id, rest) = frame.split_first_chunk::<4>().context("a reply without an id")?;
        if rest != self.good || self.good.is_empty() {
            let (_, response) = decode_response::<R>(Bytes::copy_from_slice(frame), self.version)
                .with_context(|| format!("read the answer to {}", R::API.name()))?;
            (self.judge)(&response)?;
            self.good = rest.to_vec();
        }
        Ok(i32::from_be_bytes(*id))
    }
}

#[cfg(test)]
mod tests {
    use wire::AnyResponse;
    use wire::api::heartbeat::{HeartbeatRequest, HeartbeatResponse};

    use super::*;
    use crate::dialogue::accepted;

    #[test]
    fn a_bad_reply_is_noticed_among_good_ones() {
        let reply = |id: i32, throttle_time_ms: i32, error_code: i16| {
            let body = AnyResponse::Heartbeat(HeartbeatResponse { throttle_time_ms, error_code });
            wire::encode_any_response(4, id, &body).into_bytes().slice(4..)
        };
        let judge = |response: &HeartbeatResponse| accepted(response.error_code, "Heartbeat");
        let mut check = ReplyCheck::<HeartbeatRequest>::new(4, judge);
        assert_eq!(check.check(&reply(1, 0, 0)).expect("good"), 1);
        assert_eq!(check.check(&reply(2, 0, 0)).expect("good"), 2);
        let error = check.check(&reply(3, 0, 25)).expect_err("bad").to_string();
        assert_eq!(error, "Heartbeat got UNKNOWN_MEMBER_ID (25)");
        assert_eq!(check.check(&reply(4, 7, 0)).expect("throttled but good"), 4);
        assert!(check.check(&reply(5, 0, 0)[..7]).is_err());
    }
}
