//! Records on their way from dispatch to a lane.

use stoatflow_log::ConsumerRecord;
use stoatflow_operators::RecordTimes;

/// Records of one epoch, in the order of admission.
#[derive(Debug, Default)]
pub struct Dispatched {
    /// The records.
    pub records: Vec<ConsumerRecord>,
    /// The times at each record; empty if the first stage doesn't use them.
    pub times: Vec<RecordTimes>,
    /// Their weight in the admission budget.
    pub bytes: i64,
}

impl Dispatched {
    /// Appends a record.
    pub fn push(&mut self, record: ConsumerRecord, times: Option<RecordTimes>, bytes: i64) {
        self.records.push(record);
        self.times.extend(times);
        self.bytes += bytes;
    }

    /// Appends a later batch.
    pub fn append(&mut self, mut more: Self) {
        self.records.append(&mut more.records);
        self.times.append(&mut more.times);
        self.bytes += more.bytes;
    }
}
