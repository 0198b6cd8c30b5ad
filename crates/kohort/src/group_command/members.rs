//! The members of a group, for `kohort group describe --members`.

use std::collections::BTreeMap;

use client::{Client, GroupDescription, GroupMember};
use serde::Serialize;

use super::cell;
use super::describe::dash;
use crate::dial;
use crate::output::{Table, count, name, plain};

/// A group as `--members` shows it.
#[derive(Serialize)]
pub(super) struct GroupMembers {
    group: String,
    state: String,
    /// None if there are some that cannot be shown.
    members: Option<Vec<Member>>,
}

#[derive(Serialize)]
struct Member {
    consumer_id: String,
    group_instance_id: Option<String>,
    host: String,
    client_id: String,
    partitions: usize,
    assignment: BTreeMap<String, Vec<i32>>,
    /// What follows is known of members of groups of the newer protocol (KIP-848) only.
    current_epoch: Option<i32>,
    target_epoch: Option<i32>,
    target_assignment: Option<BTreeMap<String, Vec<i32>>>,
    upgraded: Option<bool>,
}

impl Member {
    fn new(member: &GroupMember, target_epoch: Option<i32>) -> Self {
        let progress = member.progress.as_ref();
        Self {
            consumer_id: member.member_id.clone(),
            group_instance_id: member.instance_id.clone(),
            host: member.host.clone(),
            client_id: member.client_id.clone(),
            partitions: member.assignment.values().map(Vec::len).sum(),
            assignment: member.assignment.clone(),
            current_epoch: progress.map(|progress| progress.epoch),
            target_epoch,
            target_assignment: progress.map(|progress| progress.target.clone()),
            upgraded: progress.and_then(|progress| progress.is_upgraded),
        }
    }
}

impl From<&GroupDescription> for GroupMembers {
    fn from(group: &GroupDescription) -> Self {
        let target_epoch = group.epochs.map(|epochs| epochs.target);
        let member = |member| Member::new(member, target_epoch);
        Self {
            group: group.group.clone(),
            state: group.state.clone(),
            members: group.member_count().map(|_| group.members.iter().map(member).collect()),
        }
    }
}

impl GroupMembers {
    pub(super) fn render(&self, verbose: bool) -> String {
        let members = self.members.as_deref();
        let (group, state) = (name(&self.group), plain(&self.state));
        let heading = format!("Group {group}: {state}, {}\n", counted(members.map(<[_]>::len)));
        let Some(members @ [_, ..]) = members else { return heading };
        let statics = members.iter().any(|member| member.group_instance_id.is_some());
        let mut columns = vec!["GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS"];
        if statics {
            columns.insert(2, "GROUP-INSTANCE-ID");
        }
        // While some members of a group of the newer protocol speak it and others the classic one.
        let some_are = |upgraded| members.iter().any(|member| member.upgraded == Some(upgraded));
        let upgrading = verbose && some_are(true) && some_are(false);
        if verbose {
            columns.extend(["CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT"]);
        }
        if upgrading {
            columns.push("UPGRADED");
        }
        let mut table = Table::new(&columns);
        for member in members {
            let mut row = vec![
                cell(&self.group),
                member.consumer_id.clone(),
                member.host.clone(),
                member.client_id.clone(),
                member.partitions.to_string(),
            ];
            if statics {
                row.insert(2, dash(member.group_instance_id.as_ref()));
            }
            if verbose {
                row.extend([dash(member.current_epoch), assigned(Some(&member.assignment))]);
                row.extend([dash(member.target_epoch), assigned(member.target_assignment.as_ref())]);
            }
            if upgrading {
                row.push(dash(member.upgraded));
            }
            table.row(row);
        }
        heading + &table.render()
    }
}

/// Partitions by topic; a dash if there are none, or none are known.
fn assigned(partitions: Option<&BTreeMap<String, Vec<i32>>>) -> String {
    let topic = |(topic, partitions): (&String, &Vec<i32>)| {
        let numbers = partitions.iter().map(i32::to_string).collect::<Vec<_>>().join(",");
        format!("{topic}:{numbers}")
    };
    let topics = partitions.into_iter().flatten().map(topic).collect::<Vec<_>>().join(";");
    if topics.is_empty() { "-".to_owned() } else { topics }
}

/// The members of a group for a message that asks to stop them.
pub(super) async fn members_of(client: &mut Client, group: &str) -> String {
    match client.describe_group(group).await {
        Ok(group) => who(&group),
        Err(error) => format!("(unknown: {})", dial::describe(&error)),
    }
}

/// The members of a group by name, as far as they are not too many.
pub(super) fn who(group: &GroupDescription) -> String {
    let one = |member: &GroupMember| format!("{} at {}", name(&member.member_id), plain(&member.host));
    if group.members.is_empty() { "not shown".to_owned() } else { listed(group.members.iter().map(one)) }
}

/// Names for a sentence, as far as they are not too many.
pub(super) fn listed(mut names: impl ExactSizeIterator<Item = String>) -> String {
    let mut listed = Vec::from_iter(names.by_ref().take(NAMED));
    if names.len() > 0 {
        listed.push(format!("{} more", names.len()));
    }
    listed.join(", ")
}

