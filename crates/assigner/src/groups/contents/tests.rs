//! The mirror follows what etcd tells.

use coordination::handoff::{
    Assignment, Consumer, Epoch, HandoffId, Mode, Phase, Progress, SessionId, Topic, commands,
};

use super::*;

const PREFIX: &str = "/k/";

fn name(text: &str) -> ConsumerName {
    text.parse().unwrap()
}

fn place(partition: u32) -> TopicPartition {
    TopicPartition { topic: "t".parse().unwrap(), partition }
}

fn stored(modified: u64, entry: &Entry) -> KeyValue {
    let lease = if matches!(entry, Entry::Consumer(..)) { 7 } else { 0 };
    let key = entry.key().encode(PREFIX, None);
    KeyValue { key, value: entry.encode().into(), modified, lease }
}

fn consumer(text: &str) -> Entry {
    Entry::Consumer(name(text), Consumer::new(SessionId::from_u128(1), 0))
}

fn assignment(partition: u32, owner: &str) -> Entry {
    Entry::Assignment(place(partition), Assignment { owner: name(owner), epoch: Epoch(4) })
}

fn handoff(phase: Phase) -> Entry {
    let handoff = Handoff {
        id: HandoffId::from_u128(9),
        epoch: Epoch(5),
        from: name("a"),
        to: name("b"),
        to_session: SessionId::from_u128(1),
        mode: Mode::Exclusive,
        phase,
        phase_since_ms: 0,
        progress: None,
    };
    Entry::Handoff(place(0), handoff)
}

/// `a` owns the two partitions, the first of which warms up with `b`.
fn contents() -> Contents {
    let topic = Entry::Topic("t".parse().unwrap(), Topic::new(2));
    let entries = [
        topic,
        consumer("a"),
        consumer("b"),
        assignment(0, "a"),
        assignment(1, "a"),
        handoff(Phase::Warming),
    ];
    let entries = entries.iter().map(|entry| stored(3, entry)).collect();
    let mut contents = Contents::new(Instant::now());
    let changed = contents.replace(PREFIX, Snapshot { revision: 20, entries });
    assert!(changed.is_due && changed.unreadable.is_empty());
    contents.take_due();
    contents
}

fn delete(key: &Key, revision: u64) -> KeyChange {
    KeyChange::Deleted { key: key.encode(PREFIX, None), revision }
}

/// Takes in changes, and checks that whoever begins to watch now sees what is there.
fn apply(contents: &mut Contents, revision: u64, changes: Vec<KeyChange>) -> Changed {
    let changed = contents.apply(PREFIX, revision, changes);
    contents.publish(&changed.touched);
    let state = contents.group(&None).map(|group| group.state.clone()).unwrap_or_default();
    for text in ["a", "b", "c"] {
        let name = name(text);
        let seen = contents.watch(&None, &name).borrow().clone();
        assert_eq!(*seen.view, commands(&name, None, &state).1, "{text} at {revision}");
        contents.unwatch(&None, &name);
    }
    changed
}

#[test]
fn a_snapshot_is_of_its_own_revision_however_old_its_keys_are() {
    let contents = contents();
    let group = contents.group(&None).unwrap();
    assert_eq!(group.state.revision, 20);
    assert_eq!(group.leases, BTreeMap::from([(name("a"), 7), (name("b"), 7)]));
}

#[test]
fn only_those_whom_a_change_concerns_are_told() {
    let mut contents = contents();
    let [mut a, mut b, mut c] = ["a", "b", "c"].map(|text| contents.watch(&None, &name(text)));
    let moved = assignment(1, "c");
    apply(&mut contents, 21, vec![KeyChange::Put(stored(21, &moved))]);
    assert!(a.has_changed().unwrap() && !b.has_changed().unwrap() && c.has_changed().unwrap());
    a.mark_unchanged();
    apply(&mut contents, 22, vec![KeyChange::Put(stored(22, &handoff(Phase::Ready)))]);
    assert!(a.has_changed().unwrap(), "it has to let go");
    b.mark_unchanged();
    c.mark_unchanged();
    // The lease is another.
    let again = KeyValue { lease: 8, ..stored(23, &consumer("b")) };
    let changed = apply(&mut contents, 23, vec![KeyChange::Put(again)]);
    assert!(b.has_changed().unwrap() && !c.has_changed().unwrap());
    assert_eq!(b.borrow().lease, Some(8));
    assert!(!changed.is_due, "nothing is planned because of it");
}

