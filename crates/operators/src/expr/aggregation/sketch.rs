//! The approximate number of distinct values (HyperLogLog).
//!
//! Takes values; keeps for each of 2^bits registers the longest run of zeros that a hash of its values
//! began with. The estimate is Ertl's ("New cardinality estimation algorithms for HyperLogLog sketches",
//! 2017, section 2), which needs no tables and is as good for few values as for many; its standard error
//! is 1.04 / sqrt(2^bits). Few registers are kept as a list. The hash is part of the format of stores:
//! it must never change. Values can't be taken away.

use super::base64;
use crate::expr::number::Number;
use std::sync::Arc;
use stoatflow_core::{Datum, Result};

/// The default precision in bits: 4096 registers, an error of 1.6 %.
pub(super) const BITS: u8 = 12;

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Sketch {
    bits: u8,
    registers: Registers,
    /// The number of registers by their value.
    counts: [u32; 66],
}

#[derive(Clone, Debug)]
enum Registers {
    /// The registers that are not 0, by number: the number in the upper 24 bits, the value in the lower
    /// 8.
    Few(Vec<u32>),
    All(Vec<u8>),
}

impl Sketch {
    pub fn new(bits: u8) -> Self {
        let mut counts = [0; 66];
        counts[0] = 1 << bits;
        Self {
            bits,
            registers: Registers::Few(Vec::new()),
            counts,
        }
    }

    /// Copies the existing sketch only if it changes.
    pub fn add(this: &mut Arc<Self>, given: &Datum) -> Result<()> {
        let text = match given {
            Datum::Str(text) => text.as_bytes().clone(),
            Datum::Bytes(bytes) | Datum::Json(bytes) => bytes.clone(),
            other => stoatflow_core::serde::json_bytes(other)?,
        };
        let hash = match given {
            Datum::Json(_) | Datum::List(_) => hash(b'{', &text),
            scalar => fingerprint(scalar, &text),
        };
        let register = u32::try_from(hash >> (64 - this.bits)).unwrap_or(0);
        let rest = hash << this.bits;
        let zeros = rest.leading_zeros().min(u32::from(64 - this.bits));
        let value = u8::try_from(zeros + 1).unwrap_or(u8::MAX);
        if value > this.held(register) {
            Arc::make_mut(this).raise(register, value);
        }
        Ok(())
    }

    /// The value of a register.
    fn held(&self, register: u32) -> u8 {
        match &self.registers {
            Registers::Few(few) => {
                match few.binary_search_by(|known| (known >> 8).cmp(&register)) {
                    Ok(at) => u8::try_from(few[at] & 0xff).unwrap_or(u8::MAX),
                    Err(_) => 0,
                }
            }
            Registers::All(all) => all[register as usize],
        }
    }

    pub fn merge(&mut self, other: &Self) {
        match &other.registers {
            Registers::Few(few) => few.iter().for_each(|entry| {
                let value = u8::try_from(entry & 0xff).unwrap_or(u8::MAX);
                self.raise(entry >> 8, value);
            }),
            Registers::All(all) => all.iter().zip(0..).for_each(|(value, register)| {
                self.raise(register, *value);
            }),
        }
    }

    /// Raises a register; it never falls.
    fn raise(&mut self, register: u32, value: u8) {
        if value == 0 {
            return;
        }
        let before = match &mut self.registers {
            Registers::Few(few) => {
                let entry = register << 8 | u32::from(value);
                match few.binary_search_by(|known| (known >> 8).cmp(&register)) {
                    Ok(at) => {
                        let before = few[at] & 0xff;
                        few[at] = few[at].max(entry);
                        before
                    }
                    Err(at) => {
                        few.insert(at, entry);
                        0
                    }
                }
            }
            Registers::All(all) => {
                let held = &mut all[register as usize];
                let before = *held;
                *held = before.max(value);
                u32::from(before)
            }
        };
        if u32::from(value) <= before {
            return;
        }
        self.counts[before as usize] -= 1;
        self.counts[usize::from(value)] += 1;
        if let Registers::Few(few) = &self.registers
            && few.len() > 1 << (self.bits - 3)
        {
            let mut all = vec![0; 1 << self.bits];
            for entry in few {
                all[(entry >> 8) as usize] = u8::try_from(entry & 0xff).unwrap_or(u8::MAX);
            }
            self.registers = Registers::All(all);
        }
    }

