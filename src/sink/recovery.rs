//! What happens after a restart, before the first record: the recovery machine, driven.

use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};

use futures::future::join_all;

use super::{
    committer::{Committed, Committer},
    config::SinkConfig,
    writer::SinkWriter,
};
use crate::{
    client::{Client, ClientError, Resumed, Topic},
    ids::{TopicPartition, TransactionalId},
    proto::{
        cause::CauseKind,
        committable::Committable,
        naming::{NamingError, Ownership},
        pool::{Pool, Slot, SlotState, WriterState},
        recovery::{
            Blindness, CommitAnswer, CommitStatus, FenceAnswer, Recovered, Recovery, RecoveryEffect,
            RecoveryError, RecoveryInput, Restored,
        },
        resume::{Described, First, Outcome},
        settle::CommittedButHanging,
    },
};

/// What a restart begins with: the sink's part of the newest complete checkpoint. Empty for a first start.
#[derive(Debug, Clone, Default)]
pub struct SinkState {
    /// The number of that checkpoint.
    pub checkpoint: u64,
    /// Its committables, and what was known of them.
    pub committables: Vec<(Committable, CommitStatus)>,
    /// The writer's state in it.
    pub writer: Option<WriterState>,
}

/// The phases of a recovery, for observers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecoveryPhase {
    /// Committing what the checkpoint lists.
    Commit,
    /// Looking for leftovers.
    Look,
    /// Aborting leftovers.
    Fence,
    /// Waiting for the aborts to reach every partition.
    Settle,
}

/// What recovery did.
#[derive(Debug, Default)]
pub struct RecoveryReport {
    /// Transactions of the restored checkpoint that are committed now.
    pub resumed: Vec<(Committable, Resumed)>,
    /// Leftovers that were aborted.
    pub aborted: Vec<TransactionalId>,
    /// Leftovers whose end is decided, and whose markers wait for a leader of their partition. Their ids are not used.
    pub pending: Vec<TransactionalId>,
    /// Transactions that hang; their ids are retired.
    pub hanging: Vec<CommittedButHanging>,
    /// What recovery could not see.
    pub blind: Vec<Blindness>,
}

/// Why the writer must not begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecoverError {
    /// Transactions of the restored checkpoint are not committed, each with its outcome.
    #[error("{}", NotCommitted(.0))]
    NotCommitted(Vec<Committed>),
    /// Leftovers could not be fenced.
    #[error(transparent)]
    Leftovers(RecoveryError),
    /// The restored ids can't be continued under this configuration.
    #[error(transparent)]
    Naming(#[from] NamingError),
    /// The cluster does not answer.
    #[error(transparent)]
    Client(#[from] ClientError),
}

struct NotCommitted<'a>(&'a [Committed]);

impl fmt::Display for NotCommitted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "transactions of the restored checkpoint are not committed:")?;
        for committed in self.0 {
            let c = &committed.committable;
            write!(f, "\n  {} ({}): {}", c.transactional_id, c.identity, committed.story())?;
        }
        Ok(())
    }
}

/// Recovers, in the one order that loses nothing: commit what the checkpoint lists, find leftovers and abort
/// them, see that the aborts reached every partition; only then is there a writer.
///
/// # Errors
/// [`RecoverError`]; calling it again is right.
///
/// # Cancel safety
/// Cancel safe: everything it does can be done again.
pub async fn recover(
    client: &Client,
    config: &Arc<SinkConfig>,
    topics: &[Topic],
    state: SinkState,
    observer: &(dyn Fn(RecoveryPhase) + Send + Sync),
) -> Result<(SinkWriter, RecoveryReport), RecoverError> {
    let pool = match &state.writer {
        Some(writer) => Pool::restore(writer, config.naming, config.prefix.clone(), config.slots)?,
        None => {
            let ownership = Ownership::new(0, 1)?;
            Pool::new(config.naming, config.prefix.clone(), ownership, config.slots)
        }
    }
    .with_reuse(config.reuse);
    let restored = Restored {
        committables: state.committables.clone(),
        writer: state.writer.clone().unwrap_or_else(|| pool.state_to_keep()),
        prefix: config.prefix.clone(),
        level: client.transaction_level().await?,
    };
    let driver = Driver { client, config, topics, observer, resumed: Vec::new(), failed: Vec::new() };
    let (recovered, driver) = driver.run(Recovery::new(restored)).await?;
    let pool = pool_after(pool, &state, &recovered, &driver.resumed);
    let mut writer = SinkWriter::new(client.clone(), Arc::clone(config), pool, state.checkpoint);
    for (committable, resumed) in &driver.resumed {
        writer.decided(committable, resumed);
    }
    for id in &recovered.pending {
        tracing::warn!(
            transactional_id = %id,
            "a leftover is decided, and its markers wait for a leader of their partition: readers stall there until then, \
             and its id is not used"
        );
    }
    let report = RecoveryReport {
        resumed: driver.resumed,
        aborted: recovered.aborted,
        pending: recovered.pending,
        hanging: recovered.retired,
        blind: recovered.blind,
    };
    Ok((writer, report))
}

