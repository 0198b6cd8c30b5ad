//! What consumers and operators ask of an instance, over gRPC.
//!
//! Every call is checked once, at the edge, decided on the mirror by the pure functions, and written by a guarded
//! transaction; [`refusal`] says which status means what. A stream is fed from the latest value of what its consumer
//! should know, so that a slow one is told the difference to the newest state, and never holds anybody up.

mod calls;

mod message;
mod refusal;

mod register;
mod stream;
mod waiting;

mod acknowledge;

mod admin;
mod plan;

mod connection;
mod health;
mod limits;
mod token;

use std::sync::Arc;

use assigner_client::proto::kafka_assigner_admin_server::KafkaAssignerAdminServer;
use assigner_client::proto::kafka_assigner_server::KafkaAssignerServer;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Certificate, Identity, Server, ServerTlsConfig};

use crate::instance::{Instance, StartError};
use crate::settings::{ServerTls, Settings};

use connection::Connections;
use limits::{
    CALLS_PER_CONNECTION_MAX, CONNECTIONS_MAX, HANDSHAKE_TIMEOUT, HEADERS_SIZE_MAX, MESSAGE_SIZE_MAX,
    PING_INTERVAL_MAX, PING_MIN, PING_TIMEOUT_MAX, PLANS_MAX, STOP_TIMEOUT, STREAMS_MAX,
    STREAMS_PER_CONNECTION_MAX,
};
use token::Tokens;
use waiting::Waits;

/// Serves the calls of an instance until `stop` is true; then all streams are ended, and calls are given a short while.
///
/// # Errors
/// When TLS cannot be served with what the settings say.
pub(crate) fn serve(
    instance: Arc<Instance>,
    listener: TcpListener,
    stop: watch::Receiver<bool>,
) -> Result<impl Future<Output = ()> + Send + 'static, StartError> {
    let mut server = server(&instance.settings)?;
    let tokens = Tokens::new(&instance.settings.tokens);
    let (health, health_service) = tonic_health::server::health_reporter();
    let watching = health::report(health, instance.groups.clone(), stop.clone());
    let streams = Arc::new(Semaphore::new(STREAMS_MAX));
    let plans = Semaphore::new(PLANS_MAX);
    let waits = Waits::default();
    let service = Arc::new(Service { instance, streams, waits, plans, stop: stop.clone() });
    let consumers =
        KafkaAssignerServer::from_arc(Arc::clone(&service)).max_decoding_message_size(MESSAGE_SIZE_MAX);
    let admin = KafkaAssignerAdminServer::from_arc(service).max_decoding_message_size(MESSAGE_SIZE_MAX);
    let router = server
        .add_service(health_service)
        .add_service(InterceptedService::new(consumers, tokens.clone()))
        .add_service(InterceptedService::new(admin, tokens));
    let connections = Connections::new(listener, CONNECTIONS_MAX);
    Ok(async move {
        let serving = router.serve_with_incoming_shutdown(connections, stopped(stop.clone()));
        let too_late = async {
            stopped(stop).await;
            tokio::time::sleep(STOP_TIMEOUT).await;
        };
        tokio::select! {
            served = serving => {
                if let Err(error) = served {
                    tracing::error!(%error, "gRPC cannot be served");
                }
            }
            () = watching => {}
            () = too_late => tracing::warn!("some calls were cut off"),
        }
    })
}

/// What answers calls. It is shared by all connections.
struct Service {
    instance: Arc<Instance>,
    /// The places for streams.
    streams: Arc<Semaphore>,
    /// Newcomers that wait for the processes before them.
    waits: Waits,
    /// The places for plans that somebody asks for.
    plans: Semaphore,
    /// True when this instance is about to stop.
    stop: watch::Receiver<bool>,
}

fn server(settings: &Settings) -> Result<Server, StartError> {
    // While the stream of a client of the original contract is open its lease is renewed, so a peer that is gone without
    // a word has to be noticed well within a lease.
    let lease_ttl = settings.consumer_lease_ttl;
    let server = Server::builder()
        .concurrency_limit_per_connection(CALLS_PER_CONNECTION_MAX)
        .max_concurrent_streams(STREAMS_PER_CONNECTION_MAX)
        .http2_max_header_list_size(HEADERS_SIZE_MAX)
        .http2_keepalive_interval(Some((lease_ttl / 6).clamp(PING_MIN, PING_INTERVAL_MAX)))
        .http2_keepalive_timeout(Some((lease_ttl / 3).clamp(PING_MIN, PING_TIMEOUT_MAX)));
    let Some(ServerTls { certificate, key, client_ca }) = &settings.tls else { return Ok(server) };
    let mut tls =
        ServerTlsConfig::new().identity(Identity::from_pem(certificate, key)).timeout(HANDSHAKE_TIMEOUT);
    if let Some(client_ca) = client_ca {
        tls = tls.client_ca_root(Certificate::from_pem(client_ca));
    }
    server.tls_config(tls).map_err(|error| StartError::Tls { problem: in_full(&error) })
}

async fn stopped(mut stop: watch::Receiver<bool>) {
    // Whoever could stop us is gone if this fails.
    let _ = stop.wait_for(|is_stopping| *is_stopping).await;
}

/// An error with all that lies behind it.
fn in_full(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
