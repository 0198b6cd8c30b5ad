//! `kohort serve`: settings, sockets, store and broker put together, and taken apart again on a signal.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use coordination::settings::{Flush, Settings};
use prometheus_client::registry::Registry;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tracing::{debug, info, warn};

use crate::admin::{self, Admin, Serving};
use crate::cli::{LogArgs, LogFormat, ServeArgs};
use crate::code_pages;
use crate::configuration::{self, Configuration};
use crate::failure::{Failure, Kind};
use crate::gateway_command;
use crate::listeners::{self, Parked};
use crate::logging;
use crate::metrics;
use crate::output::{bytes, count, milliseconds, print};
use crate::rail_door::RailDoor;
use crate::running::{self, Running};
use crate::signals::Signals;
use crate::telemetry::Telemetry;
use crate::threads::Threads;
use crate::token;

/// Who can reach the broker of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Kafka clients, and gateways if the settings say where.
    Everything,
    /// Gateways only.
    Broker,
}

/// Runs the broker until a signal ends it.
pub(crate) fn run(args: &ServeArgs) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    let configuration = configuration::load(&args.settings, std::env::vars_os())
        .map_err(|problems| Failure::new(Kind::Usage, problems.to_string()))?;
    host(configuration, &args.logging, Role::Everything, started)
}

/// Runs a broker in this role until a signal ends it.
pub(crate) fn host(
    configuration: Configuration,
    logging: &LogArgs,
    role: Role,
    started: Instant,
) -> anyhow::Result<ExitCode> {
    let (name, threads) = match role {
        Role::Everything => ("serve", Threads::ForChores),
        Role::Broker => ("broker", Threads::ForTheRail),
    };
    let Server { runtime, telemetry, format } = Server::start(&configuration, logging, name, threads)?;
    if role == Role::Broker {
        for name in gateway_command::of_the_gateways(&configuration.settings) {
            warn!("{name} has no effect in a broker that only gateways reach; it is set at the gateways");
        }
    }
    let code = runtime.block_on(serve(configuration.settings, role, telemetry.as_ref(), format, started));
    Server::end(runtime, telemetry);
    code
}

/// What every process that serves needs before it can begin.
pub(crate) struct Server {
    /// The threads.
    pub(crate) runtime: Runtime,
    /// Where spans go, if anywhere.
    pub(crate) telemetry: Option<Telemetry>,
    /// How log lines are written.
    pub(crate) format: LogFormat,
}

impl Server {
    /// Starts threads, spans and logging.
    pub(crate) fn start(
        configuration: &Configuration,
        logging: &LogArgs,
        role: &'static str,
        threads: Threads,
    ) -> anyhow::Result<Self> {
        let settings = &configuration.settings;
        let runtime = threads.start().context("start the runtime")?;
        let telemetry = {
            let _within = runtime.enter();
            Telemetry::start(settings.otlp_endpoint(), settings.trace_sample_ratio(), role)?
        };
        let format = logging::start(logging, &configuration.log, telemetry.as_ref())?;
        for name in settings.without_effect() {
            warn!("{name} has no effect in Kohort");
        }
        allow_many_files();
        Ok(Self { runtime, telemetry, format })
    }

    /// Sends the last spans and ends the threads.
    pub(crate) fn end(runtime: Runtime, telemetry: Option<Telemetry>) {
        if let Some(telemetry) = telemetry {
            telemetry.end();
        }
        // What still runs in the background (an admin request, a read of a file) must not hold up the end.
        runtime.shutdown_timeout(Duration::from_millis(100));
    }
}

/// Every connection and every segment in use is an open file; the usual limit of 1024 is meant for programs
/// that use `select`. What cannot be raised is told by the first connection that fails.
pub(crate) fn allow_many_files() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some() && limit.current != limit.maximum {
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            debug!(%error, "the limit of open files stays");
        }
    }
}

