//! `kohort assigner` and `kohort handoff`: questions to an assigner that answers by a script, and an instance as a
//! process.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod instance;
mod scripted_assigner;

use std::process::Command;

use expect_test::{Expect, expect};
use scripted_assigner::{Assigner, TOKEN, handoff};

/// `kohort` with an environment that nobody has touched.
fn kohort() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kohort"));
    let ours = |name: &str| {
        ["KOHORT_", "ETCD_", "KAFKA_", "BIND_", "CONSUMER_", "LEADER_", "ASSIGNER_"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
    };
    for (name, _) in std::env::vars().filter(|(name, _)| ours(name)) {
        command.env_remove(name);
    }
    command
}

/// Runs `kohort` and compares its exit code and what it prints on both outputs.
fn check(assigner: &Assigner, words: &str, code: i32, stdout: &Expect, stderr: &Expect) {
    let address = assigner.clone().start();
    let output = kohort().args(words.split(' ')).args(["--assigner", &address]).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(&address, "ADDRESS");
    stdout.assert_eq(&text(&output.stdout));
    stderr.assert_eq(&text(&output.stderr));
    assert_eq!(output.status.code(), Some(code));
}

/// Compares the help of a command.
fn check_help(words: &str, expected: &Expect) {
    let output = kohort().args(words.split(' ')).arg("--help").output().unwrap();
    expected.assert_eq(&String::from_utf8_lossy(&output.stdout));
}

