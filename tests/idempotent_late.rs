//! The producer without transactions, and what a dead connection still carries: requests that may have been carried out, or
//! will be, after the next connection was used.
#![cfg(feature = "broker")]
#![expect(clippy::unwrap_used, reason = "a test ends where something is missing")]

mod kit;

use std::time::Duration;

use kafka_2pc::{
    broker::{Api, Fault, Profile, Reaction},
    client::{Delivery, Producer},
    ids::TopicPartition,
    record::RecordRef,
};
use kit::{Bench, TOPIC, numbered, within};

/// `request.timeout.ms`, after which a connection that says nothing is given up.
const GIVEN_UP: Duration = Duration::from_secs(30);
/// How long before and after that moment this looks.
const ASIDE: Duration = Duration::from_secs(1);

/// Sends a value in a batch of its own.
async fn send(b: &Bench, producer: &Producer, value: &str) -> Delivery {
    let topic = b.client.topic(TOPIC).await.unwrap();
    within(producer.send_tracked(&topic, Some(0), RecordRef::value(value.as_bytes()))).await.unwrap()
}

/// What became of five batches under way on a connection that died, in front of what was written later.
struct Story {
    /// Whether each is stored, as its handle says; `None` if that is not known.
    told: Vec<Option<bool>>,
    visible: Vec<String>,
}

/// What the next connection meets before the late copies arrive.
#[derive(Debug, Clone, Copy)]
enum Meets {
    /// Nothing.
    Nothing,
    /// The first try on it is answered like that.
    Answer(Reaction),
    /// A log that was cut back to nothing (an unclean election).
    EmptyLog,
}

/// Five batches leave on a connection that says nothing more. The next one `meets` something, and the late copies of all five
/// arrive while the `nth` try on it is under way.
async fn reopened(profile: Profile, meets: &Meets, nth: u64) -> Story {
    let b = Bench::in_memory(profile).await;
    let producer = b.client.idempotent_producer().batch_size(1).start();
    within(send(&b, &producer, "before").await.stored()).await.unwrap();
    let held = b.broker.inject(Fault::on(Api::Produce, Reaction::HoldUntilDelivered));
    let mut deliveries = Vec::new();
    for value in numbered("v", 5) {
        deliveries.push(send(&b, &producer, &value).await);
    }
    tokio::time::sleep(GIVEN_UP - ASIDE).await;
    assert_eq!(b.broker.hits(held), 1, "they are on their way");
    // From here on only the next connection is asked.
    match meets {
        Meets::Nothing => {}
        Meets::Answer(reaction) => _ = b.broker.inject(Fault::on(Api::Produce, *reaction)),
        Meets::EmptyLog => b.broker.truncate(&TopicPartition::new(TOPIC, 0), 0).unwrap(),
    }
    // One that was answered already does not wait as well.
    let slow = b.broker.inject(Fault::on(Api::Produce, Reaction::Delay(5 * ASIDE)).nth(nth));
    tokio::time::sleep(3 * ASIDE).await;
    assert_eq!(b.broker.hits(slow), 1, "the next connection is in use");
    b.broker.deliver_held();
    let mut told = Vec::new();
    for delivery in deliveries {
        told.push(match delivery.stored().await {
            Ok(_) => Some(true),
            Err(cause) if cause.outcome_unknown() => None,
            Err(_) => Some(false),
        });
    }
    _ = producer.flush().await;
    within(send(&b, &producer, "after").await.stored()).await.unwrap();
    within(producer.close()).await.unwrap();
    Story { told, visible: b.visible().await }
}

#[tokio::test(start_paused = true)]
async fn late_copies_beside_their_repeats_are_stored_once_and_in_order() {
    // NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS, REQUEST_TIMED_OUT.
    let retriable = [
        Reaction::ErrorCode(6),
        Reaction::ErrorCode(19),
        Reaction::ApplyThenErrorCode(7),
        Reaction::ApplyThenDrop,
    ];
    let all = retriable.map(Meets::Answer).into_iter().chain([Meets::Nothing]);
    for (meets, nth) in all.flat_map(|meets| (1..=5).map(move |nth| (meets, nth))) {
        for profile in [Profile::kafka_4_4(), Profile::redpanda()] {
            let story = reopened(profile, &meets, nth).await;
            assert_eq!(story.told, [Some(true); 5], "{meets:?}, {nth}");
            let wanted = [vec!["before".to_owned()], numbered("v", 5), vec!["after".to_owned()]].concat();
            assert_eq!(story.visible, wanted, "{meets:?}, {nth}");
        }
    }
}

/// The first batch is refused for good by the next connection, or the log has lost what was before it: whatever is told agrees
/// with the log, and nothing is there twice or behind what came later.
#[tokio::test(start_paused = true)]
async fn late_copies_of_what_was_given_up_or_begun_anew_do_no_harm() {
    // INVALID_RECORD, UNKNOWN_SERVER_ERROR.
    let refusals = [87, -1].map(|code| Meets::Answer(Reaction::ErrorCode(code)));
    let mut unknown = 0;
    for (meets, nth) in
        refusals.into_iter().chain([Meets::EmptyLog]).flat_map(|m| (1..=3).map(move |nth| (m, nth)))
    {
        let story = reopened(Profile::kafka_4_4(), &meets, nth).await;
        let (told, visible) = (&story.told, &story.visible);
        let mut wanted: Vec<_> = numbered("v", 5);
        for (value, told) in numbered("v", 5).iter().zip(told) {
            let found = visible.iter().filter(|v| *v == value).count();
            match told {
                Some(stored) => {
                    assert_eq!(found, usize::from(*stored), "{value}: {meets:?}, {nth}: {visible:?}")
                }
                None => assert!(found <= 1, "{value}: {meets:?}, {nth}: {visible:?}"),
            }
            unknown += usize::from(told.is_none());
        }
        wanted.retain(|value| visible.contains(value));
        wanted.push("after".to_owned());
        let behind = usize::from(!matches!(meets, Meets::EmptyLog));
        assert_eq!(visible[behind..], wanted, "{meets:?}, {nth}: {told:?}");
        if matches!(meets, Meets::EmptyLog) {
            assert_eq!(*told, [Some(true); 5], "{nth}");
        }
    }
    assert!(unknown > 0, "of what was given up somebody must not know");
}
