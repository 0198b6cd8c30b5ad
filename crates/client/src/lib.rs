//! A small Kafka client over `wire`, for the command line, tools and tests.
//!
//! A [`Client`] is given a few addresses, finds the cluster behind them and asks one thing at a time: topics,
//! settings, offsets, groups, users and what they may do, and plain produce and fetch. A [`Connection`] is one socket
//! on which any request of `wire` can be sent. Neither batches nor balances, and what is asked again is only what a
//! coordinator that loads or moves has not answered; what needs more uses a real client. With a [`Security`] all
//! connections speak TLS, say who they are, or both.
//!
//! ```no_run
//! # async fn example() -> Result<(), client::ClientError> {
//! let mut client = client::Client::connect(&["127.0.0.1:9092".to_owned()], Default::default()).await?;
//! let topics = client.topics(None).await?;
//! # Ok(())
//! # }
//! ```

mod acls;
mod cluster;
mod configs;
mod connection;
mod error;
mod group_offsets;
mod groups;
mod records;
mod sasl;
mod security;
mod tls;
mod topics;
mod users;

pub use cluster::{Client, Options};
pub use configs::{ConfigChange, TopicSetting};
pub use connection::Connection;
pub use error::ClientError;
pub use group_offsets::{CommittedOffset, TopicPartition};
pub use groups::{
    Coordinator, GroupDescription, GroupEpochs, GroupListing, GroupMember, Leaver, MemberProgress,
};
pub use records::{Fetched, Produced};
pub use security::{Identity, Mechanism, Password, Sasl, Security, Tls, UnknownMechanism};
pub use topics::{EARLIEST, LATEST, NewTopic, Partition, Topic};
pub use users::{ScramChange, ScramUser};
pub use wire::LONGEST_TEXT;
