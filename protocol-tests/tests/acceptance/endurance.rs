//! A job that runs for long, at the rate at which one foreign reader follows it, with a transaction every 100 ms: each number
//! comes once, and neither the memory of the job nor the ids that it leaves at the brokers grow.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use kafka_2pc_protocol_tests::foreign::{Followed, Following};
use kafka_2pc_protocol_tests::harness::{Case, Failure, Ground};
use kafka_2pc_protocol_tests::kafka::{self, Spec, Topic};
use kafka_2pc_protocol_tests::program::{Ended, Program, Running};
use tempfile::TempDir;

use crate::Outcome;

const PARTITIONS: u32 = 3;
/// Records that the job may be ahead of its reader: about 20 MB in each partition, a third of what is kept there.
const LEAD: &str = "60000";
const KEPT_BYTES: u64 = 64 << 20;
const SEGMENT_BYTES: u64 = 16 << 20;
/// What the topic may take at any moment: what is kept of each partition, and what waits for the broker to look and to remove it.
const MOST_BYTES: u64 = 10 * KEPT_BYTES * PARTITIONS as u64;

const SAMPLE: Duration = Duration::from_millis(200);
/// Memory of the last third may be so much more than that of the first, in percent, and so many bytes for what a small process
/// is uncertain about.
const GROWTH_PERCENT: u64 = 10;
const GROWTH_BYTES: u64 = 4 << 20;
/// Beyond what a pool of 4 ever needs.
const MOST_IDS: usize = 8;

pub(crate) fn cases() -> Vec<Case> {
    let spec = |level| {
        let spec = Spec::default().transaction_version(level);
        // A broker looks for the first time after half a minute, unless told otherwise.
        let spec = spec.extra("log.initial.task.delay.ms", "1000");
        spec.extra("log.retention.check.interval.ms", "1000").extra("log.segment.delete.delay.ms", "1000")
    };
    let case = |level| Case::nodes("endurance_every_number_once_and_memory_flat", spec(level), endures);
    vec![case(2), case(1)]
}

/// A topic that keeps a little, and where the job and its reader tell each other how far they are.
struct Course<'a> {
    ground: &'a Ground,
    topic: String,
    prefix: String,
    seconds: u64,
    folder: TempDir,
}

/// Resident memory in bytes, in the order of time.
struct Memory(Vec<u64>);

fn endures(ground: &Ground) -> Outcome {
    let course = Course::new(ground)?;
    let venv = ground.foreign()?;
    let (progress, done) = (course.file("progress"), course.file("done"));
    let following = Following {
        bootstrap: ground.bootstrap(),
        topic: &course.topic,
        partitions: PARTITIONS,
        progress: &progress,
        done: &done,
        limit: Duration::from_secs(course.seconds + 120),
    };
    let (followed, ended, memory) = thread::scope(|scope| {
        let follower = scope.spawn(|| venv.follow(&following));
        let run = course.run();
        // Without a number that can be reached the reader waits until its patience ends.
        let told = run.as_ref().map_or(0, |(_, _, records)| *records);
        put(&done, told)?;
        let followed = follower.join().map_err(|_| Failure::of("the follower panicked"))?;
        let (ended, memory, _) = run?;
        Ok::<_, Failure>((followed?, ended, memory))
    })?;
    course.judge(&followed, &ended)?;
    memory.is_flat()?;
    crate::rounds::nothing_open(ground, &course.prefix)?;
    let ids = kafka::transactions(ground.bootstrap(), &course.prefix)?.len();
    Failure::unless(ids <= MOST_IDS, format!("{ids} transactional ids are left at the brokers"))
}

