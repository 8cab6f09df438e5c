//! What a transaction's task asks brokers, and their answers as facts.

use std::collections::HashMap;

use super::{
    produce::{Answer, Said},
    producer::Shared,
    router::Purpose,
};
use crate::{
    exchange::{EndTxn, facts},
    ids::{Identity, TopicId, TopicName},
    net::CallError,
    proto::{
        cause::{Cause, CauseKind},
        outbox::BatchFact,
        transaction::{AbortFact, Input, end_txn_version_at},
    },
    wire::versions::TransactionVersion,
};

/// Tells of a topic that is known to be another one now. One that is missing may be back in a moment.
pub(super) fn replaced(shared: &Shared, ids: &HashMap<TopicName, TopicId>) -> Option<Input> {
    let other = |(name, then): &(&TopicName, &TopicId)| {
        let now = shared.router.topic_id(name);
        then.is_known() && now.is_known() && **then != now
    };
    ids.iter().find(other).map(|(name, _)| topic_replaced(name))
}

/// Makes sure that no topic is known to be another one now. Ids that brokers told a moment ago count, unless `anew`.
pub(super) async fn check_topics(shared: &Shared, ids: &HashMap<TopicName, TopicId>, anew: bool) -> Input {
    let is_asked = |t: &&TopicName| anew || shared.router.is_stale(t);
    let stale: Vec<TopicName> = ids.keys().filter(is_asked).cloned().collect();
    // The level is wanted next, by this transaction's end and by the beginning of another; nobody waits for it here.
    shared.freshen_level();
    if !stale.is_empty() {
        // Without an answer nothing is known against them; the settled check compares once more.
        _ = shared.router.metadata(Some(stale)).await;
    }
    replaced(shared, ids).unwrap_or(Input::TopicsChecked)
}

pub(super) fn topic_replaced(name: &TopicName) -> Input {
    let detail = format!("topic {name} was deleted and created anew under the same name");
    Input::TopicReplaced(Cause::new(CauseKind::UnknownTopic, detail))
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
