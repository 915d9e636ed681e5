//! Reads records from batches in the broker's format (version 2), without copying.
//!
//! Takes the records of one partition in an answer, and its aborted transactions; returns committed
//! records, one at a time. Owns the part that is not read yet. Skips control records, records of aborted
//! transactions and records before the position, and moves the position past them.

use crate::kafka::native::records::batch_writer::{
    ATTRIBUTES, COMPRESSION, CONTROL, COUNT, CRC, FIRST_TIME, FORMAT, HEAD, LAST_DELTA,
    LATEST_TIME, LEADER_EPOCH, LENGTH, LOG_TIME, MAGIC, PRODUCER, TRANSACTIONAL, take_varint,
    unzigzag,
};
use bytes::{Buf, Bytes};
use kafka_protocol::compression::{Decompressor, Gzip, Lz4, Snappy, Zstd};
use stoatflow_core::{Header, Headers};

#[cfg(test)]
mod tests;

/// Bytes in front of the part that the length counts.
const FRONT: usize = LENGTH + 4;
/// The control record type of an abort.
const ABORTED: i16 = 0;

/// Why a batch can't be read.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::kafka::native) enum UnreadableBatch {
    /// It differs from what the broker received.
    Corrupt(String),
    /// Of a format from before 2017.
    Old(u8),
    /// The marker at this offset aborts a transaction whose records were returned as committed.
    Unlisted(i64),
}

fn corrupt(why: impl ToString) -> UnreadableBatch {
    UnreadableBatch::Corrupt(why.to_string())
}

fn short() -> UnreadableBatch {
    corrupt("a record ends early")
}

/// An aborted transaction, and the offset of its first record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::kafka::native) struct Aborted {
    pub producer: i64,
    pub first: i64,
}

/// A record in the memory of its batch.
#[derive(Clone, Copy, Debug)]
pub(in crate::kafka::native) struct Record<'a> {
    pub offset: i64,
    pub timestamp: i64,
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    headers: &'a [u8],
}

impl<'a> Record<'a> {
    /// The bytes of the headers; none if there are no headers.
    pub(in crate::kafka::native) const fn raw_headers(&self) -> &'a [u8] {
        match self.headers {
            [0] => &[],
            headers => headers,
        }
    }

    /// Copies the headers, if there are any.
    pub(in crate::kafka::native) fn headers(&self) -> Result<Headers, UnreadableBatch> {
        let from = &mut &*self.headers;
        let count = unzigzag(take_varint(from).ok_or_else(short)?);
        if count <= 0 {
            return Ok(None);
        }
        let mut headers = Vec::new();
        for _ in 0..count {
            let name = part(from)?.unwrap_or_default();
            headers.push(Header {
                name: String::from_utf8_lossy(name).into(),
                value: part(from)?.map(Bytes::copy_from_slice),
            });
        }
        Ok(Some(headers.into()))
    }
}

/// Bytes with their length in front; `None` for null.
fn part<'a>(from: &mut &'a [u8]) -> Result<Option<&'a [u8]>, UnreadableBatch> {
    let size = unzigzag(take_varint(from).ok_or_else(short)?);
    let Ok(size) = usize::try_from(size) else {
        return Ok(None);
    };
    let (part, rest) = from.split_at_checked(size).ok_or_else(short)?;
    *from = rest;
    Ok(Some(part))
}

/// The head of a batch.
#[derive(Clone, Copy, Debug)]
struct BatchHeader {
    size: usize,
    base: i64,
    last: i64,
    epoch: i32,
    attributes: i16,
    first_time: i64,
    latest_time: i64,
    producer: i64,
    count: i32,
}

fn at<const N: usize>(bytes: &[u8], place: usize) -> [u8; N] {
    bytes[place..place + N].try_into().unwrap_or([0; N])
}

