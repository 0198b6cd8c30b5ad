//! `latency`: one request in flight on one connection, and how long each takes.

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use wire::api::api_versions::{ApiVersionsRequest, ApiVersionsResponse};
use wire::api::metadata::{MetadataRequest, MetadataRequestTopic, MetadataResponse};
use wire::api::produce::ProduceRequest;
use wire::{ApiKey, RequestMessage};

use crate::closed_loop::{self, Pressure, Work, Yield};
use crate::compare::Target;
use crate::dialogue::{Dialogue, accepted};
use crate::figure::{Better, Outcome};
use crate::misuse::Misuse;
use crate::options::Common;
use crate::progress;
use crate::records::{PRODUCE_BY_NAME, append, batch, judge_produced, produce};
use crate::reply_check::ReplyCheck;
use crate::scenario::produce::{end_offsets, holds};
use crate::scenario::{Scenario, unique};
use crate::setting::Setting;
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

    fn settings(&self) -> Vec<Setting> {
        let asked: Vec<String> = self.request.iter().map(|request| format!("{request:?}")).collect();
        vec![Setting::unsaid("request", asked.join(","))]
    }

    fn check(&self) -> Result<(), Misuse> {
        Misuse::unless_distinct("--request", &self.request)
    }

    fn numbers(&mut self) -> Vec<(&'static str, &mut usize)> {
        Vec::new()
    }

    fn measure(&self, target: &Target) -> Result<Outcome> {
        let (address, process) = target.server()?;
        let mut dialogue = Dialogue::with_one_broker(address)?;
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
                        response
                            .topics
                            .iter()
                            .try_for_each(|topic| accepted(topic.error_code, "Metadata"))?;
                        let found: Vec<_> = response.topics.iter().map(|it| it.partitions.len()).collect();
                        ensure!(found == [1], "Metadata shows {found:?} partitions instead of 1");
                        Ok(())
                    };
                    let work = |_| Repeated::new(&request, version, judge);
                    let gained = closed_loop::run(address, pressure, process, work)?;
                    describe(&mut outcome, "Metadata", &gained);
                }
                Request::Produce => {
                    let version = dialogue.versions().of(ApiKey::Produce, PRODUCE_BY_NAME)?;
                    let request = produce(&topic, 0, -1, &record);
                    let before = end_offsets(&mut dialogue, &topic, 1)?;
                    let work = |_| Repeated::<ProduceRequest>::new(&request, version, judge_produced);
                    let gained = closed_loop::run(address, pressure, process, work)?;
                    let acknowledged = gained.works.iter().map(|work| work.answered).sum();
                    holds(&mut dialogue, &topic, 1, before, acknowledged)?;
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
    outcome.doubts.extend(gained.cores.doubt_about_others(what));
}

/// The same request on every connection, again and again.
#[derive(Debug)]
pub(crate) struct Repeated<R: RequestMessage> {
    request: Template,
    check: ReplyCheck<R>,
    /// Good replies so far.
    answered: u64,
}

impl<R: RequestMessage<Response: 'static>> Repeated<R> {
    pub(crate) fn new(request: &R, version: i16, judge: fn(&R::Response) -> Result<()>) -> Self {
        Self { request: Template::new(request, version), check: ReplyCheck::new(version, judge), answered: 0 }
    }
}

impl<R: RequestMessage> Work for Repeated<R> {
    #[inline]
    fn put(&mut self, _: usize, correlation_id: i32, outbox: &mut Vec<u8>) {
        self.request.put(correlation_id, 0, outbox);
    }

    #[inline]
    fn check(&mut self, _: usize, frame: &[u8]) -> Result<i32> {
        let id = self.check.check(frame)?;
        self.answered += 1;
        Ok(id)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted_server::{ListedOffset, Tamper, measured, start};

    /// Asks a server whose answers are tampered with, and says what was wrong.
    fn check(request: &str, tamper: Tamper, expected: &str) {
        let said = measured::<Latency>(start(tamper), &["--request", request]);
        assert!(said.contains(expected), "{said}");
    }

    #[test]
    fn every_request_can_be_measured() {
        check("api-versions,metadata,produce", |_, _| (), "nothing");
    }

    #[test]
    fn a_log_that_lacks_a_record_spoils_the_run() {
        check(
            "produce",
            |_, answer| answer.list(|end| if end > 1 { end - 1 } else { end }),
            "and the log has",
        );
    }

    #[test]
    fn metadata_about_nothing_spoils_the_run() {
        let nothing: Tamper = |request, answer| match (request, answer) {
            // What the load asks for; the preparation does not want the topic to be made.
            (wire::AnyRequest::Metadata(asked), wire::AnyResponse::Metadata(answer))
                if asked.allow_auto_topic_creation =>
            {
                answer.topics.clear();
            }
            _ => (),
        };
        check("metadata", nothing, "Metadata shows [] partitions instead of 1");
    }
}
