//! Produce requests and the leaders that they go to, for whoever writes batches.

use std::{sync::Arc, time::Duration};

use futures::{FutureExt, future::BoxFuture};

use super::{
    held::Held,
    router::{Purpose, Router},
};
use crate::{
    exchange::{Call, ExchangeError, MetadataAnswer, Produce, ProducePart, Produced},
    ids::{Moment, NodeId, TopicId, TopicName, TopicPartition, TransactionalId},
    net::CallError,
    proto::{
        cause::{Cause, CauseKind},
        numbers::Numbers,
        outbox::{self, BatchId, Item, RequestId},
        topics::{Looked, TopicNow},
        verdict::MetadataVerdict,
    },
    wire::{batch::Stamp, produce::TOPIC_IDS, versions::TransactionVersion},
};

/// What became of a request.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) request: RequestId,
    /// Batches that are not in it may be stored, and nobody will say so.
    pub(super) batches: Vec<(TopicPartition, BatchId, Said)>,
}

/// What is said of a batch.
#[derive(Debug)]
pub(super) enum Said {
    /// By the broker, in an answer of this version; and which records it holds.
    Produced(i16, Produced, Arc<Numbers>),
    /// The request did not leave.
    NotSent,
    /// The request can't be put to this broker.
    Unsupported(Cause),
}

/// What a request asked a leader for.
struct Asked {
    node: NodeId,
    /// When it was sent, by a transaction; others do not ask for what its answer tells of topics.
    at: Option<Moment>,
    batches: Vec<(TopicPartition, TopicId, BatchId, Arc<Numbers>)>,
}

/// Sends a request. It is queued here and now, so that requests to one broker leave in the machine's order.
pub(super) fn produce(
    router: &Arc<Router>,
    held: &mut Held,
    transaction: Option<(TransactionalId, TransactionVersion)>,
    produce: &outbox::Produce,
    stamp: impl Fn(usize, &Item) -> Stamp,
) -> BoxFuture<'static, Answer> {
    let mut parts = Vec::with_capacity(produce.items.len());
    let mut batches = Vec::with_capacity(produce.items.len());
    for (place, item) in produce.items.iter().enumerate() {
        if let Some(batch) = held.bytes(item.batch, stamp(place, item)) {
            let (partition, topic_id) = (item.partition.clone(), item.topic);
            parts.push(ProducePart { partition, topic_id, batch });
            batches.push((item.partition.clone(), topic_id, item.batch, held.numbers(item.batch)));
        }
    }
    let timeout = router.config.request_timeout;
    let at = transaction.is_some().then(|| router.clock.now());
    let asked = Asked { node: produce.node, at, batches };
    let call = Arc::new(Produce { transaction, timeout_ms: millis(timeout), parts });
    let answer = router.connection(produce.node, Purpose::Data).map(|c| c.call(call, timeout));
    let (router, request) = (Arc::clone(router), produce.request);
    async move {
        let answer = match answer {
            Some(answer) => answer.await,
            None => Err(CallError::NotSent("the leader is not known".into())),
        };
        Answer { request, batches: said(&router, asked, answer) }
    }
    .boxed()
}

fn said(
    router: &Router,
    asked: Asked,
    answer: Result<<Produce as Call>::Answer, CallError>,
) -> Vec<(TopicPartition, BatchId, Said)> {
    let (version, answers) = match answer {
        Ok(answer) => answer,
        Err(CallError::Exchange(e @ ExchangeError::Unsupported(_))) => {
            let cause = Cause::new(CauseKind::Unsupported, e.to_string());
            let all = asked.batches.into_iter();
            return all.map(|(p, _, b, _)| (p, b, Said::Unsupported(cause.clone()))).collect();
        }
        Err(e) => {
            tracing::debug!(error = %e, "Produce was not answered");
            router.silent(asked.node);
            let sent = e.outcome_unknown();
            let all = asked.batches.into_iter().filter(|_| !sent);
            return all.map(|(p, _, b, _)| (p, b, Said::NotSent)).collect();
        }
    };
    let Asked { node, at, batches: asked } = asked;
    let mut said = Vec::with_capacity(asked.len());
    // A batch that was stored under its topic's id tells of the topic, and of the partition's leader.
    let mut stored = Vec::new();
    for mut answer in answers {
        let partition = &answer.partition;
        router.answered(node, partition, answer.code);
        answer.leader = answer.leader.filter(|(node, epoch)| router.learn_leader(partition, *node, *epoch));
        // An answer for what was not asked says nothing; a machine passes over a second one for the same batch.
        if let Some((partition, id, batch, records)) = asked.iter().find(|(p, ..)| *p == answer.partition) {
            if version >= TOPIC_IDS && answer.code.is_none() {
                stored.push((partition, *id));
            }
            said.push((partition.clone(), *batch, Said::Produced(version, answer, Arc::clone(records))));
        }
    }
    if let Some(at) = at {
        router.saw_batches_tell(version >= TOPIC_IDS);
        router.stored((node, at), stored);
    }
    said
}

/// Asks for the leaders of these partitions; there is none where nobody tells. Topics beside theirs are told as they were the
/// last time that anybody asked.
pub(super) async fn leaders(
    router: &Router,
    partitions: Vec<TopicPartition>,
    beside: &[TopicName],
) -> Looked {
    let mut topics: Vec<TopicName> = partitions.iter().map(|p| p.topic.clone()).collect();
    topics.sort();
    topics.dedup();
    let answer = router.metadata(Some(topics.clone())).await.ok();
    topics.extend(beside.iter().filter(|name| !partitions.iter().any(|p| p.topic == **name)).cloned());
    let leader = |p: &TopicPartition| answer.as_ref().and_then(|_| router.leader(p));
    Looked {
        leaders: partitions.iter().map(|p| (p.clone(), leader(p))).collect(),
        topics: topics_now(router, topics, answer.as_ref()),
    }
}

/// What this answer tells of topics; of those that it leaves out, what was told before.
pub(super) fn topics_now(
    router: &Router,
    topics: impl IntoIterator<Item = TopicName>,
    answer: Option<&MetadataAnswer>,
) -> Vec<(TopicName, TopicNow)> {
    let now = |name: &TopicName| {
        let told = answer.and_then(|answer| answer.topics.iter().find(|topic| topic.name == *name));
        match told.map(|topic| topic.verdict) {
            Some(MetadataVerdict::Missing) => TopicNow::Missing,
            _ => match router.topic_id(name) {
                id if id.is_known() => TopicNow::Known(id),
                _ => TopicNow::NotTold,
            },
        }
    };
    topics.into_iter().map(|name| (name.clone(), now(&name))).collect()
}

pub(super) fn millis(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX)
}