impl BatchHeader {
    /// Reads the head of the first batch. `None` if the batch is incomplete: a broker truncates the last
    /// one when its answer is full.
    fn read(bytes: &[u8]) -> Result<Option<Self>, UnreadableBatch> {
        if bytes.len() <= MAGIC {
            return Ok(None);
        }
        match bytes[MAGIC] {
            FORMAT => {}
            old if old < FORMAT => return Err(UnreadableBatch::Old(old)),
            // No broker sends a newer one in an answer of the requested version.
            unknown => return Err(corrupt(format!("a batch of format {unknown}"))),
        }
        let size = usize::try_from(i32::from_be_bytes(at(bytes, LENGTH))).map_err(corrupt)? + FRONT;
        if size < HEAD {
            return Err(corrupt(format!("a batch of {size} bytes")));
        }
        if bytes.len() < size {
            return Ok(None);
        }
        let base = i64::from_be_bytes(at(bytes, 0));
        Ok(Some(Self {
            size,
            base,
            // One more must still be a valid position.
            last: base
                .saturating_add(i32::from_be_bytes(at(bytes, LAST_DELTA)).into())
                .min(i64::MAX - 1),
            epoch: i32::from_be_bytes(at(bytes, LEADER_EPOCH)),
            attributes: i16::from_be_bytes(at(bytes, ATTRIBUTES)),
            first_time: i64::from_be_bytes(at(bytes, FIRST_TIME)),
            latest_time: i64::from_be_bytes(at(bytes, LATEST_TIME)),
            producer: i64::from_be_bytes(at(bytes, PRODUCER)),
            count: i32::from_be_bytes(at(bytes, COUNT)),
        }))
    }

    const fn is(&self, what: i16) -> bool {
        self.attributes & what != 0
    }
}

/// The batch that is being read.
#[derive(Debug)]
struct Open {
    head: BatchHeader,
    body: Bytes,
    /// Where the next record begins in the body.
    next: usize,
    left: i32,
}

/// Refuses a batch whose bytes have changed since it was written.
fn check(head: &BatchHeader, batch: &[u8]) -> Result<(), UnreadableBatch> {
    let (said, found) = (
        u32::from_be_bytes(at(batch, CRC)),
        crc32c::crc32c(&batch[ATTRIBUTES..]),
    );
    if said == found {
        return Ok(());
    }
    Err(corrupt(format!(
        "the batch at {} has the checksum {found:#x} instead of {said:#x}",
        head.base
    )))
}

impl Open {
    fn new(head: BatchHeader, batch: &Bytes) -> Result<Self, UnreadableBatch> {
        Ok(Self {
            head,
            body: unpacked(batch.slice(HEAD..), head.attributes & COMPRESSION)?,
            next: 0,
            left: head.count,
        })
    }

    /// The next record, and where the one after it begins.
    fn record(&self) -> Result<(Record<'_>, usize), UnreadableBatch> {
        let from = &mut &self.body[self.next..];
        let mut record = part(from)?.ok_or_else(short)?;
        let behind = self.body.len() - from.len();
        let from = &mut record;
        from.split_off_first().ok_or_else(short)?; // its attributes: none are in use
        let time = unzigzag(take_varint(from).ok_or_else(short)?);
        let delta = unzigzag(take_varint(from).ok_or_else(short)?);
        let (key, value) = (part(from)?, part(from)?);
        let timestamp = if self.head.is(LOG_TIME) {
            self.head.latest_time
        } else {
            self.head.first_time.wrapping_add(time)
        };
        let record = Record {
            offset: self.head.base.wrapping_add(delta),
            timestamp,
            key,
            value,
            headers: record,
        };
        Ok((record, behind))
    }

    const fn pass(&mut self, behind: usize) {
        self.next = behind;
        self.left -= 1;
    }
}

