//! A consumer that follows its stream and checks that what it is told makes sense.

use std::collections::{BTreeMap, BTreeSet};

use assigner::Assigner;
use assigner_client::proto;
use assigner_client::proto::assignment_command::Command;
use assigner_client::proto::kafka_assigner_client::KafkaAssignerClient;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};

use crate::world::{dial, within};

/// A topic and the number of a partition.
pub(crate) type Place = (String, u32);

/// A handoff as it was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) id: String,
    pub(crate) epoch: u64,
    pub(crate) other: String,
}

pub(crate) struct Consumer {
    pub(crate) client: KafkaAssignerClient<Channel>,
    pub(crate) registration: proto::RegisterRequest,
    pub(crate) stream: Streaming<proto::AssignmentCommand>,
    /// What it owns, with the epochs.
    pub(crate) owned: BTreeMap<Place, u64>,
    pub(crate) warming: BTreeMap<Place, Told>,
    pub(crate) releasing: BTreeMap<Place, Told>,
    /// What it was told the last snapshot said of its lease.
    pub(crate) lease_ttl_ms: u64,
    pub(crate) keep_alive_interval_ms: u64,
}

/// What a client of the original contract says.
pub(crate) fn original(name: &str, topic: &str) -> proto::RegisterRequest {
    proto::RegisterRequest {
        consumer_name: name.to_owned(),
        topic: topic.to_owned(),
        ..proto::RegisterRequest::default()
    }
}

/// What one says that knows sessions.
pub(crate) fn newer(name: &str, topic: &str) -> proto::RegisterRequest {
    let bits = u128::from(rand::random::<u64>()) | 1 << 100;
    let session = ulid::Ulid(bits).to_string();
    proto::RegisterRequest { protocol_version: 2, session, ..original(name, topic) }
}

impl Consumer {
    /// Registers and reads the snapshot.
    pub(crate) async fn register(instance: &Assigner, registration: proto::RegisterRequest) -> Self {
        Self::register_by(KafkaAssignerClient::new(dial(instance).await), registration).await.unwrap()
    }

    pub(crate) async fn register_by(
        mut client: KafkaAssignerClient<Channel>,
        registration: proto::RegisterRequest,
    ) -> Result<Self, Status> {
        let stream = within("to register", client.register(registration.clone())).await?.into_inner();
        let mut consumer = Self {
            client,
            registration,
            stream,
            owned: BTreeMap::new(),
            warming: BTreeMap::new(),
            releasing: BTreeMap::new(),
            lease_ttl_ms: 0,
            keep_alive_interval_ms: 0,
        };
        let first = within("a snapshot", consumer.stream.message()).await?.unwrap();
        let Some(Command::Assignment(snapshot)) = &first.command else { panic!("no snapshot: {first:?}") };
        assert!(snapshot.is_snapshot, "{snapshot:?}");
        consumer.take_in(first);
        Ok(consumer)
    }

    /// Registers anew, as after a lost connection.
    pub(crate) async fn reconnect(self, instance: &Assigner) -> Self {
        let Self { registration, stream, .. } = self;
        drop(stream);
        Self::register(instance, registration).await
    }

    /// Reads commands until it is as it should be.
    pub(crate) async fn until(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) {
        while !is_so(self) {
            let command = within(what, self.stream.message()).await.unwrap().unwrap();
            self.take_in(command);
        }
    }

    pub(crate) async fn until_it_owns(&mut self, count: usize) {
        self.until(&format!("to own {count}"), |consumer| consumer.owned.len() == count).await;
    }

    /// Reads commands until the stream ends, and says why it did.
    pub(crate) async fn until_its_end(&mut self) -> Status {
        loop {
            match within("the end of the stream", self.stream.message()).await {
                Ok(Some(command)) => self.take_in(command),
                Ok(None) => panic!("the stream ended without a word"),
                Err(status) => return status,
            }
        }
    }

