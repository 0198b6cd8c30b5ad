//! Fetch: reads what is there, and waits for what is not.
//!
//! A fetch that is satisfied from memory is answered within the call. One that needs the disk goes there in one
//! hop for all its partitions. One that has too little waits on its partitions and is woken when a log's durable
//! end moves, a topic goes or the broker ends; nothing polls.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use coordination::catalog::LEADER_EPOCH;
use coordination::error_code::ErrorCode;
use coordination::ids::{OrgId, TopicId};
use coordination::op::{self, TopicRef};
use coordination::reply::{self, Reply};
use rail::{Answer, AtHand, Carrier, SentRecords};
use store::{ReadBatches, ReadError};

use crate::Inner;
use crate::authorizer::Asker;
use crate::fetch_session::{Context, Wanted, begin};
use crate::leader_epoch::{check_leader_epoch, epoch_end};
use crate::partition::Partition;
use crate::read_budget::ReadBudget;
use crate::share::Share;

/// Handles one fetch request. With an `asker` only what that may read is read; what a session holds is asked for again
/// each time, since rules change while it goes on. What the client's gateway has of what was `sent` before is not read
/// again where that would need the disk.
pub(crate) fn handle_fetch(
    inner: &Arc<Inner>,
    carrier: &Carrier,
    asker: Option<&Asker>,
    mut op: op::Fetch,
    sent: Option<&SentRecords>,
) -> Answer {
    let (wanted, context) = match begin(&inner.sessions, inner.uptime(), carrier, &mut op) {
        Ok(begun) => begun,
        Err(error) => {
            let reply = reply::Fetch {
                error: Some(error),
                session_id: 0,
                topics: Vec::new(),
                throttle: Duration::ZERO,
            };
            return Reply::Fetch(reply).into();
        }
    };
    let Resolved { reads, topics, unknown, throttled } = resolve(inner, carrier.org(), asker, &wanted);
    let max_bytes = op.max_bytes.min(inner.limits.fetch_max_bytes());
    let max_bytes = throttled.as_ref().map_or(max_bytes, |share| max_bytes.min(share.most_at_once()));
    let fetch = Reading {
        reads,
        max_bytes: usize::try_from(max_bytes).unwrap_or(0),
        max_bytes_is_negative: max_bytes < 0,
        // A client that wants more than it may have is satisfied with all it may have.
        min_bytes: usize::try_from(op.min_bytes.min(max_bytes)).unwrap_or(0),
        budget: Arc::clone(&inner.read_budget),
    };
    let owed = throttled.as_ref().map_or(Duration::ZERO, |share| share.owes(inner.uptime()));
    let ending = Ending { inner: Arc::clone(inner), wanted, context, topics, unknown, throttled, owed };
    if !owed.is_zero()
        && let Some(found) = fetch.pass(Reach::Nothing)
    {
        // As in Kafka, an answer without records tells how long to wait for them.
        return ending.reply(found).into();
    }
    let found = fetch.pass(Reach::Memory(sent));
    match found {
        Some(found)
            if fetch.reads.is_empty() || op.max_wait.is_zero() || found.is_enough(fetch.min_bytes) =>
        {
            ending.reply(found).into()
        }
        found => {
            let deadline = Instant::now() + op.max_wait.min(LONGEST_WAIT);
            let needs_disk = found.is_none();
            Answer::Later(Box::pin(async move {
                let draining = ending.inner.draining.subscribe();
                let found = wait(fetch, needs_disk, deadline, draining).await;
                ending.reply(found)
            }))
        }
    }
}

/// A client may ask to wait for ever; its timer must not overflow.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 3600);

/// Reads until there is enough, the time is over, or the broker ends.
async fn wait(
    fetch: Reading,
    needs_disk: bool,
    deadline: Instant,
    mut draining: watch::Receiver<bool>,
) -> Found {
    let fetch = Arc::new(fetch);
    if needs_disk {
        let found = fetch.pass_on_disk().await;
        if found.is_enough(fetch.min_bytes) || Instant::now() >= deadline {
            return found;
        }
    }
    // Watching comes before looking, so that what comes in between wakes too.
    let moved = Arc::new(Notify::new());
    let _watches: Vec<_> = fetch.reads.iter().map(|read| read.partition.log().watch(&moved)).collect();
    loop {
        let found = match fetch.pass(Reach::Memory(None)) {
            Some(found) => found,
            None => fetch.pass_on_disk().await,
        };
        if found.is_enough(fetch.min_bytes) || Instant::now() >= deadline {
            return found;
        }
        tokio::select! {
            _ = tokio::time::timeout_at(deadline, moved.notified()) => {}
            _ = draining.wait_for(|draining| *draining) => return found,
        }
    }
}

