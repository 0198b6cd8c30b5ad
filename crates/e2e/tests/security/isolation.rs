//! Organisations never meet: what one has does not exist for another, by whatever API it asks.

use std::collections::BTreeMap;

use bytes::Bytes;
use wire::api::{metadata, sasl_authenticate, sasl_handshake};
use wire::{ApiKey, Uuid};

use crate::probes::{self, Answered, Names};
use crate::support::member::{COMMIT, LONG, Member};
use crate::support::{Connection, one};
use crate::world::{AUTHORIZER, World};

/// PLAIN in clear, so that a raw connection can log in with one message.
const PLAIN: [(&str, &str); 2] = [
    ("listener.name.bare.kohort.sasl.plain.without.tls", "true"),
    ("listener.name.bare.sasl.enabled.mechanisms", "PLAIN,SCRAM-SHA-256"),
];

const WITH_ACLS: [(&str, &str); 2] =
    [AUTHORIZER, ("super.users", "User:ANONYMOUS;User:ann;User:acme/ann;User:other/ann")];

/// What is in the record that nobody else may read.
const SECRET: &str = "classified";

#[test]
fn nothing_of_an_organisation_exists_for_another_without_acls() {
    nothing_is_found(&World::start(&PLAIN));
}

#[test]
fn nothing_of_an_organisation_exists_for_another_with_acls() {
    nothing_is_found(&World::start(&[PLAIN, WITH_ACLS].concat()));
}

fn nothing_is_found(world: &World) {
    world.populate();
    world.admin(&["org", "create", "other"]);
    world.create_user("ann", "third secret", &["--org", "other"]);
    let mut owner = log_in(world, "acme/ann", "another secret");
    world.create_user("their-user", "fourth secret", &["--org", "acme"]);
    let names = furnish(&mut owner);
    let before = seen_by_owner(&mut owner, &names);

    let absent = Names {
        topic: "absent-topic".to_owned(),
        id: Uuid(0x0199_7a5d_3c1e_8f00_1234_5678_9abc_def0),
        group: "absent-group".to_owned(),
        user: "absent-user".to_owned(),
    };
    let strangers = [
        ("another organisation's user", log_in(world, "other/ann", "third secret")),
        ("the default organisation's user", log_in(world, "ann", "short secret")),
        ("somebody who was not asked", Connection::open(&world.kohort.bootstrap())),
    ];
    for (who, mut stranger) in strangers {
        let about_others = probes::ask_everything(&mut stranger, &names);
        let about_nothing = probes::ask_everything(&mut stranger, &absent);
        for (found, nothing) in about_others.iter().zip(&about_nothing) {
            let place = format!("{} {} asked by {who}", found.api.name(), found.version);
            assert!(!found.text.contains(SECRET), "{place}: {}", found.text);
            assert_eq!(found.text, nothing.text, "{place}");
        }
    }
    let after = seen_by_owner(&mut owner, &names);
    assert_eq!(before, after, "what strangers asked for changed something");
    assert_eq!(owner.values(&names.topic, 0, 0).unwrap(), [SECRET]);
}

/// Who has not logged in gets no answer from a listener that asks for it.
#[test]
fn a_listener_that_asks_who_one_is_answers_nothing_before() {
    let world = World::start(&PLAIN);
    world.populate();
    let names = furnish(&mut log_in(&world, "acme/ann", "another secret"));
    for &api in ApiKey::ANSWERED {
        for (version, request) in probes::requests(api, &names) {
            let mut stranger = Connection::open(&world.kohort.listener("BARE"));
            let answered = probes::ask(&mut stranger, api, version, &request);
            let answered = answered.map(|text| Answered { api, version, text });
            let is_refused = match &answered {
                Err(_) => true,
                Ok(answer) => answer.errors().contains(&ILLEGAL_SASL_STATE),
            };
            assert!(is_refused, "{} {version}: {:?}", api.name(), answered.map(|answer| answer.text));
        }
    }
}

const ILLEGAL_SASL_STATE: i16 = 34;

/// Logs in with PLAIN.
pub(crate) fn log_in(world: &World, user: &str, password: &str) -> Connection {
    let mut connection = Connection::open(&world.kohort.listener("BARE"));
    let handshake = sasl_handshake::SaslHandshakeRequest { mechanism: "PLAIN".to_owned() };
    assert_eq!(connection.ask(&handshake, 1).error_code, 0);
    let auth_bytes = Bytes::from(format!("\0{user}\0{password}"));
    let answer = connection.ask(&sasl_authenticate::SaslAuthenticateRequest { auth_bytes }, 2);
    assert_eq!(answer.error_code, 0, "{user}: {:?}", answer.error_message);
    connection
}

/// Gives an organisation a topic with a record, and a group with a member and an offset.
fn furnish(owner: &mut Connection) -> Names {
    let (topic, group) = ("their-topic", "their-group");
    owner.create_topic(topic, 1);
    owner.produce(topic, 0, one(SECRET)).unwrap();
    let mut member = Member::on(owner.twin(), group);
    (member.session_ms, member.rebalance_ms) = (LONG, LONG);
    member.settle_alone();
    let mut commit = member.commit_request(0, 1);
    topic.clone_into(&mut commit.topics[0].name);
    assert_eq!(member.connection.ask(&commit, COMMIT).topics[0].partitions[0].error_code, 0);
    let request = metadata::MetadataRequest {
        topics: Some(vec![metadata::MetadataRequestTopic {
            topic_id: Uuid::ZERO,
            name: Some(topic.to_owned()),
        }]),
        ..Default::default()
    };
    let id = owner.ask(&request, 12).topics[0].topic_id;
    assert_ne!(id, Uuid::ZERO);
    Names { topic: topic.to_owned(), id, group: group.to_owned(), user: "their-user".to_owned() }
}

/// What the owner itself sees by the APIs that change nothing.
fn seen_by_owner(owner: &mut Connection, names: &Names) -> BTreeMap<String, String> {
    let looking = [
        ApiKey::ListOffsets,
        ApiKey::Metadata,
        ApiKey::OffsetFetch,
        ApiKey::DescribeGroups,
        ApiKey::ListGroups,
        ApiKey::DescribeConfigs,
        ApiKey::DescribeTopicPartitions,
        ApiKey::DescribeUserScramCredentials,
    ];
    let mut seen = BTreeMap::new();
    for api in looking {
        for (place, (version, request)) in probes::requests(api, names).into_iter().enumerate() {
            let text = probes::ask(owner, api, version, &request).unwrap();
            seen.insert(format!("{} {version} {place}", api.name()), text);
        }
    }
    assert!(seen.values().any(|text| text.contains(&names.group)), "{seen:?}");
    seen
}
