//! AlterConfigs (33): replaces all settings of a resource.

use coordination::op::{self, ConfigChanges, ConfigResource, Op};
use coordination::reply::{self, Refusal};

use crate::api::{refusal_message, refusal_number};
use crate::message::message;

message! {
    /// Settings that replace all that are set on a resource.
    pub struct AlterConfigsRequest {
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
        value: Option<String> [0+, null 0+],
    }

    /// What became of each resource.
    pub struct AlterConfigsResponse {
        throttle_time_ms: i32 [0+],
        responses: Vec<AlterConfigsResourceResponse> [0+],
    }

    /// What became of one resource; IncrementalAlterConfigs answers with the same.
    pub struct AlterConfigsResourceResponse {
        error_code: i16 [0+],
        error_message: Option<String> [0+, null 0+],
        resource_type: i8 [0+],
        resource_name: String [0+],
    }
}

impl AlterConfigsRequest {
    pub(crate) fn into_op(self) -> Op {
        let resource = |resource: AlterConfigsResource| {
            let named =
                ConfigResource { resource_type: resource.resource_type, name: resource.resource_name };
            let configs = resource.configs.into_iter().map(|config| (config.name, config.value)).collect();
            (named, ConfigChanges::Replace(configs))
        };
        Op::AlterConfigs(op::AlterConfigs {
            resources: self.resources.into_iter().map(resource).collect(),
            validate_only: self.validate_only,
        })
    }
}

pub(crate) fn response(reply: reply::AlterConfigs) -> AlterConfigsResponse {
    AlterConfigsResponse { throttle_time_ms: 0, responses: resource_responses(reply) }
}

/// What became of each resource, however its settings were changed.
pub(super) fn resource_responses(reply: reply::AlterConfigs) -> Vec<AlterConfigsResourceResponse> {
    let resource = |(resource, error): (ConfigResource, Option<Refusal>)| AlterConfigsResourceResponse {
        error_code: refusal_number(error.as_ref()),
        error_message: refusal_message(error),
        resource_type: resource.resource_type,
        resource_name: resource.name,
    };
    reply.resources.into_iter().map(resource).collect()
}
