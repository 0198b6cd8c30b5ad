//! What an instance of the assigner is told.

use std::fmt;
use std::time::Duration;

use coordination::handoff::{self, ConsumerName, Mode};

/// How an instance behaves. Where a field has the name of a setting of the original service, it means the same, with
/// `_secs` left out: the unit is in the type.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where etcd is: `http://host:port`, `https://host:port`, or `host:port` for the former.
    pub etcd_endpoints: Vec<String>,
    /// Under which all keys lie. Instances with the same prefix are one deployment. It ends with a slash.
    pub etcd_prefix: String,
    /// Name and password for etcd.
    pub etcd_user: Option<EtcdUser>,
    /// Certificates for etcd, if its endpoints are `https`.
    pub etcd_tls: Option<etcd::Tls>,

    /// For how long a consumer of which nothing is heard keeps its partitions.
    pub consumer_lease_ttl: Duration,
    /// How often consumers say that they live, and how often the leases of those who cannot are renewed for them.
    pub consumer_keepalive_interval: Duration,

    /// What this instance calls itself; if it is empty, the name of the machine and something random.
    pub assigner_name: String,
    /// For how long a leader of which nothing is heard leads.
    pub leader_lease_ttl: Duration,
    /// How often the leader renews its lease.
    pub leader_keepalive_interval: Duration,
    /// How long to wait after etcd could not be asked who leads. The end of a leader is noticed at once.
    pub election_retry_interval: Duration,

    /// How long consumers and topics must be left unchanged before partitions are moved because of a change. If they
    /// change all the time, partitions are moved after five times as long.
    pub rebalance_debounce_interval: Duration,
    /// How often everything is planned even though nothing is known to have changed.
    pub reconcile_interval: Duration,
    /// How long a consumer may warm up without progress before its handoff is given up.
    pub handoff_timeout: Duration,
    /// How long an owner may take to let go before the handoff is given up; as long as the former if there is none.
    pub release_timeout: Option<Duration>,
    /// How long a partition stays where it is after its handoff was given up.
    pub handoff_retry_interval: Duration,
    /// Whether two consumers may work on a partition while it is handed over.
    pub handoff_mode: Mode,
    /// What consumers get at most while they are new.
    pub newcomers: Option<Newcomers>,

    /// How many commands may wait for a consumer that is slow to read them.
    pub stream_channel_size: usize,
    /// Where gRPC is served: a name or an address of this machine.
    pub bind_host: String,
    /// The port; 0 for any that is free.
    pub bind_port: u16,
    /// Certificates with which gRPC is served; in the clear without.
    pub tls: Option<ServerTls>,
    /// Callers show one of these, unless there are none.
    pub tokens: Vec<Token>,

    /// Brokers of the Kafka cluster whose topics are assigned, as `host:port`. Without any, topics are those that lie in
    /// etcd already.
    pub kafka_hosts: Vec<String>,
    /// How Kafka is spoken to.
    pub kafka: client::Options,
    /// How often the topics are read from Kafka again.
    pub topic_refresh_interval: Duration,
}

/// What consumers get at most while they are new, so that a bad version does not get all the work at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Newcomers {
    /// How many partitions one gets.
    pub partitions_max: usize,
    /// For how long it is new.
    pub lasts: Duration,
}

/// Who etcd is told that we are.
#[derive(Clone, PartialEq, Eq)]
pub struct EtcdUser {
    /// The name.
    pub name: String,
    /// The password.
    pub password: String,
}

/// With what gRPC is served over TLS, as PEM texts.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerTls {
    /// The certificate, and those between it and its authority.
    pub certificate: Vec<u8>,
    /// Its key.
    pub key: Vec<u8>,
    /// If given, callers need a certificate of one of these authorities.
    pub client_ca: Option<Vec<u8>>,
}

/// What a caller shows to be let in. It is not printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(pub String);

/// What is wrong with a setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{setting}: {problem}")]
pub struct SettingProblem {
    /// The setting, by the name that users know.
    pub setting: &'static str,
    /// What is wrong with it.
    pub problem: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            etcd_endpoints: vec!["http://127.0.0.1:2379".to_owned()],
            etcd_prefix: "/kafka-assigner/".to_owned(),
            etcd_user: None,
            etcd_tls: None,
            consumer_lease_ttl: Duration::from_secs(30),
            consumer_keepalive_interval: Duration::from_secs(5),
            assigner_name: String::new(),
            leader_lease_ttl: Duration::from_secs(15),
            leader_keepalive_interval: Duration::from_secs(5),
            election_retry_interval: Duration::from_secs(5),
            rebalance_debounce_interval: Duration::from_secs(1),
            reconcile_interval: Duration::from_secs(5),
            handoff_timeout: Duration::from_secs(300),
            release_timeout: None,
            handoff_retry_interval: Duration::from_secs(30),
            handoff_mode: Mode::Exclusive,
            newcomers: None,
            stream_channel_size: 1024,
            bind_host: "0.0.0.0".to_owned(),
            bind_port: 50051,
            tls: None,
            tokens: Vec::new(),
            kafka_hosts: Vec::new(),
            kafka: client::Options {
                client_id: "kohort-assigner".to_owned(),
                patience: Duration::from_secs(5),
                ..Default::default()
            },
            topic_refresh_interval: Duration::from_secs(30),
        }
    }
}

