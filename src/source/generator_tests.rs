use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn numbers() -> GeneratorSource {
    GeneratorSource::new(|index| Record::value(index.to_string()))
}

fn index(record: &Record) -> u64 {
    std::str::from_utf8(record.value.as_deref().unwrap()).unwrap().parse().unwrap()
}

async fn indices(reader: &mut dyn SourceReader, batches: usize) -> Vec<u64> {
    let mut seen = Vec::new();
    for _ in 0..batches {
        match reader.next().await.unwrap() {
            None => break,
            Some(records) => {
                assert!(!records.is_empty());
                seen.extend(records.iter().map(index));
            }
        }
    }
    seen
}

/// One run of a job: every subtask hands out some batches, and a checkpoint is taken.
async fn run(source: &GeneratorSource, total: u32, batches: usize, kept: &mut Vec<SplitState>) -> Vec<u64> {
    let mut seen = Vec::new();
    let mut states = Vec::new();
    for subtask in (0..total).map(|index| Subtask::new(index, total)) {
        let mut reader = source.open(subtask, kept).await.unwrap();
        seen.extend(indices(reader.as_mut(), batches).await);
        states.extend(reader.snapshot());
    }
    *kept = states;
    seen
}

fn block_on<F: Future>(work: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(work)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn every_index_comes_exactly_once_however_often_a_job_is_rescaled(
        limit in 0..5000u64,
        shards in 1..20u32,
        runs in proptest::collection::vec((1..6u32, 0..3usize), 0..5),
    ) {
        block_on(async {
            let source = numbers().limit(limit).shards(shards);
            let (mut kept, mut seen) = (Vec::new(), Vec::new());
            for (total, batches) in runs.into_iter().chain([(3, usize::MAX)]) {
                seen.extend(run(&source, total, batches, &mut kept).await);
            }
            seen.sort_unstable();
            assert_eq!(seen, (0..limit).collect::<Vec<_>>());
            assert_eq!(kept.len(), shards as usize, "also a shard at its end is kept");
        });
    }
}

#[tokio::test]
async fn one_subtask_goes_through_the_indices_in_order() {
    let mut reader = numbers().limit(1000).open(Subtask::ONLY, &[]).await.unwrap();
    assert_eq!(indices(reader.as_mut(), usize::MAX).await, (0..1000).collect::<Vec<_>>());
    assert_eq!(reader.next().await.unwrap(), None);
}

#[tokio::test]
async fn without_a_limit_it_goes_on() {
    let mut reader = numbers().open(Subtask::ONLY, &[]).await.unwrap();
    assert_eq!(indices(reader.as_mut(), 10).await, (0..2560).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_checkpoint_of_other_shards_or_of_something_else_is_refused() {
    let mut kept = Vec::new();
    run(&numbers().shards(3), 1, 1, &mut kept).await;
    let error = numbers().shards(2).open(Subtask::ONLY, &kept).await.err().unwrap();
    assert!(matches!(&error, SourceError::Mismatch(_)), "{error}");
    let foreign = [SplitState::new("generator-0", "something")];
    let error = numbers().open(Subtask::ONLY, &foreign).await.err().unwrap();
    assert!(matches!(&error, SourceError::State { split, .. } if split == "generator-0"), "{error}");
}

#[test]
fn numbers_that_contradict_each_other_are_damage() {
    for (of, shard, next) in [(0, 0, 0), (4, 4, 4), (4, 1, 2), (u64::MAX, 1, 1)] {
        let state = Bytes::from(SEAL.seal(Fields::default().u64(of).u64(shard).u64(next)));
        assert!(matches!(Shard::read(&state), Err(StateError::Damaged { .. })), "{of} {shard} {next}");
    }
}

/// What a reader hands out in this time.
async fn during(time: Duration, reader: &mut dyn SourceReader) -> Vec<u64> {
    let mut seen = Vec::new();
    let reading = async {
        while let Some(records) = reader.next().await.unwrap() {
            seen.extend(records.iter().map(index));
        }
    };
    assert!(tokio::time::timeout(time, reading).await.is_err(), "the end");
    seen
}

#[tokio::test(start_paused = true)]
async fn a_rate_is_the_jobs_and_not_a_subtasks() {
    let source = numbers().records_per_second(100);
    for total in [1, 2, 3, 5] {
        let mut count = 0;
        for subtask in (0..total).map(|index| Subtask::new(index, total)) {
            let mut reader = source.open(subtask, &[]).await.unwrap();
            count += during(Duration::from_secs(10), reader.as_mut()).await.len();
        }
        assert!((990..=1010).contains(&count), "{count} in 10 s with {total} subtasks");
    }
}

#[tokio::test(start_paused = true)]
async fn a_restored_job_keeps_to_the_rate_at_once() {
    let source = numbers().records_per_second(10);
    let mut kept = Vec::new();
    run(&source, 1, 50, &mut kept).await;
    tokio::time::advance(Duration::from_secs(3600)).await;
    let mut reader = source.open(Subtask::ONLY, &kept).await.unwrap();
    let seen = during(Duration::from_secs(1), reader.as_mut()).await;
    assert!((10..=11).contains(&seen.len()), "{seen:?}");
    assert_eq!(seen[0], 50);
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_given_up_loses_nothing() {
    let mut reader = numbers().records_per_second(50).limit(100).open(Subtask::ONLY, &[]).await.unwrap();
    let mut seen = Vec::new();
    for patience in (0..).map(|n| Duration::from_millis(n * 7 % 31)) {
        match tokio::time::timeout(patience, reader.next()).await {
            Err(_) => {}
            Ok(records) => match records.unwrap() {
                None => break,
                Some(records) => seen.extend(records.iter().map(index)),
            },
        }
    }
    assert_eq!(seen, (0..100).collect::<Vec<_>>());
}
