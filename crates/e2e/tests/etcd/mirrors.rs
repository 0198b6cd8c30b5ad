//! A mirror shows every change once, in order, whatever happens to the connection.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use e2e::relay::Relay;
use etcd::{Etcd, KeyChange, Update, Write};

use crate::world::{Reflection, connect, delete, guard, node, put, within, write};

#[tokio::test]
async fn a_mirror_begins_with_what_is_there() {
    let node = node();
    let etcd = connect(&[node.url()]);
    write(&etcd, &[put("/m/a", "1"), put("/m/b", "2"), put("/n", "3")]).await;
    let mut mirror = etcd.mirror("/m/");
    let mut reflection = Reflection::default();
    let first = reflection.next(&mut mirror).await;
    assert!(matches!(&first, Update::Snapshot(it) if it.entries.len() == 2), "{first:?}");
    let revision = write(&etcd, &[put("/m/a", "3"), delete("/m/b"), put("/n", "4")]).await;
    let second = reflection.next(&mut mirror).await;
    let Update::Changes { revision: seen, changes } = second else { panic!("{second:?}") };
    assert_eq!(seen, revision);
    assert!(matches!(&changes[..], [KeyChange::Put(a), KeyChange::Deleted { key, revision: at }]
        if a.key == "/m/a" && a.value == "3" && key == "/m/b" && *at == revision));
}

#[tokio::test]
async fn a_mirror_gets_to_a_revision_that_changed_nothing_below_its_prefix() {
    let node = node();
    let etcd = connect(&[node.url()]);
    let mut mirror = etcd.mirror("/m/");
    let mut reflection = Reflection::default();
    reflection.next(&mut mirror).await;
    // Another side writes, and this one only asks how far etcd is.
    let revision = write(&connect(&[node.url()]), &[put("/elsewhere", "")]).await;
    assert_eq!(etcd.revision().await.unwrap(), revision);
    assert_eq!(reflection.next(&mut mirror).await, Update::Current { revision });
}

