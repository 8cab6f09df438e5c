//! A job of several subtasks, as an engine would run it: writers, a committer, and one checkpoint in memory.

use std::{collections::BTreeSet, sync::Arc};

use kafka_2pc::{
    client::Topic,
    ids::TransactionalId,
    proto::{
        committable::Committable,
        recovery::CommitStatus,
        resume::{Decision, Outcome},
    },
    record::RecordRef,
    sink::{Committer, RecoverError, RecoveryReport, Share, Sink, SinkConfig, SinkState, SinkWriter},
};

use super::{Bench, within};

/// What outlives a crash: the newest complete checkpoint, with the records that it covers.
#[derive(Clone, Default)]
pub struct Kept {
    pub state: SinkState,
    pub covered: usize,
}

/// How the subtasks recover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Together {
    Whole,
    Shares,
}

/// A run of the job. Record `n` goes to subtask `n % writers`.
pub struct Run {
    pub sink: Sink,
    pub topic: Topic,
    pub writers: Vec<SinkWriter>,
    pub report: RecoveryReport,
    pub listed: Vec<(Committable, CommitStatus)>,
    pub checkpoint: u64,
    pub written: usize,
}

/// A sink over the bench's topic.
pub async fn sink(b: &Bench, config: &SinkConfig) -> Sink {
    Sink::new(b.client.clone(), Arc::new(config.clone()), vec![b.topic().await])
}

impl Run {
    pub async fn start(b: &Bench, config: &SinkConfig, subtasks: u32, kept: &Kept) -> Self {
        Self::try_start(b, config, (subtasks, Together::Whole), kept).await.unwrap()
    }

    pub async fn try_start(
        b: &Bench,
        config: &SinkConfig,
        (subtasks, together): (u32, Together),
        kept: &Kept,
    ) -> Result<Self, RecoverError> {
        let sink = sink(b, config).await;
        let state = kept.state.clone();
        let (writers, report) = match together {
            Together::Whole => within(sink.recover(subtasks, state, &|_| {})).await?,
            Together::Shares => {
                let (mut writers, mut sum) = (Vec::new(), RecoveryReport::default());
                for subtask in 0..subtasks {
                    let share = Share { subtask, total: subtasks };
                    let (writer, report) = within(sink.recover_share(share, state.clone(), &|_| {})).await?;
                    writers.push(writer);
                    sum.resumed.extend(report.resumed);
                    sum.aborted.extend(report.aborted);
                    sum.hanging.extend(report.hanging);
                    sum.orphans.extend(report.orphans);
                }
                (writers, sum)
            }
        };
        let decided =
            |(c, _): &(Committable, CommitStatus)| (c.clone(), CommitStatus::Decided(Decision::Commit));
        Ok(Self {
            topic: b.topic().await,
            sink,
            writers,
            report,
            listed: kept.state.committables.iter().map(decided).collect(),
            checkpoint: kept.state.checkpoint,
            written: kept.covered,
        })
    }

    pub fn committer(&self) -> Committer {
        self.sink.committer()
    }

    /// Writes records up to number `until`.
    pub async fn write(&mut self, until: usize) {
        while self.written < until {
            let subtask = self.written % self.writers.len();
            let value = self.written.to_string();
            let record = RecordRef::value(value.as_bytes());
            within(self.writers[subtask].write(&self.topic, Some(0), record)).await.unwrap();
            self.written += 1;
        }
    }

    /// Prepares the next checkpoint in every subtask.
    pub async fn prepare(&mut self) -> Vec<Committable> {
        self.checkpoint += 1;
        let mut all = Vec::new();
        for writer in &mut self.writers {
            all.extend(within(writer.prepare_commit(self.checkpoint)).await.unwrap());
        }
        let ids: BTreeSet<_> = all.iter().map(|c| &c.transactional_id).collect();
        assert_eq!(ids.len(), all.len(), "two subtasks use one id");
        all
    }

    /// The checkpoint of these committables is durable.
    pub fn durable(&mut self, prepared: &[Committable]) -> Kept {
        self.listed.extend(prepared.iter().map(|c| (c.clone(), CommitStatus::Pending)));
        let kept = self.kept();
        let listed: BTreeSet<TransactionalId> =
            self.listed.iter().map(|(c, _)| c.transactional_id.clone()).collect();
        self.writers.iter_mut().for_each(|writer| writer.durable(&listed));
        kept
    }

    fn kept(&self) -> Kept {
        let state = SinkState {
            checkpoint: self.checkpoint,
            committables: self.listed.clone(),
            writers: self.writers.iter().map(SinkWriter::snapshot).collect(),
        };
        Kept { state, covered: self.written }
    }

    /// Commits everything that is listed and pending.
    pub async fn commit(&mut self) {
        let pending = self.listed.iter().filter(|(_, status)| *status == CommitStatus::Pending);
        let pending: Vec<_> = pending.map(|(c, _)| c.clone()).collect();
        for committed in within(self.committer().commit(pending)).await {
            let resumed = committed.result.unwrap();
            assert!(matches!(resumed.outcome, Outcome::Committed | Outcome::AlreadyCommitted(_)));
            self.writers.iter_mut().for_each(|w| w.decided(&committed.committable, &resumed));
        }
        self.listed.iter_mut().for_each(|(_, status)| *status = CommitStatus::Decided(Decision::Commit));
    }

    /// Waits until everything that is listed is settled, and drops it from the next checkpoint.
    pub async fn settle(&mut self) {
        for (committable, _) in std::mem::take(&mut self.listed) {
            within(self.committer().settle(&committable)).await.unwrap();
            self.writers.iter_mut().for_each(|w| w.settled(&committable));
        }
    }

    /// A whole checkpoint, with everything after it.
    pub async fn complete(&mut self) -> Kept {
        let prepared = self.prepare().await;
        let kept = self.durable(&prepared);
        self.commit().await;
        self.settle().await;
        kept
    }

    /// Dies: what is open stays open, as if the process were killed.
    pub async fn killed(mut self) {
        // A dropped writer aborts its open transaction; a prepared one nobody ends.
        for writer in &mut self.writers {
            _ = within(writer.prepare_commit(u64::MAX)).await;
        }
    }
}
