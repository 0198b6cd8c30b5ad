//! The settings that decide how groups behave.

use std::time::Duration;

/// Settings of all groups. Names in brackets are those of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSettings {
    /// The shortest session timeout that a member may ask for (`group.min.session.timeout.ms`).
    pub session_timeout_min: Duration,
    /// The longest session timeout that a member may ask for (`group.max.session.timeout.ms`).
    pub session_timeout_max: Duration,
    /// How many members a group may have (`group.max.size`).
    pub members_max: usize,
    /// How long the first join phase of an empty group lasts at most (`group.initial.rebalance.delay.ms`); zero
    /// ends it at once.
    pub initial_rebalance_delay: Duration,
    /// The first join phase ends early when nobody has arrived for this long
    /// (`kohort.initial.rebalance.quiet.ms`). Zero waits as Kafka does: the whole delay, and once more for as long
    /// as members keep arriving.
    pub initial_rebalance_quiet: Duration,
    /// The longest metadata of a committed offset, in UTF-16 units (`offset.metadata.max.bytes`).
    pub offset_metadata_max: usize,
    /// How long offsets are kept that nobody uses (`offsets.retention.minutes`).
    pub offsets_retention: Duration,
}

impl Default for GroupSettings {
    fn default() -> Self {
        Self {
            session_timeout_min: Duration::from_secs(6),
            session_timeout_max: Duration::from_secs(1_800),
            members_max: 2_147_483_647,
            initial_rebalance_delay: Duration::from_secs(3),
            initial_rebalance_quiet: Duration::from_millis(100),
            offset_metadata_max: 4_096,
            offsets_retention: Duration::from_secs(10_080 * 60),
        }
    }
}
