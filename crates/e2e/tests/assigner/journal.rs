//! The one observer: who works on which partition, and whether anybody else does at the same time.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use assigner_client::{Owned, Partition};

/// One process under a consumer's name; another one under the same name has another number.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Life {
    pub(crate) name: String,
    pub(crate) number: usize,
}

/// Clones share.
#[derive(Clone)]
pub(crate) struct Journal(Arc<Mutex<Book>>);

struct Book {
    opened: Instant,
    shifts: BTreeMap<Partition, Vec<Shift>>,
    gone: BTreeSet<Life>,
    lives: usize,
    violations: Vec<String>,
}

/// A time for which somebody works on a partition.
struct Shift {
    life: Life,
    owned: Owned,
    from: Duration,
    to: Option<Duration>,
}

impl Journal {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(Book {
            opened: Instant::now(),
            shifts: BTreeMap::new(),
            gone: BTreeSet::new(),
            lives: 0,
            violations: Vec::new(),
        })))
    }

    pub(crate) fn be_born(&self, name: &str) -> Life {
        let mut book = self.lock();
        book.lives += 1;
        Life { name: name.to_owned(), number: book.lives }
    }

    /// Work begins. Whoever works on the partition at this moment besides is found out here, and nobody escapes:
    /// `is_mine` means without a break since the assignment, so of two who overlap the later one finds the other.
    pub(crate) fn begin(&self, life: &Life, owned: &Owned) {
        let mut book = self.lock();
        if book.gone.contains(life) {
            return;
        }
        let now = book.opened.elapsed();
        let Book { shifts, gone, violations, .. } = &mut *book;
        let shifts = shifts.entry(owned.partition.clone()).or_default();
        let others: Vec<&Shift> = shifts
            .iter()
            .filter(|other| other.to.is_none() && !gone.contains(&other.life) && other.owned.is_mine())
            .collect();
        // Asked after the others were: if it is so now, it was so then.
        if owned.is_mine() {
            for other in others {
                let Shift { life: theirs, owned: Owned { epoch, .. }, .. } = other;
                violations.push(format!(
                    "{now:?}: {life:?} begins with {} in epoch {} while {theirs:?} works on it in epoch {epoch}",
                    owned.partition, owned.epoch
                ));
            }
        }
        if let Some(last) = shifts.iter().max_by_key(|shift| shift.owned.epoch) {
            let has_grown = owned.epoch > last.owned.epoch;
            let is_the_same = last.life.name == life.name && owned.epoch == last.owned.epoch;
            if !has_grown && !is_the_same {
                violations.push(format!(
                    "{now:?}: {life:?} owns {} in epoch {}, after {:?} in epoch {}",
                    owned.partition, owned.epoch, last.life, last.owned.epoch
                ));
            }
        }
        shifts.push(Shift { life: life.clone(), owned: owned.clone(), from: now, to: None });
    }

    /// Work ends.
    pub(crate) fn end(&self, life: &Life, partition: &Partition) {
        let mut book = self.lock();
        let now = book.opened.elapsed();
        for shift in book.shifts.get_mut(partition).into_iter().flatten() {
            if shift.life == *life && shift.to.is_none() {
                shift.to = Some(now);
            }
        }
    }

    /// The process does nothing any more.
    pub(crate) fn die(&self, life: &Life) {
        let mut book = self.lock();
        let now = book.opened.elapsed();
        book.gone.insert(life.clone());
        for shift in book.shifts.values_mut().flatten() {
            if shift.life == *life && shift.to.is_none() {
                shift.to = Some(now);
            }
        }
    }

    /// What it works on, with the epochs.
    pub(crate) fn working(&self, life: &Life) -> BTreeMap<u32, u64> {
        self.all_working().remove(life).unwrap_or_default()
    }

    /// What each works on.
    pub(crate) fn all_working(&self) -> BTreeMap<Life, BTreeMap<u32, u64>> {
        let book = self.lock();
        let mut working: BTreeMap<Life, BTreeMap<u32, u64>> = BTreeMap::new();
        for shift in book.shifts.values().flatten().filter(|it| it.to.is_none() && it.owned.is_mine()) {
            let places = working.entry(shift.life.clone()).or_default();
            places.insert(shift.owned.partition.number, shift.owned.epoch);
        }
        working
    }

    /// How often it has begun to work on anything.
    pub(crate) fn begun(&self, life: &Life) -> usize {
        self.lock().shifts.values().flatten().filter(|shift| shift.life == *life).count()
    }

    /// How often anybody has.
    pub(crate) fn all_begun(&self) -> usize {
        self.lock().shifts.values().map(Vec::len).sum()
    }

    /// What was ever wrong.
    pub(crate) fn violations(&self) -> Vec<String> {
        self.lock().violations.clone()
    }

    /// Fails if anything was ever wrong.
    pub(crate) fn check(&self) {
        let violations = self.violations();
        assert!(violations.is_empty(), "{}\n{}", violations.join("\n"), self.story());
    }

    /// The last that happened to each partition.
    pub(crate) fn story(&self) -> String {
        let book = self.lock();
        let mut story = format!("after {:?}:\n", book.opened.elapsed());
        for (partition, shifts) in book.shifts.iter().take(64) {
            let last = &shifts[shifts.len().saturating_sub(4)..];
            let told: Vec<String> = last
                .iter()
                .map(|Shift { life, owned, from, to }| {
                    let to = to.map(|to| format!("{to:.1?}")).unwrap_or_default();
                    format!("{life:?} in epoch {} {from:.1?}-{to}", owned.epoch)
                })
                .collect();
            story.push_str(&format!("  {partition}: {}\n", told.join(", ")));
        }
        story
    }

    fn lock(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.name, self.number)
    }
}
