//! One leads, and there is always another.

use std::time::Duration;

use bytes::Bytes;
use e2e::relay::Relay;
use etcd::{Candidacy, Election, Etcd, Guard, Leadership, Outcome};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::world::{connect, delete, node, put, within, write};

fn candidacy(name: &str, ttl: Duration) -> Candidacy {
    Candidacy {
        key: "/leader".to_owned(),
        value: Bytes::copy_from_slice(name.as_bytes()),
        ttl,
        keep_alive_interval: ttl / 3,
        // So long that nothing below happens because of it.
        retry_interval: Duration::from_secs(600),
    }
}

fn stand(etcd: &Etcd, name: &str, ttl: Duration) -> Election {
    Election::start(etcd, candidacy(name, ttl))
}

async fn until_leading(leadership: &mut watch::Receiver<Leadership>) -> Guard {
    let leading =
        within("leadership", leadership.wait_for(|it| matches!(it, Leadership::Leading { .. }))).await;
    match &*leading.unwrap() {
        Leadership::Leading { guard } => guard.clone(),
        Leadership::Following { .. } => unreachable!(),
    }
}

async fn until_following(leadership: &mut watch::Receiver<Leadership>, leader: Option<&str>) {
    let expected =
        Leadership::Following { leader: leader.map(|name| Bytes::copy_from_slice(name.as_bytes())) };
    within("the leader to be known", leadership.wait_for(|it| *it == expected)).await.unwrap();
}

#[tokio::test]
async fn one_leads_and_the_others_know_whom() {
    let node = node();
    let etcd = connect(&[node.url()]);
    let first = stand(&etcd, "a", Duration::from_secs(30));
    until_leading(&mut first.leadership()).await;
    let second = stand(&connect(&[node.url()]), "b", Duration::from_secs(30));
    until_following(&mut second.leadership(), Some("a")).await;
    let entry = etcd.get("/leader").await.unwrap().unwrap();
    assert_eq!(entry.value, "a");
    assert_ne!(entry.lease, 0);
}

#[tokio::test]
async fn whoever_resigns_is_followed_at_once() {
    // Nobody would wait for this to end.
    let ttl = Duration::from_secs(600);
    let node = node();
    let etcd = connect(&[node.url()]);
    let first = stand(&etcd, "a", ttl);
    let mut was_first = first.leadership();
    until_leading(&mut was_first).await;
    let second = stand(&etcd, "b", ttl);
    until_following(&mut second.leadership(), Some("a")).await;
    first.resign().await;
    assert_eq!(*was_first.borrow(), Leadership::Following { leader: None });
    until_leading(&mut second.leadership()).await;
    second.resign().await;
    assert_eq!(etcd.get("/leader").await.unwrap(), None);
}

#[tokio::test]
async fn whoever_is_not_fit_leaves_it_to_another_and_does_not_stand() {
    // Nobody would wait for this to end.
    let ttl = Duration::from_secs(600);
    let node = node();
    let etcd = connect(&[node.url()]);
    let first = stand(&etcd, "a", ttl);
    until_leading(&mut first.leadership()).await;
    let second = stand(&etcd, "b", ttl);
    until_following(&mut second.leadership(), Some("a")).await;
    first.fitness().send_replace(false);
    until_leading(&mut second.leadership()).await;
    until_following(&mut first.leadership(), Some("b")).await;
    second.resign().await;
    until_following(&mut first.leadership(), None).await;
    assert_eq!(etcd.get("/leader").await.unwrap(), None, "nobody who is fit is left");
    first.fitness().send_replace(true);
    until_leading(&mut first.leadership()).await;
}

