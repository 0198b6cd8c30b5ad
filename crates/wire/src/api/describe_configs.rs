//! DescribeConfigs (32): settings of topics and of the broker.

use coordination::op::{self, ConfigResource, Op};
use coordination::reply::{self, ConfigEntry, ConfigSynonym, Refusal};

use crate::message::message;

message! {
    /// Settings to show.
    pub struct DescribeConfigsRequest {
        resources: Vec<DescribeConfigsResource> [0+],
        include_synonyms: bool [1+],
        include_documentation: bool [3+],
    }

    /// A resource and the names asked for; null asks for all.
    pub struct DescribeConfigsResource {
        resource_type: i8 [0+],
        resource_name: String [0+],
        configuration_keys: Option<Vec<String>> [0+, null 0+],
    }

    /// Settings by resource.
    pub struct DescribeConfigsResponse {
        throttle_time_ms: i32 [0+],
        results: Vec<DescribeConfigsResult> [0+],
    }

    /// The settings of one resource.
    pub struct DescribeConfigsResult {
        error_code: i16 [0+],
        error_message: Option<String> [0+, null 0+],
        resource_type: i8 [0+],
        resource_name: String [0+],
        configs: Vec<DescribeConfigsResourceResult> [0+],
    }

    /// One setting.
    pub struct DescribeConfigsResourceResult {
        name: String [0+],
        value: Option<String> [0+, null 0+],
        read_only: bool [0+],
        config_source: i8 [1+] = -1,
        is_sensitive: bool [0+],
        synonyms: Vec<DescribeConfigsSynonym> [1+],
        config_type: i8 [3+],
        documentation: Option<String> [3+, null 0+],
    }

    /// A value that applies, or would if a stronger one were gone.
    pub struct DescribeConfigsSynonym {
        name: String [1+],
        value: Option<String> [1+, null 0+],
        source: i8 [1+],
    }
}

impl DescribeConfigsRequest {
    pub(crate) fn into_op(self) -> Op {
        let resource = |resource: DescribeConfigsResource| {
            let named =
                ConfigResource { resource_type: resource.resource_type, name: resource.resource_name };
            (named, resource.configuration_keys)
        };
        Op::DescribeConfigs(op::DescribeConfigs {
            resources: self.resources.into_iter().map(resource).collect(),
            include_synonyms: self.include_synonyms,
            include_documentation: self.include_documentation,
        })
    }
}

pub(crate) fn response(reply: reply::DescribeConfigs) -> DescribeConfigsResponse {
    DescribeConfigsResponse {
        throttle_time_ms: 0,
        results: reply.resources.into_iter().map(|(resource, shown)| result(resource, shown)).collect(),
    }
}

fn result(resource: ConfigResource, shown: Result<Vec<ConfigEntry>, Refusal>) -> DescribeConfigsResult {
    let (error_code, error_message, entries) = match shown {
        // Not null, as everywhere else: Kafka fills in the empty message of "no error".
        Ok(entries) => (0, Some(String::new()), entries),
        Err(refusal) => (refusal.code.number(), refusal.message, Vec::new()),
    };
    DescribeConfigsResult {
        error_code,
        error_message,
        resource_type: resource.resource_type,
        resource_name: resource.name,
        configs: entries.into_iter().map(config).collect(),
    }
}

fn config(entry: ConfigEntry) -> DescribeConfigsResourceResult {
    let synonym = |synonym: ConfigSynonym| DescribeConfigsSynonym {
        name: synonym.name,
        value: synonym.value,
        source: synonym.source as i8,
    };
    DescribeConfigsResourceResult {
        name: entry.name,
        value: entry.value,
        read_only: entry.read_only,
        config_source: entry.source as i8,
        is_sensitive: entry.sensitive,
        synonyms: entry.synonyms.into_iter().map(synonym).collect(),
        config_type: entry.config_type,
        documentation: entry.documentation,
    }
}
