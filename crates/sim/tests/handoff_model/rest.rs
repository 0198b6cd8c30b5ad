//! What becomes of a group when nothing goes wrong any more.

use coordination::handoff::{ConsumerState, Phase, desired};

use crate::world::{INSTANCES, World};

/// Far more rounds than any small group needs.
const ROUNDS: usize = 60;

impl World {
    /// Lets everybody do their duty until nothing is left to do, and looks whether everything is as it should be then.
    pub(crate) fn rest(&mut self) -> Result<(), String> {
        let mut quiet = 0;
        for _ in 0..ROUNDS {
            let is_busy = self.round(quiet > 0);
            if let Some(place) = self.two_at_work() {
                return Err(format!("two work on {place} while the group comes to rest"));
            }
            if let Some(why) = &self.broken {
                return Err(why.clone());
            }
            quiet = if is_busy { 0 } else { quiet + 1 };
            if quiet == 3 {
                return self.check_rest();
            }
        }
        Err("the group does not come to rest".to_owned())
    }

    /// Everybody does what there is to do once.
    fn round(&mut self, is_late: bool) -> bool {
        let mut is_busy = false;
        for process in 0..self.processes.len() {
            self.sync();
            is_busy |= self.duty(process);
        }
        for step in 0..self.truth.state.partitions().len() {
            self.sync();
            is_busy |= self.settle(step % INSTANCES, 0);
            self.sync();
            // What begins when it is late is in time.
            is_busy |= self.plan(step % INSTANCES, 0, is_late && step == 0);
        }
        is_busy
    }

    fn duty(&mut self, process: usize) -> bool {
        let it = &self.processes[process];
        let registered = self.truth.state.consumers.get(&it.name).map(|stored| stored.value.session);
        let is_fenced = registered.is_some_and(|session| session != it.session);
        if it.owes_stopped {
            return self.say_stopped(process, 0);
        }
        if it.is_down {
            return self.expire(process);
        }
        if it.stream.is_none() {
            if is_fenced {
                // It is refused when it tries to come back.
                let it = &mut self.processes[process];
                (it.is_down, it.owes_stopped) = (true, true);
                it.working.clear();
                return true;
            }
            return self.register(process, process % INSTANCES);
        }
        let mut is_busy = self.deliver(process);
        self.sync();
        is_busy |= self.waited(process);
        while !self.processes[process].said.is_empty() {
            self.sync();
            is_busy |= self.hear(process, 0, process % INSTANCES, false);
        }
        if self.processes[process].is_leaving {
            self.sync();
            is_busy |= self.leave(process, process % INSTANCES);
        }
        is_busy
    }

    /// Everything that somebody can take is owned by who should own it, who works on it.
    fn check_rest(&self) -> Result<(), String> {
        let state = &self.truth.state;
        let is_any_ready = state.consumers.values().any(|stored| stored.value.state == ConsumerState::Ready);
        if !is_any_ready {
            return Ok(());
        }
        if state.handoffs.values().any(|stored| stored.value.phase != Phase::Cancelled) {
            return Err("a handoff does not end".to_owned());
        }
        let desired = desired(state, &self.settings, 0);
        for place in state.partitions() {
            let owner = state.assignments.get(&place).map(|stored| &stored.value.owner);
            let wanted = desired.choices.get(&place).map(|choice| &choice.owner);
            if owner != wanted {
                return Err(format!("{place} is owned by {owner:?} for ever, not by {wanted:?}"));
            }
            let mut at_work = self.processes.iter().filter(|process| process.working.contains(&place));
            if at_work.next().map(|process| &process.name) != owner {
                return Err(format!("nobody works on {place} for ever"));
            }
        }
        Ok(())
    }
}
