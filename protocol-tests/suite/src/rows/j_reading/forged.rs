//! Logs that no broker writes easily, put into the place of what was fetched.

use bytes::{BufMut, Bytes, BytesMut};
use kafka_2pc::client::{Client, ConsumerError, Isolation, Topic};
use kafka_2pc::ids::Identity;
use kafka_2pc::record::{Compression, RecordRef};
use kafka_2pc::wire::batch::{
    Batch, BatchBuilder, BatchError, Batches, ControlMarker, ControlType, Stamp, control_batch,
};
use kafka_protocol::messages::FetchRequest;
use kafka_protocol::messages::fetch_response::AbortedTransaction;

use super::{place, read_to, reader, texts};
use crate::bench::{Bench, within};
use crate::outcome::{Failure, Shown, equal, holds};

/// A log that is made up, batch by batch.
#[derive(Debug, Default)]
pub(super) struct Forged {
    bytes: BytesMut,
    end: i64,
}

impl Forged {
    fn push(&mut self, bytes: Bytes) -> Result<Batch, Failure> {
        let batch = Batches::new(bytes).next().ok_or_else(|| Failure::wrong("no batch"))??;
        Ok(batch.placed(self.end, 0, None)?)
    }

    fn append(&mut self, batch: &Batch) {
        self.bytes.extend_from_slice(batch.bytes());
        self.end = batch.header().next_offset();
    }

    /// A record in a transaction of this producer.
    pub(super) fn data(&mut self, producer: i64, value: &str) -> Shown {
        let mut builder = BatchBuilder::new();
        builder.append(&RecordRef::value(value.as_bytes()), 1)?;
        let mut sealed = builder.seal(Compression::None)?;
        sealed.stamp(Stamp::Transactional { identity: Identity::new(producer, 0), base_sequence: 0 });
        let batch = self.push(sealed.freeze())?;
        self.append(&batch);
        Ok(())
    }

    /// A control batch of this producer.
    pub(super) fn control(&mut self, producer: i64, control_type: ControlType) -> Shown {
        let identity = Identity::new(producer, 0);
        let marker = ControlMarker { identity, control_type, coordinator_epoch: 0, timestamp: 1 };
        let batch = self.push(control_batch(&marker).freeze())?;
        self.append(&batch);
        Ok(())
    }

    /// A control batch of this producer, of which compaction left the header.
    fn emptied(&mut self, producer: i64) -> Shown {
        let identity = Identity::new(producer, 0);
        let control_type = ControlType::Abort;
        let marker = ControlMarker { identity, control_type, coordinator_epoch: 0, timestamp: 1 };
        let batch = self.push(control_batch(&marker).freeze())?.emptied()?;
        self.append(&batch);
        Ok(())
    }

    /// A batch of another log.
    pub(super) fn place(&mut self, batch: &Batch) -> Shown {
        self.append(&batch.placed(self.end, 0, None)?);
        Ok(())
    }

    /// The offset behind it.
    pub(super) const fn end(&self) -> i64 {
        self.end
    }

    /// A topic that ends where this log does. The next fetch of it brings this log instead.
    pub(super) async fn serve(
        &self,
        bench: &Bench,
        client: &Client,
        aborted: &[(i64, i64)],
    ) -> Result<Topic, Failure> {
        let topic = bench.topic(client, 1).await?;
        let fill = vec!["covered"; usize::try_from(self.end)?];
        bench.write_plain(&topic, 0, &fill).await?;
        serve(bench, self.bytes.clone().freeze(), aborted);
        Ok(topic)
    }
}

/// The next answer to a fetch that holds records holds these instead, and this list of producers and first offsets.
pub(super) fn serve(bench: &Bench, payload: Bytes, aborted: &[(i64, i64)]) {
    let listed = |(producer, first): &(i64, i64)| {
        AbortedTransaction::default().with_producer_id((*producer).into()).with_first_offset(*first)
    };
    let list: Vec<_> = aborted.iter().map(listed).collect();
    bench.tap.rewrite::<FetchRequest>(1, move |answer| {
        let partitions = answer.responses.iter_mut().flat_map(|t| &mut t.partitions);
        let mut served = false;
        for p in partitions.filter(|p| p.records.as_ref().is_some_and(|records| !records.is_empty())) {
            p.records = Some(payload.clone());
            p.aborted_transactions = Some(list.clone());
            served = true;
        }
        served
    });
}

