//! Settings with Kafka's names, of producers, consumers and clients; and our own ones.

use std::sync::Arc;

use super::{
    JobConfig,
    table::{Apply, On, Owner, Property, as_it_is},
    text::{bytes, millis, number, wait},
};
use crate::{
    client::{ClientConfig, OutOfRangePolicy, UnknownPartitioner},
    ids::GroupId,
    record::{Compression, UnknownCodec},
};

/// The brokers to begin with.
pub(super) const SERVERS: &str = "bootstrap.servers";

const fn kafka(name: &'static str, told: (&'static str, &'static str), apply: Apply) -> Property {
    Property::new(Owner::Kafka, name, told, apply)
}

/// Of the consumer in front of a mirror.
const fn consumer(name: &'static str, told: (&'static str, &'static str), apply: Apply) -> Property {
    kafka(name, told, apply).pipe(On::Refuses(LINES))
}

pub(super) const LINES: &str = "it reads lines, not a topic";

pub(super) const PROPERTIES: &[Property] = &[
    kafka(SERVERS, ("", "brokers of the cluster to begin with"), |c, v| {
        c.client.bootstrap = ClientConfig::new(v).map_err(|e| e.to_string())?.bootstrap;
        Ok(())
    })
    .mirror(On::Refuses("use --from-bootstrap and --to-bootstrap")),
    kafka("client.id", ("kafka-2pc", "how brokers name this program in logs and quotas"), |c, v| {
        c.client.client_id = Arc::from(v);
        Ok(())
    }),
    kafka("request.timeout.ms", ("30000", "how long an answer may take"), |c, v| {
        wait(v).map(|d| c.client.request_timeout = d)
    }),
    kafka(
        "socket.connection.setup.timeout.ms",
        ("10000", "name resolution, connect and handshake together"),
        |c, v| wait(v).map(|d| c.client.setup_timeout = d),
    ),
    kafka(
        "max.block.ms",
        (
            "60000; 300000 for a free id",
            "how long a call is tried, and how long a writer waits for a free id",
        ),
        |c, v| wait(v).map(|d| (c.client.max_block, c.sink.max_block) = (d, d)),
    ),
    kafka(
        "transaction.timeout.ms",
        ("900000", "when brokers abort a transaction, prepared or not"),
        |c, v| millis(v).map(|d| c.sink.transaction_timeout = d),
    ),
    kafka(
        "delivery.timeout.ms",
        ("120000", "a record that is not acknowledged by then fails its transaction"),
        |c, v| wait(v).map(|d| c.sink.delivery_timeout = d),
    ),
    kafka("linger.ms", ("5", "how long a batch waits for more records"), |c, v| {
        millis(v).map(|d| c.sink.linger = d)
    }),
    kafka("batch.size", ("131072", "bytes of a batch, before compression"), |c, v| {
        bytes(v).map(|n| c.sink.batch_bytes = n)
    }),
    kafka("max.request.size", ("1048576", "bytes of a request, and of one record"), |c, v| {
        bytes(v).map(|n| c.sink.request_bytes = n)
    }),
    kafka("buffer.memory", ("33554432", "bytes of a writer that are not acknowledged yet"), |c, v| {
        bytes(v).map(|n| c.sink.buffer_bytes = n)
    }),
    kafka("compression.type", ("lz4", "`none`, `gzip`, `snappy`, `lz4` or `zstd`"), |c, v| {
        compression(v).map(|codec| c.sink.compression = codec)
    }),
    kafka("compression.gzip.level", ("-1", "1 to 9, or -1, which is 6"), |c, v| {
        level(c, Compression::Gzip, v)
    }),
    kafka("compression.lz4.level", ("9", "1 to 17; all are the same here, as fast as level 1"), |c, v| {
        level(c, Compression::Lz4, v)
    }),
    kafka(
        "compression.zstd.level",
        (
            "3",
            "-131072 to 22; all are the same here, between -5 and -1 of libzstd, unless built with `zstd-c`",
        ),
        |c, v| level(c, Compression::Zstd, v),
    ),
    kafka(
        "partitioner",
        (
            "murmur2_random",
            "librdkafka's name of what places keys: `murmur2_random` or `murmur2` (as Java), `consistent_random` or `consistent` (CRC-32), `fnv1a_random`, `fnv1a`, `random`",
        ),
        |c, v| {
            c.sink.partitioner = v.parse().map_err(|e: UnknownPartitioner| e.to_string())?;
            Ok(())
        },
    )
    .mirror(On::Refuses("records keep their partitions")),
    kafka(
        "max.in.flight.requests.per.connection",
        ("5", "requests of a writer that may be on their way to one broker, 1 to 5; order is kept"),
        |c, v| number(v, 1, 5).map(|n| c.sink.max_in_flight = n as usize),
    ),
    fixed(
        "acks",
        ("all", "who must have a record before it counts"),
        On::Only(&["all", "-1"], "transactions need acks=all"),
    ),
    fixed(
        "enable.idempotence",
        ("true", "repeats are recognised"),
        On::Only(&["true"], "transactions need idempotence"),
    ),
    consumer("isolation.level", ("read_committed", "which records are read"), as_it_is)
        .mirror(On::Only(&["read_committed"], "what is not committed is not copied")),
    consumer(
        "auto.offset.reset",
        (
            "none",
            "at a position that retention has removed, and with `group-offsets` where the group has none: `none` is an error that tells what is missing, `earliest` goes on with a warning",
        ),
        |c, v| offset_reset(v).map(|policy| c.source.out_of_range = policy),
    ),
    consumer(
        "group.id",
        (
            "",
            "the consumer group to which a copy within one cluster commits where it stands, and at which `group-offsets` begins; a restart reads the checkpoint",
        ),
        |c, v| group(v).map(|group| c.source.group = Some(group)),
    ),
    consumer("fetch.max.wait.ms", ("500", "how long a broker waits for records"), |c, v| {
        millis(v).map(|d| c.source.max_wait = Some(d))
    }),
    consumer("fetch.max.bytes", ("8388608", "bytes of one answer"), |c, v| {
        bytes(v).map(|n| c.source.max_bytes = Some(clamped(n)))
    }),
    consumer("max.partition.fetch.bytes", ("1048576", "bytes of one partition in an answer"), |c, v| {
        bytes(v).map(|n| c.source.max_partition_bytes = Some(clamped(n)))
    }),
    consumer(
        "queued.max.messages.kbytes",
        ("16384", "KiB that are fetched before they are wanted, of all brokers together; librdkafka's name"),
        |c, v| number(v, 1, 2_097_151).map(|n| c.source.queued_max_bytes = Some(n as usize * 1024)),
    ),
    Property::new(
        Owner::Ours,
        "commit.connections",
        ("8", "connections to each coordinator over which commits are spread"),
        |c, v| number(v, 1, u32::from(u16::MAX)).map(|n| c.sink.commit_connections = n as u16),
    ),
    Property::new(
        Owner::Ours,
        "sink.slots",
        (
            "4",
            "transactional ids of each subtask that may be in use at once, 4 to 1000; checkpoints that may be under way or fail raise it",
        ),
        |c, v| number(v, 4, MOST_SLOTS).map(|n| c.sink.slots = n as usize),
    ),
];

