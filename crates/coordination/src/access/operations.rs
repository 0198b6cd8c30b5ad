//! Sets of operations, as Metadata and the Describe APIs show them.

use serde::{Deserialize, Serialize};

use super::Operation;

/// A set of operations: bit n stands for the operation with Kafka's number n.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operations(u32);

impl Operations {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// All that can be done with a topic.
    pub const OF_TOPIC: Self = Self(0b1101_1111_1000);
    /// All that can be done with a group.
    pub const OF_GROUP: Self = Self(0b1101_0100_1000);
    /// All that can be done with the cluster.
    pub const OF_CLUSTER: Self = Self(0b1_1111_1010_0000);

    /// The bits as Kafka sends them.
    pub const fn bits(self) -> i32 {
        self.0.cast_signed()
    }

    /// Whether the operation is among them.
    pub const fn contains(self, operation: Operation) -> bool {
        self.0 & (1 << operation.number()) != 0
    }

    /// Those of them that `is_allowed`.
    pub fn allowed(self, is_allowed: impl Fn(Operation) -> bool) -> Self {
        let keep = |operation: &&Operation| self.contains(**operation) && is_allowed(**operation);
        Self(Operation::ALL.iter().filter(keep).fold(0, |bits, operation| bits | 1 << operation.number()))
    }
}
