//! `kohort group events`: why a group rebalanced, as its broker remembers it.

use anyhow::Context;
use coordination::group::{Cause, Culprit, Event, Outcome, Stage, Underway};

use super::moment::show_moment;
use crate::admin::GroupEvents;
use crate::admin_client::{ask, query_value};
use crate::cli::AdminArgs;
use crate::cli::group::EventsArgs;
use crate::output::{count, name, plain, show};

/// Shows what the broker remembers.
pub(super) async fn run(args: &EventsArgs) -> anyhow::Result<()> {
    let mut told = fetch(&args.group, args.org.as_deref(), &args.admin, "show the events").await?;
    let remembered = told.events.len();
    if let Some(last) = args.last {
        told.events.drain(..remembered.saturating_sub(last));
    }
    Ok(show(args.output.output, &told, |told| render(told, remembered))?)
}

/// What the admin listener knows of a group.
pub(super) async fn fetch(
    group: &str,
    org: Option<&str>,
    admin: &AdminArgs,
    wish: &str,
) -> anyhow::Result<GroupEvents> {
    let org = org.map(|org| format!("&org={}", query_value(org))).unwrap_or_default();
    let path = format!("/v1/group-events?group={}{org}", query_value(group));
    let answer = ask(admin, "GET", &path, "", wish).await?;
    serde_json::from_str(&answer).context("understand the broker's answer")
}

/// The events, of which more may be remembered than are to be shown.
fn render(told: &GroupEvents, remembered: usize) -> String {
    let mut text = format!("Group {} ({}, {}): ", name(&told.group), told.id, plain(&told.rrl));
    match told.events.len() {
        0 if told.underway.is_some() => text.push_str("its first rebalance\n"),
        0 => text.push_str("no rebalance is remembered\n"),
        number if number < remembered => {
            let remembered = count(remembered, "rebalance");
            text.push_str(&format!("the newest {number} of {remembered} remembered, the newest last\n"));
        }
        number => text.push_str(&format!("{} remembered, the newest last\n", count(number, "rebalance"))),
    }
    for event in &told.events {
        text.push('\n');
        text.push_str(&render_event(event));
    }
    if let Some(underway) = &told.underway {
        text.push('\n');
        text.push_str(&render_underway(underway));
    }
    text
}

fn render_underway(underway: &Underway) -> String {
    let Underway { members, members_before, waits_for, waits_for_more, newcomers, .. } = underway;
    let absent = waits_for.len() + waits_for_more;
    let stage = match underway.stage {
        Stage::Joining => {
            format!("{} of {} joined", members.saturating_sub(absent), count(*members, "member"))
        }
        Stage::Assigning => format!("the leader of {} is to assign partitions", count(*members, "member")),
    };
    let mut text = format!(
        "{}  not ended: {stage}\n  because {}\n  members {members_before} → {members}\n",
        show_moment(underway.began_ms),
        because(&underway.cause, underway.who.as_ref()),
    );
    for who in waits_for {
        text.push_str(&format!("  waits for {}\n", member(who)));
    }
    if *waits_for_more > 0 {
        text.push_str(&format!("  and for {waits_for_more} more\n"));
    }
    if *newcomers > 0 {
        let were = if *newcomers == 1 { "was" } else { "were" };
        let clients = count(*newcomers, "client");
        text.push_str(&format!("  waits for {clients} that {were} given a member id to join with it\n"));
    }
    text
}

fn render_event(event: &Event) -> String {
    let Event { generation, join_ms, sync_ms, members_before, members_after, .. } = event;
    let ended = match event.outcome {
        Outcome::Stable => "stable",
        Outcome::Empty => "empty",
        Outcome::Overtaken => "overtaken by the next rebalance",
    };
    let took = match join_ms.saturating_add(*sync_ms) {
        0 => String::new(),
        both => {
            let (join, sync, both) = (milliseconds(*join_ms), milliseconds(*sync_ms), milliseconds(both));
            format!(" after {both} ({join} joining, {sync} assigning)")
        }
    };
    let moved = match event.partitions_moved {
        Some(0) => ", no partition moved".to_owned(),
        Some(number) => format!(", {} moved", count(number, "partition")),
        None => String::new(),
    };
    format!(
        "{}  generation {generation}, {ended}{took}\n  because {}\n  \
         members {members_before} → {members_after}{moved}\n",
        show_moment(event.began_ms),
        because(&event.cause, event.who.as_ref()),
    )
}

