//! What is killed: one process, or a broker and the gateways before it.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use e2e::deployment::{self, Deployment};
use e2e::kohort::{Kohort, Options};
use e2e::udp_relay::Weather;
use rand::Rng;
use rand::rngs::StdRng;

/// Something that clients use while it is killed again and again.
pub(crate) trait Victim {
    /// Where clients can connect; each address serves all.
    fn addresses(&self) -> Vec<String>;

    /// Does something terrible and sees to it that it is over. Says how long the broker took to be back.
    fn strike(&mut self, random: &mut StdRng) -> Duration;

    /// Where the admin listener is, and the data with its token.
    fn admin(&self) -> (String, PathBuf);

    /// What all processes said.
    fn output(&self) -> String;

    /// Ends all processes in peace.
    fn stop(&mut self);

    /// Whether a client can find its gateway cut off from the broker.
    fn is_apart(&self) -> bool;

    /// The addresses as clients take them.
    fn bootstrap(&self) -> String {
        self.addresses().join(",")
    }
}

/// One process.
pub(crate) struct Whole(Kohort);

impl Whole {
    pub(crate) fn start(settings: &[(&str, &str)]) -> Self {
        let options =
            settings.iter().fold(Options::default(), |options, (name, value)| options.set(name, value));
        Self(Kohort::start(options).unwrap())
    }
}

impl Victim for Whole {
    fn addresses(&self) -> Vec<String> {
        vec![self.0.bootstrap()]
    }

    fn strike(&mut self, random: &mut StdRng) -> Duration {
        self.0.kill().unwrap();
        while random.random_bool(0.25) {
            self.0.stumble(Duration::from_millis(random.random_range(0..60))).unwrap();
        }
        self.0.restart().unwrap_or_else(|error| panic!("restart: {error:#}"));
        self.0.ready_after()
    }

    fn admin(&self) -> (String, PathBuf) {
        (self.0.admin(), self.0.data_dir().to_owned())
    }

    fn output(&self) -> String {
        self.0.output()
    }

    fn stop(&mut self) {
        assert_eq!(self.0.stop().unwrap().code(), Some(0));
    }

    fn is_apart(&self) -> bool {
        false
    }
}

/// A broker and two gateways, each behind a bad network.
pub(crate) struct Apart(Deployment);

impl Apart {
    pub(crate) fn start(settings: &[(&str, &str)]) -> Self {
        let options = deployment::Options::default();
        let options = settings.iter().fold(options, |options, (name, value)| options.set(name, value));
        Self(Deployment::start(options).unwrap())
    }

    fn restart_broker(&mut self, random: &mut StdRng) -> Duration {
        self.0.kill_broker().unwrap();
        while random.random_bool(0.25) {
            self.0.stumble_broker(Duration::from_millis(random.random_range(0..60))).unwrap();
        }
        let started = Instant::now();
        self.0.start_broker().unwrap_or_else(|error| panic!("restart the broker: {error:#}"));
        started.elapsed()
    }

    fn restart_gateway(&mut self, number: usize) {
        self.0.kill_gateway(number).unwrap();
        self.0.start_gateway(number).unwrap_or_else(|error| panic!("restart a gateway: {error:#}"));
    }
}

impl Victim for Apart {
    fn addresses(&self) -> Vec<String> {
        (0..self.0.gateways()).map(|number| self.0.gateway(number)).collect()
    }

    fn strike(&mut self, random: &mut StdRng) -> Duration {
        let gateway = random.random_range(0..self.0.gateways());
        match random.random_range(0..10) {
            0..4 => self.restart_broker(random),
            4..7 => {
                self.restart_gateway(gateway);
                Duration::ZERO
            }
            7 => {
                self.restart_gateway(gateway);
                self.restart_broker(random)
            }
            8 => {
                // Long enough to be noticed by nobody, by some or by all.
                self.0.set_weather(gateway, Weather { is_cut: true, ..Weather::default() });
                thread::sleep(Duration::from_millis(random.random_range(0..800)));
                self.0.set_weather(gateway, Weather::default());
                Duration::ZERO
            }
            _ => {
                let delay = Duration::from_millis(random.random_range(0..30));
                let lost_per_mille = random.random_range(0..50);
                self.0.set_weather(gateway, Weather { delay, lost_per_mille, is_cut: false });
                let took = self.restart_broker(random);
                self.0.set_weather(gateway, Weather::default());
                took
            }
        }
    }

    fn admin(&self) -> (String, PathBuf) {
        (self.0.admin(), self.0.data_dir())
    }

    fn output(&self) -> String {
        self.0.output()
    }

    fn stop(&mut self) {
        for number in 0..self.0.gateways() {
            assert_eq!(self.0.stop_gateway(number).unwrap().code(), Some(0));
        }
        assert_eq!(self.0.stop_broker().unwrap().code(), Some(0));
    }

    fn is_apart(&self) -> bool {
        true
    }
}
