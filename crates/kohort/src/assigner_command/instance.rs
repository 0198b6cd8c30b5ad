//! An instance of the assigner in this process, until a signal ends it.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use assigner::Assigner;
use coordination::handoff::Mode;
use coordination::settings::{Layer, Settings};
use tokio::net::TcpListener;
use tracing::{info, warn};

use super::configuration::{self, Configuration};
use super::health::{Instance, InstanceHealth};
use super::settings::Values;
use crate::cli::LogFormat;
use crate::cli::assigner::RunArgs;
use crate::failure::{Failure, Kind};
use crate::health_listener::{self, Health};
use crate::output::print;
use crate::serve::Server;
use crate::signals::Signals;
use crate::threads::Threads;

/// Runs an instance until a signal ends it.
pub(super) fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    let Configuration { values, changed, log } = configuration::load(&args.settings, std::env::vars_os())
        .map_err(|problems| Failure::new(Kind::Usage, problems.to_string()))?;
    let settings = of_spans(std::env::vars_os())?;
    let configuration = crate::configuration::Configuration { settings, log };
    let Server { runtime, telemetry, format } =
        Server::start(&configuration, &args.logging, "assigner", Threads::ForChores)?;
    let http_asked_for = changed.iter().any(|changed| changed.setting.name == "http_listen");
    let code = runtime.block_on(serve(values, http_asked_for, format, started));
    Server::end(runtime, telemetry);
    code
}

/// Where spans go, and which: the same two variables say so for a broker on this machine.
fn of_spans(environment: impl Iterator<Item = (OsString, OsString)>) -> anyhow::Result<Settings> {
    let mut settings = Settings::default();
    for (variable, value) in environment {
        let name = match variable.to_str() {
            Some("KOHORT_OTLP_ENDPOINT") => "kohort.otlp.endpoint",
            Some("KOHORT_TRACE_SAMPLE_RATIO") => "kohort.trace.sample.ratio",
            _ => continue,
        };
        settings.set(Layer::Environment, name, &value.to_string_lossy()).map_err(|problem| {
            Failure::new(Kind::Usage, format!("{}: {problem}", variable.to_string_lossy()))
        })?;
    }
    Ok(settings)
}

async fn serve(
    values: Values,
    http_asked_for: bool,
    format: LogFormat,
    started: Instant,
) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::new().context("listen for signals")?;
    let Values { settings, http_listen } = values;
    let health = Arc::new(InstanceHealth::starting());
    let http = match http_listen {
        Some(address) => bind(&address, http_asked_for).await?,
        None => None,
    };
    let http_address = http.as_ref().map(|(_, address)| *address);
    if let Some((listener, _)) = http {
        tokio::spawn(health_listener::serve(listener, Arc::clone(&health) as Arc<dyn Health>));
    }

    if settings.handoff_mode == Mode::Overlap {
        warn!("handoffs overlap: for a moment two consumers work on a partition that moves");
    }
    if settings.tls.is_none() && !settings.tokens.is_empty() {
        warn!("tokens are asked for, but gRPC is served in the clear: whoever is on the way can read them");
    }
    let told = settings.clone();
    let starting = Assigner::start(settings);
    let assigner = tokio::select! {
        assigner = starting => assigner.context("start the assigner")?,
        // Nothing was promised yet.
        signal = signals.next() => {
            info!(signal = signal.name(), "ended while starting");
            return Ok(ExitCode::SUCCESS);
        }
    };
    let assigner = Arc::new(assigner);
    health.running(Box::new(Arc::clone(&assigner)));
    Announcement { settings: &told, name: assigner.name(), address: assigner.address(), http: http_address }
        .make(format, started);

    let signal = signals.next().await;
    info!(signal = signal.name(), "stopping: leadership is handed over, streams end");
    // Whoever asks twice does not want to wait.
    tokio::spawn(async move {
        let signal = signals.next().await;
        warn!(signal = signal.name(), "ended at once");
        std::process::exit(signal.exit_code());
    });
    health.stopping();
    let assigner = Arc::into_inner(assigner).expect("nobody asks it any more once it is stopping");
    assigner.stop().await;
    info!("ended");
    Ok(ExitCode::SUCCESS)
}

impl Instance for Arc<Assigner> {
    fn is_ready(&self) -> bool {
        Assigner::is_ready(self)
    }

    fn metrics(&self) -> String {
        Assigner::metrics(self)
    }
}