fn because(cause: &Cause, who: Option<&Culprit>) -> String {
    let member = who.map_or_else(|| "a member".to_owned(), member);
    match cause {
        Cause::MemberJoined { reason } => format!("{member} joined{}", said(reason.as_deref())),
        Cause::MemberLeft { reason } => format!("{member} left{}", said(reason.as_deref())),
        Cause::MemberRemoved { reason } => format!("{}{}", removed(who, 0), said(reason.as_deref())),
        Cause::MembersRemoved { more, reason } => {
            format!("{}{}", removed(who, *more), said(reason.as_deref()))
        }
        Cause::SessionExpired => format!("{member} was silent for its session timeout"),
        Cause::SyncMissed => format!("{member} did not come for its assignment in time"),
        Cause::SubscriptionChanged { reason } => {
            format!("{member} joined again with another subscription{}", said(reason.as_deref()))
        }
        Cause::MemberRejoined { given_up: 0, reason } => {
            format!("{member} joined again{}", said(reason.as_deref()))
        }
        Cause::MemberRejoined { given_up, reason } => {
            let given_up = count(*given_up, "partition");
            format!("{member} joined again to hand over {given_up}{}", said(reason.as_deref()))
        }
        Cause::LeaderRejoined { reason } => {
            format!("the leader, {member}, joined again{}", said(reason.as_deref()))
        }
        Cause::StaticReplaced => format!("{member} came back under a new member id"),
        Cause::TooLarge => "the group was larger than group.max.size when it was loaded".to_owned(),
    }
}

fn member(who: &Culprit) -> String {
    let instance =
        who.instance.as_ref().map(|name| format!("instance {}, ", plain(name))).unwrap_or_default();
    let Culprit { member, client_id, .. } = who;
    format!("{} ({instance}client {}, {})", plain(member), plain(client_id), host(who))
}

/// Of somebody who was removed the client and the host are those of whoever did it.
fn removed(who: Option<&Culprit>, more: usize) -> String {
    let were = if more == 0 { "was".to_owned() } else { format!("and {more} more were") };
    let Some(who) = who else { return format!("a member {were} removed") };
    let instance =
        who.instance.as_ref().map(|name| format!(" (instance {})", plain(name))).unwrap_or_default();
    let Culprit { member, client_id, .. } = who;
    format!("{}{instance} {were} removed by client {} at {}", plain(member), plain(client_id), host(who))
}

fn host(who: &Culprit) -> String {
    plain(who.host.trim_start_matches('/'))
}

fn said(reason: Option<&str>) -> String {
    match reason {
        Some(reason) if !reason.is_empty() => format!(": {}", plain(reason)),
        _ => String::new(),
    }
}

fn milliseconds(ms: u64) -> String {
    if ms < 1000 { format!("{ms} ms") } else { format!("{}.{} s", ms / 1000, ms % 1000 / 100) }
}

#[cfg(test)]
mod tests {
    use coordination::ids::GroupId;
    use expect_test::expect;

    use super::*;

    fn event(cause: Cause, outcome: Outcome) -> Event {
        Event {
            number: 3,
            began_ms: 1_700_000_000_123,
            cause,
            who: Some(Culprit {
                member: "c1-3f0a".into(),
                instance: None,
                client_id: "c1".into(),
                host: "/10.0.0.7".into(),
            }),
            outcome,
            generation: 4,
            members_before: 3,
            members_after: 2,
            join_ms: 3012,
            sync_ms: 9,
            partitions_moved: Some(4),
        }
    }