    fn take_in(&mut self, command: proto::AssignmentCommand) {
        match command.command.unwrap() {
            Command::Assignment(told) => {
                assert_eq!(told.assigned.len(), told.epochs.len(), "{told:?}");
                if told.is_snapshot {
                    self.owned.clear();
                    assert_ne!(told.lease_ttl_ms, 0);
                    self.lease_ttl_ms = told.lease_ttl_ms;
                    self.keep_alive_interval_ms = told.keep_alive_interval_ms;
                }
                for (partition, epoch) in told.assigned.into_iter().zip(told.epochs) {
                    let place = place(Some(partition));
                    self.warming.remove(&place);
                    self.releasing.remove(&place);
                    self.owned.insert(place, epoch);
                }
                for partition in told.unassigned {
                    let place = place(Some(partition));
                    let was_known =
                        self.owned.remove(&place).is_some() | self.releasing.remove(&place).is_some();
                    // Those who do not know Cancel are told so.
                    let was_warming =
                        self.registration.protocol_version < 2 && self.warming.remove(&place).is_some();
                    assert!(was_known || was_warming, "{place:?} was not its own");
                }
            }
            Command::Warm(told) => {
                let place = place(told.partition);
                assert!(!self.owned.contains_key(&place), "{place:?} is its own already");
                let told = Told { id: told.handoff_id, epoch: told.epoch, other: told.current_owner };
                self.warming.insert(place, told);
            }
            Command::Release(told) => {
                let place = place(told.partition);
                assert!(self.owned.contains_key(&place), "{place:?} is not its own");
                let told = Told { id: told.handoff_id, epoch: told.epoch, other: told.new_owner };
                self.releasing.insert(place, told);
            }
            Command::Cancel(told) => {
                assert_eq!(self.registration.protocol_version, 2);
                let place = place(told.partition);
                let known = self.warming.remove(&place).map(|known| known.id);
                assert_eq!(known, Some(told.handoff_id), "{place:?}");
            }
        }
    }

    /// Says that it is warm, the way its version says so.
    pub(crate) async fn ready(&mut self, place: &Place) -> Result<proto::PartitionReadyResponse, Status> {
        let told = self.warming.get(place).filter(|_| self.is_newer());
        let request = proto::PartitionReadyRequest {
            consumer_name: self.registration.consumer_name.clone(),
            partition: Some(partition(place)),
            session: self.registration.session.clone(),
            handoff_id: told.map(|told| told.id.clone()).unwrap_or_default(),
            epoch: told.map_or(0, |told| told.epoch),
            ..Default::default()
        };
        within("an answer to ready", self.client.partition_ready(request))
            .await
            .map(tonic::Response::into_inner)
    }

    /// Says that it has let go, the way its version says so.
    pub(crate) async fn released(
        &mut self,
        place: &Place,
    ) -> Result<proto::PartitionReleasedResponse, Status> {
        let told = self.releasing.get(place).filter(|_| self.is_newer());
        let request = proto::PartitionReleasedRequest {
            consumer_name: self.registration.consumer_name.clone(),
            partition: Some(partition(place)),
            session: self.registration.session.clone(),
            handoff_id: told.map(|told| told.id.clone()).unwrap_or_default(),
            epoch: told.map_or(0, |told| told.epoch),
            ..Default::default()
        };
        let answer = within("an answer to released", self.client.partition_released(request)).await;
        answer.map(tonic::Response::into_inner)
    }

    pub(crate) async fn keep_alive(&mut self) -> Result<proto::KeepAliveResponse, Status> {
        let request = proto::KeepAliveRequest {
            consumer_name: self.registration.consumer_name.clone(),
            session: self.registration.session.clone(),
            ..Default::default()
        };
        within("an answer to a sign of life", self.client.keep_alive(request))
            .await
            .map(tonic::Response::into_inner)
    }

    pub(crate) async fn deregister(&mut self, has_stopped: bool) -> Result<proto::DeregisterAction, Status> {
        let request = proto::DeregisterRequest {
            consumer_name: self.registration.consumer_name.clone(),
            session: self.registration.session.clone(),
            has_stopped,
            ..Default::default()
        };
        let answer = within("an answer to a farewell", self.client.deregister(request)).await;
        answer.map(|answer| answer.into_inner().action())
    }

    fn is_newer(&self) -> bool {
        self.registration.protocol_version >= 2
    }
}

/// Hands over all that is to be handed over from one to the other.
pub(crate) async fn hand_over(from: &mut Consumer, to: &mut Consumer, count: usize) {
    to.until("to warm up", |to| to.warming.len() == count).await;
    let places: BTreeSet<Place> = to.warming.keys().cloned().collect();
    for place in &places {
        to.ready(place).await.unwrap();
    }
    from.until("to let go", |from| places.iter().all(|place| from.releasing.contains_key(place))).await;
    for place in &places {
        assert!(!to.owned.contains_key(place));
        from.released(place).await.unwrap();
    }
    to.until("to own", |to| places.iter().all(|place| to.owned.contains_key(place))).await;
    from.until("to be rid of it", |from| places.iter().all(|place| !from.owned.contains_key(place))).await;
}

pub(crate) fn kind(status: &Status) -> (Code, &str) {
    let kind = status.metadata().get("kohort-refusal").map(|kind| kind.to_str().unwrap());
    (status.code(), kind.unwrap_or("none"))
}

pub(crate) fn partition(place: &Place) -> proto::TopicPartition {
    proto::TopicPartition { topic: place.0.clone(), partition: place.1 }
}

fn place(partition: Option<proto::TopicPartition>) -> Place {
    let partition = partition.unwrap();
    (partition.topic, partition.partition)
}