/// The decompressed records of a batch.
fn unpacked(mut body: Bytes, with: i16) -> Result<Bytes, UnreadableBatch> {
    let all = |unpacked: &mut Bytes| Ok(std::mem::take(unpacked));
    let unpacked = match with {
        0 => return Ok(body),
        1 => Gzip::decompress(&mut body, all),
        2 if !snappy_may_be(&body) => {
            return Err(corrupt("more is packed in it than snappy could"));
        }
        2 => Snappy::decompress(&mut body, all),
        3 => Lz4::decompress(&mut body, all),
        4 => Zstd::decompress(&mut body, all),
        other => return Err(corrupt(format!("packed with {other}, which nobody knows"))),
    };
    unpacked.map_err(|e| corrupt(format!("{e:#}")))
}

/// Whether so few bytes can hold as many as the size in front of them says. That memory is allocated
/// before they are decompressed.
fn snappy_may_be(mut body: &[u8]) -> bool {
    /// The header of Java's clients: a name, and two numbers.
    const NAME: &[u8] = b"\x82SNAPPY\0";
    const FRAME: usize = 16;
    /// Snappy's ratio is less than 22: 64 copied bytes take 3.
    const RATIO: u64 = 24;
    let plausible = |mut block: &[u8]| {
        let size = block.len() as u64;
        take_varint(&mut block).is_none_or(|whole| whole <= size * RATIO)
    };
    if !body.starts_with(NAME) {
        return plausible(body);
    }
    body = body.get(FRAME..).unwrap_or_default();
    while let Some((length, rest)) = body.split_first_chunk::<4>() {
        let length = u32::from_be_bytes(*length) as usize;
        let (block, behind) = rest.split_at(length.min(rest.len()));
        if !plausible(block) {
            return false;
        }
        body = behind;
    }
    true
}

/// Producers with records that were returned as committed, and no marker behind them yet. A broker that
/// doesn't list an aborted transaction is found out by its marker: compaction keeps the marker of a commit
/// as long as a record of its transaction.
#[derive(Debug, Default)]
pub(in crate::kafka::native) struct Unmarked(Vec<i64>);

impl Unmarked {
    fn add(&mut self, producer: i64) {
        if !self.0.contains(&producer) {
            self.0.push(producer);
        }
    }

    fn remove(&mut self, producer: i64) -> bool {
        let before = self.0.len();
        self.0.retain(|known| *known != producer);
        self.0.len() < before
    }
}

/// Records of one partition.
#[derive(Debug)]
pub(in crate::kafka::native) struct Records {
    open: Option<Open>,
    rest: Bytes,
    /// Aborted transactions that begin later, in descending order: the next one is the last.
    aborted: Vec<Aborted>,
    /// Producers with an aborted transaction at this offset.
    within: Vec<i64>,
    /// Whether it has its own memory, instead of a part of an answer.
    own: bool,
    /// The offset after the last batch, and the leader epoch of that batch.
    pub end: i64,
    pub epoch: i32,
    /// First offset and leader epoch of each batch whose epoch differs from the one before.
    pub changes: Vec<(i64, i32)>,
}

impl Records {
    /// `None` if there is no whole batch. `epoch` is that of the batches before.
    pub(in crate::kafka::native) fn new(
        bytes: Bytes,
        mut aborted: Vec<Aborted>,
        mut epoch: i32,
    ) -> Result<Option<Self>, UnreadableBatch> {
        aborted.sort_unstable_by_key(|a| std::cmp::Reverse(a.first));
        let mut last = None;
        let mut rest = &bytes[..];
        let mut changes = Vec::new();
        while let Some(head) = BatchHeader::read(rest)? {
            rest = &rest[head.size..];
            if head.epoch != epoch {
                epoch = head.epoch;
                changes.push((head.base, epoch));
            }
            last = Some(head);
        }
        Ok(last.map(|last| Self {
            open: None,
            rest: bytes,
            aborted,
            within: Vec::new(),
            own: false,
            end: last.last + 1,
            epoch: last.epoch,
            changes,
        }))
    }

