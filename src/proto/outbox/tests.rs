use super::*;

const NODE: NodeId = NodeId(1);

fn outbox() -> Outbox {
    let limits = Limits {
        in_flight: 5,
        first_batch: FirstBatch::Pipelined,
        request_bytes: 1000,
        retry: Duration::from_millis(100),
        retry_max: Duration::from_secs(1),
    };
    Outbox::new(limits, 1)
}

fn p(partition: i32) -> TopicPartition {
    TopicPartition::new("t", partition)
}

/// The topic's id.
const OLD: TopicId = TopicId([1; 16]);

fn batch(id: u64, records: i32) -> Batch {
    Batch { id: BatchId(id), topic: OLD, records, bytes: 100, deadline: Moment(120_000_000) }
}

fn drain(o: &mut Outbox, now: u64) -> Vec<(u64, i32)> {
    let requests = o.drain(Moment(now), |_| Some(NODE));
    for r in &requests {
        o.close(r.request);
    }
    requests.iter().flat_map(|r| &r.items).map(|i| (i.batch.0, i.sequence)).collect()
}

fn learn(o: &mut Outbox, now: u64, batch: u64, fact: BatchFact<()>) -> Step<()> {
    o.learn(Moment(now), &p(0), BatchId(batch), fact)
}

#[test]
fn sequences_run_on_and_wrap_as_kafka_does() {
    assert_eq!(increment_sequence(0, 3), 3);
    assert_eq!(increment_sequence(i32::MAX - 2, 2), i32::MAX);
    assert_eq!(increment_sequence(i32::MAX - 2, 3), 0);
    assert_eq!(increment_sequence(i32::MAX, 1), 0);
    assert_eq!(increment_sequence(i32::MAX, 5), 4);
}

#[test]
fn a_request_carries_one_batch_of_every_partition() {
    let mut o = outbox();
    assert!(o.push(p(0), batch(1, 2)));
    assert!(!o.push(p(0), batch(2, 3)));
    assert!(o.push(p(1), batch(3, 1)));
    let requests = o.drain(Moment(0), |_| Some(NODE));
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].items.len(), 2);
    assert_eq!(drain(&mut o, 0), [(2, 2)]);
}

#[test]
fn a_failed_batch_is_sent_again_alone_with_the_same_sequence() {
    let mut o = outbox();
    for id in 1..=3 {
        o.push(p(0), batch(id, 10));
        drain(&mut o, 0);
    }
    assert_eq!(learn(&mut o, 0, 1, BatchFact::Retry), Step::Again { metadata: false });
    assert_eq!(learn(&mut o, 0, 2, BatchFact::OutOfOrder), Step::Again { metadata: false });
    assert_eq!(drain(&mut o, 1_000_000), [], "batch 3 is still in flight");
    assert_eq!(learn(&mut o, 0, 3, BatchFact::OutOfOrder), Step::Again { metadata: false });
    assert_eq!(drain(&mut o, 10), [], "the wait is not over");
    assert_eq!(drain(&mut o, 1_000_000), [(1, 0)]);
    assert_eq!(drain(&mut o, 1_000_000), [], "one at a time");
    learn(&mut o, 1_000_000, 1, BatchFact::Stored(Some(0)));
    assert_eq!(drain(&mut o, 2_000_000), [(2, 10)]);
    learn(&mut o, 2_000_000, 2, BatchFact::Stored(Some(10)));
    assert_eq!(drain(&mut o, 3_000_000), [(3, 20)]);
    learn(&mut o, 3_000_000, 3, BatchFact::Stored(Some(20)));
    assert!(o.is_empty());
}

#[test]
fn a_leader_that_is_named_is_asked_at_once_and_waited_for_if_it_refuses_too() {
    let mut o = outbox();
    for id in 1..=2 {
        o.push(p(0), batch(id, 10));
        drain(&mut o, 0);
    }
    for id in 1..=2 {
        assert_eq!(learn(&mut o, 0, id, BatchFact::RetryAt(NodeId(2))), Step::Moved(NodeId(2)));
    }
    assert_eq!(drain(&mut o, 5_000), [(1, 0)], "batches that failed together wait once");
    assert_eq!(learn(&mut o, 5_000, 1, BatchFact::RetryAt(NodeId(2))), Step::Moved(NodeId(2)));
    assert_eq!(drain(&mut o, 100_000), []);
    assert_eq!(drain(&mut o, 300_000), [(1, 0)]);
}

#[test]
fn a_gap_with_nothing_missing_before_it_is_a_gap() {
    let mut o = outbox();
    o.push(p(0), batch(1, 1));
    drain(&mut o, 0);
    assert_eq!(learn(&mut o, 0, 1, BatchFact::OutOfOrder), Step::Gap { partition: p(0) });
}

#[test]
fn at_most_five_requests_are_in_flight_to_a_broker() {
    let mut o = outbox();
    for id in 0..7 {
        o.push(p(0), batch(id, 1));
    }
    let mut sent = 0;
    while !o.drain(Moment(0), |_| Some(NODE)).is_empty() {
        sent += 1;
    }
    assert_eq!(sent, 5);
    assert_eq!(o.close(RequestId(0)).len(), 1);
    learn(&mut o, 0, 0, BatchFact::Stored(Some(0)));
    assert_eq!(drain(&mut o, 0).len(), 1);
}

