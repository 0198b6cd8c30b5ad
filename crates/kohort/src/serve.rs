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
use tracing::{debug, info, warn};

use crate::admin::{self, Admin, Serving};
use crate::cli::{LogFormat, ServeArgs};
use crate::configuration;
use crate::failure::{Failure, Kind};
use crate::listeners;
use crate::logging;
use crate::metrics;
use crate::output::{bytes, count, print};
use crate::running::{self, Running};
use crate::signals::Signals;
use crate::token;

/// Runs the broker until a signal ends it.
pub(crate) fn run(args: &ServeArgs) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    let configuration = configuration::load(&args.settings, std::env::vars_os())
        .map_err(|problems| Failure::new(Kind::Usage, problems.to_string()))?;
    let format = logging::start(&args.logging, &configuration.log)?;
    for name in configuration.settings.without_effect() {
        warn!("{name} has no effect in Kohort");
    }
    allow_many_files();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("kohort")
        .build()
        .context("start the runtime")?;
    let code = runtime.block_on(serve(configuration.settings, format, started));
    // What still runs in the background (an admin request, a read of a file) must not hold up the end.
    runtime.shutdown_timeout(Duration::from_millis(100));
    code
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

async fn serve(settings: Settings, format: LogFormat, started: Instant) -> anyhow::Result<ExitCode> {
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
    let gateway = listeners::bind(&settings).await?;

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

    let mut registry = Registry::default();
    metrics::register(&mut registry, running.store_metrics());
    let kohort = registry.sub_registry_with_prefix("kohort");
    gateway.metrics().register(kohort);
    running.register(kohort);
    let data_dir = running.data_dir();
    let token = token::read_or_create(data_dir)
        .with_context(|| format!("make the token {}", token::path(data_dir).display()))?;
    let (take_snapshot, group_events) = (running.take_snapshot(), running.group_events());
    admin.serving(Serving { registry, token, take_snapshot, group_events });

    let addresses = gateway.local_addrs();
    announce(&settings, &running, &addresses, admin_address, format, started);

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
    let cut = gateway.serve(running.rail(), shutdown).await.context("serve clients")?;
    if cut > 0 {
        warn!(connections = cut, "connections were cut that still waited for answers");
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

/// Says, in a few lines, what runs, where its data is and how to reach it.
fn announce(
    settings: &Settings,
    running: &Running,
    addresses: &[SocketAddr],
    admin: Option<SocketAddr>,
    format: LogFormat,
    started: Instant,
) {
    let version = env!("CARGO_PKG_VERSION");
    let data = std::path::absolute(running.data_dir()).unwrap_or_else(|_| running.data_dir().to_owned());
    let data = data.display();
    let contents = running.contents();
    let clients = listeners::for_clients(settings, addresses);
    let bootstrap = clients.join(",");
    let took = started.elapsed();
    if format == LogFormat::Json {
        info!(
            version,
            %data,
            flush = settings.value("kohort.flush"),
            bootstrap,
            admin = admin.map(|address| address.to_string()),
            topics = contents.topics,
            partitions = contents.partitions,
            ready_ms = took.as_secs_f64() * 1000.0,
            "ready"
        );
        return;
    }
    let flush = match settings.flush() {
        Flush::Always => "on disk before it is acknowledged".to_owned(),
        Flush::Interval => format!("synced every {} ms", settings.flush_interval_ms()),
        Flush::Os => "synced when the system likes".to_owned(),
    };
    let mut text = format!("kohort {version}, a Kafka-compatible broker\n  data     {data} ({flush})\n");
    let (topics, partitions) = (count(contents.topics, "topic"), count(contents.partitions, "partition"));
    text.push_str(&format!("  holds    {topics}, {partitions}"));
    if contents.replayed_bytes > 0 {
        text.push_str(&format!("; {} recovered from the log", bytes(contents.replayed_bytes)));
    }
    text.push('\n');
    if let Some(admin) = admin {
        text.push_str(&format!("  admin    http://{admin}/metrics\n"));
    }
    text.push_str(&format!("  clients  bootstrap.servers={bootstrap}\n"));
    text.push_str(&format!("ready in {:.0} ms\n", took.as_secs_f64() * 1000.0));
    // A broker whose output goes to a full disk has to come back after a crash, greeting or not.
    if let Err(error) = print(&text) {
        warn!(%error, "standard output cannot be written");
    }
}
