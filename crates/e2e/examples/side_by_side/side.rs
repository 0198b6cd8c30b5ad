//! One broker of the two, started fresh and put under the common load.

use std::fmt;
use std::time::Duration;

use anyhow::Result;
use e2e::kafka::Kafka;
use e2e::kohort::{Kohort, Options};

use crate::load::Connection;
use crate::process::resident_bytes;
use crate::report::{Figure, Report};
use crate::tools::Tools;
use crate::{Scale, load};

const READY: Figure = Figure { what: "ready after start", unit: "ms", owed: "≤ 0.05" };
const IDLE: Figure = Figure { what: "memory, idle", unit: "MB", owed: "≤ 25 MB" };
const RDKAFKA_IN: Figure =
    Figure { what: "produce, librdkafka's tool, 1 KiB, acks=all", unit: "records/s", owed: "≥ 1" };
const RDKAFKA_OUT: Figure = Figure { what: "consume, librdkafka's tool", unit: "records/s", owed: "≥ 1" };
const JAVA_IN: Figure =
    Figure { what: "produce, Kafka's tool, 1 KiB, acks=all", unit: "records/s", owed: "≥ 1" };
const LATENCY_P50: Figure = Figure { what: "produce latency, one in flight, p50", unit: "ms", owed: "" };
const LATENCY_P99: Figure =
    Figure { what: "produce latency, one in flight, p99", unit: "ms", owed: "≤ 5 ms" };
const LOADED: Figure = Figure { what: "memory after the load", unit: "MB", owed: "≤ 0.2" };

/// How long a broker is left alone before its idle memory is read.
const IDLE_FOR: Duration = Duration::from_secs(2);

/// Which broker.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Kohort,
    Kafka,
}

/// A broker that runs until this is dropped.
enum Running {
    Kohort(Kohort),
    Kafka(Kafka),
}

impl Running {
    fn bootstrap(&self) -> String {
        match self {
            Self::Kohort(kohort) => kohort.bootstrap(),
            Self::Kafka(kafka) => kafka.bootstrap(),
        }
    }

    fn pid(&self) -> u32 {
        match self {
            Self::Kohort(kohort) => kohort.pid(),
            Self::Kafka(kafka) => kafka.pid(),
        }
    }
}

impl Side {
    /// Starts the broker, brings the load and adds the figures.
    pub(crate) fn measure(self, tools: &Tools, scale: Scale, report: &mut Report) -> Result<()> {
        let is_kohort = self == Self::Kohort;
        let mut add = |figure, value| report.add(figure, is_kohort, value);

        let (broker, ready) = self.start()?;
        add(READY, ready.as_secs_f64() * 1e3);
        std::thread::sleep(IDLE_FOR);
        add(IDLE, megabytes(resident_bytes(broker.pid())?));

        let bootstrap = broker.bootstrap();
        let mut connection = Connection::open(&bootstrap)?;
        for topic in ["rdkafka", "java", "latency"] {
            connection.create_topic(topic, 1)?;
        }
        add(RDKAFKA_IN, tools.rdkafka_produce(&bootstrap, "rdkafka", scale.rdkafka_records)?);
        add(RDKAFKA_OUT, tools.rdkafka_consume(&bootstrap, "rdkafka", scale.rdkafka_records)?);
        add(JAVA_IN, tools.java_produce(&bootstrap, "java", scale.java_records)?);
        let latencies = load::one_in_flight(&mut connection, "latency", scale.latency_requests)?;
        add(LATENCY_P50, latencies.percentile(0.50));
        add(LATENCY_P99, latencies.percentile(0.99));
        add(LOADED, megabytes(resident_bytes(broker.pid())?));
        Ok(())
    }

    /// Starts the broker and waits for its first answer.
    fn start(self) -> Result<(Running, Duration)> {
        Ok(match self {
            Self::Kohort => {
                let kohort = Kohort::start(Options::default())?;
                let ready = kohort.ready_after();
                (Running::Kohort(kohort), ready)
            }
            Self::Kafka => {
                let kafka = Kafka::start()?;
                let ready = kafka.ready_after();
                (Running::Kafka(kafka), ready)
            }
        })
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kohort => "Kohort",
            Self::Kafka => "Apache Kafka",
        })
    }
}

#[expect(clippy::cast_precision_loss, reason = "memory is shown in whole megabytes")]
pub(crate) fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
