//! The gateways there are.

use serde::{Deserialize, Serialize};

/// The gateways that are connected, as the broker sees them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Roster {
    /// The node id of the gateway that this is told to.
    pub me: i32,
    /// All of them, by node id.
    pub nodes: Vec<Node>,
}

/// One gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Its id, given by the broker and kept.
    pub id: i32,
    /// For each listener that can be named to others: its name, host and port.
    pub listeners: Vec<(String, String, u16)>,
}
