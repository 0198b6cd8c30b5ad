//! What is answered about coordinators, connections, quotas and rules without the catalog.

use coordination::client_quotas;
use coordination::error_code::ErrorCode;
use coordination::op;
use coordination::reply::{self, Refusal, Reply};
use rail::{Answer, Carrier};

use crate::Inner;

/// Whoever asks is told that the groups are here.
pub(crate) fn find_coordinator(op: op::FindCoordinator) -> Answer {
    let groups = op.groups.into_iter().map(|group| (group, None)).collect();
    Reply::FindCoordinator(reply::FindCoordinator { groups }).into()
}

/// A client takes its place among the connections of its organisation.
pub(crate) fn enter(inner: &Inner, carrier: &Carrier) -> Answer {
    let org = carrier.org();
    let entered = if inner.admin.look(|catalog| catalog.org(org).is_some()) {
        inner.topics.shares().enter(inner.uptime(), carrier.number(), org)
    } else {
        Err(Refusal::new(ErrorCode::ClusterAuthorizationFailed, "The organisation does not exist any more."))
    };
    Reply::Enter(entered.err()).into()
}

pub(crate) fn describe_client_quotas(op: &op::DescribeClientQuotas) -> Answer {
    Reply::DescribeClientQuotas(client_quotas::describe_client_quotas(op)).into()
}

pub(crate) fn create_acls_disabled(op: &op::CreateAcls) -> Answer {
    let results = op.acls.iter().map(|_| Some(disabled())).collect();
    Reply::CreateAcls(reply::CreateAcls { results }).into()
}

pub(crate) fn describe_acls_disabled() -> Answer {
    Reply::DescribeAcls(reply::DescribeAcls { result: Err(disabled()) }).into()
}

pub(crate) fn delete_acls_disabled(op: &op::DeleteAcls) -> Answer {
    let results = op.filters.iter().map(|_| Err(disabled())).collect();
    Reply::DeleteAcls(reply::DeleteAcls { results }).into()
}

/// In Kafka's words.
fn disabled() -> Refusal {
    Refusal::new(ErrorCode::SecurityDisabled, "No Authorizer is configured.")
}
