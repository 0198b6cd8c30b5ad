//! What every API answers to somebody who may do nothing.

use wire::{ApiKey, Uuid};

use crate::isolation::log_in;
use crate::probes::{self, Names};
use crate::support::Connection;
use crate::world::{AUTHORIZER, TOPIC, World};

const SETTINGS: [(&str, &str); 4] = [
    ("listener.name.bare.kohort.sasl.plain.without.tls", "true"),
    ("listener.name.bare.sasl.enabled.mechanisms", "PLAIN"),
    AUTHORIZER,
    ("super.users", "User:ANONYMOUS"),
];

const TOPIC_REFUSED: i16 = 29;
const GROUP_REFUSED: i16 = 30;
const CLUSTER_REFUSED: i16 = 31;
const TRANSACTIONAL_ID_REFUSED: i16 = 53;
const UNKNOWN_TOPIC_ID: i16 = 100;

/// The errors with which an API refuses who may do nothing; `None` for those that ask for no permission or show only
/// what one may see.
fn refused_with(api: ApiKey) -> Option<&'static [i16]> {
    match api {
        ApiKey::ApiVersions | ApiKey::SaslHandshake | ApiKey::SaslAuthenticate => None,
        ApiKey::ListGroups | ApiKey::DescribeCluster => None,
        // Whether there is such an id is not told either.
        ApiKey::Produce
        | ApiKey::Fetch
        | ApiKey::Metadata
        | ApiKey::DeleteTopics
        | ApiKey::DescribeTopicPartitions => Some(&[TOPIC_REFUSED, UNKNOWN_TOPIC_ID]),
        ApiKey::ListOffsets
        | ApiKey::CreateTopics
        | ApiKey::DeleteRecords
        | ApiKey::OffsetForLeaderEpoch
        | ApiKey::AlterConfigs
        | ApiKey::IncrementalAlterConfigs
        | ApiKey::CreatePartitions => Some(&[TOPIC_REFUSED]),
        ApiKey::DescribeConfigs => Some(&[TOPIC_REFUSED, GROUP_REFUSED]),
        ApiKey::OffsetCommit
        | ApiKey::OffsetFetch
        | ApiKey::FindCoordinator
        | ApiKey::JoinGroup
        | ApiKey::Heartbeat
        | ApiKey::LeaveGroup
        | ApiKey::SyncGroup
        | ApiKey::DescribeGroups
        | ApiKey::DeleteGroups
        | ApiKey::OffsetDelete => Some(&[GROUP_REFUSED]),
        // Nobody answers it.
        ApiKey::ConsumerGroupDescribe => None,
        ApiKey::InitProducerId => Some(&[TRANSACTIONAL_ID_REFUSED]),
        ApiKey::DescribeAcls
        | ApiKey::CreateAcls
        | ApiKey::DeleteAcls
        | ApiKey::DescribeLogDirs
        | ApiKey::ListPartitionReassignments
        | ApiKey::DescribeClientQuotas
        | ApiKey::DescribeUserScramCredentials
        | ApiKey::AlterUserScramCredentials => Some(&[CLUSTER_REFUSED]),
    }
}

#[test]
fn every_api_asks_for_its_permission() {
    let world = World::start(&SETTINGS);
    world.populate();
    let mut operator = Connection::open(&world.kohort.bootstrap());
    operator.create_topic(TOPIC, 1);
    let names = Names {
        topic: TOPIC.to_owned(),
        id: Uuid(0x0199_7a5d_3c1e_8f00_1234_5678_9abc_def0),
        group: "readers".to_owned(),
        user: "somebody".to_owned(),
    };
    let mut zoe = log_in(&world, "zoe", "sécrèt");
    for answered in probes::ask_everything(&mut zoe, &names) {
        let place = format!("{} {}: {}", answered.api.name(), answered.version, answered.text);
        let errors = answered.errors();
        match refused_with(answered.api) {
            // Questions about everything are answered with what one may see, which is nothing.
            None => assert!(errors.is_empty() && !answered.text.contains("GROUP"), "{place}"),
            Some(expected) if errors.is_empty() => {
                let lists = [ApiKey::Metadata, ApiKey::DescribeTopicPartitions];
                assert!(
                    lists.contains(&answered.api) && !answered.text.contains("TOPIC"),
                    "{expected:?} {place}"
                );
            }
            Some(expected) => {
                assert!(errors.iter().all(|error| expected.contains(error)), "{expected:?} {place}");
            }
        }
    }
}
