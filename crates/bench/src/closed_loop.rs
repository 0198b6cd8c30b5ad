//! Load with a fixed number of requests in flight: each reply is followed by the next request.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::cores::{Cores, Watch};
use crate::histogram::Histogram;
use crate::lines::Lines;
use crate::process::{ServerProcess, thread_cpu};
use crate::progress;

/// How long nothing may come in before the run is given up.
const STALLED_AFTER: Duration = Duration::from_secs(30);

/// The requests of a load and what their replies must be.
pub(crate) trait Work: Send {
    /// Puts the connection's next request into its outbox.
    fn put(&mut self, line: usize, correlation_id: i32, outbox: &mut Vec<u8>);

    /// Checks a reply and says which request it is for.
    fn check(&mut self, line: usize, frame: &[u8]) -> Result<i32>;

    /// How much the reply that was checked last is worth, where one carries more than one of what is counted.
    #[inline]
    fn weight(&self) -> u64 {
        1
    }
}

/// How a load is brought.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pressure {
    pub(crate) connections: usize,
    /// Requests in flight on each connection.
    pub(crate) pipeline: usize,
    /// Threads that share the connections.
    pub(crate) threads: usize,
    /// Load before anything is counted.
    pub(crate) warmup: Duration,
    /// Load that is counted.
    pub(crate) duration: Duration,
}

/// What a load brought.
#[derive(Debug)]
pub(crate) struct Yield<W> {
    /// What replies were worth in the time that is counted.
    pub(crate) units: u64,
    pub(crate) per_second: f64,
    pub(crate) latencies: Histogram,
    /// Who used the processors meanwhile.
    pub(crate) cores: Cores,
    /// What each thread's requests have become, in the order of connections.
    pub(crate) works: Vec<W>,
}

/// Brings the load. `work` is called once for each thread with its connections, as numbers over all threads;
/// within the thread's [`Work`] they count from 0.
pub(crate) fn run<W: Work>(
    address: SocketAddr,
    pressure: Pressure,
    server: Option<ServerProcess>,
    mut work: impl FnMut(std::ops::Range<usize>) -> W,
) -> Result<Yield<W>> {
    let Pressure { connections, threads, warmup, duration, .. } = pressure;
    let mut parts = Vec::new();
    for thread in 0..threads.min(connections) {
        let share = |thread| connections * thread / threads.min(connections);
        let range = share(thread)..share(thread + 1);
        let lines = Lines::connect(address, range.len())?;
        parts.push((lines, work(range)));
    }
    let barrier = Barrier::new(parts.len() + 1);
    let spoilt = AtomicBool::new(false);
    let (ended, mut cores) = thread::scope(|scope| {
        let begin = |(lines, work)| {
            let (barrier, spoilt) = (&barrier, &spoilt);
            scope.spawn(move || {
                barrier.wait();
                let part = Loop::new(lines, work, pressure).run(spoilt);
                if part.is_err() {
                    spoilt.store(true, Ordering::Relaxed);
                }
                part
            })
        };
        let running: Vec<_> = parts.into_iter().map(begin).collect();
        barrier.wait();
        let whole = warmup + duration;
        let over = || spoilt.load(Ordering::Relaxed);
        progress::wait(warmup, Duration::ZERO, whole, over);
        let watch = Watch::begin(server);
        progress::wait(duration, warmup, whole, over);
        let cores = watch.end();
        let ended: Vec<_> =
            running.into_iter().map(|thread| thread.join().expect("a load thread does not panic")).collect();
        (ended, cores)
    });
    // What the threads did is known better than what this one saw.
    cores.load = 0.0;
    let mut whole =
        Yield { units: 0, per_second: 0.0, latencies: Histogram::new(), cores, works: Vec::new() };
    for part in ended {
        let part = part?;
        whole.units += part.units;
        whole.latencies.merge(&part.latencies);
        whole.cores.load += part.cpu.as_secs_f64() / duration.as_secs_f64();
        whole.works.push(part.work);
    }
    #[expect(clippy::cast_precision_loss, reason = "a count of replies or records")]
    {
        whole.per_second = whole.units as f64 / duration.as_secs_f64();
    }
    ensure!(whole.units > 0, "no reply came within {duration:?}");
    Ok(whole)
}

