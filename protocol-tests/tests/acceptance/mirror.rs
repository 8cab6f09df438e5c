//! A topic of one cluster is copied into another, and the mirror is killed at random moments again and again: the copy is equal to
//! the source, record by record.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kafka_2pc_protocol_tests::foreign::{End, Library, Reading, Record, Shapes, Venv, Writing};
use kafka_2pc_protocol_tests::harness::{Case, Failure, Ground, Size};
use kafka_2pc_protocol_tests::kafka::{self, KafkaCluster, Spec, Topic};
use kafka_2pc_protocol_tests::program::Program;
use tempfile::TempDir;

use crate::Outcome;
use crate::job::{Attempt, PATIENCE, Past};
use crate::random::Random;
use crate::rounds::{counts, nothing_open};

/// A mirror that is not through by then never will be.
const ATTEMPTS: u32 = 120;

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for level in [2, 1] {
        // The other level costs two more clusters.
        if level == 2 || Size::from_env() == Size::Full {
            let spec = Spec::default().transaction_version(level);
            let body = move |ground: &Ground| copied_through_kills(ground, level);
            cases.push(Case::clients("mirror_is_equal_after_random_kills", spec, body));
        }
    }
    cases
}

fn copied_through_kills(ground: &Ground, level: u8) -> Outcome {
    let source = KafkaCluster::start(Spec::default().transaction_version(level))?;
    let mirror = Mirror::new(ground, source.bootstrap())?;
    let (mut random, kills) = (Random::seeded(), ground.size().pick(4, 20));
    let (venv, stop) = (ground.foreign()?, AtomicBool::new(false));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| mirror.fill(&venv, &stop));
        let killed = mirror.killed(&mut random, kills);
        stop.store(true, Ordering::Relaxed);
        let filled = writer.join().map_err(|_| Failure::of("the writer panicked"))?;
        killed.and(filled)
    })?;
    // What is left, and once more, to see that nothing is.
    mirror.finish()?;
    let again = mirror.finish()?;
    Failure::unless_equal("records of another run", again["records"].as_u64(), Some(0))?;
    let copied = mirror.compare(&venv)?;
    eprintln!("{copied} records copied through {kills} kills");
    nothing_open(ground, &mirror.prefix)
}

struct Mirror<'a> {
    ground: &'a Ground,
    program: Program,
    source: String,
    from: String,
    to: String,
    prefix: String,
    folder: TempDir,
}

impl<'a> Mirror<'a> {
    fn new(ground: &'a Ground, source: String) -> Result<Self, Failure> {
        let (from, to) = (ground.fresh("source"), ground.fresh("copy"));
        kafka::create_topic(&source, &Topic::new(&from, 3))?;
        let (program, folder) = (Program::ensure()?, tempfile::tempdir()?);
        Ok(Self { ground, program, source, from, to, prefix: ground.fresh("mirror"), folder })
    }

    /// Writes records of every shape until it is told to stop; every third run of the writer aborts.
    fn fill(&self, venv: &Venv, stop: &AtomicBool) -> Outcome {
        let mut run = 0;
        while run < 3 || !stop.load(Ordering::Relaxed) {
            let prefix = format!("run-{run}");
            let writing = Writing {
                records: 2_000,
                transactions: 10,
                prefix: &prefix,
                shapes: Shapes::All,
                ..Writing::new(&self.source, &self.from, "filler")
            };
            venv.write(&writing, if run % 3 == 1 { End::Abort } else { End::Commit })?;
            run += 1;
        }
        Ok(())
    }

    fn start(&self, number: u32, options: &[&str]) -> Result<Attempt, Failure> {
        let state = self.folder.path().join("state").display().to_string();
        let trace = self.folder.path().join(format!("trace-{number}"));
        let words = ["mirror", "--from", &self.from, "--to", &self.to, "--partitions", "source", "--json"];
        let clusters = ["--from-bootstrap", &self.source, "--to-bootstrap", self.ground.bootstrap()];
        let job = ["--state", &state, "--transactional-id-prefix", &self.prefix];
        let pace = ["--parallelism", "2", "--checkpoint-interval", "100ms"];
        let all = words.iter().chain(&clusters).chain(&job).chain(&pace).chain(options).copied();
        let running = self.program.invoke(all).env("KAFKA_2PC_TRACE", trace.display()).start()?;
        Ok(Attempt { running, trace })
    }

    /// Starts it again and again, until so many kills counted.
    fn killed(&self, random: &mut Random, kills: u32) -> Outcome {
        let (mut counted, mut attempts) = (0, 0);
        while counted < kills {
            attempts += 1;
            let told = || format!("{attempts} starts, and only {counted} kills counted");
            Failure::unless(attempts <= ATTEMPTS, told())?;
            let mut attempt = self.start(attempts, &[])?;
            // Every second moment is soon, when it still recovers.
            let longest = if random.below(2) == 0 { 400 } else { 2_500 };
            if attempt.running.ended_within(random.within(Duration::from_millis(longest)))? {
                return Err(attempt.past(PATIENCE)?.ended.strange("it ended before it was killed").into());
            }
            let past = attempt.kill()?;
            if counts(&past) {
                counted += 1;
                eprintln!("kill {counted} in the phase {:?}", past.trace.phase());
            }
        }
        Ok(())
    }

    fn finish(&self) -> Result<serde_json::Value, Failure> {
        let Past { ended, .. } = self.start(0, &["--until-end"])?.finished(PATIENCE)?;
        Ok(ended.json()?)
    }

    /// Each foreign reader finds in the copy what it finds in the source.
    fn compare(&self, venv: &Venv) -> Result<usize, Failure> {
        let mut records = 0;
        for library in Library::ALL {
            let source = venv.read(&Reading::committed(library, &self.source, &self.from))?;
            let copy = venv.read(&Reading::committed(library, self.ground.bootstrap(), &self.to))?;
            for (at, (source, copy)) in source.iter().zip(&copy).enumerate() {
                let (source, copy) = (without_offset(source), without_offset(copy));
                Failure::unless_equal(&format!("{library:?}, record {at}"), copy, source)?;
            }
            Failure::unless_equal(&format!("{library:?}, records"), copy.len(), source.len())?;
            let aborted = source.iter().any(|record| record.text().starts_with("run-1-"));
            let shapes = |has: fn(&Record) -> bool| source.iter().any(has);
            let all = shapes(|r| r.key.is_none())
                && shapes(|r| r.value.is_none())
                && shapes(|r| r.headers.iter().any(|(_, value)| value.is_none()));
            Failure::unless(all && !aborted, format!("{library:?}: the source is not as it should be"))?;
            records = source.len();
        }
        Ok(records)
    }
}

/// Aborted records and markers have offsets too, so those of a copy are others.
fn without_offset(record: &Record) -> Record {
    Record { offset: 0, ..record.clone() }
}
