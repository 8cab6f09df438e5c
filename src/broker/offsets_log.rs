//! What a group coordinator writes into `__consumer_offsets` for a transaction: one batch under the producer's own
//! identity, so that the partition holds the transaction open until its marker comes.

use bytes::{BufMut, Bytes};
use kafka_protocol::error::ResponseError;

use super::groups::Committed;
use crate::ids::{Identity, TopicPartition};
use crate::record::{Compression, RecordRef};
use crate::wire::batch::{Batch, BatchBuilder, Batches, Stamp};

/// The batch of one TxnOffsetCommit: keys as in Kafka's `OffsetCommitKey` 1, values as in `OffsetCommitValue` 3.
///
/// # Errors
/// UNKNOWN_SERVER_ERROR for what does not fit into a batch.
pub(crate) fn batch(
    identity: Identity,
    group: &str,
    offsets: &[(TopicPartition, Committed)],
    now_ms: i64,
) -> Result<Batch, ResponseError> {
    let failed = |_| ResponseError::UnknownServerError;
    let mut builder = BatchBuilder::new();
    for (at, committed) in offsets {
        let (key, value) = (key(group, at), value(committed, now_ms));
        let record = RecordRef { key: Some(&key), ..RecordRef::value(&value) };
        builder.append(&record, now_ms).map_err(|_| ResponseError::UnknownServerError)?;
    }
    let mut sealed = builder.seal(Compression::None).map_err(failed)?;
    sealed.stamp(Stamp::Transactional { identity, base_sequence: 0 });
    let read = Batches::new(sealed.freeze()).next();
    read.and_then(Result::ok).ok_or(ResponseError::UnknownServerError)
}

fn key(group: &str, at: &TopicPartition) -> Bytes {
    let mut key = Vec::new();
    key.put_i16(1);
    text(&mut key, group);
    text(&mut key, &at.topic);
    key.put_i32(at.partition);
    key.into()
}

fn value(committed: &Committed, now_ms: i64) -> Bytes {
    let mut value = Vec::new();
    value.put_i16(3);
    value.put_i64(committed.offset);
    value.put_i32(committed.leader_epoch);
    text(&mut value, &committed.metadata);
    value.put_i64(now_ms);
    value.into()
}

fn text(out: &mut Vec<u8>, text: &str) {
    // The request that it comes from has such lengths itself.
    out.put_i16(i16::try_from(text.len()).unwrap_or(i16::MAX));
    out.put_slice(text.as_bytes());
}
