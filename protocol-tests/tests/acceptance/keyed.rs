//! The example `keyed_counts` as a job: records of skewed keys in a topic, counted by key into another topic.

use std::cell::Cell;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use kafka_2pc_protocol_tests::foreign::{End, Library, LineForm, Order, Reading, Writing};
use kafka_2pc_protocol_tests::harness::{Failure, Ground};
use kafka_2pc_protocol_tests::program::Program;
use tempfile::TempDir;

use crate::Outcome;
use crate::job::{Attempt, PATIENCE, Past, committables, id_of};
use crate::random::Random;

const EXAMPLE: &str = "keyed_counts";
const PARTITIONS: i32 = 4;
/// Small enough that the job can be paced, which it is batch by batch.
const BATCH_RECORDS: u32 = 100;
const READ_LIMIT: Duration = Duration::from_secs(600);

/// What goes in: a topic of four partitions, and what must come out of it.
#[derive(Debug)]
pub(crate) struct Input {
    topic: String,
    records: u64,
    /// Lines `KEY COUNT RECORD` in the order of the input.
    expected: PathBuf,
    _folder: TempDir,
}

/// One start of the job.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) operators: u32,
    pub(crate) sinks: u32,
    pub(crate) mode: &'static str,
    pub(crate) interval_ms: u64,
    /// Records a second; 0 for no limit.
    pub(crate) rate: u64,
}

pub(crate) const EXACTLY_ONCE: [&str; 3] = ["aligned", "unaligned", "aligned-timeout=20"];

/// One job: its output, its state, its ids.
#[derive(Debug)]
pub(crate) struct KeyedJob<'a> {
    ground: &'a Ground,
    program: Program,
    input: &'a Input,
    output: String,
    pub(crate) prefix: String,
    folder: TempDir,
    starts: Cell<u32>,
}

impl Input {
    /// Records that differ, of `keys` keys of which few have most of them, written by somebody else's producer.
    pub(crate) fn write(
        ground: &Ground,
        random: &mut Random,
        records: u64,
        keys: u64,
    ) -> Result<Self, Failure> {
        let folder = tempfile::tempdir()?;
        let (mut lines, mut expected) = (String::new(), String::new());
        let mut counts: HashMap<u64, u64> = HashMap::new();
        for number in 0..records {
            let key = random.below(keys) * random.below(keys) / keys * random.below(keys) / keys;
            let count = counts.entry(key).or_default();
            *count += 1;
            writeln!(lines, "key-{key} record-{number}")?;
            writeln!(expected, "key-{key} {count} record-{number}")?;
        }
        let [written, to_come] = ["lines", "expected"].map(|name| folder.path().join(name));
        std::fs::write(&written, lines)?;
        std::fs::write(&to_come, expected)?;
        let topic = ground.topic("records", PARTITIONS)?;
        let id = ground.fresh("writer");
        let writing = Writing {
            lines: Some(&written),
            form: LineForm::KeyAndValue,
            batch_records: BATCH_RECORDS,
            transactions: 10,
            ..Writing::new(ground.bootstrap(), &topic, &id)
        };
        ground.foreign()?.write(&writing, End::Commit)?;
        Ok(Self { topic, records, expected: to_come, _folder: folder })
    }
}

impl<'a> KeyedJob<'a> {
    pub(crate) fn new(ground: &'a Ground, input: &'a Input) -> Result<Self, Failure> {
        Ok(Self {
            ground,
            program: Program::example(EXAMPLE)?,
            input,
            output: ground.topic("counts", PARTITIONS)?,
            prefix: ground.fresh("keyed"),
            folder: tempfile::tempdir()?,
            starts: Cell::new(0),
        })
    }

    /// Starts it; it kills itself when it comes to that point for that time.
    pub(crate) fn start(&self, shape: &Shape, crash: Option<(&str, u64)>) -> Result<Attempt, Failure> {
        let number = self.starts.get();
        self.starts.set(number + 1);
        let trace = self.folder.path().join(format!("trace-{number}"));
        let Shape { operators, sinks, mode, interval_ms, rate } = *shape;
        let state = self.state().display().to_string();
        let numbers = [operators.to_string(), sinks.to_string(), interval_ms.to_string(), rate.to_string()];
        let words = [
            ("--bootstrap", self.ground.bootstrap()),
            ("--input", &self.input.topic),
            ("--output", &self.output),
            ("--state", &state),
            ("--prefix", &self.prefix),
            ("--operators", &numbers[0]),
            ("--sinks", &numbers[1]),
            ("--interval", &numbers[2]),
            ("--rate", &numbers[3]),
            ("--mode", mode),
        ];
        let words = words.iter().flat_map(|(name, value)| [*name, *value]).chain(["--until-end"]);
        let mut job = self.program.invoke(words).env("KAFKA_2PC_TRACE", trace.display());
        if let Some((point, nth)) = crash {
            job = job.env("KAFKA_2PC_CRASH", format_args!("{point}:{nth}"));
        }
        Ok(Attempt::new(job.start()?, trace))
    }

    /// Runs it until it kills itself at `point`, and makes sure that it did.
    pub(crate) fn crash(&self, shape: &Shape, point: &str, nth: u64) -> Result<Past, Failure> {
        self.start(shape, Some((point, nth)))?.past(PATIENCE)?.died_at(point, nth)
    }

    /// Runs it to the end of its input.
    pub(crate) fn finish(&self, shape: &Shape) -> Result<Past, Failure> {
        self.start(shape, None)?.finished(READ_LIMIT)
    }

    /// A foreign committed reader finds every record exactly once, and of each key the counts from 1 on in their order.
    pub(crate) fn verify_with(&self, library: Library) -> Outcome {
        let reading = Reading {
            order: Order::ByKey,
            timeout: READ_LIMIT,
            ..Reading::committed(library, self.ground.bootstrap(), &self.output)
        };
        let found = self.ground.foreign()?.compare(&reading, &self.input.expected)?;
        let exact = found.is_exact() && found.records == self.input.records;
        Failure::unless(exact, format!("{library:?} of {} records: {found:?}", self.input.records))
    }

    pub(crate) fn verify(&self) -> Outcome {
        Library::ALL.into_iter().try_for_each(|library| self.verify_with(library))
    }

    /// The transactional ids of the committables that it keeps, the oldest first.
    pub(crate) fn committable_ids(&self) -> Result<Vec<String>, Failure> {
        Ok(committables(&self.state())?.iter().filter_map(|path| id_of(path)).collect())
    }

    fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }
}
