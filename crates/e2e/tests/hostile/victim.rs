//! The broker under attack, and what attackers share.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use e2e::checkout;
use e2e::kohort::{Kohort, Options};
use wire::api::metadata;
use wire::{AnyRequest, ApiKey, RequestHeader, Uuid, decode_any_request, encode_any_request};

use crate::support::{self, ANSWER_WITHIN, Connection, one};

/// `socket.request.max.bytes` in these tests, and in Kafka.
pub(crate) const FRAME_MAX: usize = 104_857_600;

/// What a broker with nothing to do, its caches and the allocator's slack come to. A debug build is the larger one.
pub(crate) const AT_REST: usize = 64 << 20;

/// How many connections attack at a time.
pub(crate) const ATTACKERS: usize = 4;

/// A broker under attack, with the topic `victim`.
pub(crate) struct Victim {
    pub(crate) kohort: Kohort,
    pub(crate) seed: u64,
    checks: usize,
    slow: AtomicUsize,
}

impl Victim {
    pub(crate) fn start(family: u64) -> Self {
        Self::start_with(family, &[])
    }

    /// With further settings of the broker.
    pub(crate) fn start_with(family: u64, settings: &[(&str, &str)]) -> Self {
        let seed = std::env::var("KOHORT_HOSTILE_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or_else(rand::random::<u64>);
        println!("KOHORT_HOSTILE_SEED={seed}");
        // A small cache, or its growth would hide what an attack costs.
        let options = settings
            .iter()
            .fold(Options::default(), |options, (name, value)| options.set(name, value))
            .set("kohort.cache.bytes", "1048576")
            .set("kohort.log.file.bytes", "16777216")
            .set("kohort.settle.interval.ms", "100")
            .set("log.cleaner.backoff.ms", "50")
            .set("message.max.bytes", "8388608");
        let kohort = Kohort::start(options).unwrap();
        Connection::open(&kohort.bootstrap()).create_topic("victim", 1);
        Self { kohort, seed: seed ^ family << 32, checks: 0, slow: AtomicUsize::new(0) }
    }

    /// Sends bytes on a connection of their own and takes whatever comes back.
    pub(crate) fn throw(&self, bytes: &[u8]) {
        let mut stream = TcpStream::connect(self.kohort.bootstrap()).unwrap();
        // The broker may have closed already; so much the better.
        if stream.write_all(bytes).is_err() {
            return;
        }
        // It gives up what it has not finished when the client goes, so it is given a moment first. A sound request
        // that waits longer, or half a one, is then ended by the client.
        stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let _ = stream.read(&mut [0; 1]);
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        if stream.shutdown(Shutdown::Write).is_err() {
            return;
        }
        match read_to_the_end(&mut stream) {
            Ok(_) => {}
            Err(ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                self.slow.fetch_add(1, Ordering::Relaxed);
                println!("neither answered nor closed: {bytes:02x?}");
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Whether the broker answers this frame.
    pub(crate) fn answers(&self, frame: &[u8]) -> bool {
        let mut stream = TcpStream::connect(self.kohort.bootstrap()).unwrap();
        stream.set_read_timeout(Some(ANSWER_WITHIN)).unwrap();
        stream.write_all(&framed(frame)).unwrap();
        stream.read_exact(&mut [0; 8]).is_ok()
    }

    /// The process lives, has never held more than `most` bytes, has not panicked, and serves a client that behaves.
    pub(crate) fn is_well(&mut self, most: usize) {
        let said = || self.kohort.output();
        assert!(!said().contains("panicked"), "the broker said\n{}", said());
        assert_eq!(self.slow.load(Ordering::Relaxed), 0, "requests were neither answered nor closed");
        assert!(self.kohort.is_running(), "the broker ended; it said\n{}", self.kohort.output());
        self.checks += 1;
        let topic = format!("behaves-{}", self.checks);
        let mut client = Connection::open(&self.kohort.bootstrap());
        client.create_topic(&topic, 1);
        assert_eq!(client.produce(&topic, 0, one("hello")), Ok(0));
        assert_eq!(client.values(&topic, 0, 0).unwrap(), ["hello"]);
        let peak = peak_memory(self.kohort.pid());
        println!("peak memory {} MiB of {} MiB", peak >> 20, most >> 20);
        assert!(peak <= most, "the broker held {peak} bytes, more than {most}");
    }

    /// Requests that real clients sent, without their size; those for one topic are turned to `victim`.
    pub(crate) fn golden_requests(&self) -> Vec<Bytes> {
        let mut client = Connection::open(&self.kohort.bootstrap());
        let topic = metadata::MetadataRequestTopic { name: Some("victim".to_owned()), ..Default::default() };
        let request = metadata::MetadataRequest { topics: Some(vec![topic]), ..Default::default() };
        let id = client.ask(&request, 12).topics[0].topic_id;
        let directory = checkout::root().join("crates/wire/tests/golden");
        let mut files: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let mut frames = Vec::new();
        for file in files.iter().filter(|file| file.extension().is_some_and(|it| it == "hex")) {
            for line in fs::read_to_string(file).unwrap().lines() {
                let Some(hex) = line.strip_prefix("> ") else { continue };
                let (header, mut request) = decode_any_request(unhex(hex)).unwrap();
                aim(&mut request, id);
                frames.push(frame_of(&header, &request));
            }
        }
        frames
    }
}

/// Turns a request to the topic `victim`, so that it gets further than to the question where its topic is.
fn aim(request: &mut AnyRequest, id: Uuid) {
    let name = || "victim".to_owned();
    match request {
        AnyRequest::Produce(request) => {
            request.topic_data.iter_mut().for_each(|topic| (topic.name, topic.topic_id) = (name(), id));
        }
        AnyRequest::Fetch(request) => {
            request.topics.iter_mut().for_each(|topic| (topic.topic, topic.topic_id) = (name(), id));
        }
        AnyRequest::ListOffsets(request) => request.topics.iter_mut().for_each(|topic| topic.name = name()),
        _ => {}
    }
}

fn frame_of(header: &RequestHeader, request: &AnyRequest) -> Bytes {
    encode_any_request(header, request).into_content()
}

/// The bytes with their size in front.
pub(crate) fn framed(bytes: &[u8]) -> Vec<u8> {
    [&u32::try_from(bytes.len()).unwrap().to_be_bytes()[..], bytes].concat()
}

/// The header of a request, to be followed by anything.
pub(crate) fn header(api: ApiKey, version: i16) -> Vec<u8> {
    let mut bytes = api.number().to_be_bytes().to_vec();
    bytes.extend_from_slice(&version.to_be_bytes());
    bytes.extend_from_slice(&7_i32.to_be_bytes());
    bytes.extend_from_slice(&[0, 1, b'x']);
    if api.is_flexible(version) {
        bytes.push(0);
    }
    bytes
}

/// Reads until the broker closes; gives the number of bytes. A reset is an end, too.
pub(crate) fn read_to_the_end(stream: &mut TcpStream) -> Result<u64, ErrorKind> {
    match io::copy(stream, &mut io::sink()) {
        Ok(count) => Ok(count),
        Err(error) if error.kind() == ErrorKind::ConnectionReset => Ok(0),
        Err(error) => Err(error.kind()),
    }
}

/// Runs an attack from several threads.
pub(crate) fn in_parallel<T: Send>(attack: impl Fn(usize) -> T + Sync) -> Vec<T> {
    thread::scope(|scope| {
        let attack = &attack;
        let threads: Vec<_> = (0..ATTACKERS).map(|attacker| scope.spawn(move || attack(attacker))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// The most memory that the process ever held, in bytes.
fn peak_memory(pid: u32) -> usize {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kib: usize = line.trim().strip_suffix("kB").unwrap().trim().parse().unwrap();
    kib << 10
}

/// A counter of the broker.
pub(crate) fn metric(kohort: &Kohort, name: &str) -> u64 {
    let (_, metrics) = support::get(&kohort.admin(), "/metrics");
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in\n{metrics}")).parse().unwrap()
}

fn unhex(hex: &str) -> Bytes {
    let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|it| u8::try_from(it).ok()).unwrap();
    hex.trim().as_bytes().chunks_exact(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}
