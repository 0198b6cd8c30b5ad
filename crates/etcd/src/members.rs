//! The members of the cluster, and which of them is asked.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout};
use tonic::Request;
use tonic::metadata::MetadataValue;
use tonic::transport::{Channel, Endpoint};

use crate::error::{Verdict, judge};
use crate::proto::etcdserverpb::StatusRequest;
use crate::proto::etcdserverpb::maintenance_client::MaintenanceClient;

/// How often the member in use has to show that it is alive.
const PROBE_INTERVAL: Duration = Duration::from_millis(500);

/// How long it may take for that.
const PROBE_LIMIT: Duration = Duration::from_millis(1500);

/// All members. One of them is in use by everybody, until it fails.
#[derive(Debug)]
pub(crate) struct Members {
    members: Vec<Arc<Member>>,
    in_use: AtomicUsize,
    has_changed: Arc<Notify>,
}

/// One member.
#[derive(Debug)]
pub(crate) struct Member {
    endpoint: Endpoint,
    channel: Mutex<Channel>,
    last_answer: Mutex<Instant>,
    /// Counts how often it was found to be silent.
    deaths: watch::Sender<u64>,
}

impl Members {
    /// Prepares connections. The member in use is looked after as long as the result is held.
    pub(crate) fn new(endpoints: Vec<Endpoint>) -> Arc<Self> {
        let members: Vec<_> = endpoints.into_iter().map(|endpoint| Arc::new(Member::new(endpoint))).collect();
        // Clients spread over the members, and each stays with its own.
        let in_use = AtomicUsize::new(rand::random_range(0..members.len().max(1)));
        let members = Arc::new(Self { members, in_use, has_changed: Arc::default() });
        // Without another to turn to, there is nothing to gain by knowing.
        if members.len() > 1 {
            tokio::spawn(look_after(Arc::downgrade(&members)));
        }
        members
    }

    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    /// The member to ask.
    pub(crate) fn in_use(&self) -> Arc<Member> {
        let index = self.in_use.load(Ordering::Relaxed) % self.members.len();
        Arc::clone(&self.members[index])
    }

    /// Turns to another member, unless someone has done so.
    pub(crate) fn leave(&self, member: &Arc<Member>) {
        let count = self.members.len();
        let Some(index) = self.members.iter().position(|it| Arc::ptr_eq(it, member)) else { return };
        let next = (index + 1) % count;
        let left = self.in_use.compare_exchange(index, next, Ordering::Relaxed, Ordering::Relaxed);
        if left.is_ok() && count > 1 {
            tracing::debug!(from = %member.name(), to = %self.members[next].name(), "turned to another etcd member");
            self.has_changed.notify_one();
        }
    }

    /// Where all members are, for messages.
    pub(crate) fn names(&self) -> Vec<String> {
        self.members.iter().map(|member| member.name()).collect()
    }
}

impl Member {
    fn new(endpoint: Endpoint) -> Self {
        let channel = Mutex::new(endpoint.connect_lazy());
        Self { endpoint, channel, last_answer: Mutex::new(Instant::now()), deaths: watch::Sender::new(0) }
    }

    /// Where it is, for messages.
    pub(crate) fn name(&self) -> String {
        let uri = self.endpoint.uri();
        uri.authority().map_or_else(|| uri.to_string(), |authority| authority.as_str().to_owned())
    }

    /// What to send requests by. Connects when it is first needed, and again after it broke.
    pub(crate) fn channel(&self) -> Channel {
        self.channel.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes that it is alive.
    pub(crate) fn has_answered(&self) {
        *self.last_answer.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Gives the connection up: a new one is made for the next request. One that leads nowhere would otherwise be used
    /// until the kernel gives it up, which takes many minutes.
    pub(crate) fn is_silent(&self) {
        *self.channel.lock().unwrap_or_else(PoisonError::into_inner) = self.endpoint.connect_lazy();
    }

    /// Ends when it is found to be silent from now on; never if nobody looks.
    pub(crate) fn death(&self) -> impl Future<Output = ()> + use<> {
        let mut deaths = self.deaths.subscribe();
        async move {
            if deaths.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    fn was_silent_for(&self) -> Duration {
        self.last_answer.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    /// Whether it answers and is in touch with the others.
    pub(crate) async fn is_well(&self, limit: Duration) -> bool {
        let request = with_leader(StatusRequest {});
        let mut client = MaintenanceClient::new(self.channel());
        match timeout(limit, client.status(request)).await {
            Ok(Ok(_)) => true,
            // A refusal is an answer: without a token this is one.
            Ok(Err(status)) => matches!(judge(&status), Verdict::StaleToken | Verdict::Final(_)),
            Err(_) => false,
        }
    }
}

/// A request that a member which is cut off from the others refuses at once.
pub(crate) fn with_leader<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
    request
}

/// Finds out that the member in use is silent before a request has to; ends with the last user.
async fn look_after(members: Weak<Members>) {
    loop {
        let Some(held) = members.upgrade() else { return };
        let member = held.in_use();
        if member.was_silent_for() > PROBE_INTERVAL {
            if member.is_well(PROBE_LIMIT).await {
                member.has_answered();
            } else {
                tracing::warn!(member = %member.name(), "an etcd member does not answer");
                held.leave(&member);
                member.is_silent();
                member.deaths.send_modify(|count| *count += 1);
            }
        }
        let has_changed = Arc::clone(&held.has_changed);
        drop(held);
        // Whether it is time or there is another member in use makes no difference.
        let _ = timeout(PROBE_INTERVAL, has_changed.notified()).await;
    }
}
