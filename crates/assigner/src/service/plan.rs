//! What the leader would do, for operators who ask before they act.

use std::collections::BTreeSet;

use assigner_client::proto;
use coordination::handoff::{
    Change, Consumer, Entry, HandoffId, Key, Plan, SessionId, Settings, State, TopicPartition, plan,
};
use tonic::Status;

use crate::clock::now_ms;

use super::Service;
use super::limits::SUPPOSED_CONSUMERS_MAX;
use super::message::{self, place};

impl Service {
    /// Makes a plan for the group as it is, or as it would be, and says why.
    pub(super) async fn foresee(&self, request: &proto::PlanRequest) -> Result<proto::PlanResponse, Status> {
        let group = message::group(&request.group)?;
        // Whoever asks for many at a time must not take the time of those who plan in earnest.
        let _place = self.plans.acquire().await.map_err(|_| Status::unavailable("this instance stops"))?;
        let known = self.instance.groups.get(&group);
        let state = supposed(&known.state, request, now_ms())?;
        let settings = self.instance.settings.plan();
        // With ten thousand partitions this takes as long as a thousand other calls.
        let planning = tokio::task::spawn_blocking(move || answer(&state, &settings, now_ms()));
        planning.await.map_err(|error| Status::internal(format!("the plan could not be made: {error}")))
    }
}

/// The group as it would be.
fn supposed(state: &State, request: &proto::PlanRequest, now_ms: u64) -> Result<State, Status> {
    for (field, names) in [("without", &request.without), ("with", &request.with)] {
        if names.len() > SUPPOSED_CONSUMERS_MAX {
            let text = format!(
                "{field}: there are {} consumers; at most {SUPPOSED_CONSUMERS_MAX} are allowed",
                names.len()
            );
            return Err(Status::invalid_argument(text));
        }
    }
    let mut supposed = state.clone();
    for name in &request.without {
        let name = message::consumer("without", name)?;
        if supposed.consumers.remove(&name).is_none() {
            return Err(Status::not_found(format!(
                "without: consumer {name} is not registered in this group"
            )));
        }
    }
    for name in &request.with {
        let name = message::consumer("with", name)?;
        if supposed.consumers.contains_key(&name) {
            let text = format!("with: consumer {name} is registered in this group already");
            return Err(Status::already_exists(text));
        }
        let consumer = Consumer::new(SessionId::NIL, now_ms);
        supposed.apply(state.revision, Change::Put(Entry::Consumer(name, consumer)));
    }
    Ok(supposed)
}

fn answer(state: &State, settings: &Settings, now_ms: u64) -> proto::PlanResponse {
    let mut ids = 0;
    let Plan { steps, reasons, desired } = plan(state, settings, now_ms, &mut || {
        ids += 1;
        HandoffId::from_u128(ids)
    });
    let changes: BTreeSet<&TopicPartition> =
        steps.iter().flat_map(|step| &step.writes).filter_map(|write| changed(&write.change)).collect();
    let partitions = reasons.iter().map(|(partition, reason)| {
        // No name has a colon in it.
        let text = reason.to_string();
        let (action, reason) = text.split_once(": ").unwrap_or((&text, ""));
        let owner = state.assignments.get(partition).map(|stored| stored.value.owner.to_string());
        let desired = desired.choices.get(partition).map(|choice| choice.owner.to_string());
        proto::PlannedPartition {
            partition: Some(place(partition)),
            owner: owner.unwrap_or_default(),
            desired: desired.unwrap_or_default(),
            action: action.to_owned(),
            reason: reason.to_owned(),
            is_change: changes.contains(partition),
        }
    });
    proto::PlanResponse { partitions: partitions.collect(), revision: state.revision }
}

fn changed(change: &Change) -> Option<&TopicPartition> {
    match change {
        Change::Put(Entry::Assignment(place, _) | Entry::Handoff(place, _)) => Some(place),
        Change::Delete(Key::Assignment(place) | Key::Handoff(place)) => Some(place),
        Change::Put(Entry::Consumer(..) | Entry::Topic(..)) => None,
        Change::Delete(Key::Consumer(_) | Key::Topic(_) | Key::Leader) => None,
    }
}

#[cfg(test)]
mod tests {
    use coordination::handoff::{Assignment, Epoch, Topic};
    use tonic::Code;

    use super::*;

    fn state() -> State {
        let mut state = State::default();
        state.apply(1, Change::Put(Entry::Topic("t".parse().unwrap(), Topic::new(2))));
        let consumer = Consumer::new(SessionId::from_u128(1), 0);
        state.apply(2, Change::Put(Entry::Consumer("a".parse().unwrap(), consumer)));
        for partition in 0..2 {
            let place = TopicPartition { topic: "t".parse().unwrap(), partition };
            let assignment = Assignment { owner: "a".parse().unwrap(), epoch: Epoch(3) };
            state.apply(3, Change::Put(Entry::Assignment(place, assignment)));
        }
        state
    }

    fn shown(with: &[&str], without: &[&str]) -> Result<Vec<String>, (Code, String)> {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let request = proto::PlanRequest {
            with: names(with),
            without: names(without),
            ..proto::PlanRequest::default()
        };
        let state =
            supposed(&state(), &request, 5).map_err(|status| (status.code(), status.message().to_owned()))?;
        let shown = answer(&state, &Settings::default(), 5).partitions.into_iter().map(|planned| {
            let proto::PlannedPartition { owner, desired, action, reason, is_change, .. } = planned;
            format!("{owner} -> {desired}, {is_change}: {action} because {reason}")
        });
        Ok(shown.collect())
    }

    #[test]
    fn what_is_as_it_should_be_stays() {
        let stays = "a -> a, false: stays because the load is balanced".to_owned();
        assert_eq!(shown(&[], &[]), Ok(vec![stays.clone(), stays]));
    }

    #[test]
    fn a_consumer_that_would_come_gets_its_share() {
        let planned = shown(&["b"], &[]).unwrap();
        let moves = "a -> b, true: handoff to b begins because another has less to do; \
                     b because it has the least to do";
        assert_eq!(planned.iter().filter(|line| *line == moves).count(), 1, "{planned:?}");
    }

    #[test]
    fn what_a_consumer_would_leave_behind_goes_to_another() {
        let planned = shown(&["b"], &["a"]).unwrap();
        assert!(
            planned.iter().all(|line| line.starts_with("a -> b, true: is assigned to b because")),
            "{planned:?}"
        );
        let planned = shown(&[], &["a"]).unwrap();
        assert!(
            planned.iter().all(|line| line.starts_with("a -> , true: is unassigned because")),
            "{planned:?}"
        );
    }

    #[test]
    fn only_those_can_be_gone_who_are_there_and_only_those_come_who_are_not() {
        let missing = "without: consumer x is not registered in this group".to_owned();
        assert_eq!(shown(&[], &["x"]), Err((Code::NotFound, missing)));
        let present = "with: consumer a is registered in this group already".to_owned();
        assert_eq!(shown(&["a"], &[]), Err((Code::AlreadyExists, present)));
        assert_eq!(shown(&["a b"], &[]).unwrap_err().0, Code::InvalidArgument);
    }
}