/// Counts up in each of some keys, one transaction after the other, so that history has no gap and no repetition.
async fn count_up(etcd: Etcd, keys: Vec<String>, is_over: Arc<AtomicBool>) -> u64 {
    let mut count: u64 = 0;
    while !is_over.load(Ordering::Relaxed) {
        // What became of the last transaction is not known after an error.
        let Ok(found) = etcd.get(&keys[0]).await else { continue };
        let modified = found.as_ref().map_or(0, |it| it.modified);
        count = found.map_or(0, |it| String::from_utf8(it.value.to_vec()).unwrap().parse().unwrap());
        let writes: Vec<Write> = keys.iter().map(|key| put(key, &(count + 1).to_string())).collect();
        if etcd.transact(&[guard(&keys[0], modified)], &writes).await.is_ok() {
            count += 1;
        }
    }
    count
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_change_is_seen_once_and_in_order_though_etcd_is_killed() {
    // What was acknowledged has to survive here, so the disk is waited for.
    let mut node = e2e::etcd::Etcd::start(&e2e::etcd::Options::default()).unwrap();
    let etcd = connect(&[node.url()]);
    let is_over = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let keys = (0..3).map(|key| format!("/count/{writer}-{key}")).collect();
            tokio::spawn(count_up(etcd.clone(), keys, Arc::clone(&is_over)))
        })
        .collect();
    let watching = tokio::spawn({
        let etcd = etcd.clone();
        async move {
            let mut mirror = etcd.mirror("/count/");
            let mut reflection = Reflection::default();
            let mut counts: BTreeMap<String, u64> = BTreeMap::new();
            loop {
                let value = |bytes: &Bytes| -> u64 { std::str::from_utf8(bytes).unwrap().parse().unwrap() };
                match reflection.next(&mut mirror).await {
                    Update::Snapshot(snapshot) => {
                        for entry in snapshot.entries {
                            counts.insert(entry.key, value(&entry.value));
                        }
                    }
                    Update::Changes { changes, .. } => {
                        for change in changes {
                            match change {
                                KeyChange::Put(entry) => {
                                    let before = counts.insert(entry.key.clone(), value(&entry.value));
                                    assert_eq!(value(&entry.value), before.unwrap_or(0) + 1, "{}", entry.key);
                                }
                                KeyChange::Deleted { key, .. } if key == "/count/end" => {
                                    return (reflection, counts);
                                }
                                KeyChange::Deleted { key, .. } => panic!("{key} was deleted"),
                            }
                        }
                    }
                    Update::Current { .. } | Update::Interrupted(_) => {}
                }
            }
        }
    });
    for _ in 0..3 {
        let before = within("etcd", etcd.revision()).await.unwrap();
        while etcd.revision().await.unwrap() < before + 200 {}
        node.kill().unwrap();
        node.restart().unwrap();
    }
    is_over.store(true, Ordering::Relaxed);
    let mut expected = BTreeMap::new();
    for (index, writer) in writers.into_iter().enumerate() {
        let count = writer.await.unwrap();
        expected.extend((0..3).map(|key| (format!("/count/{index}-{key}"), count)));
    }
    write(&etcd, &[put("/count/end", "1")]).await;
    write(&etcd, &[delete("/count/end")]).await;
    let (reflection, mut counts) = within("the end of the mirror", watching).await.unwrap();
    counts.remove("/count/end");
    assert_eq!(counts, expected);
    assert_eq!(reflection.snapshots, 1, "nothing was compacted, so nothing is read again");
    assert!(reflection.interruptions >= 3, "{reflection:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_reader_gets_complete_revisions_in_the_end() {
    const ROUNDS: u8 = 60;
    let node = node();
    let etcd = connect(&[node.url()]);
    let mut mirror = etcd.mirror("/slow/");
    let mut reflection = Reflection::default();
    reflection.next(&mut mirror).await;
    // More than fits on the way, so etcd has to hold it, and large enough to come in parts.
    let mut last = 0;
    for round in 0..ROUNDS {
        let value = Bytes::from(vec![round; 400_000]);
        let puts = ["/slow/a", "/slow/b", "/slow/c"];
        let puts = puts.map(|key| Write::Put { key: key.to_owned(), value: value.clone(), lease: None });
        last = write(&etcd, &puts).await;
    }
    while reflection.revision < last {
        if let Update::Changes { changes, .. } = reflection.next(&mut mirror).await {
            assert_eq!(changes.len() % 3, 0, "a revision came in parts");
        }
    }
    assert_eq!((reflection.snapshots, reflection.interruptions), (1, 0));
    reflection.is_the_same_as(&mut mirror, &etcd, "/slow/").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mirror_that_lost_its_connection_goes_on_where_it_was() {
    let node = node();
    let relay = Relay::start(node.address()).unwrap();
    let etcd = connect(&[node.url()]);
    let mut mirror = connect(&[relay.address().to_string()]).mirror("/m/");
    let mut reflection = Reflection::default();
    reflection.next(&mut mirror).await;
    write(&etcd, &[put("/m/a", "1")]).await;
    reflection.next(&mut mirror).await;

    relay.cut();
    let update = reflection.next(&mut mirror).await;
    assert!(matches!(update, Update::Interrupted(_)), "{update:?}");
    relay.mend();
    // Nothing has happened meanwhile, and that is said.
    loop {
        match reflection.next(&mut mirror).await {
            Update::Interrupted(_) => {}
            Update::Current { .. } => break,
            update => panic!("{update:?}"),
        }
    }

    relay.cut();
    while !matches!(reflection.next(&mut mirror).await, Update::Interrupted(_)) {}
    write(&etcd, &[put("/m/a", "2")]).await;
    write(&etcd, &[delete("/m/a"), put("/m/b", "1")]).await;
    relay.mend();
    reflection.is_the_same_as(&mut mirror, &etcd, "/m/").await;
    assert_eq!(reflection.snapshots, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_on_which_nothing_passes_is_noticed() {
    let node = node();
    let relay = Relay::start(node.address()).unwrap();
    let etcd = connect(&[node.url()]);
    let mut mirror = connect(&[relay.address().to_string()]).mirror("/m/");
    let mut reflection = Reflection::default();
    reflection.next(&mut mirror).await;
    relay.freeze();
    let update = reflection.next(&mut mirror).await;
    assert!(matches!(update, Update::Interrupted(_)), "{update:?}");
    write(&etcd, &[put("/m/a", "1")]).await;
    relay.mend();
    reflection.is_the_same_as(&mut mirror, &etcd, "/m/").await;
    assert_eq!(reflection.snapshots, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_compacted_away_meanwhile_is_read_anew() {
    let node = node();
    let relay = Relay::start(node.address()).unwrap();
    let etcd = connect(&[node.url()]);
    let mut mirror = connect(&[relay.address().to_string()]).mirror("/m/");
    let mut reflection = Reflection::default();
    reflection.next(&mut mirror).await;
    write(&etcd, &[put("/m/a", "1"), put("/m/b", "1")]).await;
    reflection.next(&mut mirror).await;
    relay.cut();
    write(&etcd, &[put("/m/a", "2")]).await;
    let last = write(&etcd, &[delete("/m/b"), put("/m/c", "1")]).await;
    node.compact(last).unwrap();
    relay.mend();
    reflection.is_the_same_as(&mut mirror, &etcd, "/m/").await;
    assert_eq!(reflection.snapshots, 2);
    // And it goes on from there.
    write(&etcd, &[put("/m/d", "1")]).await;
    reflection.is_the_same_as(&mut mirror, &etcd, "/m/").await;
    assert_eq!(reflection.snapshots, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compaction_under_a_reader_that_stands_still_loses_nothing() {
    let node = node();
    let etcd = connect(&[node.url()]);
    let mut mirror = etcd.mirror("/m/");
    let mut reflection = Reflection::default();
    reflection.next(&mut mirror).await;
    // Far more than fits on the way to the reader, so that etcd compacts what it has yet to send.
    let mut last = 0;
    for round in 0..80 {
        let value = Bytes::from(vec![round; 1_000_000]);
        last = write(&etcd, &[Write::Put { key: format!("/m/{}", round % 5), value, lease: None }]).await;
    }
    node.compact(last).unwrap();
    write(&etcd, &[delete("/m/0")]).await;
    reflection.is_the_same_as(&mut mirror, &etcd, "/m/").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_etcd_that_has_forgotten_is_read_anew() {
    let mut node = node();
    let etcd = connect(&[node.url()]);
    let mut mirror = etcd.mirror("/m/");
    write(&etcd, &[put("/m/a", "1")]).await;
    write(&etcd, &[put("/m/b", "1")]).await;
    let mut reflection = Reflection::default();
    while reflection.values.len() < 2 {
        reflection.next(&mut mirror).await;
    }
    node.kill().unwrap();
    node.forget().unwrap();
    node.restart().unwrap();
    write(&etcd, &[put("/m/c", "1")]).await;
    let found = within("a new snapshot", async {
        loop {
            if let Update::Snapshot(snapshot) = mirror.next().await {
                break snapshot;
            }
        }
    })
    .await;
    assert!(found.entries.iter().all(|it| it.key == "/m/c"), "{found:?}");
}
