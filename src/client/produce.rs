//! Produce requests and the leaders that they go to, for whoever writes batches.

use std::{sync::Arc, time::Duration};

use futures::{FutureExt, future::BoxFuture};

use super::{
    held::Held,
    router::{Purpose, Router},
};
use crate::{
    exchange::{Call, ExchangeError, Produce, Produced},
    ids::{NodeId, TopicPartition, TransactionalId},
    net::CallError,
    proto::{
        cause::{Cause, CauseKind},
        numbers::Numbers,
        outbox::{self, BatchId, Item, RequestId},
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
        if let Some(bytes) = held.bytes(item.batch, stamp(place, item)) {
            parts.push((item.partition.clone(), bytes));
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

/// The leaders of these partitions, `None` where there is none or nobody tells.
pub(super) async fn leaders(
    router: &Router,
    partitions: Vec<TopicPartition>,
) -> Vec<(TopicPartition, Option<NodeId>)> {
    match router.find_leaders(&partitions).await {
        Ok(leaders) => leaders,
        Err(_) => partitions.into_iter().map(|p| (p, None)).collect(),
    }
}

pub(super) fn millis(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX)
}
