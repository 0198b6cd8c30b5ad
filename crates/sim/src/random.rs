//! Everything that a run leaves to chance, drawn from one seed.

/// A stream of numbers that is the same for the same seed, on every machine and in every version of every library.
///
/// It is the generator known as splitmix64: fast, tiny, and good enough to pick delays and faults.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream of this seed.
    pub fn new(seed: u64) -> Self {
        // Neighbouring seeds start far apart: the first output of each is well mixed already.
        Self(seed.wrapping_mul(0x2545_f491_4f6c_dd1d))
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from `low` up to and including `high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.number() % (high - low + 1)
    }

    /// An index into something of this length, which must not be empty.
    pub fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.number() % length as u64).expect("below a usize")
    }

    /// True in so many of a thousand cases.
    pub fn per_mille(&mut self, chance: u64) -> bool {
        self.number() % 1_000 < chance
    }

    /// One of these.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.index(choices.len())]
    }

    /// 128 bits, for ids.
    pub fn bits(&mut self) -> u128 {
        u128::from(self.number()) << 64 | u128::from(self.number())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let (mut one, mut other) = (Random::new(7), Random::new(7));
        assert!((0..100).all(|_| one.number() == other.number()));
        assert_ne!(Random::new(7).number(), Random::new(8).number());
    }
}
