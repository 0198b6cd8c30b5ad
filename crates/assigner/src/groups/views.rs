//! What each consumer should know, as the latest value: a slow one misses steps in between, never the last one.

use std::sync::Arc;

use coordination::handoff::{ConsumerName, SessionId, View};
use etcd::LeaseId;
use tokio::sync::watch;

use super::{Group, GroupId, Groups};

/// What is known of one consumer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// What it should know.
    pub(crate) view: Arc<View>,
    /// The lease of its key; `None` if it is not registered.
    pub(crate) lease: Option<LeaseId>,
    /// The process that is registered under its name.
    pub(crate) session: Option<SessionId>,
}

/// The latest [`Seen`] of one consumer.
#[derive(Debug)]
pub(crate) struct ViewReceiver {
    groups: Groups,
    group: GroupId,
    consumer: ConsumerName,
    /// Taken when this is dropped.
    seen: Option<watch::Receiver<Seen>>,
}

impl ViewReceiver {
    pub(super) fn new(
        groups: Groups,
        group: GroupId,
        consumer: ConsumerName,
        seen: watch::Receiver<Seen>,
    ) -> Self {
        Self { groups, group, consumer, seen: Some(seen) }
    }

    /// The newest one; [`Self::changed`] waits for a newer one after this.
    pub(crate) fn latest(&mut self) -> Seen {
        self.seen.as_mut().map(|seen| seen.borrow_and_update().clone()).unwrap_or_default()
    }

    /// Waits until there is one that [`Self::latest`] has not returned. May be dropped while it waits.
    pub(crate) async fn changed(&mut self) {
        let changed = match &mut self.seen {
            Some(seen) => seen.changed().await.is_ok(),
            None => false,
        };
        if !changed {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for ViewReceiver {
    fn drop(&mut self) {
        let mut contents = self.groups.shared.contents.write();
        // Within the lock, so that the last of several is seen to be the last.
        drop(self.seen.take());
        contents.unwatch(&self.group, &self.consumer);
    }
}

impl Seen {
    pub(super) fn new(group: &Group, consumer: &ConsumerName, view: View) -> Self {
        let session = group.state.consumers.get(consumer).map(|stored| stored.value.session);
        Self { view: Arc::new(view), lease: group.leases.get(consumer).copied(), session }
    }
}