#[test]
fn many_are_told_the_same_as_few() {
    let mut contents = contents();
    let watchers: Vec<_> = ["a", "b", "c", "d", "e", "f"].map(name).into();
    let receivers: Vec<_> = watchers.iter().map(|name| contents.watch(&None, name)).collect();
    let topic = Entry::Topic("t".parse().unwrap(), Topic::new(1));
    apply(&mut contents, 21, vec![KeyChange::Put(stored(21, &topic))]);
    let group = Arc::clone(contents.group(&None).unwrap());
    for (name, receiver) in watchers.iter().zip(&receivers) {
        assert_eq!(*receiver.borrow().view, commands(name, None, &group.state).1, "{name}");
    }
    assert!(receivers[0].has_changed().unwrap() && !receivers[2].has_changed().unwrap());
}

#[test]
fn the_end_of_a_consumer_of_a_handoff_is_urgent_and_that_of_others_is_not() {
    let mut contents = contents();
    apply(&mut contents, 21, vec![KeyChange::Put(stored(21, &consumer("c")))]);
    apply(&mut contents, 22, vec![delete(&Key::Consumer(name("c")), 22)]);
    assert_eq!(contents.take_due(), BTreeMap::from([(None, Urgency::Settled)]));
    apply(&mut contents, 23, vec![delete(&Key::Consumer(name("a")), 23)]);
    assert_eq!(contents.take_due(), BTreeMap::from([(None, Urgency::AtOnce)]));
    apply(&mut contents, 24, vec![KeyChange::Put(stored(24, &handoff(Phase::Ready)))]);
    assert_eq!(contents.take_due(), BTreeMap::new());
}

#[test]
fn a_handoff_that_ends_with_the_assignment_moved_is_seen_as_such() {
    let mut contents = contents();
    let moved = Entry::Assignment(place(0), Assignment { owner: name("b"), epoch: Epoch(5) });
    let changes = vec![delete(&Key::Handoff(place(0)), 21), KeyChange::Put(stored(21, &moved))];
    let changed = apply(&mut contents, 21, changes);
    let [change] = &changed.handoffs[..] else { panic!("{changed:?}") };
    assert!(change.is_moved && change.after.is_none() && change.before.phase == Phase::Warming);
}

#[test]
fn what_cannot_be_read_is_told_once_and_remembered() {
    let mut contents = contents();
    let odd = |entry: &Entry, modified| KeyValue { value: b"{}".to_vec().into(), ..stored(modified, entry) };
    let topic = Entry::Topic("t".parse().unwrap(), Topic::new(2));
    let changed = apply(
        &mut contents,
        21,
        vec![KeyChange::Put(odd(&topic, 21)), KeyChange::Put(odd(&consumer("a"), 21))],
    );
    assert_eq!(changed.unreadable.len(), 2);
    let group = Arc::clone(contents.group(&None).unwrap());
    assert_eq!(group.unreadable.len(), 2);
    assert!(group.state.topics.contains_key(&place(0).topic), "its consumers go on");
    assert!(!group.state.consumers.contains_key(&name("a")) && !group.leases.contains_key(&name("a")));
    let entries = vec![odd(&topic, 21), odd(&consumer("a"), 22)];
    let changed = contents.replace(PREFIX, Snapshot { revision: 30, entries });
    assert_eq!(changed.unreadable.len(), 1, "one is not known yet: {:?}", changed.unreadable);
    let group = contents.group(&None).unwrap();
    assert!(group.state.topics.contains_key(&place(0).topic), "its consumers still go on");
    apply(&mut contents, 31, vec![KeyChange::Put(stored(31, &consumer("a")))]);
    assert_eq!(contents.group(&None).unwrap().unreadable.len(), 1);
}

