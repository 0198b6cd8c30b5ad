//! The broker under test: our own, or a real Kafka to test the tests.

use std::env;

use anyhow::Result;

use crate::kafka::Kafka;
use crate::kohort::{Kohort, Options};

/// A running broker of either kind; dropping it ends it.
#[derive(Debug)]
pub enum Broker {
    /// Ours.
    Kohort(Kohort),
    /// The real one, with `KOHORT_E2E_BROKER=kafka`.
    Kafka(Kafka),
}

impl Broker {
    /// Starts the broker that the environment asks for, Kohort unless it says otherwise.
    ///
    /// Settings whose name begins with `kohort.` are kept from Kafka.
    pub fn start(settings: &[(&str, &str)]) -> Result<Self> {
        if env::var("KOHORT_E2E_BROKER").is_ok_and(|it| it == "kafka") {
            let known: Vec<_> =
                settings.iter().copied().filter(|(name, _)| !name.starts_with("kohort.")).collect();
            return Ok(Self::Kafka(Kafka::start_with(&known)?));
        }
        let options =
            settings.iter().fold(Options::default(), |options, (name, value)| options.set(name, value));
        Ok(Self::Kohort(Kohort::start(options)?))
    }

    /// Ends the process at once (SIGKILL), whatever it is doing.
    pub fn kill(&mut self) -> Result<()> {
        match self {
            Self::Kohort(kohort) => kohort.kill(),
            Self::Kafka(kafka) => kafka.kill(),
        }
    }

    /// Starts the broker again on the same directory and ports; it must have been killed.
    pub fn restart(&mut self) -> Result<()> {
        match self {
            Self::Kohort(kohort) => kohort.restart(),
            Self::Kafka(kafka) => kafka.restart(),
        }
    }

    /// Whether it is ours.
    pub fn is_kohort(&self) -> bool {
        matches!(self, Self::Kohort(_))
    }

    /// What the broker printed, over all its starts.
    pub fn output(&self) -> String {
        match self {
            Self::Kohort(kohort) => kohort.output(),
            Self::Kafka(kafka) => std::fs::read_to_string(kafka.log()).unwrap_or_default(),
        }
    }

    /// The address that clients begin with, as `host:port`.
    pub fn bootstrap(&self) -> String {
        match self {
            Self::Kohort(kohort) => kohort.bootstrap(),
            Self::Kafka(kafka) => kafka.bootstrap(),
        }
    }
}