    #[test]
    fn every_rebalance_is_explained() {
        let expired = event(Cause::SessionExpired, Outcome::Stable);
        let reason = Some("the consumer\u{1b}[2J is closing".into());
        let mut left = event(Cause::MemberLeft { reason }, Outcome::Empty);
        left.partitions_moved = None;
        (left.join_ms, left.sync_ms) = (0, 0);
        left.who.as_mut().unwrap().instance = Some("pod-0".into());
        let mut overtaken = event(Cause::TooLarge, Outcome::Overtaken);
        overtaken.who = None;
        overtaken.partitions_moved = Some(1);
        let told = GroupEvents {
            group: "billing".to_owned(),
            id: GroupId::from_u128(1),
            rrl: "default/consumer-groups/billing".to_owned(),
            events: vec![expired, left, overtaken],
            underway: None,
        };
        expect![[r#"
            Group billing (cgp_00000000000000000000000001, default/consumer-groups/billing): 3 rebalances remembered, the newest last

            2023-11-14T22:13:20.123Z  generation 4, stable after 3.0 s (3.0 s joining, 9 ms assigning)
              because c1-3f0a (client c1, 10.0.0.7) was silent for its session timeout
              members 3 → 2, 4 partitions moved

            2023-11-14T22:13:20.123Z  generation 4, empty
              because c1-3f0a (instance pod-0, client c1, 10.0.0.7) left: the consumer\u{1b}[2J is closing
              members 3 → 2

            2023-11-14T22:13:20.123Z  generation 4, overtaken by the next rebalance after 3.0 s (3.0 s joining, 9 ms assigning)
              because the group was larger than group.max.size when it was loaded
              members 3 → 2, 1 partition moved
        "#]].assert_eq(&render(&told, 3));
    }

    #[test]
    fn a_rebalance_that_has_not_ended_says_whom_it_waits_for() {
        let Event { began_ms, cause, who, .. } = event(Cause::SessionExpired, Outcome::Stable);
        let other = Culprit { member: "c2-77b1".into(), client_id: "c2".into(), ..who.clone().unwrap() };
        let mut underway = Underway {
            began_ms,
            cause,
            who,
            members_before: 30,
            members: 29,
            stage: Stage::Joining,
            waits_for: vec![other],
            waits_for_more: 4,
            newcomers: 2,
        };
        expect![[r#"
            2023-11-14T22:13:20.123Z  not ended: 24 of 29 members joined
              because c1-3f0a (client c1, 10.0.0.7) was silent for its session timeout
              members 30 → 29
              waits for c2-77b1 (client c2, 10.0.0.7)
              and for 4 more
              waits for 2 clients that were given a member id to join with it
        "#]]
        .assert_eq(&render_underway(&underway));
        underway.stage = Stage::Assigning;
        (underway.waits_for_more, underway.newcomers) = (0, 0);
        expect![[r#"
            2023-11-14T22:13:20.123Z  not ended: the leader of 29 members is to assign partitions
              because c1-3f0a (client c1, 10.0.0.7) was silent for its session timeout
              members 30 → 29
              waits for c2-77b1 (client c2, 10.0.0.7)
        "#]]
        .assert_eq(&render_underway(&underway));
    }

    #[test]
    fn it_is_said_how_many_more_are_remembered() {
        let told = GroupEvents {
            group: "billing".to_owned(),
            id: GroupId::from_u128(1),
            rrl: "default/consumer-groups/billing".to_owned(),
            events: vec![event(Cause::SessionExpired, Outcome::Stable)],
            underway: None,
        };
        let heading = |remembered| render(&told, remembered).lines().next().unwrap().to_owned();
        assert!(heading(4).ends_with(": the newest 1 of 4 rebalances remembered, the newest last"));
        assert!(heading(1).ends_with(": 1 rebalance remembered, the newest last"));
    }

    #[test]
    fn who_removed_a_member_is_not_taken_for_the_member() {
        let check = |event: &Event, expected: &str| {
            assert_eq!(because(&event.cause, event.who.as_ref()), expected);
        };
        let mut removed =
            event(Cause::MemberRemoved { reason: Some("moving house".into()) }, Outcome::Stable);
        check(&removed, "c1-3f0a was removed by client c1 at 10.0.0.7: moving house");
        removed.cause = Cause::MembersRemoved { more: 2, reason: Some("moving house".into()) };
        check(&removed, "c1-3f0a and 2 more were removed by client c1 at 10.0.0.7: moving house");
        let who = removed.who.as_mut().unwrap();
        (who.instance, who.client_id) = (Some("pod-0".into()), "kohort\u{7}-cli".into());
        removed.cause = Cause::MemberRemoved { reason: None };
        check(&removed, "c1-3f0a (instance pod-0) was removed by client kohort\\u{7}-cli at 10.0.0.7");
        removed.who = None;
        check(&removed, "a member was removed");
    }

    #[test]
    fn who_hands_over_partitions_has_no_other_subscription() {
        let check = |given_up, expected: &str| {
            let event = event(Cause::MemberRejoined { given_up, reason: None }, Outcome::Stable);
            assert_eq!(because(&event.cause, event.who.as_ref()), expected);
        };
        check(0, "c1-3f0a (client c1, 10.0.0.7) joined again");
        check(1, "c1-3f0a (client c1, 10.0.0.7) joined again to hand over 1 partition");
        check(3, "c1-3f0a (client c1, 10.0.0.7) joined again to hand over 3 partitions");
    }

    #[test]
    fn a_group_that_never_rebalanced_says_so() {
        let told = GroupEvents {
            group: "billing".to_owned(),
            id: GroupId::from_u128(1),
            rrl: "default/consumer-groups/billing".to_owned(),
            events: Vec::new(),
            underway: None,
        };
        expect![[r#"
            Group billing (cgp_00000000000000000000000001, default/consumer-groups/billing): no rebalance is remembered
        "#]].assert_eq(&render(&told, 0));
    }
}
