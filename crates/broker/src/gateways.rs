//! The gateways of other processes: who is let in, and who is there.

use std::sync::Arc;

use parking_lot::RwLock;

use coordination::record::Gateway;
use rail::{Acceptor, EndpointId, Gatekeeper, Hello, LiveGateway, Refused, Roster};

use crate::Broker;
use crate::admin::{Admin, Failure};

/// What accepts gateways, if anything does.
#[derive(Default)]
pub(crate) struct Gateways {
    acceptor: RwLock<Option<Arc<Acceptor>>>,
}

impl std::fmt::Debug for Gateways {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gateways").finish_non_exhaustive()
    }
}

impl Gateways {
    /// Everybody who is there, as a gateway in this process is told it.
    pub(crate) fn roster(&self, me: i32) -> Option<Arc<Roster>> {
        self.acceptor.read().as_ref().map(|acceptor| acceptor.roster(me))
    }

    /// Lets go of what accepts gateways: it holds the broker, and each would keep the other for ever.
    pub(crate) fn end(&self) {
        *self.acceptor.write() = None;
    }

    fn acceptor(&self) -> Option<Arc<Acceptor>> {
        self.acceptor.read().clone()
    }
}

impl Broker {
    /// Who says which gateways may come in: those that were allowed, each under its own node id.
    pub fn gatekeeper(&self) -> Arc<dyn Gatekeeper> {
        Arc::new(AllowList { admin: Arc::clone(self.admin()) })
    }

    /// Gateways come in here. From now on they are listed, and who is denied is cut off.
    pub fn attend(&self, acceptor: Arc<Acceptor>) {
        *self.inner.gateways.acceptor.write() = Some(acceptor);
    }

    /// The gateways that are connected.
    pub fn live_gateways(&self) -> Vec<LiveGateway> {
        self.inner.gateways.acceptor().map(|acceptor| acceptor.gateways()).unwrap_or_default()
    }

    /// Lets a gateway in and gives it its node id.
    ///
    /// # Errors
    /// When that is no endpoint id, or the store does not take it.
    pub async fn allow_gateway(&self, endpoint_id: &str) -> Result<Gateway, Failure> {
        self.admin().allow_gateway(endpoint_id).await
    }

    /// Keeps a gateway out, and cuts its link if it is in.
    ///
    /// # Errors
    /// When it was never allowed, or the store does not take it.
    pub async fn deny_gateway(&self, endpoint_id: &str) -> Result<Gateway, Failure> {
        let denied = self.admin().deny_gateway(endpoint_id).await?;
        if let (Some(acceptor), Ok(id)) =
            (self.inner.gateways.acceptor(), denied.endpoint_id.parse::<EndpointId>())
        {
            acceptor.cut(id);
        }
        Ok(denied)
    }
}

/// The allow list in the catalog.
struct AllowList {
    admin: Arc<Admin>,
}

impl Gatekeeper for AllowList {
    fn admit(&self, gateway: EndpointId, _: &Hello) -> Result<i32, Refused> {
        let id = gateway.to_string();
        let known = self.admin.look(|catalog| catalog.gateway(&id).cloned());
        match known {
            Some(known) if known.is_allowed => Ok(known.node_id),
            Some(_) => Err(Refused(format!("The gateway {id} has been denied."))),
            None => Err(Refused(format!(
                "The gateway {id} is not allowed; `kohort broker allow {id}` lets it in."
            ))),
        }
    }
}
