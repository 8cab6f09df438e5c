//! What a recovery is told, what it wants, and what comes of it.

use std::{collections::BTreeSet, fmt};

use crate::{
    ids::{Identity, ProducerId, TopicId, TopicPartition, TransactionalId},
    proto::{
        committable::Committable,
        naming::IdPrefix,
        pool::WriterState,
        resume::{CoordinatorState, Decision, Described, Outcome},
        settle::{CommittedButHanging, OpenTransaction, SettleError, SettleTarget, Settled},
    },
};

/// What is known of a listed committable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitStatus {
    /// To be committed.
    Pending,
    /// Decided, and not known to be settled: it is not committed again, but its id is not used either.
    Decided(Decision),
}

/// What a restart begins with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// The committables of the restored checkpoint that are these writers'.
    pub committables: Vec<(Committable, CommitStatus)>,
    /// The states of the writers that recover together, as [`WriterState::deal`] gave them to this run: those of all
    /// subtasks, or that of one.
    pub writers: Vec<WriterState>,
    /// The number of that checkpoint.
    pub checkpoint: u64,
    /// What is done where the checkpoint is not the newest.
    pub orphans: Orphans,
    /// The finalized level of `transaction.version`.
    pub level: i16,
}

/// What is done where transactions under the sink's ids show that the restored checkpoint is not the newest: everything
/// since is going to be written once more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Orphans {
    /// Nothing is aborted, and no writer begins. The newest checkpoint can still be restored.
    #[default]
    Refuse,
    /// The job goes on from the older checkpoint. Readers see twice what those transactions wrote; what is prepared and
    /// not committed is aborted.
    WriteAgain,
}

/// A transaction that only a run after the restored checkpoint can have made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Orphan {
    /// Its id.
    pub transactional_id: TransactionalId,
    /// What shows that.
    pub proof: OrphanProof,
    /// The pair that its coordinator shows.
    pub identity: Identity,
    /// When it was begun, in milliseconds since the Unix epoch on its coordinator's clock.
    pub start_ms: Option<i64>,
}

/// What proves that there was a later checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrphanProof {
    /// It is committed, and a sink commits only what a complete checkpoint lists.
    Committed,
    /// It is open under an id that the restored checkpoint lists, and such an id is used again only when a later one
    /// is complete.
    UsedAgain,
}

impl fmt::Display for Orphan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.proof {
            OrphanProof::Committed => "committed",
            OrphanProof::UsedAgain => "open, after a later checkpoint",
        };
        write!(f, "{} ({}): {state}", self.transactional_id, self.identity)?;
        match self.start_ms {
            Some(start) => write!(f, ", begun {start} ms after the Unix epoch"),
            None => Ok(()),
        }
    }
}

/// A line of a ListTransactions answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedTransaction {
    /// The id.
    pub transactional_id: TransactionalId,
    /// Its producer id.
    pub producer_id: ProducerId,
    /// Its state.
    pub state: CoordinatorState,
}

/// An open transaction on a partition, and whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenProducer {
    /// The partition.
    pub partition: TopicPartition,
    /// The topic's id.
    pub topic_id: TopicId,
    /// The producer id.
    pub producer_id: ProducerId,
    /// What is open.
    pub open: OpenTransaction,
}

/// What became of a committable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitAnswer {
    /// It is committed.
    Committed,
    /// It is lost or undecidable, and the job's policy is to go on.
    GivenUp,
    /// No final answer, or one that the policy does not accept.
    Failed,
}

/// What is done where records of a complete checkpoint are lost, or where nothing proves what became of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnLost {
    /// The job stops with the answer.
    #[default]
    Fail,
    /// It is logged as an error, with all that an operator needs, and counted; the job goes on without those records.
    Skip,
}

impl CommitAnswer {
    /// What a final outcome of a commit means under this policy; `None` is none yet.
    #[must_use]
    pub fn of(outcome: Option<&Outcome>, on_lost: OnLost) -> Self {
        match (outcome, on_lost) {
            (Some(Outcome::Committed | Outcome::AlreadyCommitted(_)), _) => Self::Committed,
            (Some(Outcome::Lost { .. } | Outcome::Undecidable(_) | Outcome::Aborted), OnLost::Skip) => {
                Self::GivenUp
            }
            (Some(Outcome::Lost { .. } | Outcome::Undecidable(_) | Outcome::Aborted), OnLost::Fail)
            | (None, _) => Self::Failed,
        }
    }
}

/// What became of a fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FenceAnswer {
    /// A bare InitProducerId was granted.
    Fenced,
    /// It was not granted in time, and may be later.
    Late,
    /// It was refused.
    Failed,
}

