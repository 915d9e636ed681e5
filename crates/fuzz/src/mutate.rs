//! Damages bytes, driven by a seed.

/// Numbers that often break readers.
const NUMBERS: [i64; 14] = [
    0,
    1,
    -1,
    -2,
    127,
    128,
    255,
    256,
    i16::MAX as i64,
    i32::MAX as i64,
    i32::MIN as i64,
    i64::MAX,
    i64::MIN,
    1 << 24,
];
/// Maximum number of damages per input.
const MOST: u64 = 6;
/// Maximum size of a damaged input.
const LARGEST: usize = 1 << 16;

/// See the module.
#[derive(Debug)]
pub struct Mutator(u64);

impl Mutator {
    /// The same seed produces the same damage.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A random number below `most` (0 if that is 0).
    pub const fn below(&mut self, most: u64) -> u64 {
        // xorshift64
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        if most == 0 { 0 } else { (self.0 >> 11) % most }
    }

    fn place(&mut self, most: usize) -> usize {
        usize::try_from(self.below(most as u64)).unwrap_or(0)
    }

    /// One of the inputs, damaged.
    pub fn damaged(&mut self, valid: &[Vec<u8>]) -> Vec<u8> {
        let mut input = valid[self.place(valid.len())].clone();
        for _ in 0..=self.below(MOST) {
            self.damage(&mut input, valid);
        }
        input.truncate(LARGEST);
        input
    }

    fn damage(&mut self, input: &mut Vec<u8>, valid: &[Vec<u8>]) {
        let at = self.place(input.len());
        let size = 1 + self.place(input.len().saturating_sub(at).min(64));
        let end = (at + size).min(input.len());
        match self.below(9) {
            0 if !input.is_empty() => input[at] ^= 1 << self.below(8),
            1 if !input.is_empty() => input[at] = self.below(256).to_le_bytes()[0],
            2 | 3 => {
                let number = self.number(input.len());
                self.write(input, at, number);
            }
            4 => input.truncate(at),
            5 => drop(input.drain(at..end)),
            6 => {
                let copy = input[at..end].to_vec();
                let to = self.place(input.len() + 1);
                input.splice(to..to, copy);
            }
            7 => {
                let other = &valid[self.place(valid.len())];
                let from = self.place(other.len());
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
            _ => {
                let random = (0..size)
                    .map(|_| self.below(256).to_le_bytes()[0])
                    .collect::<Vec<_>>();
                input.splice(at..at, random);
            }
        }
    }

    fn number(&mut self, size: usize) -> i64 {
        let size = i64::try_from(size).unwrap_or(i64::MAX);
        match self.below(4) {
            0 => size + NUMBERS[self.place(4)],
            1 => i64::from_le_bytes(self.below(u64::MAX).to_le_bytes()),
            _ => NUMBERS[self.place(NUMBERS.len())],
        }
    }

    /// Overwrites a number of 1 to 8 bytes in either byte order, or as a varint.
    fn write(&mut self, input: &mut Vec<u8>, at: usize, number: i64) {
        let width = 1 << self.below(4);
        let bytes: Vec<u8> = match self.below(4) {
            0 => number.to_le_bytes()[..width].to_vec(),
            1 => varint(u64::from_le_bytes(number.to_le_bytes())),
            2 => varint(u64::from_le_bytes(
                ((number << 1) ^ (number >> 63)).to_le_bytes(),
            )),
            _ => number.to_be_bytes()[8 - width..].to_vec(),
        };
        let end = (at + bytes.len()).min(input.len());
        input.splice(at..end, bytes);
    }
}

fn varint(mut rest: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = rest.to_le_bytes()[0] & 0x7f;
        rest >>= 7;
        if rest == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}
