//! The transactions of one sink subtask between prepare and settled.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt, stream::FuturesUnordered};
use tracing::{Instrument, Span};

use super::{
    config::OnHanging,
    counters::Counters,
    error::TaskError,
    event::{JobEvent, Observer, TaskName},
    summary::{LostTransaction, ON_THEIR_WAY, log_hanging},
};
use crate::{
    checkpoint::{
        CommitStatus, ListedCommittable,
        spans::Spans,
        step::{Note, Part, Steps},
    },
    client::Client,
    ids::{Moment, TransactionalId},
    net::{Background, Clock},
    proto::{
        committable::Committable,
        recovery::{CommitAnswer, OnLost},
        resume::{Decision, First, Outcome},
        settle::{CommittedButHanging, SettleError, SettleTarget, Settled},
    },
    sink::{Committed, Committer, SinkWriter},
};

/// What came to its end in the background.
pub(super) enum Done {
    Rechecked(Box<CommittedButHanging>, Result<Settled, SettleError>),
    Committed(Committed),
    Settled(Box<Committable>, Result<Settled, SettleError>),
    Repaired(Box<CommittedButHanging>, Result<(), String>),
}

/// Whom a sink subtask tells what becomes of its transactions.
pub(super) struct Teller {
    pub(super) observer: Observer,
    pub(super) clock: Clock,
    pub(super) task: TaskName,
    pub(super) steps: Steps,
    pub(super) counters: Arc<Counters>,
}

/// What a subtask commits with, and for whom.
pub(super) struct Ways {
    pub(super) spans: Spans,
    pub(super) client: Client,
    pub(super) committer: Committer,
    pub(super) on_hanging: OnHanging,
    pub(super) on_lost: OnLost,
}

pub(super) struct Commits {
    ways: Ways,
    teller: Teller,
    listed: Vec<Listed>,
    /// By checkpoint that is not known to be complete: the ids it lists.
    lists: BTreeMap<u64, BTreeSet<TransactionalId>>,
    background: FuturesUnordered<Background<Done>>,
}

struct Listed {
    /// The first checkpoint that lists it.
    checkpoint: u64,
    since: Moment,
    stage: Stage,
    entry: ListedCommittable,
    watch: Watch,
}

/// Where the log tells of it.
#[derive(Debug, Clone)]
struct Watch {
    /// The first checkpoint that lists it, of an earlier run the restored one.
    checkpoint: u64,
    /// Its span, which is open until this is dropped.
    span: Span,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Its checkpoint is not known to be complete.
    Prepared,
    /// EndTxn is under way, or decided.
    Committing,
}

impl Commits {
    /// Begins with what recovery has decided, and with what it found hanging.
    pub(super) fn restored(
        (ways, teller): (Ways, Teller),
        (checkpoint, restored): (u64, Vec<ListedCommittable>),
        hanging: Vec<CommittedButHanging>,
    ) -> Self {
        let (listed, lists, background) = (Vec::new(), BTreeMap::new(), FuturesUnordered::new());
        let mut commits = Self { ways, teller, listed, lists, background };
        let hangs: BTreeSet<_> = hanging.iter().map(|h| h.transactional_id.clone()).collect();
        for mut entry in restored {
            entry.status = CommitStatus::Decided(Decision::Commit);
            let watch = Watch { checkpoint, span: Span::none() };
            if !hangs.contains(&entry.committable.transactional_id) {
                commits.settle(entry.committable.clone(), &watch);
            }
            let since = Moment::default();
            commits.listed.push(Listed { checkpoint: 0, since, stage: Stage::Committing, entry, watch });
        }
        hanging.into_iter().for_each(|hanging| commits.recheck(hanging));
        commits
    }

    /// A transaction was prepared for this checkpoint.
    pub(super) fn prepared(&mut self, checkpoint: u64, committable: Committable) {
        let entry = ListedCommittable { committable, status: CommitStatus::Pending };
        let since = Moment::default();
        let watch = Watch { checkpoint, span: self.ways.spans.of(checkpoint) };
        self.listed.push(Listed { checkpoint, since, stage: Stage::Prepared, entry, watch });
    }

    /// What this checkpoint has to list.
    pub(super) fn list(&mut self, checkpoint: u64) -> Vec<ListedCommittable> {
        let ids = self.listed.iter().map(|l| l.entry.committable.transactional_id.clone());
        self.lists.insert(checkpoint, ids.collect());
        self.listed.iter().map(|l| l.entry.clone()).collect()
    }

