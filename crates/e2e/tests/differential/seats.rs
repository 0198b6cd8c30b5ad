//! Several connections to both brokers, on which requests may stay unanswered for a while.
//!
//! Whether a request is parked cannot be told by waiting. Both brokers run here on one thread for sockets and one
//! for requests, so what was sent first is taken first; after a few round trips on another connection, everything
//! that a request brings about has been done and said, and what is not answered then is parked. Only what a clock
//! brings about in Kafka, be its delay 0, comes later: it is waited for until both show the same group.

use std::panic::Location;
use std::time::{Duration, Instant};

use e2e::kohort::Options;
use wire::api::describe_groups::DescribeGroupsRequest;
use wire::{AnyRequest, AnyResponse};

use crate::differences::NO_ANSWER;
use crate::names::Names;
use crate::pair::{FRONT, Outcome, Pair, Peer};

/// Round trips after which a request that was sent before has been taken, done, and answered if it is at all.
const ROUND_TRIPS: usize = 3;

/// How long what a clock brings about may take; reached only when it does not come.
const COMES_WITHIN: Duration = Duration::from_secs(20);

/// How long Kafka may take to show what it has done already: it shows what its log has committed.
const SAME_WITHIN: Duration = Duration::from_secs(10);

/// How many lines are kept of what members of groups have asked and were told.
const STORY: usize = 1_000;

/// A request that neither broker has answered yet.
pub(crate) struct Owed {
    group: String,
    what: String,
    version: i16,
    request: AnyRequest,
}

/// The members whose requests were answered, each with the error code.
pub(crate) type Said = Vec<(usize, i16)>;

impl Pair {
    /// Starts both so that their groups can be compared request by request.
    pub(crate) fn start_for_groups() -> Self {
        let settings = [
            ("group.initial.rebalance.delay.ms", "0"),
            ("group.min.session.timeout.ms", "100"),
            ("group.max.size", "4"),
            ("offsets.topic.num.partitions", "3"),
        ];
        let of_kafka = [
            ("num.network.threads", "1"),
            ("num.io.threads", "1"),
            ("group.coordinator.threads", "1"),
            ("group.coordinator.append.linger.ms", "0"),
        ];
        let mut pair =
            Self::start_with(&settings, &of_kafka, Options { one_processor: true, ..Options::default() });
        pair.wait_for_kafkas_groups();
        pair
    }

    /// Sends a request of the member at `seat`, waits until both brokers have done all they will do about it, and
    /// compares what they have said since to anybody, and how the group looks now.
    pub(crate) fn act(
        &mut self,
        what: &str,
        seat: usize,
        version: i16,
        group: &str,
        build: impl Fn(&Names) -> AnyRequest,
    ) -> Said {
        assert!(seat != FRONT, "requests on it are answered at once");
        if self.owed.contains_key(&seat) {
            self.found(format!("{what} of {seat} in {group}: it still waits for an earlier answer"));
            self.hang_up(seat);
        }
        self.asked += 1;
        let request = build(&self.kohort.names);
        let of_kafka = build(&self.kafka.names);
        self.kafka.greet(seat);
        self.kohort.greet(seat);
        self.kafka.send(seat, version, &of_kafka);
        self.kohort.send(seat, version, &request);
        self.note(group, format!("{seat} {what} v{version} {request:?}"));
        self.owed.insert(seat, Owed { group: group.to_owned(), what: what.to_owned(), version, request });
        self.rest(group);
        self.hear(Some(seat))
    }

    /// Waits until the group is in the state at both; returns what was said meanwhile.
    #[track_caller]
    pub(crate) fn until(&mut self, group: &str, state: &str) -> Said {
        let begun = Instant::now();
        loop {
            let states = self.states(group);
            if states.iter().all(|is| is == state) {
                break;
            }
            if begun.elapsed() > COMES_WITHIN {
                self.found(format!("{}: {group} is not {state} but {states:?}", Location::caller()));
                break;
            }
        }
        self.rest(group);
        self.hear(None)
    }

    /// Asks until both answer the same: a part of Kafka may hear of a change later than another.
    pub(crate) fn ask_until_same(&mut self, what: &str, version: i16, build: impl Fn(&Names) -> AnyRequest) {
        self.asked += 1;
        let begun = Instant::now();
        loop {
            let [kafka, kohort] = [&mut self.kafka, &mut self.kohort].map(|peer| {
                let request = build(&peer.names);
                let outcome = peer.ask(version, &request);
                peer.names.normal(&request, outcome)
            });
            if kafka == kohort {
                return;
            }
            if begun.elapsed() > COMES_WITHIN {
                let request = build(&self.kohort.names);
                return self.judge(what, version, &request, &kafka, &kohort);
            }
        }
    }

    fn note(&mut self, group: &str, line: String) {
        if self.story.len() == STORY {
            self.story.pop_front();
        }
        self.story.push_back((group.to_owned(), line));
    }

    /// Closes the connection of `seat` at both, whatever it waits for.
    pub(crate) fn hang_up(&mut self, seat: usize) {
        if let Some(Owed { group, .. }) = self.owed.remove(&seat) {
            self.note(&group, format!("{seat} hangs up"));
        }
        self.kafka.hang_up(seat);
        self.kohort.hang_up(seat);
    }

