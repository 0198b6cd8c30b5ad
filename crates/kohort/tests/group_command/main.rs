//! `kohort group` against brokers that answer by a script: what no real broker does at a test's wish.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod scripted_broker;

use std::process::Command;

use coordination::error_code::ErrorCode;
use expect_test::{Expect, expect};
use scripted_broker::{Broker, Group, group};

/// Runs `kohort group` and compares its exit code and what it prints on both outputs.
fn check(broker: &Broker, words: &str, code: i32, stdout: &Expect, stderr: &Expect) {
    let address = broker.clone().start();
    let mut command = Command::new(env!("CARGO_BIN_EXE_kohort"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("KOHORT_")) {
        command.env_remove(name);
    }
    let output = command.arg("group").args(words.split(' ')).args(["-b", &address]).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(&address, "ADDRESS");
    stdout.assert_eq(&text(&output.stdout));
    stderr.assert_eq(&text(&output.stderr));
    assert_eq!(output.status.code(), Some(code));
}

#[test]
fn a_reset_of_several_groups_does_what_it_can_and_tells_the_rest() {
    let live = Group { member: Some("m-1\u{1b}[2J"), ..group("live", &[("orders", 0, 3)]) };
    let broker = Broker {
        groups: vec![
            Group { error: Some(ErrorCode::GroupAuthorizationFailed), ..group("forbidden", &[]) },
            group("idle", &[("orders", 0, 4), ("orders", 1, 5)]),
            live,
            group("new", &[]),
            group("other", &[("users", 0, 6)]),
        ],
        ..Default::default()
    };
    check(
        &broker,
        "reset --all-groups --all-topics --to-latest --execute",
        1,
        &expect![[r#"
            GROUP  TOPIC   PARTITION  NEW-OFFSET  CURRENT-OFFSET  NEW-LAG
            idle   orders  0          10          4               0
            idle   orders  1          10          5               0
            other  users   0          10          6               0
        "#]],
        &expect![[r#"
            kohort: some groups cannot be reset as asked:
              reset group forbidden: GROUP_AUTHORIZATION_FAILED (30)
              group live is Stable and its members would overwrite the offsets: "m-1\u{1b}[2J" at /10.0.0.7; stop them first
              group new has no committed offsets; name topics with --topic
        "#]],
    );
}

#[test]
fn offsets_of_topics_that_are_gone_are_left_alone_unless_they_are_named() {
    let broker = Broker {
        groups: vec![
            group("idle", &[("gone", 0, 1), ("orders", 1, 4), ("orders", 2, 4)]),
            group("late", &[("gone", 0, 1)]),
        ],
        ..Default::default()
    };
    check(
        &broker,
        "reset idle --all-topics --shift-by 1",
        0,
        &expect![[r#"
        GROUP  TOPIC   PARTITION  NEW-OFFSET  CURRENT-OFFSET  NEW-LAG
        idle   orders  1          5           4               5
    "#]],
        &expect![[r#"
        kohort: group idle: partition 2 of topic orders does not exist any more and is left out
        kohort: group idle: topic gone does not exist any more and is left out
        kohort: a dry run: nothing has been changed; --execute does it
    "#]],
    );
    check(
        &broker,
        "reset late --all-topics --shift-by 1",
        4,
        &expect![[""]],
        &expect![[r#"
        kohort: group late: topic gone does not exist any more and is left out
        kohort: group late has no committed offsets of topics that still exist; name topics with --topic
    "#]],
    );
    check(
        &broker,
        "reset idle --topic gone --topic orders:7 --topic users --to-latest",
        4,
        &expect![[""]],
        &expect![[r#"
            kohort: some groups cannot be reset as asked:
              group idle: partition 7 of topic orders does not exist
              group idle: topic gone does not exist
        "#]],
    );
    check(
        &broker,
        "reset idle --topic broken --to-latest",
        1,
        &expect![[""]],
        &expect![[r#"
            kohort: group idle: broken-0 has no leader that could tell its offsets
        "#]],
    );
    check(
        &broker,
        "describe idle",
        0,
        &expect![[r#"
        Group idle: Empty, no members, total lag 6 in 3 partitions
        GROUP  TOPIC   PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG  CONSUMER-ID  HOST  CLIENT-ID
        idle   gone    0          1               -               -    -            -     -
        idle   orders  1          4               10              6    -            -     -
        idle   orders  2          4               -               -    -            -     -
    "#]],
        &expect![[""]],
    );
}

#[test]
fn without_committed_offsets_topics_have_to_be_named() {
    let broker = Broker { groups: vec![group("new", &[])], ..Default::default() };
    check(
        &broker,
        "reset new --all-topics --to-latest --execute",
        4,
        &expect![[""]],
        &expect![[r#"
        kohort: group new has no committed offsets; name topics with --topic
    "#]],
    );
    check(
        &broker,
        "reset unheard-of --all-topics --to-latest",
        4,
        &expect![[""]],
        &expect![[r#"
        kohort: group unheard-of has no committed offsets; name topics with --topic
    "#]],
    );
    check(
        &broker,
        "reset unheard-of --topic users --to-latest",
        0,
        &expect![[r#"
        GROUP       TOPIC  PARTITION  NEW-OFFSET  CURRENT-OFFSET  NEW-LAG
        unheard-of  users  0          10          -               0
    "#]],
        &expect![[r#"
        kohort: group unheard-of does not exist yet; it begins with these offsets
        kohort: a dry run: nothing has been changed; --execute does it
    "#]],
    );
}

#[test]
fn what_could_not_be_set_is_not_said_to_be_set() {
    let groups = vec![group("idle", &[])];
    let partly = Broker {
        groups: groups.clone(),
        refused: vec![("orders", 0, ErrorCode::UnknownMemberId)],
        ..Default::default()
    };
    let words = "reset idle --topic orders --to-latest --execute -o json";
    check(
        &partly,
        words,
        1,
        &expect![[r#"
        [
          {
            "group": "idle",
            "executed": true,
            "offsets": [
              {
                "topic": "orders",
                "partition": 1,
                "new_offset": 10,
                "current_offset": null,
                "log_end_offset": 10,
                "new_lag": 0
              }
            ],
            "failed": [
              {
                "topic": "orders",
                "partition": 0,
                "error": "the group has members now; stop them first"
              }
            ]
          }
        ]
    "#]],
        &expect![[r#"
        kohort: set orders-0 of group idle: the group has members now; stop them first
    "#]],
    );
    let not_at_all = Broker { groups, left_out: vec![("orders", 0), ("orders", 1)], ..Default::default() };
    check(
        &not_at_all,
        words,
        1,
        &expect![[r#"
        [
          {
            "group": "idle",
            "executed": false,
            "offsets": [],
            "failed": [
              {
                "topic": "orders",
                "partition": 0,
                "error": "the broker left it out of its answer to OffsetCommit"
              },
              {
                "topic": "orders",
                "partition": 1,
                "error": "the broker left it out of its answer to OffsetCommit"
              }
            ]
          }
        ]
    "#]],
        &expect![[r#"
        kohort: some groups cannot be reset as asked:
          set orders-0 of group idle: the broker left it out of its answer to OffsetCommit
          set orders-1 of group idle: the broker left it out of its answer to OffsetCommit
    "#]],
    );
}

#[test]
fn a_partition_whose_record_nobody_found_is_not_taken_for_one_without() {
    let broker =
        Broker { groups: vec![group("idle", &[])], left_out: vec![("orders", 1)], ..Default::default() };
    check(
        &broker,
        "reset idle --topic orders --to-datetime 2023-11-14T22:13:20",
        1,
        &expect![[""]],
        &expect![[r#"
            kohort: group idle: orders-1: the broker left it out of its answer to ListOffsets
        "#]],
    );
}

#[test]
fn a_group_that_cannot_be_described_does_not_hide_the_others() {
    let broker = Broker {
        groups: vec![
            Group { error: Some(ErrorCode::GroupAuthorizationFailed), ..group("forbidden", &[]) },
            group("idle", &[("users", 0, 4)]),
        ],
        ..Default::default()
    };
    check(
        &broker,
        "describe forbidden idle unheard-of",
        1,
        &expect![[r#"
        Group idle: Empty, no members, total lag 6 in 1 partition
        GROUP  TOPIC  PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG  CONSUMER-ID  HOST  CLIENT-ID
        idle   users  0          4               10              6    -            -     -
    "#]],
        &expect![[r#"
        kohort: some groups cannot be described:
          describe group forbidden: GROUP_AUTHORIZATION_FAILED (30)
          group unheard-of does not exist; `kohort group list` shows those that do
    "#]],
    );
    check(
        &broker,
        "describe --all-groups --state",
        1,
        &expect![[r#"
        GROUP  COORDINATOR (ID)  ASSIGNMENT-STRATEGY  STATE  #MEMBERS
        idle   :0 (1)            -                    Empty  0
    "#]],
        &expect![[r#"
        kohort: describe group forbidden: GROUP_AUTHORIZATION_FAILED (30)
    "#]],
    );
    for (words, stdout) in [
        ("describe unheard-of", expect![""]),
        (
            "describe unheard-of -o json",
            expect![[r#"
                []
            "#]],
        ),
    ] {
        let nobody = expect![[r#"
            kohort: group unheard-of does not exist; `kohort group list` shows those that do
        "#]];
        check(&broker, words, 4, &stdout, &nobody);
    }
}

#[test]
fn when_the_broker_is_lost_nobody_waits_for_the_groups_that_follow() {
    let broker = Broker {
        groups: vec![
            group("a", &[("users", 0, 4)]),
            Group { fatal: true, ..group("b", &[]) },
            group("c", &[]),
            group("d", &[]),
        ],
        ..Default::default()
    };
    check(
        &broker,
        "describe --all-groups --state",
        3,
        &expect![[r#"
        GROUP  COORDINATOR (ID)  ASSIGNMENT-STRATEGY  STATE  #MEMBERS
        a      :0 (1)            -                    Empty  0
    "#]],
        &expect![[r#"
        kohort: some groups cannot be described:
          describe group b: the connection to ADDRESS broke during DescribeGroups (unexpected end of file)
          2 more groups not tried
    "#]],
    );
    check(
        &broker,
        "reset a b c d --topic users --to-latest --execute -o json",
        3,
        &expect![[r#"
            [
              {
                "group": "a",
                "executed": false,
                "offsets": [],
                "failed": [
                  {
                    "topic": "users",
                    "partition": 0,
                    "error": "not tried"
                  }
                ]
              }
            ]
        "#]],
        &expect![[r#"
            kohort: some groups cannot be reset as asked:
              reset group b: the connection to ADDRESS broke during DescribeGroups (unexpected end of file)
              2 more groups not tried
              1 more group planned, but nothing has been set
        "#]],
    );
}

#[test]
fn names_that_a_broker_gives_leave_the_terminal_alone() {
    let live = Group { member: Some("m-1\u{1b}[2J"), ..group("red\u{1b}[31m", &[]) };
    let broker = Broker { groups: vec![live, group("bell\u{7}", &[])], ..Default::default() };
    check(
        &broker,
        "delete --all-groups",
        1,
        &expect![[r#"
            "bell\u{7}": deleted
        "#]],
        &expect![[r#"
            kohort: group "red\u{1b}[31m" has members: "m-1\u{1b}[2J" at /10.0.0.7; stop them first
        "#]],
    );
    check(
        &broker,
        "describe --all-groups --members",
        0,
        &expect![[r#"
            Group "bell\u{7}": Empty, no members

            Group "red\u{1b}[31m": Stable, 1 member
            GROUP          CONSUMER-ID   HOST       CLIENT-ID  #PARTITIONS
            red\u{1b}[31m  m-1\u{1b}[2J  /10.0.0.7             0
        "#]],
        &expect![[""]],
    );
    check(
        &broker,
        "list",
        0,
        &expect![[r#"
        GROUP          TYPE     STATE
        bell\u{7}      Classic  Empty
        red\u{1b}[31m  Classic  Empty
    "#]],
        &expect![[""]],
    );
}

#[test]
fn offsets_that_have_to_stay_are_told_once_for_each_topic() {
    let subscribed = ErrorCode::GroupSubscribedToTopic;
    let broker = Broker {
        groups: vec![Group { member: Some("m-1"), ..group("live", &[]) }],
        refused: vec![("orders", 0, subscribed), ("orders", 1, subscribed)],
        left_out: vec![("broken", 0)],
        ..Default::default()
    };
    let words = "delete-offsets live --topic orders --topic users:0,3,0 --topic broken --topic gone";
    check(
        &broker,
        words,
        1,
        &expect![[r#"
        GROUP  TOPIC  PARTITION  STATUS
        live   users  0          forgotten
    "#]],
        &expect![[r#"
            kohort: some offsets of live cannot be forgotten:
              partition 3 of topic users does not exist
              topic gone does not exist
              broken-0: the broker left it out of its answer to OffsetDelete
              members of live are subscribed to orders: m-1 at /10.0.0.7; stop them first
        "#]],
    );
}

#[test]
fn old_brokers_are_filtered_by_type_here_and_by_state_not_at_all() {
    let broker = Broker { groups: vec![group("idle", &[])], list_groups: Some(3), ..Default::default() };
    check(
        &broker,
        "list --type classic",
        0,
        &expect![[r#"
        GROUP  TYPE  STATE
        idle   -     -
    "#]],
        &expect![[""]],
    );
    check(
        &broker,
        "list --type consumer",
        0,
        &expect![[r#"
        GROUP  TYPE  STATE
    "#]],
        &expect![[""]],
    );
    check(
        &broker,
        "list --state empty",
        1,
        &expect![[""]],
        &expect![[r#"
        kohort: the broker at ADDRESS is too old to tell the states of groups
    "#]],
    );
    check(
        &broker,
        "list --type share",
        2,
        &expect![[""]],
        &expect![[r#"
        kohort: unknown type `share`; there are Classic, Consumer
    "#]],
    );
}

#[test]
fn members_of_a_type_that_is_not_read_are_not_said_to_be_none() {
    let broker = Broker {
        groups: vec![Group { kind: Some("Share"), ..group("shared", &[("orders", 0, 4)]) }],
        ..Default::default()
    };
    let unread = expect![[r#"
        kohort: group shared: kohort does not read the members of groups of type share; Kafka's own tool for such groups does
    "#]];
    check(
        &broker,
        "describe shared --members",
        1,
        &expect![[r#"
            Group shared: Stable, members not shown
        "#]],
        &unread,
    );
    check(&broker, "remove-member shared --all", 1, &expect![[""]], &unread);
    check(
        &broker,
        "describe shared --state",
        0,
        &expect![[r#"
            GROUP   COORDINATOR (ID)  ASSIGNMENT-STRATEGY  STATE   #MEMBERS
            shared  :0 (1)            -                    Stable  -
        "#]],
        &unread,
    );
}
