//! `kohort assigner plan` and `kohort assigner explain`: what is done about each partition, and why.

use assigner_client::proto;
use serde::Serialize;

use super::reach::{connect, failure};
use super::status::{dash, told};
use crate::cli::OutputArgs;
use crate::cli::assigner::{PlanArgs, ReachArgs, TopicScope};
use crate::failure::{Failure, Kind};
use crate::output::{Table, count, plain, show};

/// What would be done.
#[derive(Debug, Serialize)]
struct Plan {
    revision: u64,
    changes: usize,
    partitions: Vec<Planned>,
}

/// What would be done about one partition.
#[derive(Debug, Serialize)]
struct Planned {
    topic: String,
    partition: u32,
    owner: Option<String>,
    desired: Option<String>,
    action: String,
    reason: String,
    is_change: bool,
}

impl From<proto::PlanResponse> for Plan {
    fn from(said: proto::PlanResponse) -> Self {
        let partitions: Vec<Planned> = said.partitions.into_iter().map(Planned::from).collect();
        let changes = partitions.iter().filter(|planned| planned.is_change).count();
        Self { revision: said.revision, changes, partitions }
    }
}

impl From<proto::PlannedPartition> for Planned {
    fn from(said: proto::PlannedPartition) -> Self {
        let place = said.partition.unwrap_or_default();
        Self {
            topic: place.topic,
            partition: place.partition,
            owner: told(said.owner),
            desired: told(said.desired),
            action: said.action,
            reason: said.reason,
            is_change: said.is_change,
        }
    }
}

/// Shows a plan.
pub(super) async fn run(args: PlanArgs) -> anyhow::Result<()> {
    if !args.dry_run {
        let message = "the leader carries its plans out by itself as soon as they are due; add --dry-run to \
                       see what it would do";
        return Err(Failure::new(Kind::Usage, message).into());
    }
    let request = proto::PlanRequest { group: args.group.group, without: args.without, with: args.with };
    let mut plan = ask(request, &args.reach).await?;
    let all = plan.partitions.len();
    if args.changes {
        plan.partitions.retain(|planned| planned.is_change);
    }
    Ok(show(args.output.output, &plan, |plan| plan.render(all))?)
}

/// Shows why partitions are where they are, or move.
pub(super) async fn explain(
    of: Option<&TopicScope>,
    group: String,
    reach: &ReachArgs,
    output: OutputArgs,
) -> anyhow::Result<()> {
    let request = proto::PlanRequest { group, ..proto::PlanRequest::default() };
    let mut plan = ask(request, reach).await?;
    if let Some(scope) = of {
        plan.partitions.retain(|planned| scope.covers(planned));
        if plan.partitions.is_empty() {
            let message =
                format!("the group does not work on {}; see `kohort assigner status`", scope.name());
            return Err(Failure::new(Kind::Absent, message).into());
        }
    }
    Ok(show(output.output, &plan.partitions, |partitions| render_reasons(partitions))?)
}

async fn ask(request: proto::PlanRequest, reach: &ReachArgs) -> anyhow::Result<Plan> {
    let mut admin = connect(reach).await?;
    let said = admin.plan(request).await;
    Ok(said.map_err(|status| failure("show the plan", &status))?.into_inner().into())
}

impl TopicScope {
    fn covers(&self, planned: &Planned) -> bool {
        self.topic == planned.topic && self.partition.is_none_or(|number| number == planned.partition)
    }

    fn name(&self) -> String {
        let topic = plain(&self.topic);
        self.partition.map_or(topic.clone(), |number| format!("{topic}/{number}"))
    }
}

impl Plan {
    /// With how many partitions there are in `all`, shown or not.
    fn render(&self, all: usize) -> String {
        let heading = format!(
            "As of revision {}: {} of {} would change\n",
            self.revision,
            self.changes,
            count(all, "partition")
        );
        if self.partitions.is_empty() {
            return heading;
        }
        let mut table = Table::new(&["TOPIC", "PARTITION", "OWNER", "DESIRED", "ACTION", "WHY"]);
        for planned in &self.partitions {
            table.row([
                planned.topic.clone(),
                planned.partition.to_string(),
                dash(planned.owner.as_deref().unwrap_or_default()),
                dash(planned.desired.as_deref().unwrap_or_default()),
                planned.action.clone(),
                planned.reason.clone(),
            ]);
        }
        heading + &table.render()
    }
}

fn render_reasons(partitions: &[Planned]) -> String {
    if partitions.is_empty() {
        return "The group works on no topic.\n".to_owned();
    }
    let mut table = Table::new(&["TOPIC", "PARTITION", "OWNER", "WHY"]);
    for planned in partitions {
        table.row([
            planned.topic.clone(),
            planned.partition.to_string(),
            dash(planned.owner.as_deref().unwrap_or_default()),
            format!("{}: {}", planned.action, planned.reason),
        ]);
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn plan() -> Plan {
        let planned = |partition, owner: &str, desired: &str, action: &str, why: &str, is_change| {
            proto::PlannedPartition {
                partition: Some(proto::TopicPartition { topic: "orders".to_owned(), partition }),
                owner: owner.to_owned(),
                desired: desired.to_owned(),
                action: action.to_owned(),
                reason: why.to_owned(),
                is_change,
            }
        };
        let partitions = vec![
            planned(0, "a", "a", "stays", "the load is balanced", false),
            planned(
                1,
                "a",
                "b",
                "handoff to b begins",
                "another has less to do; b because it has the least to do",
                true,
            ),
            planned(2, "", "", "stays", "no consumer is ready", false),
        ];
        Plan::from(proto::PlanResponse { partitions, revision: 42 })
    }

    #[test]
    fn a_plan_says_what_would_change() {
        let mut plan = plan();
        expect![[r#"
            As of revision 42: 1 of 3 partitions would change
            TOPIC   PARTITION  OWNER  DESIRED  ACTION               WHY
            orders  0          a      a        stays                the load is balanced
            orders  1          a      b        handoff to b begins  another has less to do; b because it has the least to do
            orders  2          -      -        stays                no consumer is ready
        "#]]
        .assert_eq(&plan.render(3));
        plan.partitions.clear();
        plan.changes = 0;
        expect![[r#"
            As of revision 42: 0 of 3 partitions would change
        "#]]
        .assert_eq(&plan.render(3));
    }

    #[test]
    fn reasons_are_given_partition_by_partition() {
        expect![[r#"
            TOPIC   PARTITION  OWNER  WHY
            orders  0          a      stays: the load is balanced
            orders  1          a      handoff to b begins: another has less to do; b because it has the least to do
            orders  2          -      stays: no consumer is ready
        "#]]
        .assert_eq(&render_reasons(&plan().partitions));
        expect![[r#"
            The group works on no topic.
        "#]]
        .assert_eq(&render_reasons(&[]));
    }

    #[test]
    fn a_scope_is_a_topic_or_one_partition() {
        let scope = |partition| TopicScope { topic: "orders".to_owned(), partition };
        let covered = |scope: &TopicScope| plan().partitions.iter().filter(|one| scope.covers(one)).count();
        assert_eq!((covered(&scope(None)), covered(&scope(Some(1))), covered(&scope(Some(7)))), (3, 1, 0));
        assert_eq!(scope(Some(1)).name(), "orders/1");
    }
}
