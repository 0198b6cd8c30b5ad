//! How records reach the disk, how they do not, and what becomes of those who wait for it.

use coordination::error_code::ErrorCode;
use coordination::group::Effects;
use coordination::reply::GroupState;

use crate::counts::Counts;
use crate::disk::{Batches, Split};
use crate::message::{Call, Response};
use crate::random::Random;

use super::admin::Forgetting;
use super::{Broker, Context, Held, Outcome, Output, Place};

impl Broker {
    /// Writes what was gathered; mostly in one batch for each log, now and then in many.
    pub(super) fn start_flush(&mut self, context: &mut Context<'_>, shard: usize) {
        let hosted = &mut self.shards[shard];
        let live = hosted.live.as_mut().expect("there is something to write");
        let steps = std::mem::take(&mut live.gathering);
        live.under_way = steps.iter().map(|step| step.records.len() as u64).sum();
        let chance = *context.random.pick(&[0, 0, 300, 1_000]);
        let batches = Batches::new(&steps, || context.random.per_mille(chance));
        context.counts.split_flushes += u64::from(batches.lengths().iter().any(|length| *length > 1));
        live.flushing = Some(batches);
        context.outputs.push(Output::Flush(Place { shard, life: hosted.life }));
    }

    /// A reply is ready. It leaves once everything that the shard has emitted is durable.
    pub(super) fn hold(
        &mut self,
        context: &mut Context<'_>,
        shard: usize,
        call: Call,
        response: Response,
    ) -> Result<(), String> {
        let live = self.shards[shard].live.as_mut().expect("a step was made");
        if live.durable < live.emitted {
            live.held.push_back(Held { until: live.emitted, call, response });
            return Ok(());
        }
        self.respond(context, call, response)
    }

    /// The disk is done with a flush.
    pub fn handle_flushed(
        &mut self,
        context: &mut Context<'_>,
        place: Place,
        outcome: Outcome,
    ) -> Result<(), String> {
        let Place { shard, life } = place;
        let hosted = &mut self.shards[shard];
        let Some(live) = hosted.live.as_mut().filter(|_| hosted.life == life) else { return Ok(()) };
        let batches = live.flushing.take().expect("a flush is under way");
        if outcome == Outcome::Failed {
            context.trace.note(|| format!("     the disk refuses a flush of shard {shard}"));
            context.counts.refused_flushes += 1;
            // The two logs fail separately, and each from some batch on.
            let lengths = batches.lengths();
            let mut kept = lengths.map(|length| context.random.index(length + 1));
            if kept == lengths {
                let refused =
                    if kept[0] > 0 && (kept[1] == 0 || context.random.per_mille(500)) { 0 } else { 1 };
                kept[refused] = context.random.index(kept[refused]);
            }
            context.counts.torn_flushes += u64::from(kept != [0, 0]);
            for batch in batches.beginnings(kept) {
                hosted.disk.append(batch);
            }
            return self.drop_shard(context, shard);
        }
        for batch in batches.iter() {
            for entry in batch {
                live.durable_machine.apply(&entry.decode()?);
            }
            hosted.disk.append(batch);
        }
        live.durable += live.under_way;
        live.under_way = 0;
        let durable = live.durable;
        if live.durable == live.emitted {
            let concerned = |group: &str| self.shard_of(group) == shard;
            let is_empty = |group: &str| self.describe(group).is_some_and(|it| it.state == GroupState::Empty);
            context.checker.see_durable(concerned, is_empty);
        } else if !live.gathering.is_empty() {
            self.start_flush(context, shard);
        }
        self.check_shard(context, shard)?;
        loop {
            let Some(live) = &mut self.shards[shard].live else { return Ok(()) };
            let Some(held) = live.held.pop_front_if(|it| it.until <= durable) else { return Ok(()) };
            self.respond(context, held.call, held.response)?;
        }
    }

    /// Memory is ahead of the log: it is dropped, and everybody who waits is told to come back.
    fn drop_shard(&mut self, context: &mut Context<'_>, shard: usize) -> Result<(), String> {
        let live = self.shards[shard].live.take().expect("it was live");
        let mut refused: Vec<Call> = live.held.into_iter().map(|it| it.call).collect();
        self.parked.retain(|_, parked| {
            let stays = parked.shard != shard;
            if !stays {
                refused.push(parked.call);
            }
            stays
        });
        self.asked.retain(|_, asked| asked.shard != shard);
        for call in refused {
            let Some(open) = self.open.get(&call) else { continue };
            let response = open.request.refusal(ErrorCode::NotCoordinator);
            self.respond(context, call, response)?;
        }
        Ok(())
    }

    /// Power is cut: of what was under way a beginning is on the disk, and all rails are gone.
    pub fn crash(&mut self, random: &mut Random, counts: &mut Counts) {
        self.open.clear();
        self.parked.clear();
        self.asked.clear();
        for hosted in &mut self.shards {
            let Some(live) = hosted.live.take() else { continue };
            let batches = live.flushing.unwrap_or_default();
            let all: usize = batches.lengths().iter().sum();
            let kept = random.index(all + 1);
            counts.torn_flushes += u64::from(kept > 0 && kept < all);
            for batch in batches.iter().take(kept) {
                hosted.disk.append(batch);
            }
        }
    }

    /// A shutdown in good order: everybody who is parked is told to come back, and all is written.
    pub fn unload(&mut self, context: &mut Context<'_>) -> Result<(), String> {
        for shard in 0..self.shards.len() {
            let Some(live) = &mut self.shards[shard].live else { continue };
            let mut effects = Effects::default();
            live.machine.handle_unload(&mut effects);
            live.is_unloaded = true;
            self.take_up(context, shard, &mut effects, Forgetting::Nothing, Split::Anywhere)?;
            if let Some((ticket, _)) = self.parked.iter().find(|(_, parked)| parked.shard == shard) {
                return Err(format!("{ticket:?} is still parked after the unload"));
            }
            loop {
                let hosted = &self.shards[shard];
                let place = Place { shard, life: hosted.life };
                if hosted.live.as_ref().is_none_or(|live| live.flushing.is_none()) {
                    break;
                }
                self.handle_flushed(context, place, Outcome::Durable)?;
            }
        }
        Ok(())
    }
}
