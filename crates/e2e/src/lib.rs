//! Real clients, a real Kafka and real crashes against a real Kohort.
//!
//! The library starts and stops what the tests need: [`kafka::Kafka`] is an Apache Kafka broker from its published
//! artifacts, [`kohort::Kohort`] is our own binary, [`etcd::Etcd`] is what an assigner stands on. All stop when
//! dropped. `cargo xtask` uses the same code.

pub mod kohort;

pub mod kafka;

pub mod broker;

pub mod etcd;

pub mod assigner;

pub mod deployment;

pub mod clients;
pub mod setup;

pub mod checkout;
pub mod jars;
pub mod ports;
pub mod process;
pub mod relay;
pub mod udp_relay;
