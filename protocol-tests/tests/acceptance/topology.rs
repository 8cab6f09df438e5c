//! A job of several subtasks (source of four partitions, operator with state by key, sink), killed at random moments and rescaled.

use std::time::{Duration, Instant};

use kafka_2pc_protocol_tests::harness::{Case, Failure, Ground, Size};
use kafka_2pc_protocol_tests::kafka::Spec;

use crate::Outcome;
use crate::job::Past;
use crate::keyed::{EXACTLY_ONCE, Input, KeyedJob, Shape};
use crate::random::Random;
use crate::rounds::{counts, nothing_open};

/// Subtasks of operator and sink, one after the other.
const WIDTHS: [u32; 3] = [2, 4, 1];
const INTERVAL_MS: u64 = 200;

pub(crate) fn cases() -> Vec<Case> {
    let mut levels = vec![2];
    if Size::from_env() == Size::Full {
        levels.push(1);
    }
    let name = "topology_of_keyed_subtasks_counts_every_record_once_through_kills_and_rescaling";
    let case = |level: u8| Case::clients(name, Spec::default().transaction_version(level), topology);
    levels.into_iter().map(case).collect()
}

/// How much of everything.
#[derive(Debug, Clone, Copy)]
struct Amounts {
    records: u64,
    keys: u64,
    rate: u64,
    /// Kills go on until there are so many, and for so long.
    kills: u32,
    lasts: Duration,
    /// The longest life.
    life: Duration,
}

const QUICK: Amounts = Amounts {
    records: 30_000,
    keys: 200,
    rate: 4_000,
    kills: 8,
    lasts: Duration::ZERO,
    life: Duration::from_millis(1500),
};

const FULL: Amounts = Amounts {
    records: 1_000_000,
    keys: 5_000,
    // Some 700 s of input.
    rate: 1_450,
    kills: 60,
    lasts: Duration::from_secs(600),
    life: Duration::from_secs(7),
};

/// A job that makes no progress by then never will.
const MOST_STARTS: u32 = 1_000;

#[derive(Debug, Default)]
struct Tally {
    /// Lives that had completed a checkpoint, or whose recovery had work.
    counted: u32,
    uncounted: u32,
    committing_recoveries: u32,
    aborting_recoveries: u32,
    rescales: u32,
    last_width: Option<u32>,
}

impl Tally {
    fn starts(&self) -> u32 {
        self.counted + self.uncounted
    }

    fn life(&mut self, past: &Past) {
        *(if counts(past) { &mut self.counted } else { &mut self.uncounted }) += 1;
        self.committing_recoveries += u32::from(past.trace.count("recovery-commit") > 0);
        self.aborting_recoveries += u32::from(past.trace.count("leftover-abort") > 0);
    }

    fn width(&mut self, width: u32) {
        self.rescales += u32::from(self.last_width.replace(width).is_some_and(|last| last != width));
    }
}

fn topology(ground: &Ground) -> Outcome {
    let amounts = ground.size().pick(QUICK, FULL);
    let mut random = Random::seeded();
    let input = Input::write(ground, &mut random, amounts.records, amounts.keys)?;
    let job = KeyedJob::new(ground, &input)?;
    let (started, mut tally) = (Instant::now(), Tally::default());
    loop {
        let progress = (f64::from(tally.counted) / f64::from(amounts.kills))
            .min(started.elapsed().as_secs_f64() / amounts.lasts.as_secs_f64().max(0.001));
        if progress >= 1.0 {
            break;
        }
        Failure::unless(tally.starts() < MOST_STARTS, format!("it does not get on: {tally:?}"))?;
        let shape = shape(progress, amounts.rate, &mut random);
        tally.width(shape.operators);
        let mut attempt = job.start(&shape, None)?;
        if attempt.running.ended_within(moment(&mut random, amounts.life))? {
            return Err(attempt.past(Duration::ZERO)?.ended.strange("it ended before it was killed").into());
        }
        tally.life(&attempt.kill()?);
    }
    let shape = Shape { rate: 0, ..shape(1.0, 0, &mut random) };
    tally.width(shape.operators);
    let last = job.finish(&shape)?;
    let took = started.elapsed();
    eprintln!("{} kills in {took:?}, then {}: {tally:?}", tally.starts(), last.ended.json()?);
    Failure::unless_equal("rescales", tally.rescales, 2)?;
    job.verify()?;
    nothing_open(ground, &job.prefix)
}

/// How it is started when so much of the test is done.
fn shape(progress: f64, rate: u64, random: &mut Random) -> Shape {
    let third = if progress < 1.0 / 3.0 { 0 } else { 1 + usize::from(progress >= 2.0 / 3.0) };
    let mode = EXACTLY_ONCE[usize::try_from(random.below(3)).unwrap_or(0)];
    Shape { operators: WIDTHS[third], sinks: WIDTHS[third], mode, interval_ms: INTERVAL_MS, rate }
}

/// When it is killed: mostly somewhere in a life, and every third time soon, when it recovers.
fn moment(random: &mut Random, life: Duration) -> Duration {
    if random.below(3) == 0 { random.within(Duration::from_millis(700)) } else { random.within(life) }
}