/// Beyond this a mistyped number is more likely than a wish, and times no longer add up without overflowing.
const DURATION_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// Each waiting command is a few hundred bytes, and there are many consumers.
const STREAM_CHANNEL_MAX: usize = 1 << 20;

impl Settings {
    /// Everything that is wrong, by setting.
    pub fn check(&self) -> Vec<SettingProblem> {
        let mut problems = Vec::new();
        let mut wrong = |setting, problem: String| problems.push(SettingProblem { setting, problem });
        if let Err(error) = self.etcd_options().check() {
            wrong("etcd_endpoints", error.to_string());
        }
        if let Err(problem) = check_prefix(&self.etcd_prefix) {
            wrong("etcd_prefix", problem);
        }
        // Leases are counted in whole seconds.
        for (setting, value) in [
            ("consumer_lease_ttl_secs", self.consumer_lease_ttl),
            ("leader_lease_ttl_secs", self.leader_lease_ttl),
        ] {
            if value < Duration::from_secs(1) || value.subsec_nanos() != 0 {
                wrong(setting, format!("{value:?} is not a whole number of seconds, one or more"));
            }
        }
        for (setting, value) in [
            ("consumer_lease_ttl_secs", self.consumer_lease_ttl),
            ("consumer_keepalive_interval_secs", self.consumer_keepalive_interval),
            ("leader_lease_ttl_secs", self.leader_lease_ttl),
            ("leader_keepalive_interval_secs", self.leader_keepalive_interval),
            ("election_retry_interval_secs", self.election_retry_interval),
            ("reconcile_interval_secs", self.reconcile_interval),
            ("handoff_timeout_secs", self.handoff_timeout),
            ("release_timeout_secs", self.release_timeout()),
            ("handoff_retry_interval_secs", self.handoff_retry_interval),
            ("topic_refresh_interval_secs", self.topic_refresh_interval),
        ] {
            if value.is_zero() || value > DURATION_MAX {
                wrong(setting, format!("{value:?} is not between zero and a year"));
            }
        }
        if self.rebalance_debounce_interval > DURATION_MAX {
            wrong("rebalance_debounce_interval_secs", "it is longer than a year".to_owned());
        }
        for (setting, interval, ttl) in [
            ("consumer_keepalive_interval_secs", self.consumer_keepalive_interval, self.consumer_lease_ttl),
            ("leader_keepalive_interval_secs", self.leader_keepalive_interval, self.leader_lease_ttl),
        ] {
            if interval >= ttl / 2 {
                wrong(setting, format!("{interval:?} is not less than half of the lease, which is {ttl:?}"));
            }
        }
        if !self.assigner_name.is_empty()
            && let Err(error) = self.assigner_name.parse::<ConsumerName>()
        {
            wrong("assigner_name", error.reason.to_owned());
        }
        if self.newcomers.is_some_and(|newcomers| newcomers.partitions_max == 0) {
            wrong("newcomer_partitions_max", "new consumers would never get anything".to_owned());
        }
        if self.newcomers.is_some_and(|newcomers| newcomers.lasts.is_zero() || newcomers.lasts > DURATION_MAX)
        {
            wrong("newcomer_secs", "it is not between zero and a year".to_owned());
        }
        if !(1..=STREAM_CHANNEL_MAX).contains(&self.stream_channel_size) {
            wrong("stream_channel_size", format!("it is not between 1 and {STREAM_CHANNEL_MAX}"));
        }
        if self.bind_host.is_empty() {
            wrong("bind_host", "it is empty".to_owned());
        }
        if self
            .tokens
            .iter()
            .any(|Token(token)| token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()))
        {
            wrong("tokens", "a token is empty, or has other letters in it than visible ASCII".to_owned());
        }
        for host in &self.kafka_hosts {
            let port = host
                .rsplit_once(':')
                .filter(|(name, _)| !name.is_empty())
                .map(|(_, port)| port.parse::<u16>());
            if !matches!(port, Some(Ok(1..))) {
                wrong("kafka_hosts", format!("`{host}` is not of the form host:port"));
            }
        }
        let mut security = self.kafka.security.clone();
        if let Err(error) = security.check() {
            security.sasl = None;
            let is_about_tls = security.check().is_err();
            let setting = if is_about_tls { "kafka_ca_file" } else { "kafka_sasl_mechanism" };
            wrong(setting, error.to_string());
        }
        problems
    }

    /// How long an owner may take to let go.
    pub fn release_timeout(&self) -> Duration {
        self.release_timeout.unwrap_or(self.handoff_timeout)
    }

    /// What plans are made by.
    pub(crate) fn plan(&self) -> handoff::Settings {
        handoff::Settings {
            mode: self.handoff_mode,
            warming_ms: millis(self.handoff_timeout),
            release_ms: millis(self.release_timeout()),
            retry_ms: millis(self.handoff_retry_interval),
            newcomers: self.newcomers.map(|newcomers| handoff::Newcomers {
                partitions_max: newcomers.partitions_max,
                lasts_ms: millis(newcomers.lasts),
            }),
        }
    }

    /// How etcd is reached.
    pub(crate) fn etcd_options(&self) -> etcd::Options {
        etcd::Options {
            endpoints: self.etcd_endpoints.clone(),
            user: self.etcd_user.as_ref().map(|user| (user.name.clone(), user.password.clone())),
            tls: self.etcd_tls.clone(),
            timeout: self.etcd_timeout(),
        }
    }

    /// How long etcd may take to answer: a registration that etcd carries out at the last moment must not be under a lease
    /// that ends before the process that it fences has stopped.
    pub(crate) fn etcd_timeout(&self) -> Duration {
        (self.consumer_lease_ttl / 6).clamp(ETCD_TIMEOUT_MIN, ETCD_TIMEOUT_MAX)
    }
}

