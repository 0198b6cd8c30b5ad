//! The brokers behind a few addresses.

use std::collections::BTreeMap;
use std::time::Duration;

use wire::api::metadata::{MetadataRequest, MetadataRequestTopic, MetadataResponse};
use wire::{ApiKey, RequestMessage};

use crate::connection::Connection;
use crate::error::{ClientError, accepted};
use crate::security::{Prepared, Security};

/// How a client behaves.
#[derive(Debug, Clone)]
pub struct Options {
    /// What the client calls itself.
    pub client_id: String,
    /// How long a connection or an answer may take.
    pub patience: Duration,
    /// Whom it trusts and how it says who it is, on every connection.
    pub security: Security,
}

impl Default for Options {
    fn default() -> Self {
        let security = Security::default();
        Self { client_id: "kohort".to_owned(), patience: Duration::from_secs(15), security }
    }
}

/// A client of one cluster.
#[derive(Debug)]
pub struct Client {
    pub(crate) options: Options,
    security: Prepared,
    /// The broker that was reached first; it answers whatever any broker can.
    any: Connection,
    /// Connections to brokers that lead partitions, by node.
    nodes: BTreeMap<i32, Connection>,
}

impl Client {
    /// Reaches the first of `bootstrap` that answers; the error is that of the last one tried.
    pub async fn connect(bootstrap: &[String], options: Options) -> Result<Self, ClientError> {
        let security = options.security.prepare()?;
        let mut last = ClientError::Address { address: bootstrap.join(",") };
        for address in bootstrap {
            match Connection::open(address, &options, &security).await {
                Ok(any) => return Ok(Self { options, security, any, nodes: BTreeMap::new() }),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Whether more can be asked: the broker that was reached first is not lost. Others are dialled again when they
    /// are needed.
    pub fn is_usable(&self) -> bool {
        self.any.is_usable()
    }

    /// Asks any broker.
    pub async fn call<R: RequestMessage>(&mut self, request: &R) -> Result<R::Response, ClientError> {
        self.any().await?.call(request).await
    }

    /// The connection to any broker. One whose time is over is made anew: the broker would close it.
    async fn any(&mut self) -> Result<&mut Connection, ClientError> {
        if self.any.is_over() {
            self.any = Connection::open(self.any.address(), &self.options, &self.security).await?;
        }
        Ok(&mut self.any)
    }

    /// The cluster's brokers and topics as it tells them: all topics, or those named.
    pub async fn metadata(&mut self, topics: Option<&[String]>) -> Result<MetadataResponse, ClientError> {
        let topics = topics.map(|names| {
            let named =
                |name: &String| MetadataRequestTopic { name: Some(name.clone()), ..Default::default() };
            names.iter().map(named).collect()
        });
        let request = MetadataRequest { topics, allow_auto_topic_creation: false, ..Default::default() };
        let response = self.call(&request).await?;
        accepted(response.error_code, None)?;
        Ok(response)
    }

    /// Fails if the broker's versions of `api` end before `at_least`.
    pub(crate) fn require(&self, api: ApiKey, at_least: i16) -> Result<(), ClientError> {
        match self.any.version(api, i16::MAX) {
            Some(version) if version >= at_least => Ok(()),
            _ => {
                Err(ClientError::Unsupported { address: self.any.address().to_owned(), request: api.name() })
            }
        }
    }

    /// The connection to the broker that leads a partition.
    pub(crate) async fn leader(
        &mut self,
        topic: &str,
        partition: i32,
    ) -> Result<&mut Connection, ClientError> {
        let metadata = self.metadata(Some(&[topic.to_owned()])).await?;
        let found = metadata.topics.first().ok_or_else(unknown_partition)?;
        accepted(found.error_code, None)?;
        let led = found
            .partitions
            .iter()
            .find(|candidate| candidate.partition_index == partition)
            .ok_or_else(unknown_partition)?;
        accepted(led.error_code, None)?;
        self.node(led.leader_id, &metadata).await
    }

    /// The connection to a broker by its number.
    pub(crate) async fn node(
        &mut self,
        node: i32,
        metadata: &MetadataResponse,
    ) -> Result<&mut Connection, ClientError> {
        // A single broker is the one already connected. Its advertised address may be of no use here: behind a
        // forwarded port only the dialled one is.
        if metadata.brokers.len() <= 1 {
            return self.any().await;
        }
        let is_good = |connection: &Connection| connection.is_usable() && !connection.is_over();
        if !self.nodes.get(&node).is_some_and(is_good) {
            let broker = metadata
                .brokers
                .iter()
                .find(|broker| broker.node_id == node)
                .ok_or(ClientError::Refused { code: LEADER_NOT_AVAILABLE, message: None })?;
            let host =
                if broker.host.contains(':') { format!("[{}]", broker.host) } else { broker.host.clone() };
            let address = format!("{host}:{}", broker.port);
            let connection = Connection::open(&address, &self.options, &self.security).await?;
            self.nodes.insert(node, connection);
        }
        Ok(self.nodes.get_mut(&node).expect("it was there or has just been put there"))
    }
}

const LEADER_NOT_AVAILABLE: i16 = coordination::error_code::ErrorCode::LeaderNotAvailable.number();

pub(crate) fn unknown_partition() -> ClientError {
    ClientError::Refused {
        code: coordination::error_code::ErrorCode::UnknownTopicOrPartition.number(),
        message: None,
    }
}
