//! The task behind one transaction: it carries out what the transaction machine says.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use tokio::sync::{mpsc, oneshot};

use super::{
    accumulator::Sealed,
    ahead::Ahead,
    calls::{self, abort, ask_coordinator, produced},
    groups,
    held::Held,
    link::{self, Link},
    produce::{self, millis},
    producer::{self, Next, Shared, TransactionalProducer},
    resume::ResumeBuilder,
    transaction::Transaction,
};
use crate::{
    exchange::{AddPartitionsToTxn, facts},
    ids::{Identity, Moment, TopicName, TopicPartition},
    net::{CallError, Clock},
    proto::{
        cause::{Cause, CauseKind},
        committable::{Committable, CommittablePartition},
        offsets::GroupOffsets,
        outbox::{self, BatchId, FirstBatch, Limits},
        transaction::{self as machine, AddFact, Effect, Evidence, Finish, Goal, Input, end_txn_version},
    },
    wire::{batch::Stamp, versions::TransactionVersion},
};

/// What a handle tells its task.
#[derive(Debug)]
pub(super) enum Command {
    /// The first record of each of these partitions was taken.
    Began(Vec<TopicPartition>),
    Batches(Vec<Sealed>),
    Offsets(Arc<GroupOffsets>, oneshot::Sender<Result<(), Cause>>),
    Flush(oneshot::Sender<Result<(), Cause>>),
    /// Somebody waits for memory and has something to close by then.
    Wake(Option<Moment>),
    /// The end, and when it was asked for.
    End(Goal, Moment, oneshot::Sender<Ending>),
}

/// How the transaction ended, for its handle.
#[derive(Debug)]
pub(super) enum Ending {
    Empty(Next),
    Prepared(Box<Committable>),
    Aborted(Next, Cause),
    Failed(Cause),
    Fenced(Cause),
    Abandoned(Cause),
}

/// How long an abort is tried that nobody waits for.
const ABANDON_AFTER: Duration = Duration::from_secs(60);

pub(super) fn begin(producer: TransactionalProducer) -> Transaction {
    let link = Arc::new(Link::default());
    let (commands, received) = mpsc::unbounded_channel();
    let is_old = producer.is_old();
    let TransactionalProducer { shared, next, ahead, .. } = producer;
    let task = run(Arc::clone(&shared), Alive(Arc::clone(&link)), received, (next, ahead, is_old));
    #[expect(clippy::disallowed_methods, reason = "a transaction has a task of its own")]
    tokio::spawn(task);
    Transaction::new(shared, link, commands)
}

/// As long as a task has it. A task that ends, also by a panic or with its runtime, and before it ran, takes no more.
struct Alive(Arc<Link>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fail(link::ended());
    }
}

async fn run(
    shared: Arc<Shared>,
    alive: Alive,
    mut commands: mpsc::UnboundedReceiver<Command>,
    (next, ahead, is_old): (Next, Option<Ahead>, bool),
) {
    let link = Arc::clone(&alive.0);
    let (next, early) = {
        let mut early = VecDeque::new();
        let mut identity = std::pin::pin!(async {
            let next = match ahead {
                Some(ahead) => ahead.reached(next).await,
                None => next,
            };
            let next = if is_old { next.old() } else { next };
            (next, producer::identity_for(&shared, next).await)
        });
        loop {
            tokio::select! {
                (next, identity) = &mut identity => break (next, (identity, early)),
                command = commands.recv() => match command {
                    Some(command) => early.push_back(command),
                    // Nobody is left to write. A takeover that is tried on could end what a successor of ours has
                    // prepared meanwhile.
                    None => return,
                },
            }
        }
    };
    match early {
        (Ok((identity, version)), early) => {
            let mut task = Task::new(shared, link, identity, version);
            task.early = early;
            task.run(commands, next).await;
        }
        (Err(cause), early) => refuse(&link, (early, commands), next, &cause).await,
    }
}

