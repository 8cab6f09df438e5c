//! What is in a record, and where it goes.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use kafka_2pc::client::{Isolation, Start, Topic};
use kafka_2pc::record::{Compression, RecordRef};
use kafka_2pc_protocol_tests::kafka::ConsoleWrite;

use super::{flush, small};
use crate::bench::{Bench, blocking, places, within};
use crate::outcome::{Failure, Shown, equal};
use crate::rows::j_reading::{all_shapes, contents};

/// Headers, timestamps, nulls and empty bytes come out as they went in, for readers that are not ours as well.
pub(super) async fn p13(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let expected = all_shapes();
    for compression in Compression::ALL {
        let topic = bench.topic(&client, 1).await?;
        let producer =
            client.idempotent_producer().compression(compression).linger(Duration::from_secs(60)).start();
        for content in &expected {
            let headers = content.headers();
            within(producer.send(&topic, Some(0), content.record(&headers))).await??;
        }
        flush(bench, &producer).await??;
        let end = i64::try_from(expected.len())?;
        let found = contents(bench, &topic, end).await?;
        equal(&format!("records in {compression:?}"), found, expected.clone())?;
    }
    Ok(())
}

/// Keys, and their murmur2 as Kafka's own tests have it (UtilsTest).
const KEYS: [(&str, i32); 6] = [
    ("21", -973_932_308),
    ("foobar", -790_332_482),
    ("a-little-bit-long-string", -985_981_536),
    ("a-little-bit-longer-string", -1_486_304_829),
    ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
    ("abc", 479_470_107),
];
const PARTITIONS: i32 = 7;

/// A record with a key goes where Kafka's Java producer sends it.
pub(super) async fn p14(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, PARTITIONS).await?;
    let producer = small(&client).start();
    let mut keys: Vec<_> = KEYS.iter().map(|(key, _)| (*key).to_owned()).collect();
    keys.extend((0..100).map(|i| format!("key {i}")));
    for key in &keys {
        let record = RecordRef::value(b"v").with_key(key.as_bytes());
        within(producer.send(&topic, None, record)).await??;
    }
    flush(bench, &producer).await??;
    let ours = by_key(bench, &topic, keys.len()).await?;
    for (key, murmur2) in KEYS {
        let partition = (murmur2 & i32::MAX) % PARTITIONS;
        equal(&format!("the partition of {key:?}"), ours.get(key), Some(&partition))?;
    }
    // Before 4.2 the console producer is told its settings otherwise.
    let told_otherwise = |version: &str| ["3.", "4.0.", "4.1."].iter().any(|old| version.starts_with(old));
    if bench.kafka_version().is_none_or(told_otherwise) {
        return Ok(());
    }
    equal("where Java's producer sends them", by_java(bench, &keys).await?, ours)
}

/// The partition of each key in a topic of so many records.
async fn by_key(bench: &Bench, topic: &Topic, count: usize) -> Result<BTreeMap<String, i32>, Failure> {
    let mut consumer = bench.untapped()?.consumer().isolation(Isolation::Committed).build();
    consumer.assign(places(topic).map(|place| (place, Start::Beginning)));
    let mut found = BTreeMap::new();
    while found.len() < count {
        for r in within(consumer.poll(Duration::from_millis(20))).await?? {
            let key = String::from_utf8_lossy(&r.record.key.unwrap_or_default()).into_owned();
            found.insert(key, r.partition);
        }
    }
    Ok(found)
}

/// The same for what Kafka's console producer writes.
async fn by_java(bench: &Bench, keys: &[String]) -> Result<BTreeMap<String, i32>, Failure> {
    let client = bench.untapped()?;
    let topic = bench.topic(&client, PARTITIONS).await?;
    let folder = tempfile::tempdir()?;
    let lines = folder.path().join("lines");
    let mut text = String::new();
    for key in keys {
        writeln!(text, "null\t{key}\tv")?;
    }
    std::fs::write(&lines, text)?;
    let (cluster, name) = (bench.cluster()?, topic.name().to_string());
    let write = move || {
        let write = ConsoleWrite { topic: &name, compression: "none", lines: &lines, null: "null" };
        cluster.tooling()?.console_producer(&write)
    };
    blocking(write).await??;
    by_key(bench, &topic, keys.len()).await
}
