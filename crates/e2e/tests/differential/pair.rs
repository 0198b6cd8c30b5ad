//! A Kafka and a Kohort that are asked the same.

use std::collections::{BTreeMap, VecDeque};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use bytes::Bytes;
use e2e::kafka::Kafka;
use e2e::kohort::{Kohort, Options};
use wire::{AnyRequest, AnyResponse, ApiKey, RequestHeader};

use crate::differences::{self, Answered};
use crate::guests::Guest;
use crate::names::Names;
use crate::seats::Owed;

/// How long a broker may take to answer; reached only when it does not answer at all.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// How long Kafka may take until what it has accepted is seen by all its parts.
const SETTLED_WITHIN: Duration = Duration::from_secs(10);

/// Records are older here than either would keep them, and neither may clean up while they are compared.
pub(crate) const COMMON: [(&str, &str); 3] = [
    ("log.retention.ms", "-1"),
    ("log.retention.check.interval.ms", "3600000"),
    ("log.cleaner.enable", "false"),
];

/// What a broker did with a request.
#[derive(Debug)]
pub(crate) enum Outcome {
    Answer(AnyResponse),
    /// It closed the connection, as Kafka does with what it cannot read.
    Closed,
    /// It said nothing for [`ANSWER_WITHIN`].
    Silent,
}

/// Why there is no frame to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absent {
    Closed,
    Silent,
}

impl From<Absent> for Outcome {
    fn from(absent: Absent) -> Self {
        match absent {
            Absent::Closed => Self::Closed,
            Absent::Silent => Self::Silent,
        }
    }
}

/// Both brokers, and what was found so far.
pub(crate) struct Pair {
    pub(crate) kafka: Peer,
    pub(crate) kohort: Peer,
    pub(crate) asked: usize,
    pub(crate) found: Vec<String>,
    /// The requests that neither has answered yet, by the connection that they were sent on.
    pub(crate) owed: BTreeMap<usize, Owed>,
    /// What members of groups have asked and were told last, by group: it tells how a difference came about.
    pub(crate) story: VecDeque<(String, String)>,
    /// How often members were told what: it shows whether random ones get anywhere.
    pub(crate) told: BTreeMap<(&'static str, i16), usize>,
    /// Whether what Kafka leaves to chance, or leaves unanswered, is passed over.
    pub(crate) impatient: bool,
    /// The group that was looked at last is led by different members, as happens once a leader is gone.
    pub(crate) parted: bool,
    /// Kafka did not come to agree once; it is not waited for again.
    unsettled: bool,
    /// The two have not the same rules; they are not waited for again.
    pub(crate) rules_differ: bool,
    excused: Vec<&'static str>,
    _processes: (Kafka, Kohort),
}

/// One broker and the connections to it.
pub(crate) struct Peer {
    address: String,
    streams: BTreeMap<usize, TcpStream>,
    correlation_id: i32,
    /// The correlation ids of the requests that were sent last on each connection.
    last_sent: BTreeMap<usize, i32>,
    /// Where connections lead that do not belong to nobody in particular, and whose they are.
    pub(crate) guests: BTreeMap<usize, Guest>,
    pub(crate) names: Names,
}

/// The connection of requests that are answered at once.
pub(crate) const FRONT: usize = 0;

impl Pair {
    /// Starts both with the same settings.
    pub(crate) fn start() -> Self {
        Self::start_with(&[], &[], Options::default())
    }

    /// Starts both with `settings`, Kafka with `of_kafka` beside them and Kohort with `options`.
    pub(crate) fn start_with(
        settings: &[(&str, &str)],
        of_kafka: &[(&str, &str)],
        mut options: Options,
    ) -> Self {
        let kafka = Kafka::start_with(&[&COMMON, settings, of_kafka].concat()).expect("start Kafka");
        for (name, value) in COMMON.iter().chain(settings) {
            options = options.set(name, value);
        }
        let kohort = Kohort::start(options).expect("start Kohort");
        Self::of(kafka, kohort)
    }

