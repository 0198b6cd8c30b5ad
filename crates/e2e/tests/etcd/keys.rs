//! Guards, pages and leases.

use std::time::Duration;

use bytes::Bytes;
use etcd::{EtcdError, KeyChange, Outcome, Update, Write};

use crate::world::{Reflection, connect, delete, guard, node, put, within, write};

#[tokio::test]
async fn a_transaction_writes_all_or_nothing() {
    let node = node();
    let etcd = connect(&[node.url()]);
    let first =
        etcd.transact(&[guard("a", 0), guard("b", 0)], &[put("a", "1"), put("b", "1")]).await.unwrap();
    let Outcome::Committed { revision } = first else { panic!("{first:?}") };
    assert_eq!(etcd.get("a").await.unwrap().unwrap().modified, revision);

    let second =
        etcd.transact(&[guard("b", revision), guard("a", 0)], &[delete("b"), put("c", "1")]).await.unwrap();
    assert_eq!(second, Outcome::Refused { revision });
    assert!(etcd.get("b").await.unwrap().is_some());
    assert_eq!(etcd.get("c").await.unwrap(), None);

    let third = etcd.transact(&[guard("b", revision)], &[delete("b")]).await.unwrap();
    assert_eq!(third, Outcome::Committed { revision: revision + 1 });
    assert_eq!(etcd.revision().await.unwrap(), revision + 1);
    assert_eq!(etcd.get("b").await.unwrap(), None);
}

#[tokio::test]
async fn guards_are_checked_when_there_is_nothing_to_write() {
    let node = node();
    let etcd = connect(&[node.url()]);
    let revision = write(&etcd, &[put("a", "1")]).await;
    assert_eq!(etcd.transact(&[guard("a", revision)], &[]).await.unwrap(), Outcome::Committed { revision });
    assert_eq!(etcd.transact(&[guard("a", 0)], &[]).await.unwrap(), Outcome::Refused { revision });
}

#[tokio::test]
async fn what_etcd_does_not_allow_is_said_as_it_says_it() {
    let node = node();
    let etcd = connect(&[node.url()]);
    let many: Vec<Write> = (0..129).map(|index| put(&index.to_string(), "")).collect();
    let error = etcd.transact(&[], &many).await.unwrap_err();
    assert!(error.to_string().contains("too many operations"), "{error}");
    assert!(!error.is_transient());
    let large = Write::Put { key: "a".to_owned(), value: Bytes::from(vec![0; 3 << 20]), lease: None };
    let error = etcd.transact(&[], &[large]).await.unwrap_err();
    assert!(matches!(&error, EtcdError::Refused(reason) if reason.contains("larger than max")), "{error}");
}

#[tokio::test]
async fn a_prefix_of_many_pages_is_read_as_of_one_revision() {
    const KEYS: usize = 5000;
    let node = node();
    let etcd = connect(&[node.url()]);
    let keys: Vec<String> = (0..KEYS).map(|index| format!("/many/{index:05}")).collect();
    for chunk in keys.chunks(128) {
        write(&etcd, &chunk.iter().map(|key| put(key, "0")).collect::<Vec<_>>()).await;
    }
    write(&etcd, &[put("/manz", ""), put("/man", "")]).await;
    // The ends of the prefix always change together, so a read that takes them at different times shows.
    let ends = [keys[0].clone(), keys[KEYS - 1].clone()];
    write(&etcd, &ends.each_ref().map(|key| put(key, "0"))).await;
    let writer = tokio::spawn({
        let etcd = etcd.clone();
        async move {
            for count in 1_u64.. {
                write(&etcd, &ends.each_ref().map(|key| put(key, &count.to_string()))).await;
            }
        }
    });
    for _ in 0..5 {
        let snapshot = etcd.read("/many/").await.unwrap();
        let found: Vec<&String> = snapshot.entries.iter().map(|it| &it.key).collect();
        assert_eq!(found, keys.iter().collect::<Vec<_>>());
        let (first, last) = (&snapshot.entries[0], &snapshot.entries[KEYS - 1]);
        assert_eq!((first.modified, &first.value), (last.modified, &last.value));
        assert!(snapshot.revision >= first.modified);
    }
    writer.abort();
}

#[tokio::test]
async fn values_that_fill_more_than_one_answer_are_read() {
    let node = node();
    let etcd = connect(&[node.url()]);
    let value = Bytes::from(vec![7; 1 << 20]);
    for index in 0..70 {
        let key = format!("/large/{index:02}");
        write(&etcd, &[Write::Put { key, value: value.clone(), lease: None }]).await;
    }
    let snapshot = etcd.read("/large/").await.unwrap();
    assert_eq!(snapshot.entries.len(), 70);
    assert!(snapshot.entries.iter().all(|it| it.value == value));
}

#[tokio::test]
async fn a_lease_that_nobody_renews_takes_its_keys_with_it() {
    let node = node();
    let etcd = connect(&[node.url()]);
    let mut mirror = etcd.mirror("/leased/");
    let mut reflection = Reflection::default();
    let lease = etcd.grant(Duration::from_secs(4)).await.unwrap();
    let writes = [Write::Put { key: "/leased/a".to_owned(), value: Bytes::new(), lease: Some(lease) }];
    write(&etcd, &writes).await;
    let entry = etcd.get("/leased/a").await.unwrap().unwrap();
    assert_eq!(entry.lease, lease);
    loop {
        if let Update::Changes { changes, .. } = reflection.next(&mut mirror).await
            && matches!(&changes[..], [.., KeyChange::Deleted { key, .. }] if key == "/leased/a")
        {
            break;
        }
    }
    assert_eq!(etcd.keep_alive(lease).await.unwrap(), None);
    assert_eq!(etcd.transact(&[], &writes).await.unwrap_err(), EtcdError::LeaseGone);
}

#[tokio::test]
async fn a_lease_that_is_renewed_lives_until_it_is_revoked() {
    let node = node();
    let etcd = connect(&[node.url()]);
    let lease = etcd.grant(Duration::from_secs(4)).await.unwrap();
    let longer = etcd.grant(Duration::from_secs(6)).await.unwrap();
    let leased =
        |key: &str, lease| Write::Put { key: key.to_owned(), value: Bytes::new(), lease: Some(lease) };
    write(&etcd, &[leased("a", lease), leased("b", longer)]).await;
    // Until another one has ended that lasts longer by itself.
    while etcd.get("b").await.unwrap().is_some() {
        let ttl = within("a renewal", etcd.keep_alive(lease)).await.unwrap();
        assert_eq!(ttl, Some(Duration::from_secs(4)));
    }
    assert!(etcd.get("a").await.unwrap().is_some());
    etcd.revoke(lease).await.unwrap();
    assert_eq!(etcd.get("a").await.unwrap(), None);
    etcd.revoke(lease).await.unwrap();
    assert_eq!(etcd.keep_alive(lease).await.unwrap(), None);
}

#[tokio::test]
async fn who_cannot_be_reached_is_named() {
    let [one, other] = e2e::ports::lasting_ports().unwrap();
    let endpoints = vec![one.to_string(), other.to_string()];
    let timeout = Duration::from_millis(300);
    let etcd = etcd::Etcd::new(etcd::Options { endpoints, timeout, ..etcd::Options::default() }).unwrap();
    let error = etcd.revision().await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains(&one.to_string()) && text.contains(&other.to_string()), "{text}");
    assert!(matches!(error, EtcdError::Unreachable { .. }) && error.is_transient());
    let error = etcd.transact(&[], &[put("a", "")]).await.unwrap_err();
    assert!(matches!(error, EtcdError::Unreachable { .. }), "{error}");
}
