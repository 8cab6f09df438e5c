//! Commits or aborts under the identity of somebody else's prepared transaction.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};

use super::{
    error::{ClientError, EndError},
    evidence, look,
    producer::{Next, Shared},
    router::{FRESH, Purpose, Router},
};
use crate::{
    exchange::EndTxn,
    ids::{Identity, Moment, NodeId},
    net::{CallError, Clock},
    proto::{
        committable::Committable,
        resume::{
            Alarm, CommitError, Decision, First, Leaderless, Outcome, PendingCause, Resume, ResumeEffect,
            ResumeInput, ResumeOptions,
        },
        verdict::{self, FindCoordinatorVerdict},
    },
};

/// Settings of a resumed end.
#[derive(Debug, Clone)]
pub struct ResumeBuilder {
    router: Arc<Router>,
    committable: Committable,
    first: First,
    leaderless: Leaderless,
    patience: Option<Duration>,
    purpose: Purpose,
    seen_from: Option<Moment>,
}

/// How a resumed transaction ended, and the pair that its id can go on with.
#[derive(Debug)]
pub struct Resumed {
    /// The outcome.
    pub outcome: Outcome,
    /// The pair that EndTxn of version 5 returned; the next transaction of the id can be written under it.
    pub next: Option<Identity>,
}

impl ResumeBuilder {
    pub(crate) fn new(router: Arc<Router>, committable: Committable) -> Self {
        Self {
            router,
            committable,
            first: First::default(),
            leaderless: Leaderless::default(),
            patience: None,
            purpose: Purpose::Control,
            seen_from: None,
        }
    }

    /// Leaders that were asked for since then, and a moment ago at most, need not be asked for again. Default: since a moment
    /// before the call, so that a commit that follows its checkpoint goes by what was asked at the barrier.
    fn seen_from(self, moment: Moment) -> Self {
        Self { seen_from: Some(moment), ..self }
    }

    /// What is done first. Default: EndTxn; [`First::Describe`] asks the coordinator for the state before.
    #[must_use]
    pub fn first(self, first: First) -> Self {
        Self { first, ..self }
    }

    /// What is done while a partition of the transaction has no leader. Default: the end waits for one while more
    /// than half of the transaction timeout is left, because brokers lose markers then (KAFKA-20734).
    #[must_use]
    pub fn leaderless(self, leaderless: Leaderless) -> Self {
        Self { leaderless, ..self }
    }

    /// After this time the answer is [`CommitError::Pending`]. Default: the transaction's deadline and a minute.
    #[must_use]
    pub fn timeout(self, patience: Duration) -> Self {
        Self { patience: Some(patience), ..self }
    }

    /// The connection to the coordinator: one of this number, which only such ends share. Default: that of all short
    /// requests. A broker serves one request of a connection at a time, so ends on one wait for each other.
    #[must_use]
    pub fn connection(self, number: u16) -> Self {
        Self { purpose: Purpose::Commit(number), ..self }
    }

    /// Commits, without InitProducerId, and proves the outcome where the broker's answer is ambiguous.
    ///
    /// # Errors
    /// [`CommitError`]: nothing is decided as far as is known, and the committable stays valid.
    ///
    /// # Cancel safety
    /// Cancel safe: committing again is always right.
    pub async fn commit(self) -> Result<Resumed, CommitError> {
        self.end(Decision::Commit).await
    }

    /// Aborts under the same identity.
    ///
    /// # Errors
    /// [`CommitError`], as for [`commit`](Self::commit).
    ///
    /// # Cancel safety
    /// Cancel safe: aborting again is always right.
    pub async fn abort(self) -> Result<Resumed, CommitError> {
        self.end(Decision::Abort).await
    }

    async fn end(self, decision: Decision) -> Result<Resumed, CommitError> {
        let clock = self.router.clock;
        let options = ResumeOptions {
            decision,
            first: self.first,
            leaderless: self.leaderless,
            patience: self.patience,
            wall_ms: Clock::wall_ms(),
            seed: Clock::seed(),
        };
        let committable = Arc::new(self.committable);
        let machine = Resume::new(clock.now(), (*committable).clone(), options);
        let (router, purpose) = (self.router, self.purpose);
        let seen_from = self.seen_from.unwrap_or_else(|| clock.now().before(FRESH));
        let driver = Driver { router, committable, purpose, seen_from, node: None, next: None };
        driver.run(machine, clock).await
    }
}

/// Nothing is ever sent to a cluster that the committable does not come from.
fn check_cluster(router: &Router, committable: &Committable) -> Result<(), CommitError> {
    match (&committable.cluster_id, router.cluster_id()) {
        (Some(expected), Some(found)) if *expected != found => {
            Err(CommitError::AnotherCluster { expected: Arc::clone(expected), found })
        }
        (Some(_) | None, _) => Ok(()),
    }
}

