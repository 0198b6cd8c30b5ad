//! What is said about logins, users and what they may do.

use std::time::Duration;

use bytes::Bytes;
use coordination::access::{Acl, Operation, PatternType, Permission, Resource, ResourceType};
use coordination::error_code::ErrorCode;
use coordination::op::{AclFilter, Op};
use coordination::record::ScramMechanism;
use coordination::reply::{self, Refusal, Reply};
use wire::api::*;
use wire::{Body, RequestMessage, Sasl, decode_response, encode_sasl_authenticate, encode_sasl_handshake};

use super::{decoded, exchange, op};

fn text(text: &str) -> String {
    text.to_owned()
}

#[test]
fn steps_of_a_login_are_for_the_gateway_and_their_bytes_stay_out_of_logs() {
    let body = decoded(&sasl_handshake::SaslHandshakeRequest { mechanism: text("PLAIN") }, 1).body;
    assert_eq!(body, Body::Sasl(Sasl::Handshake { mechanism: text("PLAIN") }));
    let auth_bytes = Bytes::from_static(b"\0alice\0secret");
    let request = sasl_authenticate::SaslAuthenticateRequest { auth_bytes: auth_bytes.clone() };
    for version in 0..=2 {
        let body = decoded(&request, version).body;
        assert!(!format!("{body:?}").contains("secret"), "{body:?}");
        assert_eq!(body, Body::Sasl(Sasl::Authenticate { auth_bytes: auth_bytes.clone() }));
    }
}

/// The bytes are those of a live Kafka 4.3.
#[test]
fn steps_of_a_login_are_answered_as_kafka_does() {
    let head = decoded(&sasl_handshake::SaslHandshakeRequest::default(), 1).head;
    let frame = encode_sasl_handshake(&head, Some(ErrorCode::IllegalSaslState), Vec::new());
    assert_eq!(frame.into_content(), &b"\0\0\0\x2a\0\x22\0\0\0\0"[..]);
    let mechanisms = vec![text("SCRAM-SHA-512"), text("SCRAM-SHA-256")];
    let frame = encode_sasl_handshake(&head, Some(ErrorCode::UnsupportedSaslMechanism), mechanisms);
    assert_eq!(frame.into_content(), &b"\0\0\0\x2a\0!\0\0\0\x02\0\rSCRAM-SHA-512\0\rSCRAM-SHA-256"[..]);

    let request = sasl_authenticate::SaslAuthenticateRequest::default();
    let head = decoded(&request, 2).head;
    let frame = encode_sasl_authenticate(&head, Ok((Bytes::from_static(b"v=ab"), Duration::ZERO)));
    assert_eq!(frame.into_content(), &b"\0\0\0\x2a\0\0\0\x01\x05v=ab\0\0\0\0\0\0\0\0\0"[..]);

    let answer = |result| {
        let frame = encode_sasl_authenticate(&head, result).into_content();
        decode_response::<sasl_authenticate::SaslAuthenticateRequest>(frame, 2).unwrap().1
    };
    assert_eq!(answer(Ok((Bytes::new(), Duration::from_secs(60)))).session_lifetime_ms, 60_000);
    let refused = answer(Err(Refusal::new(ErrorCode::SaslAuthenticationFailed, "no")));
    assert_eq!((refused.error_code, refused.error_message.as_deref()), (58, Some("no")));
}

fn acl(name: &str, principal: &str) -> Acl {
    Acl {
        resource: Resource { kind: ResourceType::Topic, name: text(name), pattern: PatternType::Prefixed },
        principal: text(principal),
        host: text("*"),
        operation: Operation::Read,
        permission: Permission::Allow,
    }
}

fn content<R: RequestMessage>(request: &R, version: i16, reply: Reply) -> Bytes {
    let head = decoded(request, version).head;
    wire::encode_reply(&head, reply, &super::addresses()).into_content()
}

