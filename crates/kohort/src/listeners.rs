//! From the listeners in the settings to sockets.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use coordination::settings::{Listener, Settings};
use gateway::{Gateway, ListenerConfig, Options, Security};
use tokio::net::lookup_host;
use tracing::{debug, warn};

use crate::certificate;
use crate::failure::{Failure, Kind};
use crate::listener_security::security;

/// Where requests are parked.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Parked {
    /// In this process, which answers them all when it ends.
    Here,
    /// At a broker that does not end when its gateway does.
    Afar,
}

/// Takes all addresses that the settings name.
pub(crate) async fn bind(settings: &Settings, parked: Parked) -> anyhow::Result<Gateway> {
    let by_default = settings.origin("listeners").is_none();
    for warning in warnings(settings) {
        warn!("{warning}");
    }
    let mut configs = Vec::new();
    for listener in settings.listeners() {
        let security = security(settings, &listener.name)?;
        configs.extend(resolve(&listener, &settings.advertised_listeners(), &security).await?);
    }
    loop {
        match Gateway::bind(configs.clone(), options(settings, parked)) {
            Ok(gateway) => return Ok(gateway),
            // Nobody asked for IPv6 in particular, and this machine has none.
            Err(error) if by_default && error.addr.is_ipv6() && error.address_is_missing() => {
                debug!(addr = %error.addr, "not listening on IPv6");
                configs.retain(|config| config.addr != error.addr);
            }
            // `:9092` means every address there is; without IPv6 that is every IPv4 address.
            Err(error) if error.addr.ip().is_unspecified() && error.address_is_missing() => {
                for config in configs.iter_mut().filter(|config| config.addr == error.addr) {
                    config.addr = SocketAddr::from(([0, 0, 0, 0], error.addr.port()));
                }
            }
            Err(error) => {
                let advice = if by_default { " with --listen" } else { "" };
                return Err(Failure::new(Kind::Failed, format!("{error}{advice}")).into());
            }
        }
    }
}

/// What is wrong with the files and rules that listeners would open with, each in a sentence: what can be found out
/// without taking their addresses.
pub(crate) fn problems(settings: &Settings) -> Vec<String> {
    let anywhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut problems = Vec::new();
    for Listener { name, .. } in settings.listeners() {
        let opened = security(settings, &name).and_then(|security| {
            let config = ListenerConfig { name: name.clone(), addr: anywhere, advertised: None, security };
            Gateway::bind(vec![config], options(settings, Parked::Here)).map_err(|error| error.source.into())
        });
        if let Err(error) = opened {
            problems.push(format!("listener {name}: {error}"));
        }
    }
    problems.dedup();
    problems
}

/// What can be listened with, though clients will not like it: certificates that do not hold now.
pub(crate) fn warnings(settings: &Settings) -> BTreeSet<String> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now_ms = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
    let listeners = settings.listeners().into_iter();
    let warnings = listeners.filter_map(|Listener { name, .. }| {
        let own = settings.of_listener(&name);
        own.security_protocol(&name).filter(|protocol| protocol.has_tls())?;
        let warning = certificate::warning(own.ssl_keystore_location()?.as_ref(), now_ms)?;
        Some(format!("listener {name}: {warning}"))
    });
    warnings.collect()
}

/// The listeners that belong to an organisation of which nobody `knows`, each with its name once.
pub(crate) fn orgs_missing(settings: &Settings, knows: impl Fn(&str) -> bool) -> BTreeMap<String, String> {
    let listeners = settings.listeners().into_iter();
    let bound = listeners.filter_map(|Listener { name, .. }| {
        let org = settings.of_listener(&name).org()?;
        Some((name, org))
    });
    bound.filter(|(_, org)| !knows(org)).collect()
}

/// The addresses that clients are to be given, the most useful first.
pub(crate) fn for_clients(settings: &Settings, local: &[SocketAddr]) -> Vec<String> {
    let advertised = settings.advertised_listeners();
    if advertised.is_empty() {
        let dialable = |address: &SocketAddr| {
            if address.ip().is_unspecified() {
                format!("localhost:{}", address.port())
            } else {
                address.to_string()
            }
        };
        let both_loopbacks = |port| {
            let here = |ip: IpAddr| local.contains(&SocketAddr::new(ip, port));
            here(Ipv4Addr::LOCALHOST.into()) && here(Ipv6Addr::LOCALHOST.into())
        };
        return match local {
            [first, _] if both_loopbacks(first.port()) => vec![format!("localhost:{}", first.port())],
            _ => local.iter().map(dialable).collect(),
        };
    }
    advertised.iter().map(host_and_port).collect()
}

fn host_and_port(listener: &Listener) -> String {
    let host = &listener.host;
    if host.contains(':') {
        format!("[{host}]:{}", listener.port)
    } else {
        format!("{host}:{}", listener.port)
    }
}