    /// The estimated number of distinct values.
    #[allow(clippy::cast_possible_truncation)] // no count goes beyond 2^63
    pub fn estimate(&self) -> i64 {
        let registers = f64::from(1_u32 << self.bits);
        let longest = usize::from(64 - self.bits);
        let share = |value: usize| f64::from(self.counts[value]) / registers;
        let mut sum = registers * tau(1.0 - share(longest + 1));
        for value in (1..=longest).rev() {
            sum = 0.5 * (sum + f64::from(self.counts[value]));
        }
        sum += registers * sigma(share(0));
        (registers * registers / (2.0 * std::f64::consts::LN_2) / sum).round() as i64
    }

    /// Appends its JSON text.
    pub fn write(&self, out: &mut Vec<u8>) {
        let (name, bytes) = match &self.registers {
            // Number and value of each register, in three bytes.
            Registers::Few(few) => {
                let three = |entry: &u32| entry.to_be_bytes().into_iter().skip(1);
                ("few", few.iter().flat_map(three).collect())
            }
            Registers::All(all) => ("registers", all.clone()),
        };
        let (estimate, bits) = (self.estimate(), self.bits);
        let begin = format!("{{\"estimate\":{estimate},\"bits\":{bits},\"{name}\":\"");
        out.extend_from_slice(begin.as_bytes());
        base64::encode(&bytes, out);
        out.extend_from_slice(b"\"}");
    }

    /// Reads what `write` wrote; `None` for anything else.
    pub fn read(bits: u8, name: &str, text: &str) -> Option<Self> {
        let bytes = base64::decode(text)?;
        let mut sketch = Self::new(bits);
        let most = 65 - bits;
        match name {
            "few" if bytes.len().is_multiple_of(3) => {
                for three in bytes.chunks_exact(3) {
                    let entry = u32::from_be_bytes([0, three[0], three[1], three[2]]);
                    let value = three[2];
                    if entry >> 8 >= 1 << bits || value > most {
                        return None;
                    }
                    sketch.raise(entry >> 8, value);
                }
            }
            "registers" if bytes.len() == 1 << bits => {
                for (value, register) in bytes.iter().zip(0..) {
                    if *value > most {
                        return None;
                    }
                    sketch.raise(register, *value);
                }
            }
            _ => return None,
        }
        Some(sketch)
    }

    pub fn weight(&self) -> usize {
        let registers = match &self.registers {
            Registers::Few(few) => 4 * few.len(),
            Registers::All(all) => all.len(),
        };
        300 + registers
    }
}

fn sigma(mut x: f64) -> f64 {
    if x >= 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if z <= before {
            return z;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x).powi(2) * y;
        if z >= before {
            return z / 3.0;
        }
    }
}

/// A hash of a value that is no list or object; equal values have equal hashes. `text`: its bytes.
fn fingerprint(value: &Datum, text: &[u8]) -> u64 {
    match (Number::of(value), value) {
        (Some(Number::Int(i)), _) => hash(b'i', &i.to_be_bytes()),
        (Some(Number::Float(x)), _) => match whole(x) {
            Some(i) => hash(b'i', &i.to_be_bytes()),
            None => hash(b'f', &x.to_bits().to_be_bytes()),
        },
        (None, Datum::Str(text)) => hash(b's', text.as_bytes()),
        (None, _) => hash(b'b', text),
    }
}

/// The whole number that a double equals, if there is one.
#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)] // compared after
fn whole(x: f64) -> Option<i64> {
    const BEYOND: f64 = 9_223_372_036_854_775_808.0; // 2^63
    let in_range = (-BEYOND..BEYOND).contains(&x);
    (in_range && x.trunc() == x).then_some(x as i64)
}

/// FNV-1a, then the finalizer of Murmur3, so that all bits depend on all bytes.
fn hash(kind: u8, bytes: &[u8]) -> u64 {
    let mut h: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in std::iter::once(&kind).chain(bytes) {
        h = (h ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    h = (h ^ (h >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    h = (h ^ (h >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    h ^ (h >> 33)
}
