//! Transactions that come near to their timeout, and timeouts that brokers refuse.
#![cfg(feature = "broker")]
#![expect(clippy::unwrap_used, reason = "tests")]

mod kit;

use std::time::Duration;

use kafka_2pc::{
    broker::{Api, BrokerConfig, Profile, Reaction},
    proto::deadline::{Age, Stage},
    sink::{PrepareFailure, RecoverError, SinkConfig, SinkConfigError},
};
use kit::{
    Bench, both,
    job::{Kept, Run, Together},
    within,
};

fn config(timeout: Duration) -> SinkConfig {
    let mut config = SinkConfig::new("job").unwrap();
    config.transaction_timeout = timeout;
    config.checkpoint_interval = Duration::from_millis(1);
    config.tolerated_outage = Duration::ZERO;
    config
}

#[tokio::test]
async fn a_transaction_that_is_too_old_is_not_prepared_and_its_records_come_with_the_restart() {
    for profile in both() {
        // The broker would still take the commit: it looks for what has timed out every ten seconds.
        let b = Bench::new(profile).await;
        let config = config(Duration::from_millis(50));
        let mut run = Run::start(&b, &config, 1, &Kept::default()).await;
        run.write(2).await;
        tokio::time::sleep(Duration::from_millis(60)).await;
        let error = within(run.writers[0].prepare_commit(1)).await.unwrap_err();
        assert!(
            matches!(&error.source, PrepareFailure::TooOld(old) if old.timeout.as_millis() == 50),
            "{error}"
        );
        drop(run);
        let mut again = Run::start(&b, &config, 1, &Kept::default()).await;
        again.write(2).await;
        again.complete().await;
        assert_eq!(b.committed().await, ["0", "1"]);
    }
}

#[tokio::test]
async fn what_is_open_or_prepared_for_long_is_told_until_it_is_committed() {
    let b = Bench::new(Profile::kafka_4_4()).await;
    let mut run = Run::start(&b, &config(Duration::from_secs(900)), 1, &Kept::default()).await;
    run.write(1).await;
    assert_eq!(run.writers[0].warnings(), []);
    drop(run);

    let mut run = Run::start(&b, &config(Duration::from_millis(400)), 1, &Kept::default()).await;
    run.write(1).await;
    let prepared = run.prepare().await;
    run.write(2).await;
    tokio::time::sleep(Duration::from_millis(210)).await;
    run.writers[0].tick().unwrap();
    let told = |run: &Run| -> Vec<_> {
        let warnings = run.writers[0].warnings().into_iter();
        warnings.filter(|w| w.age >= Age::Half).map(|w| w.stage).collect()
    };
    assert_eq!(told(&run), [Stage::Prepared, Stage::Open]);
    run.durable(&prepared);
    run.commit().await;
    assert_eq!(told(&run), [Stage::Open]);
    within(run.writers[0].abort()).await.unwrap();
    assert_eq!(told(&run), []);
}

#[tokio::test]
async fn a_timeout_over_the_brokers_limit_is_refused_with_both_numbers() {
    for profile in both() {
        let limit = BrokerConfig { profile, max_transaction_timeout_ms: 60_000, ..BrokerConfig::default() };
        let b = Bench::with(limit).await;
        let long = config(Duration::from_secs(3600));
        let refused = Run::try_start(&b, &long, (1, Together::Whole), &Kept::default()).await;
        let Err(RecoverError::Config(error @ SinkConfigError::TimeoutOverLimit { .. })) = refused else {
            panic!()
        };
        let told = error.to_string();
        assert!(told.contains("3600000") && told.contains("60000"), "{told}");

        // Where the broker does not tell its limit, it refuses the first transaction.
        b.fault(Api::DescribeConfigs, Reaction::ErrorCode(31));
        let mut run = Run::start(&b, &long, 1, &Kept::default()).await;
        run.write(1).await;
        let error = within(run.writers[0].prepare_commit(1)).await.unwrap_err();
        assert!(error.to_string().contains("transaction.max.timeout.ms"), "{error}");
    }
}

#[tokio::test]
async fn settings_that_cannot_work_are_refused_by_recovery_too() {
    let b = Bench::new(Profile::kafka_4_4()).await;
    let mut none = config(Duration::from_secs(900));
    none.slots = 0;
    let refused = Run::try_start(&b, &none, (1, Together::Whole), &Kept::default()).await;
    assert!(matches!(refused, Err(RecoverError::Config(SinkConfigError::OutOfRange { name: "slots", .. }))));
    let refused =
        Run::try_start(&b, &config(Duration::from_secs(900)), (0, Together::Whole), &Kept::default()).await;
    assert!(matches!(refused, Err(RecoverError::Naming(_))));
}
