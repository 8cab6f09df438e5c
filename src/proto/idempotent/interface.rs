//! What the idempotent machine is told, and what it asks for.

use crate::{
    ids::{Identity, NodeId, TopicPartition},
    proto::{
        cause::Cause,
        outbox::{Batch, BatchFact, BatchId, Produce, RequestId},
        topics::Looked,
    },
};

/// Commands and facts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A sealed batch.
    Batch {
        /// Where it goes.
        partition: TopicPartition,
        /// The batch; later ones have greater ids.
        batch: Batch,
        /// Where its leader was the last time that anybody asked.
        leader: Option<NodeId>,
    },
    /// Say when the fate of everything so far is known.
    Flush,
    /// InitProducerId was answered, or failed.
    Initialized(InitFact),
    /// A Produce request was answered.
    Produced {
        /// Which.
        request: RequestId,
        /// What the answer says; a batch that it does not mention is tried again.
        facts: Vec<(TopicPartition, BatchId, ProduceFact)>,
    },
    /// A Produce request will never be answered. It may have been carried out.
    ProduceLost(RequestId),
    /// The answer to [`Effect::Split`]: these batches hold the same records in the same order, none if that is not possible.
    Split {
        /// The batch that was too large.
        batch: BatchId,
        /// What it became.
        parts: Vec<Batch>,
    },
    /// Leaders were looked up.
    Leaders(Looked),
    /// Time passed.
    Tick,
}

/// What an answer to Produce says of one batch of an idempotent producer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProduceFact {
    /// What says the same to any producer. `OutOfOrder` is also said for a producer that the broker does not know.
    Plain(BatchFact<Cause>),
    /// The batch is larger than the broker takes.
    TooLarge(Cause),
    /// The broker knows the producer under a newer epoch, or not at all.
    IdentityGone(Cause),
    /// Whether it is stored is not said, and no further try would tell.
    Unclear(Cause),
}

/// What InitProducerId led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InitFact {
    /// A producer id that nobody else has, with its first epoch.
    Granted(Identity),
    /// Ask again after the usual wait.
    Retry,
    /// It will not be granted.
    Refused(Cause),
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Send InitProducerId without a transactional id to any broker, and answer with [`Input::Initialized`].
    Initialize,
    /// Send batches.
    Produce {
        /// The request.
        produce: Produce,
        /// Under which identity each of its batches leaves, in their order. A batch that had another one, or another
        /// sequence, is stamped anew.
        identities: Vec<Identity>,
    },
    /// Make smaller batches of this one, and answer with [`Input::Split`].
    Split(BatchId),
    /// Look up the leaders of these partitions, and answer with [`Input::Leaders`].
    FindLeaders(Vec<TopicPartition>),
    /// This batch is stored; its memory is free.
    Stored {
        /// The batch.
        batch: BatchId,
        /// Its offset, if known.
        offset: Option<i64>,
    },
    /// This batch is given up; its memory is free. The kind of the cause is `OutcomeUnknown` if it may be stored.
    Failed {
        /// The batch.
        batch: BatchId,
        /// Why.
        cause: Cause,
    },
    /// A partition goes on under another identity, with sequences from 0.
    Restarted {
        /// The partition.
        partition: TopicPartition,
        /// The identity.
        identity: Identity,
    },
    /// The fate of everything before the oldest open [`Input::Flush`] is known.
    Flushed,
}