/// A fact. Lists are in the order of what was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecoveryInput {
    /// Every committable was tried.
    Committed(Vec<CommitAnswer>),
    /// Every broker was asked.
    Listed {
        /// What they list; ids that we may not describe are silently left out.
        transactions: Vec<ListedTransaction>,
        /// Brokers that did not answer.
        silent_brokers: usize,
        /// Prefixes whose ids we may not describe, so that brokers leave them out.
        hidden: Vec<IdPrefix>,
    },
    /// The sink's partitions were looked at; `None` when that is not permitted or not possible.
    Open(Option<Vec<OpenProducer>>),
    /// The ids were described.
    Described(Vec<Described>),
    /// The leftovers were fenced.
    Fenced(Vec<FenceAnswer>),
    /// The fenced transactions were looked at.
    Settled(Vec<Result<Settled, SettleError>>),
}

/// An intent. Those that come at once are under way at the same time, and their facts may come in any order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecoveryEffect {
    /// Commit these with [`Resume`](crate::proto::resume::Resume), each on its own.
    Commit(Vec<Committable>),
    /// List the transactions that match any of these RE2 patterns, from every broker.
    List {
        /// One pattern per prefix.
        patterns: Vec<String>,
    },
    /// Look for open transactions on every partition of the sink's topics.
    LookForOpen,
    /// Describe these ids.
    Describe(Vec<TransactionalId>),
    /// Fence these by a bare InitProducerId.
    Fence(Vec<TransactionalId>),
    /// See with [`Settle`](crate::proto::settle::Settle) whether these aborts have reached every partition.
    Settle(Vec<SettleTarget>),
}

/// The writer may begin.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recovered {
    /// Leftovers that were aborted; their ids are free unless `avoid` names them.
    pub aborted: Vec<TransactionalId>,
    /// Leftovers whose end is decided, and whose markers wait for a leader of their partition; `avoid` names them, too.
    pub pending: Vec<TransactionalId>,
    /// Transactions that hang: retired, and candidates for a repair where it is told how the decision came about.
    pub retired: Vec<CommittedButHanging>,
    /// Ids that must not be used in this run: they could not be looked at, or a committable holds them.
    pub avoid: BTreeSet<TransactionalId>,
    /// What recovery could not see.
    pub blind: Vec<Blindness>,
    /// Transactions of a later run.
    pub orphans: Vec<Orphan>,
}

impl Recovered {
    /// What of it concerns the writer at `index` of those that recovered together.
    #[must_use]
    pub fn of_writer(&self, all: &[WriterState], index: usize) -> Self {
        let its = |id: &TransactionalId| WriterState::owner(all, id) == index;
        Self {
            aborted: self.aborted.iter().filter(|id| its(id)).cloned().collect(),
            pending: self.pending.iter().filter(|id| its(id)).cloned().collect(),
            retired: self.retired.iter().filter(|r| its(&r.transactional_id)).cloned().collect(),
            avoid: self.avoid.iter().filter(|id| its(id)).cloned().collect(),
            blind: self.blind.clone(),
            orphans: self.orphans.iter().filter(|o| its(&o.transactional_id)).cloned().collect(),
        }
    }
}

/// Something that recovery could not see. A leftover there ends by its timeout, and holds readers up until then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Blindness {
    /// This many brokers did not list their transactions. Ids that may be in use were asked for one by one.
    SilentBrokers(usize),
    /// Ids of this prefix may not be described, and are not listed.
    Hidden(IdPrefix),
    /// Open transactions on the partitions cannot be told; ids that were used before are not used again.
    OpenTransactions,
    /// This id cannot be described.
    Id(TransactionalId),
}

/// Why the writer must not begin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecoveryError {
    /// Transactions of the restored checkpoint are not committed; try again.
    #[error("{} transactions of the restored checkpoint are not committed", .0.len())]
    NotCommitted(Vec<TransactionalId>),
    /// Leftovers could not be fenced: somebody may still write in them. Try again.
    #[error("{} leftover transactions could not be fenced", .0.len())]
    NotFenced(Vec<TransactionalId>),
    /// The checkpoint is not the newest one.
    #[error(
        "checkpoint {checkpoint} is not the newest of this job: there are transactions under its ids that only a later \
         one can have led to. Everything after it would be written again, and readers would see twice what was \
         committed since:{}",
        .orphans.iter().map(|orphan| format!("\n  {orphan}")).collect::<String>()
    )]
    Orphans {
        /// The restored checkpoint.
        checkpoint: u64,
        /// What it does not know.
        orphans: Vec<Orphan>,
    },
}

/// A fact that was not asked for, or of another length than what was asked; the state is as before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this fact was not asked for")]
pub struct Misuse;
