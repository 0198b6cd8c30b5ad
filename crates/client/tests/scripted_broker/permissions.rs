//! What users may do, and their passwords.

use client::{Client, ClientError, Options, Password, ScramChange, ScramUser};
use coordination::access::{Acl, Operation, PatternType, Permission, Resource, ResourceType};
use coordination::error_code::ErrorCode;
use coordination::op::AclFilter;
use coordination::record::ScramMechanism;
use sasl::scram::Variant;
use sasl::{Credential, verify_password};
use wire::api::alter_user_scram_credentials::{
    AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse, AlterUserScramCredentialsResult,
};
use wire::api::create_acls::{AclCreation, AclCreationResult, CreateAclsResponse};
use wire::api::delete_acls::{DeleteAclsFilterResult, DeleteAclsMatchingAcl, DeleteAclsResponse};
use wire::api::describe_acls::{AclDescription, DescribeAclsResource, DescribeAclsResponse};
use wire::api::describe_user_scram_credentials::{
    CredentialInfo, DescribeUserScramCredentialsResponse, DescribeUserScramCredentialsResult,
};
use wire::{AnyRequest, AnyResponse, ApiKey};

use super::{broker, versions};

fn text(text: &str) -> String {
    text.to_owned()
}

async fn client(answer: impl Fn(AnyRequest) -> AnyResponse + Clone + Send + 'static) -> Client {
    let address = broker(move |_, request| match request {
        AnyRequest::ApiVersions(_) => versions(&[
            (ApiKey::DescribeAcls, 1, 3),
            (ApiKey::CreateAcls, 1, 3),
            (ApiKey::DeleteAcls, 1, 3),
            (ApiKey::DescribeUserScramCredentials, 0, 0),
            (ApiKey::AlterUserScramCredentials, 0, 0),
        ]),
        request => answer(request),
    })
    .await;
    Client::connect(&[address], Options::default()).await.unwrap()
}

fn acl(name: &str) -> Acl {
    Acl {
        resource: Resource { kind: ResourceType::Topic, name: text(name), pattern: PatternType::Literal },
        principal: text("User:ann"),
        host: text("*"),
        operation: Operation::Read,
        permission: Permission::Allow,
    }
}

fn all() -> AclFilter {
    AclFilter {
        kind: None,
        name: None,
        pattern: 1,
        principal: None,
        host: None,
        operation: None,
        permission: None,
    }
}

#[tokio::test]
async fn each_new_rule_has_its_own_result() {
    let mut client = client(|request| {
        let AnyRequest::CreateAcls(request) = request else { panic!("{request:?}") };
        assert_eq!(request.creations, [AclCreation::from(&acl("a")), (&acl("b")).into(), (&acl("c")).into()]);
        let refused = AclCreationResult { error_code: 42, error_message: Some(text("no")) };
        CreateAclsResponse { results: vec![AclCreationResult::default(), refused], ..Default::default() }
            .into()
    })
    .await;
    let results = client.create_acls(&[acl("a"), acl("b"), acl("c")]).await.unwrap();
    let [first, second, third] = &results[..] else { panic!("{results:?}") };
    assert!(first.is_ok());
    assert_eq!(second.as_ref().unwrap_err().code(), Some(ErrorCode::InvalidRequest));
    assert!(matches!(third, Err(ClientError::Unanswered { .. })), "{third:?}");
}

#[tokio::test]
async fn rules_are_read_as_they_were_written() {
    let mut client = client(|request| {
        let AnyRequest::DescribeAcls(request) = request else { panic!("{request:?}") };
        let acl = |operation| AclDescription {
            principal: text("User:ann"),
            host: text("*"),
            operation,
            permission_type: 3,
        };
        // Whoever asks for denials is shown one of a later Kafka.
        let acls = if request.permission_type == 2 { vec![acl(77)] } else { vec![acl(3)] };
        let resource = |name: &str| DescribeAclsResource {
            resource_type: 2,
            resource_name: text(name),
            pattern_type: 3,
            acls: acls.clone(),
        };
        let resources = vec![resource("a"), resource("b")];
        DescribeAclsResponse { resources, ..Default::default() }.into()
    })
    .await;
    assert_eq!(client.describe_acls(&all()).await.unwrap(), [acl("a"), acl("b")]);
    let denials = AclFilter { permission: Some(Permission::Deny), ..all() };
    let error = client.describe_acls(&denials).await.unwrap_err();
    assert_eq!(error.to_string(), "the broker tells of operation 77, which this client does not know");
}

