//! A map by name that does not slow down as it grows.

use std::collections::{BTreeMap, btree_map};
use std::sync::Arc;

/// Values by name.
///
/// A tree of names visits the memory of a dozen of them on the way to one, and each is a miss of the cache when there
/// are thousands. This is a tree of their hashes, which lie side by side in its nodes, and visits only the name that is
/// looked for. The hash is the same in every run, so the same inputs lead to the same outputs; names that are made to
/// have the same hash share a tree of names, which is no worse than having no hashes.
#[derive(Clone, Debug)]
pub(super) struct ByName<V> {
    slots: BTreeMap<u64, Slot<V>>,
    len: usize,
}

#[derive(Clone, Debug)]
enum Slot<V> {
    One(Arc<str>, Box<V>),
    #[expect(clippy::box_collection, reason = "hardly ever there, and must not make the other one larger")]
    More(Box<BTreeMap<Arc<str>, Box<V>>>),
}

impl<V> Default for ByName<V> {
    fn default() -> Self {
        Self { slots: BTreeMap::new(), len: 0 }
    }
}

impl<V> ByName<V> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn get(&self, name: &str) -> Option<&V> {
        self.get_key_value(name).map(|(_, value)| value)
    }

    pub(super) fn contains_key(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    pub(super) fn get_key_value(&self, name: &str) -> Option<(&Arc<str>, &V)> {
        match self.slots.get(&hash(name))? {
            Slot::One(known, value) => (**known == *name).then_some((known, &**value)),
            Slot::More(names) => names.get_key_value(name).map(|(known, value)| (known, &**value)),
        }
    }

    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut V> {
        match self.slots.get_mut(&hash(name))? {
            Slot::One(known, value) => (**known == *name).then_some(&mut **value),
            Slot::More(names) => names.get_mut(name).map(|value| &mut **value),
        }
    }

    /// Puts a value in its place, and gives back what was there.
    pub(super) fn insert(&mut self, name: Arc<str>, value: Box<V>) -> Option<Box<V>> {
        let before = match self.slots.entry(hash(&name)) {
            btree_map::Entry::Vacant(vacant) => {
                vacant.insert(Slot::One(name, value));
                None
            }
            btree_map::Entry::Occupied(occupied) => occupied.into_mut().insert(name, value),
        };
        self.len += usize::from(before.is_none());
        before
    }

    pub(super) fn remove(&mut self, name: &str) -> Option<(Arc<str>, Box<V>)> {
        let btree_map::Entry::Occupied(mut occupied) = self.slots.entry(hash(name)) else { return None };
        let (removed, is_empty) = match occupied.get_mut() {
            Slot::More(names) => (names.remove_entry(name)?, names.is_empty()),
            Slot::One(known, _) if **known != *name => return None,
            Slot::One(..) => match occupied.remove() {
                Slot::One(name, value) => {
                    self.len -= 1;
                    return Some((name, value));
                }
                Slot::More(_) => return None,
            },
        };
        if is_empty {
            occupied.remove();
        }
        self.len -= 1;
        Some(removed)
    }

    /// All of them, in an order that says nothing but is always the same.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &V)> {
        self.slots.values().flat_map(|slot| {
            let (one, more) = match slot {
                Slot::One(name, value) => (Some((name, value)), None),
                Slot::More(names) => (None, Some(names.iter())),
            };
            one.into_iter().chain(more.into_iter().flatten()).map(|(name, value)| (name, &**value))
        })
    }

    /// As [`Self::iter`].
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (&Arc<str>, &mut V)> {
        self.slots.values_mut().flat_map(|slot| {
            let (one, more) = match slot {
                Slot::One(name, value) => (Some((&*name, value)), None),
                Slot::More(names) => (None, Some(names.iter_mut())),
            };
            one.into_iter().chain(more.into_iter().flatten()).map(|(name, value)| (name, &mut **value))
        })
    }

    /// All of them, by name.
    pub(super) fn in_order(&self) -> Vec<(&Arc<str>, &V)> {
        let mut all: Vec<_> = self.iter().collect();
        all.sort_unstable_by_key(|(name, _)| *name);
        all
    }

    /// All names, in their order.
    pub(super) fn names(&self) -> Vec<Arc<str>> {
        let mut names: Vec<_> = self.iter().map(|(name, _)| Arc::clone(name)).collect();
        names.sort_unstable();
        names
    }
}

impl<V> Slot<V> {
    fn insert(&mut self, name: Arc<str>, value: Box<V>) -> Option<Box<V>> {
        match self {
            Self::One(known, here) if **known == *name => Some(std::mem::replace(here, value)),
            Self::More(names) => names.insert(name, value),
            Self::One(..) => {
                let new = BTreeMap::from([(name, value)]);
                if let Self::One(name, value) = std::mem::replace(self, Self::More(Box::new(new)))
                    && let Self::More(names) = self
                {
                    names.insert(name, value);
                }
                None
            }
        }
    }
}