    /// Both as they were started; waits until Kafka is ready for everything.
    pub(crate) fn of(kafka: Kafka, kohort: Kohort) -> Self {
        let mut pair = Self {
            kafka: Peer::new(kafka.bootstrap()),
            kohort: Peer::new(kohort.bootstrap()),
            asked: 0,
            found: Vec::new(),
            owed: BTreeMap::new(),
            story: VecDeque::new(),
            told: BTreeMap::new(),
            impatient: false,
            parted: false,
            unsettled: false,
            rules_differ: false,
            excused: Vec::new(),
            _processes: (kafka, kohort),
        };
        pair.wait_for_kafkas_coordinator();
        pair.wait_for_kafkas_producer_ids();
        pair
    }

    /// Sends the request that `build` makes to both and compares what they do with it.
    ///
    /// `build` is called once for each broker, with the names of its own ids.
    pub(crate) fn ask(&mut self, what: &str, version: i16, build: impl Fn(&Names) -> AnyRequest) {
        self.ask_at(FRONT, what, version, build);
    }

    /// The same on the connection of `seat`, as whoever it belongs to; returns what Kafka did.
    pub(crate) fn ask_at(
        &mut self,
        seat: usize,
        what: &str,
        version: i16,
        build: impl Fn(&Names) -> AnyRequest,
    ) -> String {
        self.asked += 1;
        let request = build(&self.kohort.names);
        let of_kafka = build(&self.kafka.names);
        let of_kafka = self.kafka.ask_at(seat, version, &of_kafka);
        let of_kohort = self.kohort.ask_at(seat, version, &request);
        let kafka = self.kafka.names.normal(&request, of_kafka);
        let kohort = self.kohort.names.normal(&request, of_kohort);
        if kafka != kohort {
            self.judge(what, version, &request, &kafka, &kohort);
        }
        if changes_topics(&request, version) {
            self.settle();
        }
        kafka
    }

    /// Sends a request that is not answered; an error shows only in a closed connection.
    pub(crate) fn tell(&mut self, version: i16, build: impl Fn(&Names) -> AnyRequest) {
        for peer in [&mut self.kafka, &mut self.kohort] {
            let request = build(&peer.names);
            peer.send(FRONT, version, &request);
        }
    }

    /// Sends raw bytes behind a size prefix on a new connection: both must answer, or both must close.
    pub(crate) fn ask_raw(&mut self, what: &str, frame: &[u8]) {
        self.asked += 1;
        let [kafka, kohort] = [&mut self.kafka, &mut self.kohort].map(|peer| {
            peer.hang_up(FRONT);
            let mut bytes = u32::try_from(frame.len()).expect("a small frame").to_be_bytes().to_vec();
            bytes.extend_from_slice(frame);
            peer.write(FRONT, &bytes);
            let answer = peer.read_frame(FRONT);
            peer.hang_up(FRONT);
            answer
        });
        let same = match (&kafka, &kohort) {
            (Ok(_), Ok(_)) => true,
            (Err(kafka), Err(kohort)) => kafka == kohort,
            _ => false,
        };
        if !same {
            self.found(format!("{what}: Kafka {kafka:?}, Kohort {kohort:?}"));
        }
    }

    /// Fails if anything differed that is not excused.
    pub(crate) fn finish(self) {
        println!("{} requests compared, {} differences", self.asked, self.found.len());
        self.excused.iter().for_each(|reason| println!("excused: {reason}"));
        self.told
            .iter()
            .for_each(|((api, code), count)| println!("{api} was answered {code}: {count} times"));
        assert!(self.found.is_empty(), "{} differences:\n\n{}", self.found.len(), self.found.join("\n\n"));
    }

    pub(crate) fn found(&mut self, text: String) {
        println!("{text}");
        self.found.push(text);
    }

    pub(crate) fn judge(
        &mut self,
        what: &str,
        version: i16,
        request: &AnyRequest,
        kafka: &str,
        kohort: &str,
    ) {
        if let Some(reason) =
            differences::reason(&Answered { request, version, names: &self.kohort.names, kafka, kohort })
        {
            if !self.excused.contains(&reason) {
                self.excused.push(reason);
            }
            return;
        }
        let mut text = format!("{what}, {} v{version}\n{request:?}\n", request.api().name());
        for line in differing_lines(kafka, kohort) {
            text.push_str(&line);
            text.push('\n');
        }
        self.found(text);
    }

