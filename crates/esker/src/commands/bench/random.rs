//! Numbers that look random and are the same for the same seed, on every machine.

/// A generator (`SplitMix64`).
#[derive(Debug, Clone)]
pub(super) struct Random(u64);

impl Random {
    /// The generator of a seed and a position: generators of neighbouring positions have nothing in common.
    pub(super) fn at(seed: u64, position: u64) -> Self {
        let mut random = Self(seed ^ position.wrapping_mul(0xD129_0B26_69AE_7C4D));
        random.0 = random.next();
        random
    }

    /// The next number.
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        let wide = u128::from(self.next()) * bound as u128;
        usize::try_from(wide >> 64).expect("less than `bound`")
    }

    /// Whether it happens, at a probability in percent.
    pub(super) fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// A number in a range, its end excluded.
    pub(super) fn range(&mut self, from: usize, to: usize) -> usize {
        from + self.below(to - from)
    }

    /// A rank below `bound`: rank r comes up about in proportion to 1/(r+1), as authors and hashtags do (Zipf).
    pub(super) fn zipf(&mut self, bound: usize) -> usize {
        // Every octave of ranks is as likely as the next; whole numbers give the same on every machine.
        let octaves = usize::try_from(bound.ilog2()).expect("a small number") + 1;
        let octave = self.below(octaves);
        let from = (1 << octave) - 1;
        let to = ((2 << octave) - 1).min(bound);
        self.range(from, to.max(from + 1)).min(bound - 1)
    }
}
