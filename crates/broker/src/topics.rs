//! The topics there are, as requests find them.
//!
//! The catalog in `admin` says which topics exist; it tells this map after its records are durable, live and in
//! recovery alike: [`Topics::put`] for a topic that is new, has grown or has other settings, [`Topics::remove`]
//! for one that is gone (the files go with [`LocalStore::remove_topic`], where blocking is allowed). Requests only
//! look here.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;

use coordination::ids::{OrgId, PartitionKey, TopicId};
use coordination::op::TopicRef;
use coordination::settings::TopicConfig;
use store::LocalStore;

use crate::partition::Partition;
use crate::share::{Share, Shares};

/// One topic as it stands. A change makes a new one; partitions and their logs are shared between the two.
#[derive(Debug)]
pub struct Topic {
    /// The topic's id.
    pub id: TopicId,
    /// The organisation that owns it.
    pub org: OrgId,
    /// Its name within the organisation.
    pub name: Arc<str>,
    /// Whether it is one of the broker's own, which clients may read and not write.
    pub internal: bool,
    /// What its settings come to.
    pub config: Arc<TopicConfig>,
    /// The partitions, by number.
    pub partitions: Vec<Arc<Partition>>,
    /// What the organisation may have.
    pub(crate) share: Arc<Share>,
}

impl Topic {
    /// The partition with this number, as clients write it.
    pub fn partition(&self, index: i32) -> Option<&Arc<Partition>> {
        self.partitions.get(usize::try_from(index).ok()?)
    }
}

/// What the catalog says of one topic.
#[derive(Debug, Clone)]
pub struct TopicSpec {
    /// The topic's id.
    pub id: TopicId,
    /// The organisation that owns it.
    pub org: OrgId,
    /// Its name within the organisation.
    pub name: Arc<str>,
    /// Whether it is one of the broker's own.
    pub internal: bool,
    /// How many partitions it has.
    pub partitions: u32,
    /// What its settings come to.
    pub config: TopicConfig,
}

/// The map of all topics.
#[derive(Debug)]
pub struct Topics {
    store: Arc<LocalStore>,
    maps: RwLock<Maps>,
    shares: Shares,
}

#[derive(Debug, Default)]
struct Maps {
    by_id: HashMap<TopicId, Arc<Topic>>,
    by_name: HashMap<OrgId, HashMap<Arc<str>, TopicId>>,
}

impl Topics {
    /// No topics yet; their partitions' logs are in `store`.
    pub fn new(store: Arc<LocalStore>) -> Self {
        Self { store, maps: RwLock::default(), shares: Shares::default() }
    }

    /// What the organisations may have.
    pub(crate) fn shares(&self) -> &Shares {
        &self.shares
    }

    /// The topic of this name.
    pub fn by_name(&self, org: OrgId, name: &str) -> Option<Arc<Topic>> {
        let maps = self.maps.read();
        let id = maps.by_name.get(&org)?.get(name)?;
        maps.by_id.get(id).cloned()
    }

    /// The topic with this id, if the organisation owns it.
    pub fn by_id(&self, org: OrgId, id: TopicId) -> Option<Arc<Topic>> {
        self.maps.read().by_id.get(&id).filter(|topic| topic.org == org).cloned()
    }

    /// The topic that a request names.
    pub fn find(&self, org: OrgId, topic: &TopicRef) -> Option<Arc<Topic>> {
        match topic {
            TopicRef::Name(name) => self.by_name(org, name),
            TopicRef::Id(id) => self.by_id(org, *id),
        }
    }

    /// The names of the organisation's topics, in no order.
    pub fn names(&self, org: OrgId) -> Vec<Arc<str>> {
        self.maps.read().by_name.get(&org).into_iter().flat_map(HashMap::keys).cloned().collect()
    }

    /// Every topic of every organisation, in no order.
    pub fn all(&self) -> Vec<Arc<Topic>> {
        self.maps.read().by_id.values().cloned().collect()
    }

    /// How many topics and partitions there are, besides the broker's own.
    pub fn count(&self) -> (usize, usize) {
        let maps = self.maps.read();
        let users = || maps.by_id.values().filter(|topic| !topic.internal);
        (users().count(), users().map(|topic| topic.partitions.len()).sum())
    }

    /// Makes the topic be as `spec` says. Partitions it has already stay the same ones. One call at a time.
    pub fn put(&self, spec: TopicSpec) -> Arc<Topic> {
        let config = Arc::new(spec.config);
        // Requests go on looking while the partitions of a large topic are made.
        let known = self.maps.read().by_id.get(&spec.id).cloned();
        let mut partitions = known.map_or_else(Vec::new, |topic| topic.partitions.clone());
        for partition in &partitions {
            partition.configure(&config);
        }
        for number in u32::try_from(partitions.len()).unwrap_or(u32::MAX)..spec.partitions {
            let log = self.store.partition(PartitionKey { topic: spec.id, partition: number });
            partitions.push(Arc::new(Partition::new(log, &config)));
        }
        let topic = Arc::new(Topic {
            id: spec.id,
            org: spec.org,
            name: spec.name,
            internal: spec.internal,
            config,
            partitions,
            share: self.shares.of(spec.org),
        });
        let mut maps = self.maps.write();
        maps.by_name.entry(topic.org).or_default().insert(topic.name.clone(), topic.id);
        maps.by_id.insert(topic.id, topic.clone());
        topic
    }

    /// Forgets the topic and tells whoever waits on its partitions; gives back what there was.
    pub fn remove(&self, id: TopicId) -> Option<Arc<Topic>> {
        let topic = {
            let mut maps = self.maps.write();
            let topic = maps.by_id.remove(&id)?;
            if let Some(names) = maps.by_name.get_mut(&topic.org) {
                // The name may belong to a younger topic by now.
                if names.get(&topic.name) == Some(&id) {
                    names.remove(&topic.name);
                }
                if names.is_empty() {
                    maps.by_name.remove(&topic.org);
                }
            }
            topic
        };
        for partition in &topic.partitions {
            partition.close();
        }
        Some(topic)
    }
}
