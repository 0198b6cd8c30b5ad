//! A consumer that does not read its stream.

use std::collections::BTreeMap;
use std::time::Duration;

use assigner::Settings;
use assigner_client::proto;
use assigner_client::proto::kafka_assigner_client::KafkaAssignerClient;
use tonic::transport::Endpoint;

use crate::consumer::{Consumer, Place, newer, partition};
use crate::world::{World, admin, eventually};

/// Each command is longer than its topic's name, so half of these are far more than a client takes without reading.
const PARTITIONS: u32 = 800;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_consumer_misses_nothing_that_is_still_true_and_holds_nobody_up() {
    let topic = "t".repeat(249);
    let world = World::with_topic(&topic, PARTITIONS).await;
    let settings = Settings {
        stream_channel_size: 4,
        // Nobody says that they live.
        consumer_lease_ttl: Duration::from_secs(600),
        handoff_retry_interval: Duration::from_secs(3600),
        ..world.settings()
    };
    let instance = world.instance(settings).await;
    let mut a = Consumer::register(&instance, newer("a", &topic)).await;
    a.until_it_owns(800).await;
    // From now on b does not read, and there is little room between the instance and it.
    let endpoint = Endpoint::from_shared(format!("http://{}", instance.address())).unwrap();
    let channel = endpoint.initial_stream_window_size(4096).connect().await.unwrap();
    let client = KafkaAssignerClient::new(channel);
    let mut b = Consumer::register_by(client, newer("b", &topic)).await.unwrap();
    let mut admin = admin(&instance).await;
    let all = proto::ListHandoffsRequest::default();
    let handoffs = eventually("all handoffs", async || {
        let handoffs = admin.list_handoffs(all.clone()).await.unwrap().into_inner().handoffs;
        (handoffs.len() == 400).then_some(handoffs)
    })
    .await;

    // Some are given up, some are ready and released before b has heard of them.
    for (number, handoff) in handoffs.iter().enumerate() {
        let place: Place = handoff.partition.clone().map(|place| (place.topic, place.partition)).unwrap();
        match number % 4 {
            0 => {
                let request = proto::CancelHandoffRequest {
                    partition: handoff.partition.clone(),
                    ..Default::default()
                };
                admin.cancel_handoff(request).await.unwrap();
            }
            1 => {
                let request = proto::PartitionReadyRequest {
                    consumer_name: "b".to_owned(),
                    partition: Some(partition(&place)),
                    session: b.registration.session.clone(),
                    ..Default::default()
                };
                b.client.partition_ready(request).await.unwrap();
                a.until("to let go", |a| a.releasing.contains_key(&place)).await;
                a.released(&place).await.unwrap();
            }
            _ => {}
        }
    }

    let mut warming: BTreeMap<Place, String> = BTreeMap::new();
    for handoff in admin.list_handoffs(all).await.unwrap().into_inner().handoffs {
        if handoff.phase == "warming" {
            let place = handoff.partition.map(|place| (place.topic, place.partition)).unwrap();
            warming.insert(place, handoff.handoff_id);
        }
    }
    assert_eq!(warming.len(), 200);
    b.until("to know all that is true", |b| {
        let known: BTreeMap<Place, String> =
            b.warming.iter().map(|(place, told)| (place.clone(), told.id.clone())).collect();
        b.owned.len() == 100 && known == warming
    })
    .await;
}
