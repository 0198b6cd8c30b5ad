//! A consumer that is registered with an assigner.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use assigner_client::proto::{
    AssignmentCommand, DeregisterRequest, KeepAliveRequest, RegisterRequest, TopicPartition,
};
use coordination::handoff::SessionId;
use tokio::task::AbortHandle;
use tokio::time::sleep_until;
use tonic::Streaming;

use crate::assigner::{Assigner, Client};
use crate::ledger::Who;

/// The contract with sessions, KeepAlive and Cancel.
const PROTOCOL_VERSION: u32 = 2;

/// How often a consumer says that it lives if it was not told how often.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// Where partitions are handed over.
#[derive(Clone, Debug)]
pub(crate) struct Stage {
    pub(crate) group: String,
    pub(crate) topic: String,
    /// How long anything may take.
    pub(crate) patience: Duration,
}

/// A consumer that is registered.
#[derive(Debug)]
pub(crate) struct Consumer {
    pub(crate) name: &'static str,
    /// This process and this registration.
    pub(crate) session: String,
    /// What it is told.
    pub(crate) commands: Streaming<AssignmentCommand>,
    /// Ends what says that it lives.
    pub(crate) keep_alive: Option<AbortHandle>,
}

impl Consumer {
    /// Registers; what it is told comes through `commands`.
    pub(crate) async fn register(assigner: &Assigner, stage: &Stage, who: Who) -> Result<Self> {
        let name = match who {
            Who::Resident => "bench-resident",
            Who::Newcomer => "bench-newcomer",
        };
        let session = session();
        let request = RegisterRequest {
            consumer_name: name.to_owned(),
            topic: stage.topic.clone(),
            group: stage.group.clone(),
            protocol_version: PROTOCOL_VERSION,
            session: session.clone(),
            ..Default::default()
        };
        let commands = assigner.client().register(request).await.context("Register")?.into_inner();
        Ok(Self { name, session, commands, keep_alive: None })
    }

    /// Ends what says that it lives.
    pub(crate) fn be_silent(&mut self) {
        if let Some(task) = self.keep_alive.take() {
            task.abort();
        }
    }

    /// Says that it has stopped.
    pub(crate) async fn deregister(&self, assigner: &Assigner, stage: &Stage) -> Result<()> {
        let request = DeregisterRequest {
            consumer_name: self.name.to_owned(),
            group: stage.group.clone(),
            session: self.session.clone(),
            has_stopped: true,
        };
        assigner.client().deregister(request).await.context("Deregister")?;
        Ok(())
    }
}

impl Stage {
    pub(crate) fn place(&self, partition: u32) -> TopicPartition {
        TopicPartition { topic: self.topic.clone(), partition }
    }
}

/// Says that the consumer lives, for ever.
pub(crate) async fn keep_alive(
    mut client: Client,
    request: KeepAliveRequest,
    interval: Duration,
) -> Result<()> {
    let mut next = tokio::time::Instant::now();
    loop {
        next += interval;
        sleep_until(next).await;
        client.keep_alive(request.clone()).await.context("KeepAlive")?;
    }
}

/// Not the session of any other process or round: 26 characters of a ULID.
fn session() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let random = u128::from(std::process::id()) << 48 | u128::from(NEXT.fetch_add(1, Ordering::Relaxed));
    let id = SessionId::from_u128(since.as_millis() << 80 | random);
    id.to_string().trim_start_matches("ses_").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_sessions_are_the_same() {
        let (one, other) = (session(), session());
        assert_ne!(one, other);
        assert_eq!((one.len(), other.len()), (26, 26));
    }
}
