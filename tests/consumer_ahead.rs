//! What a consumer fetches before it is asked for it: how much, what becomes of it, and whom it holds up.
#![cfg(feature = "broker")]
#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]

mod kit;

use std::time::Duration;

use futures::FutureExt;
use kafka_2pc::{
    broker::{Api, BrokerConfig, Fault, Network, Reaction},
    client::{Consumer, ConsumerBuilder, ConsumerError, OutOfRangePolicy, Start},
    ids::{TopicPartition, TransactionalId},
    record::RecordRef,
};
use kit::{Bench, TOPIC, within};

/// A batch of one such value takes more than half of an answer, so that there is one in each.
const VALUE: usize = 500;
const ANSWER: i32 = 700;

fn place(partition: i32) -> TopicPartition {
    TopicPartition::new(TOPIC, partition)
}

async fn in_memory(nodes: usize) -> Bench {
    let config = BrokerConfig { nodes, network: Network::Memory, ..BrokerConfig::default() };
    Bench::with(config).await
}

/// Committed batches of one value each, which begin with these numbers.
async fn fill(b: &Bench, topic: &str, partition: i32, numbers: std::ops::Range<usize>) {
    let topic = b.client.topic(topic).await.unwrap();
    let id = TransactionalId::new(format!("w{partition}-{}", numbers.start));
    let mut transaction = b.client.transactional_producer(id).init().await.unwrap().begin();
    for n in numbers {
        let value = format!("{n:0>VALUE$}");
        transaction.send(&topic, Some(partition), RecordRef::value(value.as_bytes())).await.unwrap();
        transaction.flush().await.unwrap();
    }
    transaction.commit().await.unwrap();
}

/// Answers of one batch each.
fn small(b: &Bench) -> ConsumerBuilder {
    b.client.consumer().max_partition_bytes(ANSWER).max_bytes(ANSWER)
}

fn numbers(records: &[kafka_2pc::client::ConsumerRecord]) -> Vec<usize> {
    let number = |value: &[u8]| std::str::from_utf8(value).unwrap().parse().unwrap();
    records.iter().map(|r| number(r.record.value.as_deref().unwrap())).collect()
}

async fn next(consumer: &mut Consumer) -> Vec<usize> {
    numbers(&within(consumer.next_batch()).await.unwrap())
}