    /// The checkpoint is complete: what it lists is committed.
    pub(super) fn complete(&mut self, checkpoint: u64, writer: &mut SinkWriter) {
        let now = self.teller.clock.now();
        if let Some(ids) = self.lists.remove(&checkpoint) {
            writer.durable(&ids);
            // A later one that was given up lists more, an earlier one says nothing any more.
            self.lists.retain(|other, _| *other > checkpoint);
        }
        for listed in &mut self.listed {
            if listed.checkpoint <= checkpoint && listed.stage == Stage::Prepared {
                listed.stage = Stage::Committing;
                listed.since = now;
                let (committer, committable) =
                    (self.ways.committer.clone(), listed.entry.committable.clone());
                let span = self.ways.spans.commit(&listed.watch.span, listed.checkpoint);
                let committing =
                    async move { Done::Committed(committer.commit_one(committable, First::EndTxn).await) };
                self.background.push(Background::start(committing.instrument(span)));
            }
        }
    }

    /// Whether everything up to this checkpoint is decided.
    pub(super) fn decided_up_to(&self, checkpoint: u64) -> bool {
        let pending = |l: &Listed| l.checkpoint <= checkpoint && l.entry.status == CommitStatus::Pending;
        !self.listed.iter().any(pending)
    }

    /// Whether everything is settled that can be.
    pub(super) fn is_quiet(&self) -> bool {
        self.background.is_empty()
    }

    /// What is not settled.
    pub(super) fn unsettled(&self) -> Vec<ListedCommittable> {
        self.listed.iter().map(|l| l.entry.clone()).collect()
    }

    /// Sees what becomes of everything that is under way.
    pub(super) async fn look_after(&mut self, writer: &mut SinkWriter) -> Result<(), TaskError> {
        while !self.is_quiet() {
            let done = self.next().await?;
            self.done(done, writer)?;
        }
        Ok(())
    }

    /// Waits for the next end of something in the background; for ever if there is nothing. Cancel safe.
    pub(super) async fn next(&mut self) -> Result<Done, TaskError> {
        match self.background.next().await {
            Some(done) => done.ok_or(TaskError::Panicked),
            None => std::future::pending().await,
        }
    }

    /// Takes what [`next`](Self::next) brought.
    pub(super) fn done(&mut self, done: Done, writer: &mut SinkWriter) -> Result<(), TaskError> {
        self.teller.counters.changed();
        match done {
            Done::Committed(committed) => self.committed(committed, writer)?,
            Done::Settled(committable, settled) => self.settled(&committable, settled, writer)?,
            // Somebody has repaired it. Its id stays retired; its committable is done.
            Done::Rechecked(hanging, Ok(_)) => self.drop_id(&hanging.transactional_id),
            Done::Rechecked(hanging, Err(_)) => self.hangs(*hanging, writer),
            Done::Repaired(hanging, Ok(())) => {
                tracing::info!(transactional_id = %hanging.transactional_id, "the missing marker was written");
                self.drop_id(&hanging.transactional_id);
            }
            Done::Repaired(hanging, Err(why)) => {
                tracing::error!(transactional_id = %hanging.transactional_id, %why, "not repaired");
                self.report(*hanging);
            }
        }
        Ok(())
    }

    fn committed(&mut self, committed: Committed, writer: &mut SinkWriter) -> Result<(), TaskError> {
        let resumed = match (committed.answer(self.ways.on_lost), &committed.result) {
            (CommitAnswer::Committed, Ok(resumed)) => resumed,
            (CommitAnswer::GivenUp, _) => {
                committed.log_given_up();
                self.teller.not_committed(&committed.committable.transactional_id);
                self.give_up(LostTransaction::from(&committed), writer);
                return Ok(());
            }
            (CommitAnswer::Committed | CommitAnswer::Failed, _) => {
                self.teller.not_committed(&committed.committable.transactional_id);
                return Err(TaskError::NotCommitted(Box::new(committed)));
            }
        };
        let committable = &committed.committable;
        writer.decided(committable, resumed);
        for listed in self.listed.iter_mut().filter(|l| l.entry.committable == *committable) {
            listed.entry.status = CommitStatus::Decided(Decision::Commit);
            let since = (listed.checkpoint, listed.since);
            self.teller.committed(since, &committable.transactional_id, &resumed.outcome);
        }
        self.settle_again(committed.committable);
        Ok(())
    }

