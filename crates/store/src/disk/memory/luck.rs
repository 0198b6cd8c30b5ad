//! What of a disk survives a crash.

use super::Crash;

/// Draws what survives a crash; the same seed draws the same.
pub(super) struct Luck {
    crash: Crash,
    state: u64,
    /// Of 256 sectors so many survive, drawn once for each crash so that some lose little and some nearly all.
    odds: u64,
}

impl Luck {
    pub(super) fn new(crash: Crash) -> Self {
        let Crash::Tears(seed) = crash else { return Self { crash, state: 0, odds: 0 } };
        let mut luck = Self { crash, state: seed ^ 0x9e37_79b9_7f4a_7c15, odds: 0 };
        luck.odds = luck.next() % 257;
        luck
    }

    fn next(&mut self) -> u64 {
        // SplitMix64: enough for luck, and the same on every machine.
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn survives(&mut self) -> bool {
        match self.crash {
            Crash::LosesAll => false,
            Crash::KeepsAll => true,
            Crash::Tears(_) => self.next() % 256 < self.odds,
        }
    }

    /// How many of so many changes, the oldest ones, survive.
    pub(super) fn prefix(&mut self, len: usize) -> usize {
        match self.crash {
            Crash::LosesAll => 0,
            Crash::KeepsAll => len,
            Crash::Tears(_) => usize::try_from(self.next() % (len as u64 + 1)).unwrap_or(0),
        }
    }
}
