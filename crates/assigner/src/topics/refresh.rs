//! What the leader does about topics: what has grown in Kafka grows here, and what is gone there goes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use coordination::handoff::{Change, Entry, Key, Step, Stored, Topic, TopicName, transactions};
use etcd::{Guard, Outcome};
use tokio::time::MissedTickBehavior;

use crate::groups::{Group, GroupId, Groups};
use crate::instance::Instance;
use crate::planner::OPERATIONS_MAX;

use super::{Answer, shown, step, writable};

/// For how long nobody works in a group before it is forgotten.
const IDLE_MAX: Duration = Duration::from_secs(60 * 60);

/// Reads the topics of all groups from Kafka again and again, while this instance leads.
pub(crate) async fn keep_fresh(instance: &Instance, guard: &Guard) {
    if !instance.topics.is_configured() {
        return std::future::pending().await;
    }
    let mut ticks = tokio::time::interval(instance.settings.topic_refresh_interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut suspects = Suspects::default();
    let mut idle = Idle::default();
    loop {
        ticks.tick().await;
        refresh(instance, guard, &mut suspects).await;
        forget_idle(&instance.groups, guard, &mut idle).await;
    }
}

/// Groups in which nobody works, and since when that has been seen.
#[derive(Debug, Default)]
struct Idle(BTreeMap<GroupId, Instant>);

impl Idle {
    /// Takes in which groups are idle now, and says which have been for long.
    fn note(&mut self, now: Instant, idle: BTreeSet<GroupId>) -> Vec<GroupId> {
        self.0.retain(|id, _| idle.contains(id));
        for id in idle {
            self.0.entry(id).or_insert(now);
        }
        let are_over = self.0.iter().filter(|(_, since)| now.duration_since(**since) >= IDLE_MAX);
        are_over.map(|(id, _)| id.clone()).collect()
    }
}

/// Deletes the topics of groups in which nobody has worked for long. Names of groups may be made up for one deployment
/// or one test, and each would be held, planned and asked for ever. Whoever comes back has Kafka asked again; what
/// operators have set is kept.
async fn forget_idle(groups: &Groups, guard: &Guard, idle: &mut Idle) {
    let are_idle = groups.ids().into_iter().filter(|id| groups.with(id, Group::is_idle)).collect();
    for id in idle.note(Instant::now(), are_idle) {
        let steps: Vec<Step> = groups.with(&id, |known| {
            let topics = if known.is_idle() { Some(&known.state.topics) } else { None };
            let topics = topics.into_iter().flatten();
            let plain = topics.filter(|(name, stored)| {
                let is_readable = !known.unreadable.contains_key(&Key::Topic((*name).clone()));
                is_readable && stored.value.weight == 1 && stored.value.weights.is_empty()
            });
            plain
                .map(|(name, stored)| step(Change::Delete(Key::Topic(name.clone())), stored.revision))
                .collect()
        });
        for steps in transactions(&steps, OPERATIONS_MAX) {
            match groups.carry_out(&id, steps, Some(guard), None).await {
                Ok(Outcome::Committed { .. }) => {
                    tracing::info!(
                        group = shown(&id),
                        "nobody has worked in a group for long; it is forgotten"
                    );
                }
                Ok(Outcome::Refused { .. }) => tracing::debug!("topics have changed meanwhile"),
                Err(error) => tracing::debug!(%error, "could not forget a group"),
            }
        }
    }
}

async fn refresh(instance: &Instance, guard: &Guard, suspects: &mut Suspects) {
    let Instance { groups, topics, .. } = instance;
    let known = topics_of(groups);
    let names: BTreeSet<TopicName> = known.values().flat_map(|topics| topics.keys().cloned()).collect();
    let names: Vec<TopicName> = names.into_iter().collect();
    if names.is_empty() {
        return;
    }
    let was_well = topics.problem().is_none();
    let answers = match topics.ask(&names).await {
        Ok(answers) => answers,
        Err(error) => {
            if was_well {
                tracing::warn!("{error}; topics stay as they are");
            }
            *suspects = Suspects::default();
            return;
        }
    };
    if !was_well {
        tracing::info!("Kafka answers again");
    }
    let mut next = Suspects::default();
    for (group, topics) in known {
        let mut steps = Vec::new();
        for (name, stored) in topics {
            let place = (group.clone(), name.clone());
            let (topic, read_at) = stored.map_or((None, 0), |stored| (Some(stored.value), stored.revision));
            let verdict = judge(topic.as_ref(), answers.get(&name), suspects.0.contains(&place));
            let text = shown(&group);
            match verdict {
                Verdict::Stays => {}
                Verdict::Suspect => {
                    next.0.insert(place);
                }
                Verdict::Changes(changed) => {
                    let (before, after) = (topic.map_or(0, |topic| topic.partitions), changed.partitions);
                    if before != after {
                        tracing::info!(group = text, topic = %name, before, after, "a topic has other partitions");
                    }
                    steps.push(step(Change::Put(Entry::Topic(name, changed)), read_at));
                }
                Verdict::Goes => {
                    tracing::info!(group = text, topic = %name, "a topic is gone in Kafka and is removed");
                    steps.push(step(Change::Delete(Key::Topic(name)), read_at));
                }
            }
        }
        for steps in transactions(&steps, OPERATIONS_MAX) {
            match groups.carry_out(&group, steps, Some(guard), None).await {
                Ok(Outcome::Committed { .. }) => {}
                // Somebody else has written; the next time it is judged anew.
                Ok(Outcome::Refused { .. }) => tracing::debug!("topics have changed meanwhile"),
                Err(error) => {
                    tracing::warn!(%error, "could not write topics; they are looked at again later");
                }
            }
        }
    }
    *suspects = next;
}

/// The topics of each group: those that it works on, and those that consumers wait for since they were deleted.
fn topics_of(groups: &Groups) -> BTreeMap<GroupId, BTreeMap<TopicName, Option<Stored<Topic>>>> {
    let topics = |group: &GroupId| {
        groups.with(group, |known| {
            let consumers = known.state.consumers.values();
            let wanted = consumers.flat_map(|stored| &stored.value.topics).map(|name| (name.clone(), None));
            let mut topics: BTreeMap<TopicName, Option<Stored<Topic>>> = wanted.collect();
            topics
                .extend(known.state.topics.iter().map(|(name, stored)| (name.clone(), Some(stored.clone()))));
            topics.retain(|name, _| !known.unreadable.contains_key(&Key::Topic(name.clone())));
            topics
        })
    };
    groups.ids().into_iter().map(|group| (group.clone(), topics(&group))).collect()
}

/// Topics that seemed to be gone, or smaller, when Kafka was last asked. A broker that has just started may not know
/// everything yet, so it has to say so twice.
#[derive(Debug, Default)]
struct Suspects(BTreeSet<(GroupId, TopicName)>);

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Stays,
    /// If it is the same the next time, it goes or shrinks.
    Suspect,
    Changes(Topic),
    Goes,
}

