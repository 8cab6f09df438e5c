//! What happens after a restart, before the first record.

mod driver;

use std::{collections::BTreeSet, fmt, sync::Arc};

use futures::future::join;

use self::driver::Driver;
use super::{
    committer::{Committed, Committer},
    config::{SinkConfig, SinkConfigError},
    writer::SinkWriter,
};
use crate::{
    client::{Client, ClientError, Resumed, Topic},
    ids::{TopicPartition, TransactionalId},
    proto::{
        committable::Committable,
        naming::NamingError,
        pool::{LastUse, Pool, Reuse, SlotState, WriterState},
        recovery::{Blindness, CommitStatus, Orphan, Orphans, Recovered, Recovery, RecoveryError, Restored},
        settle::CommittedButHanging,
    },
};

/// A sink: where it writes to, and how.
#[derive(Debug, Clone)]
pub struct Sink {
    client: Client,
    config: Arc<SinkConfig>,
    topics: Vec<Topic>,
    committer: Committer,
}

/// What a restart begins with: the sink's part of the newest complete checkpoint, as a whole, of every subtask. Empty
/// for a first start.
#[derive(Debug, Clone, Default)]
pub struct SinkState {
    /// The number of that checkpoint.
    pub checkpoint: u64,
    /// Its committables, and what was known of them.
    pub committables: Vec<(Committable, CommitStatus)>,
    /// The states of all writers in it, in any order.
    pub writers: Vec<WriterState>,
}

/// One subtask of a sink whose subtasks recover apart, on different machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Share {
    /// The subtask, from 0.
    pub subtask: u32,
    /// How many there are now.
    pub total: u32,
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
    /// Transactions of it that are lost, or undecidable, and were passed over ([`OnLost::Skip`]).
    ///
    /// [`OnLost::Skip`]: crate::proto::recovery::OnLost::Skip
    pub lost: Vec<Committed>,
    /// Leftovers that were aborted.
    pub aborted: Vec<TransactionalId>,
    /// Leftovers whose end is decided, and whose markers wait for a leader of their partition. Their ids are not used.
    pub pending: Vec<TransactionalId>,
    /// Transactions that hang; their ids are retired.
    pub hanging: Vec<CommittedButHanging>,
    /// What recovery could not see.
    pub blind: Vec<Blindness>,
    /// Transactions of a later run than that of the checkpoint, whose records are being written once more
    /// ([`Orphans::WriteAgain`]); at a first start, those of another job that has used the prefix, or whose state is
    /// lost.
    pub orphans: Vec<Orphan>,
}

