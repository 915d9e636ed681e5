//! Repeatable random numbers: xoshiro256** seeded by splitmix64.
//!
//! Implemented here, because a library's generator may change between versions, and every kept seed
//! would lose its meaning.

use stoatflow_core::Rng;

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct SimRng([u64; 4]);

impl SimRng {
    /// The stream of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        let mut at = seed;
        Self([mix(&mut at), mix(&mut at), mix(&mut at), mix(&mut at)])
    }

    /// An independent stream, so that one more draw here changes nothing there.
    pub fn split(&mut self) -> Self {
        Self::new(self.next_u64())
    }

    /// A number below `end` (0 if `end` is 0).
    pub fn below(&mut self, end: u64) -> u64 {
        self.next_u64().checked_rem(end).unwrap_or(0)
    }

    /// A random index into a sequence of this length.
    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }

    /// A number from `from` to `to`, both included.
    pub fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from + 1)
    }

    /// True with this probability, in ten thousandths.
    pub fn chance(&mut self, in_ten_thousand: u32) -> bool {
        self.below(10_000) < u64::from(in_ten_thousand)
    }

    /// Shuffles the items.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.index(at + 1));
        }
    }
}

impl Rng for SimRng {
    fn next_u64(&mut self) -> u64 {
        let s = &mut self.0;
        let result = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }
}

const fn mix(at: &mut u64) -> u64 {
    *at = at.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *at;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests;