/// No identity, no transaction: nothing was written, so an abort has nothing to do.
async fn refuse(
    link: &Link,
    (mut early, mut commands): (VecDeque<Command>, mpsc::UnboundedReceiver<Command>),
    next: Next,
    cause: &Cause,
) {
    link.fail(cause.clone());
    loop {
        let command = match early.pop_front() {
            Some(command) => command,
            None => match commands.recv().await {
                Some(command) => command,
                None => return,
            },
        };
        // Whoever asked may have gone.
        match command {
            Command::Began(_) | Command::Batches(_) | Command::Wake(_) => {}
            Command::Offsets(_, reply) | Command::Flush(reply) => _ = reply.send(Err(cause.clone())),
            Command::End(Goal::Abort, _, reply) => _ = reply.send(Ending::Aborted(next, cause.clone())),
            Command::End(Goal::Prepare | Goal::Commit, _, reply) if cause.is_fenced() => {
                _ = reply.send(Ending::Fenced(cause.clone()));
            }
            Command::End(Goal::Prepare | Goal::Commit, _, reply) => {
                _ = reply.send(Ending::Failed(cause.clone()));
            }
        }
    }
}

struct Task {
    shared: Arc<Shared>,
    link: Arc<Link>,
    identity: Identity,
    version: TransactionVersion,
    machine: machine::Transaction,
    held: Held,
    began_ms: Option<i64>,
    /// Commands that came before there was an identity.
    early: VecDeque<Command>,
    flushes: VecDeque<oneshot::Sender<Result<(), Cause>>>,
    /// Who waits for offsets to be taken, in the machine's order.
    offsets: VecDeque<oneshot::Sender<Result<(), Cause>>>,
    /// When whoever waits for memory is woken to look again.
    alarm: Option<Moment>,
    end: Option<oneshot::Sender<Ending>>,
    /// When the end was asked for.
    ends_since: Moment,
    cause: Option<Cause>,
    calls: FuturesUnordered<BoxFuture<'static, Input>>,
    finished: Option<Finish>,
}

impl Task {
    fn new(shared: Arc<Shared>, link: Arc<Link>, identity: Identity, version: TransactionVersion) -> Self {
        let limits = Limits {
            in_flight: shared.config.in_flight,
            first_batch: match version {
                TransactionVersion::V0 | TransactionVersion::V1 => FirstBatch::Alone,
                TransactionVersion::V2 => FirstBatch::Pipelined,
            },
            request_bytes: shared.config.batching.request_bytes,
            retry: shared.config.retry_backoff,
            retry_max: shared.config.retry_backoff_max,
        };
        Self {
            machine: machine::Transaction::new(version, limits, Clock::seed())
                .abort_patience(shared.router.config.max_block)
                .batches_tell(shared.router.batches_tell()),
            shared,
            link,
            identity,
            version,
            held: Held::default(),
            began_ms: None,
            early: VecDeque::new(),
            flushes: VecDeque::new(),
            offsets: VecDeque::new(),
            alarm: None,
            end: None,
            ends_since: Moment::default(),
            cause: None,
            calls: FuturesUnordered::new(),
            finished: None,
        }
    }

