//! Offsets of consumer groups: into a transaction, and what is committed.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::{
    Client,
    calls::ask_coordinator,
    error::{ClientError, OffsetsError},
    producer::Shared,
    router::{Purpose, Router},
};
use crate::{
    exchange::{AddOffsetsToTxn, FetchedOffset, OffsetFetch, TxnOffsetCommit, facts},
    ids::{GroupId, Identity, NodeId, TopicName, TopicPartition},
    net::{CallError, Clock},
    proto::{
        backoff::Backoff,
        cause::{Cause, CauseKind},
        offsets::{GroupOffsets, OFFSETS_TOPIC, OffsetAndMetadata, offsets_partition},
        transaction::{AddFact, Input, OffsetsFact},
        verdict::{self, FindCoordinatorVerdict, OffsetFetchVerdict},
    },
    wire::{code::ErrorCode, versions::TransactionVersion},
};

/// AddOffsetsToTxn, as a fact.
pub(super) async fn add(shared: Arc<Shared>, identity: Identity, group: GroupId) -> Input {
    let transactional_id = shared.transactional_id.clone();
    let call = AddOffsetsToTxn { transactional_id, identity, group: group.clone() };
    Input::OffsetsAdded(match ask_coordinator(&shared, call).await {
        Ok(code) => facts::offsets_added(&group, code),
        Err(Some(CallError::Exchange(e))) => {
            AddFact::Refused(Cause::new(CauseKind::Unsupported, e.to_string()))
        }
        Err(Some(CallError::NotSent(_) | CallError::NotKafka(_) | CallError::MaybeSent(_)) | None) => {
            AddFact::CoordinatorMoved
        }
    })
}

/// TxnOffsetCommit, as a fact.
pub(super) async fn commit(
    shared: Arc<Shared>,
    (identity, version): (Identity, TransactionVersion),
    offsets: Arc<GroupOffsets>,
) -> Input {
    Input::OffsetsCommitted(committed(&shared, (identity, version), &offsets).await)
}

async fn committed(
    shared: &Shared,
    (identity, version): (Identity, TransactionVersion),
    offsets: &Arc<GroupOffsets>,
) -> OffsetsFact {
    let group = &offsets.group.group_id;
    let node = match coordinator(&shared.router, group).await {
        Ok(node) => node,
        Err(Missing::Refused(kind, detail)) => {
            let detail = format!("offsets of the consumer group {group}: {detail}");
            return OffsetsFact::Refused(Cause::new(kind, detail));
        }
        Err(Missing::Now(_)) => return OffsetsFact::Retry,
    };
    let transactional_id = shared.transactional_id.clone();
    let call = TxnOffsetCommit { transactional_id, identity, version, offsets: Arc::clone(offsets) };
    match shared.router.ask(node, Purpose::Control, call).await {
        Ok((version, answer)) => match facts::offsets_committed(offsets, (version, &answer)) {
            OffsetsFact::Stored { .. } => OffsetsFact::Stored { on: kept_on(&shared.router, group).await },
            fact => fact,
        },
        Err(CallError::Exchange(e)) => {
            OffsetsFact::Refused(Cause::new(CauseKind::Unsupported, e.to_string()))
        }
        Err(CallError::NotSent(_) | CallError::NotKafka(_) | CallError::MaybeSent(_)) => {
            OffsetsFact::CoordinatorMoved
        }
    }
}

/// The partition that keeps a group's offsets; `None` where DESCRIBE on the topic is missing.
async fn kept_on(router: &Router, group: &GroupId) -> Option<TopicPartition> {
    let topic = TopicName::from(OFFSETS_TOPIC);
    if router.partitions(&topic) == 0 {
        // Without an answer the offsets are stored all the same; only nobody will look at that partition.
        _ = router.metadata(Some(vec![topic.clone()])).await;
    }
    offsets_partition(group, i32::try_from(router.partitions(&topic)).ok()?)
}

/// Why there is no group coordinator.
enum Missing {
    /// For now.
    Now(String),
    /// It will not be told.
    Refused(CauseKind, String),
}

async fn coordinator(router: &Router, group: &GroupId) -> Result<NodeId, Missing> {
    match router.group_coordinator(group).await {
        Ok(Ok(node)) => Ok(node),
        Ok(Err(e)) => Err(match e.verdict {
            FindCoordinatorVerdict::Denied => Missing::Refused(CauseKind::Denied, e.detail),
            FindCoordinatorVerdict::Fatal => Missing::Refused(CauseKind::Unsupported, e.detail),
            FindCoordinatorVerdict::Abortable => Missing::Refused(CauseKind::InvalidState, e.detail),
            FindCoordinatorVerdict::Found | FindCoordinatorVerdict::Retry => Missing::Now(e.detail),
        }),
        Err(e) => Err(Missing::Now(e.to_string())),
    }
}

