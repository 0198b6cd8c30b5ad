use std::collections::BTreeMap;

use broker::admin::Failure;
use coordination::catalog::{AdminError, ScramCredentials, TOPIC_NAME_OF_OFFSETS};
use coordination::error_code::ErrorCode;
use coordination::ids::{OrgId, PartitionKey, TopicId};
use coordination::op::{self, Op};
use coordination::record::{OrgLimits, ScramCredential, ScramMechanism};
use coordination::reply::{self, Reply};
use store::Crash;

use crate::group_world::{AT_ONCE, soon};
use crate::world::{World, fetch, records};

fn password(byte: u8) -> ScramCredentials {
    let credential = ScramCredential {
        salt: vec![byte; 16],
        iterations: 4096,
        stored_key: vec![byte; 32],
        server_key: vec![byte; 32],
    };
    BTreeMap::from([(ScramMechanism::Sha256, credential)])
}

impl World {
    pub(crate) async fn org(&self, name: &str) -> OrgId {
        self.broker.admin().create_org(name, OrgLimits::default()).await.unwrap().id
    }

    fn login(&self, org: Option<&str>, user: &str) -> reply::Credentials {
        let op = op::Credentials { org: org.map(str::to_owned), user: user.to_owned() };
        match self.call(Op::Credentials(op)) {
            rail::Answer::Now(Reply::Credentials(reply)) => reply,
            _ => panic!("credentials are told at once"),
        }
    }

    pub(crate) async fn create_refusal(&self, name: &str) -> Option<ErrorCode> {
        let topic = op::NewTopic {
            name: name.to_owned(),
            num_partitions: 1,
            replication_factor: 1,
            assignments: Vec::new(),
            configs: Vec::new(),
        };
        let op = op::CreateTopics { topics: vec![topic], validate_only: false };
        match self.call(Op::CreateTopics(op)).reply().await.unwrap() {
            Reply::CreateTopics(mut made) => made.topics.remove(0).result.err().map(|refusal| refusal.code),
            other => panic!("{other:?}"),
        }
    }

    /// How many facts about groups `__kohort` holds.
    fn groups_remembered(&self) -> usize {
        let log = self.broker.store().partition(PartitionKey { topic: TopicId::KOHORT, partition: 1 });
        let mut facts = BTreeMap::new();
        let mut offset = log.start_offset();
        while offset < log.end_offset() {
            let read = log.read(offset, 1 << 20, true).unwrap();
            for record in records(&read.chunks) {
                facts.insert(record.key.unwrap(), record.value.is_some());
            }
            offset = read.next_offset;
        }
        facts.values().filter(|is_there| **is_there).count()
    }

    /// All that the organisation's `__consumer_offsets` says, in its keys.
    async fn offsets_topic_keys(&self) -> String {
        let topic = self.broker.topics().by_name(self.carrier.org(), TOPIC_NAME_OF_OFFSETS).unwrap();
        let mut keys = Vec::new();
        for index in 0..i32::try_from(topic.partitions.len()).unwrap() {
            let fetched = self.fetch(fetch(TOPIC_NAME_OF_OFFSETS, &[(index, 0)])).await;
            let part = &fetched.topics[0].partitions[0];
            assert_eq!(part.error, None);
            keys.extend(
                records(&part.records).iter().flat_map(|record| record.key.clone().unwrap_or_default()),
            );
        }
        String::from_utf8_lossy(&keys).into_owned()
    }
}

#[tokio::test]
async fn the_same_names_in_two_organisations_never_meet() {
    let world = World::with_groups().await;
    let acme = world.seen_by(world.org("acme").await, "User:alice");
    acme.create("orders", 2, &[]).await;
    world.append("orders", 0, 3).await;
    assert_eq!(acme.append("orders", 0, 1).await, 0);
    assert_eq!(acme.values("orders", 0, 0).await, ["v0"]);
    assert_eq!(world.values("orders", 0, 0).await.len(), 3);

    let (member, generation) = world.stable("billing").await;
    let (other, other_generation) = acme.stable("billing").await;
    assert_eq!(world.describe("billing").await.members.len(), 1);
    assert_eq!(acme.heartbeat("billing", &member, generation), Some(ErrorCode::UnknownMemberId));
    assert_eq!(world.commit("billing", &member, generation, 7).await, None);
    assert_eq!(acme.offset("billing").await, Ok(-1));
    assert_eq!(acme.commit("billing", &other, other_generation, 1).await, None);
    assert_eq!((world.offset("billing").await, acme.offset("billing").await), (Ok(7), Ok(1)));

    acme.delete("orders").await;
    assert_eq!(world.offset("billing").await, Ok(7), "what is deleted in one is there in the other");
    assert_eq!(world.values("orders", 0, 0).await.len(), 3);
}