    /// Copies the unread part into memory of its own, so that the answer can be freed.
    pub(in crate::kafka::native) fn detach(&mut self) {
        if std::mem::replace(&mut self.own, true) {
            return;
        }
        self.rest = Bytes::copy_from_slice(&self.rest);
        if let Some(open) = &mut self.open {
            open.body = Bytes::copy_from_slice(&open.body[open.next..]);
            open.next = 0;
        }
    }

    /// How many bytes are unread.
    pub(in crate::kafka::native) fn size(&self) -> usize {
        let of_batch = self.open.as_ref().map_or(0, |o| o.body.len() - o.next);
        self.rest.len() + of_batch
    }

    /// Moves to the next record and leaves it unread; false if there is none. The position moves past
    /// everything that is no record.
    pub(in crate::kafka::native) fn seek(
        &mut self,
        position: &mut i64,
        unmarked: &mut Unmarked,
    ) -> Result<bool, UnreadableBatch> {
        while self.enter(position, unmarked)? {
            if let Some(open) = &mut self.open {
                let (record, behind) = open.record()?;
                if record.offset >= *position {
                    return Ok(true);
                }
                open.pass(behind);
            }
        }
        Ok(false)
    }

    /// Passes the next record to `each` and moves the position past it. False if there was none.
    pub(in crate::kafka::native) fn take(
        &mut self,
        position: &mut i64,
        unmarked: &mut Unmarked,
        each: impl FnOnce(Record<'_>) -> Result<(), UnreadableBatch>,
    ) -> Result<bool, UnreadableBatch> {
        while self.enter(position, unmarked)? {
            if let Some(open) = &mut self.open {
                let (record, behind) = open.record()?;
                let offset = record.offset;
                if offset >= *position {
                    each(record)?;
                    *position = offset + 1;
                    open.pass(behind);
                    return Ok(true);
                }
                open.pass(behind);
            }
        }
        Ok(false)
    }

    /// Opens the next batch with records, unless the open one has some left; false if there is none.
    fn enter(
        &mut self,
        position: &mut i64,
        unmarked: &mut Unmarked,
    ) -> Result<bool, UnreadableBatch> {
        loop {
            if let Some(open) = &self.open {
                if open.left > 0 {
                    return Ok(true);
                }
                // Compaction may have removed its last records.
                *position = (*position).max(open.head.last + 1);
                self.open = None;
            }
            let Some(head) = BatchHeader::read(&self.rest)? else {
                return Ok(false);
            };
            let batch = self.rest.split_to(head.size);
            // A skipped batch too, because it is its head that decides whether to skip it.
            check(&head, &batch)?;
            if self.holds_records(&head, &batch, unmarked)? && head.last >= *position {
                self.open = Some(Open::new(head, &batch)?);
                if head.is(TRANSACTIONAL) {
                    unmarked.add(head.producer);
                }
            } else {
                *position = (*position).max(head.last + 1);
            }
        }
    }

    /// Whether the batch has committed records.
    fn holds_records(
        &mut self,
        head: &BatchHeader,
        batch: &Bytes,
        unmarked: &mut Unmarked,
    ) -> Result<bool, UnreadableBatch> {
        while let Some(begun) = self.aborted.pop_if(|a| a.first <= head.last) {
            self.within.push(begun.producer);
        }
        let is_unlisted = head.is(CONTROL) && unmarked.remove(head.producer);
        // Compaction keeps an empty batch to preserve the state of its producer, also one of a marker.
        if head.count <= 0 {
            return Ok(false);
        }
        if head.is(CONTROL) {
            // The key of a control record is its version and its type.
            let open = Open::new(*head, batch)?;
            let mut key = open.record()?.0.key.unwrap_or_default();
            let kind = key.try_get_i16().and_then(|_version| key.try_get_i16());
            if kind.map_err(corrupt)? == ABORTED {
                if is_unlisted {
                    return Err(UnreadableBatch::Unlisted(head.base));
                }
                self.within.retain(|producer| *producer != head.producer);
            }
            return Ok(false);
        }
        Ok(!(head.is(TRANSACTIONAL) && self.within.contains(&head.producer)))
    }
}
