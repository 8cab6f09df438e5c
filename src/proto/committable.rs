//! A prepared transaction as it is kept and handed around: everything that a stranger needs to commit it.
//!
//! Whoever holds a committable can decide the transaction, from any process, and can prove afterwards what became
//! of it: the start time identifies the transaction at its coordinator, and one acknowledged offset per partition
//! finds it in the log.

use std::sync::Arc;

use serde_json::{Value, json};

use super::sealed::{Fields, Reader, Seal, StateError};
use crate::ids::{Identity, TopicId, TopicName, TopicPartition, TransactionalId};

const SEAL: Seal = Seal { what: "committable", magic: *b"K2PC", newest: 1 };

/// A prepared transaction: every record of it is acknowledged, and nothing decides it but a commit or an abort.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Committable {
    /// The `transactional.id`.
    pub transactional_id: TransactionalId,
    /// Producer id and epoch of the transaction. No other transaction has both.
    pub identity: Identity,
    /// The EndTxn version that was fixed when the transaction began: at most 4 on V1, 5 on V2. `None` when whoever
    /// wrote it did not tell, as Flink does; then the transaction is described before it is ended.
    pub end_txn_version: Option<i16>,
    /// When the coordinator began the transaction, in its own milliseconds since the Unix epoch.
    pub start_ms: Option<i64>,
    /// The transaction's timeout (`transaction.timeout.ms`).
    pub timeout_ms: Option<i32>,
    /// When the coordinator may begin to abort it, in milliseconds since the Unix epoch on the writer's clock.
    pub deadline_ms: Option<i64>,
    /// The cluster that holds it.
    pub cluster_id: Option<Arc<str>>,
    /// Every partition that has records of it, and the partitions of `__consumer_offsets` that have offsets of a group;
    /// empty when whoever wrote it did not tell.
    pub partitions: Vec<CommittablePartition>,
}

/// One partition of a committable.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CommittablePartition {
    /// The topic's name.
    pub topic: TopicName,
    /// The partition's index.
    pub partition: i32,
    /// The topic's id when the records were written: a topic created anew has another one.
    pub topic_id: TopicId,
    /// The offset of one acknowledged record of the transaction; -1 where it is not known, as for offsets of a group.
    pub offset: i64,
    /// How many records of the transaction the partition holds; offsets of a group are none.
    pub records: u64,
}

impl CommittablePartition {
    /// Topic and partition alone.
    #[must_use]
    pub fn topic_partition(&self) -> TopicPartition {
        TopicPartition::new(self.topic.clone(), self.partition)
    }
}

impl Committable {
    /// The epoch that a commit of this transaction writes into its markers, wider than an epoch because 32767
    /// occurs. `None` when the EndTxn version is not known, for then it may be either of two.
    #[must_use]
    pub fn commit_epoch(&self) -> Option<i32> {
        self.end_txn_version.map(|version| i32::from(self.identity.epoch.0) + i32::from(version >= 5))
    }

