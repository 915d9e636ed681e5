//! A record's place in the order of the input, and the task of Kafka Streams that would have it.
//!
//! Dispatch numbers the records that it admits. A record made from another inherits its number and
//! adds, at each exchange, a step to its path: the exchange, and its index among its siblings. So
//! records from several lanes can be merged into the order in which a single lane would have made
//! them.

#[cfg(test)]
mod tests;

/// The partition of a sub-topology that a record belongs to: that of the topic it was read from,
/// behind an exchange that of the repartition topic that Kafka Streams would have. Stream time is
/// kept by operator and task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Task(pub u16);

impl Task {
    /// The task of a partition.
    #[must_use]
    pub fn of(partition: i32) -> Self {
        // Topics have thousands of partitions at most; beyond that some would share a time.
        Self(u16::try_from(partition & 0xffff).unwrap_or(0))
    }

    /// As an index.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Bits of a path that hold its steps; the rest says how many of them are taken.
const STEPS: u32 = 58;
/// Bits of the ordinal that [`Order::at_end`] puts in front (a bit says that one is there), and how
/// many bits of the steps before it are kept.
const ORDINAL: u32 = 31;
const KEPT: u32 = 12;
/// Ordinals are distinct this far back: what waited longer comes first, in no particular order.
const BACK: u64 = 1 << 30;
/// Bits that say in which part of the end of an epoch something came out.
const PART: u32 = 8;

/// The end of an epoch, in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// The number of its first record.
    pub first: u64,
    /// The first number after its last one: those from here on are parts of the end.
    pub end: u64,
}

/// See the module. Orders compare by number, then by path; the task plays no part.
#[derive(Clone, Copy, Debug, Default)]
pub struct Order {
    /// 48 bits of number, 16 of task.
    place: u64,
    /// Steps from the highest bit down, then in the lowest six bits how many of them are taken.
    path: u64,
}

impl Order {
    /// The place of what was not read in this run: before everything.
    pub const START: Self = Self::new(0, Task(0));

    /// Of a record that was read.
    #[must_use]
    pub const fn new(number: u64, task: Task) -> Self {
        Self {
            place: number << 16 | task.0 as u64,
            path: 0,
        }
    }

    /// The number that dispatch gave to the record that it stems from.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.place >> 16
    }

    /// The task.
    #[must_use]
    pub const fn task(self) -> Task {
        Task((self.place & 0xffff) as u16)
    }

    /// The same place in the order, in another task.
    #[must_use]
    pub const fn in_task(self, task: Task) -> Self {
        Self {
            place: self.number() << 16 | task.0 as u64,
            path: self.path,
        }
    }

    /// What orders are compared by.
    #[must_use]
    pub const fn key(self) -> (u64, u64) {
        (self.number(), self.path)
    }

    /// Of the `nth` record that was made of this one, behind those with a lower `nth`. A path that
    /// is full stays as it is.
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
        // The length goes first, so that a longer step is a later one: n times 1, a 0, then as many
        // bits as it has.
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

    /// The place in the order of something that waited for the end of its epoch and comes out in
    /// this part of it, among others that do so: those stand in the order of what they stem from.
    #[must_use]
    pub const fn at_end(self, epoch: End, part: u64) -> Self {
        let taken = (self.path & 63) as u32;
        let (steps, taken) = if self.number() < epoch.end {
            let ordinal = (self.number() + BACK).saturating_sub(epoch.first);
            let steps = self.path >> (64 - KEPT) << (64 - 1 - ORDINAL - KEPT);
            let taken = if taken > KEPT { KEPT } else { taken };
            (ordinal << (64 - 1 - ORDINAL) | steps, 1 + ORDINAL + taken)
        } else {
            // It came out in an earlier part: behind all that did not.
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
