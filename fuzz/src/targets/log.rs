//! A partition's log that is known record by record, and what a reader of committed records makes of it.

use std::collections::BTreeMap;

use bytes::{BufMut, Bytes, BytesMut};
use kafka_2pc::{
    ids::{Identity, ProducerId},
    proto::read_committed::{Filter, Sight},
    record::{Compression, RecordRef},
    wire::{
        batch::{
            Batch, BatchBuilder, Batches, ControlMarker, ControlType, HEADER_BYTES, SealedBatch, Stamp,
            control_batch,
        },
        fetch::AbortedTransaction,
    },
};

use super::fetch::{agrees, seen, shuffled};
use crate::input::Input;

const PRODUCERS: u8 = 3;
const MOST_BATCHES: usize = 64;

/// What became of a transaction in this partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Open,
    Committed,
    Aborted { marker: i64 },
}

#[derive(Debug)]
struct Transaction {
    producer: i64,
    first_offset: i64,
    end: End,
}

#[derive(Debug)]
struct Entry {
    batch: Batch,
    /// The transaction of its records; none for plain ones and for markers.
    transaction: Option<usize>,
}

#[derive(Debug, Default)]
struct Log {
    entries: Vec<Entry>,
    transactions: Vec<Transaction>,
    open: BTreeMap<i64, usize>,
    next_offset: i64,
}

/// Decisions: what three producers write, commit and abort, what compaction empties, and where a reader begins.
///
/// A reader gets exactly the records of committed transactions and those without one, from its position on, whatever the
/// order in the list of aborted transactions, and its position comes behind everything that it was given.
pub fn read_committed(input: &[u8]) {
    let mut choices = Input::new(input);
    let mut log = Log::default();
    let stable_at = choices.byte();
    while !choices.is_empty() && log.entries.len() < MOST_BATCHES {
        log.step(&mut choices);
    }
    // The reader's decisions come from one byte, so that the log may be as long as the input.
    let mut reader = Input::new(&input[..1.min(input.len())]);
    let last_stable = log.last_stable_offset();
    let from = i64::from(stable_at) % (last_stable + 1);
    let fetched: Vec<&Entry> = log
        .entries
        .iter()
        .filter(|e| e.batch.header().last_offset() >= from && e.batch.header().base_offset < last_stable)
        .collect();
    let aborted = shuffled(log.aborted(from, last_stable), &mut reader);
    let payload: Vec<u8> = fetched.iter().flat_map(|entry| entry.batch.bytes().to_vec()).collect();
    let expected: Vec<i64> = log.visible(&fetched).into_iter().filter(|offset| *offset >= from).collect();
    let (read, position) = read(Bytes::from(payload), from, &aborted);
    assert_eq!(read, expected, "from {from} with {aborted:?} of {log:#?}");
    let end = fetched.last().map_or(from, |entry| entry.batch.header().next_offset());
    assert_eq!(position, end.max(from));
    agrees(from, &aborted, &fetched.iter().map(|entry| seen(&entry.batch)).collect::<Vec<_>>());
}

/// The offsets that a reader hands out, and where it reads on; as `client::consumer` does it.
fn read(payload: Bytes, from: i64, aborted: &[AbortedTransaction]) -> (Vec<i64>, i64) {
    let mut filter = Filter::committed(from, aborted);
    let mut offsets = Vec::new();
    for batch in Batches::new(payload) {
        let Ok(batch) = batch else { panic!("{batch:?}") };
        if let Sight::Deliver { from } = filter.judge(&seen(&batch)) {
            let Ok(records) = batch.records() else { panic!("{batch:?}") };
            let read = records.map(|record| record.map_or(-1, |record| record.offset));
            offsets.extend(read.filter(|offset| *offset >= from));
        }
    }
    (offsets, filter.position())
}

impl Log {
    fn step(&mut self, choices: &mut Input<'_>) {
        let decision = choices.byte();
        let producer = i64::from(decision / 8 % PRODUCERS);
        let records = 1 + decision / 64;
        match decision % 8 {
            0..=2 => self.write(producer, records),
            3 => self.append(data(None, records), None),
            4 => self.end(producer, ControlType::Commit),
            5 => self.end(producer, ControlType::Abort),
            6 => self.compact(choices),
            _ => self.append(marker(producer, ControlType::Other(7)), None),
        }
    }

    fn write(&mut self, producer: i64, records: u8) {
        let first_offset = self.next_offset;
        let transaction = *self.open.entry(producer).or_insert_with(|| {
            self.transactions.push(Transaction { producer, first_offset, end: End::Open });
            self.transactions.len() - 1
        });
        self.append(data(Some(producer), records), Some(transaction));
    }