    /// How many records it holds, over all partitions.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.partitions.iter().fold(0, |sum, p| sum.saturating_add(p.records))
    }

    /// The bytes to be kept, in the newest format.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let fields = Fields::default()
            .text(self.transactional_id.as_str())
            .identity(self.identity)
            .option(self.end_txn_version, Fields::i16)
            .option(self.start_ms, Fields::i64)
            .option(self.timeout_ms, Fields::i32)
            .option(self.deadline_ms, Fields::i64)
            .option(self.cluster_id.as_deref(), Fields::text)
            .list(&self.partitions, |fields, p| {
                fields.text(&p.topic).i32(p.partition).raw(&p.topic_id.0).i64(p.offset).u64(p.records)
            });
        SEAL.seal(fields)
    }

    /// The committable of kept bytes.
    ///
    /// # Errors
    /// [`StateError`] tells something else, a newer release's format, a torn end and damage apart.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, StateError> {
        let mut fields = SEAL.open(bytes)?;
        let committable = Self {
            transactional_id: TransactionalId::new(fields.text()?),
            identity: fields.identity()?,
            end_txn_version: fields.option(Reader::i16)?,
            start_ms: fields.option(Reader::i64)?,
            timeout_ms: fields.option(Reader::i32)?,
            deadline_ms: fields.option(Reader::i64)?,
            cluster_id: fields.option(Reader::text)?,
            partitions: fields.list(CommittablePartition::read)?,
        };
        fields.finish(committable)
    }

    /// A committable that Flink's Kafka sink wrote (`KafkaCommittableSerializer`, version 1: what Java's
    /// `DataOutputStream` makes of a short, a long and a UTF): epoch, producer id and transactional id, and nothing that
    /// could serve as evidence.
    ///
    /// # Errors
    /// [`StateError`] when the bytes are not exactly such a committable, without the version and length that Flink's
    /// state puts before it: [`StateError::Torn`] when its end is missing, [`StateError::Damaged`] when bytes follow it,
    /// [`StateError::Foreign`] for one of ours.
    pub fn from_flink_bytes(bytes: &[u8]) -> Result<Self, StateError> {
        const WHAT: &str = "Flink committable";
        const HEAD_BYTES: usize = 2 + 8 + 2;
        if bytes.starts_with(&SEAL.magic) {
            return Err(StateError::Foreign { what: WHAT });
        }
        let torn = |need: usize| StateError::Torn { what: WHAT, have: bytes.len() as u64, need: need as u64 };
        if bytes.len() < HEAD_BYTES {
            return Err(torn(HEAD_BYTES));
        }
        let mut fields = Reader::bare(bytes, WHAT);
        let epoch = fields.i16()?;
        let producer_id = fields.i64()?;
        if epoch < 0 || producer_id < 0 {
            return fields.damaged("its producer id or epoch is negative");
        }
        let length = usize::from(fields.u16()?);
        match bytes.len().checked_sub(HEAD_BYTES + length) {
            None => return Err(torn(HEAD_BYTES + length)),
            Some(0) => {}
            Some(_) => return fields.damaged("bytes follow its transactional id"),
        }
        let Some(id) = modified_utf8(fields.take(length)?) else {
            return fields.damaged("its transactional id is not modified UTF-8");
        };
        if id.is_empty() {
            return fields.damaged("its transactional id is empty");
        }
        fields.finish(Self {
            transactional_id: TransactionalId::new(id),
            identity: Identity::new(producer_id, epoch),
            end_txn_version: None,
            start_ms: None,
            timeout_ms: None,
            deadline_ms: None,
            cluster_id: None,
            partitions: Vec::new(),
        })
    }

    /// A view for people and scripts. Times are milliseconds since the Unix epoch; unknown things are null.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let partition = |p: &CommittablePartition| {
            json!({
                "topic": &*p.topic,
                "partition": p.partition,
                "topic_id": p.topic_id.is_known().then(|| p.topic_id.to_string()),
                "offset": p.offset,
                "records": p.records,
            })
        };
        json!({
            "transactional_id": self.transactional_id.as_str(),
            "producer_id": self.identity.producer_id.0,
            "epoch": self.identity.epoch.0,
            "end_txn_version": self.end_txn_version,
            "start_ms": self.start_ms,
            "timeout_ms": self.timeout_ms,
            "deadline_ms": self.deadline_ms,
            "cluster_id": self.cluster_id.as_deref(),
            "records": self.records(),
            "partitions": self.partitions.iter().map(partition).collect::<Vec<_>>(),
        })
    }
}

impl CommittablePartition {
    fn read(fields: &mut Reader<'_>) -> Result<Self, StateError> {
        Ok(Self {
            topic: fields.text()?,
            partition: fields.i32()?,
            topic_id: fields.topic_id()?,
            offset: fields.i64()?,
            records: fields.u64()?,
        })
    }
}

