//! Where gateways of other processes come in.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use coordination::settings::Settings;
use rail::{Acceptor, EndpointId, Key, Node, Rail};

use crate::failure::{Failure, Kind};
use crate::running::Running;

/// The broker's key, made at the first need.
pub(crate) fn key(data_dir: &Path) -> anyhow::Result<Key> {
    // The error tells its cause itself.
    Key::read_or_create(&data_dir.join(KEY_FILE))
        .map_err(|error| anyhow::anyhow!("find the broker's key: {error}"))
}

/// In the data directory: who has it can be the broker.
const KEY_FILE: &str = "rail-key";

/// An open door.
pub(crate) struct RailDoor {
    acceptor: Arc<Acceptor>,
    id: EndpointId,
    address: SocketAddr,
}

impl RailDoor {
    /// Opens the door if the settings say where. `listens` is whether clients can come to this process, too.
    pub(crate) async fn open(
        settings: &Settings,
        running: &Running,
        rail: Arc<dyn Rail>,
        listens: bool,
    ) -> anyhow::Result<Option<Self>> {
        let Some(asked) = settings.rail_listen() else { return Ok(None) };
        let key = key(running.data_dir())?;
        let endpoint = rail::bind(&key, asked).await.map_err(|error| {
            Failure::new(Kind::Failed, format!("gateways cannot be accepted on {asked}: {error}"))
        })?;
        let address = rail::local_address(&endpoint).unwrap_or(asked);
        let broker = running.broker();
        let acceptor = Acceptor::listen(endpoint, rail, broker.gatekeeper());
        if listens {
            acceptor.set_own(Some(Node { id: settings.node_id(), listeners: advertised(settings) }));
        }
        broker.attend(Arc::clone(&acceptor));
        Ok(Some(Self { acceptor, id: key.id(), address }))
    }

    /// Whom gateways dial.
    pub(crate) fn id(&self) -> EndpointId {
        self.id
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Closes all links. Gateways dial again, and find whoever is there then.
    pub(crate) async fn close(self) {
        self.acceptor.close().await;
    }
}

/// The addresses that clients of other gateways can be given: name, host and port.
pub(crate) fn advertised(settings: &Settings) -> Vec<(String, String, u16)> {
    let listeners = settings.advertised_listeners().into_iter();
    listeners.map(|listener| (listener.name, listener.host, listener.port)).collect()
}
