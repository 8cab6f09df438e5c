//! The settings that a Flink job with a Kafka sink is usually given, as one file: each key changes what brokers and Kafka's own tools see,
//! or is refused by name and with the reason.

use std::path::PathBuf;

use kafka_2pc_protocol_tests::harness::{Case, Failure, Ground};
use kafka_2pc_protocol_tests::kafka::{self, DumpedBatch, Spec};
use kafka_2pc_protocol_tests::program::{Ended, Program};
use tempfile::TempDir;

use crate::job::PATIENCE;
use crate::{Outcome, input};

const INTERVAL: &str = "execution.checkpointing.interval";
const TIMEOUT: &str = "execution.checkpointing.timeout";
const MODE: &str = "execution.checkpointing.mode";
const CONCURRENT: &str = "execution.checkpointing.max-concurrent-checkpoints";
const UNALIGNED: &str = "execution.checkpointing.unaligned.enabled";
const PREFIX: &str = "sink.transactional-id-prefix";
const TRANSACTION_TIMEOUT: &str = "transaction.timeout.ms";
const BATCH: &str = "batch.size";
const LINGER: &str = "linger.ms";
const CODEC: &str = "compression.type";
const IN_FLIGHT: &str = "max.in.flight.requests.per.connection";
const ACKS: &str = "acks";
const IDEMPOTENCE: &str = "enable.idempotence";

/// The sheet. The prefix is that of the test.
const SHEET: [(&str, &str); 13] = [
    (INTERVAL, "30 s"),
    (TIMEOUT, "10 min"),
    (MODE, "EXACTLY_ONCE"),
    (CONCURRENT, "1"),
    (UNALIGNED, "false"),
    (PREFIX, ""),
    (TRANSACTION_TIMEOUT, "900000"),
    (BATCH, "65536"),
    (LINGER, "5"),
    (CODEC, "lz4"),
    (IN_FLIGHT, "5"),
    (ACKS, "all"),
    (IDEMPOTENCE, "true"),
];

/// What a codec in the sheet leads to: its name in the batches' headers, or why it is refused.
const CODECS: [(&str, Result<&str, &str>); 6] = [
    ("lz4", Ok("lz4")),
    ("none", Ok("none")),
    ("gzip", Ok("gzip")),
    ("snappy", Ok("snappy")),
    ("zstd", Ok("zstd")),
    ("rar", Err("it is no codec")),
];

/// Keys that may have one value only: another one, whether a mirror takes it, and the reason where it is refused.
const FIXED: [(&str, &str, Mirror, &str); 6] = [
    (MODE, "AT_LEAST_ONCE", Mirror::Takes, "pipe takes only EXACTLY_ONCE"),
    (CONCURRENT, "2", Mirror::Takes, "pipe takes only 1"),
    (UNALIGNED, "true", Mirror::Takes, "pipe takes only false"),
    (IN_FLIGHT, "6", Mirror::Refuses, "a whole number from 1 to 5"),
    (ACKS, "1", Mirror::Refuses, "transactions need acks=all"),
    (IDEMPOTENCE, "false", Mirror::Refuses, "transactions need idempotence"),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mirror {
    Takes,
    Refuses,
}

const RECORDS: u64 = 2_000;

pub(crate) fn cases() -> Vec<Case> {
    let case = |name, body: fn(&Ground) -> Outcome| Case::nodes(name, Spec::default(), body);
    vec![
        case("sheet_each_key_changes_what_brokers_see", seen),
        case("sheet_what_cannot_be_followed_is_refused_by_name", refused),
        case("sheet_is_taken_by_mirror", mirrored),
    ]
}

/// A folder for sheets and inputs.
struct Desk<'a> {
    ground: &'a Ground,
    program: Program,
    folder: TempDir,
}

/// What brokers and Kafka's tools show of a run.
struct Seen {
    /// Of records, in their order.
    batches: Vec<DumpedBatch>,
    transactions: usize,
    timeout_ms: Vec<i32>,
}

impl<'a> Desk<'a> {
    fn new(ground: &'a Ground) -> Result<Self, Failure> {
        let (program, folder) = (Program::ensure()?, tempfile::tempdir()?);
        input::write(&folder.path().join("input"), RECORDS)?;
        Ok(Self { ground, program, folder })
    }

