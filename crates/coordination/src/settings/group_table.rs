//! Every property of a group, in the order of their names, and the broker's properties that bound each.

use super::property::Property;

/// A property that a group can override.
#[derive(Debug, Clone, Copy)]
pub struct GroupProperty {
    /// The property as a group has it.
    pub property: Property,
    /// The broker's property that gives its value when the group does not.
    pub synonym: &'static str,
    /// The broker's property below which the value may not be.
    pub least: &'static str,
    /// The broker's property above which the value may not be.
    pub most: &'static str,
}

/// Every property of a group, in the order of their names. Kafka has more, for share and streams groups, which do not
/// exist here.
pub const GROUP_PROPERTIES: &[GroupProperty] = &[
    GroupProperty {
        property: Property::int(
            "consumer.assignment.interval.ms",
            "1000",
            "Least time between two assignments of the consumer group.",
        )
        .at_least(0)
        .dynamic()
        .without_effect(),
        synonym: "group.consumer.assignment.interval.ms",
        least: "group.consumer.min.assignment.interval.ms",
        most: "group.consumer.max.assignment.interval.ms",
    },
    GroupProperty {
        property: Property::int(
            "consumer.heartbeat.interval.ms",
            "5000",
            "Heartbeat interval told to members of the consumer group.",
        )
        .at_least(1)
        .dynamic()
        .without_effect(),
        synonym: "group.consumer.heartbeat.interval.ms",
        least: "group.consumer.min.heartbeat.interval.ms",
        most: "group.consumer.max.heartbeat.interval.ms",
    },
    GroupProperty {
        property: Property::int(
            "consumer.session.timeout.ms",
            "45000",
            "Session timeout of members of the consumer group.",
        )
        .at_least(1)
        .dynamic()
        .without_effect(),
        synonym: "group.consumer.session.timeout.ms",
        least: "group.consumer.min.session.timeout.ms",
        most: "group.consumer.max.session.timeout.ms",
    },
];