#[tokio::test]
async fn each_organisations_offsets_topic_shows_its_own_groups_only() {
    let world = World::with_groups().await;
    let acme = world.seen_by(world.org("acme").await, "User:alice");
    acme.create("orders", 1, &[]).await;
    world.stable("ours").await;
    acme.stable("theirs").await;
    assert_eq!(world.commit("ours-too", "", -1, 1).await, None);
    assert_eq!(acme.commit("theirs-too", "", -1, 1).await, None);
    let (ours, theirs) = (world.offsets_topic_keys().await, acme.offsets_topic_keys().await);
    assert!(ours.contains("ours") && ours.contains("ours-too") && !ours.contains("theirs"), "{ours}");
    assert!(
        theirs.contains("theirs") && theirs.contains("theirs-too") && !theirs.contains("ours"),
        "{theirs}"
    );
    let names =
        |listed: Vec<reply::ListedGroup>| listed.into_iter().map(|group| group.group).collect::<Vec<_>>();
    assert_eq!(names(acme.list().await.unwrap()), ["theirs", "theirs-too"]);
}

#[tokio::test]
async fn organisations_users_and_gateways_are_there_after_a_crash() {
    let world = World::with(&AT_ONCE).await;
    let admin = world.broker.admin();
    let limits = OrgLimits { topics: Some(1), ..OrgLimits::default() };
    let acme = admin.create_org("acme", limits).await.unwrap();
    admin.set_limits("acme", vec![("max.connections".to_owned(), Some(0))]).await.unwrap();
    admin.create_user("acme", "alice", password(1)).await.unwrap();
    admin.create_user("default", "alice", password(2)).await.unwrap();
    admin.create_user("acme", "bob", password(3)).await.unwrap();
    admin.set_password("acme", "alice", password(4)).await.unwrap();
    admin.delete_user("acme", "bob").await.unwrap();
    let (first, second) = ("ab".repeat(32), "cd".repeat(32));
    let nodes = [
        world.broker.allow_gateway(&first).await.unwrap(),
        world.broker.allow_gateway(&second).await.unwrap(),
    ];
    world.broker.deny_gateway(&first).await.unwrap();
    let decoy = world.login(Some("acme"), "bob");
    {
        let acme = world.seen_by(acme.id, "User:alice");
        acme.create("orders", 1, &[]).await;
        assert_eq!(acme.commit("billing", "", -1, 5).await, None);
    }

    let world = world.crash(Crash::LosesAll).await;
    world.groups_are_loaded().await;
    let stored = world.broker.admin().look(|catalog| catalog.org_named("acme").cloned()).unwrap();
    assert_eq!((stored.id, stored.limits.topics, stored.limits.connections), (acme.id, Some(1), Some(0)));
    let alice = world.login(Some("acme"), "alice").login.unwrap();
    assert_eq!(alice.org, acme.id);
    assert_eq!(alice.credentials, password(4).into_iter().collect::<Vec<_>>());
    assert_eq!(
        world.login(None, "alice").login.unwrap().credentials,
        password(2).into_iter().collect::<Vec<_>>()
    );
    assert_eq!(world.login(Some("acme"), "bob"), decoy, "nobody can tell that bob was ever there");
    assert_eq!(world.login(Some("nowhere"), "alice").login, None);
    let gateways = world.broker.admin().look(|catalog| catalog.gateways().cloned().collect::<Vec<_>>());
    let seen: Vec<_> = gateways.iter().map(|gateway| (gateway.node_id, gateway.is_allowed)).collect();
    assert_eq!(seen, [(nodes[0].node_id, false), (nodes[1].node_id, true)]);

    let alice = world.seen_by(acme.id, "User:alice");
    alice.groups_are_loaded().await;
    assert_eq!(alice.offset("billing").await, Ok(5));
    assert_eq!(alice.create_refusal("more").await, Some(ErrorCode::PolicyViolation));
    assert!(matches!(alice.call(Op::Enter), rail::Answer::Now(Reply::Enter(Some(_)))));
}

