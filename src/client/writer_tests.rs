use super::*;
use crate::{
    client::{ClientConfig, ProducerBuilder, router::Router},
    ids::{ProducerEpoch, ProducerId, TransactionalId},
    net::TcpConnector,
};

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test(start_paused = true)]
async fn whoever_waits_for_memory_is_woken_when_he_asked_for_it() {
    let router = Router::new(ClientConfig::new("localhost:1").unwrap(), Arc::new(TcpConnector));
    let clock = router.clock;
    let shared = ProducerBuilder::new(Arc::new(router), TransactionalId::new("t")).lazy().shared;
    let link = Arc::new(Link::default());
    let (commands, received) = mpsc::unbounded_channel();
    let identity = Identity { producer_id: ProducerId(1), epoch: ProducerEpoch(0) };
    let task = Task::new(shared, Arc::clone(&link), identity, TransactionVersion::V2);
    let at = clock.now().after(HOUR);
    commands.send(Command::Wake(Some(at))).unwrap();
    tokio::select! {
        () = task.run(received, Next::Bare) => panic!("nobody has ended it"),
        () = link.freed() => assert!(clock.now() >= at),
        () = tokio::time::sleep(2 * HOUR) => panic!("nobody was woken"),
    }
}
