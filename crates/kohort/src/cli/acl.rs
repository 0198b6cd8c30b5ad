//! What can be typed after `kohort acl`.

use clap::{ArgGroup, Args, Subcommand};

use super::ClientArgs;

const ACL_EXAMPLES: &str = "\
Examples:
  kohort acl add --allow-principal User:alice --consumer --topic orders --group billing
  kohort acl add --allow-principal User:alice --producer --topic orders
  kohort acl add --deny-principal User:bob --deny-host 10.0.0.7 --operation all --topic '*'
  kohort acl add --allow-principal User:alice --operation write,describe --topic app. \\
    --resource-pattern-type prefixed
  kohort acl list --topic orders --resource-pattern-type match
  kohort acl remove --allow-principal User:alice --topic orders

They work with any Kafka that has an authorizer; in Kohort it is switched on by
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer.";

/// What can be done with ACLs.
#[derive(Debug, Subcommand)]
#[command(after_help = ACL_EXAMPLES)]
pub(crate) enum AclCommand {
    /// Allow or deny
    #[command(group = ArgGroup::new("who").required(true).multiple(true))]
    Add(Box<AddArgs>),
    /// List what is allowed and denied
    List(Box<FilterArgs>),
    /// No longer allow or deny; what matches all flags goes
    Remove(Box<RemoveArgs>),
}

/// What ACLs are about.
#[derive(Debug, Clone, Args)]
pub(crate) struct ResourceArgs {
    /// This topic, or `*`; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) topic: Vec<String>,

    /// This group, or `*`; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) group: Vec<String>,

    /// The cluster
    #[arg(long)]
    pub(crate) cluster: bool,

    /// This transactional id, or `*`; may be repeated
    #[arg(long, value_name = "ID")]
    pub(crate) transactional_id: Vec<String>,
}

/// The flags of `kohort acl add`.
#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// Allow this user, as User:name, or User:* for everybody; may be repeated
    #[arg(long, value_name = "TYPE:NAME", group = "who")]
    pub(crate) allow_principal: Vec<String>,

    /// Deny this user; may be repeated
    #[arg(long, value_name = "TYPE:NAME", group = "who")]
    pub(crate) deny_principal: Vec<String>,

    /// Allow from this address only; may be repeated [default: any]
    #[arg(long, value_name = "ADDRESS", requires = "allow_principal")]
    pub(crate) allow_host: Vec<String>,

    /// Deny from this address only; may be repeated [default: any]
    #[arg(long, value_name = "ADDRESS", requires = "deny_principal")]
    pub(crate) deny_host: Vec<String>,

    /// What is done, with commas: all, read, write, create, delete, alter, describe, cluster_action,
    /// describe_configs, alter_configs, idempotent_write
    #[arg(long, value_name = "OPERATIONS", value_delimiter = ',', default_value = "all")]
    pub(crate) operation: Vec<String>,

    /// Allow what a producer does: write, describe and create of the topics, and of the transactional ids write and
    /// describe
    #[arg(long, conflicts_with_all = ["operation", "deny_principal", "cluster"])]
    pub(crate) producer: bool,

    /// Allow what a consumer does: read and describe of the topics, and read of the groups
    #[arg(long, conflicts_with_all = ["operation", "deny_principal", "cluster"])]
    pub(crate) consumer: bool,

    /// What it is about.
    #[command(flatten)]
    pub(crate) resources: ResourceArgs,

    /// How names are meant: literal or prefixed
    #[arg(long, value_name = "PATTERN", default_value = "literal")]
    pub(crate) resource_pattern_type: String,

    /// How to reach the broker and show results.
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

/// Which ACLs are meant.
#[derive(Debug, Args)]
pub(crate) struct FilterArgs {
    /// Only those for this user; may be repeated
    #[arg(long, value_name = "TYPE:NAME")]
    pub(crate) principal: Vec<String>,

    /// What they are about.
    #[command(flatten)]
    pub(crate) resources: ResourceArgs,

    /// How names are meant: literal, prefixed, any, or match for all that apply to the name
    #[arg(long, value_name = "PATTERN", default_value = "any")]
    pub(crate) resource_pattern_type: String,

    /// How to reach the broker and show results.
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

/// The flags of `kohort acl remove`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("which").required(true).multiple(true))]
pub(crate) struct RemoveArgs {
    /// Those that allow this user; may be repeated
    #[arg(long, value_name = "TYPE:NAME", group = "which")]
    pub(crate) allow_principal: Vec<String>,

    /// Those that deny this user; may be repeated
    #[arg(long, value_name = "TYPE:NAME", group = "which")]
    pub(crate) deny_principal: Vec<String>,

    /// Only those for this address
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) host: Option<String>,

    /// Only those for these operations, with commas
    #[arg(long, value_name = "OPERATIONS", value_delimiter = ',')]
    pub(crate) operation: Vec<String>,

    /// Those about this topic; may be repeated
    #[arg(long, value_name = "NAME", group = "which")]
    pub(crate) topic: Vec<String>,

    /// Those about this group; may be repeated
    #[arg(long, value_name = "NAME", group = "which")]
    pub(crate) group: Vec<String>,

    /// Those about the cluster
    #[arg(long, group = "which")]
    pub(crate) cluster: bool,

    /// Those about this transactional id; may be repeated
    #[arg(long, value_name = "ID", group = "which")]
    pub(crate) transactional_id: Vec<String>,

    /// How names are meant: literal, prefixed, any, or match for all that apply to the name
    #[arg(long, value_name = "PATTERN", default_value = "any")]
    pub(crate) resource_pattern_type: String,

    /// How to reach the broker and show results.
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}
