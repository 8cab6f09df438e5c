//! What a producer without transactions leaves in a topic, on the embedded broker and on a real cluster:
//! `KAFKA_2PC_BOOTSTRAP=host:port KAFKA_2PC_TOPIC=name`, where the topic is empty and has two partitions and
//! `max.message.bytes` 10000. `protocol-tests` does that, and has others read it.
#![cfg(feature = "broker")]

mod kit;

use std::time::Duration;

use kafka_2pc::{
    broker::{Broker, BrokerConfig},
    client::{Client, ClientConfig},
    proto::{cause::CauseKind, numbers::Culprits},
    record::RecordRef,
};
use kit::{TOPIC, visible, within};

/// The record that no broker takes; the others of its batch go on without it.
const TOO_LARGE: u32 = 50;

/// Values of partition 0, then those of partition 1; `protocol-tests` expects the same of foreign readers.
fn expected() -> Vec<String> {
    let of = |partition| (0..240).filter(move |n| n % 2 == partition && *n != TOO_LARGE);
    of(0).chain(of(1)).map(value).collect()
}

fn value(number: u32) -> String {
    let bytes = if number == TOO_LARGE { 20_000 } else { 700 };
    format!("{number:05}{}", "-".repeat(bytes - 5))
}

/// The first batch of partition 0 is split, and one record of it given up while others are under way behind it: the
/// partition goes on under the next epoch, in requests that it shares with partition 1, which has the first one.
#[tokio::test]
async fn batches_are_split_and_partitions_go_on_under_epochs_of_their_own() {
    let real = std::env::var("KAFKA_2PC_BOOTSTRAP").ok();
    let mut embedded = None;
    let bootstrap = match real {
        Some(bootstrap) => bootstrap,
        None => {
            let config = BrokerConfig { max_message_bytes: 10_000, ..BrokerConfig::default() };
            let broker = embedded.insert(Broker::start(config).await.expect("a free port"));
            broker.create_topic(TOPIC, 2).expect("a new topic");
            broker.bootstrap()
        }
    };
    let name = std::env::var("KAFKA_2PC_TOPIC").unwrap_or_else(|_| TOPIC.to_owned());
    let client = Client::new(ClientConfig::new(&bootstrap).expect("an address"));
    let topic = within(client.topic(&name)).await.expect("it was created");
    let producer = client.idempotent_producer().batch_size(64 * 1024).linger(Duration::from_secs(60)).start();
    for number in 0..200u32 {
        let (value, partition) = (value(number), i32::from(number % 2 == 1));
        within(producer.send(&topic, Some(partition), RecordRef::value(value.as_bytes())))
            .await
            .expect("taken");
    }
    let told = within(producer.flush()).await.expect_err("one record is too large");
    assert_eq!((told.records, told.unknown, told.cause.kind), (1, 0, CauseKind::RecordTooLarge));
    assert_eq!(told.cause.records, Some(Culprits::Named(vec![u64::from(TOO_LARGE)])));
    for number in 200..240u32 {
        let (value, partition) = (value(number), i32::from(number % 2 == 1));
        within(producer.send(&topic, Some(partition), RecordRef::value(value.as_bytes())))
            .await
            .expect("taken");
        within(producer.flush()).await.expect("stored");
    }
    within(producer.close()).await.expect("nothing is left");
    assert_eq!(visible(&client, &name).await, expected());
}
