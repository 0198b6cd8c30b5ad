//! etcd and gRPC around the machine that decides handoffs.
//!
//! [`Assigner::start`] starts an instance. Any number of them share the keys under one prefix in etcd; one leads and
//! plans, all serve consumers. Each mirrors all keys (`groups`), decides on that by the pure functions of
//! `coordination::handoff`, and writes by transactions that are guarded by what was read.

mod settings;

mod instance;

mod groups;

mod leader;
mod planner;
mod topics;

mod service;

mod clock;
mod metrics;

/// Certificates for etcd.
pub use etcd::Tls as EtcdTls;
pub use instance::{Assigner, StartError};
pub use settings::{EtcdUser, Newcomers, ServerTls, SettingProblem, Settings, Token};