/// More than this are not named one by one.
const NAMED: usize = 10;

/// How many members there are, in words.
pub(super) fn counted(members: Option<usize>) -> String {
    match members {
        Some(0) => "no members".to_owned(),
        Some(number) => count(number, "member"),
        None => "members not shown".to_owned(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use client::{Coordinator, GroupEpochs, MemberProgress};
    use expect_test::{Expect, expect};

    use super::*;

    fn check(group: &GroupDescription, verbose: bool, expected: &Expect) {
        expected.assert_eq(&GroupMembers::from(group).render(verbose));
    }

    /// A group with a static member and one that has nothing to do.
    pub(in super::super) fn description() -> GroupDescription {
        let member = |id: &str, instance: Option<&str>, partitions: &[i32]| GroupMember {
            member_id: id.to_owned(),
            instance_id: instance.map(str::to_owned),
            client_id: "billing".to_owned(),
            host: "/10.0.0.7".to_owned(),
            assignment: match partitions {
                [] => BTreeMap::new(),
                _ => BTreeMap::from([
                    ("orders".to_owned(), partitions.to_vec()),
                    ("users".to_owned(), vec![0]),
                ]),
            },
            progress: None,
        };
        GroupDescription {
            group: "billing".to_owned(),
            state: "Stable".to_owned(),
            protocol: "range".to_owned(),
            coordinator: Coordinator { node: 1, host: "localhost".to_owned(), port: 9092 },
            members: vec![member("a-1", Some("pod-0"), &[0, 2]), member("b-2", None, &[])],
            epochs: None,
            withheld: None,
        }
    }

    #[test]
    fn members_are_shown_with_instances_and_assignments() {
        let mut group = description();
        check(
            &group,
            true,
            &expect![[r#"
                Group billing: Stable, 2 members
                GROUP    CONSUMER-ID  GROUP-INSTANCE-ID  HOST       CLIENT-ID  #PARTITIONS  CURRENT-EPOCH  CURRENT-ASSIGNMENT  TARGET-EPOCH  TARGET-ASSIGNMENT
                billing  a-1          pod-0              /10.0.0.7  billing    3            -              orders:0,2;users:0  -             -
                billing  b-2          -                  /10.0.0.7  billing    0            -              -                   -             -
            "#]],
        );
        group.members.remove(0);
        check(
            &group,
            false,
            &expect![[r#"
            Group billing: Stable, 1 member
            GROUP    CONSUMER-ID  HOST       CLIENT-ID  #PARTITIONS
            billing  b-2          /10.0.0.7  billing    0
        "#]],
        );
    }

    #[test]
    fn members_of_the_newer_protocol_are_shown_with_where_they_are_to_get() {
        let mut group = description();
        group.epochs = Some(GroupEpochs { group: 4, target: 3 });
        let target = |partitions: &[i32]| BTreeMap::from([("orders".to_owned(), partitions.to_vec())]);
        let progress = |epoch, partitions: &[i32], is_upgraded| {
            Some(MemberProgress { epoch, target: target(partitions), is_upgraded })
        };
        group.members[0].progress = progress(2, &[0], Some(true));
        group.members[1].progress = progress(3, &[1, 2], Some(true));
        check(
            &group,
            true,
            &expect![[r#"
            Group billing: Stable, 2 members
            GROUP    CONSUMER-ID  GROUP-INSTANCE-ID  HOST       CLIENT-ID  #PARTITIONS  CURRENT-EPOCH  CURRENT-ASSIGNMENT  TARGET-EPOCH  TARGET-ASSIGNMENT
            billing  a-1          pod-0              /10.0.0.7  billing    3            2              orders:0,2;users:0  3             orders:0
            billing  b-2          -                  /10.0.0.7  billing    0            3              -                   3             orders:1,2
        "#]],
        );
        group.members[1].progress = progress(3, &[1, 2], Some(false));
        check(
            &group,
            true,
            &expect![[r#"
            Group billing: Stable, 2 members
            GROUP    CONSUMER-ID  GROUP-INSTANCE-ID  HOST       CLIENT-ID  #PARTITIONS  CURRENT-EPOCH  CURRENT-ASSIGNMENT  TARGET-EPOCH  TARGET-ASSIGNMENT  UPGRADED
            billing  a-1          pod-0              /10.0.0.7  billing    3            2              orders:0,2;users:0  3             orders:0           true
            billing  b-2          -                  /10.0.0.7  billing    0            3              -                   3             orders:1,2         false
        "#]],
        );
    }

    #[test]
    fn it_is_said_whether_there_are_none_or_none_that_can_be_shown() {
        let mut group = description();
        group.members.clear();
        check(
            &group,
            false,
            &expect![[r#"
            Group billing: Stable, members not shown
        "#]],
        );
        group.state = "Empty".to_owned();
        check(
            &group,
            false,
            &expect![[r#"
            Group billing: Empty, no members
        "#]],
        );
    }
}