/// What there is of what a request wants.
struct Resolved {
    reads: Vec<Read>,
    topics: Topics,
    /// What there is not, with its answer.
    unknown: Vec<(usize, reply::FetchPartition)>,
    /// What the organisation may have, if its bytes are counted.
    throttled: Option<Arc<Share>>,
}

/// Finds the partitions of a request; those that do not exist are answered at once.
fn resolve(inner: &Inner, org: OrgId, asker: Option<&Asker>, wanted: &[Wanted]) -> Resolved {
    let may_read = |name: &str| {
        asker.is_none_or(|asker| inner.admin.look(|catalog| asker.judge(catalog).may_read(name)))
    };
    let mut reads = Vec::with_capacity(wanted.len());
    let mut topics = Topics(Vec::with_capacity(1));
    let mut unknown = Vec::new();
    let mut throttled = None;
    let mut last = None;
    for (at, wanted) in wanted.iter().enumerate() {
        // Partitions of one topic come one after the other.
        let topic = match &last {
            Some((name, topic)) if Arc::ptr_eq(name, &wanted.topic) => topic,
            _ => {
                let topic = inner.topics.find(org, &wanted.topic);
                // A name that may not be read is refused whether it exists or not; an id that is not known is unknown.
                let name = match (&*wanted.topic, &topic) {
                    (TopicRef::Name(name), _) => Some(name.as_str()),
                    (TopicRef::Id(_), Some(topic)) => Some(&*topic.name),
                    (TopicRef::Id(_), None) => None,
                };
                let topic = match name {
                    Some(name) if !may_read(name) => Err(ErrorCode::TopicAuthorizationFailed),
                    _ => topic.ok_or_else(|| gone(matches!(*wanted.topic, TopicRef::Id(_)))),
                };
                topics.0.push((at, topic.as_ref().ok().map(|topic| topic.id)));
                if let Some(topic) = topic.as_ref().ok().filter(|topic| topic.share.is_throttled()) {
                    throttled.get_or_insert_with(|| Arc::clone(&topic.share));
                }
                &last.insert((Arc::clone(&wanted.topic), topic)).1
            }
        };
        let index = wanted.partition.index;
        match topic.as_ref().map(|topic| Some((topic.id, topic.partition(index)?))) {
            Ok(Some((topic, partition))) => reads.push(Read {
                at,
                topic,
                by_id: matches!(*wanted.topic, TopicRef::Id(_)),
                partition: Arc::clone(partition),
                from: wanted.partition.clone(),
            }),
            Ok(None) => unknown.push((at, refusal(index, ErrorCode::UnknownTopicOrPartition))),
            Err(code) => unknown.push((at, refusal(index, *code))),
        }
    }
    // Kafka looks for all ids before it looks for any partition.
    unknown.sort_by_key(|(_, answer)| answer.error != Some(ErrorCode::UnknownTopicId));
    Resolved { reads, topics, unknown, throttled }
}

/// The topics of a request: the place of each one's first partition in what the client wanted, and its id if it may
/// be read.
struct Topics(Vec<(usize, Option<TopicId>)>);

impl Topics {
    /// The topic of the partition at this place.
    fn at(&self, place: usize) -> Option<TopicId> {
        let behind = self.0.partition_point(|(first, _)| *first <= place);
        self.0.get(behind.checked_sub(1)?)?.1
    }
}

/// One partition of a request.
#[derive(Debug)]
struct Read {
    /// Its place in what the client wanted.
    at: usize,
    /// Whether the client names the topic by its id.
    by_id: bool,
    topic: TopicId,
    partition: Arc<Partition>,
    from: op::FetchPartition,
}

/// All that one request reads.
#[derive(Debug)]
struct Reading {
    reads: Vec<Read>,
    max_bytes: usize,
    max_bytes_is_negative: bool,
    min_bytes: usize,
    budget: Arc<ReadBudget>,
}

