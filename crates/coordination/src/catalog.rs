//! The catalog: which topics there are, how they and the broker are set up, and what else must outlive a restart.
//!
//! The catalog is asked and answers with records; nothing changes until they are applied. Its driver makes the
//! records durable, calls [`Catalog::apply`] with each, and only then lets the reply go. Recovery calls `apply`
//! with the same records in the same order, and has the same catalog.

mod acls;
mod alter_configs;
mod create_partitions;
mod create_topics;
mod delete_topics;
mod describe_configs;
mod describe_topics;
mod gateways;
mod groups;
mod orgs;
mod scram;
mod topic_name;
mod users;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::access::Rules;
use crate::error_code::ErrorCode;
use crate::ids::{OrgId, TopicId};
use crate::limits::{CONFIGS_BYTES_MAX, PRODUCER_ID_BLOCK};
use crate::op::TopicRef;
use crate::record::{BrokerConfigs, Gateway, GroupConfigs, Org, OrgLimits, Record, Topic, User};
use crate::reply::Refusal;
use crate::settings::{Layer, Settings, TopicConfig};

pub use describe_topics::LEADER_EPOCH;
pub use orgs::{AdminError, NewOrg, ORG_NAME_OF_DEFAULT, check_org_name, unknown_limit};
pub use topic_name::{TOPIC_NAME_OF_OFFSETS, TOPIC_NAME_OF_RECORDS, check_topic_name, is_internal};
pub use users::{MintedUser, SCRAM_ITERATIONS, ScramCredentials, check_user_name};

/// What one request asks of the world and gets: the records must be durable and applied before the reply goes.
#[derive(Clone, Debug, PartialEq)]
#[must_use = "a decision that is not carried out is a reply that lies"]
pub struct Decision<R> {
    /// What becomes true.
    pub records: Vec<Record>,
    /// What the client is told once it is.
    pub reply: R,
}

/// What the machine cannot make up by itself: the time, and an id for every topic that may come to be.
#[derive(Clone, Copy, Debug)]
pub struct Minted<'a> {
    /// Milliseconds since 1970.
    pub now_ms: i64,
    /// At least as many as there are topics in the request.
    pub topic_ids: &'a [TopicId],
}

/// All topics of all organisations, and what else the broker must not forget.
#[derive(Clone, Debug, PartialEq)]
pub struct Catalog {
    /// As the broker was started.
    started_with: Settings,
    /// The same, with what has been set since then.
    settings: Settings,
    broker_configs: BrokerConfigs,
    cluster_id: Option<String>,
    next_producer_id: i64,
    topics: BTreeMap<TopicId, Topic>,
    names: BTreeMap<OrgId, Names>,
    /// The settings that groups have of their own, by organisation and name; never empty ones.
    group_configs: BTreeMap<OrgId, BTreeMap<String, BTreeMap<String, String>>>,
    orgs: BTreeMap<OrgId, Org>,
    org_names: BTreeMap<String, OrgId>,
    /// By organisation and name; never an empty map of names.
    users: BTreeMap<OrgId, BTreeMap<String, User>>,
    /// Never empty ones.
    rules: BTreeMap<OrgId, Rules>,
    /// What an organisation without rules has.
    no_rules: Rules,
    /// By endpoint id.
    gateways: BTreeMap<String, Gateway>,
    /// What the salts of users that do not exist are made from, once there are users.
    decoy_secret: Option<Vec<u8>>,
}

/// The names that one organisation uses.
#[derive(Clone, Debug, Default, PartialEq)]
struct Names {
    ids: BTreeMap<String, TopicId>,
    /// Names that have a `.` or `_`, under what they become when both are written `_`: two topics that differ
    /// only there would share a metric's name.
    unified: BTreeMap<String, BTreeSet<String>>,
}

