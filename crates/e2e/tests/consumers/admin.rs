//! Groups as librdkafka's administration sees them. What it does not have, deleting offsets and removing members,
//! `kohort group` does beside Kafka's own tool in `group_command.rs`.

use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{CommitMode, Consumer};
use rdkafka::error::RDKafkaErrorCode;
use tokio::runtime::Runtime;

use crate::reader::{Reader, until};
use crate::world::World;

const PATIENCE: Duration = Duration::from_secs(20);

/// Proves E2E-26: listing, showing, deleting.
#[test]
fn groups_are_listed_shown_and_deleted() {
    let world = World::enter("admin");
    let topic = world.create("t", 1);
    let name = world.named("g");
    let reader = Reader::new(world.settings("g").set("client.id", "the reader")).subscribed(&[&topic]);
    until("it has all", &[&reader], || reader.assignment().len() == 1);
    reader.commit(&topic, 0, 5, "", CommitMode::Sync).unwrap();

    let listed = || {
        let groups = reader.consumer.fetch_group_list(None, PATIENCE).unwrap();
        groups.groups().iter().any(|group| group.name() == name)
    };
    assert!(listed());
    let shown = reader.consumer.fetch_group_list(Some(&name), PATIENCE).unwrap();
    let [group] = shown.groups() else { panic!("one group") };
    assert_eq!((group.state(), group.protocol_type(), group.protocol()), ("Stable", "consumer", "range"));
    let [member] = group.members() else { panic!("one member") };
    assert_eq!((member.client_id(), member.client_host()), ("the reader", "/127.0.0.1"));
    assert!(member.assignment().is_some_and(|it| !it.is_empty()));

    let admin: AdminClient<DefaultClientContext> = world.settings("none").create().unwrap();
    let runtime = Runtime::new().unwrap();
    let delete = || {
        let mut answers = runtime.block_on(admin.delete_groups(&[&name], &AdminOptions::new())).unwrap();
        answers.remove(0).map_err(|(_, code)| code)
    };
    assert_eq!(delete(), Err(RDKafkaErrorCode::NonEmptyGroup));
    assert_eq!(world.offsets("g", &topic, 1), [5]);
    reader.consumer.unsubscribe();
    until("it has left", &[&reader], || world.group("g").members.is_empty());
    assert!(listed(), "an empty group is still there");
    assert_eq!(delete(), Ok(name.clone()));
    assert_eq!(world.offsets("g", &topic, 1), [-1]);
    assert!(!listed());
    assert_eq!(delete(), Err(RDKafkaErrorCode::GroupIdNotFound));
}