/// The ids of restored committables are in use until the checkpoint that drops them is durable.
fn pool_after(
    mut pool: Pool,
    state: &SinkState,
    recovered: &Recovered,
    resumed: &[(Committable, Resumed)],
) -> Pool {
    pool.recovered(recovered);
    let retired: BTreeSet<_> = recovered.retired.iter().map(|r| &r.transactional_id).collect();
    for (committable, status) in &state.committables {
        let slot: Option<Slot> = pool.slot(&committable.transactional_id);
        let Some(slot) = slot.filter(|_| !retired.contains(&committable.transactional_id)) else { continue };
        pool.adopt(slot, SlotState::Prepared(state.checkpoint));
        if *status != CommitStatus::Pending && resumed.iter().all(|(c, _)| c != committable) {
            // Decided before the restart, and not known to be settled.
            _ = pool.decided(slot);
        }
    }
    pool
}

struct Driver<'a> {
    client: &'a Client,
    config: &'a Arc<SinkConfig>,
    topics: &'a [Topic],
    observer: &'a (dyn Fn(RecoveryPhase) + Send + Sync),
    resumed: Vec<(Committable, Resumed)>,
    failed: Vec<Committed>,
}

impl Driver<'_> {
    async fn run(mut self, mut machine: Recovery) -> Result<(Recovered, Self), RecoverError> {
        let clock = self.client.clock();
        loop {
            if let Some(result) = machine.result() {
                return match result.clone() {
                    Ok(recovered) => Ok((recovered, self)),
                    Err(RecoveryError::NotCommitted(_)) => Err(RecoverError::NotCommitted(self.failed)),
                    Err(e @ RecoveryError::NotFenced(_)) => Err(RecoverError::Leftovers(e)),
                };
            }
            let Some(effect) = machine.poll_effect() else {
                // One effect is always under way until there is a result.
                return Err(RecoverError::Leftovers(RecoveryError::NotFenced(Vec::new())));
            };
            let input = self.act(effect).await;
            _ = machine.handle(clock.now(), input);
        }
    }

    async fn act(&mut self, effect: RecoveryEffect) -> RecoveryInput {
        match effect {
            RecoveryEffect::Commit(committables) => {
                (self.observer)(RecoveryPhase::Commit);
                RecoveryInput::Committed(self.commit(committables).await)
            }
            RecoveryEffect::List { patterns } => {
                (self.observer)(RecoveryPhase::Look);
                let (transactions, silent_brokers) = self.client.list_for_recovery(&patterns).await;
                RecoveryInput::Listed { transactions, silent_brokers }
            }
            RecoveryEffect::LookForOpen => {
                RecoveryInput::Open(self.client.open_producers(&self.partitions()).await)
            }
            RecoveryEffect::Describe(ids) => {
                RecoveryInput::Described(join_all(ids.iter().map(|id| self.describe(id))).await)
            }
            RecoveryEffect::Fence(ids) => {
                (self.observer)(RecoveryPhase::Fence);
                RecoveryInput::Fenced(join_all(ids.into_iter().map(|id| self.fence(id))).await)
            }
            RecoveryEffect::Settle(targets) => {
                (self.observer)(RecoveryPhase::Settle);
                let wait = self.config.settle_timeout;
                let settled = targets.into_iter().map(|target| self.client.settle(target, wait));
                RecoveryInput::Settled(join_all(settled).await)
            }
        }
    }

    fn partitions(&self) -> Vec<TopicPartition> {
        let all = self.topics.iter().flat_map(|t| {
            (0..t.partitions()).map(|partition| TopicPartition { topic: t.name().clone(), partition })
        });
        all.collect()
    }

    async fn commit(&mut self, committables: Vec<Committable>) -> Vec<CommitAnswer> {
        let committer = Committer::new(self.client.clone(), Arc::clone(self.config));
        let all = committables.into_iter().map(|c| committer.commit_one(c, First::EndTxn));
        let mut answers = Vec::new();
        for committed in join_all(all).await {
            match committed.result {
                Ok(resumed @ Resumed { outcome: Outcome::Committed | Outcome::AlreadyCommitted(_), .. }) => {
                    self.resumed.push((committed.committable, resumed));
                    answers.push(CommitAnswer::Committed);
                }
                Ok(_) | Err(_) => {
                    self.failed.push(committed);
                    answers.push(CommitAnswer::Failed);
                }
            }
        }
        answers
    }

    async fn describe(&self, id: &TransactionalId) -> Described {
        for _ in 0..50 {
            match self.client.describe_for_recovery(id).await {
                Described::Retry | Described::Relookup => {
                    tokio::time::sleep(Duration::from_millis(100)).await
                }
                described => return described,
            }
        }
        Described::Retry
    }

    /// Brokers that wait with a marker until its partition has a leader do not grant it before, so it has as much time as the
    /// markers have.
    async fn fence(&self, id: TransactionalId) -> FenceAnswer {
        let producer = self.client.transactional_producer(id.clone());
        let init = producer.transaction_timeout(self.config.transaction_timeout).init();
        match tokio::time::timeout(self.config.settle_timeout, init).await {
            Ok(Ok(_)) => FenceAnswer::Fenced,
            Ok(Err(cause)) if cause.kind != CauseKind::Unreachable => {
                tracing::error!(transactional_id = %id, %cause, "a leftover could not be aborted");
                FenceAnswer::Failed
            }
            Ok(Err(_)) | Err(_) => FenceAnswer::Late,
        }
    }
}
