//! The socket under a link: iroh without relays and without discovery. Only the addresses given are dialled.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use iroh::Endpoint;
use iroh::endpoint::{
    IdleTimeout, MtuDiscoveryConfig, PortmapperConfig, QuicTransportConfig, VarInt, presets,
};
use tokio::net::lookup_host;

use crate::keys::{BrokerAddress, Key};
use crate::limits::LANES;

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The address is not ours, or taken.
    #[error("bind the rail to {address}: {reason}")]
    Address {
        /// Which.
        address: SocketAddr,
        /// Why not.
        reason: String,
    },
    /// The broker's name has no address.
    #[error("the name {name} has no address{}", reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default())]
    Host {
        /// Which.
        name: String,
        /// What the system says, if it says anything.
        reason: Option<io::Error>,
    },
}

/// How often a word is sent over a link that is silent.
const KEEP_ALIVE: Duration = Duration::from_millis(750);

/// After this long without a word the other end is gone.
const IDLE: Duration = Duration::from_secs(3);

/// How much of one lane may be on its way. It bounds what a reader that is slow, or a peer that is hostile, makes
/// the other end hold. The QUIC library ends a connection that has more than about a thousand pieces of one stream
/// unread, and a piece may be as small as a packet of 1200 bytes.
const LANE_WINDOW: u32 = 1 << 20;

/// More than all lanes may have on their way together, so that heavy ones never take the room of light ones.
const LINK_WINDOW: u32 = LANE_WINDOW * 32;

/// Opens the socket that a broker accepts links on.
///
/// # Errors
/// When the address cannot be bound.
pub async fn bind(key: &Key, address: SocketAddr) -> Result<Endpoint, BindError> {
    let failed = |reason: String| BindError::Address { address, reason };
    let builder = Endpoint::builder(presets::Minimal)
        .secret_key(key.secret())
        .portmapper_config(PortmapperConfig::Disabled)
        .transport_config(transport())
        .clear_relay_transports()
        .clear_address_lookup()
        .clear_ip_transports()
        .bind_addr(address)
        .map_err(|error| failed(error.to_string()))?;
    // It has a stack of its own, which callers need not carry.
    Box::pin(builder.bind()).await.map_err(|error| failed(format!("{error:#}")))
}

/// Opens a socket that `broker` can be dialled from.
///
/// It is of the family of the broker's address and no other, and within this machine if the broker is.
///
/// # Errors
/// When the broker's name has no address or no socket can be had.
pub async fn bind_to_dial(key: &Key, broker: &BrokerAddress) -> Result<Endpoint, BindError> {
    let nowhere = |reason| {
        let name = broker.address.rsplit_once(':').map_or(&*broker.address, |(name, _)| name).to_owned();
        BindError::Host { name, reason }
    };
    let mut found = lookup_host(&broker.address).await.map_err(|error| nowhere(Some(error)))?;
    let there = found.next().ok_or_else(|| nowhere(None))?.ip();
    let here: IpAddr = match (there.is_ipv4(), there.is_loopback()) {
        (true, true) => Ipv4Addr::LOCALHOST.into(),
        (true, false) => Ipv4Addr::UNSPECIFIED.into(),
        (false, true) => Ipv6Addr::LOCALHOST.into(),
        (false, false) => Ipv6Addr::UNSPECIFIED.into(),
    };
    bind(key, SocketAddr::new(here, 0)).await
}

/// Where the socket of `endpoint` is.
pub fn local_address(endpoint: &Endpoint) -> Option<SocketAddr> {
    endpoint.bound_sockets().first().copied()
}

/// What both ends want of QUIC. Neither asks the other how often to acknowledge: the library then panics, and aborts, over
/// what any stranger may say in its first datagram, and over that question when it was lost and is asked again.
fn transport() -> QuicTransportConfig {
    let mut mtu = MtuDiscoveryConfig::default();
    // Loopback and jumbo frames take far more than the internet does, and each packet costs the same.
    mtu.upper_bound(u16::MAX);
    let lanes = u32::try_from(LANES).unwrap_or(u32::MAX);
    QuicTransportConfig::builder()
        .keep_alive_interval(KEEP_ALIVE)
        .default_path_keep_alive_interval(KEEP_ALIVE)
        .max_idle_timeout(IdleTimeout::try_from(IDLE).ok())
        .default_path_max_idle_timeout(IDLE)
        .max_concurrent_bidi_streams(VarInt::from_u32(lanes + 1))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .datagram_receive_buffer_size(None)
        .stream_receive_window(VarInt::from_u32(LANE_WINDOW))
        .receive_window(VarInt::from_u32(LINK_WINDOW))
        .send_window(u64::from(LINK_WINDOW))
        .mtu_discovery_config(Some(mtu))
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// See decision 0014.
    #[test]
    fn nobody_is_asked_how_often_to_acknowledge() {
        let settings = format!("{:?}", transport());
        assert!(settings.contains("ack_frequency_config: None"), "{settings}");
    }
}
