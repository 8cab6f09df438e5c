//! Settings with Flink's names: checkpoints, restarts, parallelism, and its Kafka connector.

use std::{collections::BTreeMap, num::NonZeroUsize};

use super::{
    kafka::LINES,
    table::{Apply, On, Owner, Property, as_it_is},
    target::{Guarantee, Overtaking, Restarts, Startup},
    text::{duration, duration_above_zero, millis, number, switch, word},
};
use crate::proto::naming::Naming;

const fn flink(name: &'static str, told: (&'static str, &'static str), apply: Apply) -> Property {
    Property::new(Owner::Flink, name, told, apply)
}

/// Of the source in front of a mirror.
const fn scan(name: &'static str, told: (&'static str, &'static str), apply: Apply) -> Property {
    flink(name, told, apply).pipe(On::Refuses(LINES))
}

/// Failures in a row that may be tolerated: each holds a transactional id of every writer.
const MOST_FAILURES: u32 = 100;
/// Checkpoints under way at once: each holds one as well.
const MOST_CONCURRENT: u32 = 100;
/// Subtasks; there are as many key groups.
const MOST_SUBTASKS: u32 = 128;

const NOTHING_TO_ALIGN: &str = "it reads and writes in one task, where no barrier waits";
const ONE_TASK: &str = "it reads and writes in one task";