/// Commits a transaction of this process that was made ready for it. The commit goes on when nobody waits for it. What is
/// known of leaders must not be older than `asked`.
pub(super) async fn commit_own(
    shared: Arc<Shared>,
    committable: Committable,
    asked: Moment,
) -> Result<Next, EndError> {
    let commit = commit_now(shared, committable.clone(), asked);
    #[expect(clippy::disallowed_methods, reason = "half a commit is worse than one that nobody waits for")]
    let done = tokio::spawn(commit).await;
    done.unwrap_or_else(|_| {
        let error =
            CommitError::Pending { cause: PendingCause::NotKnown, since: Moment::default(), tries: 1 };
        Err(EndError::Pending { committable: Box::new(committable), error })
    })
}

async fn commit_now(shared: Arc<Shared>, committable: Committable, asked: Moment) -> Result<Next, EndError> {
    let identity = committable.identity;
    let resume = ResumeBuilder::new(Arc::clone(&shared.router), committable.clone()).seen_from(asked);
    match resume.commit().await {
        Ok(Resumed { outcome: Outcome::Committed | Outcome::AlreadyCommitted(_), next: Some(next) }) => {
            Ok(Next::Returned(next))
        }
        Ok(Resumed { outcome: Outcome::Committed | Outcome::AlreadyCommitted(_), next: None }) => {
            Ok(Next::Used(identity))
        }
        Ok(Resumed { outcome, .. }) => Err(EndError::Outcome(Box::new(outcome))),
        Err(error) => Err(EndError::Pending { committable: Box::new(committable), error }),
    }
}

struct Driver {
    router: Arc<Router>,
    committable: Arc<Committable>,
    purpose: Purpose,
    /// Leaders that were asked for since then are good enough, while that is a moment ago.
    seen_from: Moment,
    node: Option<NodeId>,
    next: Option<Identity>,
}

/// A fact, and what the driver learned beside it.
struct Learned {
    input: ResumeInput,
    node: Option<NodeId>,
    next: Option<Identity>,
}

impl From<ResumeInput> for Learned {
    fn from(input: ResumeInput) -> Self {
        Self { input, node: None, next: None }
    }
}

impl Driver {
    async fn run(mut self, mut machine: Resume, clock: Clock) -> Result<Resumed, CommitError> {
        let mut calls: FuturesUnordered<BoxFuture<'static, Learned>> = FuturesUnordered::new();
        loop {
            while let Some(effect) = machine.poll_effect() {
                calls.extend(self.act(effect));
            }
            if let Some(result) = machine.result() {
                return result.clone().map(|outcome| Resumed { outcome, next: self.next });
            }
            let deadline = machine.next_deadline();
            let input = tokio::select! {
                Some(learned) = calls.next() => {
                    // The cluster is known with its first coordinator at the latest.
                    check_cluster(&self.router, &self.committable)?;
                    self.node = learned.node.or(self.node);
                    self.next = learned.next.or(self.next);
                    learned.input
                }
                () = clock.sleep_until(deadline) => ResumeInput::Tick,
            };
            // A fact that the machine no longer waits for changes nothing.
            _ = machine.handle(clock.now(), input);
        }
    }

    fn act(&mut self, effect: ResumeEffect) -> Option<BoxFuture<'static, Learned>> {
        let (router, committable) = (Arc::clone(&self.router), Arc::clone(&self.committable));
        let node = self.node;
        let place = node.map(|node| (node, self.purpose));
        Some(match effect {
            ResumeEffect::FindCoordinator => {
                // It is looked up anew only if the last try did not get there.
                if self.node.take().is_some() {
                    router.forget_coordinator(&committable.transactional_id);
                }
                find(router, committable, self.purpose).boxed()
            }
            ResumeEffect::ReadFeatureLevel => level(router, place).boxed(),
            ResumeEffect::Describe => describe(router, committable, place).boxed(),
            ResumeEffect::CheckLeaders => {
                // When it is asked again, time has passed.
                let from = std::mem::replace(&mut self.seen_from, router.clock.now());
                leaders(router, committable, place, from).boxed()
            }
            ResumeEffect::EndTxn { version, decision } => {
                end_txn(router, committable, place, (version, decision)).boxed()
            }
            ResumeEffect::ReadEvidence { partition, end_txn_version } => {
                async move { evidence::read(&router, &committable, partition, end_txn_version).await.into() }
                    .boxed()
            }
            ResumeEffect::Alarm(alarm) => {
                warn(&committable, alarm);
                return None;
            }
        })
    }
}

