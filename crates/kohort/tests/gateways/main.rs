//! A broker and its gateways as processes of their own.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod process;
mod spans;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use batch::{BatchBuilder, NewRecord};
use client::{Client, Options};

use process::{Broker, Process, gateway_id, kohort, refusal, text};

/// What an admin listener answers, head and all.
fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[tokio::test]
async fn clients_of_a_gateway_reach_the_broker_behind_it() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::start(&dir.path().join("data"), &[]);
    let (gateway, bootstrap) = broker.linked_gateway(&dir.path().join("key"), &[]);
    text(&kohort().args(["topic", "create", "orders", "--bootstrap", &bootstrap]).output().unwrap());
    let mut client = Client::connect(&[bootstrap], Options::default()).await.unwrap();
    let mut batch = BatchBuilder::new(0);
    // More than one frame of the rail.
    let value = vec![7; 700_000];
    for _ in 0..3 {
        batch.push(&NewRecord { timestamp: 1, value: Some(&value), ..NewRecord::default() }).unwrap();
        let full = std::mem::replace(&mut batch, BatchBuilder::new(0));
        client.produce("orders", 0, full.finish().unwrap()).await.unwrap();
    }
    let fetched = client.fetch("orders", 0, 0, Duration::ZERO).await.unwrap();
    assert_eq!((fetched.log_start_offset, fetched.high_watermark), (0, 3));
    drop(client);

    let (status, said) = gateway.end();
    assert!(status.success(), "{said}");
    let (status, said) = broker.process.end();
    assert!(status.success() && said.contains("the log is flushed"), "{said}");
}

#[test]
fn a_gateway_finds_its_broker_again() {
    let dir = tempfile::tempdir().unwrap();
    let (data, key) = (dir.path().join("data"), dir.path().join("key"));
    let broker = Broker::start(&data, &[]);
    let (mut gateway, bootstrap) = broker.linked_gateway(&key, &[]);
    text(&kohort().args(["topic", "create", "before", "--bootstrap", &bootstrap]).output().unwrap());
    let (endpoint, rail) = (broker.endpoint.clone(), broker.rail.clone());
    broker.process.kill();
    gateway.until("the link to the broker broke");
    let admin = gateway.word_after("http://");
    assert!(get(&admin, "/readyz").contains("503"));
    assert!(get(&admin, "/livez").ends_with("alive\n"));

    let broker = Broker::start_at(&data, &rail, &[]);
    assert_eq!(broker.endpoint, endpoint);
    gateway.until("linked to the broker");
    assert!(get(&admin, "/readyz").ends_with("ready\n"));
    let listed = text(&kohort().args(["topic", "list", "--bootstrap", &bootstrap]).output().unwrap());
    assert!(listed.contains("before"), "{listed}");
    assert!(get(&admin, "/metrics").contains("kohort_connections"));
}

#[test]
fn only_gateways_that_are_allowed_get_in_and_only_as_long() {
    let dir = tempfile::tempdir().unwrap();
    let key = dir.path().join("key");
    let mut broker = Broker::start(&dir.path().join("data"), &[]);
    assert!(text(&broker.command(&["list"])).contains("kohort broker allow ID"));
    let id = gateway_id(&key);
    let mut gateway = Process::start(&mut broker.gateway(&key));
    let refused = gateway.until("there is no link to the broker yet");
    assert!(refused.contains(&format!("kohort broker allow {id}")), "{refused}");
    broker.process.until("a gateway was refused");
    let listed = text(&broker.command(&["list", "-o", "json"]));
    assert_eq!(serde_json::from_str::<serde_json::Value>(&listed).unwrap(), serde_json::json!([]));

    let allowed = text(&broker.command(&["allow", &id]));
    assert_eq!(allowed, format!("{id}: allowed, node 2\n"));
    gateway.until("linked to the broker");
    let listed: serde_json::Value =
        serde_json::from_str(&text(&broker.command(&["list", "-o", "json"]))).unwrap();
    assert_eq!((&listed[0]["endpoint_id"], &listed[0]["node_id"]), (&id.as_str().into(), &2.into()));
    assert!(listed[0]["connected"].is_object(), "{listed}");

    assert_eq!(text(&broker.command(&["deny", &id])), format!("{id}: denied, node 2\n"));
    gateway.until("the link to the broker broke");
    gateway.until("has been denied");
    let listed = text(&broker.command(&["list"]));
    assert!(listed.lines().any(|line| line.starts_with(&id) && line.contains("no       no")), "{listed}");
    // It keeps its number when it is let in again.
    assert_eq!(text(&broker.command(&["allow", &id])), format!("{id}: allowed, node 2\n"));
    gateway.until("linked to the broker");

    assert!(refusal(&broker.command(&["allow", "somebody"])).contains("no endpoint id"));
    assert_eq!(broker.command(&["deny", &"ab".repeat(32)]).status.code(), Some(4));
}

