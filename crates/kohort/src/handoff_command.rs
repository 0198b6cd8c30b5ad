//! `kohort handoff`: partitions that are changing their owner.

use assigner_client::proto;
use serde::Serialize;

use crate::assigner_command::reach::{connect, failure};
use crate::assigner_command::status::{dash, seconds, told};
use crate::cli::OutputArgs;
use crate::cli::assigner::{HandoffCommand, Partition, ReachArgs};
use crate::failure::{Failure, Kind};
use crate::output::{Table, plain, show};

/// Runs `kohort handoff …`.
pub(crate) async fn run(command: HandoffCommand) -> anyhow::Result<()> {
    match command {
        HandoffCommand::List { group, all, reach, output } => {
            let handoffs = ask(group.unwrap_or_default(), all, &reach).await?;
            Ok(show(output.output, &handoffs, |handoffs| render_list(handoffs, all))?)
        }
        HandoffCommand::Show { partition, group, reach, output } => {
            let handoffs = ask(group.group, false, &reach).await?;
            let found = handoffs.into_iter().find(|handoff| handoff.is_of(&partition));
            let handoff = found.ok_or_else(|| {
                let message = format!("no handoff of {} is under way", partition.name());
                Failure::new(Kind::Absent, message)
            })?;
            Ok(show(output.output, &handoff, Handoff::render)?)
        }
        HandoffCommand::Cancel { partition, id, group, reach, output } => {
            cancel(&partition, id.unwrap_or_default(), group.group, &reach, output).await
        }
    }
}

/// A partition that is changing its owner.
#[derive(Debug, Serialize)]
struct Handoff {
    /// Empty for consumers that name no group.
    group: String,
    topic: String,
    partition: u32,
    id: String,
    epoch: u64,
    from: String,
    to: String,
    mode: String,
    phase: String,
    phase_age_ms: u64,
    /// How long the phase may still last; 0 if that is over already.
    deadline_in_ms: u64,
    waits_for: Option<String>,
    /// None if the new owner does not tell.
    progress: Option<Progress>,
}

/// How far the new owner is with warming up.
#[derive(Debug, Serialize)]
struct Progress {
    done: u64,
    /// None if it is not known.
    total: Option<u64>,
}

impl From<proto::HandoffStatus> for Handoff {
    fn from(said: proto::HandoffStatus) -> Self {
        let place = said.partition.unwrap_or_default();
        let total = (said.total > 0).then_some(said.total);
        Self {
            group: said.group,
            topic: place.topic,
            partition: place.partition,
            id: said.handoff_id,
            epoch: said.epoch,
            from: said.from,
            to: said.to,
            mode: said.mode,
            phase: said.phase,
            phase_age_ms: said.phase_age_ms,
            deadline_in_ms: said.deadline_in_ms,
            waits_for: told(said.waits_for),
            progress: (said.done > 0 || total.is_some()).then_some(Progress { done: said.done, total }),
        }
    }
}

async fn ask(group: String, all_groups: bool, reach: &ReachArgs) -> anyhow::Result<Vec<Handoff>> {
    let mut admin = connect(reach).await?;
    let said = admin.list_handoffs(proto::ListHandoffsRequest { group, all_groups }).await;
    let said = said.map_err(|status| failure("list handoffs", &status))?.into_inner();
    Ok(said.handoffs.into_iter().map(Handoff::from).collect())
}

/// What was given up.
#[derive(Debug, Serialize)]
struct Cancelled {
    topic: String,
    partition: u32,
    id: String,
}

async fn cancel(
    partition: &Partition,
    handoff_id: String,
    group: String,
    reach: &ReachArgs,
    output: OutputArgs,
) -> anyhow::Result<()> {
    let Partition { topic, partition: number } = partition.clone();
    let place = proto::TopicPartition { topic: topic.clone(), partition: number };
    let request = proto::CancelHandoffRequest { partition: Some(place), group, handoff_id };
    let mut admin = connect(reach).await?;
    let wish = format!("cancel the handoff of {}", partition.name());
    let said = admin.cancel_handoff(request).await.map_err(|status| failure(&wish, &status))?;
    let cancelled = Cancelled { topic, partition: number, id: said.into_inner().handoff_id };
    Ok(show(output.output, &cancelled, |cancelled| {
        format!("Gave up the handoff {} of {}.\n", plain(&cancelled.id), partition.name())
    })?)
}

impl Partition {
    fn name(&self) -> String {
        format!("{}/{}", plain(&self.topic), self.partition)
    }
}