pub(super) const PROPERTIES: &[Property] = &[
    flink("execution.checkpointing.interval", ("1 s", "from one checkpoint to the next"), |c, v| {
        duration_above_zero(v).map(|d| c.run.checkpoints.interval = d)
    }),
    flink(
        "execution.checkpointing.timeout",
        ("10 min", "how long a checkpoint may take until everything is acknowledged"),
        |c, v| duration_above_zero(v).map(|d| c.run.checkpoints.timeout = d),
    ),
    flink(
        "execution.checkpointing.min-pause",
        ("0 s", "from the end of a checkpoint to the next one, at least"),
        |c, v| duration(v).map(|d| c.run.checkpoints.min_pause = d),
    ),
    flink(
        "execution.checkpointing.mode",
        ("EXACTLY_ONCE", "`EXACTLY_ONCE`, or `AT_LEAST_ONCE`: no channel waits for barriers, and records may be there twice after a restart"),
        |c, v| guarantee(v).map(|g| c.barriers.guarantee = g),
    )
    .pipe(On::Only(&["EXACTLY_ONCE"], NOTHING_TO_ALIGN)),
    flink(
        "execution.checkpointing.max-concurrent-checkpoints",
        ("1", "checkpoints that may be under way at once, up to 100; each gives writers another id"),
        |c, v| number(v, 1, MOST_CONCURRENT).map(|n| c.run.checkpoints.max_concurrent = n as usize),
    )
    .pipe(On::Only(&["1"], "its one task takes one checkpoint after the other")),
    flink(
        "execution.checkpointing.tolerable-failed-checkpoints",
        ("0", "checkpoints that may fail in a row before the job goes back, up to 100; each gives writers another id"),
        |c, v| number(v, 0, MOST_FAILURES).map(|n| c.run.checkpoints.tolerable_failures = n),
    )
    .pipe(On::Only(&["0"], "a checkpoint that fails takes the one open transaction with it")),
    flink("execution.checkpointing.unaligned.enabled", ("false", "barriers overtake records"), |c, v| {
        switch(v).map(|on| c.barriers.overtaking = if on { Overtaking::On } else { Overtaking::Off })
    })
    .also(&["execution.checkpointing.unaligned"])
    .pipe(On::Only(&["false"], NOTHING_TO_ALIGN)),
    flink(
        "execution.checkpointing.aligned-checkpoint-timeout",
        ("0 s", "how long a barrier waits before it overtakes; with unaligned checkpoints only"),
        |c, v| duration(v).map(|d| c.barriers.aligned_timeout = Some(d)),
    )
    .also(&["execution.checkpointing.alignment-timeout"])
    .pipe(On::Refuses(NOTHING_TO_ALIGN)),
    flink("state.checkpoints.num-retained", ("2", "checkpoints that `--state` keeps"), |c, v| {
        checkpoints(v).map(|n| c.num_retained = Some(n))
    })
    .also(&["execution.checkpointing.num-retained"]),
    flink(
        "restart-strategy.type",
        ("fixed-delay", "`fixed-delay`, or `none` for no restart whatever `attempts` says"),
        |c, v| restarts(v).map(|r| c.restarts = r),
    )
    .also(&["restart-strategy"]),
    flink(
        "restart-strategy.fixed-delay.attempts",
        ("3", "how often the job goes back to its last checkpoint by itself without completing another one"),
        |c, v| number(v, 0, u32::MAX).map(|n| c.run.restart_attempts = n),
    ),
    flink("restart-strategy.fixed-delay.delay", ("500 ms", "the pause before that"), |c, v| {
        duration(v).map(|d| c.run.restart_delay = d)
    }),
    flink("parallelism.default", ("1", "subtasks side by side, up to 128"), |c, v| {
        number(v, 1, MOST_SUBTASKS).map(|n| c.parallelism.default = Some(n))
    })
    .pipe(On::Only(&["1"], ONE_TASK)),
    flink("sink.parallelism", ("parallelism.default", "subtasks that write, up to 128"), |c, v| {
        number(v, 1, MOST_SUBTASKS).map(|n| c.parallelism.sink = Some(n))
    })
    .pipe(On::Only(&["1"], ONE_TASK)),
    fixed(
        "pipeline.max-parallelism",
        ("128", "groups of keys"),
        On::Only(&["128"], "keys belong to 128 groups, which kept state relies on"),
    ),
    flink(
        "sink.transactional-id-prefix",
        ("topic and a random id", "what transactional ids begin with; no two jobs may share it"),
        |c, v| {
            c.prefix = Some(v.to_owned());
            Ok(())
        },
    )
    .also(&["transactional.id.prefix"]),
    flink(
        "sink.transaction-naming-strategy",
        ("POOLING", "`POOLING` or `INCREMENTING`: whether transactional ids are used again"),
        |c, v| naming(v).map(|n| c.sink.naming = n),
    ),
    fixed(
        "sink.delivery-guarantee",
        ("exactly-once", "what the sink promises"),
        On::Only(&["exactly-once"], "everything is written in transactions"),
    )
    .also(&["delivery.guarantee"]),
    scan(
        "scan.startup.mode",
        (
            "earliest-offset",
            "where a copy begins that has no state: `earliest-offset`, `latest-offset`, `timestamp`, `specific-offsets` or `group-offsets`",
        ),
        |c, v| startup(v).map(|s| c.source.startup = s),
    ),
    scan("scan.startup.timestamp-millis", ("", "with `timestamp`: milliseconds since 1970"), |c, v| {
        millis_since_epoch(v).map(|ms| c.source.startup_millis = Some(ms))
    }),
    scan(
        "scan.startup.specific-offsets",
        (
            "",
            "with `specific-offsets`: `partition:0,offset:42;partition:1,offset:300`; partitions that are not named begin at the beginning",
        ),
        |c, v| specific_offsets(v).map(|offsets| c.source.startup_offsets = Some(offsets)),
    ),
    scan(
        "commit.offsets.on.checkpoint",
        (
            "true with group.id",
            "whether a copy commits where it stands to `group.id`, in the transaction of each checkpoint",
        ),
        |c, v| switch(v).map(|on| c.source.commit_offsets = Some(on)),
    ),
    scan(
        "scan.topic-partition-discovery.interval",
        ("5 min", "how often new partitions are looked for; 0 for never"),
        |c, v| duration(v).map(|d| c.source.discovery_interval = Some(d)),
    ),
    scan(
        "partition.discovery.interval.ms",
        ("300000", "the same, in milliseconds; the later one counts"),
        |c, v| millis(v).map(|d| c.source.discovery_interval = Some(d)),
    ),
];