/// The sentences are those of a live Kafka 4.3.
#[test]
fn a_rule_with_a_number_that_means_nothing_is_refused_alone() {
    let creation = create_acls::AclCreation::from(&acl("t", "User:a"));
    let with = |change: fn(&mut create_acls::AclCreation)| {
        let mut changed = creation.clone();
        change(&mut changed);
        changed
    };
    let creations = vec![
        creation.clone(),
        with(|acl| acl.resource_type = 99),
        with(|acl| acl.resource_pattern_type = -1),
        with(|acl| acl.resource_pattern_type = 2),
        with(|acl| acl.operation = 16),
        with(|acl| acl.permission_type = 1),
        with(|acl| acl.permission_type = 0),
    ];
    let refused = |said: &str| Err(Refusal::new(ErrorCode::InvalidRequest, said));
    for version in 1..=3 {
        let request = create_acls::CreateAclsRequest { creations: creations.clone() };
        let Op::CreateAcls(op) = op(&request, version) else { panic!("an op") };
        assert_eq!(
            op.acls,
            [
                Ok(acl("t", "User:a")),
                refused("Invalid resourceType UNKNOWN"),
                refused("Invalid patternType UNKNOWN"),
                refused("Invalid patternType MATCH"),
                refused("Invalid operation UNKNOWN"),
                refused("Invalid permissionType ANY"),
                refused("Invalid permissionType UNKNOWN"),
            ]
        );
    }
}

/// The bytes are those of a live Kafka 4.3.
#[test]
fn what_became_of_new_rules_is_told_as_kafka_does() {
    let refusal = Refusal::new(ErrorCode::InvalidRequest, "Invalid empty resource name");
    let reply = Reply::CreateAcls(reply::CreateAcls { results: vec![None, Some(refusal)] });
    let answer = content(&create_acls::CreateAclsRequest::default(), 1, reply);
    assert_eq!(answer, &b"\0\0\0\x2a\0\0\0\0\0\0\0\x02\0\0\0\0\0*\0\x1bInvalid empty resource name"[..]);
}

#[test]
fn a_filter_says_which_rules_are_meant() {
    let any = AclFilter {
        kind: None,
        name: None,
        pattern: 1,
        principal: None,
        host: None,
        operation: None,
        permission: None,
    };
    let narrow = AclFilter {
        kind: Some(ResourceType::Group),
        name: Some(text("g")),
        pattern: 2,
        principal: Some(text("User:a")),
        host: Some(text("::1")),
        operation: Some(Operation::Delete),
        permission: Some(Permission::Deny),
    };
    for version in 1..=3 {
        for filter in [&any, &narrow] {
            let Op::DescribeAcls(op) = op(&describe_acls::DescribeAclsRequest::from(filter), version) else {
                panic!("an op")
            };
            assert_eq!(op.filter.as_ref(), Ok(filter));
        }
        let filters = vec![delete_acls::DeleteAclsFilter::from(&any), (&narrow).into()];
        let Op::DeleteAcls(op) = op(&delete_acls::DeleteAclsRequest { filters }, version) else {
            panic!("an op")
        };
        assert_eq!(op.filters, [Ok(any.clone()), Ok(narrow.clone())]);
    }
}

/// The sentences are those of a live Kafka 4.3.
#[test]
fn a_filter_with_a_number_that_means_nothing_is_refused() {
    let meant = |change: fn(&mut describe_acls::DescribeAclsRequest)| {
        let mut request = describe_acls::DescribeAclsRequest {
            resource_type_filter: 1,
            pattern_type_filter: 1,
            operation: 1,
            permission_type: 1,
            ..Default::default()
        };
        change(&mut request);
        match op(&request, 3) {
            Op::DescribeAcls(op) => op.filter.map_err(|refusal| refusal.message.unwrap()),
            op => panic!("{op:?}"),
        }
    };
    assert!(meant(|_| {}).is_ok());
    assert_eq!(meant(|request| request.resource_type_filter = 99), Err(text("Unknown patternFilter.")));
    assert_eq!(meant(|request| request.pattern_type_filter = 5), Err(text("Unknown patternFilter.")));
    assert_eq!(meant(|request| request.pattern_type_filter = 0), Err(text("Unknown patternFilter.")));
    assert_eq!(meant(|request| request.operation = -3), Err(text("Unknown entryFilter.")));
    assert_eq!(meant(|request| request.permission_type = 0), Err(text("Unknown entryFilter.")));
}

