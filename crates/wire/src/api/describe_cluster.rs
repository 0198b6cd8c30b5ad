//! DescribeCluster (60): the nodes there are.

use coordination::op::{self, Op};
use coordination::reply;

use crate::api::metadata::ALL_CLUSTER_OPERATIONS;
use crate::message::message;
use crate::reply::Addresses;
use crate::request::Asked;

message! {
    /// Asks which nodes there are.
    pub struct DescribeClusterRequest {
        include_cluster_authorized_operations: bool [0+],
        endpoint_type: i8 [1+] = 1,
        include_fenced_brokers: bool [2+],
    }

    /// The cluster and its nodes.
    pub struct DescribeClusterResponse {
        throttle_time_ms: i32 [0+],
        error_code: i16 [0+],
        error_message: Option<String> [0+, null 0+],
        endpoint_type: i8 [1+] = 1,
        cluster_id: String [0+],
        controller_id: i32 [0+] = -1,
        brokers: Vec<DescribeClusterBroker> [0+],
        cluster_authorized_operations: i32 [0+] = i32::MIN,
    }

    /// One node.
    pub struct DescribeClusterBroker {
        broker_id: i32 [0+],
        host: String [0+],
        port: i32 [0+],
        rack: Option<String> [0+, null 0+],
        is_fenced: bool [2+],
    }
}

impl DescribeClusterRequest {
    pub(crate) fn into_op(self, asked: &mut Asked) -> Op {
        asked.cluster_operations = self.include_cluster_authorized_operations;
        Op::DescribeCluster(op::DescribeCluster { endpoint_type: self.endpoint_type })
    }
}

pub(crate) fn response(
    reply: reply::DescribeCluster,
    asked: Asked,
    addresses: &Addresses,
) -> DescribeClusterResponse {
    match reply.result {
        Ok(cluster_id) => DescribeClusterResponse {
            cluster_id,
            controller_id: addresses.node_id,
            brokers: vec![DescribeClusterBroker {
                broker_id: addresses.node_id,
                host: addresses.host.clone(),
                port: i32::from(addresses.port),
                rack: None,
                is_fenced: false,
            }],
            cluster_authorized_operations: if asked.cluster_operations {
                ALL_CLUSTER_OPERATIONS
            } else {
                i32::MIN
            },
            ..DescribeClusterResponse::default()
        },
        Err(refusal) => DescribeClusterResponse {
            error_code: refusal.code.number(),
            error_message: refusal.message,
            ..DescribeClusterResponse::default()
        },
    }
}
