//! Instances of the assigner on a real etcd, with consumers that do as they are told. Without an etcd on the machine
//! there is nothing to test, except where `CI=true`.
#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

mod world;

use std::collections::BTreeMap;
use std::time::Duration;

use assigner::{Assigner, Settings};
use assigner_client::proto::DeregisterAction;

use world::{Event, World, within};

#[tokio::test]
async fn partitions_are_spread_and_a_third_consumer_gets_its_share_by_warm_handoff() {
    let Some(mut world) = World::start(10).await else { return };
    world.join("a").await;
    world.join("b").await;
    world.until("both own five", |owned| owned == [("a", 5), ("b", 5)]).await;
    world.events.clear();
    world.join("c").await;
    world
        .until("four, three and three", |owned| {
            owned == [("a", 4), ("b", 3), ("c", 3)] || owned == [("a", 3), ("b", 4), ("c", 3)]
        })
        .await;

    let mut moved: BTreeMap<u32, Vec<&str>> = BTreeMap::new();
    for (name, event) in &world.events {
        match event {
            Event::Warm(partition) => {
                assert_eq!(name, "c");
                moved.entry(*partition).or_default().push("warm");
            }
            Event::Release(partition) => {
                assert_ne!(name, "c");
                moved.entry(*partition).or_default().push("release");
            }
            Event::Assigned(partition) => {
                assert_eq!(name, "c", "nobody else gets anything");
                moved.entry(*partition).or_default().push("assigned");
            }
            Event::Snapshot | Event::Unassigned(_) => {}
            Event::Cancel(_) | Event::Ended(_) => panic!("{:?}", world.events),
        }
    }
    assert_eq!(moved.len(), 3, "{moved:?}");
    for (partition, order) in moved {
        assert_eq!(order, ["warm", "release", "assigned"], "partition {partition}");
    }
    world.until_counted("kohort_assigner_handoffs_completed_total 3").await;
    world.until_counted("kohort_assigner_consumers 3").await;
    world.stop().await;
}

#[tokio::test]
async fn when_the_leader_stops_another_leads_at_once_and_consumers_go_on() {
    let Some(mut world) = World::start(4).await else { return };
    world.join("a").await;
    world.until("one owns all", |owned| owned == [("a", 4)]).await;
    let second = world.add_instance().await;
    assert!(!world.instances[second].is_leader());
    let first = world.instances.remove(0);
    // The lease of the leader would last for longer than this waits.
    within("the end of the first instance", first.stop()).await;
    world.until_event("the consumer is sent elsewhere", "a", |event| matches!(event, Event::Ended(_))).await;
    world.wait("the second instance leads", |world| world.instances[0].is_leader()).await;
    world.join("a").await;
    world.join("b").await;
    world.until("each owns two", |owned| owned == [("a", 2), ("b", 2)]).await;
    world.stop().await;
}

#[tokio::test]
async fn what_a_dead_consumer_owned_goes_to_others_without_a_handoff() {
    let settings = Settings { consumer_lease_ttl: Duration::from_secs(6), ..Settings::default() };
    let Some(mut world) = World::start_with(4, settings).await else { return };
    world.join("a").await;
    world.join("b").await;
    world.until("each owns two", |owned| owned == [("a", 2), ("b", 2)]).await;
    world.events.clear();
    world.kill("b").await;
    world.until("one owns all", |owned| owned == [("a", 4)]).await;
    assert!(!world.events.iter().any(|(_, event)| matches!(event, Event::Warm(_))), "{:?}", world.events);
    world.stop().await;
}

#[tokio::test]
async fn the_death_of_the_owner_completes_a_handoff_at_once() {
    let Some(mut world) = World::start(2).await else { return };
    world.join("a").await;
    world.until("one owns both", |owned| owned == [("a", 2)]).await;
    world.join_cold("b").await;
    world.until_event("it is to warm up", "b", |event| matches!(event, Event::Warm(_))).await;
    world.deregister("a", true).await;
    world.kill("a").await;
    world.until("the other owns both", |owned| owned.contains(&("b", 2))).await;
    world.until_counted("kohort_assigner_handoffs_completed_total 1").await;
    world.stop().await;
}

#[tokio::test]
async fn a_handoff_that_does_not_get_warm_in_time_is_given_up_and_the_owner_goes_on() {
    let settings = Settings { handoff_timeout: Duration::from_millis(500), ..Settings::default() };
    let Some(mut world) = World::start_with(2, settings).await else { return };
    world.join("a").await;
    world.until("one owns both", |owned| owned == [("a", 2)]).await;
    world.join_cold("b").await;
    world.until_event("it is to warm up", "b", |event| matches!(event, Event::Warm(_))).await;
    world.until_event("it is not to after all", "b", |event| matches!(event, Event::Cancel(_))).await;
    world.until_counted("kohort_assigner_handoffs_cancelled_total{reason=\"warming_timed_out\"} 1").await;
    world.until("the owner goes on", |owned| owned == [("a", 2), ("b", 0)]).await;
    world.stop().await;
}

#[tokio::test]
async fn a_consumer_that_leaves_hands_everything_over_first() {
    let Some(mut world) = World::start(4).await else { return };
    world.join("a").await;
    world.join("b").await;
    world.until("each owns two", |owned| owned == [("a", 2), ("b", 2)]).await;
    assert_eq!(world.deregister("b", false).await, DeregisterAction::WaitForDrain);
    world.until("it has handed over all", |owned| owned == [("a", 4), ("b", 0)]).await;
    assert_eq!(world.deregister("b", false).await, DeregisterAction::ShutdownNow);
    world.deregister("b", true).await;
    let status = world.status().await;
    assert_eq!(status.groups[0].consumers.len(), 1, "{status:?}");
    world.stop().await;
}

#[tokio::test]
async fn a_value_that_cannot_be_read_is_left_alone_and_holds_up_nothing_else() {
    let Some(mut world) = World::start(4).await else { return };
    let key = "/kafka-assigner/assignments/t/1";
    world.put(key, br#"{"version":99,"owner":"z"}"#).await;
    world.join("a").await;
    world.until("the others are assigned", |owned| owned == [("a", 3)]).await;
    let kept = world.etcd.get(key).await.unwrap().unwrap();
    assert_eq!(&kept.value[..], br#"{"version":99,"owner":"z"}"#);
    let metrics = world.instances[0].metrics();
    assert!(metrics.contains("kohort_assigner_unreadable_values_total 1\n"), "{metrics}");
    world.stop().await;
}

#[tokio::test]
async fn without_etcd_an_instance_serves_but_is_not_ready() {
    let settings = Settings {
        // Nobody listens on port 1.
        etcd_endpoints: vec!["http://127.0.0.1:1".to_owned()],
        bind_host: "127.0.0.1".to_owned(),
        bind_port: 0,
        ..Settings::default()
    };
    let assigner = Assigner::start(settings).await.unwrap();
    assert!(!assigner.is_ready());
    let refused = within(
        "an answer",
        world::register(assigner.address(), "a", &ulid::Ulid::from_parts(1, 1).to_string()),
    )
    .await
    .unwrap_err();
    assert_eq!(refused.code(), tonic::Code::Unavailable, "{refused:?}");
    assert!(assigner.metrics().contains("kohort_assigner_is_current 0\n"));
    within("the end of the instance", assigner.stop()).await;
}
