//! What a person sees at the command line: help, refusals and exit codes.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::process::{Command, Output};

use expect_test::{Expect, expect};
use socket2::{Domain, Socket, Type};

/// Runs `kohort` with an environment that nobody has touched.
fn kohort(args: &[&str]) -> Output {
    kohort_with(args, &[])
}

fn kohort_with(args: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kohort"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("KOHORT_")) {
        command.env_remove(name);
    }
    command.args(args).envs(environment.iter().copied()).output().unwrap()
}

fn check(output: &Output, code: i32, stdout: &Expect, stderr: &Expect) {
    stdout.assert_eq(&String::from_utf8_lossy(&output.stdout));
    stderr.assert_eq(&String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(code));
}

#[test]
fn help_begins_with_what_it_is_and_ends_with_examples_and_exit_codes() {
    check(
        &kohort(&["--help"]),
        0,
        &expect![[r#"
            A Kafka-compatible broker in one binary

            Usage: kohort [OPTIONS]
                   kohort <COMMAND>

            Commands:
              serve     Run the broker (the same as `kohort` alone)
              broker    Run a broker that only gateways reach, or say which gateways may
              gateway   Run a gateway: Kafka listeners in front of a broker elsewhere
              topic     Create, list, describe, alter and delete topics of any Kafka
              group     List, describe, explain, reset and delete consumer groups of any Kafka
              acl       Allow and deny: ACLs of any Kafka
              org       Create, list, limit and delete organisations, which share a broker and never meet
              user      Create, list and delete users, and change their passwords
              config    Check and list settings
              assigner  Assign partitions of any Kafka to stateful consumers by warm handoff, or ask about it
              handoff   List, show and cancel handoffs of partitions between the assigner's consumers
              log       Read a data directory while no broker runs on it
              snapshot  Copy the data of a running broker into a new directory
              bench     Measure any Kafka: heartbeats, commits, joins, records, memory; alone or side by side
              version   Show the version
              help      Print this message or the help of the given subcommand(s)

            Options:
                  --listen <ADDR:PORT>     Listen here; may be repeated. NAME://ADDR:PORT gives the listener a
                                           name [default: 127.0.0.1:9092 and [::1]:9092]
                  --advertise <ADDR:PORT>  Give clients this address instead of the one they dialled; may be
                                           repeated with NAME://ADDR:PORT
                  --data-dir <DIR>         Keep data in this directory [default: ./kohort-data]
                  --config <FILE>          Read settings from this TOML file
                  --admin <ADDR:PORT>      Serve health, metrics, group events and snapshots here, or `none`
                                           [default: 127.0.0.1:9644]
                  --set <KEY=VALUE>        Set a property by its name; may be repeated
                  --log-format <FORMAT>    Write logs as text for people or as JSON for programs [default: text]
                                           [possible values: text, json]
                  --log <LEVEL>            Log this and what is worse: error, warn, info, debug, trace; or
                                           filters like gateway=debug [default: info]
              -h, --help                   Print help
              -V, --version                Print version

            Examples:
              kohort                                          serve on localhost:9092, data in ./kohort-data
              kohort --listen 0.0.0.0:9092 --advertise broker.example:9092
              kohort --set num.partitions=6 --set log.retention.hours=24
              kohort topic create orders --partitions 6 --config cleanup.policy=compact
              kohort topic list -o json
              kohort group describe billing
              kohort user create alice
              kohort broker --rail-listen 0.0.0.0:9643        and gateways elsewhere: kohort gateway --help
              kohort assigner --etcd http://127.0.0.1:2379    assign partitions to stateful consumers
              kohort bench heartbeat --compare kohort=127.0.0.1:9092,kafka=127.0.0.1:19092

            Settings are properties with Kafka's names; `kohort config list` shows them all. They come from
            --config FILE (TOML), then from the environment (num.partitions is KOHORT_NUM_PARTITIONS), then
            from flags; the last one wins.

            Exit codes:
              0  done
              1  failed
              2  wrong usage or wrong settings
              3  the server cannot be reached
              4  what was asked for does not exist, or exists already
        "#]],
        &expect![[""]],
    );
}

#[test]
fn topic_create_has_help_of_its_own() {
    check(
        &kohort(&["topic", "create", "--help"]),
        0,
        &expect![[r#"
            Create a topic

            Usage: kohort topic create [OPTIONS] <NAME>

            Arguments:
              <NAME>  The topic's name

            Options:
              -p, --partitions <COUNT>          How many partitions [default: the broker's num.partitions]
                  --replication-factor <COUNT>  How many replicas [default: the broker's
                                                default.replication.factor]
              -c, --config <KEY=VALUE>          Set a property of the topic; may be repeated
                  --if-not-exists               Succeed if the topic exists already
              -b, --bootstrap <ADDR:PORT>       A broker to ask; several with commas [env: KOHORT_BOOTSTRAP=]
                                                [default: 127.0.0.1:9092]
                  --command-config <FILE>       Log in and speak TLS as this file of properties says, the same
                                                as for Kafka's own tools [env: KOHORT_COMMAND_CONFIG=]
                  --timeout <SECONDS>           Give up a request that is not answered within this many seconds;
                                                it holds for each request [default: 15]
              -o, --output <FORMAT>             Show results as a table for people or as JSON for programs
                                                [default: table] [possible values: table, json]
              -h, --help                        Print help
        "#]],
        &expect![[""]],
    );
}

#[test]
fn topic_help_shows_examples() {
    check(
        &kohort(&["topic", "--help"]),
        0,
        &expect![[r#"
        Create, list, describe, alter and delete topics of any Kafka

        Usage: kohort topic <COMMAND>

        Commands:
          create    Create a topic
          list      List topics
          describe  Show partitions, leaders, offsets and the settings that are set
          alter     Add partitions, or set and unset properties
          delete    Delete topics with all they hold
          help      Print this message or the help of the given subcommand(s)

        Options:
          -h, --help  Print help

        Examples:
          kohort topic create orders --partitions 6
          kohort topic create users --config cleanup.policy=compact --if-not-exists
          kohort topic alter orders --partitions 12 --config retention.ms=3600000
          kohort topic describe orders -o json
          kohort topic delete orders --bootstrap kafka.example:9092
    "#]],
        &expect![[""]],
    );
}

#[test]
fn group_help_shows_examples() {
    check(
        &kohort(&["group", "--help"]),
        0,
        &expect![[r#"
            List, describe, explain, reset and delete consumer groups of any Kafka

            Usage: kohort group <COMMAND>

            Commands:
              list            List groups
              describe        Show how far groups have read, who is in them, or their state
              events          Show why a group rebalanced: when, because of whom, how long it took (Kohort only)
              delete          Delete groups with their offsets; they must have no members
              delete-offsets  Forget how far a group has read topics that nobody in it is subscribed to
              reset           Set how far groups without members have read; a dry run unless --execute
              remove-member   Make members leave a group
              help            Print this message or the help of the given subcommand(s)

            Options:
              -h, --help  Print help

            Examples:
              kohort group list --state stable,empty
              kohort group describe billing
              kohort group describe --all-groups --members --verbose
              kohort group events billing
              kohort group reset billing --topic orders --to-datetime 2026-11-15T08:00:00
              kohort group reset billing --topic orders:0,2 --shift-by -100 --execute
              kohort group reset billing --all-topics --to-current --export > billing.csv
              kohort group reset billing --from-file billing.csv --execute
              kohort group remove-member billing --all --reason "moved to another cluster"
              kohort group delete billing --bootstrap kafka.example:9092

            All but `events` work with any Kafka.
        "#]],
        &expect![[""]],
    );
}

#[test]
fn group_reset_has_help_of_its_own() {
    check(
        &kohort(&["group", "reset", "--help"]),
        0,
        &expect![[r#"
            Set how far groups without members have read; a dry run unless --execute

            Usage: kohort group reset <GROUP>... --topic <TOPIC[:PARTITION,…]> <WHERE TO> [--execute] [OPTIONS]
                   kohort group reset --all-groups --all-topics <WHERE TO> [--execute] [OPTIONS]
                   kohort group reset <GROUP>... --from-file <FILE> [--execute] [OPTIONS]
                   kohort group reset --all-groups --from-file <FILE> [--execute] [OPTIONS]

            Arguments:
              [GROUP]...  The groups' names

            Options:
                  --all-groups             Take all groups
                  --execute                Do it
                  --dry-run                Only show what would be done (the default)
                  --export                 Show the new offsets as CSV, for --from-file
              -b, --bootstrap <ADDR:PORT>  A broker to ask; several with commas [env: KOHORT_BOOTSTRAP=]
                                           [default: 127.0.0.1:9092]
                  --command-config <FILE>  Log in and speak TLS as this file of properties says, the same as for
                                           Kafka's own tools [env: KOHORT_COMMAND_CONFIG=]
                  --timeout <SECONDS>      Give up a request that is not answered within this many seconds; it
                                           holds for each request [default: 15]
              -o, --output <FORMAT>        Show results as a table for people or as JSON for programs [default:
                                           table] [possible values: table, json]
              -h, --help                   Print help

            Which offsets:
                  --topic <TOPIC[:PARTITION,…]>  Reset this topic, or some of its partitions; may be repeated
                  --all-topics                   Reset every topic that the group has offsets of

            Where to:
                  --to-earliest             To the first offset
                  --to-latest               To the end
                  --to-current              To what is committed already; to the end where nothing is
                  --to-offset <OFFSET>      To this offset
                  --to-datetime <DATETIME>  To the first record of this time or later: YYYY-MM-DDThh:mm:ss.sss,
                                            in UTC unless it ends with an offset like +02:00
                  --by-duration <DURATION>  To the first record that is no older than this: PnDTnHnMnS, so PT12H
                                            or P7D
                  --shift-by <COUNT>        Forward by so many records, or back if negative
                  --from-file <FILE>        To the offsets in this CSV file, which also says which partitions

            Offsets before the first one of a partition become the first, those after the last the end; a line
            on standard error says so. Only --to-current keeps what is committed, wherever that is: beyond the
            end NEW-LAG is negative. Where no record is as young as --to-datetime or --by-duration ask for, the
            end is taken.

            --from-file reads lines of TOPIC,PARTITION,OFFSET or GROUP,TOPIC,PARTITION,OFFSET, as --export
            writes them for one group or for several. With --all-groups the groups are those of the file. A
            group that does not exist yet begins with the offsets that it gets.
        "#]],
        &expect![[""]],
    );
}

#[test]
fn bench_help_names_every_scenario() {
    check(
        &kohort(&["bench", "--help"]),
        0,
        &expect![[r#"
            Measure any Kafka: heartbeats, commits, joins, records, memory; alone or side by side

            Usage: kohort bench <COMMAND>

            Commands:
              echo          Frames sent back by a server of our own: the limit on this machine
              heartbeat     Members of groups that say that they are alive
              commit        Members of groups that say how far they have read
              join          Many members start at once, then one more comes
              first-record  A lone consumer, from subscribing to its first record
              churn         One member leaves and comes back
              groups        What idle groups and members cost the server in memory
              latency       One request in flight on one connection
              produce       Record batches that are appended
              consume       Records that are fetched
              connections   Many connections, idle and active
              start         From exec to the first answer
              recovery      From a kill to the first answers about groups
              handoff       The assigner: its plans, and how fast partitions change hands
              help          Print this message or the help of the given subcommand(s)

            Options:
              -h, --help  Print help

            Examples:
              kohort bench heartbeat --groups 1 --members 64 --duration 10s
              kohort bench commit --compare kohort=127.0.0.1:9092,kafka=127.0.0.1:19092
              kohort bench join --members 1000 -o json
              kohort bench heartbeat --groups 1 --sweep members=1,10,100,1000 --report heartbeat.html
              kohort bench start --bootstrap 127.0.0.1:19092 \
                  --command 'kohort --listen 127.0.0.1:19092 --admin none --data-dir /tmp/empty'
              kohort bench handoff --assigner http://127.0.0.1:50051 --bootstrap 127.0.0.1:9092

            Topics and groups that a run needs are made on the server, under names that begin with `bench-`, and
            removed in the end, except by `recovery`, which needs data of its own for each run. A run in which
            any reply is wrong fails and shows no figures.
        "#]],
        &expect![[""]],
    );
}

#[test]
fn wrong_group_commands_exit_with_2_and_say_what_is_missing() {
    let said = |words: &str| {
        let output = kohort(&words.split(' ').collect::<Vec<_>>());
        assert_eq!(output.status.code(), Some(2), "{words}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    for (words, missing) in [
        ("group describe", "<GROUP|--all-groups>"),
        ("group reset billing --to-earliest", "--all-topics"),
        ("group reset billing --topic orders", "--to-earliest"),
        ("group reset billing --topic orders --to-datetime yesterday", "YYYY-MM-DDThh:mm:ss.sss"),
        ("group reset billing --topic orders --by-duration 2h", "PT12H"),
        ("group reset billing --topic orders:x --to-latest", "TOPIC:0,1,2"),
        ("group remove-member billing", "--instance-id"),
        ("group reset billing --topic orders --to-latest --export -o json", "'--export' cannot be used with"),
        ("group list --state busy", "PreparingRebalance"),
        ("group list --type share", "Classic, Consumer"),
    ] {
        let said = said(words);
        assert!(said.contains(missing), "{words}: {said}");
    }
}

#[test]
fn the_version_is_told_in_both_formats() {
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(kohort(&["version"]).stdout, format!("kohort {version}\n").into_bytes());
    let json = kohort(&["version", "-o", "json"]);
    let value: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(value["version"], version);
}

#[test]
fn config_check_shows_what_is_set_and_where() {
    check(
        &kohort_with(
            &["config", "check", "--set", "num.partitions=3", "--listen", "127.0.0.1:0"],
            &[("KOHORT_LOG_RETENTION_HOURS", "24")],
        ),
        0,
        &expect![[r#"
            PROPERTY             VALUE                    SOURCE       DEFAULT                                            NOTE
            listeners            PLAINTEXT://127.0.0.1:0  flag         PLAINTEXT://127.0.0.1:9092,PLAINTEXT://[::1]:9092
            log.retention.hours  24                       environment  168
            num.partitions       3                        flag         1
        "#]],
        &expect![[""]],
    );
}

#[test]
fn config_check_answers_in_json() {
    check(
        &kohort(&["config", "check", "--set", "num.io.threads=3", "-o", "json"]),
        0,
        &expect![[r#"
            [
              {
                "name": "num.io.threads",
                "value": "3",
                "source": "flag",
                "default": "8",
                "effective": false
              }
            ]
        "#]],
        &expect![[""]],
    );
}

#[test]
fn wrong_settings_are_all_told_and_exit_with_2() {
    check(
        &kohort_with(
            &["config", "check", "--set", "num.partition=3", "--set", "num.partitions=0", "--listen", "9092"],
            &[("KOHORT_FLUHS", "os")],
        ),
        2,
        &expect![[""]],
        &expect![[r#"
            kohort: the settings are wrong:
              --listen: 9092 is not a listener: it has no port; expected NAME://host:port
              --set: unknown property num.partition; did you mean num.partitions?
              --set: Invalid value 0 for configuration num.partitions: Value must be at least 1
              KOHORT_FLUHS: unknown setting; did you mean KOHORT_FLUSH?
        "#]],
    );
}

/// A certificate of a day in 2020, and its key, which opens nothing.
const EXPIRED: &str = "\
-----BEGIN CERTIFICATE-----
MIH9MIGwoAMCAQICAQEwBQYDK2VwMAwxCjAIBgNVBAMMAWEwHhcNMjAwMTAxMDAw
MDAwWhcNMjAwMTAyMDAwMDAwWjAMMQowCAYDVQQDDAFhMCowBQYDK2VwAyEAUVHt
gefl5tlD1wn7TugXn4qO/b51E1LCXwwgYGr/QOOjNzA1MBQGA1UdEQQNMAuCCWxv
Y2FsaG9zdDAdBgNVHQ4EFgQUv64u5xkTG0VCpsKBFO4BdoBV5dQwBQYDK2VwA0EA
YmdrpWpipPV+41nkY2KLbgKQgrKE8OTjuZdkuIiq3nMdcAktdxwjcvIO4SHML+D/
Z4U9EMbx7x2dvUFQXXoFAA==
-----END CERTIFICATE-----
-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIEbeJevrUMlOQcx5SU6YwCL42iifkOKJwM814bWBGnu7
-----END PRIVATE KEY-----";

#[test]
fn config_check_warns_of_a_certificate_that_has_expired() {
    let dir = tempfile::tempdir().unwrap();
    let keystore = dir.path().join("server.pem");
    std::fs::write(&keystore, EXPIRED).unwrap();
    let keystore = format!("ssl.keystore.location={}", keystore.display());
    let output = kohort(&["config", "check", "--listen", "SSL://127.0.0.1:0", "--set", &keystore]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.starts_with("kohort: warning: listener SSL: "), "{said}");
    assert!(said.ends_with("the certificate has expired at 2020-01-02T00:00:00.000Z\n"), "{said}");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn serve_refuses_wrong_settings_as_config_check_does() {
    check(
        &kohort(&["--set", "kohort.flush=never"]),
        2,
        &expect![[""]],
        &expect![[r#"
        kohort: --set: Invalid value never for configuration kohort.flush: String must be one of: always, interval, os
    "#]],
    );
}

#[test]
fn wrong_flags_exit_with_2() {
    assert_eq!(kohort(&["--frobnicate"]).status.code(), Some(2));
    assert_eq!(kohort(&["--set", "novalue"]).status.code(), Some(2));
    assert_eq!(kohort(&["topic", "alter", "orders"]).status.code(), Some(2));
}

#[test]
fn every_property_is_listed() {
    let listed = kohort(&["config", "list", "-o", "json"]);
    let properties: Vec<serde_json::Value> = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(properties.len(), coordination::settings::BROKER_PROPERTIES.len());
    let effective = kohort(&["config", "list", "--topic", "--effective"]);
    let text = String::from_utf8(effective.stdout).unwrap();
    assert!(
        text.starts_with("PROPERTY") && text.contains("\nretention.ms ") && !text.contains("no effect"),
        "{text}"
    );
}

#[test]
fn a_server_that_is_not_there_exits_with_3() {
    // Bound and never listened on, so that nobody else gets the port meanwhile.
    let unheard = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    unheard.bind(&"127.0.0.1:0".parse::<std::net::SocketAddr>().unwrap().into()).unwrap();
    let free = unheard.local_addr().unwrap().as_socket().unwrap().to_string();
    let output = kohort(&["topic", "list", "--bootstrap", &free]);
    assert_eq!(output.status.code(), Some(3));
    let said = String::from_utf8_lossy(&output.stderr).replace(&free, "ADDRESS");
    expect![[r#"
        kohort: cannot reach a broker at ADDRESS; is one running there? (Connection refused (os error 111))
    "#]]
    .assert_eq(&said);
}

#[test]
fn a_snapshot_without_a_token_says_where_one_is_looked_for() {
    let empty = tempfile::tempdir().unwrap();
    let dir = empty.path().to_str().unwrap();
    let output = kohort(&["snapshot", "copy", "--data-dir", dir]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).replace(dir, "DIR");
    expect![[r#"
        kohort: read the token in DIR/admin-token: No such file or directory (os error 2); name the broker's data directory with --data-dir, or --token-file
    "#]].assert_eq(&said);
}
