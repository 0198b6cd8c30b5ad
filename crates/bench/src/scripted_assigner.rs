//! An assigner for tests: it keeps one group of one topic in memory, at once and without any plan, and may be wrong on
//! purpose.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use assigner_client::proto::assignment_command::Command;
use assigner_client::proto::kafka_assigner_admin_server::{KafkaAssignerAdmin, KafkaAssignerAdminServer};
use assigner_client::proto::kafka_assigner_server::{KafkaAssigner, KafkaAssignerServer};
use assigner_client::proto::{
    Assignment, AssignmentCommand, CancelHandoffRequest, CancelHandoffResponse, ConsumerStatus,
    DeregisterAction, DeregisterRequest, DeregisterResponse, GroupStatus, KeepAliveRequest,
    KeepAliveResponse, ListHandoffsRequest, ListHandoffsResponse, PartitionReadyRequest,
    PartitionReadyResponse, PartitionReleasedRequest, PartitionReleasedResponse, PlanRequest, PlanResponse,
    RegisterRequest, Release, SetTopicRequest, SetTopicResponse, StatusRequest, StatusResponse,
    TopicPartition, TopicStatus, Warm, WarmProgressRequest, WarmProgressResponse,
};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tonic::codegen::tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

pub(crate) const GROUP: &str = "bench";
pub(crate) const TOPIC: &str = "words";

/// What is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Habit {
    /// Nothing.
    Correct,
    /// Who is ready gets the partition before the owner has released it.
    AssignsTooEarly,
    /// Every owner has the same epoch.
    KeepsEpochs,
    /// Nobody is ever ready enough.
    RefusesReady,
    /// What was released is given to nobody.
    ForgetsReleased,
    /// What was released is given to its owner again as well.
    AssignsTwice,
    /// A release is asked for in the name of another handoff.
    MixesHandoffs,
}

/// Serves until the runtime ends; gives the URL.
pub(crate) fn start(habit: Habit, partitions: u32) -> String {
    let incoming = TcpIncoming::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("bind");
    let address = incoming.local_addr().expect("address");
    let owners =
        (0..partitions).map(|partition| (partition, Owner { name: String::new(), epoch: 1 })).collect();
    let group = Group { habit, streams: BTreeMap::new(), owners, handoffs: BTreeMap::new() };
    let scripted = Scripted(Arc::new(Mutex::new(group)));
    let server = Server::builder()
        .add_service(KafkaAssignerServer::new(scripted.clone()))
        .add_service(KafkaAssignerAdminServer::new(scripted));
    tokio::spawn(server.serve_with_incoming(incoming));
    format!("http://{address}")
}

#[derive(Clone)]
struct Scripted(Arc<Mutex<Group>>);

type Stream = UnboundedSender<Result<AssignmentCommand, Status>>;

struct Group {
    habit: Habit,
    streams: BTreeMap<String, Stream>,
    owners: BTreeMap<u32, Owner>,
    handoffs: BTreeMap<u32, Handoff>,
}

struct Owner {
    /// Empty if there is none.
    name: String,
    epoch: u64,
}

struct Handoff {
    to: String,
    id: String,
    epoch: u64,
}

impl Scripted {
    fn group(&self) -> MutexGuard<'_, Group> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn place(partition: u32) -> TopicPartition {
    TopicPartition { topic: TOPIC.to_owned(), partition }
}

impl Group {
    fn tell(&self, consumer: &str, command: Command) {
        if let Some(stream) = self.streams.get(consumer) {
            // A consumer that has gone hears nothing.
            let _ = stream.send(Ok(AssignmentCommand { command: Some(command) }));
        }
    }

    fn assign(&mut self, partition: u32, name: &str) {
        let grows = self.habit != Habit::KeepsEpochs;
        let Some(owner) = self.owners.get_mut(&partition) else { return };
        *owner = Owner { name: name.to_owned(), epoch: owner.epoch + u64::from(grows) };
        let epochs = vec![owner.epoch];
        let assignment = Assignment { assigned: vec![place(partition)], epochs, ..Default::default() };
        self.tell(name, Command::Assignment(assignment));
    }

    /// What nobody works on goes to the first consumer; a second one is to warm up for half of all.
    fn rebalance(&mut self) {
        let names: Vec<String> = self.streams.keys().cloned().collect();
        let Some(owner) = names.last().cloned() else { return };
        let is_free = |it: &Owner| !names.contains(&it.name);
        let free: Vec<u32> = self.owners.iter().filter(|it| is_free(it.1)).map(|it| *it.0).collect();
        free.iter().for_each(|partition| self.assign(*partition, &owner));
        if let [newcomer, _] = names.as_slice() {
            for partition in 0..u32::try_from(self.owners.len() / 2).unwrap_or_default() {
                let (id, epoch) = (format!("hnd_{partition}"), self.owners[&partition].epoch + 1);
                let warm = Warm {
                    partition: Some(place(partition)),
                    current_owner: owner.clone(),
                    handoff_id: id.clone(),
                    epoch,
                };
                self.tell(newcomer, Command::Warm(warm));
                self.handoffs.insert(partition, Handoff { to: newcomer.clone(), id, epoch });
            }
        }
    }
}

#[tonic::async_trait]
impl KafkaAssigner for Scripted {
    type RegisterStream = UnboundedReceiverStream<Result<AssignmentCommand, Status>>;