    /// The sheet with other values for some keys, as a file.
    fn sheet(&self, prefix: &str, changes: &[(&str, &str)]) -> Result<PathBuf, Failure> {
        let value = |(key, value): (&str, &str)| {
            let changed = changes.iter().find(|(other, _)| *other == key).map(|(_, value)| *value);
            let usual = if key == PREFIX { prefix } else { value };
            format!("{key}: {}\n", changed.unwrap_or(usual))
        };
        let path = self.folder.path().join(self.ground.fresh("sheet"));
        std::fs::write(&path, SHEET.map(value).concat())?;
        Ok(path)
    }

    fn run(&self, words: &[&str], prefix: &str, changes: &[(&str, &str)]) -> Result<Ended, Failure> {
        let sheet = self.sheet(prefix, changes)?.display().to_string();
        let whereto = ["--bootstrap", self.ground.bootstrap(), "--config", &sheet];
        Ok(self.program.invoke(words.iter().chain(&whereto).copied()).run(PATIENCE)?)
    }

    fn input(&self) -> String {
        self.folder.path().join("input").display().to_string()
    }

    fn pipe(&self, topic: &str, prefix: &str, changes: &[(&str, &str)]) -> Result<Ended, Failure> {
        let rate = RECORDS.to_string();
        self.run(&["pipe", "--topic", topic, "--input", &self.input(), "--rate", &rate], prefix, changes)
    }

    /// Pipes with the changed sheet, and looks at what is in the log.
    fn look(&self, changes: &[(&str, &str)]) -> Result<Seen, Failure> {
        let (topic, prefix) = (self.ground.topic("sheet", 1)?, self.ground.fresh("sheet"));
        self.pipe(&topic, &prefix, changes)?.expect(0)?;
        let named = changes.iter().find(|(key, _)| *key == PREFIX).map_or(&*prefix, |(_, other)| other);
        self.seen(&topic, named)
    }

    fn seen(&self, topic: &str, prefix: &str) -> Result<Seen, Failure> {
        let folder = self.ground.cluster()?.partition_folder(1, topic, 0);
        let all = self.ground.tools()?.dump_log(&folder)?;
        let (markers, batches): (Vec<_>, Vec<_>) = all.into_iter().partition(|batch| batch.is_control);
        let records: u32 = batches.iter().map(|batch| batch.records).sum();
        Failure::unless_equal("records in the log", u64::from(records), RECORDS)?;
        let mut timeout_ms = Vec::new();
        for listed in kafka::transactions(self.ground.bootstrap(), prefix)? {
            let described = kafka::describe(self.ground.bootstrap(), &listed.transactional_id)?;
            timeout_ms.extend(described.map(|described| described.timeout_ms));
        }
        Failure::unless(!timeout_ms.is_empty(), format!("no transactional id begins with {prefix}"))?;
        Ok(Seen { batches, transactions: markers.len(), timeout_ms })
    }
}

impl Seen {
    fn codecs(&self) -> Vec<&str> {
        let mut codecs: Vec<_> = self.batches.iter().map(|batch| batch.codec.as_str()).collect();
        codecs.dedup();
        codecs
    }
}

fn seen(ground: &Ground) -> Outcome {
    let desk = Desk::new(ground)?;
    let usual = desk.look(&[])?;
    Failure::unless_equal("codecs", usual.codecs(), vec!["lz4"])?;
    Failure::unless(usual.timeout_ms.iter().all(|ms| *ms == 900_000), format!("{:?}", usual.timeout_ms))?;
    // The input is over long before the first interval is.
    Failure::unless_equal("transactions of the sheet", usual.transactions, 1)?;

    let often = desk.look(&[(INTERVAL, "100 ms")])?;
    Failure::unless(often.transactions > 2, format!("{INTERVAL}: {} transactions", often.transactions))?;

    let other = ground.fresh("other");
    // It looks for ids with that prefix.
    desk.look(&[(PREFIX, &other)])?;

    let short = desk.look(&[(TRANSACTION_TIMEOUT, "600000")])?;
    Failure::unless(short.timeout_ms.iter().all(|ms| *ms == 600_000), format!("{:?}", short.timeout_ms))?;

    let alone = desk.look(&[(BATCH, "1")])?;
    Failure::unless_equal("batches of one record", alone.batches.len() as u64, RECORDS)?;

    // The longer a batch may wait, the more it holds; with this one only its size ends it.
    let (hasty, patient) = (desk.look(&[(LINGER, "0")])?, desk.look(&[(LINGER, "60000")])?);
    let (hasty, patient) = (hasty.batches.len(), patient.batches);
    Failure::unless(hasty > 2 * patient.len(), format!("{LINGER}: {hasty} batches, then {}", patient.len()))?;
    // A batch is full before it is compressed, so a smaller one holds fewer records.
    let small = desk.look(&[(LINGER, "60000"), (BATCH, "8192")])?;
    let most = |batches: &[DumpedBatch]| batches.iter().map(|batch| batch.records).max().unwrap_or_default();
    let (most_small, most_usual) = (most(&small.batches), most(&patient));
    Failure::unless(
        2 * most_small < most_usual,
        format!("{BATCH}: {most_small} records, then {most_usual}"),
    )?;

    for (codec, wanted) in CODECS {
        if let Ok(wanted) = wanted {
            Failure::unless_equal(codec, desk.look(&[(CODEC, codec)])?.codecs(), vec![wanted])?;
        }
    }
    Ok(())
}

