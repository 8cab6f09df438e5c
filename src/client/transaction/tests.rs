use super::*;
use crate::{
    client::{ClientConfig, ProducerBuilder, producer::Next, router::Router},
    ids::TransactionalId,
    net::TcpConnector,
    proto::cause::CauseKind,
};

/// On brokers that nobody finds.
fn builder() -> ProducerBuilder {
    let router = Router::new(ClientConfig::new("localhost:1").unwrap(), Arc::new(TcpConnector));
    ProducerBuilder::new(Arc::new(router), TransactionalId::new("t"))
}

/// A transaction whose task is the test.
fn transaction(builder: ProducerBuilder) -> (Transaction, mpsc::UnboundedReceiver<Command>) {
    let (commands, received) = mpsc::unbounded_channel();
    (Transaction::new(builder.lazy().shared, Arc::default(), commands), received)
}

#[tokio::test]
async fn records_that_could_not_be_compressed_are_not_committed_without() {
    for goal in [Goal::Prepare, Goal::Commit] {
        let (mut transaction, mut received) = transaction(builder().linger(Duration::ZERO));
        let topic = Topic::sample("t", 2);
        let place = transaction.append(&topic, Some(0), &RecordRef::value(b"v")).unwrap();
        transaction.records.spoil(place);
        // Some of them are closed before the end.
        transaction.tick().unwrap_err();
        let mut asked = Vec::new();
        let task = async {
            while let Some(command) = received.recv().await {
                if let Command::End(goal, _, reply) = command {
                    asked.push(goal);
                    _ = reply.send(Ending::Aborted(Next::Bare, Cause::new(CauseKind::Dropped, "")));
                }
            }
        };
        let (ending, ()) = futures::join!(transaction.end(goal), task);
        assert!(matches!(&ending, Ending::Failed(cause) if cause.kind == CauseKind::Refused), "{ending:?}");
        assert_eq!(asked, [Goal::Abort]);
    }
}

#[test]
fn what_was_begun_when_the_runtime_ended_takes_no_more() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let topic = Topic::sample("t", 1);
    for has_run in [true, false] {
        let first = runtime();
        let mut transaction = first.block_on(async {
            let mut transaction = builder().buffer_memory(2048).lazy().begin();
            if has_run {
                tokio::task::yield_now().await;
            }
            transaction.try_send(&topic, Some(0), RecordRef::value(&[7; 1024])).unwrap();
            transaction
        });
        // One waits for memory meanwhile.
        let mut full = Box::pin(transaction.send(&topic, Some(0), RecordRef::value(&[7; 1024])));
        assert!(first.block_on(async { futures::poll!(&mut full) }).is_pending());
        drop(first);
        let told = full.now_or_never().expect("told at once").unwrap_err();
        assert!(matches!(&told, SendError::Failed(cause) if cause.kind == CauseKind::Dropped), "{told:?}");
        let refused = transaction.try_send(&topic, Some(0), RecordRef::value(b"v")).unwrap_err();
        assert!(matches!(refused, TrySendError::Failed(_)), "{refused:?}");
    }
}

#[tokio::test]
async fn who_finds_memory_full_asks_once_to_be_woken_for_what_lingers() {
    let builder = builder().linger(Duration::from_secs(3600)).buffer_memory(40 << 10).batch_size(16 << 10);
    let (mut transaction, mut received) = transaction(builder);
    let topic = Topic::sample("t", 2);
    let record = RecordRef::value(&[7; 1024]);
    let now = transaction.shared.router.clock.now();
    transaction.try_send(&topic, Some(1), record).unwrap();
    while transaction.try_send(&topic, Some(0), record).is_ok() {}
    assert_eq!(transaction.try_send(&topic, Some(0), record), Err(TrySendError::Full));
    let mut alarms = Vec::new();
    while let Ok(command) = received.try_recv() {
        if let Command::Wake(at) = command {
            alarms.extend(at);
        }
    }
    assert_eq!(alarms.len(), 1);
    assert!(alarms[0] >= now.after(Duration::from_secs(3600)));
}
