//! `join`: many members start at once, then one more comes.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use clap::Args;

use crate::compare::{self, Place, Target};
use crate::dialogue::Dialogue;
use crate::duration;
use crate::figure::Outcome;
use crate::members::{Crowd, Habits, disperse};
use crate::options::{Common, at_least_one};
use crate::process::room_for_connections;
use crate::scenario::{self, habits, unique};

/// How many, and how they behave.
#[derive(Args, Debug)]
pub(crate) struct Join {
    #[command(flatten)]
    common: Common,
    /// Members, each with a connection of its own
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = at_least_one)]
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

impl Join {
    pub(crate) fn run(&self) -> Result<()> {
        let settings = vec![
            ("members", self.members.to_string()),
            ("partitions", self.partitions.to_string()),
            ("heartbeat every", format!("{:?}", self.heartbeat)),
        ];
        let targets = scenario::targets(&self.common, false)?;
        room_for_connections(self.members + 1)?;
        compare::run("join", settings, &self.common, &targets, |target: &Target| match target.place {
            Place::Server(address, _) => self.measure(address),
            Place::Echo => Ok(Outcome::default()),
        })
    }

    fn measure(&self, address: SocketAddr) -> Result<Outcome> {
        let mut dialogue = Dialogue::open(address)?;
        let group = unique("join");
        dialogue.await_coordinators(std::slice::from_ref(&group))?;
        let habits = Habits { partitions: self.partitions, heartbeat_interval: self.heartbeat, ..habits() };
        let sizes = [(group.clone(), self.members)];
        let mut crowd = Crowd::connect(address, dialogue.versions(), habits, &sizes)?;
        let mut outcome = Outcome::default();

        compare::progress(&format!("{} members join", self.members));
        let first = crowd.settle(self.patience)?;
        outcome.time("all stable after", first.took);
        outcome.count("  generations needed", first.generations);
        outcome.count("  JoinGroup requests", first.joins);

        compare::progress("one more member joins");
        crowd.add(address, 0)?;
        let more = crowd.settle(self.patience)?;
        outcome.time("one more: all stable after", more.took);
        outcome.time("  last rejoin sent to last JoinGroup reply", more.last_join_to_last_answer);
        outcome.time("  last rejoin sent to last assignment", more.last_join_to_settled);
        outcome.count("  generations needed for one more", more.generations);
        let identities = crowd.identities();
        drop(crowd);
        disperse(&mut dialogue, &identities)?;
        dialogue.delete_groups(&[group])?;
        Ok(outcome)
    }
}
