//! The assigner's settings from the file, the environment and the flags.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use coordination::settings::{BROKER_PROPERTIES, Listener, nearest, nearest_broker_property};

use super::settings::{Draft, SETTINGS, Setting, Values};
use crate::cli::assigner::AssignerSettingsArgs;
use crate::configuration::{
    ASSIGNER_TABLE, LogVariables, PREFIX, Problems, broker_variables, flatten, read_table, set_by_kubernetes,
    unknown_variable,
};

/// The settings of this process, and what its environment says about logging.
#[derive(Debug)]
pub(super) struct Configuration {
    /// What the instance runs with.
    pub(super) values: Values,
    /// What was set: the strongest of each, by the order of the table.
    pub(super) changed: Vec<Changed>,
    /// What is logged, and how.
    pub(super) log: LogVariables,
}

/// A setting that is not left at its default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Changed {
    pub(super) setting: &'static Setting,
    pub(super) value: String,
    pub(super) layer: Layer,
}

/// Where a value comes from, the weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Layer {
    File,
    /// A variable with the name that the original service gave it.
    Variable,
    /// One that says that it is meant for us.
    OwnVariable,
    Flag,
}

impl Layer {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Variable | Self::OwnVariable => "environment",
            Self::Flag => "flag",
        }
    }
}

/// What somebody wants a setting to be, and where that is said.
struct Wish {
    layer: Layer,
    place: String,
    setting: &'static Setting,
    value: String,
}

/// Reads all settings: the file, then `environment`, then the flags, each stronger than the one before.
pub(super) fn load(
    args: &AssignerSettingsArgs,
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Configuration, Problems> {
    let mut gathered = Gathered { file: args.config.clone(), ..Gathered::default() };
    gathered.add_flags(args);
    gathered.add_variables(environment);
    if let Some(file) = gathered.file.clone() {
        gathered.add_file(&file);
    }
    let Gathered { mut wishes, mut problems, log, .. } = gathered;

    // What is overruled is checked all the same: it would be in force once the stronger one is gone.
    wishes.sort_by_key(|wish| wish.layer);
    let mut draft = Draft::default();
    let mut strongest = BTreeMap::new();
    for Wish { layer, place, setting, value } in wishes {
        match (setting.set)(&mut draft, &value) {
            Ok(()) => {
                strongest.insert(setting.name, Changed { setting, value, layer });
            }
            Err(problem) => problems.push(format!("{place}: {}: {problem}", setting.name)),
        }
    }
    let changed = SETTINGS.iter().filter_map(|setting| strongest.remove(setting.name)).collect();
    match draft.finish() {
        Ok(values) if problems.is_empty() => Ok(Configuration { values, changed, log }),
        Ok(_) => Err(Problems(problems)),
        Err(more) => {
            problems.extend(more);
            Err(Problems(problems))
        }
    }
}

#[derive(Default)]
struct Gathered {
    wishes: Vec<Wish>,
    problems: Vec<String>,
    file: Option<PathBuf>,
    log: LogVariables,
}

impl Gathered {
    fn add(&mut self, layer: Layer, place: &str, setting: &'static Setting, value: String) {
        self.wishes.push(Wish { layer, place: place.to_owned(), setting, value });
    }

    fn add_named(&mut self, layer: Layer, place: &str, name: &str, value: String) {
        match by_name(name) {
            Some(setting) => self.add(layer, place, setting, value),
            None => self.problems.push(format!("{place}: {}", unknown_setting(name))),
        }
    }

    fn add_flags(&mut self, args: &AssignerSettingsArgs) {
        for (place, name, value) in [
            ("--etcd", "etcd_endpoints", &args.etcd),
            ("--kafka", "kafka_hosts", &args.kafka),
            ("--name", "assigner_name", &args.name),
            ("--http", "http_listen", &args.http),
        ] {
            if let Some(value) = value {
                self.add_named(Layer::Flag, place, name, value.clone());
            }
        }
        match args.listen.as_deref().map(Listener::parse) {
            Some(Ok(Listener { host, port, .. })) => {
                self.add_named(Layer::Flag, "--listen", "bind_host", host);
                self.add_named(Layer::Flag, "--listen", "bind_port", port.to_string());
            }
            Some(Err(problem)) => self.problems.push(format!("--listen: {problem}")),
            None => {}
        }
        for (name, value) in &args.set {
            self.add_named(Layer::Flag, "--set", name, value.clone());
        }
    }

    fn add_variables(&mut self, environment: impl IntoIterator<Item = (OsString, OsString)>) {
        let mut known: Vec<String> = broker_variables().collect();
        known.extend(SETTINGS.iter().map(|setting| without_prefix(&setting.own_variable())));
        for (variable, value) in environment {
            // Other programs' variables may be anything.
            let Ok(variable) = variable.into_string() else { continue };
            let ours = SETTINGS.iter().find_map(|setting| match &variable {
                name if setting.variable == Some(name) => Some((Layer::Variable, setting)),
                name if *name == setting.own_variable() => Some((Layer::OwnVariable, setting)),
                _ => None,
            });
            let Some(name) = variable.strip_prefix(PREFIX).or(ours.map(|_| variable.as_str())) else {
                continue;
            };
            let Ok(value) = value.into_string() else {
                self.problems.push(format!("{variable}: the value is not UTF-8"));
                continue;
            };
            match (ours, name) {
                (Some((layer, setting)), _) => self.add(layer, &variable, setting, value),
                (None, "CONFIG") if self.file.is_none() => self.file = Some(PathBuf::from(value)),
                (None, "LOG") => self.log.level = Some(value),
                (None, "LOG_FORMAT") => self.log.format = Some(value),
                // The address for the commands that ask an instance.
                (None, "ASSIGNER") => {}
                (None, name) if known.iter().any(|known| known == name) => {}
                (None, name) if set_by_kubernetes(name, &value) => {}
                (None, _) => self.problems.push(unknown_variable(&variable, &known)),
            }
        }
    }

    fn add_file(&mut self, path: &Path) {
        let place = path.display().to_string();
        let table = match read_table(path) {
            Ok(table) => table,
            Err(problem) => return self.problems.push(problem),
        };
        let (mut ours, mut others) = (Vec::new(), Vec::new());
        for (key, value) in &table {
            if key == ASSIGNER_TABLE && value.is_table() {
                flatten(String::new(), value, &mut ours);
            } else {
                flatten(key.clone(), value, &mut others);
            }
        }
        for (name, value) in ours {
            match value {
                Ok(value) => self.add_named(Layer::File, &place, &name, value),
                Err(kind) => self.problems.push(format!("{place}: {name} cannot be a {kind}")),
            }
        }
        // The rest is the broker's, who may share the file. What it does not know either is a mistake.
        for (name, _) in others {
            if by_name(&name).is_some() {
                self.problems.push(format!("{place}: {name} belongs into the table [{ASSIGNER_TABLE}]"));
            } else if !BROKER_PROPERTIES.iter().any(|property| property.name == name) {
                let hint = nearest_broker_property(&name)
                    .map(|near| format!("; did you mean {near}?"))
                    .unwrap_or_default();
                self.problems.push(format!("{place}: unknown property {name}{hint}"));
            }
        }
    }
}

fn by_name(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name == name)
}

