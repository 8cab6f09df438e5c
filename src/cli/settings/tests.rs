use std::{io::Write as _, num::NonZeroUsize, time::Duration};

use super::*;
use crate::{
    client::{ClientConfig, OutOfRangePolicy, Partitioner},
    ids::{GroupId, TopicPartition},
    proto::{checkpoint::alignment::Mode, naming::Naming},
    record::Compression,
    sink::SinkConfig,
    source::StartFrom,
};
use Command::{Mirror, Pipe};

const MODE: &str = "execution.checkpointing.mode";
const UNALIGNED: &str = "execution.checkpointing.unaligned.enabled";
const ALIGNED_TIMEOUT: &str = "execution.checkpointing.aligned-checkpoint-timeout";

fn fresh() -> JobConfig {
    JobConfig::new(ClientConfig::new("a:1").unwrap(), SinkConfig::new("p").unwrap())
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn words(all: &[&str]) -> Vec<String> {
    all.iter().map(|s| (*s).to_owned()).collect()
}

/// What these settings make of a job.
fn told(command: Command, set: &[&str]) -> Result<JobConfig, String> {
    let mut config = fresh();
    let settings = Settings::read(None, &words(set)).map_err(|e| e.0)?;
    settings.apply(&mut config, command).map_err(|e| e.0)?;
    config.complete().map_err(|e| e.0)?;
    Ok(config)
}

fn taken(command: Command, set: &[&str]) -> JobConfig {
    told(command, set).unwrap_or_else(|e| panic!("{set:?}: {e}"))
}

fn refused(command: Command, set: &[&str]) -> String {
    told(command, set).map(|_| ()).expect_err(&format!("{set:?}"))
}

fn file(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

#[test]
fn the_cluster_is_chosen_before_and_the_last_setting_counts() {
    let set = ["bootstrap.servers=b:2", "linger.ms=1", "properties.bootstrap.servers = c:3", "linger.ms=2"];
    let settings = Settings::read(None, &words(&set)).unwrap();
    assert_eq!(settings.bootstrap(), Some("c:3"));
    let mut config = fresh();
    settings.apply(&mut config, Pipe).unwrap();
    assert_eq!((&*config.client.bootstrap[0].0, config.sink.linger), ("a", ms(2)));
    assert!(refused(Pipe, &["bootstrap.servers=nonsense"]).contains("bootstrap.servers"));
    assert!(refused(Mirror, &["bootstrap.servers=a:1"]).contains("--from-bootstrap"));
}

#[test]
fn every_name_of_kafkas_clients_and_producers_changes_its_setting() {
    let kafkas = |prefix: &str| {
        let set = [
            "client.id=me",
            "request.timeout.ms=1",
            "socket.connection.setup.timeout.ms=2",
            "max.block.ms=3",
            "transaction.timeout.ms=4",
            "delivery.timeout.ms=5",
            "linger.ms=6",
            "batch.size=7",
            "max.request.size=8",
            "buffer.memory=9",
            "compression.type=zstd",
            "compression.gzip.level=9",
            "compression.lz4.level=1",
            "compression.zstd.level=-7",
            "max.in.flight.requests.per.connection=2",
            "acks=-1",
            "enable.idempotence=true",
        ];
        set.map(|setting| format!("{prefix}{setting}"))
    };
    for prefix in ["", "properties."] {
        let set = kafkas(prefix);
        let set: Vec<&str> = set.iter().map(String::as_str).chain(["commit.connections=10"]).collect();
        for command in [Pipe, Mirror] {
            let JobConfig { client: c, sink: s, .. } = taken(command, &set);
            assert_eq!(&*c.client_id, "me");
            assert_eq!((c.request_timeout, c.setup_timeout, c.max_block), (ms(1), ms(2), ms(3)));
            assert_eq!(s.max_block, ms(3));
            assert_eq!((s.transaction_timeout, s.delivery_timeout, s.linger), (ms(4), ms(5), ms(6)));
            assert_eq!((s.batch_bytes, s.request_bytes, s.buffer_bytes), (7, 8, 9));
            assert_eq!((s.compression, s.max_in_flight, s.commit_connections), (Compression::Zstd, 2, 10));
            let levels = [Compression::Gzip, Compression::Lz4, Compression::Zstd];
            let levels = levels.map(|codec| s.compression_levels.of(codec));
            assert_eq!(levels, [Some(9), Some(1), Some(-7)]);
        }
    }
    for codec in Compression::ALL {
        let set = format!("compression.type={codec}");
        assert_eq!(taken(Pipe, &[&set]).sink.compression, codec);
        let mut config = fresh();
        config.compress(codec.name()).unwrap();
        assert_eq!(config.sink.compression, codec);
    }
}

#[test]
fn keys_are_placed_by_the_names_of_librdkafka() {
    assert_eq!(taken(Pipe, &[]).sink.partitioner.name(), "murmur2_random");
    for named in Partitioner::NAMED {
        let set = format!("partitioner={named}");
        assert_eq!(taken(Pipe, &[&set]).sink.partitioner.name(), named.name());
    }
    assert!(refused(Pipe, &["partitioner=round_robin"]).contains("consistent_random"));
    assert!(refused(Mirror, &["partitioner=random"]).contains("keep their partitions"));
}

#[test]
fn every_name_of_the_source_changes_its_setting() {
    let source = |set: &[&str]| taken(Mirror, set).source;
    assert_eq!(source(&["isolation.level=read_committed", "auto.offset.reset=none"]), source(&[]));
    assert_eq!(source(&["auto.offset.reset=earliest"]).out_of_range, OutOfRangePolicy::Earliest);
    assert_eq!(source(&["fetch.max.wait.ms=2"]).max_wait, Some(ms(2)));
    assert_eq!(source(&["properties.fetch.max.bytes=3"]).max_bytes, Some(3));
    assert_eq!(source(&["max.partition.fetch.bytes=9999999999"]).max_partition_bytes, Some(i32::MAX));
    assert_eq!(source(&["partition.discovery.interval.ms=1"]).discovery_interval, Some(ms(1)));
    let interval = source(&["scan.topic-partition-discovery.interval=2 s"]).discovery_interval;
    assert_eq!(interval, Some(ms(2000)));
    assert_eq!(source(&["scan.startup.mode=earliest-offset"]).start("t"), StartFrom::Earliest);
    assert_eq!(source(&["scan.startup.mode=latest-offset"]).start("t"), StartFrom::Latest);
    let timestamp = ["scan.startup.mode=timestamp", "scan.startup.timestamp-millis=1700000000000"];
    assert_eq!(source(&timestamp).start("t"), StartFrom::Timestamp(1_700_000_000_000));
    assert!(refused(Mirror, &timestamp[..1]).contains("needs scan.startup.timestamp-millis"));
    assert!(refused(Mirror, &timestamp[1..]).contains("needs scan.startup.mode=timestamp"));
    for (setting, why) in [
        (
            "scan.startup.mode=first",
            "earliest-offset, latest-offset, timestamp, specific-offsets or group-offsets",
        ),
        ("scan.startup.specific-offsets=partition:0", "partition:NUMBER,offset:NUMBER"),
        ("scan.startup.specific-offsets=partition:-1,offset:1", "partition:NUMBER,offset:NUMBER"),
        ("scan.startup.specific-offsets=partition:0,offset:1;partition:0,offset:2", "twice"),
        ("scan.startup.specific-offsets=;", "partition:0,offset:42"),
        ("group.id=", "a group has a name"),
        ("isolation.level=read_uncommitted", "not committed"),
        ("auto.offset.reset=latest", "scan.startup.mode=latest-offset"),
        ("auto.offset.reset=first", "auto.offset.reset"),
        ("fetch.max.bytes=0", "above 0"),
    ] {
        let error = refused(Mirror, &[setting]);
        assert!(error.contains(why), "{error}");
    }
    for setting in ["isolation.level=read_committed", "scan.startup.mode=earliest-offset", "group.id=g"] {
        assert!(refused(Pipe, &[setting]).contains("it reads lines, not a topic"));
    }
}

#[test]
fn a_mode_of_startup_needs_its_own_setting_and_no_other() {
    let start = |set: &[&str]| taken(Mirror, set).source.start("t");
    let specific = [
        "scan.startup.mode=specific-offsets",
        "scan.startup.specific-offsets=partition:0,offset:42; partition:1,offset:300;",
    ];
    let offsets =
        [(0, 42), (1, 300)].map(|(partition, offset)| (TopicPartition::new("t", partition), offset));
    assert_eq!(start(&specific), StartFrom::Offsets(offsets.into()));
    let group = GroupId::new("g");
    for (reset, otherwise) in [("none", OutOfRangePolicy::Error), ("earliest", OutOfRangePolicy::Earliest)] {
        let reset = format!("auto.offset.reset={reset}");
        let begun = start(&["scan.startup.mode=group-offsets", "properties.group.id=g", &reset]);
        assert_eq!(begun, StartFrom::Committed { group: group.clone(), otherwise });
    }
    for (set, why) in [
        (&specific[..1], "needs scan.startup.specific-offsets"),
        (&specific[1..], "needs scan.startup.mode=specific-offsets"),
        (&["scan.startup.mode=group-offsets"], "needs group.id"),
        (&["commit.offsets.on.checkpoint=true"], "needs group.id"),
        (&["commit.offsets.on.checkpoint=perhaps", "group.id=g"], "true or false"),
    ] {
        let error = refused(Mirror, set);
        assert!(error.contains(why), "{error}");
    }
    let commits_to = |set: &[&str]| taken(Mirror, set).sink.offsets_group;
    assert_eq!(commits_to(&["group.id=g"]), Some(group.clone()), "as Flink's source does with a group");
    assert_eq!(commits_to(&["group.id=g", "commit.offsets.on.checkpoint=true"]), Some(group));
    assert_eq!(commits_to(&["group.id=g", "commit.offsets.on.checkpoint=false"]), None);
    assert_eq!(commits_to(&["commit.offsets.on.checkpoint=false"]), None);
}

/// Both separators of a file stand in the value, too.
#[test]
fn a_file_may_hold_offsets() {
    for separator in ["=", ": "] {
        let sheet =
            format!("scan.startup.specific-offsets{separator}partition:0,offset:42;partition:1,offset:3\n");
        let settings =
            Settings::read(Some(file(&sheet).path()), &words(&["scan.startup.mode=specific-offsets"]));
        let mut config = fresh();
        settings.unwrap().apply(&mut config, Mirror).unwrap();
        assert_eq!(config.source.startup_offsets, Some([(0, 42), (1, 3)].into()), "{separator}");
    }
}

#[test]
fn checkpoints_and_restarts_are_set_by_flinks_names() {
    for command in [Pipe, Mirror] {
        let JobConfig { run, sink, num_retained, .. } = taken(
            command,
            &[
                "execution.checkpointing.interval=30 s",
                "execution.checkpointing.timeout=10min",
                "execution.checkpointing.min-pause=500",
                "state.checkpoints.num-retained=3",
                "restart-strategy.type=fixed-delay",
                "restart-strategy.fixed-delay.attempts=7",
                "restart-strategy.fixed-delay.delay=2s",
            ],
        );
        assert_eq!((run.checkpoints.interval, sink.checkpoint_interval), (ms(30_000), ms(30_000)));
        assert_eq!((run.checkpoints.timeout, run.checkpoints.min_pause), (ms(600_000), ms(500)));
        assert_eq!((run.restart_attempts, run.restart_delay), (7, ms(2000)));
        assert_eq!(num_retained, NonZeroUsize::new(3));
        for never in ["restart-strategy.type=none", "restart-strategy=off"] {
            let run = taken(command, &[never, "restart-strategy.fixed-delay.attempts=7"]).run;
            assert_eq!(run.restart_attempts, 0);
        }
        let paused = taken(command, &["execution.checkpointing.min-pause=40 s"]);
        assert_eq!(paused.sink.checkpoint_interval, ms(40_000), "no checkpoint comes earlier");
        for (setting, why) in [
            ("execution.checkpointing.interval=0", "above 0"),
            ("execution.checkpointing.interval=often", "30 s"),
            ("execution.checkpointing.timeout=0 s", "above 0"),
            ("state.checkpoints.num-retained=0", "above 0"),
            ("restart-strategy.type=exponential-delay", "fixed delay"),
            ("restart-strategy.type=hope", "fixed-delay or none"),
            ("restart-strategy.exponential-delay.initial-backoff=1 s", "fixed delay"),
        ] {
            let error = refused(command, &[setting]);
            assert!(error.contains(why), "{error}");
        }
    }
}

#[test]
fn what_needs_a_runner_is_for_mirror() {
    let config = taken(
        Mirror,
        &[
            "execution.checkpointing.max-concurrent-checkpoints=3",
            "execution.checkpointing.tolerable-failed-checkpoints=4",
            "parallelism.default=8",
        ],
    );
    let checkpoints = config.run.checkpoints;
    assert_eq!((checkpoints.max_concurrent, checkpoints.tolerable_failures), (3, 4));
    assert_eq!(config.sink.slots, 4 + 2 + 4, "every one of them keeps an id");
    assert_eq!((config.parallelism.source(), config.parallelism.sink()), (8, 8));
    let mut parallelism = taken(Mirror, &["sink.parallelism=2", "parallelism.default=3"]).parallelism;
    assert_eq!((parallelism.source(), parallelism.sink()), (3, 2));
    parallelism.option(Some(5));
    assert_eq!((parallelism.source(), parallelism.sink()), (5, 5), "the option comes first");
    for (setting, same) in [
        ("execution.checkpointing.max-concurrent-checkpoints", "1"),
        ("execution.checkpointing.tolerable-failed-checkpoints", "0"),
        ("parallelism.default", "1"),
        ("sink.parallelism", "1"),
        (MODE, "exactly-once"),
        (UNALIGNED, "false"),
    ] {
        taken(Pipe, &[&format!("{setting}={same}")]);
        let other = if setting == MODE { "AT_LEAST_ONCE" } else { "true" };
        let other = if other == "true" && setting != UNALIGNED { "2" } else { other };
        let error = refused(Pipe, &[&format!("{setting}={other}")]);
        assert!(error.contains("pipe takes only"), "{error}");
        taken(Mirror, &[&format!("{setting}={other}")]);
    }
    assert!(refused(Pipe, &[&format!("{ALIGNED_TIMEOUT}=1 s")]).contains("no barrier waits"));
    for setting in ["parallelism.default=0", "sink.parallelism=129"] {
        assert!(refused(Mirror, &[setting]).contains("from 1 to 128"));
    }
}

#[test]
fn mode_and_alignment_make_one_setting() {
    let (aligned, overtaking) = (format!("{ALIGNED_TIMEOUT}=5 s"), format!("{UNALIGNED}=true"));
    let mode = |set: &[&str]| taken(Mirror, set).run.mode;
    let exactly = |aligned_timeout| Mode::ExactlyOnce { aligned_timeout };
    assert_eq!(mode(&[]), exactly(None));
    for text in ["EXACTLY_ONCE", "exactly-once", "Exactly_Once"] {
        assert_eq!(mode(&[&format!("{MODE}={text}")]), exactly(None));
    }
    assert_eq!(mode(&[&format!("{MODE}=at-least-once")]), Mode::AtLeastOnce);
    assert_eq!(mode(&[&overtaking]), exactly(Some(Duration::ZERO)));
    assert_eq!(mode(&["execution.checkpointing.unaligned=true"]), exactly(Some(Duration::ZERO)));
    assert_eq!(mode(&[&aligned, &overtaking]), exactly(Some(ms(5000))));
    assert!(refused(Mirror, &[&aligned]).contains("unaligned.enabled=true"));
    let both = [&format!("{MODE}=AT_LEAST_ONCE"), overtaking.as_str()];
    assert!(refused(Mirror, &both).contains("mode=EXACTLY_ONCE"));
    assert!(refused(Mirror, &[&format!("{MODE}=twice")]).contains("EXACTLY_ONCE or AT_LEAST_ONCE"));
    assert!(refused(Mirror, &[&format!("{UNALIGNED}=yes")]).contains("true or false"));
}

#[test]
fn flinks_names_of_the_sink_change_it() {
    for command in [Pipe, Mirror] {
        for name in ["sink.transactional-id-prefix", "transactional.id.prefix"] {
            let prefix = taken(command, &[&format!("{name}=mine")]).prefix;
            assert_eq!(prefix.as_deref(), Some("mine"));
        }
        let naming =
            |text| taken(command, &[&format!("sink.transaction-naming-strategy={text}")]).sink.naming;
        assert_eq!((naming("INCREMENTING"), naming("pooling")), (Naming::Incrementing, Naming::Pooled));
        for setting in [
            "sink.delivery-guarantee=exactly-once",
            "delivery.guarantee=EXACTLY_ONCE",
            "pipeline.max-parallelism=128",
        ] {
            taken(command, &[setting]);
        }
        for (setting, why) in [
            ("sink.delivery-guarantee=at-least-once", "written in transactions"),
            ("delivery.guarantee=none", "written in transactions"),
            ("pipeline.max-parallelism=256", "128 groups"),
            ("sink.transaction-naming-strategy=random", "POOLING or INCREMENTING"),
        ] {
            let error = refused(command, &[setting]);
            assert!(error.contains(why), "{error}");
        }
    }
}

#[test]
fn what_is_not_supported_says_why_and_what_is_unknown_names_the_nearest() {
    for (setting, why) in [
        ("ssl.truststore.location=x", "TLS is not supported yet"),
        ("properties.security.protocol=SSL", "TLS and SASL"),
        ("sasl.jaas.config=secret", "SASL"),
        ("enable.auto.commit=true", "commit.offsets.on.checkpoint"),
        ("linger=5", "linger.ms"),
        ("properties.linger=5", "linger.ms"),
        ("properties.parallelism.default=5", "parallelism.default"),
        ("compresion.type=lz4", "compression.type"),
        ("execution.checkpointing.intervall=1 s", "execution.checkpointing.interval ("),
        ("acks=1", "acks=all"),
        ("enable.idempotence=false", "idempotence"),
        ("max.in.flight.requests.per.connection=6", "from 1 to 5"),
        ("batch.size=none", "bytes"),
        ("request.timeout.ms=0", "above 0"),
        ("commit.connections=0", "from 1 to 65535"),
        ("compression.type=rar", "no codec"),
        ("compression.gzip.level=0", "gzip has no compression level 0: it has 1 to 9, and -1"),
        ("compression.lz4.level=18", "it has 1 to 17"),
        ("compression.zstd.level=23", "it has -131072 to 22"),
        ("compression.zstd.level=much", "a whole number"),
        ("nonsense", "NAME=VALUE"),
    ] {
        let error = refused(Mirror, &[setting]);
        assert!(error.contains(why) && !error.contains("secret"), "{error}");
    }
    assert!(fresh().compress("rar").unwrap_err().0.contains("--compression rar: it is no codec"));
}

#[test]
fn the_command_line_comes_before_the_file_and_what_stands_there_twice_is_told() {
    let sheet =
        file("linger.ms: 1\n# what follows counts\nbatch.size=1\nproperties.linger.ms=2\nbatch.size=5\n");
    let settings = Settings::read(Some(sheet.path()), &words(&["batch.size=9"])).unwrap();
    let mut config = fresh();
    settings.apply(&mut config, Pipe).unwrap();
    assert_eq!((config.sink.linger, config.sink.batch_bytes), (ms(2), 9));
    let repeated = settings.repeated();
    assert_eq!(repeated.len(), 2, "{repeated:?}");
    assert!(repeated[0].ends_with("line 4: properties.linger.ms counts, and not linger.ms of line 1"));
    assert!(repeated[1].ends_with("line 5: batch.size counts, and not batch.size of line 3"));
    let wrong = file("\nlinger.ms=x\n");
    let settings = Settings::read(Some(wrong.path()), &[]).unwrap();
    assert!(settings.apply(&mut config, Pipe).unwrap_err().0.contains("line 2: linger.ms=x"));
    let nested = file("execution:\n  checkpointing:\n");
    assert!(Settings::read(Some(nested.path()), &[]).unwrap_err().0.contains("line 1"));
}
