//! The recovery machine, driven.

use std::{collections::BTreeSet, time::Duration};

use futures::future::{join, join_all};

use super::{RecoverError, RecoveryPhase, Sink};
use crate::{
    client::Resumed,
    ids::TransactionalId,
    net::Clock,
    proto::{
        backoff::Backoff,
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

/// How long an id is asked for whose coordinator does not answer.
const DESCRIBE_PATIENCE: Duration = Duration::from_secs(5);

pub(super) struct Driver<'a> {
    pub(super) sink: &'a Sink,
    pub(super) writers: &'a [WriterState],
    pub(super) observer: &'a (dyn Fn(RecoveryPhase) + Send + Sync),
    pub(super) resumed: Vec<(Committable, Resumed)>,
    pub(super) lost: Vec<Committed>,
    pub(super) failed: Vec<Committed>,
}

/// What came of an effect.
enum Done {
    Commits(Vec<Committed>),
    Fact(RecoveryInput),
}

impl Driver<'_> {
    pub(super) async fn run(mut self, mut machine: Recovery) -> Result<(Recovered, Self), RecoverError> {
        loop {
            if let Some(result) = machine.result() {
                return match result.clone() {
                    Ok(recovered) => Ok((recovered, self)),
                    Err(RecoveryError::NotCommitted(_)) => Err(RecoverError::NotCommitted(self.failed)),
                    Err(e @ RecoveryError::NotFenced(_)) => Err(RecoverError::Leftovers(e)),
                    Err(e @ RecoveryError::Orphans { .. }) => Err(RecoverError::Orphans(e)),
                };
            }
            self.step(&mut machine).await?;
        }
    }

    /// Does what the machine wants now, all of it at once, and tells it what came of it.
    pub(super) async fn step(&mut self, machine: &mut Recovery) -> Result<(), RecoverError> {
        let clock = self.sink.client.clock();
        let effects: Vec<_> = std::iter::from_fn(|| machine.poll_effect()).collect();
        if effects.is_empty() {
            // One effect at least is under way until there is a result.
            return Err(RecoverError::Leftovers(RecoveryError::NotFenced(Vec::new())));
        }
        let done = join_all(effects.into_iter().map(|effect| self.act(effect))).await;
        for done in done {
            let input = match done {
                Done::Commits(all) => RecoveryInput::Committed(self.committed(all)),
                Done::Fact(input) => input,
            };
            _ = machine.handle(clock.now(), input);
        }
        Ok(())
    }

    async fn act(&self, effect: RecoveryEffect) -> Done {
        let client = &self.sink.client;
        Done::Fact(match effect {
            RecoveryEffect::Commit(committables) => {
                (self.observer)(RecoveryPhase::Commit);
                let committer = self.sink.committer();
                let all = committables.into_iter().map(|c| committer.commit_one(c, First::EndTxn));
                return Done::Commits(join_all(all).await);
            }
            RecoveryEffect::List { patterns } => {
                (self.observer)(RecoveryPhase::Look);
                let (listed, hidden) = join(client.list_for_recovery(&patterns), self.hidden()).await;
                let (transactions, silent_brokers) = listed;
                RecoveryInput::Listed { transactions, silent_brokers, hidden }
            }
            RecoveryEffect::LookForOpen => {
                RecoveryInput::Open(client.open_producers(&self.sink.partitions()).await)
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
                let settled = targets.into_iter().map(|target| client.settle(target, wait));
                RecoveryInput::Settled(join_all(settled).await)
            }
        })
    }

    fn committed(&mut self, all: Vec<Committed>) -> Vec<CommitAnswer> {
        let mut answers = Vec::new();
        for committed in all {
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
        let tried = prefixes.into_iter().map(|prefix| async move {
            let id = prefix.id(IdParts { subtask: 0, number: 0 });
            self.sink.client.may_not_describe(&id).await.then(|| prefix.clone())
        });
        join_all(tried).await.into_iter().flatten().collect()
    }

    async fn describe(&self, id: &TransactionalId) -> Described {
        let clock = self.sink.client.clock();
        let mut backoff = Backoff::new(Duration::from_millis(5), Duration::from_millis(200), Clock::seed());
        let deadline = clock.now().after(DESCRIBE_PATIENCE);
        while clock.now() < deadline {
            match self.sink.client.describe_for_recovery(id).await {
                Described::Retry | Described::Relookup => tokio::time::sleep(backoff.next_wait()).await,
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
