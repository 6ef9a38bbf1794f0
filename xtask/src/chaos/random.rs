//! Numbers that can be had again from their seed (splitmix64).

#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// For one part of a run: the same parts of the same seed are alike.
    pub(crate) fn of(seed: u64, round: u64, part: u64) -> Self {
        let mut random = Self(seed ^ round.wrapping_mul(0xd1b5_4a32_d192_ed03) ^ part.wrapping_mul(0xa076_1d64_78bd_642f));
        random.next();
        random
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub(crate) fn one_of<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len() as u64) as usize]
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ bits >> 31
    }
}