#[test]
fn rules_are_shown_by_resource() {
    let request = describe_acls::DescribeAclsRequest::default();
    let acls = vec![acl("a", "User:a"), acl("a", "User:b"), acl("b", "User:a")];
    let shown = exchange(&request, 3, Reply::DescribeAcls(reply::DescribeAcls { result: Ok(acls) }));
    assert_eq!((shown.error_code, shown.error_message.as_deref()), (0, Some("")));
    let [a, b] = &shown.resources[..] else { panic!("{shown:?}") };
    assert_eq!((a.resource_type, a.resource_name.as_str(), a.pattern_type), (2, "a", 4));
    assert_eq!(a.acls.iter().map(|acl| acl.principal.as_str()).collect::<Vec<_>>(), ["User:a", "User:b"]);
    assert_eq!((b.acls.len(), b.acls[0].operation, b.acls[0].permission_type), (1, 3, 3));

    let refusal = Refusal::new(ErrorCode::SecurityDisabled, "No Authorizer is configured on the broker");
    let reply = Reply::DescribeAcls(reply::DescribeAcls { result: Err(refusal) });
    assert_eq!(exchange(&request, 1, reply).error_code, 54);
}

/// The bytes are those of a live Kafka 4.3.
#[test]
fn rules_that_are_gone_are_told_filter_by_filter() {
    let refusal = Refusal::new(ErrorCode::InvalidRequest, "Unknown entryFilter.");
    let results = vec![Ok(vec![acl("t", "User:b")]), Err(refusal), Ok(Vec::new())];
    let reply = Reply::DeleteAcls(reply::DeleteAcls { results });
    let answer = content(&delete_acls::DeleteAclsRequest::default(), 1, reply);
    let expected = [
        &b"\0\0\0\x2a\0\0\0\0\0\0\0\x03"[..],
        b"\0\0\xff\xff\0\0\0\x01\0\0\xff\xff\x02\0\x01t\x04\0\x06User:b\0\x01*\x03\x03",
        b"\0*\0\x14Unknown entryFilter.\0\0\0\0",
        b"\0\0\xff\xff\0\0\0\0",
    ];
    assert_eq!(answer, expected.concat());
}

#[test]
fn all_users_are_asked_for_with_null_and_with_an_empty_list() {
    let users = |users: Option<Vec<&str>>| {
        let name = |name: &str| describe_user_scram_credentials::UserName { name: text(name) };
        let users = users.map(|users| users.into_iter().map(name).collect());
        match op(&describe_user_scram_credentials::DescribeUserScramCredentialsRequest { users }, 0) {
            Op::DescribeUserScramCredentials(op) => op.users,
            op => panic!("{op:?}"),
        }
    };
    assert_eq!(users(None), None);
    assert_eq!(users(Some(vec![])), None);
    assert_eq!(users(Some(vec!["a", "a"])), Some(vec![text("a"), text("a")]));
}