/// How far a look at the log may go.
#[derive(Clone, Copy)]
enum Reach<'a> {
    /// No records at all.
    Nothing,
    /// The broker's memory, and that of the client's gateway.
    Memory(Option<&'a SentRecords>),
    /// Within what slow clients leave.
    Disk(&'a Arc<ReadBudget>),
}

/// What one look at all partitions has found.
struct Found {
    answers: Vec<(usize, reply::FetchPartition)>,
    bytes: usize,
    /// There is something that the client must hear now, however little data there is.
    urgent: bool,
}

impl Found {
    fn is_enough(&self, min_bytes: usize) -> bool {
        self.urgent || self.bytes >= min_bytes
    }
}

impl Reading {
    /// Looks at every partition; `None` when the disk is needed and must not be touched.
    fn pass(&self, reach: Reach<'_>) -> Option<Found> {
        let mut found = Found { answers: Vec::with_capacity(self.reads.len()), bytes: 0, urgent: false };
        for read in &self.reads {
            let left = self.max_bytes.saturating_sub(found.bytes);
            // Kafka takes what was read off the rest and stops at 0: only the first meets a negative one.
            let is_negative = self.max_bytes_is_negative && found.answers.is_empty();
            let most = match usize::try_from(read.from.max_bytes) {
                Ok(most) if !is_negative => Some(most.min(left)),
                _ => None,
            };
            // The first batch of the answer comes whole whatever its size: a client must get on.
            let answer = read.look(reach, most, found.bytes == 0)?;
            found.bytes += answer.bytes();
            found.urgent |= answer.error.is_some() || answer.diverging_epoch.is_some();
            found.answers.push((read.at, answer));
        }
        Some(found)
    }

    async fn pass_on_disk(self: &Arc<Self>) -> Found {
        let reading = Arc::clone(self);
        let found = tokio::task::spawn_blocking(move || reading.pass(Reach::Disk(&reading.budget))).await;
        found.ok().flatten().unwrap_or_else(|| {
            let failed = |read: &Read| (read.at, refusal(read.from.index, ErrorCode::UnknownServerError));
            Found { answers: self.reads.iter().map(failed).collect(), bytes: 0, urgent: true }
        })
    }
}

impl Read {
    /// Looks at the log; `None` when the disk is needed and must not be touched. A negative size is `None`.
    fn look(
        &self,
        reach: Reach<'_>,
        max_bytes: Option<usize>,
        at_least_one: bool,
    ) -> Option<reply::FetchPartition> {
        let index = self.from.index;
        if self.partition.is_closed() {
            return Some(refusal(index, gone(self.by_id)));
        }
        // In this request, and only in this one, Kafka takes every negative epoch for none.
        let epoch = |epoch: Option<i32>| epoch.filter(|epoch| *epoch >= 0);
        if let Err(code) = check_leader_epoch(epoch(self.from.current_leader_epoch)) {
            let known = (code == ErrorCode::FencedLeaderEpoch).then_some(LEADER_EPOCH);
            return Some(reply::FetchPartition { current_leader_epoch: known, ..refusal(index, code) });
        }
        let log = self.partition.log();
        let offset = self.from.fetch_offset;
        if let Some(epoch) = epoch(self.from.last_fetched_epoch) {
            let (known, end) = epoch_end(epoch, log.end_offset());
            if known < 0 || end < 0 || offset < log.start_offset() {
                return Some(refusal(index, ErrorCode::OffsetOutOfRange));
            }
            if known < epoch || end < offset {
                return Some(reply::FetchPartition {
                    diverging_epoch: Some((known, end)),
                    ..self.answer(Vec::new())
                });
            }
        }
        if offset == log.end_offset() {
            return Some(self.answer(Vec::new()));
        }
        let within = log.start_offset()..log.end_offset();
        // Kafka fails in this way on a negative size, and only where there is something to read.
        let Some(max_bytes) = max_bytes else {
            let code = if within.contains(&offset) {
                ErrorCode::UnknownServerError
            } else {
                ErrorCode::OffsetOutOfRange
            };
            return Some(refusal(index, code));
        };
        // Where nothing is left of what the client takes, nothing has to be read.
        let reach = if max_bytes == 0 && !at_least_one { Reach::Nothing } else { reach };
        // Looked at before the records, so that these are never older than it says.
        let files = log.files_version();
        let read = match reach {
            Reach::Nothing if within.contains(&offset) => return Some(self.answer(Vec::new())),
            Reach::Nothing => return Some(refusal(index, ErrorCode::OffsetOutOfRange)),
            Reach::Memory(sent) => match log.read_recent(offset, max_bytes, at_least_one) {
                Some(read) => read,
                None => return self.at_hand(sent?, files, max_bytes),
            },
            Reach::Disk(budget) => {
                let reserved = budget.reserve(max_bytes);
                log.read(offset, reserved.bytes(), at_least_one)
                    .map(|read| ReadBatches { chunks: reserved.hold(read.chunks), ..read })
            }
        };
        Some(match read {
            Ok(ReadBatches { chunks, .. }) => {
                let origin = reply::Origin { files, ..reply::Origin::default() };
                reply::FetchPartition { origin, ..self.answer(chunks) }
            }
            Err(ReadError::OutOfRange { .. }) => refusal(index, ErrorCode::OffsetOutOfRange),
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::error!(partition = %log.key(), offset, error, "read records");
                refusal(index, ErrorCode::KafkaStorageError)
            }
        })
    }

    /// The answer with what the client's gateway has, if that is worth an answer: half of what the client takes, or all
    /// there is.
    fn at_hand(&self, sent: &SentRecords, files: u64, max_bytes: usize) -> Option<reply::FetchPartition> {
        let (log, from) = (self.partition.log(), &self.from);
        let AtHand { numbers, bytes, next_offset } =
            sent.at_hand(self.topic, from.index, files, from.fetch_offset, max_bytes);
        if bytes == 0 || (bytes < max_bytes / 2 && next_offset < log.end_offset()) {
            return None;
        }
        let origin = reply::Origin { files, at_hand: numbers, at_hand_bytes: bytes };
        Some(reply::FetchPartition { origin, ..self.answer(Vec::new()) })
    }

    /// The answer with these records. The high watermark is looked at after the records, so that it never lies
    /// before their end.
    fn answer(&self, records: Vec<Bytes>) -> reply::FetchPartition {
        let high_watermark = self.partition.log().end_offset();
        reply::FetchPartition {
            index: self.from.index,
            error: None,
            high_watermark,
            last_stable_offset: high_watermark,
            log_start_offset: self.partition.log().start_offset(),
            diverging_epoch: None,
            current_leader_epoch: None,
            records,
            origin: reply::Origin::default(),
        }
    }
}

