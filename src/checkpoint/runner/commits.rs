//! The transactions of one sink subtask between prepare and settled.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use futures::{StreamExt, stream::FuturesUnordered};
use tracing::{Instrument, Span};

use super::error::TaskError;
use crate::{
    checkpoint::{
        CommitStatus, ListedCommittable,
        pipeline::{LostTransaction, ON_THEIR_WAY, OnHanging, log_hanging},
        spans::Spans,
    },
    client::Client,
    ids::{Moment, TransactionalId},
    net::Background,
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

/// What the job is told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcomes {
    Committed {
        checkpoint: u64,
        id: TransactionalId,
        took: Duration,
        outcome: Outcome,
    },
    Visible {
        checkpoint: u64,
        id: TransactionalId,
    },
    /// The job goes on without it: it is not committed.
    NotCommitted {
        id: TransactionalId,
    },
    /// The job goes on without it: it is committed, and its records are gone.
    Gone {
        id: TransactionalId,
    },
}

pub(super) struct Commits {
    spans: Spans,
    client: Client,
    committer: Committer,
    on_hanging: OnHanging,
    listed: Vec<Listed>,
    /// By checkpoint that is not known to be complete: the ids it lists.
    lists: BTreeMap<u64, BTreeSet<TransactionalId>>,
    background: FuturesUnordered<Background<Done>>,
    hanging: Vec<CommittedButHanging>,
    on_lost: OnLost,
    lost: Vec<LostTransaction>,
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
        (spans, client, committer): (Spans, Client, Committer),
        (on_hanging, on_lost): (OnHanging, OnLost),
        (checkpoint, restored): (u64, Vec<ListedCommittable>),
        hanging: Vec<CommittedButHanging>,
    ) -> Self {
        let mut commits = Self {
            spans,
            client,
            committer,
            on_hanging,
            listed: Vec::new(),
            lists: BTreeMap::new(),
            background: FuturesUnordered::new(),
            hanging: Vec::new(),
            on_lost,
            lost: Vec::new(),
        };
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
        let watch = Watch { checkpoint, span: self.spans.of(checkpoint) };
        self.listed.push(Listed { checkpoint, since, stage: Stage::Prepared, entry, watch });
    }

    /// What this checkpoint has to list.
    pub(super) fn list(&mut self, checkpoint: u64) -> Vec<ListedCommittable> {
        let ids = self.listed.iter().map(|l| l.entry.committable.transactional_id.clone());
        self.lists.insert(checkpoint, ids.collect());
        self.listed.iter().map(|l| l.entry.clone()).collect()
    }

    /// The checkpoint is complete: what it lists is committed.
    pub(super) fn complete(&mut self, checkpoint: u64, now: Moment, writer: &mut SinkWriter) {
        if let Some(ids) = self.lists.remove(&checkpoint) {
            writer.durable(&ids);
            // A later one that was given up lists more, an earlier one says nothing any more.
            self.lists.retain(|other, _| *other > checkpoint);
        }
        for listed in &mut self.listed {
            if listed.checkpoint <= checkpoint && listed.stage == Stage::Prepared {
                listed.stage = Stage::Committing;
                listed.since = now;
                let (committer, committable) = (self.committer.clone(), listed.entry.committable.clone());
                let span = self.spans.commit(&listed.watch.span, listed.checkpoint);
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

    /// Decisions whose markers are missing.
    pub(super) fn hanging(&self) -> &[CommittedButHanging] {
        &self.hanging
    }

    /// What was passed over.
    pub(super) fn lost(&self) -> &[LostTransaction] {
        &self.lost
    }

    /// Waits for the next end of something in the background; for ever if there is nothing. Cancel safe.
    pub(super) async fn next(&mut self) -> Result<Done, TaskError> {
        match self.background.next().await {
            Some(done) => done.ok_or(TaskError::Panicked),
            None => std::future::pending().await,
        }
    }

    /// Takes what [`next`](Self::next) brought.
    pub(super) fn done(
        &mut self,
        done: Done,
        now: Moment,
        writer: &mut SinkWriter,
    ) -> Result<Option<Outcomes>, TaskError> {
        match done {
            Done::Committed(committed) => return self.committed(committed, now, writer),
            Done::Settled(committable, settled) => return self.settled(&committable, settled, writer),
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
        Ok(None)
    }

    fn committed(
        &mut self,
        committed: Committed,
        now: Moment,
        writer: &mut SinkWriter,
    ) -> Result<Option<Outcomes>, TaskError> {
        let resumed = match (committed.answer(self.on_lost), &committed.result) {
            (CommitAnswer::Committed, Ok(resumed)) => resumed,
            (CommitAnswer::GivenUp, _) => {
                committed.log_given_up();
                self.give_up(LostTransaction::from(&committed), writer);
                return Ok(Some(Outcomes::NotCommitted { id: committed.committable.transactional_id }));
            }
            (CommitAnswer::Committed | CommitAnswer::Failed, _) => {
                return Err(TaskError::NotCommitted(Box::new(committed)));
            }
        };
        let committable = &committed.committable;
        writer.decided(committable, resumed);
        let mut outcome = None;
        for listed in self.listed.iter_mut().filter(|l| l.entry.committable == *committable) {
            listed.entry.status = CommitStatus::Decided(Decision::Commit);
            let (id, took) = (committable.transactional_id.clone(), now.since(listed.since));
            let (checkpoint, how) = (listed.checkpoint, resumed.outcome.clone());
            outcome = Some(Outcomes::Committed { checkpoint, id, took, outcome: how });
        }
        self.settle_again(committed.committable);
        Ok(outcome)
    }

    fn settled(
        &mut self,
        committable: &Committable,
        settled: Result<Settled, SettleError>,
        writer: &mut SinkWriter,
    ) -> Result<Option<Outcomes>, TaskError> {
        let id = &committable.transactional_id;
        match settled {
            // It stays listed, so that the next run says so, too.
            Ok(Settled { gone }) if !gone.is_empty() => {
                let error = TaskError::Gone { committable: Box::new(committable.clone()), partitions: gone };
                if self.on_lost == OnLost::Fail {
                    return Err(error);
                }
                tracing::error!(transactional_id = %id, "{error}");
                let (committable, story) = (committable.clone(), error.to_string());
                self.give_up(LostTransaction { committable, story, proven: true }, writer);
                return Ok(Some(Outcomes::Gone { id: id.clone() }));
            }
            Ok(_) => {
                writer.settled(id);
                let listed = self.listed.iter().find(|l| l.entry.committable == *committable);
                let checkpoint = listed.map_or(0, |l| l.checkpoint);
                self.listed.retain(|l| l.entry.committable != *committable);
                return Ok(Some(Outcomes::Visible { checkpoint, id: id.clone() }));
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
        Ok(None)
    }

    /// The id is retired whatever is done about it; nothing of ours ends it in another way.
    fn hangs(&mut self, hanging: CommittedButHanging, writer: &mut SinkWriter) {
        writer.retire(hanging.clone());
        match self.on_hanging {
            OnHanging::Report => self.report(hanging),
            OnHanging::Repair => {
                let client = self.client.clone();
                self.background.push(Background::start(async move {
                    let result = client.repair(&hanging).await.map_err(|e| e.to_string());
                    Done::Repaired(Box::new(hanging), result)
                }));
            }
        }
    }

    fn report(&mut self, hanging: CommittedButHanging) {
        log_hanging(&hanging);
        if !self.hanging.contains(&hanging) {
            self.hanging.push(hanging);
        }
    }

    /// The job goes on without it, and with other ids.
    fn give_up(&mut self, lost: LostTransaction, writer: &mut SinkWriter) {
        writer.avoid(&lost.committable.transactional_id);
        self.listed.retain(|l| l.entry.committable != lost.committable);
        self.lost.push(lost);
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
        let committer = self.committer.clone();
        let settling = async move {
            let settled = committer.settle(&committable).await;
            Done::Settled(Box::new(committable), settled)
        };
        let span = self.spans.settle(&watch.span, watch.checkpoint);
        self.background.push(Background::start(settling.instrument(span)));
    }

    /// Looks once more at what was found hanging: it may have been repaired since.
    fn recheck(&self, hanging: CommittedButHanging) {
        let client = self.client.clone();
        self.background.push(Background::start(async move {
            let settled = client.settle(SettleTarget::again(&hanging), RECHECK).await;
            Done::Rechecked(Box::new(hanging), settled)
        }));
    }
}

/// How long a transaction that was found hanging is looked at again.
const RECHECK: Duration = Duration::from_secs(5);
