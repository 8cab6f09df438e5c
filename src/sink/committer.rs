//! Commits what was prepared, by whomever.

use std::sync::Arc;

use futures::stream::{FuturesUnordered, StreamExt};
use tracing::{Instrument, Span};

use super::{config::SinkConfig, lanes::Lanes};
use crate::{
    client::{Client, Resumed},
    proto::{
        committable::Committable,
        recovery::{CommitAnswer, OnLost},
        resume::{CommitError, Decision, First, Outcome},
        settle::{SettleError, SettleTarget, Settled},
    },
};

impl Committed {
    /// What became of it, for people.
    #[must_use]
    pub fn story(&self) -> String {
        match &self.result {
            Ok(resumed) => resumed.outcome.story(),
            Err(error) => error.to_string(),
        }
    }

    /// True when its records are proven to be lost.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        let lost = |resumed: &Resumed| matches!(resumed.outcome, Outcome::Lost { .. } | Outcome::Aborted);
        self.result.as_ref().is_ok_and(lost)
    }

    /// True when nothing proves whether it is committed or lost.
    #[must_use]
    pub fn is_undecidable(&self) -> bool {
        self.result.as_ref().is_ok_and(|resumed| matches!(resumed.outcome, Outcome::Undecidable(_)))
    }

    /// What it means under a policy.
    #[must_use]
    pub fn answer(&self, on_lost: OnLost) -> CommitAnswer {
        CommitAnswer::of(self.result.as_ref().ok().map(|resumed| &resumed.outcome), on_lost)
    }

    /// Logs that the job goes on without these records, with everything that an operator needs to find them.
    pub fn log_given_up(&self) {
        let c = &self.committable;
        let partitions = c.partitions.iter().map(|p| {
            format!(
                "{}-{} ({}) offset {} ({} records)",
                p.topic, p.partition, p.topic_id, p.offset, p.records
            )
        });
        tracing::error!(
            transactional_id = %c.transactional_id,
            identity = %c.identity,
            start_ms = c.start_ms,
            deadline_ms = c.deadline_ms,
            cluster_id = c.cluster_id.as_deref(),
            partitions = partitions.collect::<Vec<_>>().join(", "),
            "given up, and the job goes on without its {} records: {}",
            c.records(),
            self.story()
        );
    }
}

/// Commits the committables of completed checkpoints, over connections of their own: a coordinator that answers late
/// never holds up a writer. Clones share them.
#[derive(Debug, Clone)]
pub struct Committer {
    client: Client,
    config: Arc<SinkConfig>,
    lanes: Lanes,
}

/// What became of one committable.
#[derive(Debug)]
pub struct Committed {
    /// The committable.
    pub committable: Committable,
    /// Its outcome, or why there is none yet.
    pub result: Result<Resumed, CommitError>,
}

impl Committer {
    /// A committer.
    #[must_use]
    pub fn new(client: Client, config: Arc<SinkConfig>) -> Self {
        let lanes = Lanes::new(config.commit_connections);
        Self { client, config, lanes }
    }

    /// Commits each, side by side, without InitProducerId, and proves the outcome where the broker's answer is
    /// ambiguous. Committing again is harmless.
    ///
    /// # Cancel safety
    /// Cancel safe: what was sent is decided by the broker in any case; commit again to learn how.
    pub async fn commit(&self, committables: Vec<Committable>) -> Vec<Committed> {
        let all: FuturesUnordered<_> =
            committables.into_iter().map(|c| self.commit_one(c, First::EndTxn)).collect();
        all.collect().await
    }

    /// Commits one; `first` says whether its state is asked for before.
    ///
    /// # Cancel safety
    /// As for [`commit`](Self::commit).
    pub async fn commit_one(&self, committable: Committable, first: First) -> Committed {
        let lane = self.lanes.take();
        let resume = self.client.resume(committable.clone()).connection(lane.number());
        let resume = resume.first(first).leaderless(self.config.leaderless);
        let resume = match self.config.commit_timeout {
            Some(timeout) => resume.timeout(timeout),
            None => resume,
        };
        let committing = async {
            let result = resume.commit().await;
            match &result {
                Ok(resumed) => tracing::debug!("{}", resumed.outcome.story()),
                Err(error) => tracing::debug!(%error, "no outcome"),
            }
            result
        };
        Committed { result: committing.instrument(span(&committable)).await, committable }
    }

    /// Waits until the commit is on every partition: the answer to a commit proves the decision, not that readers
    /// see the records.
    ///
    /// # Errors
    /// [`SettleError`]; above all [`SettleError::Hanging`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn settle(&self, committable: &Committable) -> Result<Settled, SettleError> {
        let target = SettleTarget::of(committable, Decision::Commit);
        let settling = async {
            let settled = self.client.settle(target, self.config.settle_timeout).await;
            if settled.is_ok() {
                tracing::debug!("on every partition");
            }
            settled
        };
        settling.instrument(span(committable)).await
    }
}

/// What the log names, whatever the level.
fn span(committable: &Committable) -> Span {
    tracing::warn_span!("transaction", transactional_id = %committable.transactional_id)
}