/// The bytes are those of a live Kafka 4.3.
#[test]
fn users_are_shown_as_kafka_does() {
    let missing = Refusal::new(
        ErrorCode::ResourceNotFound,
        "Attempt to describe a user credential that does not exist: x",
    );
    let users = vec![
        reply::ScramUser { user: text("bob"), result: Ok(vec![(ScramMechanism::Sha256, 4096)]) },
        reply::ScramUser { user: text("x"), result: Err(missing) },
    ];
    let reply = reply::DescribeUserScramCredentials { result: Ok(users) };
    let request = describe_user_scram_credentials::DescribeUserScramCredentialsRequest::default();
    let answer = content(&request, 0, Reply::DescribeUserScramCredentials(reply));
    let expected = [
        &b"\0\0\0\x2a\0\0\0\0\0\0\0\x01\x03\x04bob\0\0\x01\x02\x01\0\0\x10\0\0\0"[..],
        b"\x02x\0[=Attempt to describe a user credential that does not exist: x\x01\0\0",
    ];
    assert_eq!(answer, expected.concat());

    let reply =
        reply::DescribeUserScramCredentials { result: Err(ErrorCode::ClusterAuthorizationFailed.into()) };
    assert_eq!(exchange(&request, 0, Reply::DescribeUserScramCredentials(reply)).error_code, 31);
}

#[test]
fn a_salted_password_becomes_what_is_kept_of_it() {
    let upsertion =
        |mechanism, salted_password: &'static [u8]| alter_user_scram_credentials::ScramCredentialUpsertion {
            name: text("bob"),
            mechanism,
            iterations: 4096,
            salt: Bytes::from_static(b"salt"),
            salted_password: Bytes::from_static(salted_password),
        };
    let deletion =
        |mechanism| alter_user_scram_credentials::ScramCredentialDeletion { name: text("ann"), mechanism };
    let request = alter_user_scram_credentials::AlterUserScramCredentialsRequest {
        deletions: vec![deletion(2), deletion(9)],
        upsertions: vec![
            upsertion(1, &[7; 32]),
            upsertion(2, &[7; 64]),
            upsertion(1, &[7; 31]),
            upsertion(0, &[7; 32]),
        ],
    };
    let Op::AlterUserScramCredentials(op) = op(&request, 0) else { panic!("an op") };
    let kinds: Vec<_> = op.deletions.iter().map(|deletion| deletion.mechanism).collect();
    assert_eq!(kinds, [Ok(ScramMechanism::Sha512), Err(9)]);
    let [short, long, wrong, none] = &op.upsertions[..] else { panic!("{op:?}") };
    assert_eq!(
        (short.user.as_str(), short.mechanism, short.iterations),
        ("bob", Ok(ScramMechanism::Sha256), 4096)
    );
    let kept = short.credential.as_ref().unwrap();
    assert_eq!((&kept.salt[..], kept.iterations), (&b"salt"[..], 4096));
    // As Python's own hmac and hashlib make them.
    assert_eq!(hex(&kept.stored_key), "ce070ec55f16927529272711132ac6e1568fe921ceac0c8dc2017d264232f77a");
    assert_eq!(hex(&kept.server_key), "d4a3cf039114f007712e98d612c9a92d2b7626328566d61cfecbbb2c9483f8e9");
    let kept = long.credential.as_ref().unwrap();
    assert_eq!((kept.stored_key.len(), kept.server_key.len()), (64, 64));
    assert_eq!((wrong.mechanism, &wrong.credential), (Ok(ScramMechanism::Sha256), &None));
    assert_eq!((none.mechanism, &none.credential), (Err(0), &None));
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes are those of a live Kafka 4.3.
#[test]
fn what_became_of_passwords_is_told_as_kafka_does() {
    let refusal = Refusal::new(ErrorCode::UnacceptableCredential, "Too few iterations");
    let users = vec![(text("ann"), None), (text("bob"), Some(refusal))];
    let reply = Reply::AlterUserScramCredentials(reply::AlterUserScramCredentials { users });
    let request = alter_user_scram_credentials::AlterUserScramCredentialsRequest::default();
    let answer = content(&request, 0, reply);
    let expected = [&b"\0\0\0\x2a\0\0\0\0\0\x03\x04ann\0\0\0\0"[..], b"\x04bob\0]\x13Too few iterations\0\0"];
    assert_eq!(answer, expected.concat());
}