    /// The marker comes also to partitions to which the transaction has written nothing.
    fn end(&mut self, producer: i64, how: ControlType) {
        if let Some(transaction) = self.open.remove(&producer) {
            self.transactions[transaction].end = match how {
                ControlType::Abort => End::Aborted { marker: self.next_offset },
                ControlType::Commit | ControlType::Other(_) => End::Committed,
            };
        }
        self.append(marker(producer, how), None);
    }

    fn append(&mut self, batch: Bytes, transaction: Option<usize>) {
        let Some(Ok(batch)) = Batches::new(batch).next() else { panic!("we do not read what we write") };
        let Ok(batch) = batch.placed(self.next_offset, 0, None) else { panic!("offsets are small") };
        self.next_offset = batch.header().next_offset();
        self.entries.push(Entry { batch, transaction });
    }

    /// The cleaner keeps the header of a batch that it empties, if it is a producer's last. It works up to the last
    /// stable offset; aborted records go, and a marker goes when no records of its transaction are left.
    fn compact(&mut self, choices: &mut Input<'_>) {
        let Some(index) = choices.index(self.entries.len()) else { return };
        let last_stable = self.last_stable_offset();
        let entry = &self.entries[index];
        let offset = entry.batch.header().base_offset;
        if offset >= last_stable {
            return;
        }
        if entry.batch.header().is_control() {
            let its = |t: &Transaction| t.end == End::Aborted { marker: offset };
            let of_it = self.transactions.iter().position(its);
            let left =
                |e: &Entry| e.transaction.is_some() && e.transaction == of_it && e.batch.header().count > 0;
            if self.entries.iter().any(left) {
                return;
            }
        }
        self.entries[index].batch = emptied(&entry.batch);
    }

    /// The first offset of an open transaction, or the end.
    fn last_stable_offset(&self) -> i64 {
        let open = self.open.values().map(|index| self.transactions[*index].first_offset);
        open.min().unwrap_or(self.next_offset)
    }

    /// What a broker lists with a fetch (`LocalLog.collectAbortedTransactions`).
    fn aborted(&self, from: i64, upper: i64) -> Vec<AbortedTransaction> {
        let listed = self.transactions.iter().filter(|t| match t.end {
            End::Aborted { marker } => marker >= from && t.first_offset < upper && !self.is_emptied(marker),
            End::Open | End::Committed => false,
        });
        listed.map(|t| AbortedTransaction { producer_id: t.producer, first_offset: t.first_offset }).collect()
    }

    /// The entry of a transaction goes from the index with its marker.
    fn is_emptied(&self, marker: i64) -> bool {
        let at = self.entries.iter().find(|entry| entry.batch.header().base_offset == marker);
        at.is_none_or(|entry| entry.batch.header().count == 0)
    }

    fn visible(&self, fetched: &[&Entry]) -> Vec<i64> {
        let is_visible = |entry: &&&Entry| {
            let committed = |transaction: usize| self.transactions[transaction].end == End::Committed;
            entry.transaction.map_or(!entry.batch.header().is_control(), committed)
        };
        let offsets = |entry: &&Entry| {
            let header = *entry.batch.header();
            if header.count == 0 { Vec::new() } else { (header.base_offset..=header.last_offset()).collect() }
        };
        fetched.iter().filter(is_visible).flat_map(offsets).collect()
    }
}

fn data(producer: Option<i64>, records: u8) -> Bytes {
    let mut builder = BatchBuilder::new();
    for number in 0..records {
        assert_eq!(builder.append(&RecordRef::value(&[number]), 1), Ok(()));
    }
    let Ok(mut sealed) = builder.seal(Compression::None) else { panic!("it is not empty") };
    if let Some(producer) = producer {
        sealed.stamp(Stamp::Transactional { identity: Identity::new(producer, 0), base_sequence: 0 });
    }
    sealed.freeze()
}

fn marker(producer: i64, control_type: ControlType) -> Bytes {
    let identity = Identity { producer_id: ProducerId(producer), ..Identity::new(0, 0) };
    let marker = ControlMarker { identity, control_type, coordinator_epoch: 0, timestamp: 1 };
    SealedBatch::freeze(control_batch(&marker))
}

/// The batch without its records; its offsets stay.
fn emptied(batch: &Batch) -> Batch {
    let mut bytes = BytesMut::from(&batch.bytes()[..HEADER_BYTES]);
    (&mut bytes[8..12]).put_i32(49);
    (&mut bytes[57..61]).put_i32(0);
    let crc = crc32c::crc32c(&bytes[21..]);
    (&mut bytes[17..21]).put_u32(crc);
    let Some(Ok(emptied)) = Batches::new(bytes.freeze()).next() else {
        panic!("{batch:?} cannot be emptied")
    };
    emptied
}
