//! What the two ends of a link tell each other beside ops and replies.

use std::net::IpAddr;

use coordination::ids::OrgId;
use serde::{Deserialize, Serialize};

use crate::carrier::Carrier;
use crate::roster::Roster;

/// How a gateway introduces itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The listeners that other gateways may send clients to: name, host and port.
    pub listeners: Vec<(String, String, u16)>,
    /// The gateway's software and its version, for people who read lists of gateways.
    pub software: String,
}

/// What a gateway that is let in is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// The broker's software and its version.
    pub software: String,
    /// The gateways there are, and which of them this one is.
    pub roster: Roster,
}

/// A client as it is announced on a lane, before its first op there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Announced {
    /// The number of the client's connection in the gateway's process. It is the same on all lanes.
    pub number: u64,
    /// The organisation.
    pub org: OrgId,
    /// Who the client is within it.
    pub principal: String,
    /// What the client calls itself.
    pub client_id: Option<String>,
    /// The client's address.
    pub host: IpAddr,
    /// The listener that the client came to.
    pub listener: String,
    /// The client had a place among its organisation's connections over an earlier link.
    pub has_place: bool,
}

impl Announced {
    /// What there is to tell of `carrier`.
    pub(crate) fn of(carrier: &Carrier, has_place: bool) -> Self {
        Self {
            number: carrier.number(),
            org: carrier.org(),
            principal: carrier.principal().to_string(),
            client_id: carrier.client_id().map(ToString::to_string),
            host: carrier.host(),
            listener: carrier.listener().to_string(),
            has_place,
        }
    }
}
