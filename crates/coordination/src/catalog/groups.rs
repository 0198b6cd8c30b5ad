//! What the catalog knows of groups: the topic they are kept in, and their own settings.

use std::collections::BTreeMap;

use super::{Catalog, Minted, TOPIC_NAME_OF_OFFSETS};
use crate::ids::OrgId;
use crate::record::{Record, Topic};
use crate::settings::GroupConfig;

impl Catalog {
    /// Makes the organisation's `__consumer_offsets` if it is not there, so that its groups have where to be kept.
    /// Takes the first of the minted topic ids.
    pub fn handle_start_of_groups(&self, org: OrgId, minted: Minted<'_>) -> Vec<Record> {
        let (None, Some(id)) = (self.topic_named(org, TOPIC_NAME_OF_OFFSETS), minted.topic_ids.first())
        else {
            return Vec::new();
        };
        let configs = [
            ("cleanup.policy", "compact".to_owned()),
            ("compression.type", "producer".to_owned()),
            ("segment.bytes", self.settings.offsets_topic_segment_bytes().to_string()),
        ];
        vec![Record::Topic(Topic {
            id: *id,
            org,
            name: TOPIC_NAME_OF_OFFSETS.to_owned(),
            partitions: self.settings.offsets_topic_partitions(),
            configs: configs.map(|(name, value)| (name.to_owned(), value)).into(),
            created_ms: minted.now_ms,
        })]
    }

    /// What the settings of this group come to, whether it exists or not.
    pub fn group_config(&self, org: OrgId, group: &str) -> GroupConfig {
        let none = BTreeMap::new();
        let own = self.group_configs.get(&(org, group.to_owned())).unwrap_or(&none);
        GroupConfig::new(own, &self.settings)
    }

    /// The groups of the organisation that have settings of their own, by name.
    pub fn groups_with_configs(&self, org: OrgId) -> impl Iterator<Item = &str> {
        let from = self.group_configs.range((org, String::new())..);
        from.take_while(move |((owner, _), _)| *owner == org).map(|((_, group), _)| group.as_str())
    }
}