/// Takes the address for health and metrics. Only one that somebody asked for is worth failing for: a second instance
/// on a machine should not need two flags to start.
async fn bind(address: &str, asked_for: bool) -> anyhow::Result<Option<(TcpListener, SocketAddr)>> {
    match TcpListener::bind(address).await {
        Ok(listener) => {
            let local = listener.local_addr().context("find the HTTP listener's address")?;
            Ok(Some((listener, local)))
        }
        Err(error) if asked_for => {
            let message = format!("health and metrics cannot be served on {address}: {error}");
            Err(Failure::new(Kind::Failed, message).into())
        }
        Err(error) => {
            warn!("no health and no metrics over HTTP: {address}: {error}; choose another with --http");
            Ok(None)
        }
    }
}

/// What is said of an instance when it runs.
struct Announcement<'a> {
    settings: &'a assigner::Settings,
    name: &'a str,
    address: SocketAddr,
    http: Option<SocketAddr>,
}

impl Announcement<'_> {
    fn make(&self, format: LogFormat, started: Instant) {
        let took = started.elapsed();
        if format == LogFormat::Json {
            info!(
                version = env!("CARGO_PKG_VERSION"),
                name = self.name,
                grpc = self.url(),
                http = self.http.map(|address| address.to_string()),
                etcd = self.settings.etcd_endpoints.join(","),
                prefix = self.settings.etcd_prefix,
                kafka = self.settings.kafka_hosts.join(","),
                "serving"
            );
            return;
        }
        let text = format!("{}serving after {:.0} ms\n", self.text(), took.as_secs_f64() * 1000.0);
        if let Err(error) = print(&text) {
            warn!(%error, "standard output cannot be written");
        }
    }

    fn text(&self) -> String {
        let version = env!("CARGO_PKG_VERSION");
        let mut text = format!("kohort {version}, assigner {} on {}\n", self.name, self.url());
        let prefix = &self.settings.etcd_prefix;
        text.push_str(&format!("  etcd   {} under {prefix}\n", self.settings.etcd_endpoints.join(",")));
        let kafka = match &self.settings.kafka_hosts[..] {
            [] => "none: topics are those in etcd".to_owned(),
            hosts => hosts.join(","),
        };
        text.push_str(&format!("  kafka  {kafka}\n"));
        if let Some(http) = self.http {
            text.push_str(&format!("  http   http://{http}/metrics\n"));
        }
        text
    }

    fn url(&self) -> String {
        let scheme = if self.settings.tls.is_some() { "https" } else { "http" };
        if self.address.ip().is_unspecified() {
            format!("{scheme}://localhost:{}", self.address.port())
        } else {
            format!("{scheme}://{}", self.address)
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn spans_go_where_the_environment_says() {
        let variable = |name: &str, value: &str| [(OsString::from(name), OsString::from(value))].into_iter();
        let settings = of_spans(variable("KOHORT_OTLP_ENDPOINT", "http://c:4317")).unwrap();
        assert_eq!(settings.otlp_endpoint().as_deref(), Some("http://c:4317"));
        let wrong = of_spans(variable("KOHORT_TRACE_SAMPLE_RATIO", "2")).unwrap_err().to_string();
        assert!(wrong.starts_with("KOHORT_TRACE_SAMPLE_RATIO: "), "{wrong}");
        assert_eq!(of_spans(variable("KOHORT_LISTEN", "x")).unwrap().otlp_endpoint(), None);
    }

    #[test]
    fn the_first_line_says_who_it_is_and_where() {
        let settings = assigner::Settings { kafka_hosts: vec!["k:9092".to_owned()], ..Default::default() };
        let said = |address: &str, http: Option<&str>, settings: &assigner::Settings| {
            Announcement {
                settings,
                name: "a",
                address: address.parse().unwrap(),
                http: http.map(|address| address.parse().unwrap()),
            }
            .text()
            .replace(env!("CARGO_PKG_VERSION"), "VERSION")
        };
        expect![[r#"
            kohort VERSION, assigner a on http://localhost:50051
              etcd   http://127.0.0.1:2379 under /kafka-assigner/
              kafka  k:9092
              http   http://127.0.0.1:9645/metrics
        "#]]
        .assert_eq(&said("0.0.0.0:50051", Some("127.0.0.1:9645"), &settings));
        let settings = assigner::Settings::default();
        expect![[r#"
            kohort VERSION, assigner a on http://[::1]:7
              etcd   http://127.0.0.1:2379 under /kafka-assigner/
              kafka  none: topics are those in etcd
        "#]]
        .assert_eq(&said("[::1]:7", None, &settings));
    }
}