    fn settled(
        &mut self,
        committable: &Committable,
        settled: Result<Settled, SettleError>,
        writer: &mut SinkWriter,
    ) -> Result<(), TaskError> {
        let id = &committable.transactional_id;
        match settled {
            // It stays listed, so that the next run says so, too.
            Ok(Settled { gone }) if !gone.is_empty() => {
                let error = TaskError::Gone { committable: Box::new(committable.clone()), partitions: gone };
                if self.ways.on_lost == OnLost::Fail {
                    return Err(error);
                }
                tracing::error!(transactional_id = %id, "{error}");
                let (committable, story) = (committable.clone(), error.to_string());
                self.give_up(LostTransaction { committable, story, proven: true }, writer);
            }
            Ok(_) => {
                writer.settled(committable);
                let listed = self.listed.iter().find(|l| l.entry.committable == *committable);
                self.teller.visible(listed.map_or(0, |l| l.checkpoint), id);
                self.listed.retain(|l| l.entry.committable != *committable);
            }
            Err(SettleError::Hanging(hanging)) => self.hangs(*hanging, writer),
            Err(SettleError::Pending { .. }) => {
                tracing::warn!(transactional_id = %id, "{ON_THEIR_WAY}");
                self.settle_again(committable.clone());
            }
            Err(e @ SettleError::Denied { .. }) => {
                tracing::warn!(transactional_id = %id, "{e}; its id is not used again");
                writer.avoid(id);
                self.listed.retain(|l| l.entry.committable != *committable);
            }
        }
        Ok(())
    }

    /// The id is retired whatever is done about it; nothing of ours ends it in another way.
    fn hangs(&mut self, hanging: CommittedButHanging, writer: &mut SinkWriter) {
        writer.retire(hanging.clone());
        match self.ways.on_hanging {
            OnHanging::Report => self.report(hanging),
            OnHanging::Repair => {
                let client = self.ways.client.clone();
                self.background.push(Background::start(async move {
                    let result = client.repair(&hanging).await.map_err(|e| e.to_string());
                    Done::Repaired(Box::new(hanging), result)
                }));
            }
        }
    }

    fn report(&self, hanging: CommittedButHanging) {
        log_hanging(&hanging);
        self.teller.counters.hanging(hanging);
    }

    /// The job goes on without it, and with other ids.
    fn give_up(&mut self, lost: LostTransaction, writer: &mut SinkWriter) {
        let id = &lost.committable.transactional_id;
        writer.avoid(id);
        self.teller.given_up(id);
        self.listed.retain(|l| l.entry.committable != lost.committable);
        self.teller.counters.lost(lost);
    }

    fn drop_id(&mut self, id: &TransactionalId) {
        self.listed.retain(|l| l.entry.committable.transactional_id != *id);
    }

    fn settle_again(&self, committable: Committable) {
        let listed = self.listed.iter().find(|l| l.entry.committable == committable);
        let watch = listed.map_or(Watch { checkpoint: 0, span: Span::none() }, |l| l.watch.clone());
        self.settle(committable, &watch);
    }

    fn settle(&self, committable: Committable, watch: &Watch) {
        let committer = self.ways.committer.clone();
        let settling = async move {
            let settled = committer.settle(&committable).await;
            Done::Settled(Box::new(committable), settled)
        };
        let span = self.ways.spans.settle(&watch.span, watch.checkpoint);
        self.background.push(Background::start(settling.instrument(span)));
    }

    /// Looks once more at what was found hanging: it may have been repaired since.
    fn recheck(&self, hanging: CommittedButHanging) {
        let client = self.ways.client.clone();
        self.background.push(Background::start(async move {
            let settled = client.settle(SettleTarget::again(&hanging), RECHECK).await;
            Done::Rechecked(Box::new(hanging), settled)
        }));
    }
}

impl Teller {
    fn committed(
        &self,
        (checkpoint, since): (u64, Moment),
        transactional_id: &TransactionalId,
        outcome: &Outcome,
    ) {
        let (task, took) = (&self.task, self.clock.now().since(since));
        if *outcome == Outcome::Committed {
            self.steps.note(Note::Took(Part::Commit, took));
        }
        self.tell(JobEvent::Committed { checkpoint, task, transactional_id, took, outcome });
    }

    fn visible(&self, checkpoint: u64, transactional_id: &TransactionalId) {
        self.tell(JobEvent::Visible { checkpoint, task: &self.task, transactional_id });
    }

    fn not_committed(&self, transactional_id: &TransactionalId) {
        self.tell(JobEvent::NotCommitted { task: &self.task, transactional_id });
    }

    fn given_up(&self, transactional_id: &TransactionalId) {
        self.tell(JobEvent::GivenUp { task: &self.task, transactional_id });
    }

    fn tell(&self, event: JobEvent<'_>) {
        self.observer.event(self.clock.now(), &event);
    }
}

/// How long a transaction that was found hanging is looked at again.
const RECHECK: Duration = Duration::from_secs(5);