async fn serve(
    settings: Settings,
    role: Role,
    telemetry: Option<&Telemetry>,
    format: LogFormat,
    started: Instant,
) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::new().context("listen for signals")?;
    let admin = Arc::new(Admin::default());
    let admin_address = match bind_admin(&settings).await? {
        Some((listener, address)) => {
            tokio::spawn(admin::serve(listener, Arc::clone(&admin)));
            Some(address)
        }
        None => None,
    };
    // Before the data is read: a port that is taken is told at once, and clients that start together with the
    // broker wait for it instead of failing.
    let gateway = match role {
        Role::Everything => Some(listeners::bind(&settings, Parked::Here).await?),
        Role::Broker => None,
    };

    let opening = settings.clone();
    let opened = tokio::task::spawn_blocking(move || running::open(&opening));
    let running = tokio::select! {
        opened = opened => opened.context("open the data directory")??,
        // Nothing was promised yet, and recovery can be broken off anywhere.
        signal = signals.next() => {
            info!(signal = signal.name(), "ended while recovering");
            return Ok(ExitCode::SUCCESS);
        }
    };
    running.report_recovery();
    let running = running.start(settings.clone()).await?;
    if gateway.is_some() {
        running.broker().admin().look(|catalog| {
            for (listener, org) in listeners::orgs_missing(&settings, |org| catalog.org_named(org).is_some()) {
                warn!(
                    listener,
                    org,
                    "there is no such organisation, so clients of its listener are not let in; `kohort org create` \
                     makes it"
                );
            }
        });
    }

    let mut rail = running.rail();
    if let Some(telemetry) = telemetry {
        rail = telemetry.at_broker(rail);
    }
    let door = RailDoor::open(&settings, &running, Arc::clone(&rail), gateway.is_some()).await?;
    if let Some(telemetry) = telemetry {
        rail = telemetry.at_gateway(rail);
    }

    let mut registry = Registry::default();
    metrics::register(&mut registry, running.store_metrics());
    let kohort = registry.sub_registry_with_prefix("kohort");
    if let Some(gateway) = &gateway {
        gateway.metrics().register(kohort);
    }
    running.register(kohort);
    let data_dir = running.data_dir();
    let token = token::read_or_create(data_dir)
        .with_context(|| format!("make the token {}", token::path(data_dir).display()))?;
    let (take_snapshot, group_events) = (running.take_snapshot(), running.group_events());
    admin.serving(Serving {
        registry,
        token,
        take_snapshot,
        group_events,
        broker: Arc::clone(running.broker()),
    });

    let addresses = gateway.as_ref().map(|gateway| gateway.local_addrs());
    Announcement {
        settings: &settings,
        running: &running,
        clients: addresses.as_deref(),
        door: door.as_ref(),
        admin: admin_address,
    }
    .make(format, started);
    code_pages::let_go_of_the_start();

    let (draining, drain) = (Arc::clone(&admin), running.drain());
    let shutdown = async move {
        let signal = signals.next().await;
        info!(signal = signal.name(), "draining: no new connections, requests in flight are answered");
        draining.draining();
        drain();
        // Whoever asks twice does not want to wait.
        tokio::spawn(async move {
            let signal = signals.next().await;
            warn!(signal = signal.name(), "ended at once");
            std::process::exit(signal.exit_code());
        });
    };
    match gateway {
        Some(gateway) => {
            let cut = gateway.serve(rail, shutdown).await.context("serve clients")?;
            if cut > 0 {
                warn!(connections = cut, "connections were cut that still waited for answers");
            }
        }
        None => shutdown.await,
    }
    if let Some(door) = door {
        door.close().await;
    }
    running.close().await;
    info!("ended; the log is flushed");
    Ok(ExitCode::SUCCESS)
}