fn warn(committable: &Committable, alarm: Alarm) {
    let (id, identity) = (&committable.transactional_id, committable.identity);
    match alarm {
        Alarm::Concurrent { .. } => tracing::warn!(
            transactional_id = %id, %identity,
            "the coordinator has been ending this transaction for a while: a partition leader may be down. {}",
            PendingCause::Concurrent.cure()
        ),
        Alarm::Stuck => tracing::warn!(
            transactional_id = %id, %identity,
            "the coordinator refuses the version of this transaction: the id is stuck until its coordinator moves. {}",
            PendingCause::Stuck.cure()
        ),
        Alarm::Leaderless => tracing::warn!(
            transactional_id = %id, %identity,
            "a partition of this transaction has no leader: the end waits for one. {}",
            PendingCause::Leaderless.cure()
        ),
        Alarm::Slow { cause, waited } => tracing::warn!(
            transactional_id = %id, %identity,
            "not decided for {waited:?}: {cause}. {}",
            cause.cure()
        ),
    }
}

async fn find(router: Arc<Router>, committable: Arc<Committable>, purpose: Purpose) -> Learned {
    if router.cluster_id().is_none() {
        // No broker that can't be reached now is a stranger. The leaders are wanted next.
        let topics: BTreeSet<_> = committable.partitions.iter().map(|p| p.topic.clone()).collect();
        _ = router.metadata(Some(topics.into_iter().collect())).await;
    }
    if check_cluster(&router, &committable).is_err() {
        // Refused by the driver as soon as it sees that the cluster is known.
        return ResumeInput::Coordinator(FindCoordinatorVerdict::Retry).into();
    }
    if !router.knows_coordinator(&committable.transactional_id) {
        router.open_where_it_may_be(purpose);
    }
    match router.coordinator(&committable.transactional_id).await {
        Ok(Ok(node)) => {
            // What is looked at before the end takes as long as a handshake.
            router.open_ahead([node], purpose);
            Learned { node: Some(node), ..ResumeInput::Coordinator(FindCoordinatorVerdict::Found).into() }
        }
        Ok(Err(e)) => ResumeInput::Coordinator(e.verdict).into(),
        Err(ClientError::Call(CallError::Exchange(_))) => {
            ResumeInput::Coordinator(FindCoordinatorVerdict::Fatal).into()
        }
        Err(e) => {
            tracing::debug!(error = %e, "no coordinator");
            ResumeInput::Coordinator(FindCoordinatorVerdict::Retry).into()
        }
    }
}

async fn level(router: Arc<Router>, place: Option<Place>) -> Learned {
    let Some((node, purpose)) = place else { return ResumeInput::NoAnswer.into() };
    match router.profile_within(node, purpose, FRESH).await {
        Ok(profile) => ResumeInput::FeatureLevel(profile.transaction_version.level()).into(),
        Err(_) => ResumeInput::NoAnswer.into(),
    }
}

/// A coordinator, and the connection to it.
type Place = (NodeId, Purpose);

async fn describe(router: Arc<Router>, committable: Arc<Committable>, place: Option<Place>) -> Learned {
    let Some(place) = place else { return ResumeInput::NoAnswer.into() };
    match look::described_by(&router, place, &committable.transactional_id).await {
        Some(described) => ResumeInput::Described(described).into(),
        None => ResumeInput::NoAnswer.into(),
    }
}

async fn end_txn(
    router: Arc<Router>,
    committable: Arc<Committable>,
    place: Option<Place>,
    (version, decision): (i16, Decision),
) -> Learned {
    let Some((node, purpose)) = place else { return ResumeInput::NoAnswer.into() };
    let call = EndTxn {
        transactional_id: committable.transactional_id.clone(),
        identity: committable.identity,
        commit: decision == Decision::Commit,
        version,
    };
    match router.ask(node, purpose, call).await {
        Ok(ended) => Learned {
            next: ended.next,
            ..ResumeInput::EndTxn(verdict::end_txn_on_resume(version, ended.code)).into()
        },
        Err(e @ CallError::Exchange(crate::exchange::ExchangeError::Unsupported(_))) => {
            tracing::warn!(error = %e, "the coordinator can't end this transaction");
            ResumeInput::EndTxn(verdict::ResumeVerdict::Refused).into()
        }
        Err(_) => ResumeInput::NoAnswer.into(),
    }
}

async fn leaders(
    router: Arc<Router>,
    committable: Arc<Committable>,
    place: Option<Place>,
    from: Moment,
) -> Learned {
    // The end waits for its connection anyway, and what is known of leaders must not grow old meanwhile.
    if let Some(connection) = place.and_then(|(node, purpose)| router.connection(node, purpose)) {
        _ = connection.ready().await;
    }
    let from = from.max(router.clock.now().before(FRESH));
    let asked: Vec<_> = committable.partitions.iter().map(|p| (p.topic_partition(), p.topic_id)).collect();
    match look::partitions_since(&router, &asked, from).await {
        Some(partitions) => ResumeInput::Partitions(partitions).into(),
        None => ResumeInput::NoAnswer.into(),
    }
}
