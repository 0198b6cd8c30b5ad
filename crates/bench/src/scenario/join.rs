//! `join`: many members start at once, then one more comes.

use anyhow::Result;
use clap::Args;

use crate::compare::Target;
use crate::cores::Watch;
use crate::dialogue::Dialogue;
use crate::figure::Outcome;
use crate::members::{Crowd, disperse};
use crate::options::{Common, Rebalancing, at_least_one};
use crate::process::room_for_connections;
use crate::progress;
use crate::scenario::{Scenario, unique};
use crate::setting::Setting;

/// How many, and how they behave.
#[derive(Args, Debug)]
pub(crate) struct Join {
    #[command(flatten)]
    common: Common,
    /// Members, each with a connection of its own
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = at_least_one)]
    members: usize,
    #[command(flatten)]
    rebalancing: Rebalancing,
}

impl Scenario for Join {
    fn name(&self) -> &'static str {
        "join"
    }

    fn common(&self) -> &Common {
        &self.common
    }

    fn settings(&self) -> Vec<Setting> {
        self.rebalancing.settings(self.members)
    }

    fn numbers(&mut self) -> Vec<(&'static str, &mut usize)> {
        vec![("members", &mut self.members), ("partitions", &mut self.rebalancing.partitions)]
    }

    fn measure(&self, target: &Target) -> Result<Outcome> {
        let (address, process) = target.server()?;
        room_for_connections(self.members + 1)?;
        let mut dialogue = Dialogue::with_one_broker(address)?;
        let group = unique("join");
        dialogue.await_coordinators(std::slice::from_ref(&group))?;
        let sizes = [(group.clone(), self.members)];
        let mut crowd = Crowd::connect(address, dialogue.versions(), self.rebalancing.habits(), &sizes)?;
        let patience = self.rebalancing.patience;
        let mut outcome = Outcome::default();

        progress::step(&format!("{} members join", self.members));
        let watch = Watch::begin(process);
        let first = crowd.settle(patience)?;
        outcome.doubts.extend(watch.end().doubts("all join", 1));
        outcome.time("all stable after", first.took);
        outcome.count("  generations needed", first.generations);
        outcome.count("  JoinGroup requests", first.joins);

        progress::step("one more member joins");
        crowd.add(address, 0)?;
        let watch = Watch::begin(process);
        let more = crowd.settle(patience)?;
        outcome.doubts.extend(watch.end().doubts("one more joins", 1));
        outcome.time("one more: all stable after", more.took);
        outcome.time("  last rejoin sent to last JoinGroup reply", more.last_join_to_last_answer);
        outcome.time("  last rejoin sent to last assignment", more.last_join_to_settled);
        outcome.count("  generations needed for one more", more.generations);
        let identities = crowd.identities();
        drop(crowd);
        disperse(&mut dialogue, &identities)?;
        dialogue.delete_empty_groups(&[group])?;
        Ok(outcome)
    }
}