    async fn run(mut self, mut commands: mpsc::UnboundedReceiver<Command>, next: Next) {
        let clock = self.shared.router.clock;
        let mut abandoned: Option<Moment> = None;
        while let Some(command) = self.early.pop_front() {
            self.accept(command);
        }
        _ = self.machine.handle(clock.now(), Input::Tick);
        let finish = loop {
            self.act();
            if let Some(finish) = self.finished.take() {
                break finish;
            }
            let deadline = [self.machine.next_deadline(clock.now()), self.alarm].into_iter().flatten().min();
            tokio::select! {
                Some(fact) = self.calls.next() => self.tell(fact),
                command = commands.recv(), if abandoned.is_none() => match command {
                    Some(command) => self.accept(command),
                    None => {
                        abandoned = Some(clock.now().after(ABANDON_AFTER));
                        self.abandon();
                    }
                },
                () = clock.sleep_until(deadline) => {}
                () = clock.sleep_until(abandoned) => {
                    break Finish::Abandoned(Cause::new(CauseKind::Unreachable, "nobody waits for the abort"));
                }
            }
            if self.alarm.take_if(|at| clock.now() >= *at).is_some() {
                self.link.stir();
            }
            // What else was said by now leaves with it.
            while let Ok(command) = commands.try_recv() {
                self.accept(command);
            }
            _ = self.machine.handle(clock.now(), Input::Tick);
        };
        let shared = Arc::clone(&self.shared);
        if let Some(unseen) = self.finish(finish, next) {
            // Nobody holds what would commit it, so nobody ever will: readers need not wait for its timeout.
            let abort = ResumeBuilder::new(Arc::clone(&shared.router), unseen).timeout(ABANDON_AFTER).abort();
            if let Err(error) = abort.await {
                tracing::debug!(%error, "a transaction that nobody waited for is left to its timeout");
            }
        }
    }

    fn accept(&mut self, command: Command) {
        let input = match command {
            // Brokers of V2 add them themselves, with their first batch.
            Command::Began(_) if self.version >= TransactionVersion::V2 => return,
            Command::Began(partitions) => {
                self.began_ms.get_or_insert_with(Clock::wall_ms);
                Input::Began { partitions }
            }
            Command::Batches(batches) => {
                for sealed in batches {
                    let input = self.take(sealed);
                    self.tell(input);
                }
                return;
            }
            Command::Offsets(_, reply) | Command::Flush(reply) if self.cause.is_some() => {
                _ = reply.send(Err(self.cause.clone().unwrap_or_else(aborted)));
                return;
            }
            Command::Offsets(offsets, reply) => {
                self.offsets.push_back(reply);
                self.began_ms.get_or_insert_with(Clock::wall_ms);
                let deadline = self.shared.router.clock.now().after(self.shared.config.delivery_timeout);
                Input::Offsets { offsets, deadline }
            }
            Command::Wake(at) => {
                self.alarm = at;
                return;
            }
            Command::Flush(reply) => {
                self.flushes.push_back(reply);
                Input::Flush
            }
            Command::End(goal, since, reply) => {
                self.end = Some(reply);
                self.ends_since = since;
                if goal != Goal::Abort && self.machine.topics().next().is_some() {
                    // The level is wanted next, by this transaction's end and by the beginning of another; nobody waits for it
                    // here.
                    self.shared.freshen_level();
                }
                Input::End(goal)
            }
        };
        self.tell(input);
    }

    fn tell(&mut self, input: Input) {
        // A command out of order is refused by the handle's type; a late fact changes nothing.
        _ = self.machine.accept(self.shared.router.clock.now(), input);
    }

    /// The handle is gone without an end: what is not prepared is aborted.
    fn abandon(&mut self) {
        self.end = None;
        self.tell(Input::End(Goal::Abort));
    }

    fn take(&mut self, sealed: Sealed) -> Input {
        self.began_ms.get_or_insert_with(Clock::wall_ms);
        let deadline = sealed.since.after(self.shared.config.delivery_timeout);
        let (partition, batch) = self.held.take(sealed, deadline);
        let leader = self.shared.router.leader(&partition);
        Input::Batch { partition, batch, leader }
    }

