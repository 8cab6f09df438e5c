//! Answers that can be read, and say what can not be.

use kafka_2pc::client::EndError;
use kafka_2pc::wire::api::Api;
use kafka_protocol::messages::{
    AddPartitionsToTxnRequest, ApiVersionsRequest, BrokerId, FetchRequest, FindCoordinatorRequest,
    MetadataRequest, ProduceRequest, TopicName,
};
use kafka_protocol::protocol::StrBytes;
use uuid::Uuid;

use super::play::{Told, path, survived, transaction};
use super::reading::{Reading, harmless};
use super::watch::Watch;
use crate::bench::{Bench, within};
use crate::outcome::{Failure, Shown, equal, holds};
use crate::tap::Tap;

/// INVALID_RECORD.
const INVALID_RECORD: i16 = 87;

/// What stands twice in an answer is one thing; of two that contradict each other at most one counts.
pub(super) async fn l17(bench: &Bench) -> Shown {
    let metadata = |tap: &Tap| {
        tap.rewrite::<MetadataRequest>(u32::MAX, |answer| {
            let mut other = answer.topics.clone();
            for partition in other.iter_mut().flat_map(|topic| &mut topic.partitions) {
                partition.leader_epoch = -1;
            }
            for topic in &mut answer.topics {
                topic.partitions.extend(topic.partitions.clone());
            }
            answer.topics.extend(other);
            true
        });
    };
    alive(bench, "topics twice", metadata).await?;
    let produce = |tap: &Tap| {
        tap.rewrite::<ProduceRequest>(u32::MAX, |answer| {
            for topic in &mut answer.responses {
                topic.partition_responses.extend(topic.partition_responses.clone());
            }
            answer.responses.extend(answer.responses.clone());
            true
        });
    };
    alive(bench, "partitions twice", produce).await?;
    let coordinators = |tap: &Tap| {
        tap.rewrite::<FindCoordinatorRequest>(u32::MAX, |answer| {
            answer.coordinators.extend(answer.coordinators.clone());
            true
        });
    };
    alive(bench, "the coordinator twice", coordinators).await?;
    if !bench.v2() {
        let added = |tap: &Tap| {
            tap.rewrite::<AddPartitionsToTxnRequest>(u32::MAX, |answer| {
                answer.results_by_topic_v3_and_below.extend(answer.results_by_topic_v3_and_below.clone());
                true
            });
        };
        alive(bench, "added twice", added).await?;
    }
    let reading = Reading::new(bench).await?;
    harmless(bench, &reading, "fetched twice", |answer| {
        answer.responses.extend(answer.responses.clone());
        true
    })
    .await
}

/// Every answer is so, and the transaction is committed all the same.
async fn alive(bench: &Bench, what: &str, arm: impl FnOnce(&Tap)) -> Shown {
    let watch = Watch::begin();
    let client = bench.client()?;
    let topic = bench.topic(&bench.untapped()?, 1).await?;
    arm(&bench.tap);
    equal(what, transaction(bench, &client, &topic, "v").await?, Told::Committed)?;
    bench.tap.clear();
    equal(&format!("{what}: committed"), bench.committed(&topic).await?, ["v"])?;
    watch.end(what)
}

/// What nobody asked for is passed over, whatever it says; records that nobody asked for are not handed out.
pub(super) async fn l18(bench: &Bench) -> Shown {
    let stranger = || TopicName(StrBytes::from_static_str("stranger"));
    let metadata = move |tap: &Tap| {
        tap.rewrite::<MetadataRequest>(u32::MAX, move |answer| {
            let mut other = answer.topics.clone();
            other.iter_mut().for_each(|topic| topic.name = Some(stranger()));
            answer.topics.extend(other);
            true
        });
    };
    alive(bench, "metadata", metadata).await?;
    let produce = move |tap: &Tap| {
        tap.rewrite::<ProduceRequest>(u32::MAX, move |answer| {
            let mut other = answer.responses.clone();
            for topic in &mut other {
                topic.name = stranger();
                topic.topic_id = Uuid::from_u128(77);
                topic.partition_responses.iter_mut().for_each(|p| p.error_code = INVALID_RECORD);
            }
            answer.responses.splice(..0, other);
            true
        });
    };
    alive(bench, "produce", produce).await?;
    let coordinators = |tap: &Tap| {
        tap.rewrite::<FindCoordinatorRequest>(u32::MAX, |answer| {
            let mut other = answer.coordinators.clone();
            for coordinator in &mut other {
                coordinator.key = StrBytes::from_static_str("stranger");
                coordinator.error_code = 15;
            }
            answer.coordinators.splice(..0, other);
            true
        });
    };
    alive(bench, "coordinators", coordinators).await?;
    let reading = Reading::new(bench).await?;
    let fetched = |answer: &mut <FetchRequest as kafka_protocol::protocol::Request>::Response| {
        let mut other = answer.responses.clone();
        for partition in other.iter_mut().flat_map(|topic| &mut topic.partitions) {
            partition.partition_index = 77;
        }
        answer.responses.splice(..0, other);
        true
    };
    harmless(bench, &reading, "fetched", fetched).await
}

/// Codes that no Kafka has mean that the request was refused: nothing is called stored or committed by them.
pub(super) async fn l19(bench: &Bench) -> Shown {
    for api in path(bench).into_iter().filter(|api| *api != Api::Metadata) {
        for code in [-2, 999, i16::MAX, i16::MIN] {
            let (what, watch) = (format!("{code}, {api}"), Watch::begin());
            let client = bench.client_of(bench.config()?.max_block(std::time::Duration::from_secs(2)));
            let topic = bench.topic(&bench.untapped()?, 1).await?;
            bench.refuse(api, code, 1)?;
            let told = transaction(bench, &client, &topic, "first").await?;
            bench.embedded()?.clear_faults();
            equal(&what, transaction(bench, &client, &topic, "second").await?, Told::Committed)?;
            let seen = bench.committed(&topic).await?;
            let both = seen == ["first", "second"];
            let right = match told {
                Told::Committed => both,
                Told::Refused(_) => both || seen == ["second"],
            };
            holds(right, format!("{what}: {told:?}, and visible is {seen:?}"))?;
            watch.end(&what)?;
        }
    }
    end_txn_of_no_code(bench).await
}