fn dated(phase: Phase, phase_since_ms: u64, progress: Option<Progress>) -> Entry {
    let Entry::Handoff(place, former) = handoff(phase) else { panic!("a handoff") };
    Entry::Handoff(place, Handoff { phase_since_ms, progress, ..former })
}

#[test]
fn a_phase_has_lasted_for_as_long_as_it_was_seen_whatever_the_clocks_of_others_say() {
    let mut contents = contents();
    let seen = |contents: &Contents| contents.group(&None).unwrap().state.handoffs[&place(0)].value.clone();
    let began = now_ms();
    for (revision, written_ms) in [(21, 1), (22, began * 2)] {
        let ready = dated(Phase::Ready, written_ms, None);
        apply(&mut contents, revision, vec![delete(&ready.key(), revision)]);
        apply(&mut contents, revision, vec![KeyChange::Put(stored(revision, &ready))]);
        let since_ms = seen(&contents).phase_since_ms;
        assert!((began..=now_ms()).contains(&since_ms), "{since_ms}");
        // It is the same phase, though another has written it.
        let again = dated(Phase::Ready, 7, None);
        apply(&mut contents, revision, vec![KeyChange::Put(stored(revision, &again))]);
        assert_eq!(seen(&contents).phase_since_ms, since_ms);
        contents.replace(PREFIX, Snapshot { revision, entries: vec![stored(revision, &again)] });
        assert_eq!(seen(&contents).phase_since_ms, since_ms);
    }
    let known = |done, at_ms| Some(Progress { done, total: 9, at_ms });
    apply(&mut contents, 30, vec![KeyChange::Put(stored(30, &dated(Phase::Warming, 1, known(3, 1))))]);
    let at_ms = seen(&contents).progress.unwrap().at_ms;
    assert!(at_ms >= began);
    apply(&mut contents, 31, vec![KeyChange::Put(stored(31, &dated(Phase::Warming, 1, known(3, 1))))]);
    assert_eq!(seen(&contents).progress.unwrap().at_ms, at_ms);
}

#[test]
fn what_was_written_before_this_instance_looked_is_not_of_the_future() {
    let mut contents = Contents::new(Instant::now());
    let entries = vec![stored(3, &dated(Phase::Ready, u64::MAX, None))];
    contents.replace(PREFIX, Snapshot { revision: 20, entries });
    let group = contents.group(&None).unwrap();
    assert!(group.state.handoffs[&place(0)].value.phase_since_ms <= now_ms());
}

#[test]
fn keys_of_others_and_empty_groups_leave_nothing_behind() {
    let mut contents = contents();
    let foreign =
        |key: &str| KeyValue { key: key.to_owned(), value: Vec::new().into(), modified: 21, lease: 0 };
    let changes =
        ["/k/assigner/leader", "/k/x/y/z", "/k/g/consumers/a b"].map(|key| KeyChange::Put(foreign(key)));
    apply(&mut contents, 21, changes.into());
    assert_eq!(contents.groups.len(), 1);
    let group: GroupId = Some("g".parse().unwrap());
    let watcher = contents.watch(&group, &name("a"));
    let key = consumer("a").key().encode(PREFIX, group.as_ref());
    apply(
        &mut contents,
        22,
        vec![KeyChange::Put(KeyValue { key: key.clone(), ..stored(22, &consumer("a")) })],
    );
    assert_eq!(contents.ids(), [None, group.clone()]);
    apply(&mut contents, 23, vec![KeyChange::Deleted { key, revision: 23 }]);
    assert_eq!(contents.ids(), [None]);
    drop(watcher);
    contents.unwatch(&group, &name("a"));
    assert_eq!((contents.groups.len(), contents.due.contains_key(&group)), (1, false));
}