#[tokio::test]
async fn rules_that_are_gone_are_told_filter_by_filter() {
    let mut client = client(|request| {
        let AnyRequest::DeleteAcls(request) = request else { panic!("{request:?}") };
        assert_eq!(request.filters.len(), 2);
        let gone = DeleteAclsMatchingAcl {
            resource_type: 2,
            resource_name: text("a"),
            principal: text("User:ann"),
            host: text("*"),
            operation: 3,
            permission_type: 3,
            ..Default::default()
        };
        let done = DeleteAclsFilterResult { matching_acls: vec![gone], ..Default::default() };
        let refused = DeleteAclsFilterResult { error_code: 31, ..Default::default() };
        DeleteAclsResponse { filter_results: vec![done, refused], ..Default::default() }.into()
    })
    .await;
    let results = client.delete_acls(&[all(), all()]).await.unwrap();
    assert_eq!(results[0].as_ref().unwrap(), &[acl("a")]);
    assert_eq!(results[1].as_ref().unwrap_err().code(), Some(ErrorCode::ClusterAuthorizationFailed));
}

#[tokio::test]
async fn users_are_told_by_name_with_the_kinds_of_their_passwords() {
    let mut client = client(|request| {
        let AnyRequest::DescribeUserScramCredentials(request) = request else { panic!("{request:?}") };
        let user = |name: &str, mechanism| DescribeUserScramCredentialsResult {
            user: text(name),
            credential_infos: vec![CredentialInfo { mechanism, iterations: 4096 }],
            ..Default::default()
        };
        let missing = || DescribeUserScramCredentialsResult {
            user: text("x"),
            error_code: ErrorCode::ResourceNotFound.number(),
            ..Default::default()
        };
        let results = match request.users {
            None => vec![user("bob", 1), user("ann", 2)],
            Some(_) => vec![missing()],
        };
        DescribeUserScramCredentialsResponse { results, ..Default::default() }.into()
    })
    .await;
    let user = |name: &str, mechanism| ScramUser { user: text(name), kinds: vec![(mechanism, 4096)] };
    assert_eq!(
        client.scram_users(None).await.unwrap(),
        [user("ann", ScramMechanism::Sha512), user("bob", ScramMechanism::Sha256)]
    );
    assert_eq!(client.scram_users(Some(&[])).await.unwrap(), []);
    let error = client.scram_users(Some(&[text("x")])).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::ResourceNotFound));
}

fn is_secret(request: &AlterUserScramCredentialsRequest) -> bool {
    let [sent] = &request.upsertions[..] else { panic!("{request:?}") };
    assert_eq!((sent.name.as_str(), sent.mechanism, sent.iterations), ("ann", 1, 4096));
    let kept = Credential::from_salted_password(Variant::Sha256, &sent.salted_password, &sent.salt, 4096);
    verify_password(&kept.unwrap(), "secret")
}

#[tokio::test]
async fn a_broker_is_given_a_password_that_it_can_check_and_not_the_password() {
    let mut client = client(|request| {
        let AnyRequest::AlterUserScramCredentials(request) = request else { panic!("{request:?}") };
        let result = |user: &str, error_code| AlterUserScramCredentialsResult {
            user: text(user),
            error_code,
            error_message: None,
        };
        let results = match &request.deletions[..] {
            // As Kafka does it, which takes one change of a user at a time.
            [bob] if bob.name == "bob" => {
                assert!(is_secret(&request));
                vec![result("ann", 0), result("bob", ErrorCode::ResourceNotFound.number())]
            }
            [ann] if ann.name == "ann" => {
                assert_eq!((ann.mechanism, request.upsertions.len()), (2, 0));
                vec![result("ann", 0)]
            }
            _ => panic!("{request:?}"),
        };
        AlterUserScramCredentialsResponse { results, ..Default::default() }.into()
    })
    .await;
    let set = ScramChange::Set {
        user: text("ann"),
        mechanism: ScramMechanism::Sha256,
        password: Password::new("secret"),
        iterations: 4096,
    };
    assert!(!format!("{set:?}").contains("secret"), "{set:?}");
    let delete = |user| ScramChange::Delete { user: text(user), mechanism: ScramMechanism::Sha512 };
    let results = client.alter_scram_users(vec![set, delete("ann"), delete("bob")]).await.unwrap();
    let [set, deleted, missing] = &results[..] else { panic!("{results:?}") };
    assert!(set.is_ok() && deleted.is_ok(), "{results:?}");
    assert_eq!(missing.as_ref().unwrap_err().code(), Some(ErrorCode::ResourceNotFound));
}
