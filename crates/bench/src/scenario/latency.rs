//! `latency`: one request in flight on one connection, and how long each takes.

use anyhow::Result;
use clap::{Args, ValueEnum};
use wire::api::api_versions::{ApiVersionsRequest, ApiVersionsResponse};
use wire::api::metadata::{MetadataRequest, MetadataRequestTopic, MetadataResponse};
use wire::api::produce::ProduceRequest;
use wire::{ApiKey, RequestMessage};

use crate::closed_loop::{self, Pressure, Work, Yield};
use crate::compare::Target;
use crate::dialogue::{Dialogue, accepted};
use crate::figure::{Better, Outcome};
use crate::options::Common;
use crate::progress;
use crate::records::{PRODUCE_BY_NAME, append, batch, judge_produced, produce};
use crate::reply_check::ReplyCheck;
use crate::scenario::{Scenario, unique};
use crate::template::Template;

/// What is asked.
#[derive(Args, Debug)]
pub(crate) struct Latency {
    #[command(flatten)]
    common: Common,
    /// Requests, each measured alone
    #[arg(long, value_name = "NAME,…", value_enum, value_delimiter = ',',
          default_values = ["api-versions", "metadata", "produce"])]
    request: Vec<Request>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Request {
    /// Answered from nothing
    ApiVersions,
    /// About one topic
    Metadata,
    /// One record of 100 bytes, acknowledged by all replicas
    Produce,
}

impl Scenario for Latency {
    fn name(&self) -> &'static str {
        "latency"
    }

    fn common(&self) -> &Common {
        &self.common
    }

    fn settings(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    fn numbers(&mut self) -> Vec<(&'static str, &mut usize)> {
        Vec::new()
    }

    fn measure(&self, target: &Target) -> Result<Outcome> {
        let (address, process) = target.server()?;
        let mut dialogue = Dialogue::open(address)?;
        let topic = unique("latency");
        dialogue.create_topic(&topic, 1)?;
        let record = batch(1, 100, ::batch::Codec::None)?;
        append(&mut dialogue, &topic, 0, &record)?;
        let (warmup, duration) = (self.common.warmup, self.common.duration);
        let pressure = Pressure { connections: 1, pipeline: 1, threads: 1, warmup, duration };
        let mut outcome = Outcome::default();
        for &request in &self.request {
            progress::step(&format!("latency, {request:?}"));
            match request {
                Request::ApiVersions => {
                    let version = dialogue.versions().of(ApiKey::ApiVersions, 3)?;
                    let gained = closed_loop::run(address, pressure, process, |_| api_versions(version))?;
                    describe(&mut outcome, "ApiVersions", &gained);
                }
                Request::Metadata => {
                    let version = dialogue.versions().of(ApiKey::Metadata, 12)?;
                    let named =
                        vec![MetadataRequestTopic { name: Some(topic.clone()), ..Default::default() }];
                    let request = MetadataRequest { topics: Some(named), ..Default::default() };
                    let judge = |response: &MetadataResponse| {
                        accepted(response.error_code, "Metadata")?;
                        response.topics.iter().try_for_each(|topic| accepted(topic.error_code, "Metadata"))
                    };
                    let work = |_| Repeated::new(&request, version, judge);
                    let gained = closed_loop::run(address, pressure, process, work)?;
                    describe(&mut outcome, "Metadata", &gained);
                }
                Request::Produce => {
                    let version = dialogue.versions().of(ApiKey::Produce, PRODUCE_BY_NAME)?;
                    let request = produce(&topic, 0, -1, &record);
                    let work = |_| Repeated::<ProduceRequest>::new(&request, version, judge_produced);
                    let gained = closed_loop::run(address, pressure, process, work)?;
                    describe(&mut outcome, "Produce", &gained);
                }
            }
        }
        dialogue.delete_topic(&topic)?;
        Ok(outcome)
    }
}

fn describe<W>(outcome: &mut Outcome, what: &str, gained: &Yield<W>) {
    for (name, share) in [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)] {
        outcome.time(format!("{what}, {name}"), gained.latencies.percentile(share));
    }
    outcome.add(format!("  {what} per second"), "/s", Better::Higher, gained.per_second);
    outcome.doubts.extend(gained.doubt_about_others(what));
}

/// The same request on every connection, again and again.
#[derive(Debug)]
pub(crate) struct Repeated<R: RequestMessage> {
    request: Template,
    check: ReplyCheck<R>,
}

impl<R: RequestMessage> Repeated<R> {
    pub(crate) fn new(request: &R, version: i16, judge: fn(&R::Response) -> Result<()>) -> Self {
        Self { request: Template::new(request, version), check: ReplyCheck::new(version, judge) }
    }
}

impl<R: RequestMessage> Work for Repeated<R> {
    #[inline]
    fn put(&mut self, _: usize, correlation_id: i32, outbox: &mut Vec<u8>) {
        self.request.put(correlation_id, 0, outbox);
    }

    #[inline]
    fn check(&mut self, _: usize, frame: &[u8]) -> Result<i32> {
        self.check.check(frame)
    }
}

/// The cheapest request that a server answers.
pub(crate) fn api_versions(version: i16) -> Repeated<ApiVersionsRequest> {
    let request = ApiVersionsRequest {
        client_software_name: crate::template::CLIENT_ID.to_owned(),
        client_software_version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let judge = |response: &ApiVersionsResponse| accepted(response.error_code, "ApiVersions");
    Repeated::new(&request, version, judge)
}
