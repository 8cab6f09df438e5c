//! A job of several subtasks as an engine would run it: writers, a committer, and one checkpoint in memory.

use std::collections::BTreeSet;
use std::sync::Arc;

use kafka_2pc::client::{Client, Topic};
use kafka_2pc::ids::TransactionalId;
use kafka_2pc::proto::committable::Committable;
use kafka_2pc::proto::recovery::CommitStatus;
use kafka_2pc::proto::resume::{CoordinatorState, Decision, Outcome};
use kafka_2pc::record::RecordRef;
use kafka_2pc::sink::{
    Committed, Committer, RecoverError, RecoveryReport, Sink, SinkConfig, SinkState, SinkWriter,
};

use crate::bench::{Bench, fresh, within};
use crate::outcome::{Failure, Shown, equal, holds};

/// What outlives a crash: the newest complete checkpoint, with the records that it covers.
#[derive(Debug, Clone, Default)]
pub(super) struct Kept {
    pub(super) state: SinkState,
    pub(super) covered: usize,
}

/// Where a job writes to, and how.
#[derive(Debug, Clone)]
pub(super) struct Job {
    pub(super) client: Client,
    pub(super) topic: Topic,
    pub(super) config: SinkConfig,
}

impl Job {
    /// A job with a prefix and a topic that nobody used before. What several subtasks do at once is not traced.
    pub(super) async fn new(bench: &Bench) -> Result<Self, Failure> {
        bench.trace.keep_private("what subtasks and their commits do at the same time comes in no order");
        let client = bench.client()?;
        let topic = bench.topic(&client, 1).await?;
        Ok(Self { client, topic, config: SinkConfig::new(&fresh("k"))? })
    }

    pub(super) fn id(&self, subtask: u32, number: u64) -> TransactionalId {
        self.config.prefix.id(kafka_2pc::proto::naming::IdParts { subtask, number })
    }

    pub(super) fn sink(&self) -> Sink {
        Sink::new(self.client.clone(), Arc::new(self.config.clone()), vec![self.topic.clone()])
    }

    pub(super) async fn start(&self, subtasks: u32, kept: &Kept) -> Result<Run, Failure> {
        Ok(self.try_start(subtasks, kept).await??)
    }

    pub(super) async fn try_start(
        &self,
        subtasks: u32,
        kept: &Kept,
    ) -> Result<Result<Run, RecoverError>, Failure> {
        let sink = self.sink();
        let (writers, report) = match within(sink.recover(subtasks, kept.state.clone(), &|_| {})).await? {
            Ok(recovered) => recovered,
            Err(error) => return Ok(Err(error)),
        };
        let decided =
            |(c, _): &(Committable, CommitStatus)| (c.clone(), CommitStatus::Decided(Decision::Commit));
        Ok(Ok(Run {
            topic: self.topic.clone(),
            sink,
            writers,
            report,
            listed: kept.state.committables.iter().map(decided).collect(),
            checkpoint: kept.state.checkpoint,
            written: kept.covered,
        }))
    }

    /// Every number up to `count` is visible once, and no transaction of the job is open.
    pub(super) async fn exactly_once(&self, bench: &Bench, count: usize) -> Shown {
        let mut seen = Vec::new();
        for value in bench.committed(&self.topic).await? {
            seen.push(value.parse::<usize>()?);
        }
        seen.sort_unstable();
        equal("committed", seen, (0..count).collect::<Vec<_>>())?;
        equal("transactions that are open", self.open().await?, Vec::<String>::new())
    }

    /// The ids of the job under which a transaction is open.
    pub(super) async fn open(&self) -> Result<Vec<String>, Failure> {
        let filter = kafka_2pc::client::TransactionFilter {
            prefix: format!("{}-", self.config.prefix.as_str()),
            states: vec![CoordinatorState::Ongoing],
        };
        let listing = within(self.client.admin().list_transactions(&filter)).await??;
        Ok(listing.transactions.iter().map(|t| t.transactional_id.to_string()).collect())
    }
}

/// A run of the job. Record `n` goes to subtask `n % writers`.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) topic: Topic,
    pub(super) sink: Sink,
    pub(super) writers: Vec<SinkWriter>,
    pub(super) report: RecoveryReport,
    pub(super) listed: Vec<(Committable, CommitStatus)>,
    pub(super) checkpoint: u64,
    pub(super) written: usize,
}

impl Run {
    pub(super) fn committer(&self) -> Committer {
        self.sink.committer()
    }

    /// Writes records up to number `until`.
    pub(super) async fn write(&mut self, until: usize) -> Shown {
        while self.written < until {
            let subtask = self.written % self.writers.len();
            let value = self.written.to_string();
            let record = RecordRef::value(value.as_bytes());
            within(self.writers[subtask].write(&self.topic, Some(0), record)).await??;
            self.written += 1;
        }
        Ok(())
    }