/// One thread's part.
struct Loop<W> {
    lines: Lines,
    work: W,
    flights: Vec<Flight>,
    pressure: Pressure,
}

/// What is under way on one connection.
#[derive(Default)]
struct Flight {
    next_correlation_id: i32,
    /// When each request left that has no reply yet, in nanoseconds since the start.
    left: VecDeque<u64>,
}

struct Part<W> {
    /// Kept open until every thread is done: an echo ends with the first connection that does.
    _lines: Lines,
    units: u64,
    latencies: Histogram,
    cpu: Duration,
    work: W,
}

impl<W: Work> Loop<W> {
    fn new(lines: Lines, work: W, pressure: Pressure) -> Self {
        let flights = (0..lines.len()).map(|_| Flight::default()).collect();
        Self { lines, work, flights, pressure }
    }

    /// Runs to the end, or until another thread has `spoilt` the run, after which nobody wants the figures.
    fn run(self, spoilt: &AtomicBool) -> Result<Part<W>> {
        let Self { mut lines, mut work, mut flights, pressure } = self;
        let start = Instant::now();
        let first = nanoseconds(pressure.warmup);
        let last = first + nanoseconds(pressure.duration);
        let mut in_flight = 0;
        for (line, flight) in flights.iter_mut().enumerate() {
            let now = nanoseconds(start.elapsed());
            for _ in 0..pressure.pipeline {
                flight.launch(&mut work, line, now, lines.outbox(line));
                in_flight += 1;
            }
            lines.flush(line)?;
        }
        let (mut units, mut latencies) = (0, Histogram::new());
        let (mut cpu_before, mut cpu_after) = (None, None);
        let mut heard = Instant::now();
        while in_flight > 0 && !spoilt.load(Ordering::Relaxed) {
            lines.turn(Duration::from_millis(100), |arrival, frame, outbox| {
                let (line, at) = (arrival.line, nanoseconds(arrival.at - start));
                heard = arrival.at;
                let flight = &mut flights[line];
                let left = flight.land(&mut work, line, frame)?;
                if at >= first && at < last {
                    units += work.weight();
                    latencies.record(at - left);
                }
                if at < last {
                    flight.launch(&mut work, line, at, outbox);
                } else {
                    in_flight -= 1;
                }
                Ok(())
            })?;
            let now = Instant::now();
            ensure!(now - heard < STALLED_AFTER, "no reply for {STALLED_AFTER:?}; {in_flight} are owed");
            let now = nanoseconds(now - start);
            if now >= first {
                cpu_before.get_or_insert_with(thread_cpu);
            }
            if now >= last {
                cpu_after.get_or_insert_with(thread_cpu);
            }
        }
        let cpu = cpu_after.zip(cpu_before).map_or(Duration::ZERO, |(after, before)| after - before);
        Ok(Part { _lines: lines, units, latencies, cpu, work })
    }
}

impl Flight {
    #[inline]
    fn launch(&mut self, work: &mut impl Work, line: usize, now: u64, outbox: &mut Vec<u8>) {
        work.put(line, self.next_correlation_id, outbox);
        self.next_correlation_id = self.next_correlation_id.wrapping_add(1);
        self.left.push_back(now);
    }

