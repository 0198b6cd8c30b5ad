//! IncrementalAlterConfigs (44): changes settings one by one.

use coordination::op::{self, ConfigChanges, ConfigOperation, ConfigResource, Op};
use coordination::reply;

use crate::api::alter_configs::{AlterConfigsResourceResponse, resource_responses};
use crate::message::message;

message! {
    /// Settings to change one by one.
    pub struct IncrementalAlterConfigsRequest {
        resources: Vec<AlterConfigsResource> [0+],
        validate_only: bool [0+],
    }

    /// A resource and its settings.
    pub struct AlterConfigsResource {
        resource_type: i8 [0+],
        resource_name: String [0+],
        configs: Vec<AlterableConfig> [0+],
    }

    /// One setting.
    pub struct AlterableConfig {
        name: String [0+],
        config_operation: i8 [0+],
        value: Option<String> [0+, null 0+],
    }

    /// What became of each resource.
    pub struct IncrementalAlterConfigsResponse {
        throttle_time_ms: i32 [0+],
        responses: Vec<AlterConfigsResourceResponse> [0+],
    }
}

impl IncrementalAlterConfigsRequest {
    pub(crate) fn into_op(self) -> Op {
        let change =
            |config: AlterableConfig| (config.name, operation(config.config_operation), config.value);
        let resource = |resource: AlterConfigsResource| {
            let named =
                ConfigResource { resource_type: resource.resource_type, name: resource.resource_name };
            (named, ConfigChanges::Incremental(resource.configs.into_iter().map(change).collect()))
        };
        Op::AlterConfigs(op::AlterConfigs {
            resources: self.resources.into_iter().map(resource).collect(),
            validate_only: self.validate_only,
        })
    }
}

fn operation(number: i8) -> Result<ConfigOperation, i8> {
    match number {
        0 => Ok(ConfigOperation::Set),
        1 => Ok(ConfigOperation::Delete),
        2 => Ok(ConfigOperation::Append),
        3 => Ok(ConfigOperation::Subtract),
        other => Err(other),
    }
}

pub(crate) fn response(reply: reply::AlterConfigs) -> IncrementalAlterConfigsResponse {
    IncrementalAlterConfigsResponse { throttle_time_ms: 0, responses: resource_responses(reply) }
}
