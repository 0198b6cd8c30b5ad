//! The counts that were accepted, as they stand in `crates/microbench/counts.txt`.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Context, Result};

/// How many percent more instructions than were accepted are too many. Less is left alone: another layout of the code
/// or a small feature takes a few.
pub(crate) const LIMIT_PERCENT: u64 = 10;

const HEAD: &str = "\
# Instructions per operation of the benchmarks in this crate, for each compiler and instruction set.
# Written by `cargo xtask instructions --accept`; docs/instruction-counts.md says when.
";

/// Accepted counts by toolchain, then by benchmark.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct AcceptedCounts(BTreeMap<String, BTreeMap<String, u64>>);

/// One benchmark, counted.
#[derive(Debug)]
pub(crate) struct Counted {
    pub(crate) name: String,
    /// `None` if nothing was accepted with this toolchain.
    pub(crate) accepted: Option<u64>,
    pub(crate) now: u64,
}

/// What a count means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// As before, or nearly.
    Same,
    /// Too many.
    More,
    /// So many fewer that the accepted count would hide a regression.
    Fewer,
    /// There is nothing to compare with.
    Unknown,
}

impl Counted {
    pub(crate) fn verdict(&self) -> Verdict {
        let Some(accepted) = self.accepted else { return Verdict::Unknown };
        if self.now * 100 > accepted * (100 + LIMIT_PERCENT) {
            Verdict::More
        } else if self.now * 100 < accepted * (100 - LIMIT_PERCENT) {
            Verdict::Fewer
        } else {
            Verdict::Same
        }
    }

    pub(crate) fn change_percent(&self) -> Option<f64> {
        let accepted = self.accepted.filter(|&accepted| accepted > 0)?;
        Some((self.now as f64 / accepted as f64 - 1.0) * 100.0)
    }
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let accepted = self.accepted.map_or_else(|| "-".to_owned(), |accepted| accepted.to_string());
        write!(f, "{:42} {accepted:>9} {:>9}", self.name, self.now)?;
        match self.change_percent() {
            Some(change) => write!(f, " {change:>+7.2} %"),
            None => Ok(()),
        }
    }
}

impl AcceptedCounts {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let mut counts = Self::default();
        let mut toolchain = None;
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                toolchain = Some(counts.0.entry(name.to_owned()).or_default());
                continue;
            }
            let (name, count) = line.split_once(' ').with_context(|| format!("no count in {line:?}"))?;
            let count = count.trim().parse().with_context(|| format!("no count in {line:?}"))?;
            let known = toolchain.as_mut().with_context(|| format!("no toolchain above {line:?}"))?;
            known.insert(name.to_owned(), count);
        }
        Ok(counts)
    }

    pub(crate) fn of(&self, toolchain: &str, name: &str) -> Option<u64> {
        self.0.get(toolchain)?.get(name).copied()
    }

    pub(crate) fn accept(&mut self, toolchain: &str, name: &str, count: u64) {
        self.0.entry(toolchain.to_owned()).or_default().insert(name.to_owned(), count);
    }

    /// Names that have a count and are not among `names`.
    pub(crate) fn unknown(&self, toolchain: &str, names: &[String]) -> Vec<String> {
        let known = self.0.get(toolchain).into_iter().flat_map(|counts| counts.keys());
        known.filter(|known| !names.contains(known)).cloned().collect()
    }

    /// Forgets other compilers for the same instruction set: only one is used at a time.
    pub(crate) fn forget_others(&mut self, toolchain: &str) {
        let architecture = toolchain.rsplit(' ').next();
        self.0.retain(|other, _| other == toolchain || other.rsplit(' ').next() != architecture);
    }

    /// Forgets benchmarks that are gone.
    pub(crate) fn keep_only(&mut self, toolchain: &str, names: &[String]) {
        if let Some(counts) = self.0.get_mut(toolchain) {
            counts.retain(|name, _| names.contains(name));
        }
    }
}

impl fmt::Display for AcceptedCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HEAD)?;
        for (toolchain, counts) in &self.0 {
            writeln!(f, "\n[{toolchain}]")?;
            for (name, count) in counts {
                writeln!(f, "{name:42} {count:>9}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(accepted: u64, now: u64) -> Verdict {
        Counted { name: "beat".to_owned(), accepted: Some(accepted), now }.verdict()
    }

    #[test]
    fn more_than_a_tenth_more_is_a_regression() {
        assert_eq!(verdict(1_000, 1_000), Verdict::Same);
        assert_eq!(verdict(1_000, 1_100), Verdict::Same);
        assert_eq!(verdict(1_000, 1_101), Verdict::More);
        assert_eq!(verdict(1_000, 900), Verdict::Same);
        assert_eq!(verdict(1_000, 899), Verdict::Fewer);
        let unknown = Counted { name: "beat".to_owned(), accepted: None, now: 1 };
        assert_eq!(unknown.verdict(), Verdict::Unknown);
    }

    #[test]
    fn what_is_accepted_is_read_back_and_compared_per_toolchain() {
        let mut counts = AcceptedCounts::default();
        counts.accept("rustc 1.95.0 x86_64", "beat", 700);
        counts.accept("rustc 1.95.0 x86_64", "gone", 8);
        counts.accept("rustc 1.94.0 x86_64", "beat", 600);
        counts.accept("rustc 1.94.0 aarch64", "beat", 500);
        let names = ["beat".to_owned()];
        assert_eq!(counts.unknown("rustc 1.95.0 x86_64", &names), ["gone"]);
        counts.keep_only("rustc 1.95.0 x86_64", &names);
        assert_eq!(counts.of("rustc 1.94.0 x86_64", "beat"), Some(600));
        counts.forget_others("rustc 1.95.0 x86_64");
        let read = AcceptedCounts::parse(&counts.to_string()).unwrap();
        assert_eq!(read, counts);
        assert_eq!(read.of("rustc 1.95.0 x86_64", "beat"), Some(700));
        assert_eq!(read.of("rustc 1.95.0 x86_64", "gone"), None);
        assert_eq!(read.of("rustc 1.94.0 x86_64", "beat"), None);
        assert_eq!(read.of("rustc 1.94.0 aarch64", "beat"), Some(500));
    }

    #[test]
    fn a_file_that_is_not_understood_is_refused() {
        assert!(AcceptedCounts::parse("beat 7\n").is_err());
        assert!(AcceptedCounts::parse("[rustc]\nbeat\n").is_err());
        assert!(AcceptedCounts::parse("[rustc]\nbeat many\n").is_err());
    }
}
