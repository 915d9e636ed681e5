//! A record batch in the broker's format (version 2), written once: what is appended here is what the
//! socket sends.
//!
//! Takes records, returns bytes. Producer id and base sequence are patched in when the batch is sent,
//! and then it is compressed too.

use super::compression::Compression;
use crate::ProducerRecord;
use stoatflow_core::Header;

#[cfg(test)]
mod tests;

/// Size of the batch header, which precedes the records.
pub(in crate::kafka::native) const HEAD: usize = 61;
/// Offsets of the header fields.
pub(in crate::kafka::native) const LENGTH: usize = 8;
pub(in crate::kafka::native) const LEADER_EPOCH: usize = 12;
pub(in crate::kafka::native) const MAGIC: usize = 16;
pub(in crate::kafka::native) const CRC: usize = 17;
/// The CRC covers everything from here on.
pub(in crate::kafka::native) const ATTRIBUTES: usize = 21;
pub(in crate::kafka::native) const LAST_DELTA: usize = 23;
pub(in crate::kafka::native) const FIRST_TIME: usize = 27;
pub(in crate::kafka::native) const LATEST_TIME: usize = 35;
pub(in crate::kafka::native) const PRODUCER: usize = 43;
const EPOCH: usize = 51;
const SEQUENCE: usize = 53;
pub(in crate::kafka::native) const COUNT: usize = 57;

pub(in crate::kafka::native) const FORMAT: u8 = 2;
/// The attribute bits: compression, timestamps set by the broker, part of a transaction, control batch.
pub(in crate::kafka::native) const COMPRESSION: i16 = 0b111;
pub(in crate::kafka::native) const LOG_TIME: i16 = 1 << 3;
pub(in crate::kafka::native) const TRANSACTIONAL: i16 = 1 << 4;
pub(in crate::kafka::native) const CONTROL: i16 = 1 << 5;

/// A producer id with its epoch, as the broker assigned it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::kafka::native) struct Identity {
    pub id: i64,
    pub epoch: i16,
}

impl Identity {
    /// None assigned yet.
    pub(in crate::kafka::native) const NONE: Self = Self { id: -1, epoch: -1 };
}

/// Records for one partition.
#[derive(Debug)]
pub(in crate::kafka::native) struct BatchWriter {
    bytes: Vec<u8>,
    compression: Compression,
    /// The compressed form, if that is shorter. Created when the batch is sealed.
    packed: Option<Vec<u8>>,
    count: i32,
    first: i64,
    latest: i64,
    sealed: bool,
    /// Whether it was sent without an answer. Then it may still arrive.
    pub lost: bool,
}

impl BatchWriter {
    /// An empty batch, in memory that another one may have used.
    pub(in crate::kafka::native) fn new(mut room: Vec<u8>, compression: Compression) -> Self {
        room.clear();
        room.resize(HEAD, 0);
        Self {
            bytes: room,
            compression,
            packed: None,
            count: 0,
            first: 0,
            latest: i64::MIN,
            sealed: false,
            lost: false,
        }
    }

    /// Its size in memory, and on the network if it isn't compressed.
    pub(in crate::kafka::native) const fn size(&self) -> usize {
        self.bytes.len()
    }

    /// How many records it has.
    pub(in crate::kafka::native) const fn count(&self) -> i32 {
        self.count
    }

    /// Whether producer id and sequence number are set. Then it no longer changes: a broker must
    /// recognise a batch that it has already.
    pub(in crate::kafka::native) const fn is_sealed(&self) -> bool {
        self.sealed
    }

    pub(in crate::kafka::native) fn append(&mut self, record: &ProducerRecord) {
        debug_assert!(!self.sealed, "a sealed batch grows no more");
        let at = record.timestamp.0;
        if self.count == 0 {
            self.first = at;
        }
        self.latest = self.latest.max(at);
        let time = zigzag(at.wrapping_sub(self.first));
        let delta = zigzag(i64::from(self.count));
        let headers = record.headers.as_deref().unwrap_or_default();
        let of_headers: usize = headers.iter().map(header_size).sum();
        let size = 1
            + width(time)
            + width(delta)
            + part_size(record.key.as_deref())
            + part_size(record.value.as_deref())
            + width(zigzag(whole(headers.len())))
            + of_headers;
        let into = &mut self.bytes;
        into.reserve(size + 5);
        varint(into, zigzag(whole(size)));
        into.push(0);
        varint(into, time);
        varint(into, delta);
        part(into, record.key.as_deref());
        part(into, record.value.as_deref());
        varint(into, zigzag(whole(headers.len())));
        for header in headers {
            part(into, Some(header.name.as_bytes()));
            part(into, header.value.as_deref());
        }
        self.count += 1;
    }

    /// Sets the producer id, the attributes, and the sequence number of the first record.
    pub(in crate::kafka::native) fn seal(
        &mut self,
        owner: Identity,
        attributes: i16,
        sequence: i32,
    ) {
        let attributes = attributes | self.pack();
        let length = i32::try_from(self.bytes().len() - LEADER_EPOCH).unwrap_or(i32::MAX);
        self.put(LENGTH, length.to_be_bytes());
        self.put(LEADER_EPOCH, (-1_i32).to_be_bytes());
        self.put(MAGIC, [FORMAT]);
        self.put(ATTRIBUTES, attributes.to_be_bytes());
        self.put(LAST_DELTA, (self.count - 1).to_be_bytes());
        self.put(FIRST_TIME, self.first.to_be_bytes());
        self.put(LATEST_TIME, self.latest.to_be_bytes());
        self.put(PRODUCER, owner.id.to_be_bytes());
        self.put(EPOCH, owner.epoch.to_be_bytes());
        self.put(SEQUENCE, sequence.to_be_bytes());
        self.put(COUNT, self.count.to_be_bytes());
        let crc = crc32c::crc32c(&self.bytes()[ATTRIBUTES..]);
        self.put(CRC, crc.to_be_bytes());
        self.sealed = true;
    }

