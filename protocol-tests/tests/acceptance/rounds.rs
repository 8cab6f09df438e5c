//! The pipe, killed at random moments again and again, on one node of real Kafka.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use kafka_2pc_protocol_tests::harness::{Case, Failure, Ground, Size};
use kafka_2pc_protocol_tests::kafka::{Spec, Tools};
use kafka_2pc_protocol_tests::program::Phase;

use crate::Outcome;
use crate::job::{Job, OPEN, PATIENCE, Past, Plan};
use crate::random::Random;

const PHASES: [Phase; 5] = [Phase::Write, Phase::Prepare, Phase::Store, Phase::Commit, Phase::Recovery];
const KILLS: u32 = 5;
/// Of each phase, where the number of rounds is not bounded before.
const HITS: u32 = 5;
/// A round that is not through by then never will be.
const ATTEMPTS: u32 = 60;

pub(crate) fn cases() -> Vec<Case> {
    let newest = [Spec::default(), Spec::default().transaction_version(1)];
    let mut older = vec![Spec::new("3.9.2")];
    if Size::from_env() == Size::Full {
        older.push(Spec::new("3.5.2"));
    }
    let rounds = |spec| Case::clients("rounds_of_random_kills_leave_every_record_once", spec, rounds);
    let round = |spec| Case::clients("older_kafka_too_after_a_round_of_random_kills", spec, one_round);
    newest.into_iter().map(rounds).chain(older.into_iter().map(round)).collect()
}

/// How many kills hit each phase, and how many did not count.
#[derive(Debug, Default)]
struct Hits {
    of: BTreeMap<Phase, u32>,
    uncounted: u32,
}

impl Hits {
    fn rarest(&self) -> u32 {
        PHASES.iter().map(|phase| self.of.get(phase).copied().unwrap_or(0)).min().unwrap_or(0)
    }
}

fn rounds(ground: &Ground) -> Outcome {
    // The second number bounds the further rounds that rare phases may need.
    let (least, most) = ground.size().pick((1, 1), (20, 60));
    let (mut random, mut hits) = (Random::seeded(), Hits::default());
    let mut done = 0;
    while done < least || (done < most && hits.rarest() < HITS) {
        round(ground, &mut random, &mut hits)?;
        done += 1;
        eprintln!("round {done}: kills so far {:?}, {} did not count", hits.of, hits.uncounted);
    }
    let missed = ground.size() == Size::Full && hits.rarest() < HITS;
    Failure::unless(!missed, format!("after {done} rounds a phase was hit too rarely: {:?}", hits.of))
}

fn one_round(ground: &Ground) -> Outcome {
    let mut hits = Hits::default();
    round(ground, &mut Random::seeded(), &mut hits)?;
    eprintln!("kills {:?}, {} did not count", hits.of, hits.uncounted);
    Ok(())
}

/// Records and records per second: at least 20 s in the full size, 6 s in the quick one.
fn amounts(size: Size) -> (u64, u64) {
    size.pick((20_000, 3_200), (100_000, 4_800))
}

fn round(ground: &Ground, random: &mut Random, hits: &mut Hits) -> Outcome {
    let (records, rate) = amounts(ground.size());
    let job = Job::new(ground, &Plan { records, rate, interval_ms: 100, options: &[] })?;
    let started = Instant::now();
    let (mut counted, mut written, mut attempts) = (0, 0, 0);
    while counted < KILLS {
        attempts += 1;
        Failure::unless(
            attempts <= ATTEMPTS,
            format!("{attempts} starts, and only {counted} kills counted"),
        )?;
        let left = Duration::from_secs_f64(records.saturating_sub(written) as f64 / rate as f64);
        let mut attempt = job.start()?;
        if attempt.running.ended_within(moment(random, left, KILLS - counted))? {
            return Err(attempt.past(PATIENCE)?.ended.strange("it ended before it was killed").into());
        }
        let past = attempt.kill()?;
        // Records that were written again are counted again: so there is more input left than this says.
        written += u64::try_from(past.trace.count("write")).unwrap_or(u64::MAX);
        if counts(&past) && written < records {
            counted += 1;
            *hits.of.entry(past.trace.phase()).or_default() += 1;
        } else {
            hits.uncounted += 1;
        }
    }
    job.finish()?;
    let took = started.elapsed();
    let least = Duration::from_secs(ground.size().pick(6, 20));
    Failure::unless(took >= least, format!("the round took only {took:?}"))?;
    job.verify()?;
    nothing_open(ground, &job.prefix)
}

/// When to kill a pipe. Most moments are anywhere in its share of what is left; every second is soon, when it still recovers.
fn moment(random: &mut Random, left: Duration, kills: u32) -> Duration {
    let soon = Duration::from_millis(120);
    let share = left.mul_f64(1.6 / f64::from(kills + 1));
    if random.below(2) == 0 { random.within(soon.min(share)) } else { random.within(share) }
}

/// A kill counts if this process had completed a checkpoint, or recovery had something to do.
pub(crate) fn counts(past: &Past) -> bool {
    past.trace.count("checkpoint") > 0 || past.trace.recovery_worked()
}

/// Kafka's own tool finds nothing open, 5 s after the end.
pub(crate) fn nothing_open(ground: &Ground, prefix: &str) -> Outcome {
    std::thread::sleep(Duration::from_secs(5));
    // The newest tool asks older brokers too.
    let mut listed = Tools::new("4.4.0", ground.bootstrap())?.transactions(prefix)?;
    Failure::unless(!listed.is_empty(), "the tool lists no transactional id of the job at all")?;
    listed.retain(|transaction| OPEN.contains(&transaction.state.as_str()));
    Failure::unless_equal("open transactions", listed, Vec::new())
}
