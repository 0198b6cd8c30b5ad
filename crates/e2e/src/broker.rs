//! The broker under test: our own, as one process or with gateways apart, or a real Kafka to test the tests.

use std::env;
use std::time::Duration;

use anyhow::Result;

use crate::deployment::{self, Deployment};
use crate::kafka::Kafka;
use crate::kohort::{Kohort, Options};

/// How long a link of a gateway may be silent before it counts as cut, with the time between two signs of life.
const SILENCE: Duration = Duration::from_millis(3_750);

/// A running broker of either kind; dropping it ends it.
#[derive(Debug)]
pub enum Broker {
    /// Ours.
    Kohort(Kohort),
    /// Ours behind two gateways, with `KOHORT_E2E_BROKER=gateways`.
    Gateways(Box<Deployment>),
    /// The real one, with `KOHORT_E2E_BROKER=kafka`.
    Kafka(Kafka),
}

impl Broker {
    /// Starts the broker that the environment asks for, Kohort unless it says otherwise.
    ///
    /// Settings whose name begins with `kohort.` are kept from Kafka.
    pub fn start(settings: &[(&str, &str)]) -> Result<Self> {
        match env::var("KOHORT_E2E_BROKER").as_deref() {
            Ok("kafka") => {
                let known: Vec<_> =
                    settings.iter().copied().filter(|(name, _)| !name.starts_with("kohort.")).collect();
                Ok(Self::Kafka(Kafka::start_with(&known)?))
            }
            Ok("gateways") => {
                let options = deployment::Options::default();
                let options =
                    settings.iter().fold(options, |options, (name, value)| options.set(name, value));
                Ok(Self::Gateways(Box::new(Deployment::start(options)?)))
            }
            _ => {
                let options = Options::default();
                let options =
                    settings.iter().fold(options, |options, (name, value)| options.set(name, value));
                Ok(Self::Kohort(Kohort::start(options)?))
            }
        }
    }

    /// Ends the process at once (SIGKILL), whatever it is doing.
    pub fn kill(&mut self) -> Result<()> {
        match self {
            Self::Kohort(kohort) => kohort.kill(),
            Self::Gateways(deployment) => deployment.kill_broker(),
            Self::Kafka(kafka) => kafka.kill(),
        }
    }

    /// Starts the broker again on the same directory and ports; it must have been killed.
    pub fn restart(&mut self) -> Result<()> {
        match self {
            Self::Kohort(kohort) => kohort.restart(),
            Self::Gateways(deployment) => {
                deployment.start_broker()?;
                deployment.wait_for_gateways()
            }
            Self::Kafka(kafka) => kafka.restart(),
        }
    }

    /// How long those who stand between clients and the broker may take to notice that it was killed.
    pub fn notices_a_kill_within(&self) -> Duration {
        match self {
            Self::Gateways(_) => SILENCE,
            Self::Kohort(_) | Self::Kafka(_) => Duration::ZERO,
        }
    }

    /// Whether it is ours.
    pub fn is_kohort(&self) -> bool {
        matches!(self, Self::Kohort(_) | Self::Gateways(_))
    }

    /// What the broker printed, over all its starts.
    pub fn output(&self) -> String {
        match self {
            Self::Kohort(kohort) => kohort.output(),
            Self::Gateways(deployment) => deployment.output(),
            Self::Kafka(kafka) => std::fs::read_to_string(kafka.log()).unwrap_or_default(),
        }
    }

    /// The address that clients begin with, as `host:port`.
    pub fn bootstrap(&self) -> String {
        match self {
            Self::Kohort(kohort) => kohort.bootstrap(),
            Self::Gateways(deployment) => deployment.bootstrap(),
            Self::Kafka(kafka) => kafka.bootstrap(),
        }
    }
}