#[test]
fn help_says_how_to_run_an_instance_and_what_can_be_asked() {
    check_help(
        "assigner",
        &expect![[r#"
        Assign partitions of any Kafka to stateful consumers by warm handoff, or ask about it

        Usage: kohort assigner [OPTIONS]
               kohort assigner <COMMAND>

        Commands:
          status   Show who leads, and the consumers and topics of each group
          plan     Show what the leader would do now, or with other consumers; nothing is done
          explain  Say why each partition is where it is, or moves
          topic    Show a topic as a group works on it, or set how heavy its partitions are
          config   Check and list the assigner's settings
          help     Print this message or the help of the given subcommand(s)

        Options:
              --etcd <URL>           Reach etcd here; several with commas [default: http://127.0.0.1:2379]
              --kafka <ADDR:PORT>    Read topics from this Kafka; several brokers with commas
              --listen <ADDR:PORT>   Serve gRPC here [default: 0.0.0.0:50051]
              --name <NAME>          Be known among the instances by this name [default: made up]
              --http <ADDR:PORT>     Serve health and metrics over HTTP here, or `none` [default:
                                     127.0.0.1:9645]
              --config <FILE>        Read settings from the table [assigner] of this TOML file
              --set <NAME=VALUE>     Set a setting by its name; may be repeated
              --log-format <FORMAT>  Write logs as text for people or as JSON for programs [default: text]
                                     [possible values: text, json]
              --log <LEVEL>          Log this and what is worse: error, warn, info, debug, trace; or filters
                                     like gateway=debug [default: info]
          -h, --help                 Print help

        Examples:
          kohort assigner --etcd http://127.0.0.1:2379 --kafka 127.0.0.1:9092
          kohort assigner --config assigner.toml --set handoff_timeout_secs=600
          kohort assigner config list
          kohort assigner status
          kohort assigner plan --dry-run --without worker-3 --changes
          kohort assigner explain orders/7
          kohort assigner topic orders --weight 5 --partition-weight 3=20

        Settings have the names that `kohort assigner config list` shows. They come from --config FILE (the
        table [assigner] of a TOML file), then from the environment (etcd_endpoints is ETCD_ENDPOINTS, or
        KOHORT_ASSIGNER_ETCD_ENDPOINTS, which is stronger), then from flags; the last one wins.
    "#]],
    );
    check_help(
        "assigner plan",
        &expect![[r#"
        Show what the leader would do now, or with other consumers; nothing is done

        Usage: kohort assigner plan [OPTIONS]

        Options:
              --dry-run             Only show it; the leader carries its plans out by itself, so there is no
                                    other way
              --without <CONSUMER>  As if this consumer were gone; may be repeated
              --with <CONSUMER>     As if this consumer were registered and ready; may be repeated
              --changes             Leave out partitions about which nothing would be done
          -g, --group <NAME>        The group [default: consumers that name no group]
              --assigner <URL>      An instance to ask; any will do [env: KOHORT_ASSIGNER=] [default:
                                    http://127.0.0.1:50051]
              --token-file <FILE>   Read the token from this file
              --ca-file <FILE>      Trust the authorities in this PEM file; needed for https
              --cert-file <FILE>    Show the certificate in this PEM file
              --key-file <FILE>     The certificate's key, a PEM file
              --timeout <SECONDS>   Give up after this many seconds [default: 15]
          -o, --output <FORMAT>     Show results as a table for people or as JSON for programs [default:
                                    table] [possible values: table, json]
          -h, --help                Print help
    "#]],
    );
    check_help(
        "handoff",
        &expect![[r#"
        List, show and cancel handoffs of partitions between the assigner's consumers

        Usage: kohort handoff <COMMAND>

        Commands:
          list    List the handoffs that are under way, and who is waited for
          show    Show all that is known of a partition's handoff
          cancel  Give a partition's handoff up; it stays with its owner until the leader tries again
          help    Print this message or the help of the given subcommand(s)

        Options:
          -h, --help  Print help

        Examples:
          kohort handoff list --all
          kohort handoff show orders/7 --group counters
          kohort handoff cancel orders/7 --assigner http://assigner.example:50051
    "#]],
    );
}

#[test]
fn status_shows_all_groups_or_one() {
    let assigner = Assigner::default();
    check(
        &assigner,
        "assigner status",
        0,
        &expect![[r#"
            Instance one (kohort 0.1.0): it leads, revision 7

            Group counters: 1 consumer, 1 topic, 0 handoffs
            CONSUMER  STATE  PARTITIONS  WARMING  RELEASING  CAPACITY  RACK  TOPICS
            a         ready  2           0        0          1         -     lines
            TOPIC  PARTITIONS  ASSIGNED  WEIGHT
            lines  2           2         1 (partition 1: 3)
        "#]],
        &expect![[""]],
    );
    check(
        &assigner,
        "assigner status --group counters -o json",
        0,
        &expect![[r#"
        {
          "instance": "one",
          "version": "0.1.0",
          "leader": "one",
          "revision": 7,
          "etcd_behind_ms": 0,
          "kafka_problem": null,
          "groups": [
            {
              "group": "counters",
              "handoffs": 0,
              "consumers": [
                {
                  "name": "a",
                  "state": "ready",
                  "partitions": 2,
                  "warming": 0,
                  "releasing": 0,
                  "capacity": 1,
                  "rack": null,
                  "labels": {},
                  "topics": [
                    "lines"
                  ],
                  "registered_ms": 1700000000000
                }
              ],
              "topics": [
                {
                  "topic": "lines",
                  "partitions": 2,
                  "assigned": 2,
                  "weight": 1,
                  "partition_weights": {
                    "1": 3
                  }
                }
              ]
            }
          ]
        }
    "#]],
        &expect![[""]],
    );
    check(
        &assigner,
        "assigner status --group nobody",
        4,
        &expect![[""]],
        &expect![[r#"
        kohort: group nobody does not exist; `kohort assigner status` shows those that do
    "#]],
    );
}

#[test]
fn a_plan_is_only_ever_shown() {
    let assigner = Assigner::default();
    check(
        &assigner,
        "assigner plan",
        2,
        &expect![[""]],
        &expect![[r#"
        kohort: the leader carries its plans out by itself as soon as they are due; add --dry-run to see what it would do
    "#]],
    );
    check(
        &assigner,
        "assigner plan --dry-run --group counters --without a --with b --changes",
        0,
        &expect![[r#"
            As of revision 7: 1 of 2 partitions would change
            TOPIC  PARTITION  OWNER  DESIRED  ACTION            WHY
            lines  1          a      b        is assigned to b  its owner is gone
        "#]],
        &expect![[""]],
    );
    check(
        &assigner,
        "assigner plan --dry-run --without stranger",
        4,
        &expect![[""]],
        &expect![[r#"
        kohort: show the plan: without: consumer stranger is not registered in this group
    "#]],
    );
}

#[test]
fn explain_gives_reasons_for_a_group_a_topic_or_a_partition() {
    let assigner = Assigner::default();
    check(
        &assigner,
        "assigner explain",
        0,
        &expect![[r#"
        TOPIC  PARTITION  OWNER  WHY
        lines  0          a      stays: the load is balanced
        lines  1          a      is assigned to b: its owner is gone
    "#]],
        &expect![[""]],
    );
    check(
        &assigner,
        "assigner explain lines/1",
        0,
        &expect![[r#"
        TOPIC  PARTITION  OWNER  WHY
        lines  1          a      is assigned to b: its owner is gone
    "#]],
        &expect![[""]],
    );
    check(
        &assigner,
        "assigner explain words",
        4,
        &expect![[""]],
        &expect![[r#"
        kohort: the group does not work on words; see `kohort assigner status`
    "#]],
    );
}

#[test]
fn weights_of_a_topic_are_set_and_shown() {
    let assigner = Assigner::default();
    check(
        &assigner,
        "assigner topic lines --group counters --weight 5 --partition-weight 1=7",
        0,
        &expect![[r#"
            TOPIC  PARTITIONS  ASSIGNED  WEIGHT
            lines  2           2         1 (partition 1: 3)
        "#]],
        &expect![[""]],
    );
    check(
        &assigner,
        "assigner topic words --group counters",
        4,
        &expect![[""]],
        &expect![[r#"
        kohort: the group does not work on topic words; see `kohort assigner status`
    "#]],
    );
    check(
        &assigner,
        "assigner topic words --group counters --weight 5",
        4,
        &expect![[""]],
        &expect![[r#"
        kohort: set the weights of words: the group does not work on topic words
    "#]],
    );
}

#[test]
fn handoffs_are_listed_and_an_empty_list_says_so() {
    let none = Assigner::default();
    check(
        &none,
        "handoff list",
        0,
        &expect![[r#"
        No handoff is under way.
    "#]],
        &expect![[""]],
    );
    check(
        &none,
        "handoff list -o json",
        0,
        &expect![[r#"
        []
    "#]],
        &expect![[""]],
    );
    let some = Assigner { handoffs: vec![handoff("", 0), handoff("counters", 1)], ..none };
    check(
        &some,
        "handoff list",
        0,
        &expect![[r#"
        TOPIC  PARTITION  FROM  TO  PHASE  FOR    TIME-LEFT  PROGRESS  WAITS-FOR
        lines  0          a     b   ready  1.5 s  298.5 s    50%       a
    "#]],
        &expect![[""]],
    );
    check(
        &some,
        "handoff list --all",
        0,
        &expect![[r#"
        GROUP     TOPIC  PARTITION  FROM  TO  PHASE  FOR    TIME-LEFT  PROGRESS  WAITS-FOR
        -         lines  0          a     b   ready  1.5 s  298.5 s    50%       a
        counters  lines  1          a     b   ready  1.5 s  298.5 s    50%       a
    "#]],
        &expect![[""]],
    );
}

#[test]
fn one_handoff_is_shown_or_given_up() {
    let assigner = Assigner { handoffs: vec![handoff("counters", 1)], ..Default::default() };
    check(
        &assigner,
        "handoff show lines/1 -g counters -o json",
        0,
        &expect![[r#"
        {
          "group": "counters",
          "topic": "lines",
          "partition": 1,
          "id": "id-1",
          "epoch": 3,
          "from": "a",
          "to": "b",
          "mode": "exclusive",
          "phase": "ready",
          "phase_age_ms": 1500,
          "deadline_in_ms": 298500,
          "waits_for": "a",
          "progress": {
            "done": 10,
            "total": 20
          }
        }
    "#]],
        &expect![[""]],
    );
    check(
        &assigner,
        "handoff show lines/1",
        4,
        &expect![[""]],
        &expect![[r#"
        kohort: no handoff of lines/1 is under way
    "#]],
    );
    check(
        &assigner,
        "handoff cancel lines/1 -g counters",
        0,
        &expect![[r#"
        Gave up the handoff id-1 of lines/1.
    "#]],
        &expect![[""]],
    );
    check(
        &assigner,
        "handoff cancel lines/1 -g counters --id other",
        1,
        &expect![[""]],
        &expect![[r#"
        kohort: cancel the handoff of lines/1: the handoff is another
    "#]],
    );
    check(
        &assigner,
        "handoff cancel lines/2 -g counters",
        4,
        &expect![[""]],
        &expect![[r#"
        kohort: cancel the handoff of lines/2: there is no handoff
    "#]],
    );
}

#[test]
fn a_token_opens_the_door_and_comes_from_a_file() {
    let assigner = Assigner { needs_token: true, ..Default::default() };
    check(
        &assigner,
        "handoff list",
        1,
        &expect![[""]],
        &expect![[r#"
        kohort: list handoffs: a token is needed; see --token-file and --cert-file
    "#]],
    );
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("token");
    std::fs::write(&file, format!("{TOKEN}\n")).unwrap();
    let words = format!("handoff list --token-file {}", file.display());
    check(
        &assigner,
        &words,
        0,
        &expect![[r#"
        No handoff is under way.
    "#]],
        &expect![[""]],
    );
}

#[test]
fn an_assigner_that_is_not_there_exits_with_3() {
    let (unheard, address) = scripted_assigner::unheard();
    let output = kohort().args(["assigner", "status"]).env("KOHORT_ASSIGNER", &address).output().unwrap();
    drop(unheard);
    assert_eq!(output.status.code(), Some(3));
    let said = String::from_utf8_lossy(&output.stderr).replace(&address, "ADDRESS");
    expect![[r#"
        kohort: cannot reach an assigner at ADDRESS; is one running there? (transport error: tcp connect error: Connection refused (os error 111))
    "#]].assert_eq(&said);
}
