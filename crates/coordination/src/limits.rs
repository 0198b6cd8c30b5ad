//! The bounds of everything that can grow, each with the reason for its number.

/// The longest topic name, as in Kafka: with a partition number it still fits a file name.
pub const TOPIC_NAME_MAX: usize = 249;

/// How many partitions one topic may have. Each costs a few hundred bytes while idle, so this is where a typing
/// error ends and a plan begins.
pub const PARTITIONS_PER_TOPIC_MAX: i32 = 100_000;

/// How many partitions one request may create, as in Kafka: what one request starts stays within a moment's work.
pub const PARTITIONS_PER_REQUEST_MAX: i32 = 10_000;

/// How many bytes the settings of one topic or of the broker may have, names and values together: they are one
/// record, and nobody writes so many by hand.
pub const CONFIGS_BYTES_MAX: usize = 1 << 20;

/// How many partitions one page of DescribeTopicPartitions shows, as Kafka's `max.request.partition.size.limit`.
pub const DESCRIBED_PARTITIONS_MAX: u32 = 2_000;

/// How many fetch sessions the broker keeps, as Kafka's `max.incremental.fetch.session.cache.slots`; beyond it
/// the longest idle one goes if it has been idle for minutes, and a newcomer does without otherwise.
pub const FETCH_SESSIONS_MAX: usize = 1_000;

/// How many partitions all fetch sessions remember together. Each costs a few hundred bytes, and a client can name
/// partitions that do not exist; beyond this bound clients fetch without a session, which always works.
pub const FETCH_SESSION_PARTITIONS_MAX: usize = 1_000_000;

/// How many producer ids are reserved with one record, as in Kafka: a crash wastes at most this many.
pub const PRODUCER_ID_BLOCK: i64 = 1_000;

/// How many rebalances of one group are remembered: enough for the story of a bad night, little enough for a
/// hundred thousand groups.
pub const EVENTS_KEPT: usize = 32;

/// How many member ids one group may have given out that have not joined yet (KIP-394). Twice the members of the
/// largest groups we know may start at once; beyond it somebody only asks for ids.
pub const PENDING_MEMBERS_MAX: usize = 20_000;

/// How long a member that was just added may wait in its first join, as in Kafka: its client may be gone, and a
/// parked join would keep it alive for ever.
pub const NEW_MEMBER_JOIN_TIMEOUT_MS: u64 = 300_000;

/// How many bytes of assignments, old and new, are read to tell how many partitions a rebalance has moved: enough for
/// two hundred thousand partitions. Longer ones are carried all the same, but reading them would hold up other groups.
pub const READ_ASSIGNMENT_BYTES_MAX: usize = 2 << 20;

/// How many characters of a reason are kept in an event, as many as Kafka's clients send.
pub const REASON_CHARS_MAX: usize = 255;

/// The longest slug of a group: it fits a file name, a metric's label and a line of a table.
pub const SLUG_MAX: usize = 100;

/// How many groups of one organisation may have settings of their own. They need not exist, so that a loop could name any number.
pub const GROUP_CONFIGS_MAX: usize = 100_000;

/// The longest name of an organisation, as long as a word of a host name.
pub const ORG_NAME_MAX: usize = 63;

/// How many organisations there may be. Each has its own `__consumer_offsets`, whose partitions cost memory.
pub const ORGS_MAX: usize = 10_000;

/// The longest name of a user, in bytes: the subject of a certificate is the longest that occurs.
pub const USER_NAME_MAX: usize = 1_024;

/// How many users one organisation may have. Each is a record of half a kilobyte.
pub const USERS_PER_ORG_MAX: usize = 100_000;

/// The longest salt of a password, in bytes. Java's have 26.
pub const SALT_BYTES_MAX: usize = 1_024;

/// How many rules one organisation may have: as many as the largest Kafkas have, all of which are looked at in memory.
pub const ACLS_PER_ORG_MAX: usize = 100_000;

/// How many comparisons of a filter with a rule one request may ask for: about a second's worth, in which nothing else
/// of the catalog can change.
pub const ACL_COMPARISONS_MAX: usize = 20_000_000;

/// The longest name in a rule, in bytes; a user's with its type is the longest that can match.
pub const ACL_NAME_MAX: usize = 2_048;

/// How many gateways may ever have been allowed; each keeps its node id.
pub const GATEWAYS_MAX: usize = 10_000;

/// How many fenced processes of one consumer's name are known one by one. A process that crashes at its start and is
/// started anew at once comes to a few within a lease; what is beyond is waited for by the clock.
pub const PREDECESSORS_MAX: usize = 16;

/// How many fenced processes of one consumer's name are refused when they come back. One that was fenced longer ago than
/// so many others is not expected any more.
pub const FENCED_MAX: usize = 16;

/// The greatest capacity of a consumer and the greatest weight of a partition: within it, loads compare exactly. What
/// is greater counts as this.
pub const WEIGHT_MAX: u32 = 10_000;

/// How many topics one consumer may name; who works on more names none and gets all.
pub const TOPICS_PER_CONSUMER_MAX: usize = 1_000;

/// How many labels a consumer may have: people read them.
pub const LABELS_MAX: usize = 64;

/// The longest name and the longest value of a label, in bytes.
pub const LABEL_LENGTH_MAX: usize = 1_024;

/// The longest name of a rack, in bytes, as long as any other name.
pub const RACK_LENGTH_MAX: usize = 249;

/// How many partitions a consumer may say it is warm for: all of a large group.
pub const HOLDS_MAX: usize = 10_000;

/// How many bytes one value in etcd may have. Requests to etcd may have a half more, and carry other things beside.
pub const VALUE_BYTES_MAX: usize = 1 << 20;
