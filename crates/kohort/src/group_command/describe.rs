//! `kohort group describe`: offsets, members or state of groups.

use std::collections::BTreeSet;

use client::{Client, ClientError, GroupDescription, LATEST};
use serde::Serialize;

use super::lag::GroupLag;
use super::members::{self, GroupMembers};
use super::{cell, events, is_in_vain, named, no_such_group};
use crate::cli::group::DescribeArgs;
use crate::cli::{AdminArgs, Format};
use crate::dial::connect;
use crate::failure::{self, Kind};
use crate::output::{Table, count, name, note, plain, show};
use crate::problems::Problems;

/// Describes what can be described; the rest is told when that has been shown.
pub(super) async fn run(args: &DescribeArgs) -> anyhow::Result<()> {
    let mut client = connect(&args.client).await?;
    let names = named(&args.groups, &mut client).await?;
    let format = args.client.output.output;
    if args.members {
        let look = async |_: &mut Client, group| Ok(GroupMembers::from(&group));
        let Seen { groups, unread, mut problems } = each(&mut client, names, look).await;
        for unread in unread {
            problems.add(Kind::Failed, &unread);
        }
        let text = |group: &GroupMembers| group.render(args.verbose);
        finish(format, &groups, problems, |groups| join(groups.iter().map(text)))
    } else if args.state {
        let look = async |_: &mut Client, group| Ok(GroupState::from(group));
        let Seen { mut groups, unread, mut problems } = each(&mut client, names, look).await;
        unread.iter().for_each(|unread| note(unread));
        if let Some(admin) = args.admin() {
            let complaints = identify(&mut groups, &admin).await;
            if args.admin.is_some() {
                problems.0.extend(complaints);
            } else {
                // A variable that is set for other commands is no reason to fail.
                complaints.iter().for_each(|(_, complaint)| note(complaint));
            }
        }
        finish(format, &groups, problems, |groups| render_states(groups, args.verbose))
    } else {
        let Seen { groups: lags, unread, problems } = each(&mut client, names, lag).await;
        unread.iter().for_each(|unread| note(unread));
        let text = |lag: &GroupLag| render_lag(lag, args.verbose);
        finish(format, &lags, problems, |lags| join(lags.iter().map(text)))
    }
}

/// What could be seen of groups, and what could not.
struct Seen<T> {
    groups: Vec<T>,
    /// What is to be said about those whose members are not known.
    unread: Vec<String>,
    problems: Problems,
}

/// Finds the groups and looks at each.
async fn each<T>(
    client: &mut Client,
    names: Vec<String>,
    look: impl AsyncFn(&mut Client, GroupDescription) -> Result<T, ClientError>,
) -> Seen<T> {
    let (mut groups, mut unread, mut problems) = (Vec::new(), Vec::new(), Problems::default());
    let mut names = names.into_iter();
    for group in names.by_ref() {
        let outcome = match find(client, &group).await {
            Ok(Some(found)) => {
                unread.extend(found.unread);
                look(client, found.group).await
            }
            Ok(None) => {
                problems.add(Kind::Absent, &no_such_group(&group));
                continue;
            }
            Err(error) => Err(error),
        };
        match outcome {
            Ok(seen) => groups.push(seen),
            Err(error) => {
                problems.add_error(&format!("describe group {}", name(&group)), &error);
                if is_in_vain(client, &error) {
                    break;
                }
            }
        }
    }
    problems.add_untried(names.len(), "group");
    Seen { groups, unread, problems }
}

/// Shows what there is to show and fails if there were problems. If there are only those, people are told nothing else;
/// programs always get a list.
fn finish<T: Serialize>(
    format: Format,
    groups: &[T],
    problems: Problems,
    table: impl FnOnce(&[T]) -> String,
) -> anyhow::Result<()> {
    if format == Format::Json || !groups.is_empty() || problems.0.is_empty() {
        show(format, &groups, |groups| table(groups))?;
    }
    problems.into_result("some groups cannot be described")
}

fn join(texts: impl Iterator<Item = String>) -> String {
    texts.collect::<Vec<_>>().join("\n")
}

/// A group as far as it can be read.
pub(super) struct Found {
    pub(super) group: GroupDescription,
    /// What is to be said about members that are not known: those of groups of shares or streams, or of topics that one
    /// may not describe.
    pub(super) unread: Option<String>,
}

/// The group, if there is one.
pub(super) async fn find(client: &mut Client, name: &str) -> Result<Option<Found>, ClientError> {
    let mut group = client.describe_group(name).await?;
    if group.state != GroupDescription::DEAD {
        return Ok(Some(Found { group, unread: None }));
    }
    let listed = client.list_groups(&[], &[]).await?;
    let Some(listing) = listed.into_iter().find(|listing| listing.group == name) else { return Ok(None) };
    group.state = listing.state.unwrap_or_default();
    let unread = group.is_live().then(|| unread_members(&group, listing.kind.as_deref()));
    Ok(Some(Found { group, unread }))
}

