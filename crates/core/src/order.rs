//! A record's place in the order of the input, and the Kafka Streams task that would process it.
//!
//! Dispatch numbers the records that it admits. A record that is derived from another inherits its
//! number and adds, at each exchange, two steps to its path: the rank of the exchange, and its index
//! among its siblings. So records from several lanes can be merged into the order in which a single lane
//! would have created them.

#[cfg(test)]
mod tests;

/// The partition of a sub-topology that a record belongs to: that of the source topic, or after an
/// exchange that of the repartition topic that Kafka Streams would use. Stream time is kept by operator
/// and task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Task(pub u16);

impl Task {
    /// The task of a partition.
    #[must_use]
    pub fn of(partition: i32) -> Self {
        // Topics have thousands of partitions at most; beyond 65536 some would share a stream time.
        Self(u16::try_from(partition & 0xffff).unwrap_or(0))
    }

    /// The task as an index.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Bits of a path that hold its steps; the other six hold how many bits are used.
const STEPS: u32 = 58;
/// Bits of the ordinal that [`Order::at_end`] puts in front of a path (after one flag bit), and how many
/// bits of the earlier steps are kept.
const ORDINAL: u32 = 31;
const KEPT: u32 = 12;
/// Ordinals are distinct this far back: records held for longer come first, in no particular order.
const BACK: u64 = 1 << 30;
/// Bits for the part of an epoch's end in which a record was emitted.
const PART: u32 = 8;

/// The end of an epoch as a range of order numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// The number of its first record.
    pub first: u64,
    /// The first number after its last one: numbers from here on are parts of the end.
    pub end: u64,
}

/// See the module. Orders compare by number, then by path; the task plays no part.
#[derive(Clone, Copy, Debug, Default)]
pub struct Order {
    /// 48 bits of number, 16 of task.
    place: u64,
    /// Steps from the highest bit down; the lowest six bits hold how many bits are used.
    path: u64,
}

impl Order {
    /// The place of anything that was not read in this run: before everything else.
    pub const START: Self = Self::new(0, Task(0));

    /// The order of a record that was read from a topic.
    #[must_use]
    pub const fn new(number: u64, task: Task) -> Self {
        Self {
            place: number << 16 | task.0 as u64,
            path: 0,
        }
    }

    /// The number that dispatch gave to the input record it stems from.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.place >> 16
    }

    /// The task.
    #[must_use]
    pub const fn task(self) -> Task {
        Task((self.place & 0xffff) as u16)
    }

    /// The same place in the order, with another task.
    #[must_use]
    pub const fn in_task(self, task: Task) -> Self {
        Self {
            place: self.number() << 16 | task.0 as u64,
            path: self.path,
        }
    }

    /// The key that orders are compared by.
    #[must_use]
    pub const fn key(self) -> (u64, u64) {
        (self.number(), self.path)
    }

    /// The order of the `nth` record that was derived from this one, after those with a lower `nth`. If
    /// the path is full, it stays as it is.
    #[must_use]
    pub const fn child(self, nth: u64) -> Self {
        let taken = (self.path & 63) as u32;
        if nth == 0 {
            // One bit, a 0. Most records have no siblings.
            let path = if taken < STEPS {
                self.path + 1
            } else {
                self.path
            };
            return Self { path, ..self };
        }
        // The length goes first, so that a larger index sorts later: `lengths` ones, a 0, then the index
        // in `bits` bits.
        let (lengths, bits, base) = match nth {
            0..=4 => (1, 2, 1),
            5..=20 => (2, 4, 5),
            21..=276 => (3, 8, 21),
            277..=65_812 => (4, 16, 277),
            _ => (5, 32, 65_813),
        };
        let width = lengths + 1 + bits;
        if taken + width > STEPS {
            return self;
        }
        let ones = (1u64 << lengths) - 1;
        let rest = nth - base;
        let rest = if rest > u32::MAX as u64 {
            u32::MAX as u64
        } else {
            rest
        };
        let step = ones << (bits + 1) | rest;
        let path = self.path & !63;
        Self {
            place: self.place,
            path: path | step << (64 - taken - width) | (taken + width) as u64,
        }
    }

    /// The order of a record that was held until the end of its epoch and is emitted in this part of the
    /// end. Among such records, the order of their input records is kept.
    #[must_use]
    pub const fn at_end(self, epoch: End, part: u64) -> Self {
        let taken = (self.path & 63) as u32;
        let (steps, taken) = if self.number() < epoch.end {
            let ordinal = (self.number() + BACK).saturating_sub(epoch.first);
            let steps = self.path >> (64 - KEPT) << (64 - 1 - ORDINAL - KEPT);
            let taken = if taken > KEPT { KEPT } else { taken };
            (ordinal << (64 - 1 - ORDINAL) | steps, 1 + ORDINAL + taken)
        } else {
            // It was already emitted in an earlier part: it sorts after all that were not.
            let before = self.number() - epoch.end;
            let before = if before > 255 { 255 } else { before };
            let steps = (self.path & !63) >> (1 + PART) & !63;
            let taken = if taken + 1 + PART > STEPS {
                STEPS
            } else {
                taken + 1 + PART
            };
            (1 << 63 | before << (64 - 1 - PART) | steps, taken)
        };
        Self {
            place: (epoch.end + part) << 16 | self.place & 0xffff,
            path: steps & !63 | taken as u64,
        }
    }
}

impl PartialEq for Order {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Order {}

impl PartialOrd for Order {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Order {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}
