//! Disks that are full or damaged, under a real Kohort.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test ends where something is not as it should be"
)]

mod damage;
mod groups;
mod mount;
mod records;
#[path = "../support/mod.rs"]
mod support;
mod world;

use crate::support::member::{COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR};

/// What members take for a reason to come back soon.
const PASSING: [i16; 2] = [COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR];