const SEED: u64 = 0x9e37_79b9_7f4a_7c15;
const FACTOR: u64 = 0xd6e8_feb8_6659_fd93;

/// The same for a name in every run.
fn hash(name: &str) -> u64 {
    let (words, rest) = name.as_bytes().as_chunks::<8>();
    let state =
        words.iter().fold(SEED ^ name.len() as u64, |state, word| mix(state, u64::from_le_bytes(*word)));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    mix(mix(state, u64::from_le_bytes(last)), SEED)
}

fn mix(state: u64, word: u64) -> u64 {
    let product = u128::from(state ^ word) * u128::from(FACTOR);
    #[expect(clippy::cast_possible_truncation, reason = "both halves of the product are kept")]
    let (low, high) = (product as u64, (product >> 64) as u64);
    low ^ high
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Does to a plain map what is done to this one.
    #[derive(Clone, Debug)]
    enum Deed {
        Insert(String, u32),
        Remove(String),
        Get(String),
    }

    fn deeds() -> impl Strategy<Value = Vec<Deed>> {
        let name = "[ab]{0,3}|[a-c]{8,10}";
        let deed = prop_oneof![
            (name, any::<u32>()).prop_map(|(name, value)| Deed::Insert(name, value)),
            name.prop_map(Deed::Remove),
            name.prop_map(Deed::Get),
        ];
        prop::collection::vec(deed, 0..200)
    }

    proptest! {
        #[test]
        fn it_holds_what_a_plain_map_holds(deeds in deeds()) {
            let mut map = ByName::default();
            let mut plain = BTreeMap::new();
            for deed in deeds {
                match deed {
                    Deed::Insert(name, value) => {
                        let before = map.insert(Arc::from(&*name), Box::new(value));
                        prop_assert_eq!(before.map(|value| *value), plain.insert(name, value));
                    }
                    Deed::Remove(name) => {
                        let removed = map.remove(&name).map(|(name, value)| (name.to_string(), *value));
                        prop_assert_eq!(removed, plain.remove_entry(&name));
                    }
                    Deed::Get(name) => {
                        prop_assert_eq!(map.get(&name), plain.get(&name));
                        prop_assert_eq!(map.get_mut(&name), plain.get_mut(&name));
                    }
                }
                prop_assert_eq!((map.len(), map.is_empty()), (plain.len(), plain.is_empty()));
                let all: Vec<_> = map.in_order().into_iter().map(|(name, value)| (&**name, value)).collect();
                prop_assert_eq!(all, plain.iter().map(|(name, value)| (&**name, value)).collect::<Vec<_>>());
            }
        }
    }

    /// Two names of 16 bytes whose hashes are the same: the second word undoes the difference that the first has made.
    fn colliding() -> [String; 2] {
        const LOW: u64 = 0x0f0f_0f0f_0f0f_0f0f;
        let state = |text: &[u8; 8]| mix(SEED ^ 16, u64::from_le_bytes(*text));
        // All 16 bytes have to be text, so a pair is looked for whose states differ in nothing but low bits.
        let texts =
            (0_u64..).map(|number| format!("{number:08}").into_bytes().try_into().expect("eight digits"));
        let mut seen: BTreeMap<u64, [u8; 8]> = BTreeMap::new();
        for text in texts {
            let text: [u8; 8] = text;
            // What differs in these bits is made up for by the low bits of the second word's characters.
            let shared = state(&text) & !LOW;
            if let Some(other) = seen.insert(shared, text) {
                let second = |text: &[u8; 8]| {
                    let low = state(text) & LOW;
                    (low ^ u64::from_le_bytes(*b"@@@@@@@@")).to_le_bytes()
                };
                return [other, text].map(|text| {
                    String::from_utf8([text, second(&text)].concat()).expect("all of it is ASCII")
                });
            }
        }
        unreachable!("there is always a next number")
    }

    #[test]
    fn names_that_collide_are_told_apart() {
        let [first, second] = colliding();
        assert!(first != second && hash(&first) == hash(&second), "{first} and {second}");
        let mut map = ByName::default();
        for (name, value) in [(&first, 1), (&second, 2)] {
            assert!(map.get(name).is_none());
            assert!(map.remove(name).is_none());
            assert!(map.insert(Arc::from(&**name), Box::new(value)).is_none());
        }
        assert_eq!((map.get(&first), map.get(&second), map.len()), (Some(&1), Some(&2), 2));
        assert_eq!(map.insert(Arc::from(&*second), Box::new(3)), Some(Box::new(2)));
        assert_eq!(map.iter().map(|(_, value)| *value).sum::<u32>(), 4);
        assert_eq!(map.remove(&first).map(|(_, value)| *value), Some(1));
        assert_eq!((map.get(&first), map.get(&second)), (None, Some(&3)));
        assert_eq!(map.remove(&second).map(|(_, value)| *value), Some(3));
        assert!(map.is_empty() && map.slots.is_empty());
    }
}
