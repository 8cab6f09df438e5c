//! What a transaction's task asks brokers, and their answers as facts.

use std::collections::BTreeSet;

use super::{
    produce::{Answer, Said, topics_now},
    producer::Shared,
    router::{FRESH, Purpose},
};
use crate::{
    exchange::{EndTxn, facts},
    ids::{Identity, Moment, TopicId, TopicName, TopicPartition},
    net::CallError,
    proto::{
        cause::{Cause, CauseKind},
        outbox::BatchFact,
        transaction::{AbortFact, Input, end_txn_version_at},
    },
    wire::versions::TransactionVersion,
};

/// Asks for topics of which brokers did not tell a moment ago, or since `anew`. Batches that all partitions have stored since
/// tell as much.
pub(super) async fn check_topics(
    shared: &Shared,
    written: Vec<(TopicPartition, TopicId)>,
    anew: Option<Moment>,
) -> Input {
    let router = &shared.router;
    let from = anew.unwrap_or_else(|| router.clock.now().before(FRESH));
    let topics: BTreeSet<TopicName> = written.iter().map(|(p, _)| p.topic.clone()).collect();
    let is_asked = |name: &&TopicName| {
        let told = anew.is_none() && !router.is_stale(name);
        let of_it = written.iter().filter(|(p, _)| p.topic == **name).map(|(p, id)| (p, *id));
        !told && !router.stored_since(from, of_it)
    };
    let asked: Vec<TopicName> = topics.iter().filter(is_asked).cloned().collect();
    let mut answer = None;
    if !asked.is_empty() {
        // Without an answer nothing is known against them; the settled check compares once more.
        answer = router.metadata(Some(asked)).await.ok();
    }
    Input::TopicsChecked(topics_now(router, topics, answer.as_ref()))
}

/// `Err(None)`: the coordinator was not found.
pub(super) async fn ask_coordinator<C: crate::exchange::Call + 'static>(
    shared: &Shared,
    call: C,
) -> Result<C::Answer, Option<CallError>> {
    let found = shared.router.coordinator(&shared.transactional_id).await;
    let node = found.ok().and_then(Result::ok).ok_or(None)?;
    shared.router.ask(node, Purpose::Control, call).await.map_err(Some)
}

/// EndTxn(abort) of a transaction that was begun at `begun`.
pub(super) async fn abort(shared: &Shared, identity: Identity, begun: TransactionVersion) -> AbortFact {
    match end_abort(shared, identity, begun).await {
        Ok(fact) => fact,
        Err(Some(CallError::Exchange(e))) => {
            AbortFact::Refused(Cause::new(CauseKind::Unsupported, e.to_string()))
        }
        Err(Some(CallError::MaybeSent(_))) => AbortFact::Retry,
        Err(Some(CallError::NotSent(_) | CallError::NotKafka(_)) | None) => AbortFact::CoordinatorMoved,
    }
}

async fn end_abort(
    shared: &Shared,
    identity: Identity,
    begun: TransactionVersion,
) -> Result<AbortFact, Option<CallError>> {
    let found = shared.router.coordinator(&shared.transactional_id).await;
    let node = found.ok().and_then(Result::ok).ok_or(None)?;
    let level = shared.router.profile(node).await.map_err(Some)?.transaction_version;
    let call = EndTxn {
        transactional_id: shared.transactional_id.clone(),
        identity,
        commit: false,
        version: end_txn_version_at(begun, level),
    };
    shared.router.ask(node, Purpose::Control, call).await.map(facts::aborted).map_err(Some)
}

/// What an answer to Produce tells the machine.
pub(super) fn produced(Answer { request, batches }: Answer) -> Input {
    let fact = |said| match said {
        Said::Produced(version, produced, records) => facts::produced(version, &produced, &records),
        Said::NotSent => BatchFact::NotSent,
        Said::Unsupported(cause) => BatchFact::Refused(cause),
    };
    let facts = batches.into_iter().map(|(partition, batch, said)| (partition, batch, fact(said)));
    Input::Produced { request, facts: facts.collect() }
}