    /// Carries out everything that the machine wants.
    fn act(&mut self) {
        while let Some(effect) = self.machine.poll_effect() {
            match effect {
                Effect::AddPartitions(partitions) => self.add_partitions(partitions),
                Effect::AddOffsets(group) => {
                    self.calls.push(groups::add(Arc::clone(&self.shared), self.identity, group).boxed());
                }
                Effect::CommitOffsets(offsets) => {
                    let under = (self.identity, self.version);
                    self.calls.push(groups::commit(Arc::clone(&self.shared), under, offsets).boxed());
                }
                Effect::OffsetsStored => {
                    if let Some(reply) = self.offsets.pop_front() {
                        _ = reply.send(Ok(()));
                    }
                }
                Effect::ForgetGroupCoordinator(group) => self.shared.router.forget_group_coordinator(&group),
                Effect::Produce(produce) => self.produce(&produce),
                Effect::FindLeaders(partitions) => self.find_leaders(partitions),
                Effect::CheckTopics { anew } => self.check_topics(anew),
                Effect::Describe => self.describe(),
                Effect::ForgetCoordinator => {
                    self.shared.router.forget_coordinator(&self.shared.transactional_id);
                }
                Effect::Abort => self.abort(),
                Effect::Stored { batch, offset } => self.release(batch, Ok(offset)),
                Effect::Discarded(batches) => {
                    for batch in batches {
                        let cause = self.cause.clone().unwrap_or_else(aborted);
                        self.release(batch, Err(cause));
                    }
                }
                Effect::Flushed => {
                    if let Some(reply) = self.flushes.pop_front() {
                        _ = reply.send(Ok(()));
                    }
                }
                Effect::Failed(cause) => self.failed(cause),
                Effect::Finished(finish) => self.finished = Some(finish),
            }
        }
    }

    fn failed(&mut self, cause: Cause) {
        tracing::warn!(transactional_id = %self.shared.transactional_id, %cause, "the transaction must be aborted");
        self.link.fail(cause.clone());
        for reply in self.flushes.drain(..).chain(self.offsets.drain(..)) {
            _ = reply.send(Err(cause.clone()));
        }
        if let Some(reply) = self.end.take() {
            _ = reply.send(Ending::Failed(cause.clone()));
        }
        self.cause = Some(cause);
    }

    fn release(&mut self, batch: BatchId, result: Result<Option<i64>, Cause>) {
        _ = self.held.release(batch, result, (&self.link, &self.shared.router.buffers));
    }

    fn produce(&mut self, produce: &outbox::Produce) {
        let (shared, identity) = (Arc::clone(&self.shared), self.identity);
        let transaction = Some((shared.transactional_id.clone(), self.version));
        let stamp = |_, item: &outbox::Item| Stamp::Transactional { identity, base_sequence: item.sequence };
        let answer = produce::produce(&shared.router, &mut self.held, transaction, produce, stamp);
        self.calls.push(answer.map(produced).boxed());
    }

    fn add_partitions(&mut self, partitions: Vec<TopicPartition>) {
        let (shared, identity) = (Arc::clone(&self.shared), self.identity);
        let call = async move {
            let transactional_id = shared.transactional_id.clone();
            let asked = partitions.clone();
            let call = AddPartitionsToTxn { transactional_id, identity, partitions };
            Input::Added(match ask_coordinator(&shared, call).await {
                Ok(answer) => facts::added(&asked, &answer),
                Err(Some(CallError::Exchange(e))) => {
                    AddFact::Refused(Cause::new(CauseKind::Unsupported, e.to_string()))
                }
                Err(
                    Some(CallError::NotSent(_) | CallError::NotKafka(_) | CallError::MaybeSent(_)) | None,
                ) => AddFact::CoordinatorMoved,
            })
        };
        self.calls.push(call.boxed());
    }

    fn describe(&mut self) {
        let (shared, identity) = (Arc::clone(&self.shared), self.identity);
        let call = async move {
            let found = shared.router.coordinator(&shared.transactional_id).await;
            let described = match found {
                Ok(Ok(node)) => shared.router.describe(node, &shared.transactional_id).await.ok(),
                Ok(Err(_)) | Err(_) => None,
            };
            Input::Described { start_ms: described.and_then(|d| facts::start_of_open(&d, identity)) }
        };
        self.calls.push(call.boxed());
    }

    fn abort(&mut self) {
        let (shared, identity, begun) = (Arc::clone(&self.shared), self.identity, self.version);
        let call = async move { Input::Aborted(abort(&shared, identity, begun).await) };
        self.calls.push(call.boxed());
    }

