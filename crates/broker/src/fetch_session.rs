//! Fetch sessions (KIP-227): what a client reads, remembered between its requests.
//!
//! A client in a session names only what changed, and hears only of partitions that have something to say.
//! Pure: time and ids are handed in.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use coordination::error_code::ErrorCode;
use coordination::ids::OrgId;
use coordination::limits::{FETCH_SESSION_PARTITIONS_MAX, FETCH_SESSIONS_MAX};
use coordination::op::{self, TopicRef};
use coordination::reply;
use rail::Carrier;

/// Asks for a session.
const INITIAL_EPOCH: i32 = 0;

/// Reads without a session, and ends the one that is named.
const FINAL_EPOCH: i32 = -1;

/// How long a session must have been idle before another may take its place, as Kafka's
/// `min.incremental.fetch.session.eviction.ms`. Without it, one client too many would make all of them lose their
/// sessions in turn.
const EVICTION_IDLE: Duration = Duration::from_secs(120);

/// One partition that a fetch reads.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    /// The topic as the client names it.
    pub(crate) topic: Arc<TopicRef>,
    /// Where to read, and how much.
    pub(crate) partition: op::FetchPartition,
}

/// How the answer to one fetch is put together.
#[derive(Debug)]
pub(crate) enum Context {
    /// Every partition is answered and nothing is remembered.
    Sessionless,
    /// Every partition is answered, and a session begins with the answer.
    New {
        /// Whether the client names topics by id.
        by_id: bool,
        /// Whose it is to be.
        carrier: Carrier,
    },
    /// Only partitions with news are answered.
    Running {
        /// The session's id.
        id: i32,
        /// What is remembered.
        session: Arc<Mutex<Session>>,
    },
}

/// All sessions.
#[derive(Debug, Default)]
pub(crate) struct FetchSessions {
    sessions: HashMap<i32, Arc<Mutex<Session>>>,
    /// How many partitions all of them remember.
    partitions: Arc<AtomicUsize>,
}

/// What one client reads.
#[derive(Debug)]
pub(crate) struct Session {
    org: OrgId,
    principal: Arc<str>,
    by_id: bool,
    /// The epoch that the next request must have.
    epoch: i32,
    /// On the clock of the caller.
    used: Duration,
    /// In the order in which they are read. One that gave records goes to the end, so that a busy partition
    /// cannot fill every answer.
    entries: BTreeMap<u64, Entry>,
    places: HashMap<(Arc<TopicRef>, i32), u64>,
    next_place: u64,
    /// How many partitions all sessions remember, those of this one among them.
    all_partitions: Arc<AtomicUsize>,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.all_partitions.fetch_sub(self.entries.len(), Ordering::Relaxed);
    }
}

#[derive(Debug)]
struct Entry {
    wanted: Wanted,
    /// What the client was told last; -1 before the first answer and after an error.
    high_watermark: i64,
    log_start_offset: i64,
}

/// Finds out what the request reads and how it is to be answered.
///
/// All sessions are locked only to find one.
///
/// # Errors
/// When the session is not known or somebody else's (70), is at another epoch (71), or names topics the other way (106).
pub(crate) fn begin(
    sessions: &Mutex<FetchSessions>,
    now: Duration,
    carrier: &Carrier,
    fetch: &mut op::Fetch,
) -> Result<(Vec<Wanted>, Context), ErrorCode> {
    let topics = std::mem::take(&mut fetch.topics);
    let id = fetch.session_id;
    if matches!(fetch.session_epoch, INITIAL_EPOCH | FINAL_EPOCH) {
        if id != 0 {
            sessions.lock().end(id, carrier);
        }
        let context = match fetch.session_epoch {
            INITIAL_EPOCH => Context::New { by_id: fetch.by_id, carrier: carrier.clone() },
            _ => Context::Sessionless,
        };
        return Ok((once_each(topics), context));
    }

    let session = sessions.lock().sessions.get(&id).cloned().ok_or(ErrorCode::FetchSessionIdNotFound)?;
    let mut running = session.lock();
    if !running.is_of(carrier) {
        return Err(ErrorCode::FetchSessionIdNotFound);
    }
    if running.epoch != fetch.session_epoch {
        return Err(ErrorCode::InvalidFetchSessionEpoch);
    }
    if fetch.by_id != running.by_id {
        return Err(ErrorCode::FetchSessionTopicIdError);
    }
    running.update(topics, &fetch.forgotten);
    if running.all_partitions.load(Ordering::Relaxed) > FETCH_SESSION_PARTITIONS_MAX {
        drop(running);
        sessions.lock().sessions.remove(&id);
        // The client begins again with all its partitions, and does without a session if there is no room then.
        return Err(ErrorCode::FetchSessionIdNotFound);
    }
    if running.entries.is_empty() {
        drop(running);
        sessions.lock().sessions.remove(&id);
        return Ok((Vec::new(), Context::Sessionless));
    }
    running.used = now;
    running.epoch = next_epoch(running.epoch);
    let wanted = running.entries.values().map(|entry| entry.wanted.clone()).collect();
    drop(running);
    Ok((wanted, Context::Running { id, session }))
}

