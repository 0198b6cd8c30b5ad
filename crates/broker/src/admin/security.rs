//! The requests about users and rules, each with its answer.

use std::sync::Arc;

use coordination::catalog::MintedUser;
use coordination::ids::OrgId;
use coordination::op;
use coordination::reply::{self, Reply};
use rail::Answer;

use super::Admin;
use super::requests::stored_nothing;

impl Admin {
    /// What a gateway checks a login against.
    pub fn credentials(&self, op: &op::Credentials) -> Answer {
        Reply::Credentials(self.look(|catalog| catalog.credentials(op))).into()
    }

    /// Adds rules. They hold for whatever is asked after the reply.
    pub fn create_acls(self: &Arc<Self>, org: OrgId, op: op::CreateAcls) -> Answer {
        let admin = Arc::clone(self);
        Answer::Later(Box::pin(async move {
            let count = op.acls.len();
            let made = admin.change_in(org, move |catalog, _| catalog.handle_create_acls(org, &op));
            Reply::CreateAcls(made.await.unwrap_or_else(|code| reply::CreateAcls {
                results: std::iter::repeat_n(Some(stored_nothing(code)), count).collect(),
            }))
        }))
    }

    /// Shows rules.
    pub fn describe_acls(&self, org: OrgId, op: &op::DescribeAcls) -> Answer {
        Reply::DescribeAcls(self.look(|catalog| catalog.describe_acls(org, op))).into()
    }

    /// Takes rules away.
    pub fn delete_acls(self: &Arc<Self>, org: OrgId, op: op::DeleteAcls) -> Answer {
        let admin = Arc::clone(self);
        Answer::Later(Box::pin(async move {
            let count = op.filters.len();
            let gone = admin.change_in(org, move |catalog, _| catalog.handle_delete_acls(org, &op));
            Reply::DeleteAcls(gone.await.unwrap_or_else(|code| reply::DeleteAcls {
                results: std::iter::repeat_n(Err(stored_nothing(code)), count).collect(),
            }))
        }))
    }

    /// Shows which users have passwords.
    pub fn describe_scram(&self, org: OrgId, op: &op::DescribeUserScramCredentials) -> Answer {
        Reply::DescribeUserScramCredentials(self.look(|catalog| catalog.describe_scram(org, op))).into()
    }

    /// Gives users passwords and takes them away.
    pub fn alter_scram(self: &Arc<Self>, org: OrgId, op: op::AlterUserScramCredentials) -> Answer {
        let admin = Arc::clone(self);
        Answer::Later(Box::pin(async move {
            let deleted = op.deletions.iter().map(|deletion| &deletion.user);
            let mut users: Vec<String> =
                deleted.chain(op.upsertions.iter().map(|given| &given.user)).cloned().collect();
            users.sort_unstable();
            users.dedup();
            let decoy_secret = rand::random();
            let altered = admin.change_in(org, move |catalog, now_ms| {
                catalog.handle_alter_scram(org, &op, &MintedUser { now_ms, decoy_secret })
            });
            Reply::AlterUserScramCredentials(altered.await.unwrap_or_else(|code| {
                let refused = |user| (user, Some(stored_nothing(code)));
                reply::AlterUserScramCredentials { users: users.into_iter().map(refused).collect() }
            }))
        }))
    }
}