/// An EndTxn that is answered by such a code until time is over leaves its committable pending.
async fn end_txn_of_no_code(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let mut open = bench.init(&client, &bench.id("l19")).await?.begin();
    bench.write(&mut open, &topic, 0, &["v"]).await?;
    bench.refuse(Api::EndTxn, 999, 1)?;
    match within(open.commit()).await? {
        Ok(_) | Err(EndError::Pending { .. } | EndError::Outcome(_)) => {}
        Err(other) => return Err(Failure::wrong(format!("the commit: {other:?}"))),
    }
    let seen = bench.visible(&topic).await?;
    holds(seen.is_empty() || bench.tap.count(Api::EndTxn) > 1, format!("visible after one refusal: {seen:?}"))
}

/// Brokers with impossible ids, hosts and ports beside the true one: nobody connects to them, and all goes on.
pub(super) async fn l20(bench: &Bench) -> Shown {
    let impossible: [(&str, i32, &str, i32); 6] = [
        ("a negative id", -5, "127.0.0.1", 9),
        ("no host", 7, "", 9092),
        ("port 0", 7, "127.0.0.1", 0),
        ("a port too large", 7, "127.0.0.1", 70_000),
        ("a negative port", 7, "127.0.0.1", -1),
        ("a broker of the same id at another address", 1, "127.0.0.1", 0),
    ];
    for (what, id, host, port) in impossible {
        let arm = move |tap: &Tap| {
            tap.rewrite::<MetadataRequest>(u32::MAX, move |answer| {
                let Some(mut other) = answer.brokers.first().cloned() else { return false };
                other.node_id = BrokerId(id);
                other.host = StrBytes::from_static_str(host);
                other.port = port;
                answer.brokers.splice(..0, [other]);
                true
            });
        };
        let dials = bench.tap.dials().len();
        alive(bench, what, arm).await?;
        let dialed = &bench.tap.dials()[dials..];
        let bad = |(host, port): &&(String, u16)| host.is_empty() || *port == 0 || *port == 9;
        equal(&format!("{what}: impossible addresses dialed"), dialed.iter().filter(bad).count(), 0)?;
    }
    let long = |tap: &Tap| {
        tap.rewrite::<MetadataRequest>(u32::MAX, |answer| {
            let Some(mut other) = answer.brokers.first().cloned() else { return false };
            other.node_id = BrokerId(7);
            other.host = StrBytes::from_string("h".repeat(32_000));
            answer.brokers.push(other);
            true
        });
    };
    alive(bench, "a host of 32 kB", long).await
}

/// Impossible ranges of versions: what both can not speak is refused by its name, and what they can is spoken.
pub(super) async fn l21(bench: &Bench) -> Shown {
    let absurd = |tap: &Tap| {
        tap.rewrite::<ApiVersionsRequest>(u32::MAX, |answer| {
            answer.api_keys.iter_mut().for_each(|range| range.max_version = i16::MAX);
            let mut strange = answer.api_keys[0].clone();
            strange.api_key = -7;
            answer.api_keys.push(strange);
            true
        });
    };
    let greeted = |tap: &Tap| {
        tap.rewrite::<ApiVersionsRequest>(u32::MAX, |answer| {
            answer.api_keys.extend(answer.api_keys.clone());
            answer.api_keys.iter_mut().for_each(|range| range.min_version = i16::MIN);
            true
        });
    };
    alive(bench, "every range twice, from the least version", greeted).await?;
    // The broker does not understand versions that it does not have: only that the client chooses none of them is shown.
    let before = bench.tap.requests().len();
    let client = bench.client_of(bench.config()?.max_block(std::time::Duration::from_secs(1)));
    let topic = bench.topic(&bench.untapped()?, 1).await?;
    absurd(&bench.tap);
    _ = transaction(bench, &client, &topic, "v").await?;
    bench.tap.clear();
    let known = |api| kafka_2pc::wire::versions::supported(api).max;
    let requests = bench.tap.requests();
    let beyond = requests[before..].iter().filter(|r| r.version > known(r.api) || r.version < 0).count();
    equal("requests of a version that is not ours", beyond, 0)?;
    for (what, min, max) in
        [("min above max", 9, 3), ("below every version", -9, -3), ("far above", 900, 901)]
    {
        let client = bench.client_of(bench.config()?.max_block(std::time::Duration::from_secs(2)));
        let topic = bench.topic(&bench.untapped()?, 1).await?;
        bench.tap.rewrite::<ApiVersionsRequest>(u32::MAX, move |answer| {
            for range in answer.api_keys.iter_mut().filter(|r| r.api_key == Api::Produce.key()) {
                (range.min_version, range.max_version) = (min, max);
            }
            true
        });
        let watch = Watch::begin();
        match transaction(bench, &client, &topic, "v").await? {
            Told::Refused(why) => holds(why.contains("Produce"), format!("{what}: {why}"))?,
            Told::Committed => return Err(Failure::wrong(format!("{what}: committed"))),
        }
        bench.tap.clear();
        equal(&format!("{what}: committed"), bench.committed(&topic).await?.len(), 0)?;
        watch.end(what)?;
    }
    survived(bench, "as it is", |_| {}).await.map(|_| ())
}
