//! One rule: who may, or may not, do what with which resource.

use serde::{Deserialize, Serialize};

/// Defines an enum with Kafka's numbers and names.
macro_rules! numbered {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $number:literal, $kafka:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[repr(i8)]
        pub enum $name {
            $($(#[$variant_doc])* $variant = $number,)*
        }

        impl $name {
            /// All of them, by number.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Kafka's number.
            pub const fn number(self) -> i8 {
                self as i8
            }

            /// The one with this number.
            pub const fn from_number(number: i8) -> Option<Self> {
                match number {
                    $($number => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// Kafka's name, as its tools write it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $kafka,)*
                }
            }
        }
    };
}

numbered! {
    /// What a rule can be about.
    ResourceType {
        /// A topic.
        Topic = 2, "TOPIC";
        /// A consumer group.
        Group = 3, "GROUP";
        /// The cluster; its name is [`Resource::CLUSTER`].
        Cluster = 4, "CLUSTER";
        /// A transactional id.
        TransactionalId = 5, "TRANSACTIONAL_ID";
        /// A delegation token. There are none; rules about them are kept.
        DelegationToken = 6, "DELEGATION_TOKEN";
        /// A user.
        User = 7, "USER";
    }
}

numbered! {
    /// How a rule's name is compared with a resource's.
    PatternType {
        /// It is the same, or `*`.
        Literal = 3, "LITERAL";
        /// The resource's name begins with it.
        Prefixed = 4, "PREFIXED";
    }
}

numbered! {
    /// What is done.
    Operation {
        /// Everything.
        All = 2, "ALL";
        /// Read.
        Read = 3, "READ";
        /// Write.
        Write = 4, "WRITE";
        /// Create.
        Create = 5, "CREATE";
        /// Delete.
        Delete = 6, "DELETE";
        /// Alter.
        Alter = 7, "ALTER";
        /// Describe.
        Describe = 8, "DESCRIBE";
        /// What brokers ask of each other.
        ClusterAction = 9, "CLUSTER_ACTION";
        /// See settings.
        DescribeConfigs = 10, "DESCRIBE_CONFIGS";
        /// Change settings.
        AlterConfigs = 11, "ALTER_CONFIGS";
        /// Produce with idempotence.
        IdempotentWrite = 12, "IDEMPOTENT_WRITE";
        /// Make tokens for users.
        CreateTokens = 13, "CREATE_TOKENS";
        /// See tokens of users.
        DescribeTokens = 14, "DESCRIBE_TOKENS";
        /// Two-phase commit.
        TwoPhaseCommit = 15, "TWO_PHASE_COMMIT";
    }
}

numbered! {
    /// What a rule says.
    Permission {
        /// No, whatever other rules say.
        Deny = 2, "DENY";
        /// Yes.
        Allow = 3, "ALLOW";
    }
}

/// What a rule is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Resource {
    /// The kind of thing.
    pub kind: ResourceType,
    /// Its name, or the beginning of it; a literal `*` is any.
    pub name: String,
    /// How the name is compared.
    pub pattern: PatternType,
}

impl Resource {
    /// The one name of the cluster.
    pub const CLUSTER: &str = "kafka-cluster";
    /// The literal name that stands for any.
    pub const ANY: &str = "*";
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Acl {
    /// What it is about.
    pub resource: Resource,
    /// Whom: `User:name`, or `User:*` for everybody.
    pub principal: String,
    /// From which address, or `*`.
    pub host: String,
    /// What is done.
    pub operation: Operation,
    /// Whether that is allowed or denied.
    pub permission: Permission,
}