    /// Compresses, if that saves space; returns the codec bits of the attributes.
    fn pack(&mut self) -> i16 {
        let mut packed = vec![0; HEAD];
        match self.compression.compress(&self.bytes[HEAD..], &mut packed) {
            Ok(true) if packed.len() < self.bytes.len() => {
                self.packed = Some(packed);
                self.compression.codec as i16
            }
            Ok(_) => 0,
            Err(error) => {
                tracing::warn!(target: "stoatflow::kafka", %error, codec = ?self.compression.codec, "a batch is sent uncompressed");
                0
            }
        }
    }

    /// Clears the producer id and sequence number: the broker has refused the batch with these.
    pub(in crate::kafka::native) fn unseal(&mut self) {
        (self.sealed, self.lost) = (false, false);
        self.packed = None;
    }

    /// Two batches with half of the records each, numbered as in the whole one, which the broker
    /// refused. `None` for a single record.
    pub(in crate::kafka::native) fn halves(&self) -> Option<[Self; 2]> {
        let middle = self.count / 2;
        if middle == 0 {
            return None;
        }
        let owner = Identity {
            id: i64::from_be_bytes(self.get(PRODUCER)),
            epoch: i16::from_be_bytes(self.get(EPOCH)),
        };
        let sequence = i32::from_be_bytes(self.get(SEQUENCE));
        let attributes = i16::from_be_bytes(self.get(ATTRIBUTES)) & !COMPRESSION;
        let mut halves = [(); 2].map(|()| Self::new(Vec::new(), self.compression));
        let mut rest = &self.bytes[HEAD..];
        for n in 0..self.count {
            let size = usize::try_from(unzigzag(take_varint(&mut rest)?)).ok()?;
            let (record, behind) = rest.split_at_checked(size)?;
            rest = behind;
            let mut record = record.get(1..)?;
            let time = unzigzag(take_varint(&mut record)?);
            let _place = take_varint(&mut record)?;
            halves[usize::from(n >= middle)].append_as_it_is(self.first.wrapping_add(time), record);
        }
        halves[0].seal(owner, attributes, sequence);
        halves[1].seal(owner, attributes, after(sequence, middle));
        Some(halves)
    }

    /// Appends a record whose key, value and headers are encoded already.
    fn append_as_it_is(&mut self, at: i64, rest: &[u8]) {
        if self.count == 0 {
            self.first = at;
        }
        self.latest = self.latest.max(at);
        let time = zigzag(at.wrapping_sub(self.first));
        let delta = zigzag(i64::from(self.count));
        let into = &mut self.bytes;
        varint(
            into,
            zigzag(whole(1 + width(time) + width(delta) + rest.len())),
        );
        into.push(0);
        varint(into, time);
        varint(into, delta);
        into.extend_from_slice(rest);
        self.count += 1;
    }

    fn get<const N: usize>(&self, at: usize) -> [u8; N] {
        self.bytes()[at..at + N].try_into().unwrap_or([0; N])
    }

    fn put<const N: usize>(&mut self, at: usize, what: [u8; N]) {
        let bytes = self.packed.as_mut().unwrap_or(&mut self.bytes);
        bytes[at..at + N].copy_from_slice(&what);
    }

    /// The bytes to send.
    pub(in crate::kafka::native) fn bytes(&self) -> &[u8] {
        self.packed.as_ref().unwrap_or(&self.bytes)
    }

    /// Its memory, for the next batch.
    pub(in crate::kafka::native) fn into_room(self) -> Vec<u8> {
        self.bytes
    }
}

/// A length in the format's type: lengths beyond `i32` don't get this far.
fn whole(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

const fn zigzag(n: i64) -> u64 {
    ((n << 1) ^ (n >> 63)).cast_unsigned()
}

pub(in crate::kafka::native) const fn unzigzag(n: u64) -> i64 {
    (n >> 1).cast_signed() ^ -(n & 1).cast_signed()
}

/// The sequence number `count` records later; it wraps around to 0 after the largest.
pub(in crate::kafka::native) const fn after(sequence: i32, count: i32) -> i32 {
    sequence.wrapping_add(count) & i32::MAX
}

/// Reads a varint from the front and removes it.
pub(in crate::kafka::native) fn take_varint(from: &mut &[u8]) -> Option<u64> {
    // Most take one byte.
    if let [byte @ ..0x80, rest @ ..] = *from {
        *from = rest;
        return Some((*byte).into());
    }
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = from.split_first()?;
        *from = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// How many bytes a varint takes.
const fn width(n: u64) -> usize {
    let bits = 64 - (n | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

fn varint(into: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        into.push(n.to_le_bytes()[0] | 0x80);
        n >>= 7;
    }
    into.push(n.to_le_bytes()[0]);
}

fn part_size(part: Option<&[u8]>) -> usize {
    part.map_or(1, |p| width(zigzag(whole(p.len()))) + p.len())
}

fn part(into: &mut Vec<u8>, part: Option<&[u8]>) {
    match part {
        None => varint(into, zigzag(-1)),
        Some(part) => {
            varint(into, zigzag(whole(part.len())));
            into.extend_from_slice(part);
        }
    }
}

fn header_size(header: &Header) -> usize {
    part_size(Some(header.name.as_bytes())) + part_size(header.value.as_deref())
}
