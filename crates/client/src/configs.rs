//! Settings of topics: shown and changed.

use wire::api::describe_configs::{DescribeConfigsRequest, DescribeConfigsResource};
use wire::api::incremental_alter_configs::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};

use crate::cluster::{Client, unknown_partition};
use crate::error::{ClientError, accepted};

/// Kafka's number for a topic among the things that have settings.
const TOPIC: i8 = 2;

/// A setting of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicSetting {
    /// Its name.
    pub name: String,
    /// Its value; none for null or a secret.
    pub value: Option<String>,
    /// Whether the topic itself sets it, rather than the broker.
    pub set: bool,
}

/// A change of one setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigChange {
    /// Give the property this value.
    Set(String, String),
    /// Take the property's value back.
    Delete(String),
}

impl Client {
    /// All settings of a topic, by name.
    pub async fn topic_settings(&mut self, topic: &str) -> Result<Vec<TopicSetting>, ClientError> {
        let request = DescribeConfigsRequest {
            resources: vec![DescribeConfigsResource {
                resource_type: TOPIC,
                resource_name: topic.to_owned(),
                configuration_keys: None,
            }],
            ..Default::default()
        };
        let response = self.call(&request).await?;
        let result = response.results.into_iter().next().ok_or_else(unknown_partition)?;
        accepted(result.error_code, result.error_message)?;
        let setting = |entry: wire::api::describe_configs::DescribeConfigsResourceResult| TopicSetting {
            name: entry.name,
            value: entry.value,
            set: entry.config_source == 1,
        };
        let mut settings: Vec<TopicSetting> = result.configs.into_iter().map(setting).collect();
        settings.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(settings)
    }

    /// Changes settings of a topic, all or none.
    pub async fn alter_topic(&mut self, topic: &str, changes: &[ConfigChange]) -> Result<(), ClientError> {
        let change = |change: &ConfigChange| match change {
            ConfigChange::Set(name, value) => {
                AlterableConfig { name: name.clone(), config_operation: 0, value: Some(value.clone()) }
            }
            ConfigChange::Delete(name) => {
                AlterableConfig { name: name.clone(), config_operation: 1, value: None }
            }
        };
        let request = IncrementalAlterConfigsRequest {
            resources: vec![AlterConfigsResource {
                resource_type: TOPIC,
                resource_name: topic.to_owned(),
                configs: changes.iter().map(change).collect(),
            }],
            validate_only: false,
        };
        let response = self.call(&request).await?;
        let result = response.responses.into_iter().next().ok_or_else(unknown_partition)?;
        accepted(result.error_code, result.error_message)
    }
}
