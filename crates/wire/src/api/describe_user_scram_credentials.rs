//! DescribeUserScramCredentials (50): shows which kinds of passwords users have.

use coordination::op::{self, Op};
use coordination::record::ScramMechanism;
use coordination::reply;

use crate::message::message;

message! {
    /// Users to show; all of them where the list is null or empty.
    pub struct DescribeUserScramCredentialsRequest {
        users: Option<Vec<UserName>> [0+, null 0+],
    }

    /// One user to show.
    pub struct UserName {
        name: String [0+],
    }

    /// The users.
    pub struct DescribeUserScramCredentialsResponse {
        throttle_time_ms: i32 [0+],
        error_code: i16 [0+],
        error_message: Option<String> [0+, null 0+] = Some(String::new()),
        results: Vec<DescribeUserScramCredentialsResult> [0+],
    }

    /// One user.
    pub struct DescribeUserScramCredentialsResult {
        user: String [0+],
        error_code: i16 [0+],
        error_message: Option<String> [0+, null 0+] = Some(String::new()),
        credential_infos: Vec<CredentialInfo> [0+],
    }

    /// One kind of password that a user has.
    pub struct CredentialInfo {
        mechanism: i8 [0+],
        iterations: i32 [0+],
    }
}

impl DescribeUserScramCredentialsRequest {
    pub(crate) fn into_op(self) -> Op {
        let users = self.users.filter(|users| !users.is_empty());
        Op::DescribeUserScramCredentials(op::DescribeUserScramCredentials {
            users: users.map(|users| users.into_iter().map(|user| user.name).collect()),
        })
    }
}

pub(crate) fn response(reply: reply::DescribeUserScramCredentials) -> DescribeUserScramCredentialsResponse {
    match reply.result {
        Ok(users) => DescribeUserScramCredentialsResponse {
            results: users.into_iter().map(shown).collect(),
            ..DescribeUserScramCredentialsResponse::default()
        },
        Err(refusal) => DescribeUserScramCredentialsResponse {
            error_code: refusal.code.number(),
            error_message: refusal.message,
            ..DescribeUserScramCredentialsResponse::default()
        },
    }
}

fn shown(user: reply::ScramUser) -> DescribeUserScramCredentialsResult {
    let info = |(mechanism, iterations): (ScramMechanism, i32)| CredentialInfo {
        mechanism: mechanism as i8,
        iterations,
    };
    match user.result {
        Ok(kinds) => DescribeUserScramCredentialsResult {
            user: user.user,
            credential_infos: kinds.into_iter().map(info).collect(),
            ..DescribeUserScramCredentialsResult::default()
        },
        Err(refusal) => DescribeUserScramCredentialsResult {
            user: user.user,
            error_code: refusal.code.number(),
            error_message: refusal.message,
            credential_infos: Vec::new(),
        },
    }
}
