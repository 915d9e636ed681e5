//! Damaged inputs for readers of foreign bytes: a tool for tests, on stable Rust.
//!
//! Takes valid inputs of a reader, damages them, and passes them to the reader. Fails if it panics, or
//! if it allocates much memory at once because the input says so. Runs are short by default, with the
//! same inputs every time. `STOATFLOW_TEST_FUZZ_SECONDS` sets how long each target runs, with the seed
//! `STOATFLOW_TEST_FUZZ_SEED`, or else with another seed each time.
//!
//! Memory is only checked in a test binary whose global allocator is [`Watched`]:
//! `#[global_allocator] static MEMORY: stoatflow_fuzz::Watched = stoatflow_fuzz::Watched;`

mod memory;
mod mutate;

pub use memory::Watched;
pub use mutate::Mutator;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

/// Number of inputs in a short run.
const SHORT: usize = 4_000;
/// Time limit of a short run, for slow readers.
const SHORT_TIME: Duration = Duration::from_millis(700);
/// Bytes printed of an input that fails.
const SHOWN: usize = 4_096;

type Repair<'a> = Box<dyn Fn(&mut Vec<u8>) + 'a>;

/// A reader of foreign bytes.
pub struct FuzzTarget<'a> {
    name: &'a str,
    valid: Vec<Vec<u8>>,
    repair: Repair<'a>,
    most: usize,
}

impl<'a> FuzzTarget<'a> {
    /// A target with inputs that its reader accepts.
    ///
    /// # Panics
    /// If there are none.
    #[must_use]
    pub fn new(name: &'a str, valid: Vec<Vec<u8>>) -> Self {
        assert!(!valid.is_empty(), "{name}: no inputs to damage");
        Self {
            name,
            valid,
            repair: Box::new(|_| {}),
            most: 1 << 20,
        }
    }

    /// Repairs damaged inputs so that they pass checks that come first, such as a checksum.
    #[must_use]
    pub fn repaired(mut self, repair: impl Fn(&mut Vec<u8>) + 'a) -> Self {
        self.repair = Box::new(repair);
        self
    }

    /// Sets how many bytes the reader may allocate at once, besides 64 times the size of its input.
    #[must_use]
    pub const fn at_most(mut self, bytes: usize) -> Self {
        self.most = bytes;
        self
    }

    /// Runs the reader on damaged inputs.
    ///
    /// # Panics
    /// If the reader panics or allocates too much memory; the input is printed before.
    #[allow(clippy::disallowed_methods)] // a test tool without a simulated clock
    pub fn run(&self, read: impl Fn(&[u8])) {
        for input in &self.valid {
            self.read(input, &read, 0);
        }
        let (seed, time) = plan();
        let mut mutator = Mutator::new(seed);
        let (began, mut count) = (Instant::now(), 0_usize);
        loop {
            let elapsed = began.elapsed();
            let is_over = match time {
                Some(time) => elapsed >= time,
                None => count >= SHORT || elapsed >= SHORT_TIME,
            };
            if is_over {
                break;
            }
            let mut input = mutator.damaged(&self.valid);
            (self.repair)(&mut input);
            self.read(&input, &read, seed);
            count += 1;
        }
        if time.is_some() {
            println!("{}: {count} inputs, seed {seed}", self.name);
        }
    }

    fn read(&self, input: &[u8], read: &impl Fn(&[u8]), seed: u64) {
        memory::begin();
        let outcome = catch_unwind(AssertUnwindSafe(|| read(input)));
        let largest = memory::largest();
        let allowed = self.most + 64 * input.len();
        if outcome.is_ok() && largest <= allowed {
            return;
        }
        let shown: String = input
            .iter()
            .take(SHOWN)
            .map(|b| format!("{b:02x}"))
            .collect();
        println!("{}, seed {seed}, {} bytes: {shown}", self.name, input.len());
        match outcome {
            Err(panic) => resume_unwind(panic),
            Ok(()) => panic!(
                "{}: {largest} bytes at once, of {} bytes read",
                self.name,
                input.len()
            ),
        }
    }
}

/// The seed, and how long to run.
#[allow(clippy::disallowed_methods)] // a test tool, which no settings reach
fn plan() -> (u64, Option<Duration>) {
    let said = |name| std::env::var(name).ok();
    let time = said("STOATFLOW_TEST_FUZZ_SECONDS").and_then(|value| value.parse().ok());
    let time = time.map(Duration::from_secs_f64);
    let seed = said("STOATFLOW_TEST_FUZZ_SEED").and_then(|value| value.parse().ok());
    // A random number: the standard library seeds hash maps randomly.
    let fresh = || time.map_or(1, |_| RandomState::new().build_hasher().finish());
    (seed.unwrap_or_else(fresh), time)
}

#[cfg(test)]
mod tests;
