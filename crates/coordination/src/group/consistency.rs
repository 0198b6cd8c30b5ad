//! What must be true of a shard between two steps.

use std::collections::BTreeMap;

use super::Shard;
use super::effects::Usage;
use super::machine::Group;
use super::member::offer_bytes;
use super::phase::Phase;

impl Shard {
    /// Looks at everything that is kept twice for the sake of speed. For tests and simulations: it takes as long as
    /// there is state.
    ///
    /// # Panics
    /// When something is not what it should be.
    pub fn assert_consistent(&self) {
        let mut usage = Usage::default();
        let mut deadlines = 0;
        for (name, group) in self.groups.iter() {
            assert_eq!(*name, group.name, "a group is kept under its name");
            usage.add(group.usage());
            if !matches!(group.phase, Phase::Dead) {
                deadlines += group.deadlines();
            }
            group.assert_consistent();
            if let Some(identity) = &group.identity {
                assert_eq!(self.ids.get(&identity.id), Some(name), "a group is found by its id");
            }
        }
        assert_eq!(usage, self.usage, "usage is the sum of all groups");
        assert_eq!(deadlines, self.deadlines.len(), "nobody else has a deadline");
        let named = self.groups.iter().filter(|(_, group)| group.identity.is_some()).count();
        assert_eq!(named, self.ids.len(), "only groups that exist have ids");
    }
}

impl Group {
    fn deadlines(&self) -> usize {
        let phase = match &self.phase {
            Phase::Preparing(_) => 1,
            Phase::Completing(phase) => usize::from(phase.unsynced.ends.is_some()),
            Phase::Stable(phase) => usize::from(phase.unsynced.ends.is_some()),
            Phase::Empty | Phase::Dead => 0,
        };
        phase + self.members.len() + self.pending.len()
    }

    fn assert_consistent(&self) {
        self.members.assert_consistent();
        let is_member = |id: &std::sync::Arc<str>| self.members.contains(id);
        match &self.phase {
            Phase::Empty => assert!(self.members.is_empty(), "nobody is in an empty group"),
            Phase::Preparing(phase) => assert!(phase.joined.keys().all(is_member), "only members join"),
            Phase::Completing(phase) => {
                assert!(phase.syncing.keys().all(is_member), "only members sync");
                assert!(phase.unsynced.members.iter().all(is_member), "only members are waited for");
                assert!(self.leader.as_ref().is_some_and(is_member), "a generation has a leader");
                assert!(self.protocol.is_some(), "a generation has a protocol");
            }
            Phase::Stable(phase) => {
                assert!(phase.unsynced.members.iter().all(is_member), "only members are waited for");
                assert!(!self.members.is_empty(), "a stable group has members");
            }
            Phase::Dead => {}
        }
        for id in self.pending.keys() {
            assert!(!is_member(id), "an id that has joined is not waited for");
        }
    }
}

impl super::member::Members {
    fn assert_consistent(&self) {
        let mut bytes = 0;
        let mut offered: BTreeMap<&str, usize> = BTreeMap::new();
        let mut statics = 0;
        for (id, member) in self.iter() {
            bytes += member.bytes(id);
            for (name, _) in member.protocols() {
                *offered.entry(name).or_default() += 1;
            }
            if let Some(instance) = &member.instance {
                statics += 1;
                assert_eq!(self.of_instance(instance), Some(id), "a static member is found by its name");
            }
        }
        bytes += offered.keys().map(|name| offer_bytes(name)).sum::<usize>();
        assert_eq!(bytes, self.bytes(), "bytes are the sum of all members and of what they offer");
        assert!(self.has_offers(&offered), "offers are counted");
        assert_eq!(statics, self.static_count(), "only members have names");
    }
}
