//! `kohort gateway`: Kafka listeners in front of a broker elsewhere.

mod health;

use std::env;
use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use coordination::settings::{Layer, Settings};
use gateway::Gateway;
use rail::{BindError, BrokerAddress, Endpoint, Hello, Key, KeyError, Rail, RemoteRail};
use tokio::net::TcpListener;
use tracing::{info, warn};

use crate::broker_command::Id;
use crate::cli::LogFormat;
use crate::cli::gateway::{GatewayArgs, GatewayCommand, GatewayRunArgs, KeyArgs};
use crate::failure::{Failure, Kind};
use crate::health_listener::{self, Health};
use crate::listeners::{self, Parked};
use crate::output::{milliseconds, print};
use crate::serve::Server;
use crate::signals::Signals;
use crate::telemetry::Telemetry;
use crate::threads::Threads;
use crate::{admin, code_pages, configuration, rail_door};
use health::GatewayHealth;

/// Runs `kohort gateway …`.
pub(crate) fn run(args: &GatewayArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        Some(GatewayCommand::Id { key, output }) => {
            let key = match &key.key_file {
                Some(path) => Key::read_or_create(path).map_err(|error| wrong(&error))?,
                None => find_key(key)?,
            };
            Id::of(&key).show(*output)?;
            Ok(ExitCode::SUCCESS)
        }
        None => start(&args.run),
    }
}

/// The gateway's key, which is there already: one that is made up on the way is on nobody's list.
fn find_key(args: &KeyArgs) -> anyhow::Result<Key> {
    if let Some(path) = &args.key_file {
        return Ok(Key::read(path).map_err(|error| match error {
            KeyError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                let path = path.display();
                let message = format!(
                    "there is no key in {path}; `kohort gateway id --key-file {path}` makes one and shows the id \
                     that the broker has to allow"
                );
                Failure::new(Kind::Usage, message)
            }
            error => wrong(&error),
        })?);
    }
    match env::var(KEY_VARIABLE) {
        Ok(text) => Ok(text
            .trim()
            .parse()
            .map_err(|error: KeyError| Failure::new(Kind::Usage, format!("{KEY_VARIABLE}: {error}")))?),
        Err(_) => {
            let message = format!(
                "a gateway needs a key: name a file with --key-file, or set {KEY_VARIABLE}; `kohort gateway id \
                 --key-file FILE` makes one and shows the id that the broker has to allow"
            );
            Err(Failure::new(Kind::Usage, message).into())
        }
    }
}

/// What is wrong with the file that --key-file names.
fn wrong(error: &KeyError) -> Failure {
    let message = match error {
        KeyError::Directory { .. } => format!("{error}; --key-file names the file that holds the key"),
        error => error.to_string(),
    };
    Failure::new(Kind::Usage, message)
}

const KEY_VARIABLE: &str = "KOHORT_GATEWAY_KEY";

fn start(args: &GatewayRunArgs) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    let configuration = configuration::load(&args.settings(), env::vars_os())
        .map_err(|problems| Failure::new(Kind::Usage, problems.to_string()))?;
    refuse_what_is_the_brokers(&configuration.settings)?;
    let broker = broker_address(args.broker.as_deref())?;
    let key = find_key(&args.key)?;
    let Server { runtime, telemetry, format } =
        Server::start(&configuration, &args.logging, "gateway", Threads::ForTheRail)?;
    warn_of_what_is_the_brokers(&configuration.settings);
    let serving = serve_clients(configuration.settings, broker, key, telemetry.as_ref(), format, started);
    let code = runtime.block_on(serving);
    Server::end(runtime, telemetry);
    code
}

/// Properties of the broker that somebody gave to this gateway on purpose.
fn refuse_what_is_the_brokers(settings: &Settings) -> anyhow::Result<()> {
    let named: Vec<&str> = of_the_broker(settings, |layer| layer == Layer::Flags).collect();
    if named.is_empty() {
        return Ok(());
    }
    let message = format!("{}: set at the broker, not at its gateways", named.join(", "));
    Err(Failure::new(Kind::Usage, message).into())
}

/// One file, or one environment, may serve a broker and its gateways.
fn warn_of_what_is_the_brokers(settings: &Settings) {
    for name in of_the_broker(settings, |layer| layer != Layer::Flags) {
        warn!("{name} has no effect in a gateway; it is set at the broker");
    }
}

fn of_the_broker(
    settings: &Settings,
    in_layer: impl Fn(Layer) -> bool,
) -> impl Iterator<Item = &'static str> {
    settings
        .changed()
        .filter(move |(property, layer, _)| in_layer(*layer) && property.effective && !is_ours(property.name))
        .map(|(property, ..)| property.name)
}

