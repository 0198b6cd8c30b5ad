//! Settings from the file, the environment and the flags.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

use coordination::settings::{
    BROKER_PROPERTIES, LISTENER_PREFIX, Layer, Listener, SettingError, Settings, is_per_listener, nearest,
};

use crate::cli::SettingsArgs;

/// The settings of this process, and what its environment says about logging.
#[derive(Debug, Default)]
pub(crate) struct Configuration {
    /// The broker's settings.
    pub(crate) settings: Settings,
    /// What is logged, and how.
    pub(crate) log: LogVariables,
}

/// What the environment of a server says about logging.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct LogVariables {
    /// `KOHORT_LOG`: which log lines to write.
    pub(crate) level: Option<String>,
    /// `KOHORT_LOG_FORMAT`: how to write them.
    pub(crate) format: Option<String>,
}

/// Everything that is wrong with the settings, so that one look is enough to mend them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Problems(pub(crate) Vec<String>);

impl std::fmt::Display for Problems {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0.as_slice() {
            [problem] => f.write_str(problem),
            problems => write!(f, "the settings are wrong:\n  {}", problems.join("\n  ")),
        }
    }
}

impl std::error::Error for Problems {}

/// Reads all settings: the file, then `environment`, then the flags, each stronger than the one before.
pub(crate) fn load(
    args: &SettingsArgs,
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Configuration, Problems> {
    let (configuration, mut problems) = gather(args, environment);
    check(&configuration.settings, &mut problems);
    problems.extend(configuration.settings.listener_problems());
    problems.extend(clashes(&configuration.settings.listeners()));
    if problems.is_empty() { Ok(configuration) } else { Err(Problems(problems)) }
}

/// The same, for a process that listens for no clients: what its listeners would lack is the gateways' concern.
pub(crate) fn load_without_listeners(
    args: &SettingsArgs,
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Configuration, Problems> {
    let (configuration, mut problems) = gather(args, environment);
    check(&configuration.settings, &mut problems);
    if problems.is_empty() { Ok(configuration) } else { Err(Problems(problems)) }
}

fn gather(
    args: &SettingsArgs,
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> (Configuration, Vec<String>) {
    let mut configuration = Configuration::default();
    let mut problems = Vec::new();
    let mut set = |settings: &mut Settings, layer, place: &str, name: &str, value: &str| {
        if let Err(problem) = settings.set(layer, name, value) {
            problems.push(format!("{place}: {problem}"));
        }
    };

    let names = environment_names();
    let mut file = args.config.clone();
    let mut unknown = Vec::new();
    let mut not_text = Vec::new();
    let mut not_asked = Vec::new();
    for (variable, value) in environment {
        // Other programs' variables may be anything.
        let Ok(variable) = variable.into_string() else { continue };
        let Some(name) = variable.strip_prefix(PREFIX) else { continue };
        let Ok(value) = value.into_string() else {
            not_text.push(variable);
            continue;
        };
        match names.get(name) {
            Some(Meaning::Property(property)) => {
                set(&mut configuration.settings, Layer::Environment, &variable, property, &value);
            }
            Some(Meaning::File) if file.is_none() => file = Some(PathBuf::from(value)),
            Some(Meaning::Log) => configuration.log.level = Some(value),
            Some(Meaning::LogFormat) => configuration.log.format = Some(value),
            // Nobody can be asked there, and who means "do not listen" should not find a listener.
            Some(Meaning::Asked) if value.trim() == "none" => not_asked.push(variable),
            Some(Meaning::File | Meaning::Asked | Meaning::OfAnotherCommand) => {}
            None if set_by_kubernetes(name, &value) || is_of_the_assigner(name) => {}
            None => match listener_property(name) {
                Some(property) => {
                    set(&mut configuration.settings, Layer::Environment, &variable, &property, &value);
                }
                None => unknown.push(variable),
            },
        }
    }

    let flag = |text: &[String]| (!text.is_empty()).then(|| text.join(","));
    let data_dir = args.data_dir.as_ref().and_then(|path| match path.to_str() {
        Some(path) => Some(path.to_owned()),
        None => {
            not_text.push("--data-dir".to_owned());
            None
        }
    });
    for (place, name, value) in [
        ("--listen", "listeners", flag(&args.listen)),
        ("--advertise", "advertised.listeners", flag(&args.advertise)),
        ("--data-dir", "log.dirs", data_dir),
        ("--admin", "kohort.admin.address", args.admin.clone()),
    ] {
        if let Some(value) = value {
            set(&mut configuration.settings, Layer::Flags, place, name, &value);
        }
    }
    for (name, value) in &args.set {
        set(&mut configuration.settings, Layer::Flags, "--set", name, value);
    }

    problems.extend(not_text.iter().map(|place| format!("{place}: the value is not UTF-8")));
    problems.extend(not_asked.iter().map(|variable| {
        format!("{variable}: it says where commands ask; where to listen, or none, is {PREFIX}ADMIN_ADDRESS")
    }));
    problems.extend(unknown.iter().map(|variable| unknown_variable(variable, names.keys())));
    if let Some(file) = file {
        read_file(&file, &mut configuration.settings, &mut problems);
    }
    (configuration, problems)
}

/// What the names of our variables begin with.
pub(crate) const PREFIX: &str = "KOHORT_";

/// What an environment variable stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    Property(&'static str),
    File,
    Log,
    LogFormat,
    /// Where commands ask the admin listener, which is not where to listen: the two share an environment.
    Asked,
    OfAnotherCommand,
}

/// Every variable we know, without its prefix.
fn environment_names() -> BTreeMap<String, Meaning> {
    let properties = BROKER_PROPERTIES
        .iter()
        .map(|property| (variable_name(property.name), Meaning::Property(property.name)));
    let flags = [
        ("LISTEN", Meaning::Property("listeners")),
        ("ADVERTISE", Meaning::Property("advertised.listeners")),
        ("DATA_DIR", Meaning::Property("log.dirs")),
        ("ADMIN", Meaning::Asked),
        ("CONFIG", Meaning::File),
        ("LOG", Meaning::Log),
        ("LOG_FORMAT", Meaning::LogFormat),
        ("BOOTSTRAP", Meaning::OfAnotherCommand),
        ("BROKER", Meaning::OfAnotherCommand),
        ("COMMAND_CONFIG", Meaning::OfAnotherCommand),
        ("GATEWAY_KEY", Meaning::OfAnotherCommand),
        ("GATEWAY_KEY_FILE", Meaning::OfAnotherCommand),
    ];
    properties.chain(flags.map(|(name, meaning)| (name.to_owned(), meaning))).collect()
}

/// `num.partitions` is NUM_PARTITIONS; a leading `kohort.` would only repeat the prefix.
fn variable_name(property: &str) -> String {
    spelt_out(property.strip_prefix("kohort.").unwrap_or(property))
}

fn spelt_out(property: &str) -> String {
    property.replace('.', "_").to_uppercase()
}

/// The property of one listener that a variable stands for: LISTENER_NAME_OUTSIDE_SSL_KEYSTORE_LOCATION is
/// `listener.name.outside.ssl.keystore.location`. A listener's name may hold what separates words here, so the variable
/// is read from its end.
fn listener_property(variable: &str) -> Option<String> {
    let place = variable.strip_prefix("LISTENER_NAME_")?;
    let own = BROKER_PROPERTIES.iter().map(|property| property.name).filter(|name| is_per_listener(name));
    let fitting = own.flat_map(|property| {
        // In the middle of a name `KOHORT_` repeats nothing, so it may be there and need not.
        let ends = [variable_name(property), spelt_out(property)];
        ends.into_iter().filter_map(move |end| {
            let listener = place.strip_suffix(&end)?.strip_suffix('_')?;
            (!listener.is_empty()).then_some((listener, property))
        })
    });
    // The longest end is meant: `kohort.ssl.key.location` ends with what could be another property.
    let (listener, property) = fitting.min_by_key(|(listener, _)| listener.len())?;
    Some(format!("{LISTENER_PREFIX}{}.{property}", listener.to_ascii_lowercase()))
}

/// What is said of a variable with our prefix that means nothing; `known` have it no more.
pub(crate) fn unknown_variable<'a>(variable: &str, known: impl IntoIterator<Item = &'a String>) -> String {
    let name = variable.strip_prefix(PREFIX).unwrap_or(variable).to_lowercase();
    let known: Vec<String> = known.into_iter().map(|name| name.to_lowercase()).collect();
    let hint = nearest(&name, known.iter().map(String::as_str))
        .map(|near| format!("; did you mean {PREFIX}{}?", near.to_uppercase()))
        .unwrap_or_default();
    format!("{variable}: unknown setting{hint}")
}

/// The variables of the broker and of the commands, without their prefix, beside which the assigner may run.
pub(crate) fn broker_variables() -> impl Iterator<Item = String> {
    environment_names().into_keys()
}

/// One machine's environment may be that of both; the assigner checks its own.
fn is_of_the_assigner(name: &str) -> bool {
    name == "ASSIGNER" || name.starts_with("ASSIGNER_")
}

/// A service named `kohort`, or `kohort-metrics`, puts its addresses into the environment of every pod beside it.
pub(crate) fn set_by_kubernetes(name: &str, value: &str) -> bool {
    // As if the service were named: what comes before it is the rest of that name.
    let name = format!("_{name}");
    if name.ends_with("_SERVICE_HOST") || name.ends_with("_SERVICE_PORT") || name.contains("_SERVICE_PORT_") {
        return true;
    }
    // `_PORT_9092_TCP`, and `_PORT_9092_TCP_ADDR` and the like.
    let is_of_a_port = name.rsplit_once("_PORT_").is_some_and(|(_, rest)| {
        let mut words = rest.split('_');
        let is_number = words.next().is_some_and(|number| number.parse::<u16>().is_ok());
        is_number && matches!(words.next(), Some("TCP" | "UDP" | "SCTP"))
    });
    is_of_a_port || (name.ends_with("_PORT") && value.contains("://"))
}

fn read_file(path: &Path, settings: &mut Settings, problems: &mut Vec<String>) {
    let place = path.display();
    let mut table = match read_table(path) {
        Ok(table) => table,
        Err(problem) => return problems.push(problem),
    };
    // One file may hold the settings of both; the assigner checks its own.
    if table.get(ASSIGNER_TABLE).is_some_and(toml::Value::is_table) {
        table.remove(ASSIGNER_TABLE);
    }
    let mut values = Vec::new();
    flatten(String::new(), &toml::Value::Table(table), &mut values);
    for (name, value) in values {
        let outcome = value.map_err(|kind| format!("{name} cannot be a {kind}")).and_then(|value| {
            settings.set(Layer::File, &name, &value).map_err(|problem: SettingError| problem.to_string())
        });
        if let Err(problem) = outcome {
            problems.push(format!("{place}: {problem}"));
        }
    }
}

/// The table of a TOML file that is the assigner's.
pub(crate) const ASSIGNER_TABLE: &str = "assigner";

/// A TOML file, or what is wrong with it.
pub(crate) fn read_table(path: &Path) -> Result<toml::Table, String> {
    let place = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| format!("{place}: cannot be read: {error}"))?;
    text.parse().map_err(|error| format!("{place}: {error}"))
}