fn refused(ground: &Ground) -> Outcome {
    let (desk, topic) = (Desk::new(ground)?, ground.topic("refused", 1)?);
    let prefix = ground.fresh("refused");
    let mut wrong: Vec<(&str, &str, i32, &str)> = vec![
        (INTERVAL, "0 s", 2, "it must be above 0"),
        (TIMEOUT, "0 s", 2, "it must be above 0"),
        (PREFIX, "\"\"", 2, "prefix"),
        (TRANSACTION_TIMEOUT, "60000", 2, "shorter than a checkpoint interval"),
        (TRANSACTION_TIMEOUT, "900001", 1, "transaction.max.timeout.ms"),
        (BATCH, "0", 2, "a number of bytes above 0"),
        (LINGER, "soon", 2, "a number of milliseconds"),
    ];
    wrong.extend(FIXED.map(|(key, value, _, why)| (key, value, 2, why)));
    wrong.extend(CODECS.iter().filter_map(|(codec, told)| Some((CODEC, *codec, 2, told.err()?))));
    for (key, value, code, why) in wrong {
        let ended = desk.pipe(&topic, &prefix, &[(key, value)])?.expect(code)?;
        let named = key == PREFIX || ended.stderr.contains(key);
        if !named || !ended.stderr.contains(why) {
            return Err(ended.strange(&format!("{key}={value} is not refused by name with {why:?}")).into());
        }
    }
    Failure::unless_equal("ids in use", kafka::transactions(ground.bootstrap(), &prefix)?.len(), 0)
}

/// The same file for a job of several tasks, which takes more values.
fn mirrored(ground: &Ground) -> Outcome {
    let (desk, source) = (Desk::new(ground)?, ground.topic("source", 1)?);
    desk.pipe(&source, &ground.fresh("filler"), &[])?.expect(0)?;
    let mirror = |changes: &[(&str, &str)]| {
        let (copy, prefix) = (ground.topic("copy", 1)?, ground.fresh("mirror"));
        let words = ["mirror", "--from", &source, "--to", &copy, "--until-end"];
        Ok::<_, Failure>((desk.run(&words, &prefix, changes)?, copy, prefix))
    };
    let (ended, copy, prefix) = mirror(&[])?;
    ended.expect(0)?;
    let seen = desk.seen(&copy, &prefix)?;
    Failure::unless_equal("codecs of the copy", seen.codecs(), vec!["lz4"])?;
    Failure::unless(seen.timeout_ms.iter().all(|ms| *ms == 900_000), format!("{:?}", seen.timeout_ms))?;
    for (key, value, taken, why) in FIXED {
        let (ended, copy, prefix) = mirror(&[(key, value)])?;
        match taken {
            Mirror::Takes => {
                let ended = ended.expect(0)?;
                desk.seen(&copy, &prefix)?;
                if key == MODE && !ended.stderr.contains("records may be there twice") {
                    return Err(ended.strange("it does not warn of at least once").into());
                }
            }
            Mirror::Refuses => {
                let ended = ended.expect(2)?;
                if !ended.stderr.contains(key) || !ended.stderr.contains(why) {
                    return Err(ended.strange(&format!("{key}={value} is not refused with {why:?}")).into());
                }
            }
        }
    }
    // No checkpoint is acknowledged in no time: each is given up, until the job is.
    let (ended, ..) = mirror(&[(TIMEOUT, "1 ns")])?;
    let ended = ended.expect(1)?;
    if !ended.stderr.contains("did not acknowledge within 1ns") {
        return Err(ended.strange(&format!("{TIMEOUT} does not count")).into());
    }
    Ok(())
}