/// Why no writer may begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecoverError {
    /// Transactions of the restored checkpoint are not committed, each with its outcome.
    #[error("{}", NotCommitted(.0))]
    NotCommitted(Vec<Committed>),
    /// Leftovers could not be fenced.
    #[error(transparent)]
    Leftovers(RecoveryError),
    /// The checkpoint is not the newest one ([`RecoveryError::Orphans`]). Nothing but its own transactions was touched:
    /// restore the newest one, or choose [`Orphans::WriteAgain`].
    #[error("{0}\nRestore the newest checkpoint, or accept the duplicates (orphans: write-again)")]
    Orphans(RecoveryError),
    /// The settings can't work.
    #[error(transparent)]
    Config(#[from] SinkConfigError),
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

impl Sink {
    /// A sink that writes to these topics. Recovery looks on them for open transactions.
    #[must_use]
    pub fn new(client: Client, config: Arc<SinkConfig>, topics: Vec<Topic>) -> Self {
        let committer = Committer::new(client.clone(), Arc::clone(&config));
        Self { client, config, topics, committer }
    }

    /// A committer of it. All of them spread their commits over the same connections.
    #[must_use]
    pub fn committer(&self) -> Committer {
        self.committer.clone()
    }

    /// Recovers the whole sink, in the one order that loses nothing: commit what the checkpoint lists, find leftovers
    /// and abort them, see that the aborts reached every partition; only then are there writers, one per subtask, in
    /// their order. There may have been another number of subtasks before.
    ///
    /// What becomes of a committable concerns the writer that owns its id; to tell it to all of them is harmless.
    ///
    /// # Errors
    /// [`RecoverError`]; calling it again is right.
    ///
    /// # Cancel safety
    /// Cancel safe: everything it does can be done again.
    pub async fn recover(
        &self,
        subtasks: u32,
        state: SinkState,
        observer: &(dyn Fn(RecoveryPhase) + Send + Sync),
    ) -> Result<(Vec<SinkWriter>, RecoveryReport), RecoverError> {
        let writers = self.deal(&state, subtasks)?;
        self.recover_writers(writers, state, observer).await
    }

    /// Recovers one subtask's share: what it owns of the ids and committables of `state`, which is that of the whole
    /// sink for every share. All shares must be recovered; each id belongs to exactly one of them.
    ///
    /// # Errors
    /// [`RecoverError`], as [`recover`](Self::recover).
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn recover_share(
        &self,
        share: Share,
        mut state: SinkState,
        observer: &(dyn Fn(RecoveryPhase) + Send + Sync),
    ) -> Result<(SinkWriter, RecoveryReport), RecoverError> {
        let Share { subtask, total } = share;
        let all = self.deal(&state, total)?;
        let index = usize::try_from(subtask).unwrap_or(usize::MAX);
        let Some(own) = all.get(index) else {
            return Err(NamingError::NoSuchSubtask { subtask, total }.into());
        };
        state.committables.retain(|(c, _)| WriterState::owner(&all, &c.transactional_id) == index);
        let (writers, report) = self.recover_writers(vec![own.clone()], state, observer).await?;
        let writer = writers.into_iter().next();
        Ok((writer.ok_or(NamingError::NoSuchSubtask { subtask, total })?, report))
    }

    fn deal(&self, state: &SinkState, subtasks: u32) -> Result<Vec<WriterState>, NamingError> {
        WriterState::deal(&state.writers, subtasks, self.config.naming, &self.config.prefix)
    }

    /// A first start contradicts no checkpoint, and where ids are used again at once nothing can be concluded from it.
    fn orphans(&self, state: &SinkState) -> Orphans {
        match (state.writers.is_empty(), self.config.reuse) {
            (false, Reuse::WhenSettled) => self.config.orphans,
            (true, _) | (_, Reuse::AtOnce) => Orphans::WriteAgain,
        }
    }

    /// What a broker would refuse with the first record is refused before anything is written.
    async fn check_timeout(&self) -> Result<(), SinkConfigError> {
        let timeout = self.config.transaction_timeout;
        match self.client.transaction_timeout_limit().await {
            Some(limit) if limit < timeout => Err(SinkConfigError::TimeoutOverLimit { timeout, limit }),
            Some(_) | None => Ok(()),
        }
    }

    fn partitions(&self) -> Vec<TopicPartition> {
        let all = self.topics.iter().flat_map(|t| {
            (0..t.partitions()).map(|partition| TopicPartition { topic: t.name().clone(), partition })
        });
        all.collect()
    }

    /// The id that a writer will begin with if recovery finds nothing that speaks against it.
    fn first_id(&self, writer: &WriterState, state: &SinkState) -> Option<TransactionalId> {
        let mut pool = Pool::restore(writer, self.config.slots);
        for (committable, _) in &state.committables {
            if let Some(slot) = pool.slot(&committable.transactional_id) {
                pool.adopt(slot, SlotState::Prepared(state.checkpoint));
            }
        }
        pool.take(state.checkpoint + 1).ok().map(|slot| pool.id(slot))
    }

    async fn recover_writers(
        &self,
        writers: Vec<WriterState>,
        state: SinkState,
        observer: &(dyn Fn(RecoveryPhase) + Send + Sync),
    ) -> Result<(Vec<SinkWriter>, RecoveryReport), RecoverError> {
        self.config.validate()?;
        let level = self.client.transaction_level().await?;
        self.client.open_ahead(&self.partitions());
        // Those of the first records, most likely.
        let _ahead =
            self.client.find_ahead(writers.iter().filter_map(|w| self.first_id(w, &state)).collect());
        let restored = Restored {
            committables: state.committables.clone(),
            writers: writers.clone(),
            checkpoint: state.checkpoint,
            orphans: self.orphans(&state),
            level,
        };
        let mut driver = Driver {
            sink: self,
            writers: &writers,
            observer,
            resumed: Vec::new(),
            lost: Vec::new(),
            failed: Vec::new(),
        };
        let mut machine = Recovery::new(restored);
        // Nothing is fenced before both are done.
        let (checked, stepped) = join(self.check_timeout(), driver.step(&mut machine)).await;
        checked?;
        stepped?;
        let (recovered, driver) = driver.run(machine).await?;
        let (resumed, lost) = (driver.resumed, driver.lost);
        let writer = |(index, writer): (usize, &WriterState)| {
            let own = recovered.of_writer(&writers, index);
            let pool = Pool::restore(writer, self.config.slots).with_reuse(self.config.reuse);
            let pool = pool_after(pool, &state, &own, (&resumed, &lost));
            let (client, config) = (self.client.clone(), Arc::clone(&self.config));
            let mut writer = SinkWriter::new(client, config, pool, state.checkpoint);
            resumed.iter().for_each(|(committable, resumed)| writer.decided(committable, resumed));
            writer
        };
        let all = writers.iter().enumerate().map(writer).collect();
        let Recovered { aborted, pending, retired, blind, orphans, avoid: _ } = recovered;
        for id in &pending {
            tracing::warn!(
                transactional_id = %id,
                "a leftover is decided, and its markers wait for a leader of their partition: readers stall there \
                 until then, and its id is not used"
            );
        }
        for orphan in &orphans {
            tracing::warn!(%orphan, "a transaction under this prefix is of a later checkpoint than the restored one");
        }
        Ok((all, RecoveryReport { resumed, lost, aborted, pending, hanging: retired, blind, orphans }))
    }
}

/// The ids of restored committables are in use until the checkpoint that drops them is durable.
fn pool_after(
    mut pool: Pool,
    state: &SinkState,
    recovered: &Recovered,
    (resumed, lost): (&[(Committable, Resumed)], &[Committed]),
) -> Pool {
    pool.recovered(recovered);
    for (committable, _) in &state.committables {
        if pool.answers_for(&committable.transactional_id) {
            pool.remember(&committable.transactional_id, LastUse::of(committable));
        }
    }
    let retired: BTreeSet<_> = recovered.retired.iter().map(|r| &r.transactional_id).collect();
    for (committable, status) in &state.committables {
        let Some(slot) = pool.slot(&committable.transactional_id) else { continue };
        if retired.contains(&committable.transactional_id) {
            continue;
        }
        if lost.iter().any(|lost| lost.committable == *committable) {
            pool.adopt(slot, SlotState::Avoided);
            continue;
        }
        pool.adopt(slot, SlotState::Prepared(state.checkpoint));
        if *status != CommitStatus::Pending && resumed.iter().all(|(c, _)| c != committable) {
            // Decided before the restart, and not known to be settled.
            _ = pool.decided(slot);
        }
    }
    pool
}