    async fn register(
        &self,
        request: Request<RegisterRequest>,
    ) -> Result<Response<Self::RegisterStream>, Status> {
        let request = request.into_inner();
        let (sender, receiver) = unbounded_channel();
        let mut group = self.group();
        group.streams.insert(request.consumer_name.clone(), sender);
        let snapshot = Assignment { is_snapshot: true, keep_alive_interval_ms: 1, ..Default::default() };
        group.tell(&request.consumer_name, Command::Assignment(snapshot));
        group.rebalance();
        Ok(Response::new(UnboundedReceiverStream::new(receiver)))
    }

    async fn partition_ready(
        &self,
        request: Request<PartitionReadyRequest>,
    ) -> Result<Response<PartitionReadyResponse>, Status> {
        let PartitionReadyRequest { partition, handoff_id, epoch, .. } = request.into_inner();
        let partition = partition.unwrap_or_default().partition;
        let mut group = self.group();
        if group.habit == Habit::RefusesReady {
            return Err(Status::failed_precondition("the handoff is another one's"));
        }
        let owner = group.owners[&partition].name.clone();
        let handoff = &group.handoffs[&partition];
        let mut release = Release {
            partition: Some(place(partition)),
            new_owner: handoff.to.clone(),
            handoff_id: handoff.id.clone(),
            epoch: handoff.epoch,
        };
        if group.habit == Habit::MixesHandoffs {
            release.handoff_id = "hnd_of_another".to_owned();
        }
        if group.habit == Habit::AssignsTooEarly {
            let to = handoff.to.clone();
            group.assign(partition, &to);
        } else {
            group.tell(&owner, Command::Release(release));
        }
        Ok(Response::new(PartitionReadyResponse { handoff_id, epoch }))
    }

    async fn partition_released(
        &self,
        request: Request<PartitionReleasedRequest>,
    ) -> Result<Response<PartitionReleasedResponse>, Status> {
        let request = request.into_inner();
        let PartitionReleasedRequest { consumer_name, partition, handoff_id, epoch, .. } = request;
        let partition = partition.unwrap_or_default().partition;
        let mut group = self.group();
        let handoff = group.handoffs.remove(&partition).ok_or_else(|| Status::not_found("no handoff"))?;
        match group.habit {
            Habit::ForgetsReleased => {}
            Habit::AssignsTwice => {
                group.assign(partition, &handoff.to);
                group.assign(partition, &consumer_name);
            }
            _ => group.assign(partition, &handoff.to),
        }
        let unassigned = Assignment { unassigned: vec![place(partition)], ..Default::default() };
        group.tell(&consumer_name, Command::Assignment(unassigned));
        Ok(Response::new(PartitionReleasedResponse { handoff_id, epoch }))
    }

    async fn deregister(
        &self,
        request: Request<DeregisterRequest>,
    ) -> Result<Response<DeregisterResponse>, Status> {
        let mut group = self.group();
        group.streams.remove(&request.into_inner().consumer_name);
        group.rebalance();
        Ok(Response::new(DeregisterResponse { action: DeregisterAction::ShutdownNow.into() }))
    }

    async fn keep_alive(
        &self,
        request: Request<KeepAliveRequest>,
    ) -> Result<Response<KeepAliveResponse>, Status> {
        if self.group().streams.contains_key(&request.into_inner().consumer_name) {
            return Ok(Response::new(KeepAliveResponse { lease_ttl_ms: 1000 }));
        }
        Err(Status::not_found("no such consumer"))
    }

    async fn warm_progress(
        &self,
        _: Request<WarmProgressRequest>,
    ) -> Result<Response<WarmProgressResponse>, Status> {
        Err(Status::unimplemented("nobody asks for it"))
    }
}

#[tonic::async_trait]
impl KafkaAssignerAdmin for Scripted {
    async fn status(&self, _: Request<StatusRequest>) -> Result<Response<StatusResponse>, Status> {
        let group = self.group();
        let assigned = group.owners.values().filter(|owner| group.streams.contains_key(&owner.name)).count();
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let topic = TopicStatus {
            topic: TOPIC.to_owned(),
            partitions: count(group.owners.len()),
            assigned: count(assigned),
            weight: 1,
            ..TopicStatus::default()
        };
        let consumer = |name: &String| ConsumerStatus { name: name.clone(), ..Default::default() };
        let status = GroupStatus {
            group: GROUP.to_owned(),
            consumers: group.streams.keys().map(consumer).collect(),
            topics: vec![topic],
            handoffs: count(group.handoffs.len()),
        };
        Ok(Response::new(StatusResponse { groups: vec![status], ..Default::default() }))
    }

    async fn list_handoffs(
        &self,
        _: Request<ListHandoffsRequest>,
    ) -> Result<Response<ListHandoffsResponse>, Status> {
        Err(Status::unimplemented("nobody asks for it"))
    }

    async fn cancel_handoff(
        &self,
        _: Request<CancelHandoffRequest>,
    ) -> Result<Response<CancelHandoffResponse>, Status> {
        Err(Status::unimplemented("nobody asks for it"))
    }

    async fn plan(&self, _: Request<PlanRequest>) -> Result<Response<PlanResponse>, Status> {
        Err(Status::unimplemented("nobody asks for it"))
    }

    async fn set_topic(&self, _: Request<SetTopicRequest>) -> Result<Response<SetTopicResponse>, Status> {
        Err(Status::unimplemented("nobody asks for it"))
    }
}