#[tokio::test]
async fn a_leader_that_vanishes_is_followed_when_its_lease_ends() {
    let ttl = Duration::from_secs(9);
    let node = node();
    let etcd = connect(&[node.url()]);
    let first = stand(&etcd, "a", ttl);
    let mut was_first = first.leadership();
    let guard = until_leading(&mut was_first).await;
    let second = stand(&etcd, "b", ttl);
    until_following(&mut second.leadership(), Some("a")).await;
    drop(first);
    // Its lease is still there, and renewed here, so that it is known how long it lasts.
    let lease = etcd.get("/leader").await.unwrap().unwrap().lease;
    let renewed = Instant::now();
    assert_eq!(etcd.keep_alive(lease).await.unwrap(), Some(ttl));
    let next = until_leading(&mut second.leadership()).await;
    assert!(renewed.elapsed() >= ttl, "{:?}", renewed.elapsed());
    // A reader that is left behind does not take itself for the leader.
    assert_eq!(*was_first.borrow(), Leadership::Following { leader: None });
    // And a write of the old leader that comes late does nothing.
    let late = etcd.transact(&[guard], &[put("/x", "late")]).await.unwrap();
    assert!(matches!(late, Outcome::Refused { .. }));
    let write = etcd.transact(&[next], &[put("/x", "new")]).await.unwrap();
    assert!(matches!(write, Outcome::Committed { .. }));
}

#[tokio::test]
async fn leadership_lasts_while_it_is_renewed() {
    let ttl = Duration::from_secs(10);
    let node = node();
    let etcd = connect(&[node.url()]);
    let election = stand(&etcd, "a", ttl);
    let guard = until_leading(&mut election.leadership()).await;
    // A longer lease that nobody renews shows that the time of the leader's own is over.
    let lease = etcd.grant(ttl + Duration::from_secs(2)).await.unwrap();
    let clock = etcd::Write::Put { key: "/clock".to_owned(), value: Bytes::new(), lease: Some(lease) };
    write(&etcd, &[clock]).await;
    let mut mirror = etcd.mirror("/clock");
    within("the clock to run out", async {
        while !matches!(mirror.next().await, etcd::Update::Changes { .. }) {}
    })
    .await;
    assert_eq!(*election.leadership().borrow(), Leadership::Leading { guard: guard.clone() });
    let outcome = etcd.transact(&[guard], &[put("/x", "")]).await.unwrap();
    assert!(matches!(outcome, Outcome::Committed { .. }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_cut_off_stops_before_another_begins() {
    let ttl = Duration::from_secs(6);
    let node = node();
    let relay = Relay::start(node.address()).unwrap();
    let first = stand(&connect(&[relay.address().to_string()]), "a", ttl);
    let mut leadership = first.leadership();
    until_leading(&mut leadership).await;
    let second = stand(&connect(&[node.url()]), "b", ttl);
    until_following(&mut second.leadership(), Some("a")).await;
    // Each notes the moment by itself, so that the order of the two does not depend on who is woken first.
    let ended = tokio::spawn(async move {
        let ended = leadership.wait_for(|it| matches!(it, Leadership::Following { .. })).await.map(drop);
        (ended.is_ok(), Instant::now())
    });
    let mut other = second.leadership();
    let begun = tokio::spawn(async move {
        let _ = until_leading(&mut other).await;
        Instant::now()
    });
    relay.freeze();
    let (has_ended, ended) = within("the end of the first", ended).await.unwrap();
    let begun = within("the beginning of the second", begun).await.unwrap();
    assert!(has_ended && ended < begun, "the second led {:?} before the first had ended", ended - begun);
    // When it is back, it follows.
    relay.mend();
    until_following(&mut first.leadership(), Some("b")).await;
}

#[tokio::test]
async fn a_leader_whose_key_is_taken_away_stands_again() {
    let node = node();
    let etcd = connect(&[node.url()]);
    let election = stand(&etcd, "a", Duration::from_secs(600));
    let mut leadership = election.leadership();
    let before = until_leading(&mut leadership).await;
    write(&etcd, &[delete("/leader")]).await;
    let after = within("another term", async {
        loop {
            leadership.changed().await.unwrap();
            if let Leadership::Leading { guard } = &*leadership.borrow_and_update()
                && *guard != before
            {
                break guard.clone();
            }
        }
    })
    .await;
    assert!(after.modified > before.modified);
}