/// Each may be an open transaction at the brokers.
const MOST_SLOTS: u32 = 1000;

const fn fixed(name: &'static str, told: (&'static str, &'static str), only: On) -> Property {
    kafka(name, told, as_it_is).pipe(only).mirror(only)
}

pub(super) const UNSUPPORTED: &[(&str, &str)] = &[
    ("security.protocol", "TLS and SASL are not supported yet"),
    ("ssl.", "TLS is not supported yet"),
    ("sasl.", "SASL is not supported yet"),
    ("transactional.id", "ids come from --transactional-id-prefix"),
    ("retries", "what may pass is tried again until delivery.timeout.ms"),
    ("enable.auto.commit", "offsets are committed with checkpoints: see commit.offsets.on.checkpoint"),
    (
        "partitioner.class",
        "classes cannot be loaded: keys are placed as partitioner says, unless set as Kafka's Java client does",
    ),
    ("key.serializer", "records are bytes"),
    ("value.serializer", "records are bytes"),
    ("key.deserializer", "records are bytes"),
    ("value.deserializer", "records are bytes"),
];

fn compression(value: &str) -> Result<Compression, String> {
    let codec: Compression = value.parse().map_err(|e: UnknownCodec| e.to_string())?;
    if codec.is_built() {
        return Ok(codec);
    }
    Err(format!("this build lacks {codec}: build with the feature `{codec}`"))
}

fn level(config: &mut JobConfig, codec: Compression, value: &str) -> Result<(), String> {
    let level = value.parse().map_err(|_| "it must be a whole number".to_owned())?;
    let levels = config.sink.compression_levels.with(codec, level).map_err(|e| e.to_string())?;
    config.sink.compression_levels = levels;
    Ok(())
}

fn offset_reset(value: &str) -> Result<OutOfRangePolicy, String> {
    match value.parse().map_err(|e: crate::client::ConfigError| e.to_string())? {
        OutOfRangePolicy::Latest => {
            Err("a copy passes over nothing that is still there; to begin at the end, set \
                                         scan.startup.mode=latest-offset"
                .into())
        }
        policy @ (OutOfRangePolicy::Error | OutOfRangePolicy::Earliest) => Ok(policy),
    }
}

fn group(value: &str) -> Result<GroupId, String> {
    if value.is_empty() { Err("a group has a name".into()) } else { Ok(GroupId::new(value)) }
}

fn clamped(bytes: usize) -> i32 {
    i32::try_from(bytes).unwrap_or(i32::MAX)
}

/// How records are compressed, also by an option of the command line.
pub(super) fn set_compression(config: &mut JobConfig, value: &str) -> Result<(), String> {
    compression(value).map(|codec| config.sink.compression = codec)
}
