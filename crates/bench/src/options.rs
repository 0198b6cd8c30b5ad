//! What can be said to every scenario.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::closed_loop::Pressure;
use crate::duration;
use crate::members::Habits;
use crate::misuse::Misuse;
use crate::scenario;
use crate::setting::{Setting, listed};

/// Where, how long, how often, and how to show it.
#[derive(Args, Clone, Debug)]
pub(crate) struct Common {
    /// The server to measure
    #[arg(long, short, value_name = "HOST:PORT", default_value = "127.0.0.1:9092")]
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
    /// Measure again and again with other numbers: members=1,10,100 shows how cost grows with members
    #[arg(long, value_name = "NAME=N,…")]
    pub(crate) sweep: Option<Sweep>,
    /// The server's process, whose time and memory are read [default: who listens on this machine]
    #[arg(long, conflicts_with = "compare")]
    pub(crate) pid: Option<u32>,
    /// How to show the figures
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,
    /// Also draw the figures: a page of its own (.html) or the plots alone (.svg)
    #[arg(long, value_name = "FILE", value_parser = drawable)]
    pub(crate) report: Option<PathBuf>,
    /// Say what is going on also where standard error is no terminal
    #[arg(long)]
    pub(crate) progress: bool,
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
    pub(crate) fn settings(&self) -> [Setting; 3] {
        [
            Setting::new("connections", self.connections),
            Setting::unsaid("pipeline", listed(&self.pipeline)),
            Setting::unsaid("threads", self.threads),
        ]
    }

    pub(crate) fn check(&self) -> Result<(), Misuse> {
        Misuse::unless_distinct("--pipeline", &self.pipeline)
    }

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

/// What can be said to a scenario that rebalances one group.
#[derive(Args, Clone, Debug)]
pub(crate) struct Rebalancing {
    /// Partitions that the leader gives out
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) partitions: usize,
    /// How often a member asks whether it must rejoin
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = duration::parse)]
    heartbeat: Duration,
    /// How long a group may take to become stable
    #[arg(long, value_name = "TIME", default_value = "120s", value_parser = duration::parse)]
    pub(crate) patience: Duration,
}

impl Rebalancing {
    pub(crate) fn settings(&self, members: usize) -> Vec<Setting> {
        vec![
            Setting::new("members", members),
            Setting::new("partitions", self.partitions),
            Setting::called("heartbeat", "heartbeat every", format!("{:?}", self.heartbeat)),
        ]
    }

    pub(crate) fn habits(&self) -> Habits {
        Habits { partitions: self.partitions, heartbeat_interval: self.heartbeat, ..scenario::habits() }
    }
}

/// A number of the scenario, by the name of its flag, and the values that it takes in turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sweep {
    pub(crate) name: String,
    /// Never empty.
    pub(crate) values: Vec<usize>,
}

impl FromStr for Sweep {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, values) = text.split_once('=').ok_or_else(|| format!("{text} is not NAME=N,…"))?;
        let values: Vec<usize> = values.split(',').map(at_least_one).collect::<Result<_, _>>()?;
        Misuse::unless_distinct(name, &values).map_err(|misuse| misuse.to_string())?;
        Ok(Self { name: name.trim_start_matches('-').to_owned(), values })
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

/// A file that can be drawn into, known by its name's end.
fn drawable(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match path.extension().and_then(|end| end.to_str()) {
        Some("html" | "svg") => Ok(path),
        _ => Err("must end in .html or .svg".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_has_a_name_and_numbers() {
        let sweep = Sweep { name: "members".to_owned(), values: vec![1, 10] };
        assert_eq!("members=1,10".parse(), Ok(sweep.clone()));
        assert_eq!("--members=1,10".parse(), Ok(sweep));
        for wrong in ["members", "members=", "members=1,", "members=0", "members=x", "members=1,1"] {
            assert!(wrong.parse::<Sweep>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_report_is_a_page_or_a_drawing() {
        assert!(drawable("figures.html").is_ok());
        assert!(drawable("a/b.svg").is_ok());
        assert!(drawable("figures.pdf").is_err());
        assert!(drawable("html").is_err());
    }
}
