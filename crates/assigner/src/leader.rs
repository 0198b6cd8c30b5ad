//! What an instance does while it leads: it plans, and carries its plans out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use coordination::handoff::{self, transactions};
use etcd::{Guard, Leadership, Outcome};
use tracing::Instrument;

use crate::clock::now_ms;
use crate::groups::{Group, GroupId, Urgency};
use crate::instance::Instance;
use crate::planner::{MoveKind, OPERATIONS_MAX, Plan, Schedule, Scope, deadline_in_ms, label, plan_group};
use crate::topics::{keep_fresh, shown};

/// How many writes a transaction has at most when a group is planned, and when it is planned again because something
/// had changed meanwhile. The smaller they are, the less one change spoils.
const ATTEMPTS: [usize; 4] = [OPERATIONS_MAX, OPERATIONS_MAX / 4, OPERATIONS_MAX / 16, OPERATIONS_MAX / 16];

/// How long to wait before a group is planned again after etcd could not be asked, first and at most.
const PAUSE_FIRST: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Leads whenever it is elected. Ends with the election.
pub(crate) async fn take_part(instance: Arc<Instance>) {
    let metrics = Arc::clone(instance.groups.metrics());
    let mut leadership = instance.leadership.clone();
    loop {
        let current = leadership.borrow_and_update().clone();
        let is_over = match current {
            Leadership::Following { .. } => {
                metrics.is_leader.set(0);
                leadership.changed().await.is_err()
            }
            Leadership::Leading { guard } => {
                metrics.is_leader.set(1);
                metrics.elections_won.inc();
                tracing::info!(name = instance.name, "this instance leads");
                // What is not written yet must not be any more, so the work is dropped wherever it is. A transaction
                // that is on its way carries the guard.
                let is_over = tokio::select! {
                    biased;
                    changed = leadership.changed() => changed.is_err(),
                    () = lead(&instance, &guard) => false,
                };
                metrics.is_leader.set(0);
                tracing::info!(name = instance.name, "this instance does not lead any more");
                is_over
            }
        };
        if is_over {
            return std::future::pending().await;
        }
    }
}

async fn lead(instance: &Instance, guard: &Guard) {
    // What the leader before has written is to be seen before anything is decided.
    instance.groups.reach(guard.modified).await;
    let leader = Leader { instance, guard, settings: instance.settings.plan() };
    tokio::join!(leader.plan_for_ever(), keep_fresh(instance, guard));
}

struct Leader<'a> {
    instance: &'a Instance,
    guard: &'a Guard,
    settings: handoff::Settings,
}

/// Why a plan was not carried out.
enum Undone {
    /// Something that it rests on has changed, however often it was made anew.
    Refused,
    /// etcd could not be asked; why has been logged.
    Failed,
}