    /// Whether the two may answer so differently.
    pub(crate) fn excuses(&self, version: i16, request: &AnyRequest, kafka: &str, kohort: &str) -> bool {
        differences::reason(&Answered { request, version, names: &self.kohort.names, kafka, kohort })
            .is_some()
    }

    /// Waits until Kafka's broker has seen what its controller accepted: until then it answers from the past.
    fn settle(&mut self) {
        let begun = Instant::now();
        for (version, request) in crate::scripts::whole_state() {
            loop {
                let [kafka, kohort] = [&mut self.kafka, &mut self.kohort].map(|peer| {
                    let request = request(&peer.names);
                    let outcome = peer.ask(version, &request);
                    peer.names.normal(&request, outcome)
                });
                let names = &self.kohort.names;
                let request = request(names);
                let answered = Answered { request: &request, version, names, kafka: &kafka, kohort: &kohort };
                if kafka == kohort || differences::reason(&answered).is_some() {
                    break;
                }
                if self.unsettled || begun.elapsed() > SETTLED_WITHIN {
                    self.unsettled = true;
                    self.judge("the state after a change", version, &request, &kafka, &kohort);
                    return;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }

    /// Kafka names a coordinator only once it has made its offsets topic, which the first question starts.
    fn wait_for_kafkas_coordinator(&mut self) {
        let begun = Instant::now();
        loop {
            let outcome = self.kafka.ask(0, &crate::requests::find_group("g"));
            if let Outcome::Answer(AnyResponse::FindCoordinator(answer)) = outcome
                && answer.error_code == 0
            {
                return;
            }
            assert!(begun.elapsed() < SETTLED_WITHIN, "Kafka names no coordinator");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Kafka's broker asks its controller for producer ids when the first is wanted, and says "loading" meanwhile.
    fn wait_for_kafkas_producer_ids(&mut self) {
        let begun = Instant::now();
        let request = crate::requests::init_producer(None, -1, -1);
        loop {
            let outcome = self.kafka.ask(0, &request);
            if matches!(outcome, Outcome::Answer(AnyResponse::InitProducerId(answer)) if answer.error_code == 0)
            {
                break;
            }
            assert!(begun.elapsed() < SETTLED_WITHIN, "Kafka gives no producer id");
            std::thread::sleep(Duration::from_millis(50));
        }
        // So that the n-th id is the n-th at both.
        self.kohort.ask(0, &request);
    }
}

fn changes_topics(request: &AnyRequest, version: i16) -> bool {
    match request {
        AnyRequest::Metadata(request) => request.allow_auto_topic_creation || version < 4,
        AnyRequest::CreateTopics(request) => !request.validate_only,
        AnyRequest::CreatePartitions(request) => !request.validate_only,
        AnyRequest::AlterConfigs(request) => !request.validate_only,
        AnyRequest::IncrementalAlterConfigs(request) => !request.validate_only,
        AnyRequest::DeleteTopics(_) => true,
        _ => false,
    }
}

fn differing_lines(kafka: &str, kohort: &str) -> Vec<String> {
    let (kafka, kohort): (Vec<&str>, Vec<&str>) = (kafka.lines().collect(), kohort.lines().collect());
    let same_front = kafka.iter().zip(&kohort).take_while(|(a, b)| a == b).count();
    let (kafka, kohort) = (&kafka[same_front..], &kohort[same_front..]);
    let same_back = kafka.iter().rev().zip(kohort.iter().rev()).take_while(|(a, b)| a == b).count();
    let show = |side: &str, lines: &[&str]| {
        let shown = &lines[..lines.len() - same_back];
        shown.iter().take(120).map(|line| format!("  {side} {line}")).collect::<Vec<_>>()
    };
    [show("kafka ", kafka), show("kohort", kohort)].concat()
}

impl Peer {
    fn new(address: String) -> Self {
        Self {
            address,
            streams: BTreeMap::new(),
            correlation_id: 0,
            last_sent: BTreeMap::new(),
            guests: BTreeMap::new(),
            names: Names::default(),
        }
    }

    pub(crate) fn ask(&mut self, version: i16, request: &AnyRequest) -> Outcome {
        self.ask_at(FRONT, version, request)
    }

    pub(crate) fn ask_at(&mut self, seat: usize, version: i16, request: &AnyRequest) -> Outcome {
        if !self.streams.contains_key(&seat) {
            self.log_in(seat);
        }
        self.send(seat, version, request);
        let answer = self.answer(seat, version, request.api());
        if let Outcome::Answer(response) = &answer {
            self.names.learn(response);
        }
        answer
    }

    pub(crate) fn send(&mut self, seat: usize, version: i16, request: &AnyRequest) {
        self.correlation_id += 1;
        let header = RequestHeader {
            api: request.api(),
            version,
            correlation_id: self.correlation_id,
            client_id: Some(if seat == FRONT { "differential".to_owned() } else { format!("client-{seat}") }),
        };
        self.last_sent.insert(seat, self.correlation_id);
        let frame = wire::encode_any_request(&header, request).into_bytes();
        self.write(seat, &frame);
    }

    /// What the broker does with the request that was sent last on this connection.
    pub(crate) fn answer(&mut self, seat: usize, version: i16, api: ApiKey) -> Outcome {
        match self.read_frame(seat) {
            Ok(frame) => {
                let (correlation_id, response) =
                    wire::decode_any_response(frame, api, version).expect("a reply that can be read");
                assert_eq!(Some(&correlation_id), self.last_sent.get(&seat), "replies come in order");
                Outcome::Answer(response)
            }
            Err(absent) => {
                self.hang_up(seat);
                absent.into()
            }
        }
    }

    /// Makes sure that the broker has accepted this connection.
    pub(crate) fn greet(&mut self, seat: usize) {
        if !self.streams.contains_key(&seat) {
            let request = crate::requests::find_group("anybody");
            self.send(seat, 0, &request);
            let answer = self.answer(seat, 0, request.api());
            assert!(matches!(answer, Outcome::Answer(_)), "a new connection is answered");
        }
    }

    /// Whether the broker has said anything on this connection, closing it included.
    pub(crate) fn has_spoken(&mut self, seat: usize) -> bool {
        let stream = self.streams.get(&seat).expect("something was written");
        stream.set_nonblocking(true).expect("do not wait");
        let spoken = !matches!(stream.peek(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock);
        stream.set_nonblocking(false).expect("wait again");
        spoken
    }

    pub(crate) fn hang_up(&mut self, seat: usize) {
        self.streams.remove(&seat);
    }

    pub(crate) fn write(&mut self, seat: usize, bytes: &[u8]) {
        let address = self.guests.get(&seat).map_or(&self.address, |guest| &guest.address);
        let stream = self.streams.entry(seat).or_insert_with(|| {
            let stream = TcpStream::connect(address).expect("connect");
            stream.set_nodelay(true).expect("set nodelay");
            stream.set_read_timeout(Some(ANSWER_WITHIN)).expect("set a timeout");
            stream
        });
        // A broker may close before it has read everything; that shows when its answer is read.
        let _ = stream.write_all(bytes);
    }

    /// The next frame without its size, or what the broker did instead of sending one.
    pub(crate) fn read_frame(&mut self, seat: usize) -> Result<Bytes, Absent> {
        let stream = self.streams.get_mut(&seat).expect("something was written");
        let mut size = [0; 4];
        read_all(stream, &mut size)?;
        let mut frame = vec![0; usize::try_from(u32::from_be_bytes(size)).expect("a size")];
        read_all(stream, &mut frame)?;
        Ok(frame.into())
    }
}

fn read_all(stream: &mut TcpStream, buffer: &mut [u8]) -> Result<(), Absent> {
    stream.read_exact(buffer).map_err(|error| match error.kind() {
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => Absent::Closed,
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Absent::Silent,
        _ => panic!("read from a broker: {error}"),
    })
}

/// The newest version of an API.
pub(crate) fn newest(api: ApiKey) -> i16 {
    *api.versions().end()
}