    /// The member at `seat` is somebody new from now on.
    pub(crate) fn vacate(&mut self, seat: usize) {
        self.hang_up(seat);
        self.kafka.names.forget(seat);
        self.kohort.names.forget(seat);
    }

    /// Makes sure that all that was sent is done, and compares how the group looks.
    fn rest(&mut self, group: &str) {
        let begun = Instant::now();
        loop {
            for _ in 1..ROUND_TRIPS {
                self.states(group);
            }
            let [kafka, kohort] = [&mut self.kafka, &mut self.kohort].map(|peer| {
                let outcome = peer.ask(5, &describe(group));
                peer.names.normal(&describe(group), outcome)
            });
            if kafka == kohort {
                break;
            }
            if begun.elapsed() > SAME_WITHIN {
                let story = self.story.iter().filter(|(of, _)| of == group);
                story.for_each(|(_, line)| println!("{line}"));
                self.judge("the group afterwards", 5, &describe(group), &kafka, &kohort);
                break;
            }
        }
        // What the clock has brought about is answered by now, too.
        self.states(group);
    }

    fn states(&mut self, group: &str) -> [String; 2] {
        [&mut self.kafka, &mut self.kohort].map(|peer| match peer.ask(5, &describe(group)) {
            Outcome::Answer(AnyResponse::DescribeGroups(answer)) => answer.groups[0].group_state.clone(),
            outcome => format!("{outcome:?}"),
        })
    }

    /// Compares what both have said on all connections, that of `first` before the others.
    fn hear(&mut self, first: Option<usize>) -> Said {
        let mut seats: Vec<usize> = self.owed.keys().copied().collect();
        seats.sort_by_key(|seat| (Some(*seat) != first, *seat));
        let mut said = Said::new();
        for seat in seats {
            let spoken = [self.kafka.has_spoken(seat), self.kohort.has_spoken(seat)];
            if spoken == [false, false] {
                continue;
            }
            let Owed { group, what, version, request } = self.owed.remove(&seat).expect("it is owed");
            let hear = |peer: &mut Peer| {
                let outcome = peer.answer(seat, version, request.api());
                let code = match &outcome {
                    Outcome::Answer(response) => {
                        peer.names.learn_at(seat, response);
                        Some(error_of(response))
                    }
                    Outcome::Closed | Outcome::Silent => None,
                };
                (code, peer.names.normal(&request, outcome))
            };
            let (_, kohort) = hear(&mut self.kohort);
            // The scripts wait long enough for Kafka's silence to be sure of it; here it is met too often for that.
            let is_silent =
                self.impatient && !spoken[0] && self.excuses(version, &request, NO_ANSWER, &kohort);
            let (code, kafka) = if is_silent {
                self.kafka.hang_up(seat);
                (None, NO_ANSWER.to_owned())
            } else {
                hear(&mut self.kafka)
            };
            let who_leads = |text| leader(text).unwrap_or_default().trim_start();
            self.note(
                &group,
                format!("{seat} is told {code:?} {} {}", who_leads(&kafka), who_leads(&kohort)),
            );
            if self.impatient && leader(&kafka) != leader(&kohort) {
                self.parted = true;
            }
            if kafka != kohort && !self.parted {
                self.judge(&what, version, &request, &kafka, &kohort);
            }
            if let Some(code) = code {
                *self.told.entry((request.api().name(), code)).or_default() += 1;
                said.push((seat, code));
            }
        }
        said
    }

    /// Kafka takes a moment to load the partitions of its new offsets topic.
    fn wait_for_kafkas_groups(&mut self) {
        let begun = Instant::now();
        // One group in each of the three partitions.
        let request = AnyRequest::DescribeGroups(DescribeGroupsRequest {
            groups: ["a", "b", "c"].map(str::to_owned).to_vec(),
            ..Default::default()
        });
        loop {
            if let Outcome::Answer(AnyResponse::DescribeGroups(answer)) = self.kafka.ask(5, &request)
                && answer.groups.iter().all(|group| group.error_code == 0)
            {
                return;
            }
            assert!(begun.elapsed() < COMES_WITHIN, "Kafka does not load its groups");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Who leads, as a reply to a join says.
fn leader(text: &str) -> Option<&str> {
    text.lines().find(|line| line.starts_with("        leader: "))
}

fn describe(group: &str) -> AnyRequest {
    AnyRequest::DescribeGroups(DescribeGroupsRequest { groups: vec![group.to_owned()], ..Default::default() })
}

/// The error that the member is told: that of the whole answer, or of its first part.
fn error_of(response: &AnyResponse) -> i16 {
    match response {
        AnyResponse::JoinGroup(response) => response.error_code,
        AnyResponse::SyncGroup(response) => response.error_code,
        AnyResponse::Heartbeat(response) => response.error_code,
        AnyResponse::LeaveGroup(response) => response.error_code,
        AnyResponse::OffsetCommit(response) => response
            .topics
            .first()
            .and_then(|topic| topic.partitions.first())
            .map_or(0, |part| part.error_code),
        _ => 0,
    }
}
