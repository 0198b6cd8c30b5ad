//! What only Kohort owes: many partitions at the price of one, a quick recovery, and bounded memory under a reader
//! that never reads.

use std::collections::VecDeque;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use e2e::kohort::{Kohort, Options};

use crate::Scale;
use crate::load::{Connection, batch, produce_frame};
use crate::process::{cpu_time, resident_bytes};
use crate::report::Report;
use crate::side::megabytes;

/// Connections that bring the load over many partitions, and requests each has in flight.
const CONNECTIONS: usize = 4;
const IN_FLIGHT: usize = 5;

pub(crate) fn measure(scale: Scale, report: &mut Report) -> Result<()> {
    partitions(scale, report)?;
    recovery(scale, report)?;
    a_reader_that_never_reads(report)
}

fn partitions(scale: Scale, report: &mut Report) -> Result<()> {
    let mut costs = Vec::new();
    // In turn, so that what the machine does besides meets both.
    for _ in 0..scale.repetitions {
        let one = load_over_partitions(scale, 1)?;
        let many = load_over_partitions(scale, 1000)?;
        costs.push((many.0 / one.0, many.1 / one.1));
    }
    costs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (seconds, cpu) = costs[costs.len() / 2];
    report.add_alone(
        "1,000 partitions instead of 1, same batches of 16 KiB",
        format!("{seconds:.2} times the time, {cpu:.2} times the processor time"),
        "≤ 1.3 times",
    );
    Ok(())
}

/// Produces the same batches over this many partitions; seconds, and processor seconds of the broker.
fn load_over_partitions(scale: Scale, partitions: i32) -> Result<(f64, f64)> {
    let kohort = Kohort::start(Options::default())?;
    let bootstrap = kohort.bootstrap();
    Connection::open(&bootstrap)?.create_topic("spread", partitions)?;
    let (begun, used) = (Instant::now(), cpu_time(kohort.pid())?);
    thread::scope(|scope| -> Result<()> {
        let workers: Vec<_> = (0..CONNECTIONS)
            .map(|worker| {
                let bootstrap = &bootstrap;
                scope.spawn(move || {
                    spread(bootstrap, worker, partitions, scale.partition_batches / CONNECTIONS)
                })
            })
            .collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a worker does not panic"))
    })?;
    let seconds = begun.elapsed().as_secs_f64();
    Ok((seconds, (cpu_time(kohort.pid())? - used).as_secs_f64()))
}

fn spread(bootstrap: &str, worker: usize, partitions: i32, batches: usize) -> Result<()> {
    let mut connection = Connection::open(bootstrap)?;
    let batch = batch(16, 1000)?;
    let mut in_flight = VecDeque::new();
    for n in 0..batches {
        let partition = i32::try_from(worker + n * CONNECTIONS)? % partitions;
        connection.send(&produce_frame("spread", partition, &batch))?;
        in_flight.push_back(n);
        if in_flight.len() == IN_FLIGHT {
            connection.produced()?;
            in_flight.pop_front();
        }
    }
    in_flight.iter().try_for_each(|_| connection.produced())
}

fn recovery(scale: Scale, report: &mut Report) -> Result<()> {
    // Nothing is settled, so that all of it has to be read back.
    let unsettled = Options::default()
        .set("kohort.settle.interval.ms", "3600000")
        .set("kohort.settle.backlog.bytes", "8589934592");
    let mut kohort = Kohort::start(unsettled)?;
    let mut connection = Connection::open(&kohort.bootstrap())?;
    connection.create_topic("big", 4)?;
    let batch = batch(512, 1024)?;
    let batches = scale.recovery_bytes / batch.len() as u64;
    for n in 0..batches {
        connection.produce("big", i32::try_from(n % 4)?, &batch)?;
    }
    kohort.kill()?;
    kohort.restart().context("start on what was left")?;
    report.add_alone(
        &format!("ready after kill -9 with {} MiB of unsettled log", scale.recovery_bytes >> 20),
        format!("{:.2} s", kohort.ready_after().as_secs_f64()),
        "≤ 2 s for 1 GiB",
    );
    Ok(())
}

fn a_reader_that_never_reads(report: &mut Report) -> Result<()> {
    let kohort = Kohort::start(Options::default())?;
    let mut connection = Connection::open(&kohort.bootstrap())?;
    connection.create_topic("unread", 1)?;
    let batch = batch(512, 1024)?;
    for _ in 0..512 {
        connection.produce("unread", 0, &batch)?;
    }
    let before = resident_bytes(kohort.pid())?;
    let mut readers = Vec::new();
    for _ in 0..20 {
        let mut reader = Connection::open(&kohort.bootstrap())?;
        for _ in 0..20 {
            reader.fetch_without_reading("unread")?;
        }
        readers.push(reader);
    }
    let mut most = before;
    for _ in 0..50 {
        thread::sleep(Duration::from_millis(100));
        most = most.max(resident_bytes(kohort.pid())?);
    }
    report.add_alone(
        "memory under 20 readers that ask for 400 × 50 MiB and never read",
        format!("{:.0} MB, {:.0} MB before they came", megabytes(most), megabytes(before)),
        "bounded",
    );
    Ok(())
}