#[test]
fn a_partition_without_a_leader_waits_and_expires() {
    let mut o = outbox();
    o.push(p(0), batch(1, 1));
    assert!(o.drain(Moment(0), |_| None).is_empty());
    assert_eq!(o.waiting().count(), 1);
    assert_eq!(o.expired(Moment(119_999_999)), None);
    assert_eq!(o.expired(Moment(120_000_000)), Some(&p(0)));
    assert_eq!(o.discard(), [BatchId(1)]);
    assert!(o.is_empty());
}

#[test]
fn requests_stay_under_their_size() {
    let mut o = outbox();
    for partition in 0..15 {
        o.push(p(partition), batch(partition.unsigned_abs().into(), 1));
    }
    let first = o.drain(Moment(0), |_| Some(NODE));
    assert_eq!(first[0].items.len(), 10);
    assert_eq!(o.drain(Moment(0), |_| Some(NODE))[0].items.len(), 5);
}

#[test]
fn batches_that_fail_together_wait_once() {
    let mut o = outbox();
    for id in 1..=5 {
        o.push(p(0), batch(id, 10));
        drain(&mut o, 0);
    }
    for id in 1..=5 {
        learn(&mut o, 0, id, BatchFact::Retry);
    }
    assert_eq!(drain(&mut o, 100_000), [(1, 0)], "after the first wait, not after five");
}

#[test]
fn however_late_the_others_of_a_failure_are_answered_they_add_no_wait() {
    for (late, until) in [
        (BatchFact::OutOfOrder, 4_000),
        (BatchFact::RetrySoon, 4_000),
        (BatchFact::RetryAt(NodeId(2)), 4_000),
        (BatchFact::Retry, 4_000),
    ] {
        let mut o = outbox();
        for id in 1..=5 {
            o.push(p(0), batch(id, 10));
            drain(&mut o, 0);
        }
        learn(&mut o, 0, 1, BatchFact::RetrySoon);
        // The broker has got over it meanwhile, and finds that these are not the next.
        for id in 2..=5 {
            learn(&mut o, 3_000, id, late.clone());
        }
        assert_eq!(drain(&mut o, until), [(1, 0)], "{late:?}");
        // It is as if the others had never been there.
        learn(&mut o, 5_000, 1, BatchFact::RetrySoon);
        assert_eq!(drain(&mut o, 6_000), [(1, 0)], "{late:?}");
    }
}

#[test]
fn parts_of_a_batch_that_another_one_has_passed_are_not_sent_behind_it() {
    let mut o = outbox();
    o.push(p(0), batch(1, 10));
    o.push(p(0), batch(2, 10));
    assert_eq!((drain(&mut o, 0), drain(&mut o, 0)), (vec![(1, 0)], vec![(2, 10)]));
    // The first is too large, and is to be split; before that is done the second is stored, in a log that was created anew.
    assert!(o.can_replace(&p(0), BatchId(1)));
    learn(&mut o, 0, 2, BatchFact::Stored(Some(0)));
    assert!(o.replace(&p(0), BatchId(1), &[batch(3, 5), batch(4, 5)]));
    for part in [3, 4] {
        assert_eq!(drain(&mut o, 0)[0].0, part);
        let refused = o.trouble(Moment(0), &p(0), BatchId(part), Trouble::OutOfOrder);
        assert_eq!(refused, Resolved::Over(Fate::NotStored));
    }
    assert_eq!(o.broken().count(), 0);
    assert!(o.is_empty());
}

#[test]
fn a_first_batch_that_leaves_alone_is_waited_for() {
    let mut o = outbox();
    o.limits.first_batch = FirstBatch::Alone;
    for id in 1..=3 {
        o.push(p(0), batch(id, 10));
    }
    assert_eq!(drain(&mut o, 0), [(1, 0)]);
    assert_eq!(drain(&mut o, 0), []);
    learn(&mut o, 0, 1, BatchFact::Stored(Some(0)));
    assert_eq!(drain(&mut o, 0), [(2, 10)]);
    assert_eq!(drain(&mut o, 0), [(3, 20)]);
}

#[test]
fn no_partition_waits_for_ever_behind_busier_ones_of_its_leader() {
    let limits = Limits { in_flight: 1, request_bytes: 200, ..outbox().limits };
    let mut o = Outbox::new(limits, 1);
    let mut next = 100;
    o.push(p(2), batch(1, 1));
    for _ in 0..100 {
        for partition in 0..2 {
            o.push(p(partition), batch(next, 1));
            next += 1;
        }
        let requests = o.drain(Moment(0), |_| Some(NODE));
        for r in &requests {
            o.close(r.request);
            for item in &r.items {
                if item.batch == BatchId(1) {
                    return;
                }
                o.learn::<()>(Moment(0), &item.partition, item.batch, BatchFact::Stored(None));
            }
        }
    }
    panic!("the third partition never had a turn");
}