impl Client {
    /// What a consumer group has committed of these partitions (OffsetFetch); `None` for nothing. An offset that an open
    /// transaction holds back is waited for (KIP-447), for `max.block.ms`; brokers before 2.5 tell the one before it. Needs
    /// DESCRIBE on the group and on the topics.
    ///
    /// # Errors
    /// [`OffsetsError`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn committed(
        &self,
        group: &GroupId,
        partitions: impl IntoIterator<Item = TopicPartition>,
    ) -> Result<BTreeMap<TopicPartition, Option<OffsetAndMetadata>>, OffsetsError> {
        let router = &*self.router;
        let partitions: Vec<_> = partitions.into_iter().collect();
        if partitions.is_empty() {
            return Ok(BTreeMap::new());
        }
        let deadline = router.clock.now().after(router.config.max_block);
        let mut backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(1), Clock::seed());
        loop {
            let trouble = match fetch(router, group, &partitions).await {
                Fetch::Told(offsets) => return Ok(offsets),
                Fetch::Failed(error) => return Err(error),
                Fetch::Again(trouble) => trouble,
            };
            if router.clock.now() >= deadline {
                return Err(trouble);
            }
            let wake = router.clock.now().after(backoff.next_wait());
            router.clock.sleep_until(Some(wake)).await;
        }
    }
}

enum Fetch {
    Told(BTreeMap<TopicPartition, Option<OffsetAndMetadata>>),
    Again(OffsetsError),
    Failed(OffsetsError),
}

async fn fetch(router: &Router, group: &GroupId, partitions: &[TopicPartition]) -> Fetch {
    let unreachable = |detail| OffsetsError::Client(ClientError::Unreachable(detail));
    let node = match coordinator(router, group).await {
        Ok(node) => node,
        Err(Missing::Now(detail)) => return Fetch::Again(unreachable(detail)),
        Err(Missing::Refused(CauseKind::Denied, _)) => {
            return Fetch::Failed(OffsetsError::Denied { group: group.clone(), partition: None });
        }
        Err(Missing::Refused(_, detail)) => return Fetch::Failed(unreachable(detail)),
    };
    let call = OffsetFetch { group: group.clone(), partitions: partitions.to_vec() };
    match router.ask(node, Purpose::Control, call).await {
        Err(e @ CallError::Exchange(_)) => Fetch::Failed(ClientError::from(e).into()),
        Err(e @ (CallError::NotSent(_) | CallError::NotKafka(_) | CallError::MaybeSent(_))) => {
            Fetch::Again(ClientError::from(e).into())
        }
        Ok(Err(code)) => judge(router, (group, None), code),
        Ok(Ok(found)) => told(router, group, partitions, found),
    }
}

/// Every partition must have told its offset.
fn told(router: &Router, group: &GroupId, partitions: &[TopicPartition], found: Vec<FetchedOffset>) -> Fetch {
    let mut offsets = BTreeMap::new();
    for (partition, told) in found {
        match told {
            Ok(offset) => _ = offsets.insert(partition, offset),
            Err(code) => return judge(router, (group, Some(partition)), code),
        }
    }
    match partitions.iter().find(|partition| !offsets.contains_key(*partition)) {
        None => Fetch::Told(offsets),
        Some(missing) => judge(router, (group, Some(missing.clone())), ErrorCode::UnknownServerError),
    }
}

fn judge(router: &Router, (group, partition): (&GroupId, Option<TopicPartition>), code: ErrorCode) -> Fetch {
    let error = OffsetsError::Refused { group: group.clone(), partition: partition.clone(), code };
    match verdict::offset_fetch(0, code) {
        OffsetFetchVerdict::Told | OffsetFetchVerdict::Retry => Fetch::Again(error),
        OffsetFetchVerdict::Relookup => {
            router.forget_group_coordinator(group);
            Fetch::Again(error)
        }
        OffsetFetchVerdict::Denied => Fetch::Failed(OffsetsError::Denied { group: group.clone(), partition }),
        OffsetFetchVerdict::Failed => Fetch::Failed(error),
    }
}