/// Two abort markers in a row end one transaction; a marker of a producer without records, a control batch that was emptied
/// and one of a kind that nobody knows end none; and reading goes on behind them.
pub(super) async fn j04(bench: &Bench) -> Shown {
    const A: i64 = 71;
    const B: i64 = 72;
    let client = bench.client()?;
    let mut log = Forged::default();
    log.data(A, "no")?;
    log.control(A, ControlType::Abort)?;
    log.control(A, ControlType::Abort)?;
    log.control(B, ControlType::Abort)?;
    log.data(A, "1")?;
    log.control(A, ControlType::Commit)?;
    let second = log.end;
    log.data(B, "no")?;
    log.emptied(B)?;
    log.data(B, "no")?;
    log.control(B, ControlType::Other(7))?;
    log.control(A, ControlType::Abort)?;
    log.data(B, "no")?;
    log.data(A, "2")?;
    log.control(B, ControlType::Abort)?;
    log.data(B, "3")?;
    log.control(A, ControlType::Commit)?;
    log.control(B, ControlType::Commit)?;
    let topic = log.serve(bench, &client, &[(B, second), (A, 0)]).await?;
    let mut consumer = reader(&client, &topic, Isolation::Committed);
    let seen = read_to(&mut consumer, &place(&topic), log.end).await?;
    equal("committed records", texts(&seen), ["1", "2", "3"])?;
    bench.write_plain(&topic, 0, &["behind"]).await?;
    equal("what comes behind", texts(&within(consumer.next_batch()).await??), ["behind"])?;

    let topic = log.serve(bench, &client, &[(B, second), (A, 0)]).await?;
    let mut all = reader(&client, &topic, Isolation::Uncommitted);
    let seen = read_to(&mut all, &place(&topic), log.end).await?;
    equal("all records", texts(&seen), ["no", "1", "no", "no", "no", "2", "3"])
}

/// A message set as brokers before 0.11 kept it, with one message at offset 1.
fn message_set(version: i8) -> Bytes {
    let mut message = BytesMut::new();
    message.put_i8(version);
    message.put_i8(0);
    if version > 0 {
        message.put_i64(1_000);
    }
    message.put_i32(-1);
    message.put_i32(3);
    message.put_slice(b"old");
    let mut set = BytesMut::new();
    set.put_i64(1);
    set.put_i32(i32::try_from(message.len() + 4).unwrap_or(i32::MAX));
    set.put_u32(crc32(&message));
    set.put_slice(&message);
    set.freeze()
}

/// CRC-32 as in zip, which newer formats do not use any more.
fn crc32(bytes: &[u8]) -> u32 {
    let bit = |crc: u32, _| if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
    !bytes.iter().fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), bit))
}

/// Records of the formats 0 and 1 are refused by name, behind what came before them; the position stays, and nothing else
/// is taken for them.
pub(super) async fn j14(bench: &Bench) -> Shown {
    let client = bench.client()?;
    for version in [0, 1] {
        let topic = bench.topic(&client, 1).await?;
        bench.write_plain(&topic, 0, &["1"]).await?;
        bench.write_plain(&topic, 0, &["2"]).await?;
        let mut first = Forged::default();
        first.data(7, "first")?;
        first.bytes.extend_from_slice(&message_set(version));
        serve(bench, first.bytes.freeze(), &[]);
        let mut consumer = reader(&client, &topic, Isolation::Committed);
        equal("before it", texts(&within(consumer.next_batch()).await??), ["first"])?;
        match within(consumer.next_batch()).await? {
            Err(
                error @ ConsumerError::Unreadable { offset: 1, source: BatchError::OldFormat { .. }, .. },
            ) => {
                let told = error.to_string();
                holds(told.contains(&format!("format {version}")), format!("it is told as {told}"))?;
            }
            other => return Err(Failure::wrong(format!("format {version} was read as {other:?}"))),
        }
        equal("the position", consumer.position(&place(&topic)), Some(1))?;
        // What is fetched next is whole.
        equal("behind it", texts(&within(consumer.next_batch()).await??), ["2"])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_checksum_is_that_of_zip() {
        assert_eq!(super::crc32(b"123456789"), 0xcbf4_3926);
    }
}
