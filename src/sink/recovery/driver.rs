//! The recovery machine, driven.

use std::{collections::BTreeSet, time::Duration};

use futures::future::join_all;

use super::{RecoverError, RecoveryPhase, Sink};
use crate::{
    client::Resumed,
    ids::{TopicPartition, TransactionalId},
    proto::{
        cause::CauseKind,
        committable::Committable,
        naming::{IdParts, IdPrefix},
        pool::WriterState,
        recovery::{
            CommitAnswer, FenceAnswer, Recovered, Recovery, RecoveryEffect, RecoveryError, RecoveryInput,
        },
        resume::{Described, First},
    },
    sink::committer::Committed,
};

pub(super) struct Driver<'a> {
    pub(super) sink: &'a Sink,
    pub(super) writers: &'a [WriterState],
    pub(super) observer: &'a (dyn Fn(RecoveryPhase) + Send + Sync),
    pub(super) resumed: Vec<(Committable, Resumed)>,
    pub(super) lost: Vec<Committed>,
    pub(super) failed: Vec<Committed>,
}

impl Driver<'_> {
    pub(super) async fn run(mut self, mut machine: Recovery) -> Result<(Recovered, Self), RecoverError> {
        let clock = self.sink.client.clock();
        loop {
            if let Some(result) = machine.result() {
                return match result.clone() {
                    Ok(recovered) => Ok((recovered, self)),
                    Err(RecoveryError::NotCommitted(_)) => Err(RecoverError::NotCommitted(self.failed)),
                    Err(e @ RecoveryError::NotFenced(_)) => Err(RecoverError::Leftovers(e)),
                    Err(e @ RecoveryError::Orphans { .. }) => Err(RecoverError::Orphans(e)),
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
                let (transactions, silent_brokers) = self.sink.client.list_for_recovery(&patterns).await;
                RecoveryInput::Listed { transactions, silent_brokers, hidden: self.hidden().await }
            }
            RecoveryEffect::LookForOpen => {
                RecoveryInput::Open(self.sink.client.open_producers(&self.partitions()).await)
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
                let wait = self.sink.config.settle_timeout;
                let settled = targets.into_iter().map(|target| self.sink.client.settle(target, wait));
                RecoveryInput::Settled(join_all(settled).await)
            }
        }
    }

    fn partitions(&self) -> Vec<TopicPartition> {
        let all = self.sink.topics.iter().flat_map(|t| {
            (0..t.partitions()).map(|partition| TopicPartition { topic: t.name().clone(), partition })
        });
        all.collect()
    }

    async fn commit(&mut self, committables: Vec<Committable>) -> Vec<CommitAnswer> {
        let committer = self.sink.committer();
        let all = committables.into_iter().map(|c| committer.commit_one(c, First::EndTxn));
        let mut answers = Vec::new();
        for committed in join_all(all).await {
            let answer = committed.answer(self.sink.config.on_lost);
            answers.push(answer);
            match (answer, committed.result) {
                (CommitAnswer::Committed, Ok(resumed)) => self.resumed.push((committed.committable, resumed)),
                (CommitAnswer::GivenUp, result) => {
                    let lost = Committed { result, ..committed };
                    lost.log_given_up();
                    self.lost.push(lost);
                }
                (CommitAnswer::Committed | CommitAnswer::Failed, result) => {
                    self.failed.push(Committed { result, ..committed });
                }
            }
        }
        answers
    }

    /// The prefixes whose ids we may not describe.
    async fn hidden(&self) -> Vec<IdPrefix> {
        let prefixes: BTreeSet<&IdPrefix> = self.writers.iter().flat_map(WriterState::prefixes).collect();
        let mut hidden = Vec::new();
        for prefix in prefixes {
            let id = prefix.id(IdParts { subtask: 0, number: 0 });
            if self.sink.client.may_not_describe(&id).await {
                hidden.push(prefix.clone());
            }
        }
        hidden
    }

    async fn describe(&self, id: &TransactionalId) -> Described {
        for _ in 0..50 {
            match self.sink.client.describe_for_recovery(id).await {
                Described::Retry | Described::Relookup => {
                    tokio::time::sleep(Duration::from_millis(100)).await
                }
                described => return described,
            }
        }
        Described::Retry
    }

    /// Brokers that wait with a marker until its partition has a leader do not grant it before, so it has as much time
    /// as the markers have.
    async fn fence(&self, id: TransactionalId) -> FenceAnswer {
        let config = &self.sink.config;
        let producer = self.sink.client.transactional_producer(id.clone());
        let init = producer.transaction_timeout(config.transaction_timeout).init();
        match tokio::time::timeout(config.settle_timeout, init).await {
            Ok(Ok(_)) => FenceAnswer::Fenced,
            Ok(Err(cause)) if cause.kind != CauseKind::Unreachable => {
                tracing::error!(transactional_id = %id, %cause, "a leftover could not be aborted");
                FenceAnswer::Failed
            }
            Ok(Err(_)) | Err(_) => FenceAnswer::Late,
        }
    }
}