impl<'a> Course<'a> {
    fn new(ground: &'a Ground) -> Result<Self, Failure> {
        let configs = [
            ("retention.bytes", KEPT_BYTES),
            ("segment.bytes", SEGMENT_BYTES),
            ("file.delete.delay.ms", 1000),
        ];
        let topic = Topic {
            configs: configs.iter().map(|(name, value)| ((*name).to_owned(), value.to_string())).collect(),
            ..Topic::new(&ground.fresh("numbers"), i32::try_from(PARTITIONS).unwrap_or(1))
        };
        kafka::create_topic(ground.bootstrap(), &topic)?;
        let (prefix, folder) = (ground.fresh("numbers"), tempfile::tempdir()?);
        Ok(Self { ground, topic: topic.name, prefix, seconds: ground.size().pick(10, 600), folder })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs the job to its end, and looks at its memory and at the disk meanwhile.
    fn run(&self) -> Result<(Ended, Memory, u64), Failure> {
        let path = |name: &str| self.file(name).display().to_string();
        let words =
            ["--bootstrap", self.ground.bootstrap(), "--topic", &self.topic, "--prefix", &self.prefix];
        let (seconds, state, progress) = (self.seconds.to_string(), path("state"), path("progress"));
        let more = ["--seconds", &seconds, "--state", &state, "--followed", &progress, "--lead", LEAD];
        let mut running = Program::example("numbers")?.invoke(words.into_iter().chain(more)).start()?;
        let mut memory = Vec::new();
        let deadline = Instant::now() + Duration::from_secs(self.seconds + 60);
        while !running.ended_within(SAMPLE)? {
            memory.extend(resident(&running));
            let taken = self.bytes_on_disk();
            Failure::unless(taken <= MOST_BYTES, format!("the topic takes {taken} bytes"))?;
            Failure::unless(Instant::now() < deadline, format!("it does not stop:\n{}", running.output()))?;
        }
        let ended = running.wait(Duration::ZERO)?.expect(0)?;
        let records = ended.json()?["records"].as_u64().unwrap_or(0);
        Ok((ended, Memory(memory), records))
    }

    fn bytes_on_disk(&self) -> u64 {
        let Ok(cluster) = self.ground.cluster() else { return 0 };
        let folders = (0..PARTITIONS.cast_signed()).map(|p| cluster.partition_folder(1, &self.topic, p));
        folders.map(|folder| bytes_in(&folder)).sum()
    }

    fn judge(&self, followed: &Followed, ended: &Ended) -> Outcome {
        let report = ended.json()?;
        eprintln!("{} s: {report}; read: {followed:?}", self.seconds);
        let number = |name: &str| report[name].as_u64().unwrap_or(u64::MAX);
        Failure::unless_equal("records that were not the next one", followed.wrong, 0)?;
        Failure::unless_equal("records that were read", followed.records, number("records"))?;
        for name in ["restarts", "hanging", "lost"] {
            Failure::unless_equal(name, number(name), 0)?;
        }
        // Ten a second, as far as a busy machine gets to it.
        let (checkpoints, least) = (number("checkpoints"), self.seconds * 3);
        Failure::unless(checkpoints >= least, format!("{checkpoints} checkpoints, at least {least} expected"))
    }
}

impl Memory {
    /// The median of a third, 1 to 3, of what comes after the beginning.
    fn third(&self, third: usize) -> u64 {
        let settled = &self.0[self.0.len() / 10..];
        let size = settled.len() / 3;
        let mut part = settled[(third - 1) * size..third * size].to_vec();
        part.sort_unstable();
        part.get(size / 2).copied().unwrap_or(0)
    }

    fn is_flat(&self) -> Outcome {
        Failure::unless(self.0.len() >= 12, format!("only {} samples of its memory", self.0.len()))?;
        let (first, last) = (self.third(1), self.third(3));
        eprintln!("resident: {} KiB in the first third, {} KiB in the last", first >> 10, last >> 10);
        let most = first + first * GROWTH_PERCENT / 100 + GROWTH_BYTES;
        Failure::unless(
            first > 0 && last <= most,
            format!("resident memory grew from {first} to {last} bytes"),
        )
    }
}

/// The resident memory of the program; nothing if it has just ended.
fn resident(running: &Running) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", running.id())).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

fn bytes_in(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    // Segments go while we look.
    files.filter_map(|file| file.metadata().ok()).map(|metadata| metadata.len()).sum()
}

/// In one step, so that nobody reads half a number.
fn put(path: &Path, number: u64) -> Outcome {
    let new = path.with_extension("new");
    std::fs::write(&new, number.to_string())?;
    Ok(std::fs::rename(new, path)?)
}