#[test]
fn a_key_is_made_once_for_its_owner_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (data, key) = (dir.path().join("data"), dir.path().join("gateway.key"));
    let broker_id = || {
        text(&kohort().args(["broker", "id", "--data-dir"]).arg(&data).output().unwrap()).trim().to_owned()
    };
    let id = broker_id();
    assert_eq!((id.len(), broker_id()), (64, id.clone()));
    assert_eq!(Broker::start(&data, &[]).endpoint, id);
    let gateway = gateway_id(&key);
    assert_eq!(gateway_id(&key), gateway);
    assert_ne!(gateway, id);
    for file in [data.join("rail-key"), key.clone()] {
        assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let from_variable = fs::read_to_string(&key).unwrap();
    let mut command = kohort();
    command.args(["gateway", "id"]).env("KOHORT_GATEWAY_KEY", from_variable.trim());
    assert_eq!(text(&command.output().unwrap()).trim(), gateway);
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let open = refusal(&kohort().args(["gateway", "id", "--key-file"]).arg(&key).output().unwrap());
    assert!(open.contains("chmod 600"), "{open}");
}

#[test]
fn what_a_gateway_or_a_broker_lacks_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let key = dir.path().join("key");
    let id = gateway_id(&key);
    let key = key.to_str().unwrap();
    let broker = format!("{id}@127.0.0.1:9");
    for (args, word) in [
        (vec!["gateway", "--key-file", key], "needs --broker"),
        (vec!["gateway", "--broker", "127.0.0.1:9", "--key-file", key], "--broker: "),
        (vec!["gateway", "--broker", &broker], "kohort gateway id --key-file FILE"),
        (
            vec!["gateway", "--broker", &broker, "--key-file", "/nowhere/key"],
            "there is no key in /nowhere/key",
        ),
        (
            vec!["gateway", "--broker", &broker, "--key-file", key, "--set", "num.partitions=2"],
            "at the broker",
        ),
        (
            vec!["gateway", "--broker", &broker, "--key-file", key, "--listen", "SSL://127.0.0.1:0"],
            "keystore",
        ),
        (vec!["broker"], "--rail-listen ADDR:PORT"),
    ] {
        let output = kohort().args(&args).current_dir(dir.path()).output().unwrap();
        let said = refusal(&output);
        assert!(said.contains(word), "{args:?}: {said}");
        assert_eq!(output.status.code(), Some(2), "{args:?}");
    }
}

#[test]
fn a_broker_with_listeners_takes_gateways_too() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let mut command = kohort();
    command.args([
        "--listen",
        "127.0.0.1:0",
        "--admin",
        "127.0.0.1:0",
        "--set",
        "kohort.rail.listen=127.0.0.1:0",
    ]);
    let mut process = Process::start(command.arg("--data-dir").arg(&data));
    process.until("ready in ");
    let (own, admin) = (process.word_after("bootstrap.servers="), process.word_after("http://"));
    let broker = format!("{}@{}", process.word_after("  endpoint "), process.word_after("  rail "));
    let key = dir.path().join("key");
    let mut allow = kohort();
    allow.args(["broker", "allow", &gateway_id(&key), "--admin", &admin, "--data-dir"]).arg(&data);
    text(&allow.output().unwrap());
    let mut gateway = kohort();
    gateway.args(["gateway", "--listen", "127.0.0.1:0", "--broker", &broker, "--key-file"]).arg(&key);
    let mut gateway = Process::start(&mut gateway);
    gateway.until("bootstrap.servers=");
    gateway.until("linked to the broker");
    let through = gateway.word_after("bootstrap.servers=");
    text(&kohort().args(["topic", "create", "orders", "--bootstrap", &own]).output().unwrap());
    let listed = text(&kohort().args(["topic", "list", "--bootstrap", &through]).output().unwrap());
    assert!(listed.contains("orders"), "{listed}");
    let (status, said) = process.end();
    assert!(status.success(), "{said}");
}