#[tokio::test]
async fn with_an_organisation_go_its_groups() {
    let world = World::with_groups().await;
    let acme = world.seen_by(world.org("acme").await, "User:alice");
    acme.create("orders", 1, &[]).await;
    let (member, generation) = acme.stable("billing").await;
    assert_eq!(acme.commit("billing", &member, generation, 5).await, None);
    assert!(world.groups_remembered() > 0);
    let waiting = acme.call(Op::JoinGroup(crate::group_world::join_op("billing", "")));

    let admin = world.broker.admin();
    let refused = admin.delete_org("acme").await.unwrap_err();
    assert!(matches!(refused, Failure::Refused(AdminError::Conflict(_))), "it has a topic");
    acme.delete("orders").await;
    admin.delete_org("acme").await.unwrap();

    let Reply::JoinGroup(joined) = soon(waiting.reply()).await.unwrap() else { panic!() };
    assert_eq!(joined.result.unwrap_err(), ErrorCode::NotCoordinator, "who waits is sent away");
    assert_eq!(acme.heartbeat("billing", &member, generation), Some(ErrorCode::NotCoordinator));
    assert_eq!(acme.list().await, Ok(Vec::new()));
    assert_eq!(acme.create_refusal("orders").await, Some(ErrorCode::ClusterAuthorizationFailed));
    assert!(matches!(acme.call(Op::Enter), rail::Answer::Now(Reply::Enter(Some(_)))));
    assert_eq!(world.broker.usage(acme.carrier.org()), broker::ShareUsage::default());
    assert_eq!(world.broker.topics().names(acme.carrier.org()).len(), 0);
    // What its groups had beside Kafka's formats goes in the background.
    soon(async {
        while world.groups_remembered() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let org = acme.carrier.org();
    drop(acme);

    let world = world.crash(Crash::KeepsAll).await;
    world.groups_are_loaded().await;
    assert_eq!(world.broker.group_story(org, "billing").await, Ok(None));
    let acme = world.seen_by(world.org("acme").await, "User:alice");
    assert_ne!(acme.carrier.org(), org);
    assert_eq!(acme.list().await, Ok(Vec::new()), "its groups can be used at once");
}

#[tokio::test]
async fn passwords_are_given_and_taken_by_kafkas_api_within_the_organisation() {
    let world = World::new().await;
    let acme = world.seen_by(world.org("acme").await, "User:root");
    let credential = password(9).remove(&ScramMechanism::Sha256).unwrap();
    let given = op::NewScramCredential {
        user: "alice".to_owned(),
        mechanism: Ok(ScramMechanism::Sha256),
        iterations: 4096,
        salt: credential.salt.clone().into(),
        credential: Some(credential.clone()),
    };
    let op = op::AlterUserScramCredentials { deletions: Vec::new(), upsertions: vec![given] };
    let altered = acme.call(Op::AlterUserScramCredentials(op)).reply().await.unwrap();
    let Reply::AlterUserScramCredentials(altered) = altered else { panic!() };
    assert_eq!(altered.users, [("alice".to_owned(), None)]);
    assert_eq!(
        acme.login(Some("acme"), "alice").login.unwrap().credentials,
        [(ScramMechanism::Sha256, credential)]
    );
    assert!(acme.login(None, "alice").login.unwrap().credentials.is_empty());

    let shown = |world: &World| {
        let op = op::DescribeUserScramCredentials { users: None };
        match world.call(Op::DescribeUserScramCredentials(op)) {
            rail::Answer::Now(Reply::DescribeUserScramCredentials(reply)) => {
                reply.result.unwrap().into_iter().map(|user| user.user).collect::<Vec<_>>()
            }
            _ => panic!("it is answered at once"),
        }
    };
    assert_eq!((shown(&acme), shown(&world)), (vec!["alice".to_owned()], Vec::new()));
}
