//! Transactions of complete checkpoints that somebody else aborts.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use kafka_2pc::{
    broker::{Api, Broker, Fault, Reaction},
    checkpoint::{
        CheckpointStore, MemoryStore,
        runner::{JobEvent, Observer, SinkSpec},
    },
    client::Client,
    ids::TransactionalId,
    proto::recovery::OnLost,
};

use super::*;

fn losing(on_lost: OnLost) -> Pipeline {
    let pipeline = Pipeline::new("job");
    let mut config = SinkConfig::new("job").unwrap();
    config.on_lost = on_lost;
    let counted = by_key(pipeline.source("numbers", 1, numbers(Some(10_000)))).process("count", 1, || count);
    by_key(counted).sink("out", 1, SinkSpec { topic: kit::TOPIC.to_owned(), config });
    pipeline
}

/// The first EndTxn waits for so long.
fn delay_commit(b: &Bench, delay: Duration) {
    b.broker.inject(Fault::on(Api::EndTxn, Reaction::Delay(delay)));
}

/// Aborts what job-0-0 has prepared, once its commit is on the way.
async fn take_over(broker: &Broker) {
    while broker.requests(Api::EndTxn) < 1 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let client = Client::new(kit::config_for(broker));
    client.transactional_producer(TransactionalId::new("job-0-0")).init().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loss_while_the_job_runs_is_passed_over_and_counted_where_that_was_asked_for() {
    for profile in both() {
        let b = Bench::new(profile).await;
        delay_commit(&b, Duration::from_millis(300));
        let mut store = MemoryStore::default();
        let (job, mut config) = (losing(OnLost::Skip), config());
        let told = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&told);
        config.observer = Observer::new(move |_, event| match event {
            JobEvent::NotCommitted { transactional_id, .. } => {
                heard.lock().unwrap().push(("not committed", transactional_id.to_string()));
            }
            JobEvent::GivenUp { transactional_id, .. } => {
                heard.lock().unwrap().push(("given up", transactional_id.to_string()));
            }
            _ => {}
        });
        let (summary, ()) = tokio::join!(finish(&b, &mut store, &job, &config), take_over(&b.broker));
        let [lost] = &summary.lost[..] else { panic!("{summary:?}") };
        assert!(lost.proven && lost.committable.transactional_id.as_str() == "job-0-0", "{}", lost.story);
        let both = ["not committed", "given up"].map(|what| (what, "job-0-0".to_owned()));
        assert_eq!(*told.lock().unwrap(), both);
        let records = lost.committable.records();
        assert!(records > 0);
        assert_eq!(b.committed().await.len() as u64, RECORDS - records);
        assert!(finish(&b, &mut store, &losing(OnLost::Fail), &config).await.lost.is_empty(), "told once");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loss_that_a_restart_finds_fails_the_job_or_is_passed_over_and_counted() {
    for profile in both() {
        let b = Bench::new(profile).await;
        delay_commit(&b, Duration::from_secs(30));
        let mut store = MemoryStore::default();
        let job = losing(OnLost::Fail);
        let config = config();
        tokio::select! {
            ended = job.run(&b.client, &mut store, &config, pending()) => panic!("{ended:?}"),
            () = take_over(&b.broker) => {}
        }
        assert!(!store.load().await.unwrap().unwrap().committables.is_empty());
        let client = Client::new(kit::config_for(&b.broker));
        let (error, _) = within(job.run(&client, &mut store, &config, pending())).await.unwrap_err();
        assert!(error.is_lost(), "{error}");
        let run = losing(OnLost::Skip);
        let run = run.run(&client, &mut store, &config, pending());
        let summary = tokio::time::timeout(Duration::from_secs(60), run).await.unwrap().unwrap();
        let [lost] = &summary.lost[..] else { panic!("{summary:?}") };
        assert_eq!(b.committed().await.len() as u64, RECORDS - lost.committable.records());
        assert!(summary.finished);
    }
}
