//! `first-record`: a lone consumer, from subscribing to its first record.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use batch::Codec;
use clap::Args;
use coordination::error_code::ErrorCode;
use wire::api::find_coordinator::FindCoordinatorRequest;
use wire::api::list_offsets::{ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic};
use wire::api::metadata::{MetadataRequest, MetadataRequestTopic};
use wire::api::sync_group::{SyncGroupRequest, SyncGroupRequestAssignment};

use crate::compare::Target;
use crate::cores::Watch;
use crate::dialogue::{Dialogue, accepted};
use crate::figure::Outcome;
use crate::members::{
    Habits, Identity, PROTOCOL, PROTOCOL_TYPE, assigned, assignment, disperse, join_request,
};
use crate::options::Common;
use crate::process::ServerProcess;
use crate::records::{FETCH_BY_NAME, append, batch, fetch, fetched};
use crate::scenario::commit::committed;
use crate::scenario::{Scenario, unique};
use crate::setting::Setting;

/// A consumer by the rules of Kafka's clients with their default settings; it talks as little as it can.
#[derive(Args, Debug)]
pub(crate) struct FirstRecord {
    #[command(flatten)]
    common: Common,
}

/// Where ListOffsets finds the start of a partition.
const EARLIEST: i64 = -2;

impl Scenario for FirstRecord {
    fn name(&self) -> &'static str {
        "first-record"
    }

    fn common(&self) -> &Common {
        &self.common
    }

    fn settings(&self) -> Vec<Setting> {
        Vec::new()
    }

    fn numbers(&mut self) -> Vec<(&'static str, &mut usize)> {
        Vec::new()
    }

    fn measure(&self, target: &Target) -> Result<Outcome> {
        let (address, process) = target.server()?;
        measure(address, process)
    }
}

fn measure(address: SocketAddr, process: Option<ServerProcess>) -> Result<Outcome> {
    let mut dialogue = Dialogue::with_one_broker(address)?;
    let (topic, group) = (unique("first-record"), unique("first-record"));
    dialogue.create_topic(&topic, 1)?;
    append(&mut dialogue, &topic, 0, &batch(1, 100, Codec::None)?)?;
    // Not what a consumer waits for in a cluster that is in use.
    dialogue.await_coordinators(std::slice::from_ref(&group))?;
    let mut outcome = Outcome::default();
    let watch = Watch::begin(process);
    let (steps, identity) = consume(address, &topic, &group)?;
    outcome.doubts.extend(watch.end().doubt_about_others("subscribe to first record"));
    let begun = steps[0].1;
    let (_, ended) = *steps.last().expect("a consumer takes several steps");
    outcome.time("subscribe to first record", ended - begun);
    for pair in steps.windows(2) {
        outcome.time(format!("  {}", pair[1].0), pair[1].1 - pair[0].1);
    }
    disperse(&mut dialogue, &[identity])?;
    dialogue.delete_empty_groups(&[group])?;
    dialogue.delete_topic(&topic)?;
    Ok(outcome)
}

/// When each step was done, and who the consumer is.
type Consumed = (Vec<(&'static str, Instant)>, Identity);

fn consume(address: SocketAddr, topic: &str, group: &str) -> Result<Consumed> {
    let mut steps = vec![("subscribe", Instant::now())];
    let mut done = |what: &'static str| steps.push((what, Instant::now()));
    let mut dialogue = Dialogue::open(address)?;
    done("connect and ApiVersions");
    let named = vec![MetadataRequestTopic { name: Some(topic.to_owned()), ..Default::default() }];
    let metadata = dialogue.ask(&MetadataRequest { topics: Some(named), ..Default::default() }, 12)?;
    let partitions = metadata.topics.first().map_or(0, |topic| topic.partitions.len());
    ensure!(partitions == 1, "Metadata shows {partitions} partitions instead of 1");
    done("Metadata");
    let asked = FindCoordinatorRequest {
        key: group.to_owned(),
        key_type: 0,
        coordinator_keys: vec![group.to_owned()],
    };
    let found = dialogue.ask(&asked, 4)?;
    accepted(found.error_code, "FindCoordinator")?;
    found.coordinators.iter().try_for_each(|found| accepted(found.error_code, "FindCoordinator"))?;
    done("FindCoordinator");
    // A consumer has a connection of its own to its coordinator.
    let mut coordinator = Dialogue::open(address)?;
    let habits = Habits {
        session_timeout: Duration::from_secs(45),
        rebalance_timeout: Duration::from_secs(300),
        heartbeat_interval: Duration::from_secs(3),
        topic: topic.to_owned(),
        partitions,
    };
    let mut answer = coordinator.ask(&join_request(&habits, group.to_owned(), String::new()), 9)?;
    if answer.error_code == ErrorCode::MemberIdRequired.number() {
        let again = join_request(&habits, group.to_owned(), answer.member_id);
        answer = coordinator.ask(&again, 9)?;
    }
    accepted(answer.error_code, "JoinGroup")?;
    ensure!(answer.leader == answer.member_id, "a lone member is not the leader");
    done("JoinGroup");
    let identity = Identity {
        group: group.to_owned(),
        member: answer.member_id.clone(),
        generation: answer.generation_id,
    };
    let own = SyncGroupRequestAssignment {
        member_id: answer.member_id.clone(),
        assignment: assignment(topic, 0..partitions),
    };
    let sync = SyncGroupRequest {
        group_id: group.to_owned(),
        generation_id: answer.generation_id,
        member_id: answer.member_id,
        group_instance_id: None,
        protocol_type: Some(PROTOCOL_TYPE.to_owned()),
        protocol_name: Some(PROTOCOL.to_owned()),
        assignments: vec![own],
    };
    let synced = coordinator.ask(&sync, 5)?;
    accepted(synced.error_code, "SyncGroup")?;
    let mine = assigned(&synced.assignment)?;
    done("SyncGroup");
    let found = committed(&mut coordinator, group, topic, &mine)?;
    ensure!(found == [(0, -1)], "a new group has committed offsets: {found:?}");
    done("OffsetFetch");
    let earliest = ListOffsetsRequest {
        replica_id: -1,
        isolation_level: 0,
        topics: vec![ListOffsetsTopic {
            name: topic.to_owned(),
            partitions: vec![ListOffsetsPartition { timestamp: EARLIEST, ..Default::default() }],
        }],
        timeout_ms: 30_000,
    };
    let listed = dialogue.ask(&earliest, 9)?;
    let start = listed.topics.first().and_then(|topic| topic.partitions.first()).context("no ListOffsets")?;
    accepted(start.error_code, "ListOffsets")?;
    done("ListOffsets");
    let answer = dialogue.ask(&fetch(topic, 0, start.offset, 1 << 20), FETCH_BY_NAME)?;
    ensure!(!fetched(answer, 0)?.is_empty(), "the first Fetch brought no record");
    done("Fetch");
    Ok((steps, identity))
}