/// Properties that are set and that only gateways look at.
pub(crate) fn of_the_gateways(settings: &Settings) -> impl Iterator<Item = &'static str> {
    let set = settings.changed().map(|(property, ..)| property);
    set.filter(|property| property.effective && is_of_gateways(property.name)).map(|property| property.name)
}

/// Whether a gateway looks at a property.
fn is_ours(property: &str) -> bool {
    const OF_EVERY_PROCESS: [&str; 3] =
        ["kohort.admin.address", "kohort.otlp.endpoint", "kohort.trace.sample.ratio"];
    OF_EVERY_PROCESS.contains(&property) || is_of_gateways(property)
}

/// Whether a property is about what only gateways have: listeners with their sockets and who is let in, threads of
/// connections, and what is kept of the link.
fn is_of_gateways(property: &str) -> bool {
    const FAMILIES: [&str; 8] = [
        "ssl.",
        "sasl.",
        "socket.",
        "connection",
        "max.connection",
        "kohort.gateway.",
        "kohort.ssl.",
        "kohort.sasl.",
    ];
    const ALONE: [&str; 6] = [
        "advertised.listeners",
        "kohort.authentication.timeout.ms",
        "kohort.connection.threads.pinned",
        "kohort.org",
        "listener.security.protocol.map",
        "listeners",
    ];
    ALONE.contains(&property) || FAMILIES.iter().any(|family| property.starts_with(family))
}

fn broker_address(text: Option<&str>) -> anyhow::Result<BrokerAddress> {
    let Some(text) = text else {
        let message = "a gateway needs --broker ENDPOINT_ID@ADDR:PORT; the broker prints it when it starts";
        return Err(Failure::new(Kind::Usage, message).into());
    };
    Ok(text
        .parse()
        .map_err(|error: rail::BrokerAddressError| Failure::new(Kind::Usage, format!("--broker: {error}")))?)
}

/// A socket that the broker can be dialled from.
async fn socket_to_dial(key: &Key, broker: &BrokerAddress) -> Result<Endpoint, Failure> {
    rail::bind_to_dial(key, broker).await.map_err(|error| {
        let message = match error {
            BindError::Host { .. } => format!("--broker: {error}"),
            BindError::Address { .. } => format!("no socket to dial the broker {broker} from: {error}"),
        };
        Failure::new(Kind::Failed, message)
    })
}

async fn serve_clients(
    settings: Settings,
    broker: BrokerAddress,
    key: Key,
    telemetry: Option<&Telemetry>,
    format: LogFormat,
    started: Instant,
) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::new().context("listen for signals")?;
    let gateway = listeners::bind(&settings, Parked::Afar).await?;
    let admin = bind_admin(&settings).await?;
    let endpoint = socket_to_dial(&key, &broker).await?;
    let hello = Hello {
        listeners: rail_door::advertised(&settings),
        software: concat!("kohort/", env!("CARGO_PKG_VERSION")).to_owned(),
    };
    let rail = RemoteRail::connect(endpoint, broker.clone(), hello, settings.gateway_record_memory());
    let health = Arc::new(GatewayHealth::new(&gateway, rail.link()));
    let admin = match admin {
        Some((listener, address)) => {
            tokio::spawn(health_listener::serve(listener, Arc::clone(&health) as Arc<dyn Health>));
            Some(address)
        }
        None => None,
    };
    announce(&settings, &gateway, &broker, &key, admin, format, started);
    code_pages::let_go_of_the_start();

    let draining = Arc::clone(&health);
    let shutdown = async move {
        let signal = signals.next().await;
        info!(signal = signal.name(), "draining: no new connections, requests in flight are answered");
        draining.draining();
        // Whoever asks twice does not want to wait.
        tokio::spawn(async move {
            let signal = signals.next().await;
            warn!(signal = signal.name(), "ended at once");
            std::process::exit(signal.exit_code());
        });
    };
    let mut way = Arc::clone(&rail) as Arc<dyn Rail>;
    if let Some(telemetry) = telemetry {
        way = telemetry.at_gateway(way);
    }
    let cut = gateway.serve(way, shutdown).await.context("serve clients")?;
    if cut > 0 {
        warn!(connections = cut, "connections were cut that still waited for answers");
    }
    rail.close().await;
    info!("ended");
    Ok(ExitCode::SUCCESS)
}

/// Takes the address for health and metrics, where somebody asked for them.
async fn bind_admin(settings: &Settings) -> anyhow::Result<Option<(TcpListener, SocketAddr)>> {
    if settings.origin("kohort.admin.address").is_none() {
        return Ok(None);
    }
    let Some(address) = settings.admin_address() else { return Ok(None) };
    let listener = admin::bind(&address).await.map_err(|error| {
        Failure::new(Kind::Failed, format!("the admin listener cannot listen on {address}: {error}"))
    })?;
    let local = listener.local_addr().context("find the admin listener's address")?;
    Ok(Some((listener, local)))
}