/// What is said about the members of a group that is shown in the list and nowhere else.
fn unread_members(group: &GroupDescription, kind: Option<&str>) -> String {
    let called = name(&group.group);
    match (group.withheld, kind.map(str::to_lowercase)) {
        (Some(code), _) => format!(
            "group {called}: the broker does not show the members: {code}; whoever may describe the group and every topic \
             that it reads sees them"
        ),
        (None, Some(kind)) if !["classic", "consumer"].contains(&kind.as_str()) => format!(
            "group {called}: kohort does not read the members of groups of type {}; Kafka's own tool for such groups does",
            plain(&kind)
        ),
        (None, _) => format!("group {called}: the broker does not show the members"),
    }
}

async fn lag(client: &mut Client, group: GroupDescription) -> Result<GroupLag, ClientError> {
    let committed = client.committed_offsets(&group.group).await?;
    let owned = group.members.iter().flat_map(|member| member.assignment.keys());
    let names: BTreeSet<&String> = committed.keys().map(|(topic, _)| topic).chain(owned).collect();
    // Offsets may outlive their topic.
    let topics = client.existing_topics(&names.into_iter().cloned().collect::<Vec<_>>()).await?;
    let ends = client.list_offsets_of(&topics, LATEST).await?;
    Ok(GroupLag::new(&group, &committed, &ends))
}

pub(super) fn dash<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

fn render_lag(lag: &GroupLag, verbose: bool) -> String {
    let members = members::counted(lag.members);
    let mut text = format!(
        "Group {}: {}, {members}, total lag {} in {}",
        name(&lag.group),
        plain(&lag.state),
        lag.total_lag,
        count(lag.partitions.len(), "partition")
    );
    if lag.without_commit() > 0 {
        text.push_str(&format!(", {} of them without a committed offset", lag.without_commit()));
    }
    text.push('\n');
    if lag.partitions.is_empty() {
        return text;
    }
    let mut heading = vec!["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"];
    heading.extend(["CONSUMER-ID", "HOST", "CLIENT-ID"]);
    if verbose {
        heading.insert(3, "LEADER-EPOCH");
    }
    let mut table = Table::new(&heading);
    for partition in &lag.partitions {
        let mut row = vec![
            cell(&lag.group),
            partition.topic.clone(),
            partition.partition.to_string(),
            dash(partition.current_offset),
            dash(partition.log_end_offset),
            dash(partition.lag),
            dash(partition.consumer_id.as_ref()),
            dash(partition.host.as_ref()),
            dash(partition.client_id.as_ref()),
        ];
        if verbose {
            row.insert(3, dash(partition.leader_epoch));
        }
        table.row(row);
    }
    text + &table.render()
}

/// A group as `--state` shows it.
#[derive(Serialize)]
struct GroupState {
    group: String,
    /// Its id and locator, where Kohort was asked for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rrl: Option<String>,
    coordinator: String,
    coordinator_id: i32,
    assignment_strategy: Option<String>,
    state: String,
    /// What groups of the newer protocol (KIP-848) alone have.
    group_epoch: Option<i32>,
    target_assignment_epoch: Option<i32>,
    /// None if there are some that cannot be shown.
    members: Option<usize>,
}

impl From<GroupDescription> for GroupState {
    fn from(group: GroupDescription) -> Self {
        Self {
            members: group.member_count(),
            group: group.group,
            id: None,
            rrl: None,
            coordinator: format!("{}:{}", group.coordinator.host, group.coordinator.port),
            coordinator_id: group.coordinator.node,
            assignment_strategy: (!group.protocol.is_empty()).then_some(group.protocol),
            state: group.state,
            group_epoch: group.epochs.map(|epochs| epochs.group),
            target_assignment_epoch: group.epochs.map(|epochs| epochs.target),
        }
    }
}

/// Asks Kohort's admin listener for what Kafka's protocol cannot say, and tells what it could not find out. Without it
/// there is still much to show.
async fn identify(groups: &mut [GroupState], admin: &AdminArgs) -> Vec<(Kind, String)> {
    let mut complaints = Vec::new();
    for group in groups {
        match events::fetch(&group.group, None, admin, "find the group's id").await {
            Ok(known) => (group.id, group.rrl) = (Some(known.id.to_string()), Some(known.rrl)),
            Err(error) => {
                let complaint = (failure::kind(&error), plain(&format!("{error:#}")));
                // A listener that is not there is not there for any of them.
                let is_last = complaint.0 == Kind::Unreachable;
                if !complaints.contains(&complaint) {
                    complaints.push(complaint);
                }
                if is_last {
                    break;
                }
            }
        }
    }
    complaints
}