impl Leader<'_> {
    async fn plan_for_ever(&self) {
        let groups = &self.instance.groups;
        let mut schedule = Schedule::new(&self.instance.settings, Instant::now());
        let mut pauses: BTreeMap<GroupId, Duration> = BTreeMap::new();
        // What has changed before this instance leads is not all there is to do.
        drop(groups.take_due());
        for id in groups.busy_ids() {
            schedule.note(Instant::now(), &id, Urgency::AtOnce);
        }
        loop {
            pauses.retain(|id, _| schedule.knows(id));
            tokio::select! {
                () = groups.due() => {}
                () = tokio::time::sleep_until(schedule.next().into()) => {}
            }
            loop {
                let now = Instant::now();
                for (id, urgency) in groups.take_due() {
                    schedule.note(now, &id, urgency);
                }
                schedule.reconcile(now, || groups.busy_ids());
                let Some((id, scope)) = schedule.pop(now) else { break };
                match self.work(&id, scope).await {
                    Ok(deadline) => {
                        pauses.remove(&id);
                        schedule.planned(Instant::now(), &id, deadline);
                    }
                    Err(undone) => {
                        let pause = pauses.entry(id.clone()).or_insert(PAUSE_FIRST);
                        match undone {
                            Undone::Refused => schedule.refused(Instant::now(), &id, *pause),
                            Undone::Failed => schedule.failed(Instant::now(), &id, *pause),
                        }
                        *pause = (*pause * 2).min(PAUSE_MAX);
                    }
                }
            }
        }
    }

    /// Plans a group and carries that out, and says when the next of its handoffs ends by itself.
    async fn work(&self, id: &GroupId, scope: Scope) -> Result<Option<Duration>, Undone> {
        for operations_max in ATTEMPTS {
            let plan = self.plan(id, scope).await;
            let steps = plan.steps.len();
            let span = tracing::info_span!("kohort.assigner.transaction", group = shown(id), steps);
            // What has changed since it was planned is planned when it has settled; only what was refused because of
            // that is tried again at once.
            if steps == 0 || self.carry_out(id, &plan, operations_max).instrument(span).await? {
                let left = |group: &Group| deadline_in_ms(group, &self.settings, now_ms());
                return Ok(self.instance.groups.with(id, left).map(Duration::from_millis));
            }
        }
        // Others write all the time. They are let through before the next attempt.
        Err(Undone::Refused)
    }

    /// A large group takes some milliseconds, in which other tasks of this thread would wait.
    async fn plan(&self, id: &GroupId, scope: Scope) -> Plan {
        let span = tracing::info_span!("kohort.assigner.plan", group = shown(id));
        let (group, settings) = (self.instance.groups.get(id), self.settings.clone());
        let planning = tokio::task::spawn_blocking(move || {
            let _entered = span.entered();
            let began = Instant::now();
            let plan = plan_group(&group, &settings, scope, now_ms());
            (plan, began.elapsed())
        });
        let (plan, lasted) = match planning.await {
            Ok(planned) => planned,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime ends, and this task with it.
                Err(_) => std::future::pending().await,
            },
        };
        self.instance.groups.metrics().plan_duration.observe(lasted.as_secs_f64());
        plan
    }

    /// Carries out what it can of a plan, and waits until that is seen. No step needs another, so if something has
    /// changed that some of them rest on, the others are carried out all the same. Says whether all were.
    async fn carry_out(&self, id: &GroupId, plan: &Plan, operations_max: usize) -> Result<bool, Undone> {
        let groups = &self.instance.groups;
        let (mut seen_at, mut begin) = (0, 0);
        let mut counts: BTreeMap<MoveKind, usize> = BTreeMap::new();
        let (mut is_complete, mut failure) = (true, None);
        for steps in transactions(&plan.steps, operations_max) {
            let moves = &plan.moves[begin..begin + steps.len()];
            begin += steps.len();
            match groups.carry_out(id, steps, Some(self.guard), None).await {
                Ok(Outcome::Committed { revision }) => {
                    seen_at = seen_at.max(revision);
                    for moved in moves {
                        *counts.entry(moved.kind).or_default() += 1;
                        self.tell(id, moved);
                    }
                }
                Ok(Outcome::Refused { revision }) => {
                    tracing::debug!(group = shown(id), revision, "something has changed meanwhile");
                    seen_at = seen_at.max(revision);
                    is_complete = false;
                }
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        if !counts.is_empty() {
            let count = |kind| counts.get(&kind).copied().unwrap_or(0);
            tracing::info!(
                group = shown(id),
                assigned = count(MoveKind::Assigned),
                begun = count(MoveKind::HandoffBegins),
                cancelled = count(MoveKind::HandoffCancelled),
                completed = count(MoveKind::HandoffCompletes),
                other = count(MoveKind::Other),
                "a plan was carried out"
            );
        }
        if let Some(error) = failure {
            tracing::warn!(group = shown(id), %error, "a plan could not be carried out");
            return Err(Undone::Failed);
        }
        match groups.reach_soon(seen_at).await {
            Ok(()) => Ok(is_complete),
            Err(error) => {
                tracing::warn!(group = shown(id), "{error}");
                Err(Undone::Failed)
            }
        }
    }

    fn tell(&self, id: &GroupId, moved: &crate::planner::Move) {
        if let Some(cause) = moved.cancelled {
            self.instance.groups.metrics().count_cancellation(label(cause));
        }
        // The sum of it is logged at the level above.
        tracing::debug!(group = shown(id), "{moved}");
    }
}