impl FetchSessions {
    /// Remembers a new session and gives its id: `id`, which is random and positive, or 0 when there is no room.
    pub(crate) fn create(
        &mut self,
        now: Duration,
        id: i32,
        carrier: &Carrier,
        by_id: bool,
        wanted: &[Wanted],
        answers: &[(usize, reply::FetchPartition)],
    ) -> i32 {
        let partitions = self.partitions.load(Ordering::Relaxed).saturating_add(wanted.len());
        if id <= 0
            || self.sessions.contains_key(&id)
            || partitions > FETCH_SESSION_PARTITIONS_MAX
            || !self.make_room(now)
        {
            return 0;
        }
        let mut session = Session {
            org: carrier.org(),
            principal: Arc::clone(carrier.principal()),
            by_id,
            epoch: next_epoch(INITIAL_EPOCH),
            used: now,
            entries: BTreeMap::new(),
            places: HashMap::new(),
            next_place: 0,
            all_partitions: Arc::clone(&self.partitions),
        };
        for (at, answer) in answers {
            if let Some(wanted) = wanted.get(*at) {
                let place = session.insert(wanted.clone());
                if let Some(entry) = session.entries.get_mut(&place) {
                    entry.is_news(answer);
                }
            }
        }
        self.sessions.insert(id, Arc::new(Mutex::new(session)));
        id
    }

    /// Ends the session, if it is the client's own.
    fn end(&mut self, id: i32, carrier: &Carrier) {
        if self.sessions.get(&id).is_some_and(|session| session.lock().is_of(carrier)) {
            self.sessions.remove(&id);
        }
    }

    fn make_room(&mut self, now: Duration) -> bool {
        if self.sessions.len() < FETCH_SESSIONS_MAX {
            return true;
        }
        let idlest = self.sessions.iter().map(|(&id, session)| (session.lock().used, id)).min();
        match idlest {
            Some((used, id)) if now.saturating_sub(used) > EVICTION_IDLE => {
                self.sessions.remove(&id).is_some()
            }
            _ => false,
        }
    }
}

impl Session {
    /// Whether it is the client's own. Ids are numbers that anybody can guess, and the sessions of all are in one map.
    fn is_of(&self, carrier: &Carrier) -> bool {
        self.org == carrier.org() && self.principal == *carrier.principal()
    }

    /// Leaves in `answers` only what has something to say, and remembers what the client is told.
    pub(crate) fn keep_news(&mut self, wanted: &[Wanted], answers: &mut Vec<(usize, reply::FetchPartition)>) {
        answers.retain(|(at, answer)| {
            let Some(wanted) = wanted.get(*at) else { return false };
            let key = (wanted.topic.clone(), wanted.partition.index);
            // It may have been forgotten by a later request while this one waited.
            let Some(&place) = self.places.get(&key) else { return true };
            let Some(entry) = self.entries.get_mut(&place) else { return true };
            let news = entry.is_news(answer);
            if answer.has_records()
                && let Some(entry) = self.entries.remove(&place)
            {
                self.entries.insert(self.next_place, entry);
                self.places.insert(key, self.next_place);
                self.next_place += 1;
            }
            news
        });
    }

