//! A checkpoint that is restored although there is a newer one, told from every ordinary crash.
#![cfg(feature = "broker")]
#![expect(clippy::unwrap_used, reason = "tests")]

mod kit;

use kafka_2pc::{
    proto::{
        naming::Naming,
        recovery::{Orphans, RecoveryError},
    },
    sink::{RecoverError, SinkConfig},
};
use kit::{
    Bench, both,
    job::{Kept, Run, Together},
};

fn config(naming: Naming) -> SinkConfig {
    let mut config = SinkConfig::new("job").unwrap();
    config.naming = naming;
    config
}

async fn sorted(b: &Bench) -> Vec<usize> {
    let mut seen: Vec<usize> = b.committed().await.iter().map(|v| v.parse().unwrap()).collect();
    seen.sort_unstable();
    seen
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_checkpoint_is_refused_and_the_newest_can_still_be_restored() {
    for profile in both() {
        for naming in [Naming::Pooled, Naming::Incrementing] {
            for (subtasks, together) in [(1, Together::Whole), (3, Together::Whole), (2, Together::Shares)] {
                let b = Bench::new(profile.clone()).await;
                let config = config(naming);
                let mut run = Run::start(&b, &config, 2, &Kept::default()).await;
                run.write(4).await;
                let older = run.complete().await;
                for _ in 0..3 {
                    run.write(run.written + 4).await;
                    run.complete().await;
                }
                run.write(18).await;
                let prepared = run.prepare().await;
                let newest = run.durable(&prepared);
                run.write(20).await;
                run.killed().await;

                let refused = Run::try_start(&b, &config, (subtasks, together), &older).await;
                let Err(RecoverError::Orphans(RecoveryError::Orphans { checkpoint: 1, orphans })) = refused
                else {
                    panic!("{} {naming:?} {subtasks}: {:?}", profile.name, refused.map(|r| r.report))
                };
                assert!(!orphans.is_empty());
                // What the newest checkpoint lists was not touched.
                let mut last = Run::start(&b, &config, subtasks, &newest).await;
                assert_eq!(last.report.resumed.len(), 2);
                last.write(24).await;
                last.complete().await;
                assert_eq!(sorted(&b).await, (0..24).collect::<Vec<_>>());
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn duplicates_that_are_accepted_are_accepted_once() {
    for profile in both() {
        for naming in [Naming::Pooled, Naming::Incrementing] {
            let b = Bench::new(profile.clone()).await;
            let mut config = config(naming);
            let mut run = Run::start(&b, &config, 2, &Kept::default()).await;
            run.write(4).await;
            let older = run.complete().await;
            run.write(8).await;
            run.complete().await;
            drop(run);

            config.orphans = Orphans::WriteAgain;
            let mut again = Run::start(&b, &config, 2, &older).await;
            assert!(!again.report.orphans.is_empty(), "it says so");
            again.write(8).await;
            let kept = again.complete().await;
            again.killed().await;

            config.orphans = Orphans::Refuse;
            let mut last = Run::start(&b, &config, 2, &kept).await;
            assert!(last.report.orphans.is_empty());
            last.write(10).await;
            last.complete().await;
            let mut expected: Vec<usize> = (0..10).chain(4..8).collect();
            expected.sort_unstable();
            assert_eq!(sorted(&b).await, expected);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_start_under_a_used_prefix_is_told_and_not_refused() {
    let b = Bench::new(kafka_2pc::broker::Profile::kafka_4_4()).await;
    let config = config(Naming::Pooled);
    let mut run = Run::start(&b, &config, 1, &Kept::default()).await;
    run.write(4).await;
    run.complete().await;
    drop(run);
    let run = Run::start(&b, &config, 1, &Kept::default()).await;
    assert_eq!(run.report.orphans.len(), 1);
}

/// Numbers from a seed (Knuth's MMIX generator).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// A life of crashes at random moments, each followed by the newest checkpoint: no restart is refused, and every record
/// comes out once.
async fn life(b: &Bench, naming: Naming, seed: u64) {
    let mut dice = Dice(seed);
    let config = config(naming);
    let mut kept = Kept::default();
    for round in 0..8 {
        let subtasks = 1 + u32::try_from(dice.roll(3)).unwrap();
        let together = if dice.roll(2) == 0 { Together::Whole } else { Together::Shares };
        let run = Run::try_start(b, &config, (subtasks, together), &kept).await;
        let mut run = run.unwrap_or_else(|e| panic!("seed {seed}, round {round}: {e}"));
        if run.listed.len() > 2 || dice.roll(2) == 0 {
            run.settle().await;
        }
        for _ in 0..dice.roll(4) {
            run.write(run.written + 3).await;
            kept = run.complete().await;
        }
        // The last checkpoint gets so far, and no further.
        let steps = dice.roll(6);
        run.write(run.written + 4).await;
        if steps > 0 {
            let prepared = run.prepare().await;
            if steps > 1 {
                kept = run.durable(&prepared);
            }
            if steps > 2 {
                run.commit().await;
            }
            if steps > 3 {
                run.settle().await;
            }
            if steps > 4 {
                // Dropped from the list by a durable checkpoint without anything new.
                kept = run.durable(&[]);
            }
            if dice.roll(2) == 0 {
                run.write(run.written + 2).await;
            }
        }
        if dice.roll(2) == 0 {
            run.killed().await;
        }
    }
    let mut last = Run::start(b, &config, 2, &kept).await;
    last.write(last.written + 2).await;
    let end = last.complete().await.covered;
    assert_eq!(sorted(b).await, (0..end).collect::<Vec<_>>(), "seed {seed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_restart_from_the_newest_checkpoint_is_ever_refused() {
    for profile in both() {
        for (naming, seed) in
            (1..=12).map(|s| (if s % 3 == 0 { Naming::Incrementing } else { Naming::Pooled }, s))
        {
            let b = Bench::new(profile.clone()).await;
            life(&b, naming, seed).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_checkpoint_is_refused_though_ids_were_got_ready_since() {
    for profile in both() {
        let name = profile.name;
        let b = Bench::new(profile).await;
        let config = config(Naming::Pooled);
        let mut run = Run::start(&b, &config, 1, &Kept::default()).await;
        run.write(4).await;
        let older = run.complete().await;
        run.complete().await;
        run.write(8).await;
        run.complete().await;
        // Without records: the one before is dropped, and its id is free. It is what shows that there is something newer.
        run.complete().await;
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        run.killed().await;
        let refused = Run::try_start(&b, &config, (1, Together::Whole), &older).await;
        assert!(matches!(refused, Err(RecoverError::Orphans(_))), "{name}: {:?}", refused.map(|r| r.report));
    }
}
