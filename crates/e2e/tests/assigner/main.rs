//! What goes wrong around the assigner: instances that are killed, paused or cut off, an etcd that loses its leader or
//! its past, consumers that vanish. Processes, etcd and connections are real; one observer watches all consumers and
//! tells after every scenario whether two ever worked on one partition.
#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

mod journal;
mod state;
mod worker;
mod world;

mod chaos;
mod consumers;
mod etcd_failures;
mod kills;
mod original_clients;
mod partitions;
mod scale;
mod security;
mod stopping;
mod topics;
mod zombies;