    fn update(&mut self, topics: Vec<op::FetchTopic>, forgotten: &[op::ForgottenTopic]) {
        for topic in topics {
            let name = Arc::new(topic.topic);
            for partition in topic.partitions {
                match self
                    .places
                    .get(&(name.clone(), partition.index))
                    .and_then(|place| self.entries.get_mut(place))
                {
                    Some(entry) => entry.wanted.partition = partition,
                    None => {
                        self.insert(Wanted { topic: name.clone(), partition });
                    }
                }
            }
        }
        for topic in forgotten {
            let name = Arc::new(topic.topic.clone());
            for &index in &topic.partitions {
                if let Some(place) = self.places.remove(&(name.clone(), index))
                    && self.entries.remove(&place).is_some()
                {
                    self.all_partitions.fetch_sub(1, Ordering::Relaxed);
                }
            }
        }
    }

    fn insert(&mut self, wanted: Wanted) -> u64 {
        let place = self.next_place;
        self.next_place += 1;
        self.places.insert((wanted.topic.clone(), wanted.partition.index), place);
        self.entries.insert(place, Entry { wanted, high_watermark: -1, log_start_offset: -1 });
        self.all_partitions.fetch_add(1, Ordering::Relaxed);
        place
    }
}

impl Entry {
    /// Whether a client in a session must hear of `answer`; what it holds is remembered as told.
    fn is_news(&mut self, answer: &reply::FetchPartition) -> bool {
        let news = answer.has_records()
            || answer.high_watermark != self.high_watermark
            || answer.log_start_offset != self.log_start_offset
            || answer.error.is_some()
            || answer.diverging_epoch.is_some();
        // After an error nothing counts as told, so that the client hears when the error is gone.
        self.high_watermark = if answer.error.is_some() { -1 } else { answer.high_watermark };
        self.log_start_offset = answer.log_start_offset;
        news
    }
}

/// The partitions of a request. One that is named twice is read once, as it was named last.
fn once_each(topics: Vec<op::FetchTopic>) -> Vec<Wanted> {
    let count = topics.iter().map(|topic| topic.partitions.len()).sum();
    let mut wanted: Vec<Wanted> = Vec::with_capacity(count);
    let mut places = HashMap::new();
    for topic in topics {
        let name = Arc::new(topic.topic);
        for partition in topic.partitions {
            if count > 1 {
                match places.entry((name.clone(), partition.index)) {
                    std::collections::hash_map::Entry::Occupied(place) => {
                        let place: usize = *place.get();
                        wanted[place].partition = partition;
                        continue;
                    }
                    std::collections::hash_map::Entry::Vacant(vacant) => {
                        vacant.insert(wanted.len());
                    }
                }
            }
            wanted.push(Wanted { topic: name.clone(), partition });
        }
    }
    wanted
}

