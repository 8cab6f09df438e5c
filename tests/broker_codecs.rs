//! Compressed batches at the embedded broker, against what real Kafka 4.4 was measured to do with them.
//!
//! The same tests run against a real cluster: `KAFKA_2PC_BOOTSTRAP=host:port cargo test --features broker --test
//! broker_codecs`; `KAFKA_2PC_PROFILE` says what it is (`kafka-4.4` unless told otherwise). `protocol-tests` does that.
#![cfg(feature = "broker")]
#![expect(clippy::unwrap_used, reason = "tests and what they share")]

mod raw;

use kafka_2pc::broker::{Broker, BrokerConfig, Profile, Quirk};
use kafka_2pc::record::Compression;
use kafka_2pc::wire::batch::{Batch, Batches};
use raw::{Cluster, batch_in, unique, with_body, with_count};

const UNKNOWN_SERVER_ERROR: i16 = -1;
const INVALID_CONFIG: i16 = 40;
const UNSUPPORTED_COMPRESSION_TYPE: i16 = 76;
const INVALID_RECORD: i16 = 87;

/// Nobody's.
const NONE: raw::Pair = (-1, -1);

/// A cluster to test, and what it should be like; a broker lives as long as the first value.
struct Stage {
    _broker: Option<Broker>,
    cluster: Cluster,
    profile: Profile,
}

/// Embedded brokers of two releases, or the real cluster that was named.
async fn stages() -> Vec<Stage> {
    if let Ok(bootstrap) = std::env::var("KAFKA_2PC_BOOTSTRAP") {
        let name = std::env::var("KAFKA_2PC_PROFILE").unwrap_or_else(|_| "kafka-4.4".to_owned());
        let profile = Profile::named(&name).unwrap();
        return vec![Stage { _broker: None, cluster: Cluster::new(bootstrap), profile }];
    }
    let mut stages = Vec::new();
    for profile in [Profile::kafka_4_4(), Profile::kafka_3_9()] {
        let config = BrokerConfig { profile: profile.clone(), ..BrokerConfig::default() };
        let broker = Broker::start(config).await.unwrap();
        let cluster = Cluster::new(broker.bootstrap());
        stages.push(Stage { _broker: Some(broker), cluster, profile });
    }
    stages
}

/// The codecs of this build.
fn built() -> impl Iterator<Item = Compression> {
    Compression::ALL.into_iter().filter(|codec| codec.is_built())
}

/// A batch that belongs to no producer.
fn plain(codec: Compression, count: usize) -> bytes::Bytes {
    raw::anonymous(&batch_in(codec, NONE, -1, count))
}

/// The batches of partition 0.
async fn batches(cluster: &Cluster, topic: &str) -> Vec<Batch> {
    let fetched = cluster.fetch(topic, 0, 0, 0).await;
    let records = fetched.responses[0].partitions[0].records.clone().unwrap_or_default();
    Batches::new(records).map(Result::unwrap).collect()
}

#[tokio::test]
async fn every_codec_is_kept_as_it_came_and_zstd_is_of_produce_7() {
    for Stage { cluster: c, .. } in &stages().await {
        let topic = unique("codecs");
        c.create_topic(&topic, 1).await;
        for codec in built() {
            let outcome = c.produce_plain(6, (&topic, 0), plain(codec, 3)).await;
            if codec == Compression::Zstd {
                assert_eq!(outcome, Err(UNSUPPORTED_COMPRESSION_TYPE));
                assert!(c.produce_plain(7, (&topic, 0), plain(codec, 3)).await.is_ok());
            } else {
                assert!(outcome.is_ok(), "{codec}: {outcome:?}");
            }
        }
        let kept = batches(c, &topic).await;
        let codecs: Vec<_> = kept.iter().filter_map(Batch::compression).collect();
        assert_eq!(codecs, built().collect::<Vec<_>>());
        assert!(kept.iter().all(|batch| batch.records().unwrap().count() == 3));
        // A codec of the future.
        let mut unknown = plain(Compression::None, 1).to_vec();
        unknown[22] |= 5;
        let unknown = with_body(&unknown, &unknown[61..]);
        assert_eq!(c.produce_plain(7, (&topic, 0), unknown).await, Err(UNKNOWN_SERVER_ERROR));
    }
}

/// What is wrong with a batch, and what is answered to it in each codec: without one, in gzip, snappy, lz4 and zstd.
const DAMAGE: [(&str, [Option<i16>; 5]); 8] = [
    ("garbage", [RECORD, STREAM, STREAM, STREAM, STREAM]),
    ("half", [RECORD, STREAM, STREAM, STREAM, STREAM]),
    ("without its last byte", [RECORD, STREAM, STREAM, STREAM, STREAM]),
    // Snappy has no checksum: another byte is another record.
    ("with another last byte", [RECORD, STREAM, RECORD, STREAM, STREAM]),
    ("empty", [RECORD, STREAM, STREAM, STREAM, RECORD]),
    // Kafka does not look behind the first frame in lz4; our reader does, and refuses.
    ("twice", [RECORD, RECORD, RECORD, None, RECORD]),
    ("with a record less than it says", [RECORD; 5]),
    ("with a record more than it says", [RECORD; 5]),
];

const RECORD: Option<i16> = Some(INVALID_RECORD);
/// There is no code for a stream that cannot be decompressed.
const STREAM: Option<i16> = Some(UNKNOWN_SERVER_ERROR);

