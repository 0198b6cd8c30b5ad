//! What a group's own settings come to, and how they are checked.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Settings;
use super::group_table::{GROUP_PROPERTIES, GroupProperty};
use super::property::Property;

const ASSIGNMENT: &str = "consumer.assignment.interval.ms";
const HEARTBEAT: &str = "consumer.heartbeat.interval.ms";
const SESSION: &str = "consumer.session.timeout.ms";

/// The settings of one consumer group (KIP-848), its own and the broker's for the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupConfig {
    /// Least time between two assignments.
    pub assignment_interval: Duration,
    /// Heartbeat interval told to members.
    pub heartbeat_interval: Duration,
    /// How long a member may be silent.
    pub session_timeout: Duration,
}

impl GroupConfig {
    /// What `overrides` come to. A value that was allowed once, and is beyond the broker's bounds now, counts as the
    /// bound.
    pub fn new(overrides: &BTreeMap<String, String>, settings: &Settings) -> Self {
        let millis = |name| {
            let group = group_property(name).expect("the table has all names");
            let value = value_of(group, overrides, settings);
            let (least, most) = (settings.int(group.least), settings.int(group.most));
            Duration::from_millis(u64::try_from(value.min(most).max(least)).unwrap_or(0))
        };
        Self {
            assignment_interval: millis(ASSIGNMENT),
            heartbeat_interval: millis(HEARTBEAT),
            session_timeout: millis(SESSION),
        }
    }
}

/// The group property of this name, as a property.
pub(crate) fn group_property_named(name: &str) -> Option<&'static Property> {
    group_property(name).map(|group| &group.property)
}

/// Checks the settings that a group would have of its own, in Kafka's words; gives them back as they are stored.
///
/// # Errors
/// A sentence for people, when a name is unknown or a value does not fit.
pub fn validate_group_configs(
    configs: &BTreeMap<String, String>,
    settings: &Settings,
) -> Result<BTreeMap<String, String>, String> {
    // A name that nobody knows counts before any value.
    if let Some(name) = configs.keys().find(|name| group_property(name).is_none()) {
        return Err(format!("Unknown group config name: {name}"));
    }
    let mut stored = BTreeMap::new();
    for group in GROUP_PROPERTIES {
        if let Some(value) = configs.get(group.property.name) {
            stored.insert(group.property.name.to_owned(), group.property.normalise(value)?);
        }
    }
    for name in [HEARTBEAT, SESSION, ASSIGNMENT] {
        let group = group_property(name).expect("the table has all names");
        // What the broker itself gives is the broker's business.
        if !stored.contains_key(name) {
            continue;
        }
        let value = value_of(group, &stored, settings);
        if value < settings.int(group.least) {
            return Err(format!("{name} must be greater than or equal to {}", group.least));
        }
        if value > settings.int(group.most) {
            return Err(format!("{name} must be less than or equal to {}", group.most));
        }
    }
    let own = |name| value_of(group_property(name).expect("the table has all names"), &stored, settings);
    if !stored.is_empty() && own(SESSION) <= own(HEARTBEAT) {
        return Err(format!("{SESSION} must be greater than {HEARTBEAT}"));
    }
    Ok(stored)
}

fn group_property(name: &str) -> Option<&'static GroupProperty> {
    GROUP_PROPERTIES.iter().find(|group| group.property.name == name)
}

fn value_of(group: &GroupProperty, overrides: &BTreeMap<String, String>, settings: &Settings) -> i32 {
    let own = overrides.get(group.property.name).and_then(|value| value.parse().ok());
    own.unwrap_or_else(|| settings.int(group.synonym))
}
