//! How the catalog changes: decided, durable, applied, told.

use std::sync::Arc;

use coordination::catalog::{Catalog, Decision, Minted};
use coordination::error_code::ErrorCode;
use coordination::ids::{OrgId, TopicId};
use coordination::record::Record;
use ulid::Ulid;

use super::{Admin, RecordLogError, cluster_id, spec};
use crate::now_ms;

impl Admin {
    /// Has the catalog decide, makes that durable, and gives back the reply once it is true.
    ///
    /// It is carried out to the end even if nobody waits for it any more: between the log and the catalog there
    /// is no way back.
    ///
    /// # Errors
    /// When the store did not take the records; nothing has changed then.
    pub(super) async fn change<R: Send + 'static>(
        self: &Arc<Self>,
        decide: impl FnOnce(&Catalog, i64) -> Decision<R> + Send + 'static,
    ) -> Result<R, ErrorCode> {
        let admin = Arc::clone(self);
        let change = self.runtime.spawn(async move {
            let mut log = admin.records.lock().await;
            let now_ms = now_ms();
            let Decision { records, reply } = decide(&admin.catalog.read(), now_ms);
            log.append(&records, now_ms).await?;
            let deleted = admin.apply(&records);
            drop(log);
            admin.remove_from_disk(deleted).await;
            Ok::<R, RecordLogError>(reply)
        });
        match change.await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(error)) => {
                let error = &error as &dyn std::error::Error;
                tracing::error!(error, "a change of the catalog could not be stored");
                Err(ErrorCode::KafkaStorageError)
            }
            Err(error) => {
                tracing::error!(%error, "a change of the catalog was not carried out");
                Err(ErrorCode::UnknownServerError)
            }
        }
    }

    /// As [`Self::change`], on behalf of a client of `org`. Its organisation may have been deleted while it was
    /// connected, and must not come to have anything again.
    ///
    /// # Errors
    /// As [`Self::change`], and CLUSTER_AUTHORIZATION_FAILED when there is no such organisation.
    pub(super) async fn change_in<R: Send + 'static>(
        self: &Arc<Self>,
        org: OrgId,
        decide: impl FnOnce(&Catalog, i64) -> Decision<R> + Send + 'static,
    ) -> Result<R, ErrorCode> {
        let changed = self.change(move |catalog, now_ms| match catalog.org(org) {
            Some(_) => {
                let Decision { records, reply } = decide(catalog, now_ms);
                Decision { records, reply: Some(reply) }
            }
            None => Decision { records: Vec::new(), reply: None },
        });
        changed.await?.ok_or(ErrorCode::ClusterAuthorizationFailed)
    }

    /// Gives a new data directory its cluster id.
    ///
    /// # Errors
    /// When the store does not take it.
    pub async fn ensure_cluster_id(self: &Arc<Self>) -> Result<(), ErrorCode> {
        if self.look(|catalog| catalog.cluster_id().is_some()) {
            return Ok(());
        }
        let minted = cluster_id::mint(rand::random());
        self.change(move |catalog, _| Decision { records: catalog.handle_first_start(&minted), reply: () })
            .await
    }

    /// Gives an organisation its `__consumer_offsets`, unless it has one.
    ///
    /// Kafka makes it when the first group is looked for, and answers 15 and 16 meanwhile; here it is there before
    /// anybody asks.
    ///
    /// # Errors
    /// When the store does not take it.
    pub async fn ensure_offsets_topic(self: &Arc<Self>, org: OrgId) -> Result<(), ErrorCode> {
        let ids = mint_topic_ids(1);
        self.change(move |catalog, now_ms| {
            let records = catalog.handle_start_of_groups(org, Minted { now_ms, topic_ids: &ids });
            Decision { records, reply: () }
        })
        .await
    }

    /// Makes the records true of the catalog and tells the follower; gives back the topics that are gone.
    ///
    /// Whoever learns of a topic from the catalog can use it at once: the follower knows it before the catalog
    /// shows it, and as long as the catalog does.
    fn apply(&self, records: &[Record]) -> Vec<TopicId> {
        let mut deleted = Vec::new();
        for record in records {
            match record {
                Record::Topic(topic) => {
                    let spec = spec(&self.catalog.read(), topic);
                    self.follower.put(spec);
                    self.catalog.write().apply(record);
                }
                Record::TopicDeleted(id) => {
                    self.catalog.write().apply(record);
                    self.follower.remove(*id);
                    deleted.push(*id);
                }
                Record::BrokerConfigs(_) => {
                    self.catalog.write().apply(record);
                    let (settings, specs) = self.look(|catalog| {
                        let specs: Vec<_> = catalog.topics().map(|topic| spec(catalog, topic)).collect();
                        (catalog.settings().clone(), specs)
                    });
                    self.follower.reconfigure(&settings);
                    for spec in specs {
                        self.follower.put(spec);
                    }
                }
                Record::Org(org) => {
                    self.follower.put_org(org);
                    self.catalog.write().apply(record);
                }
                Record::OrgDeleted(org) => {
                    self.catalog.write().apply(record);
                    self.follower.remove_org(*org);
                }
                Record::ProducerIds { .. }
                | Record::Cluster { .. }
                | Record::GroupConfigs(_)
                | Record::User(_)
                | Record::UserDeleted { .. }
                | Record::Acl { .. }
                | Record::AclDeleted { .. }
                | Record::Gateway(_)
                | Record::DecoySecret { .. } => {
                    self.catalog.write().apply(record);
                }
            }
        }
        deleted
    }

    async fn remove_from_disk(&self, topics: Vec<TopicId>) {
        if topics.is_empty() {
            return;
        }
        let store = Arc::clone(&self.store);
        let removal = tokio::task::spawn_blocking(move || {
            for topic in topics {
                if let Err(error) = store.remove_topic(topic) {
                    tracing::warn!(%topic, %error, "a deleted topic's files could not be removed; the next start will");
                }
            }
        });
        // A panic there is logged by the runtime's hook, and the next start removes what is left.
        let _ = removal.await;
    }
}

/// Ids for as many topics.
pub(super) fn mint_topic_ids(count: usize) -> Vec<TopicId> {
    let now = u64::try_from(now_ms()).unwrap_or(0);
    (0..count).map(|_| Ulid::from_parts(now, rand::random()).into()).collect()
}
