//! DescribeCluster (60): the nodes there are.

use std::borrow::Cow;

use coordination::op::{self, Op};
use coordination::reply;

use crate::addresses::{Addresses, NodeAddress};
use crate::api::operations;
use crate::message::message;
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
    let broker = |node: Cow<'_, NodeAddress>| DescribeClusterBroker {
        broker_id: node.id,
        port: i32::from(node.port),
        host: node.into_owned().host,
        rack: None,
        is_fenced: false,
    };
    match reply.result {
        Ok(cluster_id) => DescribeClusterResponse {
            cluster_id,
            controller_id: addresses.node_id,
            brokers: addresses.all().into_iter().map(broker).collect(),
            cluster_authorized_operations: operations(reply.operations, asked.cluster_operations),
            ..DescribeClusterResponse::default()
        },
        Err(refusal) => DescribeClusterResponse {
            error_code: refusal.code.number(),
            error_message: refusal.message,
            ..DescribeClusterResponse::default()
        },
    }
}
