//! ApiVersions (18): what can be used. Answered by the gateway.

use coordination::error_code::ErrorCode;

use crate::message::message;
use crate::table::ApiKey;

message! {
    /// The first request of most clients: who they are.
    pub struct ApiVersionsRequest {
        client_software_name: String [3+],
        client_software_version: String [3+],
    }

    /// Which APIs and versions can be used.
    pub struct ApiVersionsResponse {
        error_code: i16 [0+],
        api_keys: Vec<ApiVersion> [0+],
        throttle_time_ms: i32 [1+],
        supported_features: Vec<SupportedFeatureKey> [3+, tag 0],
        finalized_features_epoch: i64 [3+, tag 1] = -1,
        finalized_features: Vec<FinalizedFeatureKey> [3+, tag 2],
        zk_migration_ready: bool [3+, tag 3],
    }

    /// One API and its versions.
    pub struct ApiVersion {
        api_key: i16 [0+],
        min_version: i16 [0+],
        max_version: i16 [0+],
    }

    /// A feature and the levels that could be switched on.
    pub struct SupportedFeatureKey {
        name: String [3+],
        min_version: i16 [3+],
        max_version: i16 [3+],
    }

    /// A feature and the level that is switched on.
    pub struct FinalizedFeatureKey {
        name: String [3+],
        max_version_level: i16 [3+],
        min_version_level: i16 [3+],
    }
}

pub(crate) fn response(request: &ApiVersionsRequest, version: i16) -> ApiVersionsResponse {
    let named =
        is_software_name(&request.client_software_name) && is_software_name(&request.client_software_version);
    if version >= 3 && !named {
        return refused(ErrorCode::InvalidRequest);
    }
    ApiVersionsResponse {
        api_keys: ApiKey::ANSWERED.iter().copied().filter_map(offer).collect(),
        ..ApiVersionsResponse::default()
    }
}

/// The answer to a version that we do not know: which ones we do.
pub(crate) fn unsupported() -> ApiVersionsResponse {
    ApiVersionsResponse {
        api_keys: offer(ApiKey::ApiVersions).into_iter().collect(),
        ..refused(ErrorCode::UnsupportedVersion)
    }
}

fn refused(error: ErrorCode) -> ApiVersionsResponse {
    ApiVersionsResponse { error_code: error.number(), ..ApiVersionsResponse::default() }
}

fn offer(api: ApiKey) -> Option<ApiVersion> {
    let versions = api.advertised()?;
    Some(ApiVersion { api_key: api.number(), min_version: *versions.start(), max_version: *versions.end() })
}

/// KIP-511: letters and digits, with `-` and `.` between them.
fn is_software_name(text: &str) -> bool {
    let inner = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    let outer = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    outer(bytes.first()) && outer(bytes.last()) && bytes.iter().all(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_software_follow_kip_511() {
        for name in ["librdkafka", "apache-kafka-java", "4.3.0", "a", "confluent-kafka-python"] {
            assert!(is_software_name(name), "{name}");
        }
        for name in ["", "-a", "a.", "a b", "a_b", "naïve"] {
            assert!(!is_software_name(name), "{name}");
        }
    }

    #[test]
    fn produce_is_shown_from_version_0() {
        let shown = response(&ApiVersionsRequest::default(), 0);
        assert_eq!(shown.api_keys[0], ApiVersion { api_key: 0, min_version: 0, max_version: 13 });
    }
}