    fn find_leaders(&mut self, partitions: Vec<TopicPartition>) {
        let shared = Arc::clone(&self.shared);
        let topics: Vec<TopicName> = self.machine.topics().cloned().collect();
        let call = async move { Input::Leaders(produce::leaders(&shared.router, partitions, &topics).await) };
        self.calls.push(call.boxed());
    }

    fn check_topics(&mut self, anew: bool) {
        let (shared, anew) = (Arc::clone(&self.shared), anew.then_some(self.ends_since));
        let written = self.machine.written_to().map(|(p, id)| (p.clone(), id)).collect();
        self.calls.push(async move { calls::check_topics(&shared, written, anew).await }.boxed());
    }

    /// Tells how it ended; hands back a committable that nobody is there to take.
    fn finish(mut self, finish: Finish, next: Next) -> Option<Committable> {
        let cause = self.cause.clone().unwrap_or_else(aborted);
        let ending = match finish {
            Finish::Empty => Ending::Empty(self.unused(next)),
            Finish::Prepared(evidence) => Ending::Prepared(Box::new(self.committable(evidence))),
            Finish::Aborted { used: false, .. } => Ending::Aborted(self.unused(next), cause),
            Finish::Aborted { next: Some(returned), .. } => Ending::Aborted(Next::Returned(returned), cause),
            Finish::Aborted { next: None, .. } => Ending::Aborted(Next::Used(self.identity), cause),
            Finish::Fenced(cause) => Ending::Fenced(cause),
            Finish::Abandoned(cause) => Ending::Abandoned(cause),
        };
        if let Ending::Fenced(cause) | Ending::Abandoned(cause) = &ending {
            self.link.fail(cause.clone());
        }
        for reply in self.flushes.drain(..).chain(self.offsets.drain(..)) {
            _ = reply.send(Err(cause_of(&ending)));
        }
        for batch in self.held.names() {
            self.release(batch, Err(cause_of(&ending)));
        }
        let unseen = match self.end.take() {
            Some(reply) => reply.send(ending).err()?,
            None => ending,
        };
        if let Ending::Prepared(committable) = unseen { Some(*committable) } else { None }
    }

    /// The identity as it was, for nothing was written under it.
    fn unused(&self, next: Next) -> Next {
        match next {
            Next::Returned(identity) if identity == self.identity => next,
            Next::Bare | Next::Vacant | Next::Used(_) | Next::Fresh(_) | Next::Returned(_) => {
                Next::Fresh(self.identity)
            }
        }
    }

    fn committable(&self, evidence: Evidence) -> Committable {
        let began = evidence.start_ms.or(self.began_ms);
        let timeout_ms = millis(self.shared.config.transaction_timeout);
        let partitions = evidence.partitions.into_iter().map(|(p, acked)| CommittablePartition {
            topic_id: self
                .machine
                .topic_id(&p.topic)
                .unwrap_or_else(|| self.shared.router.topic_id(&p.topic)),
            topic: p.topic,
            partition: p.partition,
            offset: acked.offset,
            records: acked.records,
        });
        Committable {
            transactional_id: self.shared.transactional_id.clone(),
            identity: self.identity,
            end_txn_version: Some(end_txn_version(self.version)),
            start_ms: evidence.start_ms,
            timeout_ms: Some(timeout_ms),
            deadline_ms: began.map(|began| began.saturating_add(i64::from(timeout_ms))),
            cluster_id: self.shared.router.cluster_id(),
            partitions: partitions.collect(),
        }
    }
}

fn aborted() -> Cause {
    Cause::new(CauseKind::Dropped, "the transaction was aborted")
}

fn cause_of(ending: &Ending) -> Cause {
    match ending {
        Ending::Failed(c) | Ending::Fenced(c) | Ending::Abandoned(c) | Ending::Aborted(_, c) => c.clone(),
        Ending::Empty(_) | Ending::Prepared(_) => aborted(),
    }
}

#[cfg(test)]
#[path = "writer_tests.rs"]
mod tests;
