//! What can be typed after `kohort org` and `kohort user`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{AdminArgs, OutputArgs, key_value};

const ORG_EXAMPLES: &str = "\
Examples:
  kohort org create acme --limit max.topics=100 --limit max.bytes.per.second=10485760
  kohort org list
  kohort org limit acme --limit max.topics=200 --unlimit max.bytes.per.second
  kohort org delete acme

Limits: max.topics, max.partitions, max.groups, max.members, max.connections,
max.bytes.per.second.";

/// What can be done with organisations.
#[derive(Debug, Subcommand)]
#[command(after_help = ORG_EXAMPLES)]
pub(crate) enum OrgCommand {
    /// Create an organisation
    Create {
        /// Its name: small letters, digits and hyphens
        name: String,
        /// Limit what it may use; may be repeated
        #[arg(long, value_name = "LIMIT=NUMBER", value_parser = key_value)]
        limit: Vec<(String, String)>,
        /// Where to ask and how to show results.
        #[command(flatten)]
        ask: AskArgs,
    },
    /// List organisations
    List {
        /// Where to ask and how to show results.
        #[command(flatten)]
        ask: AskArgs,
    },
    /// Show an organisation: its id, its limits and what it uses
    Describe {
        /// Its name
        name: String,
        /// Where to ask and how to show results.
        #[command(flatten)]
        ask: AskArgs,
    },
    /// Set and lift limits of an organisation
    #[command(group = clap::ArgGroup::new("change").required(true).multiple(true))]
    Limit {
        /// Its name
        name: String,
        /// Set this limit; may be repeated
        #[arg(long, value_name = "LIMIT=NUMBER", group = "change", value_parser = key_value)]
        limit: Vec<(String, String)>,
        /// Lift this limit; may be repeated
        #[arg(long, value_name = "LIMIT", group = "change")]
        unlimit: Vec<String>,
        /// Where to ask and how to show results.
        #[command(flatten)]
        ask: AskArgs,
    },
    /// Delete an organisation that has neither topics nor users any more; connections of its clients stay open and
    /// find nothing
    Delete {
        /// Its name
        name: String,
        /// Where to ask and how to show results.
        #[command(flatten)]
        ask: AskArgs,
    },
}

/// Where to ask and how to show what is answered.
#[derive(Debug, Clone, Args)]
pub(crate) struct AskArgs {
    /// Where to ask.
    #[command(flatten)]
    pub(crate) admin: AdminArgs,

    /// How to show results.
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

const USER_EXAMPLES: &str = "\
Examples:
  kohort user create alice                        asks for the password
  kohort user create alice --org acme --password-file alice.password
  printf %s \"$PASSWORD\" | kohort user passwd acme/alice
  kohort user list --org acme

Users log in as `alice` if they belong to the organisation default, and as `acme/alice` otherwise.
The password itself is not sent to the broker.";

/// What can be done with users.
#[derive(Debug, Subcommand)]
#[command(after_help = USER_EXAMPLES)]
pub(crate) enum UserCommand {
    /// Create a user
    Create {
        /// Which user.
        #[command(flatten)]
        user: UserArgs,
        /// The password.
        #[command(flatten)]
        password: PasswordArgs,
        /// Where to ask and how to show results.
        #[command(flatten)]
        ask: AskArgs,
    },
    /// List the users of an organisation
    List {
        /// The organisation
        #[arg(long, value_name = "NAME", default_value = "default")]
        org: String,
        /// Where to ask and how to show results.
        #[command(flatten)]
        ask: AskArgs,
    },
    /// Give a user another password
    Passwd {
        /// Which user.
        #[command(flatten)]
        user: UserArgs,
        /// The password.
        #[command(flatten)]
        password: PasswordArgs,
        /// Where to ask and how to show results.
        #[command(flatten)]
        ask: AskArgs,
    },
    /// Delete a user; whoever is logged in stays so until the connection ends or must authenticate again
    Delete {
        /// Which user.
        #[command(flatten)]
        user: UserArgs,
        /// Where to ask and how to show results.
        #[command(flatten)]
        ask: AskArgs,
    },
}

/// A user.
#[derive(Debug, Clone, Args)]
pub(crate) struct UserArgs {
    /// The user's name, or ORG/NAME
    pub(crate) name: String,

    /// The organisation that the user belongs to [default: default]
    #[arg(long, value_name = "NAME")]
    pub(crate) org: Option<String>,
}

/// Where a password comes from. There is no flag for the password itself: arguments are shown in lists of processes.
#[derive(Debug, Clone, Args)]
pub(crate) struct PasswordArgs {
    /// Read the password from this file [default: ask for it, or read standard input]
    #[arg(long, value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,

    /// Let the user log in by these, with commas
    #[arg(
        long,
        value_name = "MECHANISMS",
        value_delimiter = ',',
        default_value = "SCRAM-SHA-256,SCRAM-SHA-512"
    )]
    pub(crate) mechanism: Vec<String>,

    /// Hash the password this often, 4096 to 16384
    #[arg(long, value_name = "NUMBER", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(4096..=16_384))]
    pub(crate) iterations: u32,
}
