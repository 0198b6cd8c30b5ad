//! Clients of the original contract, which know nothing of sessions and signs of life, when instances fail.

use std::collections::BTreeSet;
use std::time::Duration;

use assigner_client::proto::assignment_command::Command;
use assigner_client::proto::kafka_assigner_client::KafkaAssignerClient;
use assigner_client::proto::{AssignmentCommand, RegisterRequest};
use tokio::time::timeout;
use tonic::Streaming;
use tonic::transport::Endpoint;

use crate::world::{PATIENCE, TOPIC, World};

/// A lease of which a third is enough to notice that etcd does not answer, on a busy machine too.
const SETTINGS: [(&str, &str); 1] = [("consumer_lease_ttl_secs", "15")];

/// For longer than their lease.
const LASTS: Duration = Duration::from_secs(16);

struct Original {
    name: &'static str,
    stream: Streaming<AssignmentCommand>,
    owned: BTreeSet<u32>,
}

impl Original {
    async fn register(world: &World, name: &'static str, instance: usize) -> Self {
        let endpoint = Endpoint::from_shared(world.assigners[instance].url()).unwrap();
        let mut client = KafkaAssignerClient::new(endpoint.connect().await.unwrap());
        let (consumer_name, topic) = (name.to_owned(), TOPIC.to_owned());
        let request = RegisterRequest { consumer_name, topic, ..RegisterRequest::default() };
        let stream = client.register(request).await.unwrap().into_inner();
        Self { name, stream, owned: BTreeSet::new() }
    }

    /// Follows its stream until it owns so many.
    async fn until_it_owns(&mut self, count: usize) {
        let following = async {
            while self.owned.len() != count {
                let command = self.stream.message().await.unwrap().unwrap().command.unwrap();
                let Command::Assignment(told) = command else { panic!("{command:?}") };
                self.owned.extend(told.assigned.iter().map(|it| it.partition));
                for taken in told.unassigned {
                    self.owned.remove(&taken.partition);
                }
            }
        };
        let followed = timeout(PATIENCE, following).await;
        assert!(followed.is_ok(), "{} owns {:?} and never {count}", self.name, self.owned);
    }

    async fn until_its_end(&mut self) {
        let following = async { while let Ok(Some(_)) = self.stream.message().await {} };
        timeout(PATIENCE, following).await.unwrap();
    }
}

#[test]
fn they_find_everything_as_it_was_at_another_instance() {
    let mut world = World::start_with(3, 6, &SETTINGS);
    let leader = world.wait_for_leader(&[0, 1, 2]);
    let (second, third) = ((leader + 1) % 3, (leader + 2) % 3);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (mut a, mut b) = runtime.block_on(async {
        let mut a = Original::register(&world, "a", second).await;
        let mut b = Original::register(&world, "b", second).await;
        a.until_it_owns(3).await;
        b.until_it_owns(3).await;
        (a, b)
    });
    let before = world.state();
    // Killed, it ends their streams; parted from etcd, it ends them while their leases last.
    world.assigners[second].kill().unwrap();
    let (mut a, mut b) = runtime.block_on(async {
        a.until_its_end().await;
        b.until_its_end().await;
        let mut a = Original::register(&world, "a", third).await;
        let mut b = Original::register(&world, "b", leader).await;
        a.until_it_owns(3).await;
        b.until_it_owns(3).await;
        (a, b)
    });
    assert_eq!(world.state().owners, before.owners, "nothing was written");
    world.relays[third].freeze();
    runtime.block_on(async {
        a.until_its_end().await;
        let mut a = Original::register(&world, "a", leader).await;
        a.until_it_owns(3).await;
        // Both streams live on the leader now, and their leases with them.
        let quiet = timeout(LASTS, async {
            tokio::select! {
                () = a.until_its_end() => "a",
                () = b.until_its_end() => "b",
            }
        });
        assert_eq!(quiet.await.ok(), None, "a stream has ended");
    });
    assert_eq!(world.state().owners, before.owners, "nothing was written");
}