/// Two deployments whose prefixes begin alike would see each other's keys.
fn check_prefix(prefix: &str) -> Result<(), String> {
    let legal = |letter: char| letter.is_ascii_graphic();
    if !prefix.ends_with('/') {
        Err("it does not end with a slash".to_owned())
    } else if !prefix.chars().all(legal) {
        Err("only visible ASCII is allowed in it".to_owned())
    } else if prefix.len() > PREFIX_MAX {
        Err(format!("it is longer than {PREFIX_MAX} characters"))
    } else {
        Ok(())
    }
}

/// With less, a pause of etcd's disk would look like its end.
const ETCD_TIMEOUT_MIN: Duration = Duration::from_secs(1);
const ETCD_TIMEOUT_MAX: Duration = Duration::from_secs(5);

/// Keys are repeated in every guard of every transaction.
const PREFIX_MAX: usize = 512;

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl fmt::Debug for EtcdUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdUser").field("name", &self.name).finish_non_exhaustive()
    }
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTls").field("has_client_ca", &self.client_ca.is_some()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(change: impl FnOnce(&mut Settings)) -> Vec<String> {
        let mut settings = Settings::default();
        change(&mut settings);
        settings.check().iter().map(SettingProblem::to_string).collect()
    }

    #[test]
    fn the_defaults_are_those_of_the_original_service_and_sound() {
        assert_eq!(problems(|_| {}), [""; 0]);
    }

    #[test]
    fn every_problem_is_named_with_its_setting() {
        let problems = problems(|settings| {
            settings.etcd_endpoints.clear();
            settings.etcd_prefix = "/kafka-assigner".to_owned();
            settings.consumer_keepalive_interval = Duration::from_secs(15);
            settings.leader_lease_ttl = Duration::from_millis(1500);
            settings.leader_keepalive_interval = Duration::ZERO;
            settings.assigner_name = "a b".to_owned();
            settings.newcomers = Some(Newcomers { partitions_max: 0, lasts: Duration::from_secs(1) });
            settings.stream_channel_size = 0;
            settings.tokens = vec![Token("a b".to_owned())];
            settings.kafka_hosts = vec!["kafka".to_owned(), "kafka:9092".to_owned(), ":9092".to_owned()];
        });
        let named: Vec<&str> = problems.iter().filter_map(|problem| problem.split(':').next()).collect();
        assert_eq!(
            named,
            [
                "etcd_endpoints",
                "etcd_prefix",
                "leader_lease_ttl_secs",
                "leader_keepalive_interval_secs",
                "consumer_keepalive_interval_secs",
                "assigner_name",
                "newcomer_partitions_max",
                "stream_channel_size",
                "tokens",
                "kafka_hosts",
                "kafka_hosts"
            ]
        );
    }

    #[test]
    fn secrets_are_not_shown() {
        let settings = Settings {
            etcd_user: Some(EtcdUser { name: "root".to_owned(), password: "hunter2".to_owned() }),
            tokens: vec![Token("hunter2".to_owned())],
            tls: Some(ServerTls { certificate: Vec::new(), key: b"hunter2".to_vec(), client_ca: None }),
            ..Settings::default()
        };
        let shown = format!("{settings:?}");
        assert!(shown.contains("root") && !shown.contains("hunter2") && !shown.contains("104"), "{shown}");
    }

    #[test]
    fn etcd_is_given_up_long_before_a_lease_ends() {
        let timeout = |seconds| {
            let consumer_lease_ttl = Duration::from_secs(seconds);
            Settings { consumer_lease_ttl, ..Settings::default() }.etcd_options().timeout
        };
        assert_eq!([timeout(60), timeout(30), timeout(12)], [5, 5, 2].map(Duration::from_secs));
    }

    #[test]
    fn letting_go_may_take_as_long_as_warming_up_unless_it_is_said() {
        let mut settings = Settings { handoff_timeout: Duration::from_secs(7), ..Settings::default() };
        assert_eq!(settings.plan().release_ms, 7000);
        settings.release_timeout = Some(Duration::from_secs(3));
        assert_eq!((settings.plan().warming_ms, settings.plan().release_ms), (7000, 3000));
    }
}