/// Names with their dots, whether the file quotes them (`"num.partitions"`) or nests them (`num.partitions`).
pub(crate) fn flatten(
    name: String,
    value: &toml::Value,
    into: &mut Vec<(String, Result<String, &'static str>)>,
) {
    let scalar = |value: &toml::Value| match value {
        toml::Value::String(text) => Ok(text.clone()),
        toml::Value::Integer(number) => Ok(number.to_string()),
        toml::Value::Float(number) => Ok(number.to_string()),
        toml::Value::Boolean(truth) => Ok(truth.to_string()),
        other => Err(other.type_str()),
    };
    match value {
        toml::Value::Table(table) => {
            for (key, value) in table {
                let name = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
                flatten(name, value, into);
            }
        }
        toml::Value::Array(items) => {
            into.push((
                name,
                items.iter().map(scalar).collect::<Result<Vec<_>, _>>().map(|items| items.join(",")),
            ));
        }
        other => into.push((name, scalar(other))),
    }
}

/// What no single property can know.
fn check(settings: &Settings, problems: &mut Vec<String>) {
    if settings.data_dir().contains(',') {
        problems.push("log.dirs: Kohort keeps its data in one directory".to_owned());
    }
    let listeners = settings.listeners();
    let advertised = settings.advertised_listeners();
    for listener in &advertised {
        if !listeners.iter().any(|known| known.name == listener.name) {
            problems.push(format!("advertised.listeners: there is no listener named {}", listener.name));
        }
        if listener.host.is_empty() || matches!(listener.host.as_str(), "0.0.0.0" | "::") {
            problems.push(format!("advertised.listeners: {listener} is no address that a client can dial"));
        }
    }
    if let Some(address) = settings.admin_address()
        && let Err(problem) = Listener::parse(&address)
    {
        problems.push(format!("kohort.admin.address: {problem}"));
    }
    if let Some(endpoint) = settings.otlp_endpoint()
        && !is_plain_url(&endpoint)
    {
        problems
            .push(format!("kohort.otlp.endpoint: {endpoint} is not of the form http://host:port (no TLS)"));
    }
}

/// Listeners that cannot both have what they ask for. The system would only say that the port is taken, as if by another
/// program.
fn clashes(listeners: &[Listener]) -> Vec<String> {
    let mut clashes = Vec::new();
    for (at, one) in listeners.iter().enumerate() {
        for other in listeners[..at].iter().filter(|other| other.port == one.port && one.port != 0) {
            if is_one_host(&other.host, &one.host) {
                clashes.push(format!("listeners: {other} and {one} would take the same address and port"));
            }
        }
    }
    clashes
}

/// Whether two hosts of listeners stand for the same address, or one for all addresses of the other's kind.
fn is_one_host(one: &str, other: &str) -> bool {
    let meets = |one: &IpAddr, other: &IpAddr| {
        one.is_ipv4() == other.is_ipv4() && (one == other || one.is_unspecified() || other.is_unspecified())
    };
    let (here, there) = (addresses(one), addresses(other));
    one.eq_ignore_ascii_case(other) || here.iter().any(|one| there.iter().any(|other| meets(one, other)))
}

/// What a host stands for, as far as nobody has to be asked.
fn addresses(host: &str) -> Vec<IpAddr> {
    match host {
        // `:9092` leaves IPv4 to a listener that asks for it.
        "" => vec![Ipv6Addr::UNSPECIFIED.into()],
        // Whether it has an address of the other kind too differs from machine to machine.
        "localhost" => vec![Ipv4Addr::LOCALHOST.into()],
        host => host.parse().into_iter().collect(),
    }
}

/// Whether a URL leads to a host by HTTP in the clear.
fn is_plain_url(text: &str) -> bool {
    let host = text.strip_prefix("http://").map(|rest| rest.trim_end_matches('/'));
    host.is_some_and(|host| !host.is_empty() && !host.contains(['/', ' ', '@', '?', '#']))
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

    fn variables<T: for<'a> From<&'a str>>(variables: &[(&str, &str)]) -> Vec<(T, T)> {
        variables.iter().map(|(name, value)| (T::from(name), T::from(value))).collect()
    }

    fn flags(set: &[(&str, &str)]) -> SettingsArgs {
        SettingsArgs { set: variables(set), ..SettingsArgs::default() }
    }

    #[test]
    fn no_two_properties_share_a_variable() {
        let flags = 12;
        assert_eq!(environment_names().len(), BROKER_PROPERTIES.len() + flags);
    }

    #[test]
    fn flags_win_over_the_environment_and_that_over_the_file() {
        let file = file("\"num.partitions\" = 2\nnode.id = 2\n\"fetch.max.bytes\" = 2000\n");
        let mut args = flags(&[("num.partitions", "4")]);
        args.config = Some(file.path().to_owned());
        let environment =
            variables(&[("KOHORT_NUM_PARTITIONS", "3"), ("KOHORT_NODE_ID", "3"), ("PATH", "x")]);
        let settings = load(&args, environment).unwrap().settings;
        assert_eq!((settings.num_partitions(), settings.node_id(), settings.fetch_max_bytes()), (4, 3, 2000));
    }

    #[test]
    fn a_file_may_quote_nest_and_list() {
        let file = file(
            "\"kohort.flush\" = \"interval\"\n[log]\nretention.ms = 5\n\"segment.bytes\" = 2000000\n\
             cleanup.policy = [\"compact\", \"delete\"]\n[auto]\ncreate.topics.enable = false\n",
        );
        let environment = variables(&[("KOHORT_CONFIG", file.path().to_str().unwrap())]);
        let settings = load(&SettingsArgs::default(), environment).unwrap().settings;
        let topic = settings.topic_defaults();
        assert_eq!((topic.retention_ms, topic.segment_bytes), (Some(5), 2_000_000));
        assert!(
            topic.cleanup_policy.compact && topic.cleanup_policy.delete && !settings.auto_create_topics()
        );
    }

    #[test]
    fn flags_have_variables_too() {
        let environment = variables(&[
            ("KOHORT_LISTEN", "127.0.0.1:0"),
            ("KOHORT_DATA_DIR", "elsewhere"),
            ("KOHORT_ADMIN_ADDRESS", "none"),
            ("KOHORT_FLUSH", "os"),
            ("KOHORT_LOG", "debug"),
        ]);
        let configuration = load(&SettingsArgs::default(), environment).unwrap();
        let settings = configuration.settings;
        assert_eq!(settings.listeners().len(), 1);
        assert_eq!((settings.data_dir().as_str(), settings.admin_address()), ("elsewhere", None));
        assert_eq!(settings.value("kohort.flush").as_deref(), Some("os"));
        assert_eq!(configuration.log.level.as_deref(), Some("debug"));
    }

    #[test]
    fn where_commands_ask_is_not_where_to_listen() {
        let load = |value| load(&SettingsArgs::default(), variables(&[("KOHORT_ADMIN", value)]));
        let settings = load("127.0.0.1:19644").unwrap().settings;
        assert_eq!(settings.origin("kohort.admin.address"), None);
        assert_eq!(settings.admin_address(), Settings::default().admin_address());
        let refused = load("none").unwrap_err().to_string();
        assert!(refused.contains("is KOHORT_ADMIN_ADDRESS"), "{refused}");
    }

    #[test]
    fn two_listeners_need_two_addresses() {
        let load = |listen: &str| {
            let map = "PLAINTEXT:PLAINTEXT,A:PLAINTEXT,B:PLAINTEXT";
            let mut args = flags(&[("listener.security.protocol.map", map)]);
            args.listen = vec![listen.to_owned()];
            load(&args, []).map(|_| ()).map_err(|problems| problems.to_string())
        };
        for fine in [
            "A://127.0.0.1:0,B://127.0.0.1:0",
            "A://127.0.0.1:9092,B://127.0.0.1:9093",
            "A://127.0.0.1:9092,B://[::1]:9092",
            "A://0.0.0.0:9092,B://[::]:9092",
            "A://127.0.0.1:9092,B://:9092",
            "A://localhost:9092,B://[::1]:9092",
            "A://one.example:9092,B://two.example:9092",
        ] {
            assert_eq!(load(fine), Ok(()), "{fine}");
        }
        let both = load("A://127.0.0.1:9092,B://127.0.0.1:9092").unwrap_err();
        let expected =
            "listeners: A://127.0.0.1:9092 and B://127.0.0.1:9092 would take the same address and port";
        assert_eq!(both, expected);
        for clash in [
            "127.0.0.1:9092,127.0.0.1:9092",
            "A://0.0.0.0:9092,B://127.0.0.1:9092",
            "A://[::1]:9092,B://:9092",
            "A://localhost:9092,B://127.0.0.1:9092",
            "A://one.example:9092,B://One.Example:9092",
        ] {
            assert!(load(clash).is_err(), "{clash}");
        }
    }

    #[test]
    fn a_variable_may_be_about_one_listener() {
        let environment = variables(&[
            ("KOHORT_LISTEN", "OUT_SIDE://127.0.0.1:0"),
            ("KOHORT_LISTENER_SECURITY_PROTOCOL_MAP", "OUT_SIDE:SSL"),
            ("KOHORT_LISTENER_NAME_OUT_SIDE_SSL_KEYSTORE_LOCATION", "out.pem"),
            ("KOHORT_LISTENER_NAME_OUT_SIDE_ORG", "acme"),
        ]);
        let settings = load(&SettingsArgs::default(), environment).unwrap().settings;
        let own = settings.of_listener("OUT_SIDE");
        assert_eq!((own.ssl_keystore_location(), own.org()), (Some("out.pem".into()), Some("acme".into())));
        assert_eq!(settings.org(), None);
        let spelt_out = variables(&[
            ("KOHORT_LISTEN", "127.0.0.1:0"),
            ("KOHORT_LISTENER_NAME_PLAINTEXT_KOHORT_ORG", "acme"),
        ]);
        let settings = load(&SettingsArgs::default(), spelt_out).unwrap().settings;
        assert_eq!(settings.of_listener("PLAINTEXT").org(), Some("acme".into()));
        let of_nothing = variables(&[("KOHORT_LISTENER_NAME_OUT_NUM_PARTITIONS", "1")]);
        assert!(load(&SettingsArgs::default(), of_nothing).is_err());
    }

    #[test]
    fn what_listeners_lack_matters_where_there_are_some() {
        let environment = || variables(&[("KOHORT_LISTEN", "SSL://127.0.0.1:0")]);
        let refused = load(&SettingsArgs::default(), environment()).unwrap_err().to_string();
        assert!(refused.contains("ssl.keystore.location"), "{refused}");
        load_without_listeners(&SettingsArgs::default(), environment()).unwrap();
    }

    #[test]
    fn what_is_not_text_is_refused_where_it_is_ours() {
        let odd = || OsString::from_vec(vec![b'd', 0xff]);
        let args = SettingsArgs { data_dir: Some(PathBuf::from(odd())), ..SettingsArgs::default() };
        let environment = [("OTHER".into(), odd()), (odd(), odd()), ("KOHORT_DATA_DIR".into(), odd())];
        let refused = ["KOHORT_DATA_DIR: the value is not UTF-8", "--data-dir: the value is not UTF-8"];
        assert_eq!(load(&args, environment).unwrap_err().0, refused);
    }

    #[test]
    fn the_addresses_of_services_are_no_settings() {
        for (name, value) in [
            ("SERVICE_HOST", "10.0.0.1"),
            ("SERVICE_PORT_KAFKA", "9092"),
            ("PORT", "tcp://10.0.0.1:9092"),
            ("PORT_9092_TCP", "tcp://10.0.0.1:9092"),
            ("PORT_9092_TCP_PROTO", "tcp"),
            ("METRICS_SERVICE_HOST", "10.0.0.1"),
            ("METRICS_SERVICE_PORT", "9645"),
            ("METRICS_SERVICE_PORT_HTTP", "9645"),
            ("METRICS_PORT", "tcp://10.0.0.1:9645"),
            ("METRICS_PORT_9645_TCP_PORT", "9645"),
            ("METRICS_PORT_9645_TCP_ADDR", "10.0.0.1"),
        ] {
            assert!(set_by_kubernetes(name, value), "{name}");
        }
        for (name, value) in [("BIND_PORT", "1"), ("PORT_RANGE", "1"), ("NUM_PARTITION", "3"), ("PORTS", "1")]
        {
            assert!(!set_by_kubernetes(name, value), "{name}");
        }
    }

    #[test]
    fn what_is_the_assigners_is_left_to_it() {
        let file = file("\"num.partitions\" = 2\n[assigner]\nbind_port = 1\nodd = true\n");
        let args = SettingsArgs { config: Some(file.path().to_owned()), ..SettingsArgs::default() };
        let environment = variables(&[
            ("KOHORT_ASSIGNER", "http://a:1"),
            ("KOHORT_ASSIGNER_BIND_PORT", "1"),
            ("KOHORT_ASSIGNER_SERVICE_HOST", "10.0.0.1"),
            ("ETCD_ENDPOINTS", "http://e:1"),
        ]);
        assert_eq!(load(&args, environment).unwrap().settings.num_partitions(), 2);
    }

    #[test]
    fn all_problems_are_told_at_once_with_the_nearest_name() {
        let file = file("\"num.partition\" = 2\n");
        let mut args = flags(&[("fetch.max.bytes", "x"), ("kohort.otlp.endpoint", "collector:4317")]);
        args.config = Some(file.path().to_owned());
        args.advertise = vec!["OTHER://h:1".to_owned()];
        let environment = variables(&[("KOHORT_NUM_PARTITION", "3"), ("KOHORT_SERVICE_HOST", "10.0.0.1")]);
        let Problems(problems) = load(&args, environment).unwrap_err();
        assert_eq!(
            problems,
            [
                "--set: Invalid value x for configuration fetch.max.bytes: Not a number of type INT"
                    .to_owned(),
                "KOHORT_NUM_PARTITION: unknown setting; did you mean KOHORT_NUM_PARTITIONS?".to_owned(),
                format!(
                    "{}: unknown property num.partition; did you mean num.partitions?",
                    file.path().display()
                ),
                "advertised.listeners: there is no listener named OTHER".to_owned(),
                "kohort.otlp.endpoint: collector:4317 is not of the form http://host:port (no TLS)"
                    .to_owned(),
            ]
        );
    }
}