impl Catalog {
    /// A catalog without topics, of a broker started with these settings.
    pub fn new(settings: Settings) -> Self {
        let name = ORG_NAME_OF_DEFAULT.to_owned();
        let default =
            Org { id: OrgId::DEFAULT, name: name.clone(), limits: OrgLimits::default(), created_ms: 0 };
        Self {
            settings: settings.clone(),
            started_with: settings,
            broker_configs: BrokerConfigs::default(),
            cluster_id: None,
            next_producer_id: 0,
            topics: BTreeMap::new(),
            names: BTreeMap::new(),
            group_configs: BTreeMap::new(),
            orgs: BTreeMap::from([(default.id, default)]),
            org_names: BTreeMap::from([(name, OrgId::DEFAULT)]),
            users: BTreeMap::new(),
            rules: BTreeMap::new(),
            no_rules: Rules::new(),
            gateways: BTreeMap::new(),
            decoy_secret: None,
        }
    }

    /// Makes `record` true.
    ///
    /// Nothing else changes the catalog, because recovery has nothing else to go by. A record of `__kohort` may
    /// meet a catalog that never saw the ones that led to it: compaction has taken them.
    pub fn apply(&mut self, record: &Record) {
        match record {
            Record::Topic(topic) => {
                self.forget_name(topic.id);
                self.names.entry(topic.org).or_default().insert(&topic.name, topic.id);
                self.topics.insert(topic.id, topic.clone());
            }
            Record::TopicDeleted(id) => {
                self.forget_name(*id);
                self.topics.remove(id);
            }
            Record::ProducerIds { next } => self.next_producer_id = *next,
            Record::Cluster { id } => self.cluster_id = Some(id.clone()),
            Record::GroupConfigs(GroupConfigs { org, group, configs }) => {
                let groups = self.group_configs.entry(*org).or_default();
                if configs.is_empty() {
                    groups.remove(group);
                } else {
                    groups.insert(group.clone(), configs.clone());
                }
                if groups.is_empty() {
                    self.group_configs.remove(org);
                }
            }
            Record::BrokerConfigs(configs) => {
                self.broker_configs = configs.clone();
                self.settings = self.started_with.clone();
                let layers = [(Layer::DynamicDefault, &configs.all), (Layer::DynamicBroker, &configs.own)];
                for (layer, configs) in layers {
                    for (name, value) in configs {
                        // As in Kafka, what nobody knows may be stored; it then means nothing.
                        let _ = self.settings.set(layer, name, value);
                    }
                }
            }
            Record::Org(org) => {
                self.forget_org(org.id);
                self.org_names.insert(org.name.clone(), org.id);
                self.orgs.insert(org.id, org.clone());
            }
            Record::OrgDeleted(id) => self.forget_org(*id),
            Record::User(user) => {
                self.users.entry(user.org).or_default().insert(user.name.clone(), user.clone());
            }
            Record::UserDeleted { org, name } => {
                if let Some(users) = self.users.get_mut(org) {
                    users.remove(name);
                    if users.is_empty() {
                        self.users.remove(org);
                    }
                }
            }
            Record::Acl { org, acl } => {
                self.rules.entry(*org).or_default().insert(acl.clone());
            }
            Record::AclDeleted { org, acl } => {
                if let Some(rules) = self.rules.get_mut(org) {
                    rules.remove(acl);
                    if rules.is_empty() {
                        self.rules.remove(org);
                    }
                }
            }
            Record::Gateway(gateway) => {
                self.gateways.insert(gateway.endpoint_id.clone(), gateway.clone());
            }
            Record::DecoySecret { secret } => self.decoy_secret = Some(secret.clone()),
        }
    }

    /// The settings that hold now.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The cluster's id; `None` until [`Self::handle_first_start`] has given it one.
    pub fn cluster_id(&self) -> Option<&str> {
        self.cluster_id.as_deref()
    }