/// Every address that a listener's host name stands for; `localhost` is often two.
async fn resolve(
    listener: &Listener,
    advertised: &[Listener],
    security: &Security,
) -> anyhow::Result<Vec<ListenerConfig>> {
    let advertised = advertised
        .iter()
        .find(|candidate| candidate.name == listener.name)
        .map(|listener| (listener.host.clone(), listener.port));
    let config = |addr| ListenerConfig {
        name: listener.name.clone(),
        addr,
        advertised: advertised.clone(),
        security: security.clone(),
    };
    if listener.host.is_empty() {
        return Ok(vec![config(SocketAddr::from(([0_u16; 8], listener.port)))]);
    }
    let found = lookup_host((listener.host.as_str(), listener.port)).await.map_err(|error| {
        Failure::new(
            Kind::Failed,
            format!("listener {listener}: find the address of {}: {error}", listener.host),
        )
    })?;
    let mut addresses: Vec<SocketAddr> = found.collect();
    addresses.sort_unstable();
    addresses.dedup();
    Ok(addresses.into_iter().map(config).collect())
}

fn options(settings: &Settings, parked: Parked) -> Options {
    let defaults = Options::default();
    let drain_parked_timeout = match parked {
        Parked::Here => defaults.drain_parked_timeout,
        Parked::Afar => PATIENCE_AFAR,
    };
    Options {
        drain_parked_timeout,
        node_id: settings.node_id(),
        socket_request_max_bytes: settings.socket_request_max_bytes(),
        max_connections: settings.max_connections(),
        max_connections_per_ip: settings.max_connections_per_ip(),
        connections_max_idle: settings.connections_max_idle_ms().map_or(FOR_EVER, Duration::from_millis),
        socket_send_buffer_bytes: settings.socket_send_buffer_bytes(),
        socket_receive_buffer_bytes: settings.socket_receive_buffer_bytes(),
        socket_listen_backlog_size: settings
            .socket_listen_backlog_size()
            .unwrap_or(defaults.socket_listen_backlog_size),
        failed_authentication_delay: settings.failed_authentication_delay(),
        authentication_timeout: settings.authentication_timeout(),
        connection_threads_pinned: settings.connection_threads_pinned(),
        ..defaults
    }
}

/// How long a gateway that ends waits for what its broker has parked.
const PATIENCE_AFAR: Duration = Duration::from_secs(1);

/// A hundred years: longer than any connection, short enough to be added to any clock.
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

#[cfg(test)]
mod tests {
    use coordination::settings::Layer;

    use super::*;

    fn settings(values: &[(&str, &str)]) -> Settings {
        let mut settings = Settings::default();
        for (name, value) in values {
            settings.set(Layer::Flags, name, value).unwrap();
        }
        settings
    }

    #[tokio::test]
    async fn every_listener_gets_a_socket_and_its_advertised_address() {
        let settings = settings(&[
            ("listeners", "127.0.0.1:0,INSIDE://127.0.0.1:0"),
            ("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT"),
        ]);
        let gateway = bind(&settings, Parked::Here).await.unwrap();
        let addresses = gateway.local_addrs();
        assert_eq!(addresses.len(), 2);
        let expected: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        assert_eq!(for_clients(&settings, &addresses), expected);
    }

    #[test]
    fn a_listener_may_belong_to_an_organisation_that_is_not_there_yet() {
        let settings = settings(&[
            ("listeners", "127.0.0.1:0,[::1]:0,INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0"),
            ("listener.name.plaintext.kohort.org", "nonexist"),
            ("listener.name.inside.kohort.org", "acme"),
        ]);
        let missing: Vec<_> = orgs_missing(&settings, |org| org == "acme").into_iter().collect();
        assert_eq!(missing, [("PLAINTEXT".to_owned(), "nonexist".to_owned())]);
    }

    #[test]
    fn clients_are_told_what_is_advertised() {
        let settings = settings(&[("advertised.listeners", "PLAINTEXT://kafka.example:19092")]);
        assert_eq!(for_clients(&settings, &[]), ["kafka.example:19092"]);
        let every = SocketAddr::from(([0, 0, 0, 0], 9092));
        assert_eq!(for_clients(&Settings::default(), &[every]), ["localhost:9092"]);
        let (four, six) = ((Ipv4Addr::LOCALHOST, 9092).into(), (Ipv6Addr::LOCALHOST, 9092).into());
        assert_eq!(for_clients(&Settings::default(), &[four, six]), ["localhost:9092"]);
        assert_eq!(for_clients(&Settings::default(), &[four]), ["127.0.0.1:9092"]);
    }

    #[test]
    fn files_and_rules_can_be_checked_without_taking_the_address() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("SSL://{}", taken.local_addr().unwrap());
        let missing = settings(&[("listeners", &address), ("ssl.keystore.location", "/nowhere/server.pem")]);
        let problems = problems(&missing);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].starts_with("listener SSL: read /nowhere/server.pem: "), "{problems:?}");
        assert_eq!(super::problems(&Settings::default()), Vec::<String>::new());
    }

    #[tokio::test]
    async fn an_address_that_is_taken_is_told_with_advice() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap().to_string();
        let error = bind(&settings(&[("listeners", &address)]), Parked::Here).await.unwrap_err();
        assert!(error.to_string().contains("is in use"), "{error}");
    }
}
