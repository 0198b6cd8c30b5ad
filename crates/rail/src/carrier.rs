//! What travels beside an op: on whose behalf it is asked.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use coordination::ids::OrgId;

use crate::format::Announced;

/// Who a client is that was not asked.
pub const ANONYMOUS: &str = "User:ANONYMOUS";

/// On whose behalf an op is asked. There is one for each connection of a client; a link tells its content once and
/// names it by its number and revision from then on.
#[derive(Clone, Debug)]
pub struct Carrier {
    number: u64,
    revision: u32,
    org: OrgId,
    principal: Arc<str>,
    client_id: Option<Arc<str>>,
    host: IpAddr,
    listener: Arc<str>,
    /// The span that the op belongs to, if spans are recorded. It is told with each op.
    pub trace: Option<TraceContext>,
}

/// A span of another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// Which trace.
    pub trace_id: u128,
    /// Which span in it.
    pub span_id: u64,
    /// Whether it is recorded.
    pub is_sampled: bool,
}

impl Carrier {
    /// A client that nobody has asked who it is, at a listener of the organisation `default`.
    pub fn new(host: IpAddr, listener: Arc<str>) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        Self {
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            revision: 0,
            org: OrgId::DEFAULT,
            principal: Arc::from(ANONYMOUS),
            client_id: None,
            host,
            listener,
            trace: None,
        }
    }

    /// A client of another process, which gets a number of this one. `number` is the one that it has here already.
    pub(crate) fn from_afar(number: Option<u64>, announced: Announced) -> Self {
        let mut carrier = Self::new(announced.host, announced.listener.into());
        carrier.number = number.unwrap_or(carrier.number);
        (carrier.org, carrier.principal) = (announced.org, announced.principal.into());
        carrier.client_id = announced.client_id.map(Into::into);
        carrier
    }

    /// The number of the connection, of which there is one in a process.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Grows whenever something but the trace changes.
    pub fn revision(&self) -> u32 {
        self.revision
    }

    /// The organisation whose topics and groups ops are about.
    pub fn org(&self) -> OrgId {
        self.org
    }

    /// Who the client is within its organisation, as `User:name`.
    pub fn principal(&self) -> &Arc<str> {
        &self.principal
    }

    /// What the client calls itself.
    pub fn client_id(&self) -> Option<&Arc<str>> {
        self.client_id.as_ref()
    }

    /// The client's address.
    pub fn host(&self) -> IpAddr {
        self.host
    }

    /// The listener that the client came to.
    pub fn listener(&self) -> &Arc<str> {
        &self.listener
    }

    /// The client has shown who it is.
    pub fn belongs_to(&mut self, org: OrgId, principal: Arc<str>) {
        (self.org, self.principal) = (org, principal);
        self.revision += 1;
    }

    /// The client calls itself something else.
    pub fn calls_itself(&mut self, client_id: Option<Arc<str>>) {
        self.client_id = client_id;
        self.revision += 1;
    }
}
