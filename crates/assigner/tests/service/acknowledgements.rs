//! What is said late, twice, or by somebody else.

use assigner_client::proto;
use assigner_client::proto::kafka_assigner_client::KafkaAssignerClient;
use tonic::Code;

use crate::consumer::{Consumer, kind, newer, original, partition};
use crate::world::{World, dial};

#[tokio::test]
async fn what_is_stale_or_foreign_is_refused_and_what_is_repeated_is_not() {
    let world = World::with_topic("t", 2).await;
    let instance = world.instance(world.settings()).await;
    let mut a = Consumer::register(&instance, newer("a", "t")).await;
    a.until_it_owns(2).await;
    let mut b = Consumer::register(&instance, newer("b", "t")).await;
    b.until("to warm up", |b| b.warming.len() == 1).await;
    let (place, told) =
        b.warming.first_key_value().map(|(place, told)| (place.clone(), told.clone())).unwrap();
    let other = a.owned.keys().find(|owned| **owned != place).unwrap().clone();

    assert_eq!(kind(&a.released(&place).await.unwrap_err()), (Code::FailedPrecondition, "wrong-phase"));
    assert_eq!(kind(&a.ready(&place).await.unwrap_err()), (Code::PermissionDenied, "not-the-target"));
    assert_eq!(kind(&b.released(&place).await.unwrap_err()), (Code::PermissionDenied, "not-the-owner"));
    assert_eq!(kind(&b.ready(&other).await.unwrap_err()), (Code::FailedPrecondition, "unknown-handoff"));
    let ready = proto::PartitionReadyRequest {
        consumer_name: "b".to_owned(),
        partition: Some(partition(&place)),
        session: b.registration.session.clone(),
        handoff_id: told.id.clone(),
        epoch: told.epoch,
        ..Default::default()
    };
    for (request, refused) in [
        (
            proto::PartitionReadyRequest { consumer_name: "c".to_owned(), ..ready.clone() },
            (Code::NotFound, "unknown-consumer"),
        ),
        (
            proto::PartitionReadyRequest { session: a.registration.session.clone(), ..ready.clone() },
            (Code::Aborted, "fenced"),
        ),
        (proto::PartitionReadyRequest { session: String::new(), ..ready.clone() }, (Code::Aborted, "fenced")),
        (
            proto::PartitionReadyRequest {
                handoff_id: "hnd_01ktb7wm5jvkbfgpzvfnk3kqqb".to_owned(),
                ..ready.clone()
            },
            (Code::FailedPrecondition, "stale-handoff"),
        ),
        (
            proto::PartitionReadyRequest { epoch: told.epoch + 1, ..ready.clone() },
            (Code::FailedPrecondition, "stale-epoch"),
        ),
        (proto::PartitionReadyRequest { partition: None, ..ready.clone() }, (Code::InvalidArgument, "none")),
        (
            proto::PartitionReadyRequest { group: "elsewhere".to_owned(), ..ready.clone() },
            (Code::NotFound, "unknown-consumer"),
        ),
    ] {
        let status = b.client.partition_ready(request.clone()).await.unwrap_err();
        assert_eq!(kind(&status), refused, "{request:?}");
    }

    for _ in 0..2 {
        let answer = b.client.partition_ready(ready.clone()).await.unwrap().into_inner();
        assert_eq!((answer.handoff_id, answer.epoch), (told.id.clone(), told.epoch));
    }
    let progress = proto::WarmProgressRequest {
        consumer_name: "b".to_owned(),
        partition: Some(partition(&place)),
        session: b.registration.session.clone(),
        done: 1,
        ..Default::default()
    };
    let status = b.client.warm_progress(progress).await.unwrap_err();
    assert_eq!(kind(&status), (Code::FailedPrecondition, "wrong-phase"));

    a.until("to let go", |a| a.releasing.contains_key(&place)).await;
    for _ in 0..2 {
        let answer = a.released(&place).await.unwrap();
        assert_eq!((answer.handoff_id, answer.epoch), (told.id.clone(), told.epoch));
    }
    b.until_it_owns(1).await;
    // The answer may have been lost; now the partition is its own, and it says it once more.
    b.client.partition_ready(ready).await.unwrap();
}

#[tokio::test]
async fn another_instance_takes_an_acknowledgement_of_what_it_may_not_have_seen_yet() {
    let world = World::with_topic("t", 8).await;
    let (one, other) = (world.instance(world.settings()).await, world.instance(world.settings()).await);
    let mut a = Consumer::register(&one, newer("a", "t")).await;
    a.until_it_owns(8).await;
    let mut b = Consumer::register(&one, newer("b", "t")).await;
    // What one instance tells, the other hears from the consumer, perhaps before it hears of it from etcd.
    a.client = KafkaAssignerClient::new(dial(&other).await);
    b.client = KafkaAssignerClient::new(dial(&other).await);
    crate::consumer::hand_over(&mut a, &mut b, 4).await;
}

#[tokio::test]
async fn progress_is_shown_to_operators() {
    let world = World::with_topic("t", 2).await;
    let instance = world.instance(world.settings()).await;
    let mut a = Consumer::register(&instance, newer("a", "t")).await;
    a.until_it_owns(2).await;
    let mut b = Consumer::register(&instance, newer("b", "t")).await;
    b.until("to warm up", |b| b.warming.len() == 1).await;
    let (place, told) = b.warming.first_key_value().unwrap();
    let progress = proto::WarmProgressRequest {
        consumer_name: "b".to_owned(),
        partition: Some(partition(place)),
        session: b.registration.session.clone(),
        handoff_id: told.id.clone(),
        epoch: told.epoch,
        done: 30,
        total: 100,
        ..Default::default()
    };
    b.client.warm_progress(progress.clone()).await.unwrap();
    // What is reported right after that is accepted, whether it is written or not.
    b.client.warm_progress(proto::WarmProgressRequest { done: 31, ..progress }).await.unwrap();
    let mut admin = crate::world::admin(&instance).await;
    let listed = admin.list_handoffs(proto::ListHandoffsRequest::default()).await.unwrap().into_inner();
    let [handoff] = listed.handoffs.as_slice() else { panic!("{listed:?}") };
    assert!((30..=31).contains(&handoff.done), "{handoff:?}");
    assert_eq!((handoff.total, handoff.phase.as_str(), handoff.waits_for.as_str()), (100, "warming", "b"));
}

#[tokio::test]
async fn whoever_registers_with_nonsense_is_told_what_is_wrong() {
    let world = World::with_topic("t", 2).await;
    let instance = world.instance(world.settings()).await;
    let client = KafkaAssignerClient::new(dial(&instance).await);
    let in_group = |group: &str| proto::RegisterRequest { group: group.to_owned(), ..original("a", "t") };
    for (registration, code, words) in [
        (original("a b", "t"), Code::InvalidArgument, "consumer_name: `a b`"),
        (original("a", ""), Code::InvalidArgument, "topic: ``"),
        (
            in_group("assigner"),
            Code::InvalidArgument,
            "group: `assigner` is no name of a group: the word is reserved",
        ),
        (original("a", "unheard-of"), Code::NotFound, "unheard-of"),
    ] {
        let status = Consumer::register_by(client.clone(), registration).await.err().unwrap();
        assert_eq!(status.code(), code, "{status:?}");
        assert!(status.message().contains(words), "{status:?}");
    }
}
