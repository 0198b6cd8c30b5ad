//! Three nodes, of which one may fail.

use std::time::Duration;

use bytes::Bytes;
use e2e::etcd::EtcdCluster;
use etcd::{Candidacy, Election, Etcd, EtcdError, Leadership, Options};

use crate::world::{Reflection, connect, put, within, without_fsync};

/// Writes until it is taken.
async fn write_again(etcd: &Etcd, key: &str, value: &str) -> u64 {
    within("a write to be taken", async {
        loop {
            match etcd.transact(&[], &[put(key, value)]).await {
                Ok(etcd::Outcome::Committed { revision }) => return revision,
                Ok(outcome) => panic!("{outcome:?}"),
                Err(error) => assert!(error.is_transient(), "{error}"),
            }
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_goes_on_when_the_leader_of_etcd_is_killed() {
    let mut cluster = EtcdCluster::start(&without_fsync()).unwrap();
    let etcd = connect(&cluster.urls());
    let mut mirror = etcd.mirror("/m/");
    let mut reflection = Reflection::default();
    reflection.next(&mut mirror).await;
    let election = Election::start(
        &etcd,
        Candidacy {
            key: "/leader".to_owned(),
            value: Bytes::from_static(b"a"),
            ttl: Duration::from_secs(30),
            keep_alive_interval: Duration::from_secs(1),
            retry_interval: Duration::from_secs(1),
        },
    );
    let mut leadership = election.leadership();
    let is_leading = |it: &Leadership| matches!(it, Leadership::Leading { .. });
    let before = within("leadership", leadership.wait_for(is_leading)).await.unwrap().clone();

    let leader = cluster.leader(&[0, 1, 2]).unwrap();
    cluster.nodes[leader].kill().unwrap();
    let revision = write_again(&etcd, "/m/a", "1").await;
    reflection.reach(&mut mirror, revision).await;
    assert_eq!(reflection.snapshots, 1);
    assert_eq!(*leadership.borrow(), before, "the lease has outlived the leader of etcd");

    cluster.nodes[leader].restart().unwrap();
    write_again(&etcd, "/m/b", "1").await;
    reflection.is_the_same_as(&mut mirror, &etcd, "/m/").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_hangs_holds_nobody_up() {
    let cluster = EtcdCluster::start(&without_fsync()).unwrap();
    let mut paused_before = None;
    for _ in 0..2 {
        // It may be another one by now.
        let leader = cluster.leader(&[0, 1, 2]).unwrap();
        let paused = (0..3).find(|index| *index != leader && Some(*index) != paused_before).unwrap();
        paused_before = Some(paused);
        // Each client begins with one of the members; some of these with the one that hangs.
        let clients: Vec<Etcd> = (0..6).map(|_| connect(&cluster.urls())).collect();
        let mut mirrors = Vec::new();
        for etcd in &clients {
            let mut mirror = etcd.mirror("/m/");
            let mut reflection = Reflection::default();
            reflection.next(&mut mirror).await;
            mirrors.push((mirror, reflection));
        }
        cluster.nodes[paused].pause().unwrap();
        for etcd in &clients {
            within("a read", etcd.revision()).await.unwrap();
        }
        // By now everyone has turned to another member.
        let revision = write_again(&clients[0], "/m/a", &paused.to_string()).await;
        for (mirror, reflection) in &mut mirrors {
            reflection.reach(mirror, revision).await;
            assert_eq!(reflection.snapshots, 1);
        }
        cluster.nodes[paused].resume().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_is_left_alone_says_so_and_all_goes_on_when_the_others_are_back() {
    let cluster = EtcdCluster::start(&without_fsync()).unwrap();
    let leader = cluster.leader(&[0, 1, 2]).unwrap();
    let alone = (leader + 1) % 3;
    let endpoints = vec![cluster.nodes[alone].url()];
    let etcd =
        Etcd::new(Options { endpoints, timeout: Duration::from_secs(3), ..Options::default() }).unwrap();
    let mut mirror = etcd.mirror("/m/");
    let mut reflection = Reflection::default();
    reflection.next(&mut mirror).await;
    for index in (0..3).filter(|index| *index != alone) {
        cluster.nodes[index].pause().unwrap();
    }
    while reflection.interruptions == 0 {
        reflection.next(&mut mirror).await;
    }
    let error = etcd.transact(&[], &[put("/m/a", "1")]).await.unwrap_err();
    assert!(matches!(error, EtcdError::Failed { .. } | EtcdError::TimedOut { .. }), "{error}");
    for index in (0..3).filter(|index| *index != alone) {
        cluster.nodes[index].resume().unwrap();
    }
    write_again(&etcd, "/m/a", "2").await;
    reflection.is_the_same_as(&mut mirror, &etcd, "/m/").await;
}
