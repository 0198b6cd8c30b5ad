//! What can be said to every scenario.

use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::closed_loop::Pressure;
use crate::duration;

/// Where, how long, how often, and how to show it.
#[derive(Args, Clone, Debug)]
pub(crate) struct Common {
    /// The server to measure
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9092")]
    pub(crate) bootstrap: String,
    /// Several servers in turn; figures are shown as ratios to the first
    #[arg(long, value_name = "NAME=HOST:PORT,…", value_delimiter = ',', conflicts_with = "bootstrap")]
    pub(crate) compare: Vec<Named>,
    /// How long a load is counted
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration::parse)]
    pub(crate) duration: Duration,
    /// How long a load runs before it is counted
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration::parse)]
    pub(crate) warmup: Duration,
    /// How often each server is measured [default: 1, or 3 with --compare]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) repetitions: Option<u16>,
    /// The server's process, whose time and memory are read [default: who listens on this machine]
    #[arg(long, conflicts_with = "compare")]
    pub(crate) pid: Option<u32>,
    /// How to show the figures
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,
}

/// What can be said to a scenario that brings load over a few connections.
#[derive(Args, Clone, Debug)]
pub(crate) struct Loaded {
    /// Connections
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = at_least_one)]
    pub(crate) connections: usize,
    /// Requests in flight on each connection; several numbers are measured one after the other
    #[arg(long, value_name = "N,…", default_value = "1,64", value_delimiter = ',', value_parser = at_least_one)]
    pub(crate) pipeline: Vec<usize>,
    /// Threads that bring the load
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = at_least_one)]
    pub(crate) threads: usize,
}

impl Loaded {
    /// The load with this many requests in flight on each connection.
    pub(crate) fn pressure(&self, common: &Common, pipeline: usize) -> Pressure {
        Pressure {
            connections: self.connections,
            pipeline,
            threads: self.threads,
            warmup: common.warmup,
            duration: common.duration,
        }
    }
}

/// A server with the name it is shown by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) address: String,
}

impl FromStr for Named {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((name, address)) if !name.is_empty() && !address.is_empty() => {
                Ok(Self { name: name.to_owned(), address: address.to_owned() })
            }
            _ => Err(format!("{text} is not NAME=HOST:PORT")),
        }
    }
}

/// How figures are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Table,
    /// For programs, with all repetitions and the machine's facts
    Json,
}

/// A count of which none makes no sense.
pub(crate) fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("must be at least 1".to_owned()),
        Ok(number) => Ok(number),
        Err(_) => Err(format!("{text} is not a number")),
    }
}