    /// Prepares the next checkpoint in every subtask.
    pub(super) async fn prepare(&mut self) -> Result<Vec<Committable>, Failure> {
        self.checkpoint += 1;
        let mut all = Vec::new();
        for writer in &mut self.writers {
            all.extend(within(writer.prepare_commit(self.checkpoint)).await??);
        }
        let ids: BTreeSet<_> = all.iter().map(|c| &c.transactional_id).collect();
        equal("ids of a checkpoint", ids.len(), all.len())?;
        Ok(all)
    }

    /// The checkpoint of these committables is durable.
    pub(super) fn durable(&mut self, prepared: &[Committable]) -> Kept {
        self.listed.extend(prepared.iter().map(|c| (c.clone(), CommitStatus::Pending)));
        let state = SinkState {
            checkpoint: self.checkpoint,
            committables: self.listed.clone(),
            writers: self.writers.iter().map(SinkWriter::snapshot).collect(),
        };
        let listed: BTreeSet<TransactionalId> =
            self.listed.iter().map(|(c, _)| c.transactional_id.clone()).collect();
        self.writers.iter_mut().for_each(|writer| writer.durable(&listed));
        Kept { state, covered: self.written }
    }

    /// Commits everything that is listed and pending.
    pub(super) async fn commit(&mut self) -> Shown {
        let pending = self.listed.iter().filter(|(_, status)| *status == CommitStatus::Pending);
        let pending: Vec<_> = pending.map(|(c, _)| c.clone()).collect();
        for committed in within(self.committer().commit(pending)).await? {
            let resumed = committed.result?;
            is_committed(&resumed.outcome)?;
            self.writers.iter_mut().for_each(|w| w.decided(&committed.committable, &resumed));
        }
        self.listed.iter_mut().for_each(|(_, status)| *status = CommitStatus::Decided(Decision::Commit));
        Ok(())
    }

    /// Waits until everything that is listed is settled, and drops it from the next checkpoint.
    pub(super) async fn settle(&mut self) -> Shown {
        for (committable, _) in std::mem::take(&mut self.listed) {
            within(self.committer().settle(&committable)).await??;
            self.writers.iter_mut().for_each(|w| w.settled(&committable));
        }
        Ok(())
    }

    /// A whole checkpoint, with everything after it.
    pub(super) async fn complete(&mut self) -> Result<Kept, Failure> {
        let prepared = self.prepare().await?;
        let kept = self.durable(&prepared);
        self.commit().await?;
        self.settle().await?;
        Ok(kept)
    }

    /// Dies: what is open stays open, as if the process were killed.
    pub(super) async fn killed(mut self) -> Shown {
        // A dropped writer aborts its open transaction; a prepared one nobody ends.
        for writer in &mut self.writers {
            within(writer.prepare_commit(u64::MAX)).await?.ok();
        }
        Ok(())
    }
}

/// The only committable of a checkpoint.
pub(super) fn only(prepared: &[Committable]) -> Result<Committable, Failure> {
    match prepared {
        [committable] => Ok(committable.clone()),
        other => Err(Failure::wrong(format!("{} committables", other.len()))),
    }
}

/// Commits one, and returns what became of it.
pub(super) async fn commit(committer: &Committer, committable: &Committable) -> Result<Outcome, Failure> {
    let committed = within(committer.commit(vec![committable.clone()])).await?;
    match <[Committed; 1]>::try_from(committed) {
        Ok([committed]) => Ok(committed.result?.outcome),
        Err(other) => Err(Failure::wrong(format!("{} answers for one committable", other.len()))),
    }
}

pub(super) fn is_committed(outcome: &Outcome) -> Shown {
    holds(
        matches!(outcome, Outcome::Committed | Outcome::AlreadyCommitted(_)),
        format!("not committed: {}", outcome.story()),
    )
}

pub(super) fn is_lost(outcome: &Outcome) -> Shown {
    holds(matches!(outcome, Outcome::Lost { .. }), format!("not told as lost: {}", outcome.story()))
}

pub(super) fn is_undecidable(outcome: &Outcome) -> Shown {
    holds(matches!(outcome, Outcome::Undecidable(_)), format!("not undecidable: {}", outcome.story()))
}

/// A transaction of its own beside any sink, with one record per value on partition 0, prepared.
pub(super) async fn prepared(
    bench: &Bench,
    client: &Client,
    (id, topic): (&TransactionalId, &Topic),
    values: &[&str],
) -> Result<Committable, Failure> {
    let mut open = within(client.transactional_producer(id.clone()).init()).await??.begin();
    bench.write(&mut open, topic, 0, values).await?;
    let committable = within(open.prepare()).await??.committable();
    committable.ok_or_else(|| Failure::wrong("nothing was prepared"))
}
