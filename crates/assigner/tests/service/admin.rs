//! What operators ask.

use assigner_client::proto;
use tonic::Code;

use crate::consumer::{Consumer, newer, partition};
use crate::world::{World, admin, eventually};

#[tokio::test]
async fn an_operator_sees_the_instances_the_groups_and_the_handoffs() {
    let world = World::with_topic("t", 3).await;
    let instance = world.instance(world.settings()).await;
    let other = world.instance(world.settings()).await;
    let registration = proto::RegisterRequest {
        capacity: 2,
        rack: "r1".to_owned(),
        labels: [("pod".to_owned(), "a-0".to_owned())].into(),
        ..newer("a", "t")
    };
    let mut a = Consumer::register(&instance, registration).await;
    a.until_it_owns(3).await;
    let mut b = Consumer::register(&instance, newer("b", "t")).await;
    b.until("to warm up", |b| b.warming.len() == 1).await;
    let place = b.warming.keys().next().unwrap().clone();

    let mut admin = admin(&other).await;
    let status = eventually("the other instance sees it all", async || {
        let status = admin.status(proto::StatusRequest::default()).await.unwrap().into_inner();
        (status.groups.first()?.handoffs == 1 && !status.leader.is_empty()).then_some(status)
    })
    .await;
    assert_eq!(status.instance, other.name());
    assert!([instance.name(), other.name()].contains(&status.leader.as_str()), "{status:?}");
    assert_eq!((status.etcd_behind_ms, status.kafka_problem.as_str()), (0, ""));
    let [group] = status.groups.as_slice() else { panic!("{status:?}") };
    let [first, second] = group.consumers.as_slice() else { panic!("{group:?}") };
    assert_eq!((first.name.as_str(), first.state.as_str(), first.partitions), ("a", "ready", 3));
    assert_eq!((first.capacity, first.rack.as_str(), first.labels["pod"].as_str()), (2, "r1", "a-0"));
    assert_eq!((second.name.as_str(), second.partitions, second.warming), ("b", 0, 1));
    let [topic] = group.topics.as_slice() else { panic!("{group:?}") };
    assert_eq!((topic.partitions, topic.assigned, topic.weight), (3, 3, 1));

    let cancel = proto::CancelHandoffRequest { partition: Some(partition(&place)), ..Default::default() };
    let cancelled = admin.cancel_handoff(cancel.clone()).await.unwrap().into_inner();
    assert_eq!(cancelled.handoff_id, b.warming[&place].id);
    b.until("to hear of it", |b| b.warming.is_empty()).await;
    let listed = admin.list_handoffs(proto::ListHandoffsRequest { all_groups: true, ..Default::default() });
    let listed = listed.await.unwrap().into_inner().handoffs;
    assert_eq!((listed.len(), listed[0].phase.as_str(), listed[0].waits_for.as_str()), (1, "cancelled", ""));
    let elsewhere = proto::CancelHandoffRequest { group: "g".to_owned(), ..cancel };
    assert_eq!(admin.cancel_handoff(elsewhere).await.unwrap_err().code(), Code::NotFound);
}

#[tokio::test]
async fn an_operator_is_told_what_would_happen_and_nothing_does() {
    let world = World::with_topic("t", 4).await;
    let instance = world.instance(world.settings()).await;
    let mut a = Consumer::register(&instance, newer("a", "t")).await;
    a.until_it_owns(4).await;
    let mut admin = admin(&instance).await;
    let with = proto::PlanRequest { with: vec!["b".to_owned()], ..Default::default() };
    let planned = admin.plan(with).await.unwrap().into_inner();
    let moved: Vec<_> = planned.partitions.iter().filter(|planned| planned.is_change).collect();
    assert_eq!(moved.len(), 2, "{planned:?}");
    assert!(moved.iter().all(|planned| planned.owner == "a" && planned.desired == "b"), "{moved:?}");
    assert_eq!(moved[0].action, "handoff to b begins");
    assert!(moved[0].reason.starts_with("another has less to do"), "{moved:?}");

    let unknown = proto::PlanRequest { without: vec!["z".to_owned()], ..Default::default() };
    let status = admin.plan(unknown).await.unwrap_err();
    assert_eq!(
        (status.code(), status.message()),
        (Code::NotFound, "without: consumer z is not registered in this group")
    );
    let listed = admin.list_handoffs(proto::ListHandoffsRequest::default()).await.unwrap().into_inner();
    assert!(listed.handoffs.is_empty());
}

#[tokio::test]
async fn an_operator_makes_partitions_heavier() {
    let world = World::with_topic("t", 4).await;
    let instance = world.instance(world.settings()).await;
    let mut admin = admin(&instance).await;
    let set = |weight, partition_weights: &[(u32, u32)]| proto::SetTopicRequest {
        topic: "t".to_owned(),
        weight,
        partition_weights: partition_weights.iter().copied().collect(),
        ..Default::default()
    };
    admin.set_topic(set(5, &[(0, 30)])).await.unwrap();
    let status = admin.status(proto::StatusRequest::default()).await.unwrap().into_inner();
    assert_eq!(status.groups[0].topics[0].weight, 5);
    assert_eq!(status.groups[0].topics[0].partition_weights, [(0, 30)].into());
    for (request, code) in [
        (set(0, &[(4, 2)]), Code::InvalidArgument),
        (set(1_000_000, &[]), Code::InvalidArgument),
        (proto::SetTopicRequest { topic: "u".to_owned(), ..set(2, &[]) }, Code::NotFound),
        (proto::SetTopicRequest { topic: "/".to_owned(), ..set(2, &[]) }, Code::InvalidArgument),
    ] {
        let status = admin.set_topic(request.clone()).await.unwrap_err();
        assert_eq!(status.code(), code, "{request:?}: {status:?}");
    }
    // The heavy one is as much as all the others.
    let mut a = Consumer::register(&instance, newer("a", "t")).await;
    a.until_it_owns(4).await;
    let with = proto::PlanRequest { with: vec!["b".to_owned()], ..Default::default() };
    let planned = admin.plan(with).await.unwrap().into_inner().partitions;
    let to_b: Vec<u32> = planned
        .iter()
        .filter(|planned| planned.desired == "b")
        .map(|planned| planned.partition.as_ref().unwrap().partition)
        .collect();
    assert!(to_b == [0] || to_b == [1, 2, 3], "{planned:?}");
}
