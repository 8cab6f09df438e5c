//! Produce requests and the leaders that they go to, for whoever writes batches.

use std::{sync::Arc, time::Duration};

use futures::{FutureExt, future::BoxFuture};

use super::{
    held::Held,
    router::{Purpose, Router},
};
use crate::{
    exchange::{Call, ExchangeError, MetadataAnswer, Produce, ProducePart, Produced},
    ids::{NodeId, TopicName, TopicPartition, TransactionalId},
    net::CallError,
    proto::{
        cause::{Cause, CauseKind},
        numbers::Numbers,
        outbox::{self, BatchId, Item, RequestId},
        topics::{Looked, TopicNow},
        verdict::MetadataVerdict,
    },
    wire::{batch::Stamp, versions::TransactionVersion},
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

type Asked = Vec<(TopicPartition, BatchId, Arc<Numbers>)>;

/// Sends a request. It is queued here and now, so that requests to one broker leave in the machine's order.
pub(super) fn produce(
    router: &Arc<Router>,
    held: &mut Held,
    transaction: Option<(TransactionalId, TransactionVersion)>,
    produce: &outbox::Produce,
    stamp: impl Fn(usize, &Item) -> Stamp,
) -> BoxFuture<'static, Answer> {
    let mut parts = Vec::with_capacity(produce.items.len());
    let mut asked: Asked = Vec::with_capacity(produce.items.len());
    for (place, item) in produce.items.iter().enumerate() {
        if let Some(batch) = held.bytes(item.batch, stamp(place, item)) {
            let (partition, topic_id) = (item.partition.clone(), item.topic);
            parts.push(ProducePart { partition, topic_id, batch });
            asked.push((item.partition.clone(), item.batch, held.numbers(item.batch)));
        }
    }
    let timeout = router.config.request_timeout;
    let call = Arc::new(Produce { transaction, timeout_ms: millis(timeout), parts });
    let answer = router.connection(produce.node, Purpose::Data).map(|c| c.call(call, timeout));
    let (router, node, request) = (Arc::clone(router), produce.node, produce.request);
    async move {
        let answer = match answer {
            Some(answer) => answer.await,
            None => Err(CallError::NotSent("the leader is not known".into())),
        };
        Answer { request, batches: said(&router, node, asked, answer) }
    }
    .boxed()
}

fn said(
    router: &Router,
    node: NodeId,
    asked: Asked,
    answer: Result<<Produce as Call>::Answer, CallError>,
) -> Vec<(TopicPartition, BatchId, Said)> {
    let (version, answers) = match answer {
        Ok(answer) => answer,
        Err(CallError::Exchange(e @ ExchangeError::Unsupported(_))) => {
            let cause = Cause::new(CauseKind::Unsupported, e.to_string());
            return asked.into_iter().map(|(p, b, _)| (p, b, Said::Unsupported(cause.clone()))).collect();
        }
        Err(e) => {
            tracing::debug!(error = %e, "Produce was not answered");
            router.silent(node);
            let sent = e.outcome_unknown();
            return asked.into_iter().filter(|_| !sent).map(|(p, b, _)| (p, b, Said::NotSent)).collect();
        }
    };
    let mut said = Vec::with_capacity(asked.len());
    for mut answer in answers {
        let partition = &answer.partition;
        router.answered(node, partition, answer.code);
        answer.leader = answer.leader.filter(|(node, epoch)| router.learn_leader(partition, *node, *epoch));
        // An answer for what was not asked says nothing; a machine passes over a second one for the same batch.
        if let Some((partition, batch, records)) = asked.iter().find(|(p, ..)| *p == answer.partition) {
            said.push((partition.clone(), *batch, Said::Produced(version, answer, Arc::clone(records))));
        }
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