fn render_states(groups: &[GroupState], verbose: bool) -> String {
    let ids = groups.iter().any(|group| group.id.is_some());
    let mut heading = vec!["GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE"];
    if verbose {
        heading.extend(["GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"]);
    }
    heading.push("#MEMBERS");
    if ids {
        heading.extend(["ID", "RRL"]);
    }
    let mut table = Table::new(&heading);
    for group in groups {
        let mut row = vec![
            cell(&group.group),
            format!("{} ({})", group.coordinator, group.coordinator_id),
            dash(group.assignment_strategy.as_ref()),
            group.state.clone(),
        ];
        if verbose {
            row.extend([dash(group.group_epoch), dash(group.target_assignment_epoch)]);
        }
        row.push(dash(group.members));
        if ids {
            row.extend([dash(group.id.as_ref()), dash(group.rrl.as_ref())]);
        }
        table.row(row);
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use coordination::error_code::ErrorCode;
    use expect_test::{Expect, expect};

    use super::super::lag::PartitionLag;
    use super::*;

    fn check(shown: &str, expected: &Expect) {
        expected.assert_eq(shown);
    }

    #[test]
    fn offsets_are_shown_under_the_columns_of_kafkas_tool() {
        let partition = |partition, current_offset: Option<i64>, owner: Option<&str>| PartitionLag {
            topic: "orders".to_owned(),
            partition,
            leader_epoch: None,
            current_offset,
            log_end_offset: Some(10),
            lag: current_offset.map(|current| 10 - current),
            consumer_id: owner.map(str::to_owned),
            host: owner.map(|_| "/10.0.0.7".to_owned()),
            client_id: owner.map(|_| "billing".to_owned()),
        };
        let mut lag = GroupLag {
            group: "billing".to_owned(),
            state: "Stable".to_owned(),
            members: Some(1),
            total_lag: 6,
            partitions: vec![partition(0, Some(4), Some("a-1")), partition(1, None, Some("a-1"))],
        };
        check(
            &render_lag(&lag, false),
            &expect![[r#"
            Group billing: Stable, 1 member, total lag 6 in 2 partitions, 1 of them without a committed offset
            GROUP    TOPIC   PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG  CONSUMER-ID  HOST       CLIENT-ID
            billing  orders  0          4               10              6    a-1          /10.0.0.7  billing
            billing  orders  1          -               10              -    a-1          /10.0.0.7  billing
        "#]],
        );
        lag.partitions = vec![partition(0, Some(4), None)];
        (lag.members, lag.state) = (Some(0), "Empty".to_owned());
        check(
            &render_lag(&lag, true),
            &expect![[r#"
            Group billing: Empty, no members, total lag 6 in 1 partition
            GROUP    TOPIC   PARTITION  LEADER-EPOCH  CURRENT-OFFSET  LOG-END-OFFSET  LAG  CONSUMER-ID  HOST  CLIENT-ID
            billing  orders  0          -             4               10              6    -            -     -
        "#]],
        );
    }

    #[test]
    fn why_members_are_not_shown_is_told() {
        let mut group = members::tests::description();
        assert!(unread_members(&group, Some("Streams")).contains("members of groups of type streams;"));
        for kind in [None, Some("Consumer"), Some("Classic")] {
            assert_eq!(unread_members(&group, kind), "group billing: the broker does not show the members");
        }
        group.withheld = Some(ErrorCode::TopicAuthorizationFailed);
        let withheld = unread_members(&group, Some("Consumer"));
        assert!(withheld.contains("TOPIC_AUTHORIZATION_FAILED (29)"), "{withheld}");
    }

    #[test]
    fn a_state_has_the_id_where_kohort_was_asked() {
        let mut state = GroupState::from(members::tests::description());
        check(
            &render_states(std::slice::from_ref(&state), false),
            &expect![[r#"
            GROUP    COORDINATOR (ID)    ASSIGNMENT-STRATEGY  STATE   #MEMBERS
            billing  localhost:9092 (1)  range                Stable  2
        "#]],
        );
        check(
            &render_states(std::slice::from_ref(&state), true),
            &expect![[r#"
            GROUP    COORDINATOR (ID)    ASSIGNMENT-STRATEGY  STATE   GROUP-EPOCH  TARGET-ASSIGNMENT-EPOCH  #MEMBERS
            billing  localhost:9092 (1)  range                Stable  -            -                        2
        "#]],
        );
        (state.group_epoch, state.target_assignment_epoch) = (Some(4), Some(3));
        check(
            &render_states(std::slice::from_ref(&state), true),
            &expect![[r#"
            GROUP    COORDINATOR (ID)    ASSIGNMENT-STRATEGY  STATE   GROUP-EPOCH  TARGET-ASSIGNMENT-EPOCH  #MEMBERS
            billing  localhost:9092 (1)  range                Stable  4            3                        2
        "#]],
        );
        state.id = Some("cgp_x".to_owned());
        state.rrl = Some("default/consumer-groups/billing".to_owned());
        check(
            &render_states(&[state], false),
            &expect![[r#"
            GROUP    COORDINATOR (ID)    ASSIGNMENT-STRATEGY  STATE   #MEMBERS  ID     RRL
            billing  localhost:9092 (1)  range                Stable  2         cgp_x  default/consumer-groups/billing
        "#]],
        );
    }
}
