//! Faults of requests and connections, determined by a seed.

use crate::kafka::native::tests::faults::Dice;
use kafka_protocol::messages::ApiKey;
use std::time::Duration;

/// How a request and its answer are delivered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delivery {
    /// The delay of the request, and that of the answer.
    pub there: Duration,
    pub back: Duration,
    /// Whether the broker handles the request.
    pub done: bool,
    /// It does nothing, and answers "not yet" or "not here".
    pub not_yet: bool,
    /// Whether the answer arrives, and whether it is truncated.
    pub answered: bool,
    pub cut: bool,
    /// Whether the connection is closed instead.
    pub closed: bool,
}

/// Decides what goes wrong.
#[derive(Debug)]
pub(super) struct FaultInjector {
    dice: Dice,
    /// One of so many requests fails; 0: none.
    one_of: u64,
    /// The rate of faults when they are not switched off.
    usual: u64,
    /// Delays the next request of this kind by this time.
    pub delayed: Option<(ApiKey, Duration)>,
    pub faults: u32,
}

impl FaultInjector {
    /// Some seeds have many faults, others few.
    pub(super) fn new(seed: u64) -> Self {
        let mut dice = Dice(seed.wrapping_mul(0xd134_2543_de82_ef95) | 1);
        let one_of = [4, 8, 20, 60][usize::try_from(dice.roll(4)).unwrap()];
        Self {
            dice,
            one_of,
            usual: one_of,
            delayed: None,
            faults: 0,
        }
    }

    pub(super) const fn heal(&mut self) {
        self.one_of = 0;
    }

    pub(super) const fn resume(&mut self) {
        self.one_of = self.usual;
    }

    fn micros(&mut self, most: u64) -> Duration {
        Duration::from_micros(self.dice.roll(most))
    }

    /// Longer than the first timeout, and now and then longer than all of them.
    fn late(&mut self) -> Duration {
        Duration::from_millis(500 + self.dice.roll(45_000))
    }

    pub(super) fn request(&mut self, request: &[u8]) -> Delivery {
        let well = Delivery {
            there: self.micros(1500),
            back: self.micros(1500),
            done: true,
            not_yet: false,
            answered: true,
            cut: false,
            closed: false,
        };
        let is_kind = |kind: &ApiKey| request.starts_with(&(*kind as i16).to_be_bytes());
        if let Some((_, there)) = self.delayed.take_if(|(kind, _)| is_kind(kind)) {
            self.faults += 1;
            return Delivery { there, ..well };
        }
        if self.one_of == 0 || self.dice.roll(self.one_of) > 0 {
            return well;
        }
        self.faults += 1;
        let lost = Delivery {
            answered: false,
            ..well
        };
        match self.dice.roll(12) {
            0 | 1 => Delivery {
                done: false,
                closed: true,
                ..lost
            },
            2 | 3 => Delivery {
                closed: true,
                ..lost
            },
            4 => Delivery { cut: true, ..well },
            5..=7 => Delivery {
                not_yet: true,
                ..well
            },
            // Silence: the request or its answer is lost.
            8 => Delivery {
                done: false,
                ..lost
            },
            9 => lost,
            10 => Delivery {
                back: self.late(),
                ..well
            },
            // It arrives when the client may have repeated it, on another connection.
            _ => Delivery {
                there: self.late(),
                ..well
            },
        }
    }

    /// How long connecting takes, and whether it succeeds.
    pub(super) fn connect(&mut self, timeout: Duration, down: bool) -> (Duration, bool) {
        let takes = self.micros(1500);
        if down {
            return (takes, false);
        }
        if self.one_of > 0 && self.dice.roll(self.one_of * 4) == 0 {
            self.faults += 1;
            return match self.dice.roll(2) {
                0 => (takes, false),
                _ => (timeout, false),
            };
        }
        (takes, true)
    }

    /// Whether the broker goes down now, and for how long.
    pub(super) fn outage(&mut self) -> Option<Duration> {
        if self.one_of == 0 || self.dice.roll(self.one_of * 100) > 0 {
            return None;
        }
        self.faults += 1;
        Some(Duration::from_millis(self.dice.roll(20_000)))
    }
}