const fn fixed(name: &'static str, told: (&'static str, &'static str), only: On) -> Property {
    flink(name, told, as_it_is).pipe(only).mirror(only)
}

pub(super) const UNSUPPORTED: &[(&str, &str)] = &[
    ("state.checkpoints.dir", "use --state"),
    ("execution.checkpointing.dir", "use --state"),
    ("restart-strategy.exponential-delay.", "restarts have a fixed delay"),
    ("restart-strategy.failure-rate.", "restarts have a fixed delay"),
    ("scan.bounded.", "use --until-end"),
];

fn guarantee(value: &str) -> Result<Guarantee, String> {
    match word(value).as_str() {
        "exactly-once" => Ok(Guarantee::ExactlyOnce),
        "at-least-once" => Ok(Guarantee::AtLeastOnce),
        _ => Err("it must be EXACTLY_ONCE or AT_LEAST_ONCE".into()),
    }
}

fn restarts(value: &str) -> Result<Restarts, String> {
    match word(value).as_str() {
        "fixed-delay" | "fixeddelay" => Ok(Restarts::FixedDelay),
        "none" | "off" | "disable" => Ok(Restarts::Never),
        "exponential-delay" | "exponentialdelay" | "failure-rate" | "failurerate" => {
            Err("it is not supported: restarts have a fixed delay".into())
        }
        _ => Err("it must be fixed-delay or none".into()),
    }
}

fn naming(value: &str) -> Result<Naming, String> {
    match word(value).as_str() {
        "pooling" => Ok(Naming::Pooled),
        "incrementing" => Ok(Naming::Incrementing),
        _ => Err("it must be POOLING or INCREMENTING".into()),
    }
}

fn startup(value: &str) -> Result<Startup, String> {
    match word(value).as_str() {
        "earliest-offset" => Ok(Startup::Earliest),
        "latest-offset" => Ok(Startup::Latest),
        "timestamp" => Ok(Startup::Timestamp),
        "group-offsets" => Ok(Startup::GroupOffsets),
        "specific-offsets" => Ok(Startup::SpecificOffsets),
        _ => {
            Err("it must be earliest-offset, latest-offset, timestamp, specific-offsets or group-offsets"
                .into())
        }
    }
}

/// `partition:0,offset:42;partition:1,offset:300`, as in Flink's SQL.
fn specific_offsets(value: &str) -> Result<BTreeMap<i32, i64>, String> {
    let one = |pair: &str| {
        let (partition, offset) = pair.split_once(',')?;
        let partition = partition.trim().strip_prefix("partition:")?.trim().parse().ok()?;
        let offset = offset.trim().strip_prefix("offset:")?.trim().parse().ok()?;
        (partition >= 0 && offset >= 0).then_some((partition, offset))
    };
    let mut offsets = BTreeMap::new();
    for pair in value.split(';').map(str::trim).filter(|pair| !pair.is_empty()) {
        let why = || format!("{pair:?} is not partition:NUMBER,offset:NUMBER");
        let (partition, offset) = one(pair).ok_or_else(why)?;
        if offsets.insert(partition, offset).is_some() {
            return Err(format!("partition {partition} stands there twice"));
        }
    }
    if offsets.is_empty() {
        return Err("it must be like partition:0,offset:42;partition:1,offset:300".into());
    }
    Ok(offsets)
}

fn millis_since_epoch(value: &str) -> Result<i64, String> {
    let millis = value.parse().ok().filter(|ms| *ms >= 0);
    millis.ok_or_else(|| "it must be a number of milliseconds since 1970".into())
}

fn checkpoints(value: &str) -> Result<NonZeroUsize, String> {
    value.parse().map_err(|_| "it must be a number of checkpoints above 0".into())
}
