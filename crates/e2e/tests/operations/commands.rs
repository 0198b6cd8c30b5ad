//! What commands, pages and clients are told.

use std::time::Duration;

use batch::Codec;
use e2e::kohort::{Kohort, Options};
use rdkafka::ClientConfig;
use rdkafka::error::KafkaError;
use rdkafka::producer::{BaseProducer, Producer};
use serde_json::{Value, json};

use crate::metrics;
use crate::support::{Connection, batch_of, code, get, kohort, one, wait_until};

#[test]
fn health_and_metrics_tell_what_the_broker_does() {
    let broker = Kohort::start(Options::default()).unwrap();
    assert_eq!(get(&broker.admin(), "/livez"), (200, "alive\n".to_owned()));
    wait_until("the broker is ready", || get(&broker.admin(), "/readyz") == (200, "ready\n".to_owned()));
    assert_eq!(get(&broker.admin(), "/nothing").0, 404);

    let mut client = Connection::open(&broker.bootstrap());
    client.create_topic("t", 1);
    client.produce("t", 0, one("first")).unwrap();
    let before = metrics(&broker);
    for _ in 0..7 {
        client.produce("t", 0, one("more")).unwrap();
    }
    client.values("t", 0, 0).unwrap();
    client.produce("t", 9, one("nowhere")).unwrap_err();
    let after = metrics(&broker);
    let grown = |name: &str| after.get(name).unwrap_or(&0.0) - before.get(name).unwrap_or(&0.0);
    let exactly = |name: &str, count: f64| {
        assert!((grown(name) - count).abs() < 0.5, "{name} grew by {} instead of {count}", grown(name));
    };
    exactly("kohort_requests_total{api=\"Produce\",error=\"NONE\"}", 7.0);
    exactly("kohort_requests_total{api=\"Produce\",error=\"UNKNOWN_TOPIC_OR_PARTITION\"}", 1.0);
    exactly("kohort_requests_total{api=\"Fetch\",error=\"NONE\"}", 2.0);
    exactly("kohort_request_latency_seconds_count{api=\"Produce\"}", 8.0);
    exactly("kohort_log_appends_total", 7.0);
    // One after the other, so each has a sync of its own.
    exactly("kohort_log_sync_seconds_count", 7.0);
    exactly("kohort_log_sync_seconds_bucket{le=\"+Inf\"}", 7.0);
    assert!(grown("kohort_log_sync_seconds_sum") > 0.0);
    assert!(
        grown("kohort_received_bytes_total") > 7.0 * 60.0 && grown("kohort_sent_bytes_total") > 7.0 * 30.0
    );
}

#[test]
fn topics_are_created_listed_described_altered_and_deleted_by_commands() {
    let broker = Kohort::start(Options::default()).unwrap();
    let address = broker.bootstrap();
    let topic = |arguments: &[&str]| {
        let done = kohort(&[&["topic"], arguments, &["-b", &address, "-o", "json"]].concat());
        let value = serde_json::from_str(&done.stdout).unwrap_or(Value::Null);
        (code(&done), value, done.stderr)
    };
    let outcome = |value: &str| json!({ "topic": "orders", "outcome": value });

    let create = ["create", "orders", "--partitions", "3", "--config", "retention.ms=60000"];
    assert_eq!(topic(&create), (Some(0), outcome("created"), String::new()));
    let (exit, _, complaint) = topic(&create);
    assert_eq!(exit, Some(4), "{complaint}");
    assert!(complaint.contains("orders"), "{complaint}");
    assert_eq!(
        topic(&["create", "orders", "--if-not-exists"]),
        (Some(0), outcome("exists already"), String::new())
    );
    let (exit, _, complaint) = topic(&["create", "other", "--config", "retention.mss=1"]);
    assert_eq!(exit, Some(1));
    assert!(complaint.contains("did you mean retention.ms?"), "{complaint}");
    let (exit, _, complaint) = topic(&["create", "no/name"]);
    assert_eq!(exit, Some(1), "{complaint}");
    assert_eq!(topic(&["create", "orders", "--partitions", "0"]).0, Some(2));

    let (exit, listed, _) = topic(&["list"]);
    assert_eq!(exit, Some(0));
    let names: Vec<_> = listed.as_array().unwrap().iter().map(|topic| &topic["name"]).collect();
    assert_eq!(names, ["orders"]);
    assert_eq!((&listed[0]["partitions"], &listed[0]["internal"]), (&json!(3), &json!(false)));
    assert!(listed[0]["id"].as_str().unwrap().starts_with("top_"), "{listed}");

    Connection::open(&address).produce("orders", 1, batch_of(&["a", "b"], Codec::None)).unwrap();
    let (exit, described, _) = topic(&["describe", "orders"]);
    assert_eq!(exit, Some(0));
    let ends: Vec<_> = described[0]["partitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|partition| &partition["end_offset"])
        .collect();
    assert_eq!(ends, [0, 2, 0]);
    assert_eq!(described[0]["configs"], json!({ "retention.ms": "60000" }));
    assert_eq!(topic(&["describe", "unheard-of"]).0, Some(4));

    let alter = [
        "alter",
        "orders",
        "--partitions",
        "5",
        "--config",
        "segment.bytes=2000000",
        "--delete-config",
        "retention.ms",
    ];
    assert_eq!(topic(&alter), (Some(0), outcome("altered"), String::new()));
    let (_, described, _) = topic(&["describe", "orders"]);
    assert_eq!(described[0]["partitions"].as_array().unwrap().len(), 5);
    assert_eq!(described[0]["configs"], json!({ "segment.bytes": "2000000" }));
    assert_eq!(topic(&["alter", "orders", "--partitions", "2"]).0, Some(1), "partitions only become more");
    assert_eq!(topic(&["alter", "unheard-of", "--config", "retention.ms=1"]).0, Some(4));
    assert_eq!(topic(&["alter", "orders"]).0, Some(2), "nothing to alter is wrong usage");

    assert_eq!(topic(&["delete", "orders"]), (Some(0), outcome("deleted"), String::new()));
    assert_eq!(topic(&["delete", "orders"]).0, Some(4));
    assert_eq!(topic(&["delete", "orders", "--if-exists"]).0, Some(0));
    assert_eq!(topic(&["list"]).1, json!([]));

    drop(broker);
    assert_eq!(topic(&["list", "--timeout", "1"]).0, Some(3), "nobody is there");
}

#[test]
fn a_transactional_producer_is_refused_at_once_and_in_words() {
    let kohort = Kohort::start(Options::default()).unwrap();
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", kohort.bootstrap())
        .set("transactional.id", "payments")
        .create()
        .unwrap();
    // The time only bounds the test: a client that tried again and again would use it up and say so.
    let error = producer.init_transactions(Duration::from_secs(60)).unwrap_err();
    let KafkaError::Transaction(error) = error else { panic!("{error:?}") };
    assert!(!error.is_retriable(), "{error:?}");
}