/// Takes the admin address. Only one that somebody asked for is worth failing for: a second broker on a
/// machine should not need two flags to start.
async fn bind_admin(settings: &Settings) -> anyhow::Result<Option<(TcpListener, SocketAddr)>> {
    let Some(address) = settings.admin_address() else { return Ok(None) };
    let asked_for = settings.origin("kohort.admin.address").is_some();
    match admin::bind(&address).await {
        Ok(listener) => {
            let local = listener.local_addr().context("find the admin listener's address")?;
            Ok(Some((listener, local)))
        }
        Err(error) if asked_for => {
            Err(Failure::new(Kind::Failed, format!("the admin listener cannot listen on {address}: {error}"))
                .into())
        }
        Err(error) => {
            warn!(
                "no admin listener (health, metrics, snapshots): {address}: {error}; choose another with --admin"
            );
            Ok(None)
        }
    }
}

/// What is said of a broker when it is ready: what runs, where its data is and how to reach it.
struct Announcement<'a> {
    settings: &'a Settings,
    running: &'a Running,
    /// Where clients can connect; none where only gateways can.
    clients: Option<&'a [SocketAddr]>,
    door: Option<&'a RailDoor>,
    admin: Option<SocketAddr>,
}

impl Announcement<'_> {
    fn make(&self, format: LogFormat, started: Instant) {
        let took = started.elapsed();
        if format == LogFormat::Json {
            self.log(took);
            return;
        }
        let text = format!("{}ready in {:.0} ms\n", self.text(), took.as_secs_f64() * 1000.0);
        // A broker whose output goes to a full disk has to come back after a crash, greeting or not.
        if let Err(error) = print(&text) {
            warn!(%error, "standard output cannot be written");
        }
    }

    fn log(&self, took: Duration) {
        let contents = self.running.contents();
        info!(
            version = env!("CARGO_PKG_VERSION"),
            data = self.data(),
            flush = self.settings.value("kohort.flush"),
            bootstrap = self.bootstrap(),
            endpoint = self.door.map(|door| door.id().to_string()),
            rail = self.door.map(|door| door.address().to_string()),
            admin = self.admin.map(|address| address.to_string()),
            topics = contents.topics,
            partitions = contents.partitions,
            ready_ms = milliseconds(took),
            "ready"
        );
    }

    fn text(&self) -> String {
        let version = env!("CARGO_PKG_VERSION");
        let flush = match self.settings.flush() {
            Flush::Always => "on disk before it is acknowledged".to_owned(),
            Flush::Interval => format!("synced every {} ms", self.settings.flush_interval_ms()),
            Flush::Os => "synced when the system likes".to_owned(),
        };
        let what = match self.clients {
            Some(_) => "a Kafka-compatible broker",
            None => "a Kafka-compatible broker behind gateways",
        };
        let mut text = format!("kohort {version}, {what}\n  data     {} ({flush})\n", self.data());
        let contents = self.running.contents();
        let (topics, partitions) = (count(contents.topics, "topic"), count(contents.partitions, "partition"));
        text.push_str(&format!("  holds    {topics}, {partitions}"));
        if contents.replayed_bytes > 0 {
            text.push_str(&format!("; {} recovered from the log", bytes(contents.replayed_bytes)));
        }
        text.push('\n');
        if let Some(admin) = self.admin {
            text.push_str(&format!("  admin    http://{admin}/metrics\n"));
        }
        if let Some(door) = self.door {
            text.push_str(&format!("  endpoint {}\n  rail     {} (UDP)\n", door.id(), door.address()));
        }
        if let Some(bootstrap) = self.bootstrap() {
            text.push_str(&format!("  clients  bootstrap.servers={bootstrap}\n"));
        }
        text
    }

    fn data(&self) -> String {
        let data = self.running.data_dir();
        std::path::absolute(data).unwrap_or_else(|_| data.to_owned()).display().to_string()
    }

    fn bootstrap(&self) -> Option<String> {
        self.clients.map(|addresses| listeners::for_clients(self.settings, addresses).join(","))
    }
}