    /// Takes a reply and says when its request left.
    #[inline]
    fn land(&mut self, work: &mut impl Work, line: usize, frame: &[u8]) -> Result<u64> {
        let correlation_id = work.check(line, frame)?;
        let owed = i32::try_from(self.left.len()).unwrap_or(i32::MAX);
        let left = self.left.pop_front().context("a reply came that nobody asked for")?;
        let expected = self.next_correlation_id.wrapping_sub(owed);
        ensure!(correlation_id == expected, "reply {correlation_id} came where {expected} was owed");
        Ok(left)
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use wire::AnyResponse;
    use wire::api::heartbeat::{HeartbeatRequest, HeartbeatResponse};

    use super::*;
    use crate::dialogue::accepted;
    use crate::reply_check::ReplyCheck;
    use crate::template::Template;

    const BRIEF: Pressure = Pressure {
        connections: 1,
        pipeline: 2,
        threads: 1,
        warmup: Duration::ZERO,
        duration: Duration::from_millis(20),
    };

    struct Heartbeats(Template, ReplyCheck<HeartbeatRequest>);

    impl Work for Heartbeats {
        fn put(&mut self, _: usize, correlation_id: i32, outbox: &mut Vec<u8>) {
            self.0.put(correlation_id, 0, outbox);
        }

        fn check(&mut self, _: usize, frame: &[u8]) -> Result<i32> {
            self.1.check(frame)
        }
    }

    /// Runs against a server that answers the n-th heartbeat with the n-th correlation id and code, and then closes.
    fn run_against(answers: Vec<(i32, i16)>) -> Result<Yield<Heartbeats>> {
        run_long_against(answers, BRIEF.duration)
    }

    fn run_long_against(answers: Vec<(i32, i16)>, duration: Duration) -> Result<Yield<Heartbeats>> {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let address = listener.local_addr().expect("address");
        let request = Template::new(&HeartbeatRequest::default(), 4);
        let length = request.len();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("accept");
            for (id, error_code) in answers {
                stream.read_exact(&mut vec![0; length]).expect("read a heartbeat");
                let body = AnyResponse::Heartbeat(HeartbeatResponse { throttle_time_ms: 0, error_code });
                let reply = wire::encode_any_response(4, id, &body).into_bytes();
                stream.write_all(&reply).expect("answer");
            }
        });
        let judge = |response: &HeartbeatResponse| accepted(response.error_code, "Heartbeat");
        let pressure = Pressure { duration, ..BRIEF };
        run(address, pressure, None, |_| Heartbeats(request.clone(), ReplyCheck::new(4, judge)))
    }

    #[test]
    fn a_wrong_error_code_spoils_the_run() {
        let error = run_against(vec![(0, 0), (1, 0), (2, 27), (3, 0)]).map(|_| ()).expect_err("a bad reply");
        assert_eq!(format!("{error:#}"), "Heartbeat got REBALANCE_IN_PROGRESS (27)");
    }

    #[test]
    fn a_run_that_is_spoilt_ends_at_once() {
        let day = Duration::from_secs(24 * 60 * 60);
        let error = run_long_against(vec![(0, 27), (1, 0)], day).map(|_| ()).expect_err("a bad reply");
        assert_eq!(format!("{error:#}"), "Heartbeat got REBALANCE_IN_PROGRESS (27)");
    }

    #[test]
    fn a_reply_out_of_order_spoils_the_run() {
        let error = run_against(vec![(0, 0), (2, 0)]).map(|_| ()).expect_err("a wrong reply");
        assert_eq!(format!("{error:#}"), "reply 2 came where 1 was owed");
    }

    #[test]
    fn a_closed_connection_spoils_the_run() {
        let error = run_against(vec![(0, 0)]).map(|_| ()).expect_err("no more replies");
        assert_eq!(format!("{error:#}"), "the server closed connection 0");
    }

    #[test]
    fn every_frame_comes_back_from_the_echo() {
        let pressure = Pressure { connections: 3, pipeline: 4, threads: 2, ..BRIEF };
        let address = crate::echo::start(pressure.connections, 1).expect("echo");
        let request = Template::new(&HeartbeatRequest::default(), 4);
        let work = |lines: std::ops::Range<usize>| crate::echo::Echoes {
            requests: lines.map(|_| request.clone()).collect(),
        };
        let gained = run(address, pressure, None, work).expect("a run without errors");
        assert!(gained.units > 0);
        assert_eq!(gained.works.len(), 2);
    }
}
