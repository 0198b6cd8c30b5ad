//! Where to begin to read, and how far that went.

use coordination::error_code::ErrorCode;

use crate::message::{Commit, Committed, Fetch, Request};

use super::{Action, Consumer, Phase, Surroundings, What};

impl Consumer {
    pub(super) fn fetch(&mut self, now: u64, actions: &mut Vec<Action>) {
        self.positions_known = self.owned.is_empty();
        if !self.positions_known {
            let partitions = self.owned.keys().cloned().collect();
            let fetch = Fetch { group: self.profile.group.clone(), partitions };
            self.send(now, What::Fetch, Request::Fetch(fetch), actions);
        }
    }

    pub(super) fn fetched(
        &mut self,
        around: &mut Surroundings<'_>,
        found: Result<Vec<Committed>, ErrorCode>,
        actions: &mut Vec<Action>,
    ) {
        match found {
            Ok(found) => {
                for committed in found {
                    if let Some(position) = self.owned.get_mut(&committed.partition) {
                        *position = committed.offset;
                    }
                }
                self.positions_known = true;
            }
            Err(ErrorCode::CoordinatorLoadInProgress) => self.fetch(around.now, actions),
            Err(error) => self.member_error(around.now, error, actions),
        }
    }

    pub(super) fn send_commit(&mut self, around: &mut Surroundings<'_>, actions: &mut Vec<Action>) {
        let mut offsets = Vec::new();
        for (partition, position) in &mut self.owned {
            *position += i64::try_from(around.random.between(0, 9)).expect("a small number");
            *around.commits += 1;
            offsets.push(Committed {
                partition: partition.clone(),
                offset: *position,
                metadata: format!("c{}", *around.commits),
            });
        }
        let commit = Commit {
            group: self.profile.group.clone(),
            generation: self.generation,
            member_id: self.member_id.clone(),
            instance_id: self.profile.instance_id.clone(),
            offsets,
        };
        self.send(around.now, What::Commit, Request::Commit(commit), actions);
    }

    pub(super) fn committed(
        &mut self,
        around: &mut Surroundings<'_>,
        error: Option<ErrorCode>,
        current: bool,
        actions: &mut Vec<Action>,
    ) {
        let now = around.now;
        // Earlier commits may still be on their way; only the last one lets the consumer leave or join.
        let is_last = !self.waiting.iter().any(|it| it.what == What::Commit);
        match (self.phase, error) {
            (Phase::Leaving, _) if self.profile.instance_id.is_some() && self.waiting.is_empty() => {
                self.crash();
                actions.push(Action::Disconnect);
            }
            (Phase::Leaving, _) => {}
            _ if !current => {}
            // An offset that finds no room is the application's trouble; its consumer goes on.
            (Phase::Committing, None | Some(ErrorCode::RebalanceInProgress | ErrorCode::PolicyViolation))
                if is_last =>
            {
                self.join(around, actions);
            }
            (Phase::Committing, Some(ErrorCode::CoordinatorLoadInProgress)) if is_last => {
                self.phase = Phase::Stable;
                self.busy = Some((now, now + self.profile.backoff_ms));
            }
            (Phase::Committing, Some(ErrorCode::RebalanceInProgress)) => {}
            (Phase::Stable, Some(ErrorCode::RebalanceInProgress)) => self.wants_rejoin = true,
            (_, None | Some(ErrorCode::CoordinatorLoadInProgress | ErrorCode::PolicyViolation)) => {}
            (Phase::Stable | Phase::Committing, Some(error)) => self.member_error(now, error, actions),
            _ => {}
        }
    }
}