#[tokio::test]
async fn what_does_not_hold_what_the_header_says_is_refused() {
    for Stage { cluster: c, .. } in &stages().await {
        let topic = unique("damaged");
        c.create_topic(&topic, 1).await;
        for (at, codec) in Compression::ALL.into_iter().enumerate().filter(|(_, codec)| codec.is_built()) {
            let batch = plain(codec, 3);
            let body = &batch[61..];
            let mut last = body.to_vec();
            *last.last_mut().unwrap() ^= 0x55;
            let damaged = [
                with_body(&batch, b"this is neither compressed nor a record"),
                with_body(&batch, &body[..body.len() / 2]),
                with_body(&batch, &body[..body.len() - 1]),
                with_body(&batch, &last),
                with_body(&batch, &[]),
                with_body(&batch, &[body, body].concat()),
                with_count(&batch, 4),
                with_count(&batch, 2),
            ];
            for ((name, codes), damaged) in DAMAGE.into_iter().zip(damaged) {
                let Some(code) = codes[at] else { continue };
                let outcome = c.produce_plain(9, (&topic, 0), damaged).await;
                assert_eq!(outcome, Err(code), "{codec} {name}");
            }
        }
        assert!(batches(c, &topic).await.is_empty());
    }
}

#[tokio::test]
async fn a_topic_with_a_codec_of_its_own_compresses_anew() {
    for Stage { cluster: c, .. } in &stages().await {
        for kept in built() {
            let topic = unique("own");
            let name = if kept == Compression::None { "uncompressed" } else { kept.name() };
            assert_eq!(c.create_topic_with(&topic, 1, &[("compression.type", name)]).await, 0);
            for codec in built() {
                c.produce_plain(9, (&topic, 0), plain(codec, 5)).await.unwrap();
            }
            let batches = batches(c, &topic).await;
            let offsets: Vec<_> = batches.iter().map(|batch| batch.header().base_offset).collect();
            assert_eq!(offsets, (0..).step_by(5).take(built().count()).collect::<Vec<_>>());
            for batch in batches {
                assert_eq!(batch.compression(), Some(kept), "kept in {name}");
                let values = batch.records().unwrap().map(|record| record.unwrap().value.unwrap());
                assert_eq!(values.collect::<Vec<_>>(), ["value"; 5]);
            }
        }
    }
}

#[tokio::test]
async fn a_fetch_that_does_not_know_zstd_is_told_by_the_topics_setting_or_not_at_all() {
    if !Compression::Zstd.is_built() {
        return;
    }
    for Stage { cluster: c, profile, .. } in &stages().await {
        let (own, producers) = (unique("own"), unique("producers"));
        assert_eq!(c.create_topic_with(&own, 1, &[("compression.type", "zstd")]).await, 0);
        c.create_topic(&producers, 1).await;
        for topic in [&own, &producers] {
            c.produce_plain(9, (topic, 0), plain(Compression::Zstd, 2)).await.unwrap();
        }
        let refused = if profile.has(Quirk::ZstdTopicRefused) { UNSUPPORTED_COMPRESSION_TYPE } else { 0 };
        for (topic, version, code) in
            [(&own, 9, refused), (&own, 10, 0), (&producers, 9, 0), (&producers, 10, 0)]
        {
            let fetched = c.fetch_by(version, (topic, 0), 0, 0).await;
            let partition = &fetched.responses[0].partitions[0];
            assert_eq!(partition.error_code, code, "{} {version}", profile.name);
            let bytes = partition.records.as_ref().map_or(0, bytes::Bytes::len);
            assert_eq!(bytes > 0, code == 0, "{} {version}", profile.name);
        }
    }
}

#[tokio::test]
async fn settings_of_a_topic_that_are_no_codec_or_level_are_refused() {
    for Stage { cluster: c, .. } in &stages().await {
        for (name, value) in [
            ("compression.type", "none"),
            ("compression.type", "rar"),
            ("compression.gzip.level", "0"),
            ("compression.lz4.level", "18"),
            ("compression.zstd.level", "23"),
            ("compression.zstd.level", "most"),
        ] {
            let code = c.create_topic_with(&unique("refused"), 1, &[(name, value)]).await;
            assert_eq!(code, INVALID_CONFIG, "{name}={value}");
        }
    }
}

/// Known since Kafka 3.8 (KIP-390).
#[tokio::test]
async fn a_topics_level_counts() {
    if !Compression::Gzip.is_built() {
        return;
    }
    for Stage { cluster: c, .. } in &stages().await {
        let mut sizes = Vec::new();
        for level in ["1", "9"] {
            let topic = unique("level");
            let configs = [("compression.type", "gzip"), ("compression.gzip.level", level)];
            assert_eq!(c.create_topic_with(&topic, 1, &configs).await, 0);
            c.produce_plain(9, (&topic, 0), raw::anonymous(&raw::batch_of(NONE, -1, &words())))
                .await
                .unwrap();
            sizes.push(batches(c, &topic).await[0].bytes().len());
        }
        assert!(sizes[0] > sizes[1], "{sizes:?}");
    }
}

/// Text in which looking for longer finds more.
fn words() -> Vec<u8> {
    let word = |i: u32| i.wrapping_mul(2_654_435_761) >> 22;
    (0..5_000).map(|i| format!("word {} ", word(i) * word(i + 9))).collect::<String>().into_bytes()
}
