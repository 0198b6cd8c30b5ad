//! `churn`: one member leaves and comes back; how much the others notice.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use clap::Args;

use crate::compare::{self, Place, Target};
use crate::dialogue::Dialogue;
use crate::duration;
use crate::figure::Outcome;
use crate::members::{Crowd, Habits, Settled, disperse};
use crate::options::{Common, at_least_one};
use crate::process::room_for_connections;
use crate::scenario::{self, habits, unique};

/// How many, and how they behave.
#[derive(Args, Debug)]
pub(crate) struct Churn {
    #[command(flatten)]
    common: Common,
    /// Members, each with a connection of its own
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = at_least_two)]
    members: usize,
    /// Partitions that the leader gives out
    #[arg(long, value_name = "N", default_value_t = 1000)]
    partitions: usize,
    /// How often a member asks whether it must rejoin
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = duration::parse)]
    heartbeat: Duration,
    /// How long a group may take to become stable
    #[arg(long, value_name = "TIME", default_value = "120s", value_parser = duration::parse)]
    patience: Duration,
}

impl Churn {
    pub(crate) fn run(&self) -> Result<()> {
        let settings = vec![
            ("members", self.members.to_string()),
            ("partitions", self.partitions.to_string()),
            ("heartbeat every", format!("{:?}", self.heartbeat)),
        ];
        let targets = scenario::targets(&self.common, false)?;
        room_for_connections(self.members)?;
        compare::run("churn", settings, &self.common, &targets, |target: &Target| match target.place {
            Place::Server(address, _) => self.measure(address),
            Place::Echo => Ok(Outcome::default()),
        })
    }

    fn measure(&self, address: SocketAddr) -> Result<Outcome> {
        let mut dialogue = Dialogue::open(address)?;
        let group = unique("churn");
        dialogue.await_coordinators(std::slice::from_ref(&group))?;
        let habits = Habits { partitions: self.partitions, heartbeat_interval: self.heartbeat, ..habits() };
        let sizes = [(group.clone(), self.members)];
        let mut crowd = Crowd::connect(address, dialogue.versions(), habits, &sizes)?;
        compare::progress(&format!("{} members join", self.members));
        crowd.settle(self.patience)?;
        let mut outcome = Outcome::default();
        let last = self.members - 1;
        compare::progress("one member leaves");
        let without = crowd.leave(last, self.patience)?;
        describe(&mut outcome, "one leaves", &without);
        compare::progress("it comes back");
        let back = crowd.settle(self.patience)?;
        describe(&mut outcome, "it returns", &back);
        let identities = crowd.identities();
        drop(crowd);
        disperse(&mut dialogue, &identities)?;
        dialogue.delete_groups(&[group])?;
        Ok(outcome)
    }
}

fn describe(outcome: &mut Outcome, what: &str, settled: &Settled) {
    outcome.time(format!("{what}: all stable after"), settled.took);
    let middle = settled.idle.get(settled.idle.len() / 2).copied().unwrap_or_default();
    outcome.time(format!("  {what}: median time a member stands still"), middle);
    outcome.time(
        format!("  {what}: longest time a member stands still"),
        settled.idle.last().copied().unwrap_or_default(),
    );
    outcome.count(format!("  {what}: generations"), settled.generations);
}

fn at_least_two(text: &str) -> Result<usize, String> {
    match at_least_one(text) {
        Ok(1) => Err("must be at least 2".to_owned()),
        other => other,
    }
}
