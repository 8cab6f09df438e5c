//! Partitions: offsets, and what is known of their producers.

use std::collections::HashMap;

use bytes::Bytes;
use kafka_protocol::records::RecordBatchDecoder;

use super::options::Check;

/// Bytes of a batch before its records.
const HEADER: usize = 61;

/// What one request brought.
#[derive(Debug, Default)]
pub(super) struct Sum {
    pub(super) records: u64,
    pub(super) batches: u64,
    pub(super) bytes: u64,
    pub(super) crc_errors: u64,
    pub(super) gaps: u64,
    pub(super) record_errors: u64,
}

/// The next offset of each partition, and the next sequence of each producer on it.
#[derive(Debug)]
pub(super) struct Logs {
    next: Vec<i64>,
    sequences: HashMap<(i32, i64), (i16, i32)>,
}

impl Logs {
    pub(super) fn new(partitions: usize) -> Self {
        Self { next: vec![0; partitions], sequences: HashMap::new() }
    }

    /// Takes what a request has for a partition; its first offset. `None` if it is no batch, or there is no such partition.
    pub(super) fn append(
        &mut self,
        partition: i32,
        mut records: &[u8],
        check: Check,
        sum: &mut Sum,
    ) -> Option<i64> {
        let place = usize::try_from(partition).ok()?;
        let base = *self.next.get(place)?;
        while !records.is_empty() {
            let length = usize::try_from(i32::from_be_bytes(field(records, 8)?)).ok()?;
            let (batch, rest) = records.split_at_checked(12 + length).filter(|(b, _)| b.len() >= HEADER)?;
            let count = i32::from_be_bytes(field(batch, 57)?);
            sum.records += u64::from(count.unsigned_abs());
            sum.batches += 1;
            sum.bytes += batch.len() as u64;
            self.next[place] += i64::from(count);
            if check == Check::Everything {
                self.verify(partition, batch, count, sum)?;
            }
            records = rest;
        }
        Some(base)
    }

    fn verify(&mut self, partition: i32, batch: &[u8], count: i32, sum: &mut Sum) -> Option<()> {
        if u32::from_be_bytes(field(batch, 17)?) != crc32c::crc32c(&batch[21..]) {
            sum.crc_errors += 1;
        }
        let producer = i64::from_be_bytes(field(batch, 43)?);
        if producer >= 0 && !self.follows(partition, producer, batch, count)? {
            sum.gaps += 1;
        }
        let compressed = i16::from_be_bytes(field(batch, 21)?) & 0b111 != 0;
        if !compressed {
            let decoded = RecordBatchDecoder::decode(&mut Bytes::copy_from_slice(batch));
            let whole = decoded.is_ok_and(|set| i32::try_from(set.records.len()) == Ok(count));
            sum.record_errors += u64::from(!whole);
        }
        Some(())
    }

    /// Is this batch the next one of its producer here?
    fn follows(&mut self, partition: i32, producer: i64, batch: &[u8], count: i32) -> Option<bool> {
        let epoch = i16::from_be_bytes(field(batch, 51)?);
        let first = i32::from_be_bytes(field(batch, 53)?);
        let expected = match self.sequences.get(&(partition, producer)) {
            Some((known, next)) if *known == epoch => *next,
            Some(_) | None => 0,
        };
        let next = (i64::from(first) + i64::from(count)) & i64::from(i32::MAX);
        self.sequences.insert((partition, producer), (epoch, i32::try_from(next).unwrap_or(0)));
        Some(first == expected)
    }
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}
