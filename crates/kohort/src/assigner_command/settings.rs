//! The one table of what can be set about an assigner. File, environment, flags, listings and checks go by it.

use std::time::Duration;

use assigner::Settings;
use coordination::handoff::Mode;
use coordination::settings::Listener;

use super::secrets::Files;

/// One thing that can be set.
#[derive(Debug)]
pub(super) struct Setting {
    /// As it stands in the table [assigner] of a file, and after `--set`.
    pub(super) name: &'static str,
    /// The variable by which the original service knows it.
    pub(super) variable: Option<&'static str>,
    /// What it is if nobody sets it; nothing if empty.
    pub(super) default: &'static str,
    /// What it means.
    pub(super) doc: &'static str,
    /// Takes a value over, or says what is wrong with it.
    pub(super) set: fn(&mut Draft, &str) -> Result<(), String>,
}

impl PartialEq for Setting {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Setting {}

impl Setting {
    /// Our own variable: KOHORT_ASSIGNER_ and the name; a leading `assigner_` would only repeat it.
    pub(super) fn own_variable(&self) -> String {
        let name = self.name.strip_prefix("assigner_").unwrap_or(self.name);
        format!("KOHORT_ASSIGNER_{}", name.to_uppercase())
    }
}

/// Settings while they are gathered.
#[derive(Debug)]
pub(super) struct Draft {
    settings: Settings,
    http_listen: Option<String>,
    newcomer_partitions_max: Option<usize>,
    newcomer_lasts: Duration,
    files: Files,
}

impl Default for Draft {
    fn default() -> Self {
        Self {
            settings: Settings::default(),
            http_listen: Some("127.0.0.1:9645".to_owned()),
            newcomer_partitions_max: None,
            newcomer_lasts: Duration::from_secs(300),
            files: Files::default(),
        }
    }
}

/// What an instance runs with.
#[derive(Debug)]
pub(super) struct Values {
    /// What the assigner is told.
    pub(super) settings: Settings,
    /// Where health and metrics are served, if anywhere.
    pub(super) http_listen: Option<String>,
}

impl Draft {
    /// Reads the files that are named, and checks what no single setting can know.
    pub(super) fn finish(self) -> Result<Values, Vec<String>> {
        let Self { mut settings, http_listen, newcomer_partitions_max, newcomer_lasts, files } = self;
        settings.newcomers = newcomer_partitions_max
            .map(|partitions_max| assigner::Newcomers { partitions_max, lasts: newcomer_lasts });
        let mut problems = files.read_into(&mut settings);
        // A file that cannot be read would be told twice.
        if problems.is_empty() {
            problems.extend(settings.check().iter().map(ToString::to_string));
        }
        if problems.is_empty() { Ok(Values { settings, http_listen }) } else { Err(problems) }
    }
}

/// Everything that can be set, in the order in which it is explained.
pub(super) static SETTINGS: &[Setting] = &[
    Setting {
        name: "etcd_endpoints",
        variable: Some("ETCD_ENDPOINTS"),
        default: "http://127.0.0.1:2379",
        doc: "Where etcd is: http://host:port or https://host:port; several with commas.",
        set: |draft, text| list(text).map(|list| draft.settings.etcd_endpoints = list),
    },
    Setting {
        name: "etcd_prefix",
        variable: Some("ETCD_PREFIX"),
        default: "/kafka-assigner/",
        doc: "What all keys begin with. Instances with the same prefix are one deployment.",
        set: |draft, text| {
            draft.settings.etcd_prefix = text.to_owned();
            Ok(())
        },
    },
    Setting {
        name: "etcd_user",
        variable: None,
        default: "",
        doc: "The user's name in etcd, if it asks for one.",
        set: |draft, text| keep(&mut draft.files.etcd_user, text),
    },
    Setting {
        name: "etcd_password_file",
        variable: None,
        default: "",
        doc: "A file with the user's password.",
        set: |draft, text| keep(&mut draft.files.etcd_password, text),
    },
    Setting {
        name: "etcd_ca_file",
        variable: None,
        default: "",
        doc: "A PEM file with the authorities that etcd's certificates are trusted by; for https.",
        set: |draft, text| keep(&mut draft.files.etcd_ca, text),
    },
    Setting {
        name: "etcd_cert_file",
        variable: None,
        default: "",
        doc: "A PEM file with the certificate that etcd is shown, if it asks for one.",
        set: |draft, text| keep(&mut draft.files.etcd_cert, text),
    },
    Setting {
        name: "etcd_key_file",
        variable: None,
        default: "",
        doc: "A PEM file with that certificate's key.",
        set: |draft, text| keep(&mut draft.files.etcd_key, text),
    },
    Setting {
        name: "etcd_server_name",
        variable: None,
        default: "",
        doc: "The name in etcd's certificate, if it is not that of the endpoint.",
        set: |draft, text| keep(&mut draft.files.etcd_server_name, text),
    },
    Setting {
        name: "consumer_lease_ttl_secs",
        variable: Some("CONSUMER_LEASE_TTL_SECS"),
        default: "30",
        doc: "How long a consumer of which nothing is heard keeps its partitions.",
        set: |draft, text| seconds(text).map(|time| draft.settings.consumer_lease_ttl = time),
    },
    Setting {
        name: "consumer_keepalive_interval_secs",
        variable: Some("CONSUMER_KEEPALIVE_INTERVAL_SECS"),
        default: "5",
        doc: "How often consumers say that they live, and leases of those who cannot are renewed for them.",
        set: |draft, text| seconds(text).map(|time| draft.settings.consumer_keepalive_interval = time),
    },
    Setting {
        name: "assigner_name",
        variable: Some("ASSIGNER_NAME"),
        default: "",
        doc: "The name of this instance; by default that of the machine and something random.",
        set: |draft, text| {
            draft.settings.assigner_name = text.to_owned();
            Ok(())
        },
    },
    Setting {
        name: "leader_lease_ttl_secs",
        variable: Some("LEADER_LEASE_TTL_SECS"),
        default: "15",
        doc: "How long a leader of which nothing is heard leads.",
        set: |draft, text| seconds(text).map(|time| draft.settings.leader_lease_ttl = time),
    },
    Setting {
        name: "leader_keepalive_interval_secs",
        variable: Some("LEADER_KEEPALIVE_INTERVAL_SECS"),
        default: "5",
        doc: "How often the leader renews its lease.",
        set: |draft, text| seconds(text).map(|time| draft.settings.leader_keepalive_interval = time),
    },
    Setting {
        name: "election_retry_interval_secs",
        variable: Some("ELECTION_RETRY_INTERVAL_SECS"),
        default: "5",
        doc: "How long to wait after etcd could not be asked who leads; a leader's end is noticed at once.",
        set: |draft, text| seconds(text).map(|time| draft.settings.election_retry_interval = time),
    },
    Setting {
        name: "rebalance_debounce_interval_secs",
        variable: Some("REBALANCE_DEBOUNCE_INTERVAL_SECS"),
        default: "1",
        doc: "How long consumers and topics must be left unchanged before partitions move because of a change.",
        set: |draft, text| seconds(text).map(|time| draft.settings.rebalance_debounce_interval = time),
    },
    Setting {
        name: "reconcile_interval_secs",
        variable: None,
        default: "5",
        doc: "How often everything is planned even though nothing is known to have changed.",
        set: |draft, text| seconds(text).map(|time| draft.settings.reconcile_interval = time),
    },
    Setting {
        name: "handoff_timeout_secs",
        variable: Some("HANDOFF_TIMEOUT_SECS"),
        default: "300",
        doc: "How long a consumer may warm up without progress before its handoff is given up.",
        set: |draft, text| seconds(text).map(|time| draft.settings.handoff_timeout = time),
    },
    Setting {
        name: "release_timeout_secs",
        variable: None,
        default: "",
        doc: "How long an owner may take to let go before the handoff is given up; by default handoff_timeout_secs.",
        set: |draft, text| {
            optional(text)
                .map(|text| seconds(&text))
                .transpose()
                .map(|time| draft.settings.release_timeout = time)
        },
    },
    Setting {
        name: "handoff_retry_interval_secs",
        variable: None,
        default: "30",
        doc: "How long a partition stays where it is after its handoff was given up.",
        set: |draft, text| seconds(text).map(|time| draft.settings.handoff_retry_interval = time),
    },
    Setting {
        name: "handoff_mode",
        variable: None,
        default: "exclusive",
        doc: "exclusive: the new owner begins after the old one has let go. overlap: before, so both work.",
        set: |draft, text| mode(text).map(|mode| draft.settings.handoff_mode = mode),
    },
    Setting {
        name: "newcomer_partitions_max",
        variable: None,
        default: "",
        doc: "What a consumer gets at most while it is new; by default as much as the others.",
        set: |draft, text| {
            optional(text)
                .map(|text| number(&text))
                .transpose()
                .map(|number| draft.newcomer_partitions_max = number)
        },
    },
    Setting {
        name: "newcomer_secs",
        variable: None,
        default: "300",
        doc: "How long a consumer is new.",
        set: |draft, text| seconds(text).map(|time| draft.newcomer_lasts = time),
    },
    Setting {
        name: "stream_channel_size",
        variable: Some("STREAM_CHANNEL_SIZE"),
        default: "1024",
        doc: "How many commands may wait for a consumer that is slow to read them.",
        set: |draft, text| number(text).map(|number| draft.settings.stream_channel_size = number),
    },
    Setting {
        name: "bind_host",
        variable: Some("BIND_HOST"),
        default: "0.0.0.0",
        doc: "Where gRPC is served: a name or an address of this machine.",
        set: |draft, text| {
            draft.settings.bind_host = text.to_owned();
            Ok(())
        },
    },
    Setting {
        name: "bind_port",
        variable: Some("BIND_PORT"),
        default: "50051",
        doc: "The port; 0 for any that is free.",
        set: |draft, text| number(text).map(|number| draft.settings.bind_port = number),
    },
    Setting {
        name: "tls_cert_file",
        variable: None,
        default: "",
        doc: "A PEM file with the certificate that callers are shown; without it gRPC is served in the clear.",
        set: |draft, text| keep(&mut draft.files.tls_cert, text),
    },
    Setting {
        name: "tls_key_file",
        variable: None,
        default: "",
        doc: "A PEM file with that certificate's key.",
        set: |draft, text| keep(&mut draft.files.tls_key, text),
    },
    Setting {
        name: "tls_client_ca_file",
        variable: None,
        default: "",
        doc: "A PEM file with authorities; callers then need a certificate of one of them.",
        set: |draft, text| keep(&mut draft.files.tls_client_ca, text),
    },
    Setting {
        name: "token_file",
        variable: None,
        default: "",
        doc: "A file with tokens, one a line; callers then need one of them.",
        set: |draft, text| keep(&mut draft.files.tokens, text),
    },
    Setting {
        name: "http_listen",
        variable: None,
        default: "127.0.0.1:9645",
        doc: "Where /livez, /readyz and /metrics are served, or none.",
        set: |draft, text| http_listen(text).map(|address| draft.http_listen = address),
    },
    Setting {
        name: "kafka_hosts",
        variable: Some("KAFKA_HOSTS"),
        default: "",
        doc: "Brokers of the Kafka whose topics are assigned, as host:port; several with commas.",
        set: |draft, text| {
            draft.settings.kafka_hosts = if text.trim().is_empty() { Vec::new() } else { list(text)? };
            Ok(())
        },
    },
    Setting {
        name: "kafka_ca_file",
        variable: None,
        default: "",
        doc: "A PEM file with the authorities that Kafka's certificates are trusted by; with it TLS is spoken.",
        set: |draft, text| keep(&mut draft.files.kafka_ca, text),
    },
    Setting {
        name: "kafka_cert_file",
        variable: None,
        default: "",
        doc: "A PEM file with the certificate that Kafka is shown, if it asks for one.",
        set: |draft, text| keep(&mut draft.files.kafka_cert, text),
    },
    Setting {
        name: "kafka_key_file",
        variable: None,
        default: "",
        doc: "A PEM file with that certificate's key.",
        set: |draft, text| keep(&mut draft.files.kafka_key, text),
    },
    Setting {
        name: "kafka_server_name",
        variable: None,
        default: "",
        doc: "The name in the brokers' certificates, if it is not that of each broker.",
        set: |draft, text| keep(&mut draft.files.kafka_server_name, text),
    },
    Setting {
        name: "kafka_sasl_mechanism",
        variable: None,
        default: "",
        doc: "PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512, if Kafka asks who we are.",
        set: |draft, text| {
            let mechanism = optional(text).map(|text| text.parse::<client::Mechanism>()).transpose();
            mechanism
                .map(|mechanism| draft.files.kafka_mechanism = mechanism)
                .map_err(|error| error.to_string())
        },
    },
    Setting {
        name: "kafka_sasl_user",
        variable: None,
        default: "",
        doc: "The user's name in Kafka.",
        set: |draft, text| keep(&mut draft.files.kafka_user, text),
    },
    Setting {
        name: "kafka_sasl_password_file",
        variable: None,
        default: "",
        doc: "A file with the user's password.",
        set: |draft, text| keep(&mut draft.files.kafka_password, text),
    },
    Setting {
        name: "kafka_sasl_plain_without_tls",
        variable: None,
        default: "false",
        doc: "Whether PLAIN may send the password over a connection that anybody on the way can read.",
        set: |draft, text| {
            truth(text).map(|truth| draft.settings.kafka.security.allow_plain_without_tls = truth)
        },
    },
    Setting {
        name: "topic_refresh_interval_secs",
        variable: None,
        default: "30",
        doc: "How often the topics are read from Kafka again.",
        set: |draft, text| seconds(text).map(|time| draft.settings.topic_refresh_interval = time),
    },
];

fn keep(slot: &mut Option<String>, text: &str) -> Result<(), String> {
    *slot = optional(text);
    Ok(())
}

fn optional(text: &str) -> Option<String> {
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

fn list(text: &str) -> Result<Vec<String>, String> {
    let items: Vec<String> = text.split(',').filter_map(optional).collect();
    if items.is_empty() { Err("it is empty".to_owned()) } else { Ok(items) }
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.trim().parse().map_err(|_| format!("`{text}` is not a number that fits"))
}

fn seconds(text: &str) -> Result<Duration, String> {
    let parsed = text.trim().parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    parsed.ok_or_else(|| format!("`{text}` is not a number of seconds"))
}

fn truth(text: &str) -> Result<bool, String> {
    text.trim().parse().map_err(|_| format!("`{text}` is neither true nor false"))
}

fn mode(text: &str) -> Result<Mode, String> {
    match text.trim() {
        "exclusive" => Ok(Mode::Exclusive),
        "overlap" => Ok(Mode::Overlap),
        other => Err(format!("`{other}` is neither exclusive nor overlap")),
    }
}

fn http_listen(text: &str) -> Result<Option<String>, String> {
    match text.trim() {
        "none" => Ok(None),
        address => Listener::parse(address).map(|_| Some(address.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_defaults_of_the_table_are_those_of_the_instance() {
        let mut draft = Draft::default();
        for setting in SETTINGS {
            assert_eq!((setting.set)(&mut draft, setting.default), Ok(()), "{}", setting.name);
        }
        assert_eq!(format!("{draft:?}"), format!("{:?}", Draft::default()));
    }

    #[test]
    fn no_two_settings_share_a_name_or_a_variable() {
        let names: BTreeSet<&str> = SETTINGS.iter().map(|setting| setting.name).collect();
        let variables: BTreeSet<String> = SETTINGS
            .iter()
            .flat_map(|setting| [Some(setting.own_variable()), setting.variable.map(str::to_owned)])
            .flatten()
            .collect();
        let original = SETTINGS.iter().filter(|setting| setting.variable.is_some()).count();
        assert_eq!((names.len(), variables.len()), (SETTINGS.len(), SETTINGS.len() + original));
    }

    #[test]
    fn the_names_of_the_original_service_are_kept() {
        for setting in SETTINGS {
            if let Some(variable) = setting.variable {
                assert_eq!(variable, setting.name.to_uppercase());
            }
        }
        let name = SETTINGS.iter().find(|setting| setting.name == "assigner_name").unwrap();
        assert_eq!(name.own_variable(), "KOHORT_ASSIGNER_NAME");
    }

    #[test]
    fn values_that_make_no_sense_are_refused() {
        for text in ["", "x", "-1", "inf", "NaN", "1e30"] {
            assert!(seconds(text).is_err(), "{text}");
        }
        assert_eq!(seconds(" 0.25 "), Ok(Duration::from_millis(250)));
        assert!(number::<u16>("65536").is_err() && list(" , ").is_err() && mode("both").is_err());
        assert_eq!(list("a, b,"), Ok(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!((http_listen("none"), http_listen("9645").is_err()), (Ok(None), true));
    }
}