fn render_list(handoffs: &[Handoff], all: bool) -> String {
    if handoffs.is_empty() {
        return "No handoff is under way.\n".to_owned();
    }
    let columns = ["TOPIC", "PARTITION", "FROM", "TO", "PHASE", "FOR", "TIME-LEFT", "PROGRESS", "WAITS-FOR"];
    let heading: Vec<&str> = if all { [&["GROUP"], &columns[..]].concat() } else { columns.to_vec() };
    let mut table = Table::new(&heading);
    for handoff in handoffs {
        let mut row = if all { vec![dash(&handoff.group)] } else { Vec::new() };
        row.extend([
            handoff.topic.clone(),
            handoff.partition.to_string(),
            handoff.from.clone(),
            handoff.to.clone(),
            handoff.phase.clone(),
            seconds(handoff.phase_age_ms),
            seconds(handoff.deadline_in_ms),
            handoff.progress_text(),
            dash(handoff.waits_for.as_deref().unwrap_or_default()),
        ]);
        table.row(row);
    }
    table.render()
}

impl Handoff {
    fn is_of(&self, partition: &Partition) -> bool {
        self.topic == partition.topic && self.partition == partition.partition
    }

    fn progress_text(&self) -> String {
        match &self.progress {
            None => "-".to_owned(),
            Some(Progress { done, total: None }) => done.to_string(),
            Some(Progress { done, total: Some(total) }) => {
                let percent = u128::from(*done) * 100 / u128::from(*total).max(1);
                format!("{}%", percent.min(100))
            }
        }
    }

    fn render(&self) -> String {
        let mut text = format!("Handoff {} of {}/{}\n", plain(&self.id), plain(&self.topic), self.partition);
        let progress = match &self.progress {
            Some(Progress { done, total: Some(total) }) => {
                format!("{} ({done} of {total})", self.progress_text())
            }
            _ => self.progress_text(),
        };
        for (name, value) in [
            ("group", dash(&self.group)),
            ("from", self.from.clone()),
            ("to", self.to.clone()),
            ("epoch", self.epoch.to_string()),
            ("mode", self.mode.clone()),
            ("phase", format!("{}, for {}", self.phase, seconds(self.phase_age_ms))),
            ("time left", seconds(self.deadline_in_ms)),
            ("progress", progress),
            ("waits for", dash(self.waits_for.as_deref().unwrap_or_default())),
        ] {
            text.push_str(&format!("  {name:<9}  {}\n", plain(&value)));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn handoff(partition: u32, progress: (u64, u64)) -> Handoff {
        Handoff::from(proto::HandoffStatus {
            group: "counters".to_owned(),
            partition: Some(proto::TopicPartition { topic: "orders".to_owned(), partition }),
            handoff_id: "01ktb7wm5jvkbfgpzvfnk3kqqb".to_owned(),
            epoch: 4,
            from: "worker-1".to_owned(),
            to: "worker-2".to_owned(),
            mode: "exclusive".to_owned(),
            phase: "warming".to_owned(),
            phase_age_ms: 12_345,
            deadline_in_ms: 287_655,
            waits_for: "worker-2".to_owned(),
            done: progress.0,
            total: progress.1,
        })
    }

    #[test]
    fn a_list_says_who_is_waited_for() {
        let handoffs = [handoff(3, (0, 0)), handoff(7, (250, 1000)), handoff(11, (250, 0))];
        expect![[r#"
            TOPIC   PARTITION  FROM      TO        PHASE    FOR     TIME-LEFT  PROGRESS  WAITS-FOR
            orders  3          worker-1  worker-2  warming  12.3 s  287.6 s    -         worker-2
            orders  7          worker-1  worker-2  warming  12.3 s  287.6 s    25%       worker-2
            orders  11         worker-1  worker-2  warming  12.3 s  287.6 s    250       worker-2
        "#]]
        .assert_eq(&render_list(&handoffs, false));
        expect![[r#"
            GROUP     TOPIC   PARTITION  FROM      TO        PHASE    FOR     TIME-LEFT  PROGRESS  WAITS-FOR
            counters  orders  3          worker-1  worker-2  warming  12.3 s  287.6 s    -         worker-2
        "#]]
        .assert_eq(&render_list(&handoffs[..1], true));
        expect![[r#"
            No handoff is under way.
        "#]]
        .assert_eq(&render_list(&[], true));
    }

    #[test]
    fn one_handoff_is_shown_in_full() {
        expect![[r#"
            Handoff 01ktb7wm5jvkbfgpzvfnk3kqqb of orders/7
              group      counters
              from       worker-1
              to         worker-2
              epoch      4
              mode       exclusive
              phase      warming, for 12.3 s
              time left  287.6 s
              progress   25% (250 of 1000)
              waits for  worker-2
        "#]]
        .assert_eq(&handoff(7, (250, 1000)).render());
    }

    #[test]
    fn progress_is_never_more_than_all() {
        assert_eq!(handoff(0, (u64::MAX, 1)).progress_text(), "100%");
        assert_eq!(handoff(0, (0, 5)).progress_text(), "0%");
    }
}
