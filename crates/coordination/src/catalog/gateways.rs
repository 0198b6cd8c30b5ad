//! Gateways: which may connect, and under which node id clients know each.

use std::collections::BTreeSet;

use super::{AdminError, Catalog, Decision};
use crate::limits::GATEWAYS_MAX;
use crate::record::{Gateway, Record};

/// How many characters an endpoint id has: 32 bytes, two digits each.
const ENDPOINT_ID_CHARS: usize = 64;

impl Catalog {
    /// The gateway of this endpoint id, allowed or not.
    pub fn gateway(&self, endpoint_id: &str) -> Option<&Gateway> {
        self.gateways.get(endpoint_id)
    }

    /// All gateways that were ever allowed, by endpoint id.
    pub fn gateways(&self) -> impl Iterator<Item = &Gateway> {
        self.gateways.values()
    }

    /// Lets a gateway in. It gets the smallest node id that is free, once and for ever.
    pub fn handle_allow_gateway(&self, endpoint_id: &str) -> Decision<Result<Gateway, AdminError>> {
        let allowed = check_endpoint_id(endpoint_id).and_then(|()| match self.gateways.get(endpoint_id) {
            Some(gateway) => Ok(Gateway { is_allowed: true, ..gateway.clone() }),
            None if self.gateways.len() >= GATEWAYS_MAX => Err(AdminError::Conflict(format!(
                "{GATEWAYS_MAX} gateways have been allowed; no more are kept."
            ))),
            None => {
                let node_id = self.free_node_id();
                Ok(Gateway { endpoint_id: endpoint_id.to_owned(), is_allowed: true, node_id })
            }
        });
        let changed = allowed.iter().filter(|gateway| self.gateways.get(endpoint_id) != Some(gateway));
        let records = changed.map(|gateway| Record::Gateway(gateway.clone())).collect();
        Decision { records, reply: allowed }
    }

    /// Keeps a gateway out. Its node id stays its own, for the day it is allowed again.
    pub fn handle_deny_gateway(&self, endpoint_id: &str) -> Decision<Result<Gateway, AdminError>> {
        let Some(gateway) = self.gateways.get(endpoint_id) else {
            let message = format!("No gateway with the endpoint id {endpoint_id} was ever allowed.");
            return Decision { records: Vec::new(), reply: Err(AdminError::Unknown(message)) };
        };
        let denied = Gateway { is_allowed: false, ..gateway.clone() };
        let records = if gateway.is_allowed { vec![Record::Gateway(denied.clone())] } else { Vec::new() };
        Decision { records, reply: Ok(denied) }
    }

    /// Whether clients may know a node of this id: the broker itself, or a gateway that is allowed.
    pub fn is_node(&self, id: i32) -> bool {
        let is_gateway = |gateway: &Gateway| gateway.is_allowed && gateway.node_id == id;
        id == self.settings.node_id() || self.gateways.values().any(is_gateway)
    }

    /// The broker's own id is never given to a gateway, since the broker may listen one day.
    fn free_node_id(&self) -> i32 {
        let mut taken: BTreeSet<i32> = self.gateways.values().map(|gateway| gateway.node_id).collect();
        taken.insert(self.settings.node_id());
        (1..).find(|id| !taken.contains(id)).unwrap_or(i32::MAX)
    }
}

fn check_endpoint_id(text: &str) -> Result<(), AdminError> {
    let is_digit = |letter: char| letter.is_ascii_digit() || ('a'..='f').contains(&letter);
    if text.len() == ENDPOINT_ID_CHARS && text.chars().all(is_digit) {
        return Ok(());
    }
    Err(AdminError::Invalid(format!(
        "This is no endpoint id: one has {ENDPOINT_ID_CHARS} digits from 0 to 9 and a to f, as `kohort gateway id` \
         prints it."
    )))
}
