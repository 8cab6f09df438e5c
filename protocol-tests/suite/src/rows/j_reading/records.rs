//! What is in a record comes out as it went in.

use std::time::{Duration, UNIX_EPOCH};

use kafka_2pc::client::{Isolation, Topic};
use kafka_2pc::record::{Compression, HeaderRef, RecordRef};
use kafka_2pc_protocol_tests::foreign::{Library, Reading, Record};

use super::{place, read_to, reader, until_end};
use crate::bench::{Bench, blocking, fresh, venv, within};
use crate::outcome::{Failure, Shown, equal, holds};
use crate::rows::seen::written;

/// Everything of a record but its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::rows) struct Content {
    timestamp: i64,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

/// What our reader sees; on real brokers librdkafka must see the same.
pub(in crate::rows) async fn contents(
    bench: &Bench,
    topic: &Topic,
    end: i64,
) -> Result<Vec<Content>, Failure> {
    let client = bench.untapped()?;
    until_end(&client, topic, Isolation::Committed, end).await?;
    let mut consumer = reader(&client, topic, Isolation::Committed);
    let records = read_to(&mut consumer, &place(topic), end).await?;
    let ours: Vec<_> = records
        .into_iter()
        .map(|r| Content {
            timestamp: r.record.timestamp,
            key: r.record.key.map(|bytes| bytes.to_vec()),
            value: r.record.value.map(|bytes| bytes.to_vec()),
            headers: r
                .record
                .headers
                .into_iter()
                .map(|h| (h.key.to_vec(), h.value.map(|v| v.to_vec())))
                .collect(),
        })
        .collect();
    if bench.arm().is_real() {
        let (bootstrap, name) = (bench.bootstrap(), topic.name().to_string());
        let read = move || -> Result<Vec<Record>, Failure> {
            Ok(venv()?.read(&Reading::committed(Library::Confluent, &bootstrap, &name))?)
        };
        let theirs: Vec<_> = blocking(read)
            .await??
            .into_iter()
            .map(|r| Content {
                timestamp: r.timestamp_ms,
                key: r.key,
                value: r.value,
                headers: r.headers.into_iter().map(|(key, value)| (key.into_bytes(), value)).collect(),
            })
            .collect();
        equal("librdkafka reads", &theirs, &ours)?;
    }
    Ok(ours)
}

impl Content {
    /// The record that has this content; `headers` are its own.
    pub(in crate::rows) fn record<'a>(&'a self, headers: &'a [HeaderRef<'a>]) -> RecordRef<'a> {
        RecordRef {
            key: self.key.as_deref(),
            value: self.value.as_deref(),
            headers,
            timestamp: Some(self.timestamp),
        }
    }

    /// Its headers, lent.
    pub(in crate::rows) fn headers(&self) -> Vec<HeaderRef<'_>> {
        self.headers.iter().map(|(key, value)| HeaderRef { key, value: value.as_deref() }).collect()
    }
}

/// Records of every shape: with null and empty keys and values, with headers that are repeated, empty, null.
pub(in crate::rows) fn all_shapes() -> Vec<Content> {
    let text = |text: &str| Some(text.as_bytes().to_vec());
    let header =
        |key: &str, value: Option<&str>| (key.as_bytes().to_vec(), value.map(|v| v.as_bytes().to_vec()));
    let headers = vec![
        header("a", Some("1")),
        header("b", None),
        header("a", Some("2")),
        header("a", Some("1")),
        header("", Some("without a key")),
        header("b", Some("")),
        header("é", Some("語")),
    ];
    let content = |key, value, headers| Content { timestamp: 1_700_000_000_000, key, value, headers };
    vec![
        content(None, None, Vec::new()),
        content(text(""), text(""), Vec::new()),
        content(None, text(""), headers.clone()),
        content(text("key"), None, headers.iter().rev().cloned().collect()),
        content(text("key"), text("value"), headers[..1].to_vec()),
    ]
}

/// Null and empty keys, values and header values stay apart; headers keep their order, and all of one key.
pub(super) async fn j12(bench: &Bench) -> Shown {
    let expected = all_shapes();
    let client = bench.client()?;
    for compression in [Compression::None, Compression::Lz4] {
        let topic = bench.topic(&client, 1).await?;
        let builder = client.transactional_producer(bench.id("j12")).compression(compression);
        let mut transaction = bench.init_of(builder).await?.begin();
        for content in &expected {
            let headers = content.headers();
            within(transaction.send(&topic, Some(0), content.record(&headers))).await??;
        }
        bench.step("commit", within(transaction.commit()).await?)?;
        let end = i64::try_from(expected.len())? + 1;
        equal(
            &format!("records with {compression:?}"),
            contents(bench, &topic, end).await?,
            expected.clone(),
        )?;
    }
    Ok(())
}

/// Times lie as far apart as they like, in one batch; where the broker stamps them, its time is that of every record.
pub(super) async fn j13(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let now = i64::try_from(UNIX_EPOCH.elapsed()?.as_millis())?;
    let times = [now, 0, now - (1 << 32), now - (1 << 31) - 1, now + 1];
    for kind in ["CreateTime", "LogAppendTime"] {
        let name = fresh("times");
        bench.create_topic(&name, 1, &[("message.timestamp.type", kind)]).await?;
        let topic = within(client.topic(&name)).await??;
        let before = written(bench)?.len();
        let builder = client.transactional_producer(bench.id("j13")).linger(Duration::from_secs(1));
        let mut transaction = bench.init_of(builder).await?.begin();
        for timestamp in times {
            let record = RecordRef { timestamp: Some(timestamp), ..RecordRef::value(b"v") };
            within(transaction.send(&topic, Some(0), record)).await??;
        }
        bench.step("commit", within(transaction.commit()).await?)?;
        // Another batch, unlike another try, would begin at another sequence.
        holds(
            written(bench)?[before..].iter().all(|batch| batch.sequence == 0),
            "the times lie in several batches",
        )?;
        let read = contents(bench, &topic, 6).await?;
        let read: Vec<_> = read.iter().map(|content| content.timestamp).collect();
        if kind == "CreateTime" {
            equal("the times of creation", read, times)?;
        } else {
            let stamped = read.first().copied().unwrap_or_default();
            equal("the times of appending", &read[..], [stamped; 5])?;
            // Not before the records were made, by clocks of one machine or nearly so.
            holds(stamped > now - 60_000, format!("appended at {stamped}, made at {now}"))?;
            holds(!times.contains(&stamped) || stamped >= now, format!("{stamped} is the producer's time"))?;
        }
    }
    Ok(())
}