#[tokio::test(start_paused = true)]
async fn the_next_fetch_is_under_way_while_records_are_worked_on() {
    let b = in_memory(1).await;
    fill(&b, TOPIC, 0, 0..4).await;
    let mut consumer = small(&b).build();
    consumer.assign([(place(0), Start::Offset(0))]);
    for n in 0..3 {
        let before = b.broker.requests(Api::Fetch);
        assert_eq!(next(&mut consumer).await, [n]);
        // Nobody asks for records meanwhile.
        tokio::time::sleep(Duration::from_millis(50)).await;
        let asked = b.broker.requests(Api::Fetch) - before;
        assert_eq!(asked, if n == 0 { 2 } else { 1 }, "one for each record, and at first one more");
    }
    let last = consumer.next_batch().now_or_never().expect("it is there already").unwrap();
    assert_eq!(numbers(&last), [3]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_fetched_ahead_that_the_budget_has_no_room_for() {
    for (budget, ahead) in [(ANSWER as usize * 2, 1), (ANSWER as usize, 0), (1, 0)] {
        let b = in_memory(1).await;
        fill(&b, TOPIC, 0, 0..6).await;
        let mut consumer = small(&b).queued_max_bytes(budget).build();
        consumer.assign([(place(0), Start::Offset(0))]);
        let before = b.broker.requests(Api::Fetch);
        assert_eq!(next(&mut consumer).await, [0]);
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(b.broker.requests(Api::Fetch) - before, 1 + ahead, "{budget} bytes");
        // Reading goes on whatever the budget.
        for n in 1..6 {
            assert_eq!(next(&mut consumer).await, [n], "{budget} bytes");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_held_of_all_leaders_together_fits_into_the_budget() {
    const PARTITIONS: usize = 6;
    let b = in_memory(3).await;
    b.broker.create_topic("many", 6).unwrap();
    let name = |partition: usize| TopicPartition::new("many", i32::try_from(partition).unwrap());
    for partition in 0..PARTITIONS {
        fill(&b, "many", i32::try_from(partition).unwrap(), 0..20).await;
    }
    // Of each leader two partitions, and of both as much as may be held.
    let answer = 3 * usize::try_from(ANSWER).unwrap();
    for (budget, fits) in [(3 * answer, true), (100 * answer, false)] {
        let builder = b.client.consumer().max_partition_bytes(2 * ANSWER).queued_max_bytes(budget);
        let mut consumer = builder.build();
        consumer.assign((0..PARTITIONS).map(|p| (name(p), Start::Beginning)));
        let (mut seen, mut most) = (vec![Vec::new(); PARTITIONS], 0);
        while seen.iter().map(Vec::len).sum::<usize>() < 20 * PARTITIONS {
            let batch = within(consumer.next_batch()).await.unwrap();
            seen[usize::try_from(batch[0].partition).unwrap()].extend(numbers(&batch));
            most = most.max(consumer.queued_bytes());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(seen.iter().all(|s| *s == (0..20).collect::<Vec<_>>()), "{seen:?}");
        assert_eq!(most <= 3 * answer, fits, "{most} bytes were held, with a budget of {budget}");
        assert!(most > answer, "{most} bytes: nothing was read ahead");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_there_does_not_wait_for_the_fetch_of_another_partition() {
    let b = in_memory(1).await;
    for partition in 0..2 {
        fill(&b, TOPIC, partition, 0..1).await;
    }
    // Both come with one answer, and there is nothing behind them that the next one could bring.
    let mut consumer = b.client.consumer().max_wait(Duration::from_secs(10)).build();
    consumer.assign((0..2).map(|p| (place(p), Start::Offset(0))));
    let begun = tokio::time::Instant::now();
    assert_eq!(next(&mut consumer).await, [0]);
    assert_eq!(next(&mut consumer).await, [0]);
    assert!(begun.elapsed() < Duration::from_secs(1), "by the clock of the test: {:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_answer_ahead_that_does_not_come_is_asked_for_again() {
    for reaction in [
        Reaction::Drop,
        Reaction::ApplyThenDrop,
        Reaction::ErrorCode(6),
        Reaction::ErrorCode(78),
        // As if the position were not in the log.
        Reaction::ErrorCode(1),
        Reaction::Delay(Duration::from_secs(3)),
    ] {
        for nth in [1, 2, 3] {
            let b = in_memory(1).await;
            fill(&b, TOPIC, 0, 0..6).await;
            b.broker.inject(Fault::on(Api::Fetch, reaction).nth(nth).times(2));
            let mut consumer = small(&b).build();
            consumer.assign([(place(0), Start::Offset(0))]);
            for n in 0..6 {
                assert_eq!(next(&mut consumer).await, [n], "{reaction:?} at fetch {nth}");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_seek_throws_away_what_was_fetched_ahead_and_what_is_under_way() {
    let b = in_memory(1).await;
    fill(&b, TOPIC, 0, 0..8).await;
    for worked in [Duration::ZERO, Duration::from_millis(50)] {
        let mut consumer = small(&b).build();
        consumer.assign([(place(0), Start::Offset(0))]);
        for to in [4, 0, 2, 1] {
            assert_eq!(next(&mut consumer).await.len(), 1);
            tokio::time::sleep(worked).await;
            consumer.seek(&place(0), Start::Offset(to));
            assert_eq!(consumer.queued_bytes(), 0);
            let n = usize::try_from(to).unwrap();
            assert_eq!(next(&mut consumer).await, [n]);
            assert_eq!(next(&mut consumer).await, [n + 1]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_aborted_transaction_is_not_seen_wherever_answers_end() {
    let b = in_memory(1).await;
    fill(&b, TOPIC, 0, 0..1).await;
    let topic = b.topic().await;
    let mut aborted = b.producer("aborted").init().await.unwrap().begin();
    let mut kept = b.producer("kept").init().await.unwrap().begin();
    for n in 1..5 {
        let no = "9".repeat(VALUE);
        aborted.send(&topic, Some(0), RecordRef::value(no.as_bytes())).await.unwrap();
        aborted.flush().await.unwrap();
        let yes = format!("{n:0>VALUE$}");
        kept.send(&topic, Some(0), RecordRef::value(yes.as_bytes())).await.unwrap();
        kept.flush().await.unwrap();
    }
    aborted.abort().await.unwrap();
    kept.commit().await.unwrap();
    fill(&b, TOPIC, 0, 5..7).await;
    let mut consumer = small(&b).build();
    consumer.assign([(place(0), Start::Offset(0))]);
    for n in 0..7 {
        assert_eq!(next(&mut consumer).await, [n]);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_truncated_log_is_noticed_behind_what_was_fetched_before() {
    let b = in_memory(2).await;
    // Each with its marker.
    for n in 0..3 {
        fill(&b, TOPIC, 0, n..n + 1).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let mut consumer = small(&b).build();
    consumer.assign([(place(0), Start::Offset(0))]);
    assert_eq!(next(&mut consumer).await, [0]);
    // The second one is here.
    tokio::time::sleep(Duration::from_millis(50)).await;
    b.broker.truncate(&place(0), 2).unwrap();
    fill(&b, TOPIC, 0, 70..75).await;
    assert_eq!(next(&mut consumer).await, [1], "it was fetched from the log that was");
    let error = within(consumer.next_batch()).await.unwrap_err();
    // The marker behind it may have been passed over.
    let ConsumerError::Truncated { position: 3 | 4, kept: 2, .. } = error else { panic!("{error}") };
    consumer.seek(&place(0), Start::Offset(2));
    assert_eq!(next(&mut consumer).await, [70]);
}

#[tokio::test(start_paused = true)]
async fn a_partition_without_a_leader_for_a_while_is_found_while_others_are_read() {
    let b = in_memory(2).await;
    b.broker.create_topic("many", 4).unwrap();
    let all = || (0..4).map(|p| TopicPartition::new("many", p));
    for place in all() {
        fill(&b, "many", place.partition, 0..30).await;
    }
    let mut consumer = small(&b).out_of_range(OutOfRangePolicy::Error).build();
    consumer.assign(all().map(|p| (p, Start::Beginning)));
    let mut seen = vec![0; 4];
    for round in 0.. {
        if round == 5 {
            b.broker.take_leader(&TopicPartition::new("many", 1)).unwrap();
        }
        if round == 20 {
            b.broker.move_leader(&TopicPartition::new("many", 1), 1).unwrap();
        }
        let batch = within(consumer.next_batch()).await.unwrap();
        let partition = usize::try_from(batch[0].partition).unwrap();
        assert_eq!(numbers(&batch), [seen[partition]], "of partition {partition}");
        seen[partition] += 1;
        if seen == [30; 4] {
            break;
        }
    }
}