fn unknown_setting(name: &str) -> String {
    let hint = nearest(name, SETTINGS.iter().map(|setting| setting.name))
        .map(|near| format!("; did you mean {near}?"))
        .unwrap_or_default();
    format!("unknown setting {name}{hint}")
}

fn without_prefix(variable: &str) -> String {
    variable.strip_prefix(PREFIX).unwrap_or(variable).to_owned()
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    fn variables(variables: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        variables.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    fn flags(set: &[(&str, &str)], config: Option<&Path>) -> AssignerSettingsArgs {
        let set = set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        AssignerSettingsArgs { set, config: config.map(Path::to_owned), ..AssignerSettingsArgs::default() }
    }

    #[test]
    fn flags_win_over_our_variables_those_over_plain_ones_and_those_over_the_file() {
        let file = file(
            "\"num.partitions\" = 2\n[assigner]\nbind_port = 1\nstream_channel_size = 1\n\
             handoff_timeout_secs = 1\nconsumer_lease_ttl_secs = 61\n",
        );
        let args = flags(&[("bind_port", "4")], Some(file.path()));
        let environment = variables(&[
            ("KOHORT_ASSIGNER_STREAM_CHANNEL_SIZE", "3"),
            ("STREAM_CHANNEL_SIZE", "2"),
            ("BIND_PORT", "2"),
            ("HANDOFF_TIMEOUT_SECS", "2"),
        ]);
        let Configuration { values, changed, .. } = load(&args, environment).unwrap();
        let settings = values.settings;
        assert_eq!((settings.bind_port, settings.stream_channel_size), (4, 3));
        assert_eq!((settings.handoff_timeout.as_secs(), settings.consumer_lease_ttl.as_secs()), (2, 61));
        let sources: Vec<_> =
            changed.iter().map(|changed| (changed.setting.name, changed.layer.name())).collect();
        assert_eq!(
            sources,
            [
                ("consumer_lease_ttl_secs", "file"),
                ("handoff_timeout_secs", "environment"),
                ("stream_channel_size", "environment"),
                ("bind_port", "flag"),
            ]
        );
    }

    #[test]
    fn flags_of_their_own_are_settings_too() {
        let args = AssignerSettingsArgs {
            etcd: Some("http://a:1,http://b:1".to_owned()),
            kafka: Some("k:9092".to_owned()),
            listen: Some("[::1]:7".to_owned()),
            name: Some("one".to_owned()),
            http: Some("none".to_owned()),
            ..AssignerSettingsArgs::default()
        };
        let Values { settings, http_listen } = load(&args, []).unwrap().values;
        assert_eq!(settings.etcd_endpoints, ["http://a:1", "http://b:1"]);
        assert_eq!((settings.bind_host.as_str(), settings.bind_port), ("::1", 7));
        assert_eq!((settings.assigner_name.as_str(), http_listen), ("one", None));
        assert_eq!(settings.kafka_hosts, ["k:9092"]);
    }

    #[test]
    fn the_environment_may_be_the_brokers_too() {
        let environment = variables(&[
            ("KOHORT_NUM_PARTITIONS", "x"),
            ("KOHORT_BOOTSTRAP", "b:9092"),
            ("KOHORT_ASSIGNER", "http://a:1"),
            ("KOHORT_ASSIGNER_SERVICE_HOST", "10.0.0.1"),
            ("KOHORT_ASSIGNER_PORT", "tcp://10.0.0.1:50051"),
            ("KOHORT_ASSIGNER_METRICS_SERVICE_HOST", "10.0.0.2"),
            ("KOHORT_ASSIGNER_METRICS_PORT_9645_TCP", "tcp://10.0.0.2:9645"),
            ("KOHORT_PORT", "tcp://10.0.0.1:9092"),
            ("KOHORT_LOG", "debug"),
            ("KOHORT_ASSIGNER_NAME", "one"),
            ("SOMETHING", "else"),
        ]);
        let configuration = load(&AssignerSettingsArgs::default(), environment).unwrap();
        assert_eq!(configuration.log.level.as_deref(), Some("debug"));
        assert_eq!(configuration.values.settings.assigner_name, "one");
    }

    #[test]
    fn what_is_wrong_with_the_security_of_kafka_is_told_once() {
        let password = file("secret");
        let args = flags(
            &[
                ("kafka_sasl_mechanism", "PLAIN"),
                ("kafka_sasl_user", "ann"),
                ("kafka_sasl_password_file", password.path().to_str().unwrap()),
            ],
            None,
        );
        let Problems(problems) = load(&args, []).unwrap_err();
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].contains("kafka_sasl_mechanism: PLAIN without TLS"), "{problems:?}");
    }

    #[test]
    fn all_problems_are_told_at_once_with_the_nearest_name() {
        let file = file(
            "bind_port = 1\n\"num.partition\" = 2\n[assigner]\nbind_prot = 1\netcd_prefix = 1979-05-27\n\
             handoff_mode = \"both\"\n",
        );
        let mut args = flags(&[("kafka_host", "k:1")], Some(file.path()));
        args.listen = Some("50051".to_owned());
        let mut environment = variables(&[
            ("KOHORT_ASSIGNER_BIND_HOTS", "x"),
            ("CONSUMER_LEASE_TTL_SECS", "soon"),
            ("ETCD_PREFIX", "/no-slash"),
        ]);
        environment.push(("KAFKA_HOSTS".into(), OsString::from_vec(vec![b'k', 0xff])));
        let Problems(problems) = load(&args, environment).unwrap_err();
        let place = file.path().display().to_string();
        let problems: Vec<String> = problems.iter().map(|problem| problem.replace(&place, "FILE")).collect();
        assert_eq!(
            problems,
            [
                "--listen: 50051 is not a listener: it has no port; expected NAME://host:port",
                "--set: unknown setting kafka_host; did you mean kafka_hosts?",
                "KOHORT_ASSIGNER_BIND_HOTS: unknown setting; did you mean KOHORT_ASSIGNER_BIND_HOST?",
                "KAFKA_HOSTS: the value is not UTF-8",
                "FILE: unknown setting bind_prot; did you mean bind_port?",
                "FILE: etcd_prefix cannot be a datetime",
                "FILE: bind_port belongs into the table [assigner]",
                "FILE: unknown property num.partition; did you mean num.partitions?",
                "FILE: handoff_mode: `both` is neither exclusive nor overlap",
                "CONSUMER_LEASE_TTL_SECS: consumer_lease_ttl_secs: `soon` is not a number of seconds",
                "etcd_prefix: it does not end with a slash",
            ]
        );
    }
}
