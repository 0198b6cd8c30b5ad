//! What happens by the clock alone.

use coordination::group::Cause;

use super::*;

impl Stage {
    /// Offsets of this group's shard go when the broker looks next. Time on the wall does not follow the test's clock,
    /// and a retention of nothing needs none.
    pub(super) fn keep_nothing(&self, group: &str) {
        let mut machine = self.groups.shared.settings();
        machine.offsets_retention = Duration::ZERO;
        let shard = self.shard(group);
        shard.step(Split::Anywhere, |step| step.machine.configure(machine)).expect("it is there");
    }

    /// Lets the broker look for what expires, and waits until it has; must be called with the clock paused.
    pub(super) async fn look_every_second(&self) {
        let mut settings = Settings::default();
        // As before, but for the interval.
        settings.set(Layer::Flags, "group.initial.rebalance.delay.ms", "0").expect("it can be set");
        settings.set(Layer::Flags, "offsets.retention.check.interval.ms", "1000").expect("it can be set");
        self.groups.configure(&settings);
        tokio::time::sleep(Duration::from_secs(2)).await;
    }

    /// Has a member join a new group and get its assignment; gives its id.
    async fn alone_in(&self, group: &str) -> String {
        let join = self.join(group, "");
        self.write();
        let member_id = joined(join).await.member_id;
        let sync = self.sync(group, &member_id, 1);
        self.write();
        assert!(synced(sync).await.is_ok());
        member_id
    }

    fn appends(&self) -> u64 {
        self.store.metrics().appends.load(Ordering::Relaxed)
    }
}

/// Proves RT-21: a deadline that is moved comes later, and once, as a write.
#[tokio::test(start_paused = true)]
async fn a_silent_member_is_sent_away_when_its_session_ends() {
    let stage = Stage::loaded().await;
    let member = stage.alone_in("billing").await;
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_secs(20)).await;
        assert_eq!(stage.heartbeat("billing", &member, 1), None, "twenty seconds are not thirty");
    }
    let before = stage.appends();
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert_eq!(stage.heartbeat("billing", &member, 1), Some(ErrorCode::UnknownMemberId));
    stage.write();
    let after = stage.appends();
    assert!(after > before, "that it is gone is written");
    tokio::time::sleep(Duration::from_secs(120)).await;
    stage.write();
    assert_eq!(stage.appends(), after, "it has gone once");
}

/// Proves RT-21: a deadline that has been ended does not come.
#[tokio::test(start_paused = true)]
async fn the_session_of_a_member_that_has_left_ends_nothing() {
    let stage = Stage::loaded().await;
    let member_id = stage.alone_in("billing").await;
    let leaving = op::LeavingMember { member_id, instance_id: None, reason: None };
    let leave = op::LeaveGroup { group: "billing".to_owned(), members: vec![leaving] };
    let leave = stage.groups.leave(&stage.carrier(), &leave);
    stage.write();
    let Reply::LeaveGroup(left) = leave.reply().await.expect("no link is lost") else {
        panic!("it is answered as one")
    };
    assert!(left.result.is_ok());
    let before = stage.appends();
    tokio::time::sleep(Duration::from_secs(120)).await;
    stage.write();
    assert_eq!(stage.appends(), before);
    let events = stage.groups.story(ORG, "billing").await.unwrap().unwrap().events;
    assert!(events.iter().all(|event| event.cause != Cause::SessionExpired), "{events:?}");
}

/// Proves EXP-14.
#[tokio::test(start_paused = true)]
async fn offsets_that_nobody_uses_expire() {
    let stage = Stage::loaded().await;
    let commit = stage.commit("tool", 5);
    stage.write();
    assert_eq!(commit_error(commit).await, None);
    stage.keep_nothing("tool");
    // By default it looks every ten minutes.
    tokio::time::sleep(Duration::from_secs(590)).await;
    assert_eq!(fetched(stage.fetch("tool")).await, (None, 5));
    stage.look_every_second().await;
    let fetch = stage.fetch("tool");
    stage.write();
    assert_eq!(fetched(fetch).await, (None, -1));
}

/// Proves RT-22: the session of a member whose removal could not be stored ends once more.
#[tokio::test(start_paused = true)]
async fn a_deadline_whose_write_failed_comes_again() {
    let stage = Stage::loaded().await;
    let member = stage.alone_in("billing").await;
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert_eq!(stage.heartbeat("billing", &member, 1), Some(ErrorCode::UnknownMemberId));
    stage.fail_the_next_sync();
    stage.write();
    // The pause before it is read back.
    tokio::time::sleep(Duration::from_secs(1)).await;
    stage.settled().await;
    assert_eq!(stage.heartbeat("billing", &member, 1), None, "what was not stored has not happened");
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert_eq!(stage.heartbeat("billing", &member, 1), Some(ErrorCode::UnknownMemberId));
    stage.write();
    assert_eq!(stage.heartbeat("billing", &member, 1), Some(ErrorCode::UnknownMemberId));
}
