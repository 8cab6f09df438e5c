//! What a partition leader settles with the transaction coordinator before it appends a transactional batch.
//!
//! - While the producer's transaction is open on the partition, nothing: a late batch of a prepared transaction is
//!   still taken, until the marker is written.
//! - Produce 12 and newer adds the partition by itself; when the last transaction is still being ended, it tries
//!   five times more, 20 ms apart, then answers CONCURRENT_TRANSACTIONS.
//! - Older versions ask whether the partition was added: TRANSACTION_ABORTABLE if not (INVALID_TXN_STATE before
//!   Produce 11).

use std::time::Duration;

use kafka_protocol::error::ResponseError;

use crate::broker::cluster::Cluster;
use crate::broker::coordinator::entry::Pair;
use crate::broker::log::producers::FirstSequence;
use crate::broker::profile::{Profile, Quirk, Verification};
use crate::ids::TopicPartition;
use crate::wire::batch::Batch;

/// `add.partitions.to.txn.retry.backoff.ms`.
const RETRY_BACKOFF: Duration = Duration::from_millis(20);
/// `add.partitions.to.txn.retry.backoff.max.ms` divided by it.
const RETRIES: u32 = 5;

/// Does this Produce add its partitions to the transaction?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ImplicitAdd {
    Yes,
    No,
}

impl ImplicitAdd {
    pub(super) fn of(version: i16) -> Self {
        if version >= 12 { Self::Yes } else { Self::No }
    }
}

/// The retries of one partition.
#[derive(Debug)]
pub(super) struct Waits {
    left: u32,
}

impl Waits {
    pub(super) fn new(version: i16) -> Self {
        Self { left: if ImplicitAdd::of(version) == ImplicitAdd::Yes { RETRIES } else { 0 } }
    }

    pub(super) fn again(&mut self) -> bool {
        let again = self.left > 0;
        self.left = self.left.saturating_sub(1);
        again
    }

    pub(super) async fn sleep(&self) {
        tokio::time::sleep(RETRY_BACKOFF).await;
    }
}

/// May the batch be appended?
pub(super) fn admit(
    cluster: &mut Cluster,
    caller: (Option<&str>, Verification),
    at: &TopicPartition,
    batch: &Batch,
    add: ImplicitAdd,
) -> Result<(), ResponseError> {
    let (owner, verification) = caller;
    let owner = owner.ok_or(ResponseError::TransactionalIdAuthorizationFailed)?;
    let who = Pair { id: batch.header().producer_id, epoch: batch.header().producer_epoch };
    let open = cluster.partition(at).is_some_and(|p| p.log.has_ongoing(who.id, who.epoch));
    if open || (add == ImplicitAdd::No && verification == Verification::Omitted) {
        return Ok(());
    }
    if cluster.transaction_coordinator(owner).is_none() {
        return Err(ResponseError::CoordinatorNotAvailable);
    }
    let now_ms = cluster.clock.now_ms();
    match add {
        ImplicitAdd::Yes => cluster.transactions.add_implicitly(owner, who, at, now_ms),
        ImplicitAdd::No => cluster.transactions.verify(owner, who, at),
    }
}

/// The coordinator's refusal, in the words of the partition's leader: codes that old clients retry or abort on.
pub(super) fn as_leader_says(error: ResponseError, version: i16) -> ResponseError {
    match error {
        ResponseError::ProducerFenced => ResponseError::InvalidProducerEpoch,
        ResponseError::TransactionAbortable if version < 11 => ResponseError::InvalidTxnState,
        ResponseError::ConcurrentTransactions if version < 12 => ResponseError::NotEnoughReplicas,
        ResponseError::CoordinatorNotAvailable | ResponseError::NotCoordinator => {
            ResponseError::NotEnoughReplicas
        }
        other => other,
    }
}

/// What a batch of a fenced epoch is answered.
pub(super) fn fenced(profile: &Profile) -> ResponseError {
    if profile.has(Quirk::FencedBatchIsInvalidState) {
        ResponseError::InvalidTxnState
    } else {
        ResponseError::InvalidProducerEpoch
    }
}

/// Transactions V2 start at sequence 0 when the partition knows nothing of the producer (Kafka 4.1 and newer).
pub(super) fn first_sequence(add: ImplicitAdd, batch: &Batch) -> FirstSequence {
    if add == ImplicitAdd::Yes && batch.header().is_transactional() {
        FirstSequence::Zero
    } else {
        FirstSequence::Any
    }
}