/// Epochs go from `i32::MAX` to 1: 0 and -1 mean something else.
fn next_epoch(epoch: i32) -> i32 {
    epoch.checked_add(1).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(session_id: i32, session_epoch: i32, partitions: &[i32]) -> op::Fetch {
        let part = |&index: &i32| op::FetchPartition {
            index,
            current_leader_epoch: None,
            fetch_offset: 0,
            last_fetched_epoch: None,
            max_bytes: 1,
        };
        let partitions: Vec<_> = partitions.iter().map(part).collect();
        op::Fetch {
            max_wait: Duration::ZERO,
            min_bytes: 0,
            max_bytes: 0,
            read_committed: false,
            session_id,
            session_epoch,
            by_id: false,
            topics: vec![op::FetchTopic { topic: TopicRef::Name("t".to_owned()), partitions }],
            forgotten: Vec::new(),
        }
    }

    fn client() -> Carrier {
        Carrier::new(std::net::Ipv4Addr::LOCALHOST.into(), "PLAINTEXT".into())
    }

    fn open(sessions: &Mutex<FetchSessions>, now: Duration, id: i32) -> i32 {
        let (wanted, _) =
            begin(sessions, now, &client(), &mut request(0, 0, &[0])).expect("a full fetch is always taken");
        sessions.lock().create(now, id, &client(), false, &wanted, &[])
    }

    #[test]
    fn a_session_that_has_been_idle_for_long_makes_room_for_a_new_one() {
        let sessions = Mutex::default();
        let ids = 1..=i32::try_from(FETCH_SESSIONS_MAX).expect("a small number");
        for id in ids.clone() {
            assert_eq!(open(&sessions, Duration::from_secs(1), id), id);
        }
        let next = ids.end() + 1;
        assert_eq!(open(&sessions, Duration::from_secs(60), next), 0, "all of them are in use");
        let late = Duration::from_secs(1) + EVICTION_IDLE + Duration::from_secs(1);
        assert_eq!(open(&sessions, late, next), next);
        assert_eq!(sessions.lock().sessions.len(), FETCH_SESSIONS_MAX);
    }

    #[test]
    fn sessions_remember_a_bounded_number_of_partitions_together() {
        let sessions = Mutex::<FetchSessions>::default();
        // As if others remembered nearly as many as there may be.
        let others = FETCH_SESSION_PARTITIONS_MAX - 4;
        sessions.lock().partitions.store(others, Ordering::Relaxed);
        let open = |id| {
            let (wanted, _) = begin(&sessions, Duration::ZERO, &client(), &mut request(0, 0, &[0, 1]))
                .expect("a full fetch is taken");
            let answers: Vec<_> = (0..wanted.len()).map(|at| (at, unknown(at))).collect();
            sessions.lock().create(Duration::ZERO, id, &client(), false, &wanted, &answers)
        };
        let remembered = || sessions.lock().partitions.load(Ordering::Relaxed) - others;
        assert_eq!((open(1), open(2), open(3)), (1, 2, 0));
        assert_eq!(remembered(), 4);
        let more = begin(&sessions, Duration::ZERO, &client(), &mut request(1, 1, &[2]));
        assert_eq!(more.expect_err("there is no room"), ErrorCode::FetchSessionIdNotFound);
        assert_eq!(remembered(), 2, "what the session held is free again");
        let mut forgetting = request(2, 1, &[]);
        let topic = TopicRef::Name("t".to_owned());
        forgetting.forgotten = vec![op::ForgottenTopic { topic, partitions: vec![0, 0] }];
        begin(&sessions, Duration::ZERO, &client(), &mut forgetting).expect("it goes on");
        assert_eq!(remembered(), 1);
    }

    fn unknown(at: usize) -> reply::FetchPartition {
        reply::FetchPartition {
            index: i32::try_from(at).expect("a small number"),
            error: Some(ErrorCode::UnknownTopicOrPartition),
            high_watermark: -1,
            last_stable_offset: -1,
            log_start_offset: -1,
            diverging_epoch: None,
            current_leader_epoch: None,
            records: Vec::new(),
            origin: reply::Origin::default(),
        }
    }

    #[test]
    fn a_session_can_neither_be_used_nor_ended_by_anybody_else() {
        let sessions = Mutex::default();
        let (org, principal) = (OrgId::from_u128(7), rail::ANONYMOUS);
        for (org, principal) in [(org, principal), (OrgId::DEFAULT, "User:alice")] {
            let (wanted, _) =
                begin(&sessions, Duration::ZERO, &client(), &mut request(0, 0, &[0])).expect("taken");
            let answers = [(0, unknown(0))];
            sessions.lock().create(Duration::ZERO, 5, &client(), false, &wanted, &answers);
            let mut stranger = client();
            stranger.belongs_to(org, principal.into());
            let used = begin(&sessions, Duration::ZERO, &stranger, &mut request(5, 1, &[]));
            assert_eq!(used.expect_err("it is not theirs"), ErrorCode::FetchSessionIdNotFound);
            begin(&sessions, Duration::ZERO, &stranger, &mut request(5, -1, &[])).expect("ends nothing");
            begin(&sessions, Duration::ZERO, &stranger, &mut request(5, 0, &[])).expect("ends nothing");
            let own = begin(&sessions, Duration::ZERO, &client(), &mut request(5, 1, &[]));
            assert!(matches!(own, Ok((wanted, Context::Running { .. })) if wanted.len() == 1));
            begin(&sessions, Duration::ZERO, &client(), &mut request(5, -1, &[])).expect("ends it");
            assert!(sessions.lock().sessions.is_empty());
        }
    }

    #[test]
    fn a_partition_named_twice_is_read_once() {
        let (wanted, _) =
            begin(&Mutex::default(), Duration::ZERO, &client(), &mut request(0, -1, &[3, 4, 3]))
                .expect("taken");
        let indices: Vec<i32> = wanted.iter().map(|wanted| wanted.partition.index).collect();
        assert_eq!(indices, [3, 4]);
    }

    #[test]
    fn epochs_wrap_to_one() {
        assert_eq!((next_epoch(0), next_epoch(7), next_epoch(i32::MAX)), (1, 8, 1));
    }
}
