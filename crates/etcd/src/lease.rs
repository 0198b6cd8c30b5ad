//! Leases: keys that go when nobody renews them.

use std::time::Duration;

use tonic::Status;
use tonic::codegen::tokio_stream;

use crate::client::Repeat;
use crate::proto::etcdserverpb::lease_client::LeaseClient;
use crate::proto::etcdserverpb::{LeaseGrantRequest, LeaseKeepAliveRequest, LeaseRevokeRequest};
use crate::{Etcd, EtcdError};

/// A lease.
pub type LeaseId = i64;

impl Etcd {
    /// A new lease. It lasts for whole seconds, and not less than etcd's own minimum.
    ///
    /// # Errors
    /// When etcd does not answer in time.
    pub async fn grant(&self, ttl: Duration) -> Result<LeaseId, EtcdError> {
        // With an id of our own, asking twice grants once.
        let id = rand::random_range(1..=LeaseId::MAX);
        let request = LeaseGrantRequest { id, ttl: whole_seconds(ttl) };
        let granted = self
            .call(Repeat::Harmless, request, |channel, request| async move {
                LeaseClient::new(channel).lease_grant(request).await
            })
            .await;
        match granted {
            Ok(answer) => {
                let answer = answer.into_inner();
                self.saw(answer.header.as_ref());
                if answer.error.is_empty() { Ok(answer.id) } else { Err(EtcdError::Refused(answer.error)) }
            }
            Err(EtcdError::Refused(reason)) if reason.contains("lease already exists") => Ok(id),
            Err(error) => Err(error),
        }
    }

    /// Renews a lease once and says how long it lasts now; `None` if there is no such lease any more.
    ///
    /// # Errors
    /// When etcd does not answer in time.
    pub async fn keep_alive(&self, lease: LeaseId) -> Result<Option<Duration>, EtcdError> {
        let request = LeaseKeepAliveRequest { id: lease };
        let renewed = self
            .call(Repeat::Harmless, request, |channel, request| async move {
                let (metadata, extensions, message) = request.into_parts();
                let messages = tokio_stream::once(message);
                let request = tonic::Request::from_parts(metadata, extensions, messages);
                let mut answers = LeaseClient::new(channel).lease_keep_alive(request).await?.into_inner();
                let ended = || Status::unavailable("the stream ended without an answer");
                answers.message().await?.ok_or_else(ended)
            })
            .await;
        match renewed {
            Ok(answer) => Ok(u64::try_from(answer.ttl).ok().filter(|ttl| *ttl > 0).map(Duration::from_secs)),
            Err(EtcdError::LeaseGone) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Ends a lease, and with it the keys that live by it. It is no error if it has ended before.
    ///
    /// # Errors
    /// When etcd does not answer in time.
    pub async fn revoke(&self, lease: LeaseId) -> Result<(), EtcdError> {
        let revoked = self
            .call(Repeat::Harmless, LeaseRevokeRequest { id: lease }, |channel, request| async move {
                LeaseClient::new(channel).lease_revoke(request).await
            })
            .await;
        match revoked {
            Ok(answer) => {
                self.saw(answer.into_inner().header.as_ref());
                Ok(())
            }
            Err(EtcdError::LeaseGone) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn whole_seconds(ttl: Duration) -> i64 {
    let seconds = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
    i64::try_from(seconds.max(1)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_lasts_at_least_as_long_as_was_asked() {
        assert_eq!(whole_seconds(Duration::ZERO), 1);
        assert_eq!(whole_seconds(Duration::from_millis(2001)), 3);
        assert_eq!(whole_seconds(Duration::from_secs(30)), 30);
    }
}