/// Java's `writeUTF` writes each UTF-16 unit on its own in one to three bytes, and NUL in two.
fn modified_utf8(bytes: &[u8]) -> Option<String> {
    let mut units = Vec::new();
    let mut rest = bytes;
    loop {
        let (unit, used) = match *rest {
            [] => return String::from_utf16(&units).ok(),
            [a, ..] if a < 0x80 => (u16::from(a), 1),
            [a, b, ..] if a & 0xe0 == 0xc0 && b & 0xc0 == 0x80 => {
                (u16::from(a & 0x1f) << 6 | u16::from(b & 0x3f), 2)
            }
            [a, b, c, ..] if a & 0xf0 == 0xe0 && b & 0xc0 == 0x80 && c & 0xc0 == 0x80 => {
                (u16::from(a & 0x0f) << 12 | u16::from(b & 0x3f) << 6 | u16::from(c & 0x3f), 3)
            }
            _ => return None,
        };
        units.push(unit);
        rest = &rest[used..];
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn example() -> Committable {
        Committable {
            transactional_id: TransactionalId::new("orders-3f-0-1"),
            identity: Identity::new(4711, 8),
            end_txn_version: Some(5),
            start_ms: Some(1_700_000_000_123),
            timeout_ms: Some(900_000),
            deadline_ms: Some(1_700_000_900_123),
            cluster_id: Some("kZ8v".into()),
            partitions: vec![CommittablePartition {
                topic: "orders".into(),
                partition: 2,
                topic_id: TopicId([7; 16]),
                offset: 1234,
                records: 3,
            }],
        }
    }

    fn any_partition() -> impl Strategy<Value = CommittablePartition> {
        ("\\PC{0,20}", any::<i32>(), any::<[u8; 16]>(), any::<i64>(), any::<u64>()).prop_map(
            |(topic, partition, id, offset, records)| CommittablePartition {
                topic: topic.into(),
                partition,
                topic_id: TopicId(id),
                offset,
                records,
            },
        )
    }

    fn any_committable() -> impl Strategy<Value = Committable> {
        let identity = (any::<i64>(), any::<i16>()).prop_map(|(id, epoch)| Identity::new(id, epoch));
        let times = (any::<Option<i64>>(), any::<Option<i32>>(), any::<Option<i64>>());
        let cluster = proptest::option::of("\\PC{0,20}");
        let partitions = proptest::collection::vec(any_partition(), 0..4);
        ("\\PC{0,40}", identity, any::<Option<i16>>(), times, cluster, partitions).prop_map(
            |(id, identity, end_txn_version, (start_ms, timeout_ms, deadline_ms), cluster_id, partitions)| {
                Committable {
                    transactional_id: TransactionalId::new(id),
                    identity,
                    end_txn_version,
                    start_ms,
                    timeout_ms,
                    deadline_ms,
                    cluster_id: cluster_id.map(Into::into),
                    partitions,
                }
            },
        )
    }

    proptest! {
        #[test]
        fn comes_back_from_its_bytes(committable in any_committable()) {
            prop_assert_eq!(Committable::from_bytes(&committable.to_bytes()), Ok(committable));
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Committable::from_bytes(&bytes);
            let _ = Committable::from_flink_bytes(&bytes);
        }
    }

    #[test]
    fn torn_at_any_byte_it_is_refused_as_torn() {
        let bytes = example().to_bytes();
        for end in 0..bytes.len() {
            let error = Committable::from_bytes(&bytes[..end]).unwrap_err();
            assert!(matches!(error, StateError::Torn { have, .. } if have == end as u64), "{end}: {error}");
        }
    }

    #[test]
    fn any_flipped_bit_is_noticed() {
        let bytes = example().to_bytes();
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Committable::from_bytes(&flipped).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn flinks_bytes_are_read() {
        let bytes = [0, 5, 0, 0, 0, 0, 0, 0x12, 0xd6, 0x87, 0, 10].into_iter().chain(*b"orders-0-7");
        let committable = Committable::from_flink_bytes(&bytes.collect::<Vec<_>>()).unwrap();
        assert_eq!(committable.transactional_id.as_str(), "orders-0-7");
        assert_eq!(committable.identity, Identity::new(1_234_567, 5));
        assert_eq!((committable.end_txn_version, committable.commit_epoch()), (None, None));
    }

    #[test]
    fn flinks_bytes_are_refused_torn_long_or_strange() {
        let bytes = |id: &[u8]| {
            let length = u16::try_from(id.len()).unwrap().to_be_bytes();
            [&[0, 5, 0, 0, 0, 0, 0, 0x12, 0xd6, 0x87][..], &length, id].concat()
        };
        let good = bytes(b"orders-0-7");
        for end in 0..good.len() {
            let error = Committable::from_flink_bytes(&good[..end]).unwrap_err();
            let need = if end < 12 { 12 } else { 22 };
            assert_eq!(error, StateError::Torn { what: "Flink committable", have: end as u64, need });
        }
        let refused = |bytes: &[u8]| Committable::from_flink_bytes(bytes).unwrap_err().to_string();
        assert!(refused(&[&good[..], &[0]].concat()).contains("bytes follow its transactional id"));
        assert!(refused(&bytes(b"")).contains("empty"));
        assert!(refused(&bytes(&[0xff])).contains("modified UTF-8"));
        let mut negative = good.clone();
        negative[0] = 0x80;
        assert!(refused(&negative).contains("negative"));
        // With Flink's version and length before it, as its state has it.
        assert!(Committable::from_flink_bytes(&[&[0, 0, 0, 1, 0, 0, 0, 22][..], &good].concat()).is_err());
        assert!(matches!(
            Committable::from_flink_bytes(&example().to_bytes()),
            Err(StateError::Foreign { .. })
        ));
    }

    #[test]
    fn modified_utf8_keeps_nul_and_pairs() {
        assert_eq!(modified_utf8(&[0xc0, 0x80, b'a']).as_deref(), Some("\0a"));
        assert_eq!(modified_utf8(&[0xed, 0xa0, 0xbd, 0xed, 0xb8, 0x80]).as_deref(), Some("\u{1f600}"));
        assert_eq!(modified_utf8(&[0xed, 0xa0, 0xbd]), None);
        assert_eq!(modified_utf8(&[0xf0, 0x9f, 0x98, 0x80]), None);
    }

    #[test]
    fn the_commit_epoch_reaches_32767() {
        let last = Committable { identity: Identity::new(1, i16::MAX), ..example() };
        assert_eq!(last.commit_epoch(), Some(32768));
        assert_eq!(Committable { end_txn_version: Some(4), ..example() }.commit_epoch(), Some(8));
    }

    #[test]
    fn json_shows_what_an_operator_needs() {
        let view = example().to_json();
        assert_eq!(view["producer_id"], 4711);
        assert_eq!(view["partitions"][0]["topic_id"], TopicId([7; 16]).to_string());
        assert_eq!(view["records"], 3);
    }
}
