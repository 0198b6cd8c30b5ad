//! `churn`: one member leaves and comes back; how much the others notice.

use anyhow::Result;
use clap::Args;

use crate::compare::Target;
use crate::cores::Watch;
use crate::dialogue::Dialogue;
use crate::figure::Outcome;
use crate::members::{Crowd, Settled, disperse};
use crate::misuse::Misuse;
use crate::options::{Common, Rebalancing, at_least_one};
use crate::process::room_for_connections;
use crate::progress;
use crate::scenario::{Scenario, unique};
use crate::setting::Setting;

/// How many, and how they behave.
#[derive(Args, Debug)]
pub(crate) struct Churn {
    #[command(flatten)]
    common: Common,
    /// Members, each with a connection of its own
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = at_least_one)]
    members: usize,
    #[command(flatten)]
    rebalancing: Rebalancing,
}

impl Scenario for Churn {
    fn name(&self) -> &'static str {
        "churn"
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

    fn check(&self) -> Result<(), Misuse> {
        // One that leaves a group of its own disturbs nobody.
        if self.members < 2 {
            return Err(Misuse::new("churn needs at least 2 members"));
        }
        Ok(())
    }

    fn measure(&self, target: &Target) -> Result<Outcome> {
        let (address, process) = target.server()?;
        room_for_connections(self.members)?;
        let mut dialogue = Dialogue::with_one_broker(address)?;
        let group = unique("churn");
        dialogue.await_coordinators(std::slice::from_ref(&group))?;
        let sizes = [(group.clone(), self.members)];
        let mut crowd = Crowd::connect(address, dialogue.versions(), self.rebalancing.habits(), &sizes)?;
        let patience = self.rebalancing.patience;
        progress::step(&format!("{} members join", self.members));
        crowd.settle(patience)?;
        let mut outcome = Outcome::default();
        progress::step("one member leaves");
        let watch = Watch::begin(process);
        let without = crowd.leave(self.members - 1, patience)?;
        outcome.doubts.extend(watch.end().doubts("one leaves", 1));
        describe(&mut outcome, "one leaves", &without);
        progress::step("it comes back");
        let watch = Watch::begin(process);
        let back = crowd.settle(patience)?;
        outcome.doubts.extend(watch.end().doubts("it returns", 1));
        describe(&mut outcome, "it returns", &back);
        let identities = crowd.identities();
        drop(crowd);
        disperse(&mut dialogue, &identities)?;
        dialogue.delete_empty_groups(&[group])?;
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