/// What becomes of a topic that the group works on, or would if Kafka had it.
fn judge(topic: Option<&Topic>, answer: Option<&Answer>, was_suspect: bool) -> Verdict {
    let known = match answer {
        None | Some(Answer::Refused(_)) => return Verdict::Stays,
        Some(Answer::Unknown) => {
            return match topic {
                None => Verdict::Stays,
                Some(_) if was_suspect => Verdict::Goes,
                Some(_) => Verdict::Suspect,
            };
        }
        Some(Answer::Known(known)) => known,
    };
    let Some(topic) = topic else { return Verdict::Changes(known.topic()) };
    // Kafka's topics never shrink, but one may be deleted and made anew.
    if known.partitions < topic.partitions && !was_suspect {
        return Verdict::Suspect;
    }
    let mut changed = Topic { partitions: known.partitions, ..topic.clone() };
    // Of a cluster without racks, nothing is known that would be better than what an operator has written.
    if !known.racks.is_empty() {
        changed.racks.clone_from(&known.racks);
        changed = writable(changed);
    }
    if changed == *topic { Verdict::Stays } else { Verdict::Changes(changed) }
}

#[cfg(test)]
mod tests {
    use super::super::Known;
    use super::*;

    fn known(partitions: u32) -> Answer {
        Answer::Known(Known { partitions, racks: BTreeMap::new() })
    }

    #[test]
    fn growth_is_written_and_weights_are_kept() {
        let topic = Topic { weight: 7, ..Topic::new(4) };
        assert_eq!(judge(Some(&topic), Some(&known(4)), false), Verdict::Stays);
        let grown = Topic { weight: 7, ..Topic::new(6) };
        assert_eq!(judge(Some(&topic), Some(&known(6)), false), Verdict::Changes(grown));
    }

    #[test]
    fn a_topic_goes_or_shrinks_when_kafka_says_so_twice() {
        let topic = Topic::new(4);
        assert_eq!(judge(Some(&topic), Some(&Answer::Unknown), false), Verdict::Suspect);
        assert_eq!(judge(Some(&topic), Some(&Answer::Unknown), true), Verdict::Goes);
        assert_eq!(judge(Some(&topic), Some(&known(2)), false), Verdict::Suspect);
        assert_eq!(judge(Some(&topic), Some(&known(2)), true), Verdict::Changes(Topic::new(2)));
    }

    #[test]
    fn a_topic_that_consumers_wait_for_is_worked_on_when_kafka_has_it() {
        assert_eq!(judge(None, Some(&Answer::Unknown), false), Verdict::Stays);
        assert_eq!(judge(None, Some(&known(3)), false), Verdict::Changes(Topic::new(3)));
    }

    #[test]
    fn a_group_is_forgotten_when_nobody_has_worked_in_it_all_the_while() {
        let start = Instant::now();
        let mut idle = Idle::default();
        let group = |text: &str| Some(text.parse().unwrap());
        let both = || BTreeSet::from([group("a"), group("b")]);
        assert!(idle.note(start, both()).is_empty());
        assert!(idle.note(start + IDLE_MAX / 2, BTreeSet::from([group("a")])).is_empty());
        assert_eq!(idle.note(start + IDLE_MAX, both()), [group("a")]);
    }

    #[test]
    fn what_kafka_does_not_tell_changes_nothing() {
        let topic = Topic::new(4);
        assert_eq!(judge(Some(&topic), None, true), Verdict::Stays);
        assert_eq!(judge(Some(&topic), Some(&Answer::Refused("error 29".to_owned())), true), Verdict::Stays);
    }
}