fn announce(
    settings: &Settings,
    gateway: &Gateway,
    broker: &BrokerAddress,
    key: &Key,
    admin: Option<SocketAddr>,
    format: LogFormat,
    started: Instant,
) {
    let version = env!("CARGO_PKG_VERSION");
    let bootstrap = listeners::for_clients(settings, &gateway.local_addrs()).join(",");
    let id = key.id();
    let took = milliseconds(started.elapsed());
    if format == LogFormat::Json {
        info!(
            version,
            %id,
            %broker,
            bootstrap,
            admin = admin.map(|address| address.to_string()),
            ready_ms = took,
            "ready"
        );
        return;
    }
    let mut text = format!("kohort {version}, a gateway\n  id       {id}\n  broker   {broker}\n");
    if let Some(admin) = admin {
        text.push_str(&format!("  admin    http://{admin}/metrics\n"));
    }
    text.push_str(&format!("  clients  bootstrap.servers={bootstrap}\nready in {took:.0} ms\n"));
    if let Err(error) = print(&text) {
        warn!(%error, "standard output cannot be written");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Format, OutputArgs};

    #[test]
    fn a_gateway_needs_to_know_its_broker_and_its_key() {
        let missing = broker_address(None).unwrap_err().to_string();
        assert!(missing.contains("needs --broker"), "{missing}");
        let wrong = broker_address(Some("10.0.0.1:9643")).unwrap_err().to_string();
        assert!(wrong.starts_with("--broker: "), "{wrong}");
    }

    #[tokio::test]
    async fn a_name_without_an_address_is_told_with_the_reason() {
        let broker = |address: &str| BrokerAddress { id: Key::generate().id(), address: address.to_owned() };
        let key = Key::generate();
        socket_to_dial(&key, &broker("127.0.0.1:1")).await.unwrap().close().await;
        // No server of names is asked for a part of a name of more than 63 letters.
        let name = "n".repeat(64);
        let said = socket_to_dial(&key, &broker(&format!("{name}:1"))).await.unwrap_err().to_string();
        assert!(said.starts_with(&format!("--broker: the name {name} has no address (")), "{said}");
    }

    #[test]
    fn a_directory_is_no_key_file() {
        let dir = tempfile::tempdir().unwrap();
        let key = KeyArgs { key_file: Some(dir.path().to_owned()) };
        let said = find_key(&key).unwrap_err().to_string();
        assert!(said.contains("is a directory") && !said.contains("chmod"), "{said}");
        let output = OutputArgs { output: Format::Table };
        let id = GatewayCommand::Id { key, output };
        let asked = run(&GatewayArgs { command: Some(id), run: GatewayRunArgs::default() });
        assert_eq!(asked.unwrap_err().to_string(), said);
    }

    #[test]
    fn a_key_that_is_not_there_is_not_made_up() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("gateway.key");
        let args = KeyArgs { key_file: Some(path.clone()) };
        let missing = find_key(&args).unwrap_err().to_string();
        assert!(missing.contains("kohort gateway id --key-file"), "{missing}");
        assert!(!path.exists());
        let made = Key::read_or_create(&path).unwrap();
        assert_eq!(find_key(&args).unwrap().id(), made.id());
    }

    #[test]
    fn what_the_broker_decides_is_not_set_at_a_gateway() {
        let mut settings = Settings::default();
        let ours = [
            ("listeners", "127.0.0.1:0"),
            ("max.connections.per.ip", "7"),
            ("socket.request.max.bytes", "1000000"),
            ("listener.name.plaintext.kohort.org", "acme"),
            ("kohort.connection.threads.pinned", "false"),
            ("kohort.gateway.record.memory.bytes", "0"),
        ];
        for (name, value) in ours {
            settings.set(Layer::Flags, name, value).unwrap();
        }
        refuse_what_is_the_brokers(&settings).unwrap();
        settings.set(Layer::File, "num.partitions", "6").unwrap();
        refuse_what_is_the_brokers(&settings).unwrap();
        let warned: Vec<&str> = of_the_broker(&settings, |layer| layer == Layer::File).collect();
        assert_eq!(warned, ["num.partitions"]);
        settings.set(Layer::Flags, "log.dirs", "data").unwrap();
        let refused = refuse_what_is_the_brokers(&settings).unwrap_err().to_string();
        assert_eq!(refused, "log.dirs: set at the broker, not at its gateways");
        let others: Vec<&str> = of_the_gateways(&settings).collect();
        let expected = [
            "kohort.connection.threads.pinned",
            "kohort.gateway.record.memory.bytes",
            "listeners",
            "max.connections.per.ip",
            "socket.request.max.bytes",
        ];
        assert_eq!(others, expected);
    }
}
