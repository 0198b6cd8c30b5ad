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
        let own = self.own_group_configs(org, group).unwrap_or(&none);
        GroupConfig::new(own, &self.settings)
    }

    /// The groups of the organisation that have settings of their own, by name.
    pub fn groups_with_configs(&self, org: OrgId) -> impl Iterator<Item = &str> {
        self.group_configs.get(&org).into_iter().flat_map(|groups| groups.keys().map(String::as_str))
    }

    /// The settings that the group has of its own, if it has any.
    pub(super) fn own_group_configs(&self, org: OrgId, group: &str) -> Option<&BTreeMap<String, String>> {
        self.group_configs.get(&org)?.get(group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error_code::ErrorCode;
    use crate::limits::GROUP_CONFIGS_MAX;
    use crate::op::{self, ConfigChanges, ConfigResource};
    use crate::record::GroupConfigs;
    use crate::settings::Settings;

    #[test]
    fn the_settings_of_groups_are_bounded_for_each_organisation_by_itself() {
        let (name, value) = ("consumer.session.timeout.ms".to_owned(), "50000".to_owned());
        let configs = BTreeMap::from([(name.clone(), value.clone())]);
        let mut catalog = Catalog::new(Settings::default());
        for number in 1..GROUP_CONFIGS_MAX {
            let (org, group) = (OrgId::DEFAULT, number.to_string());
            catalog.apply(&Record::GroupConfigs(GroupConfigs { org, group, configs: configs.clone() }));
        }
        let change = |group: &str| {
            let resource = ConfigResource { resource_type: 32, name: group.to_owned() };
            (resource, ConfigChanges::Replace(vec![(name.clone(), Some(value.clone()))]))
        };
        let op = op::AlterConfigs {
            resources: vec![change("one-more"), change("1"), change("too-many")],
            validate_only: false,
        };
        let refused = |org| {
            let reply = catalog.handle_alter_configs(org, &op).reply;
            let codes = reply.resources.into_iter().map(|(_, error)| error.map(|refusal| refusal.code));
            codes.collect::<Vec<_>>()
        };
        assert_eq!(refused(OrgId::DEFAULT), [None, None, Some(ErrorCode::PolicyViolation)]);
        assert_eq!(refused(OrgId::from_u128(7)), [None; 3], "others are not in the way");
    }
}
