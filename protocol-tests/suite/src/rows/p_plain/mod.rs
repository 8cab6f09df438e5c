//! The producer without transactions: each record once and in order, whatever happens on the way.
//!
//! There is nothing to abort here: what is stored is seen at once, so a record that is doubled, out of order or told wrongly
//! shows in the topic.

mod brokers;
mod content;
mod fates;
mod histories;
mod repeats;
mod wire;

use std::time::Duration;

use kafka_2pc::client::{Client, Delivery, IdempotentBuilder, NotStored, Producer, Topic};
use kafka_2pc::ids::Identity;
use kafka_2pc::record::RecordRef;

use super::{Row, rows};
use crate::bench::{Bench, within};
use crate::outcome::{Failure, Shown};
use crate::rows::seen::granted;
use brokers::{p15, p16};
use content::{p13, p14};
use fates::{p09, p10, p11, p12};
use histories::{p05, p06, p07, p08};
use repeats::{p01, p02, p03, p04};
use wire::{p17, p18, p19};

/// CORRUPT_MESSAGE.
const CORRUPT: i16 = 2;
/// OUT_OF_ORDER_SEQUENCE_NUMBER.
const OUT_OF_ORDER: i16 = 45;
/// DUPLICATE_SEQUENCE_NUMBER.
const DUPLICATE: i16 = 46;
/// INVALID_PRODUCER_EPOCH.
const OLD_EPOCH: i16 = 47;

pub(super) const ROWS: &[Row] = rows![
    p01 p02 p03 p04 p05 p06 p07 p08 p09 p10 p11 p12 p13 p14 p15 p16 p17 p18 p19
];

/// A producer of batches that hold a record each, so that several are under way at once.
fn small(client: &Client) -> IdempotentBuilder {
    let builder = client.idempotent_producer().batch_size(1);
    builder.retry_backoff(Duration::from_millis(10)).retry_backoff_max(Duration::from_millis(100))
}

/// Hands a value for the first partition to the producer.
async fn send(producer: &Producer, topic: &Topic, value: &str) -> Result<Delivery, Failure> {
    Ok(within(producer.send_tracked(topic, Some(0), RecordRef::value(value.as_bytes()))).await??)
}

/// Flushes, and tells the trace how that ended.
async fn flush(bench: &Bench, producer: &Producer) -> Result<Result<(), NotStored>, Failure> {
    Ok(bench.step("flush", within(producer.flush()).await?))
}

/// Writes values to the first partition, each of which must be stored. They leave together.
async fn write<V: AsRef<str>>(bench: &Bench, producer: &Producer, topic: &Topic, values: &[V]) -> Shown {
    for value in values {
        send(producer, topic, value.as_ref()).await?;
    }
    Ok(flush(bench, producer).await??)
}

/// Sends a value to the first partition, which must not be known to be stored: what the flush said of it, and its handle's
/// word.
async fn fails(
    bench: &Bench,
    producer: &Producer,
    (topic, value): (&Topic, &str),
) -> Result<NotStored, Failure> {
    let delivery = send(producer, topic, value).await?;
    let told = flush(bench, producer).await?;
    let handle = within(delivery.stored()).await?;
    match (told, handle) {
        (Err(told), Err(cause)) if told.cause == cause => Ok(told),
        other => Err(Failure::wrong(format!("{value:?} ended with {other:?}"))),
    }
}

/// The identity that was granted last.
fn own(bench: &Bench) -> Result<Identity, Failure> {
    granted(bench)?.last().copied().ok_or_else(|| Failure::wrong("no identity was granted"))
}