    /// The topic that a request of this organisation names.
    pub fn topic(&self, org: OrgId, topic: &TopicRef) -> Option<&Topic> {
        match topic {
            TopicRef::Name(name) => self.topic_named(org, name),
            TopicRef::Id(id) => self.topics.get(id).filter(|topic| topic.org == org),
        }
    }

    /// The topic of this name.
    pub fn topic_named(&self, org: OrgId, name: &str) -> Option<&Topic> {
        self.topics.get(self.names.get(&org)?.ids.get(name)?)
    }

    /// The topics of one organisation, by name.
    pub fn topics_of(&self, org: OrgId) -> impl Iterator<Item = &Topic> {
        let ids = self.names.get(&org).into_iter().flat_map(|names| names.ids.values());
        ids.filter_map(|id| self.topics.get(id))
    }

    /// Every topic of every organisation, by id.
    pub fn topics(&self) -> impl Iterator<Item = &Topic> {
        self.topics.values()
    }

    /// What the topic's settings come to.
    pub fn topic_config(&self, topic: &Topic) -> TopicConfig {
        TopicConfig::new(&topic.configs, &self.settings)
    }

    /// Gives a catalog that has none its cluster id.
    pub fn handle_first_start(&self, cluster_id: &str) -> Vec<Record> {
        match self.cluster_id {
            Some(_) => Vec::new(),
            None => vec![Record::Cluster { id: cluster_id.to_owned() }],
        }
    }

    /// Sets producer ids aside. They may be given out once the record is applied, and never come again.
    pub fn handle_producer_ids(&self) -> Decision<Range<i64>> {
        let end = self.next_producer_id.saturating_add(PRODUCER_ID_BLOCK);
        Decision { records: vec![Record::ProducerIds { next: end }], reply: self.next_producer_id..end }
    }

    fn forget_org(&mut self, id: OrgId) {
        if let Some(org) = self.orgs.remove(&id) {
            self.org_names.remove(&org.name);
        }
    }

    fn forget_name(&mut self, id: TopicId) {
        let Some(topic) = self.topics.get(&id) else { return };
        let Some(names) = self.names.get_mut(&topic.org) else { return };
        names.remove(&topic.name, id);
        if names.ids.is_empty() {
            self.names.remove(&topic.org);
        }
    }

    /// A topic of the organisation whose name differs only by `.` and `_`.
    fn colliding(&self, org: OrgId, name: &str) -> Option<&str> {
        let unified = &self.names.get(&org)?.unified;
        unified.get(&topic_name::unify(name)?)?.first().map(String::as_str)
    }
}

impl Names {
    fn insert(&mut self, name: &str, id: TopicId) {
        self.ids.insert(name.to_owned(), id);
        if let Some(unified) = topic_name::unify(name) {
            self.unified.entry(unified).or_default().insert(name.to_owned());
        }
    }

    /// Frees the name, unless a younger topic has it by now.
    fn remove(&mut self, name: &str, id: TopicId) {
        if self.ids.get(name) != Some(&id) {
            return;
        }
        self.ids.remove(name);
        let Some(unified) = topic_name::unify(name) else { return };
        if let Some(names) = self.unified.get_mut(&unified) {
            names.remove(name);
            if names.is_empty() {
                self.unified.remove(&unified);
            }
        }
    }
}

/// What occurs more than once.
fn repeated<T: Ord + Clone>(items: impl Iterator<Item = T>) -> BTreeSet<T> {
    let mut seen = BTreeSet::new();
    items.filter(|item| !seen.insert(item.clone())).collect()
}

/// Whether settings are few and short enough to be stored.
fn check_size(configs: &BTreeMap<String, String>) -> Result<(), Refusal> {
    let bytes: usize = configs.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes <= CONFIGS_BYTES_MAX {
        return Ok(());
    }
    let message = format!("Settings of {bytes} bytes are more than the {CONFIGS_BYTES_MAX} that are kept.");
    Err(Refusal::new(ErrorCode::InvalidConfig, message))
}