/// What is needed to put the answer together.
struct Ending {
    inner: Arc<Inner>,
    wanted: Vec<Wanted>,
    context: Context,
    topics: Topics,
    unknown: Vec<(usize, reply::FetchPartition)>,
    throttled: Option<Arc<Share>>,
    /// How long the organisation had to be quiet when it asked.
    owed: Duration,
}

impl Ending {
    fn reply(self, found: Found) -> Reply {
        let Self { inner, wanted, context, topics: asked, unknown, throttled, owed } = self;
        let Found { mut answers, mut bytes, .. } = found;
        let taken = throttled.map_or(Ok(Duration::ZERO), |share| share.take_out(inner.uptime(), bytes));
        let throttle = match taken {
            Ok(pause) => pause.max(owed),
            Err(pause) => {
                answers.iter_mut().for_each(|(_, answer)| answer.clear_records());
                bytes = 0;
                pause
            }
        };
        // Kafka answers what it could read before what it could not find.
        answers.extend(unknown);
        let session_id = match context {
            Context::Sessionless => 0,
            Context::New { by_id, carrier } => {
                let id = rand::random_range(1..=i32::MAX);
                inner.sessions.lock().create(inner.uptime(), id, &carrier, by_id, &wanted, &answers)
            }
            Context::Running { id, session } => {
                session.lock().keep_news(&wanted, &mut answers);
                id
            }
        };
        inner.metrics.fetched(bytes);
        let mut topics: Vec<reply::FetchTopic> = Vec::new();
        let mut last: Option<&Arc<TopicRef>> = None;
        for (at, answer) in answers {
            let name = &wanted[at].topic;
            let id = asked.at(at);
            match topics.last_mut() {
                Some(topic) if last.is_some_and(|last| Arc::ptr_eq(last, name) || last == name) => {
                    // Between two looks at one name its topic may have become another.
                    topic.id = topic.id.filter(|&before| id == Some(before));
                    topic.partitions.push(answer);
                }
                _ => {
                    let topic = TopicRef::clone(name);
                    topics.push(reply::FetchTopic { topic, id, partitions: vec![answer] });
                }
            }
            last = Some(name);
        }
        Reply::Fetch(reply::Fetch { error: None, session_id, topics, throttle })
    }
}

fn gone(by_id: bool) -> ErrorCode {
    if by_id { ErrorCode::UnknownTopicId } else { ErrorCode::UnknownTopicOrPartition }
}

fn refusal(index: i32, code: ErrorCode) -> reply::FetchPartition {
    reply::FetchPartition {
        index,
        error: Some(code),
        high_watermark: -1,
        last_stable_offset: -1,
        log_start_offset: -1,
        diverging_epoch: None,
        current_leader_epoch: None,
        records: Vec::new(),
        origin: reply::Origin::default(),
    }
}
