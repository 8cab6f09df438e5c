//! The end of a job whose last checkpoint is complete: what is left of its commits.

use std::collections::BTreeMap;

use futures::StreamExt;

use super::{Attempt, End, early, finished};
use crate::{
    checkpoint::{
        Checkpoint, ListedCommittable,
        runner::{
            error::RunError,
            event::JobEvent,
            graph::Kind,
            port::{Command, News, Report, SinkPart},
        },
    },
    proto::{checkpoint::CheckpointKind, pool::WriterState},
};

impl Attempt<'_> {
    /// Lets the sinks settle what they can, and keeps what is left of it, so that a later run has nothing to do.
    pub(super) async fn close(&mut self, kind: CheckpointKind) -> Result<End, RunError> {
        let (committables, writers) = self.closed().await?;
        if let Some(kept) = self.keeper.finish().await {
            self.kept(kept)?;
        }
        let mut operators = self.checkpoint.operators.clone();
        if self.still_finished && !operators.contains(&finished()) {
            // A periodic checkpoint came before the sources said that they have nothing new.
            operators.push(finished());
        }
        self.done.finished |= self.still_finished;
        let id = self.newest_id() + 1;
        let last = Checkpoint { id, operators, committables, writers, ..self.checkpoint.clone() };
        if last != (Checkpoint { id, ..self.checkpoint.clone() }) {
            self.observe_whole(id, kind);
            self.keeper.begin(last);
            let kept = self.keeper.written().await;
            self.kept(kept)?;
            self.built
                .names
                .iter()
                .for_each(|task| self.observe(JobEvent::Notified { checkpoint: id, task }));
        }
        match self.stopped.take() {
            Some(error) => Err(error.into()),
            None => Ok(End::Over),
        }
    }

    /// What the sinks have left, in their order.
    async fn closed(&mut self) -> Result<(Vec<ListedCommittable>, Vec<WriterState>), RunError> {
        (0..self.built.commands.len()).for_each(|subtask| self.command(subtask, Command::Close));
        let mut waited_for = self.sinks().count();
        let (mut committables, mut writers) = (Vec::new(), BTreeMap::new());
        while waited_for > 0 {
            tokio::select! {
                biased;
                Some(Report { subtask, news }) = self.built.reports.recv() => {
                    if let News::Closed(SinkPart { listed, writer, .. }) = news {
                        committables.extend(listed);
                        writers.insert(subtask, writer);
                        waited_for -= 1;
                    }
                }
                Some(ended) = self.built.tasks.next() => match ended {
                    Some(Ok(())) => {}
                    ended => return Err(early(ended)),
                },
            }
        }
        Ok((committables, writers.into_values().collect()))
    }

    /// The numbers of the sinks' subtasks.
    fn sinks(&self) -> impl Iterator<Item = usize> {
        let kinds = self.nodes.iter().flat_map(|node| {
            std::iter::repeat_n(matches!(node.kind, Kind::Sink(_)), node.parallelism as usize)
        });
        kinds.enumerate().filter(|(_, sink)| *sink).map(|(subtask, _)| subtask)
    }

    /// Tells of the checkpoint of what is left, for which every subtask has handed over everything already.
    fn observe_whole(&self, checkpoint: u64, kind: CheckpointKind) {
        let names = &self.built.names;
        self.spans.begin(checkpoint);
        self.observe(JobEvent::Triggered { checkpoint, kind });
        names.iter().for_each(|task| self.observe(JobEvent::Snapshot { checkpoint, task }));
        for task in self.sinks().filter_map(|subtask| names.get(subtask)) {
            self.observe(JobEvent::Prepared { checkpoint, task, transactional_id: None });
        }
        names.iter().for_each(|task| self.observe(JobEvent::Acknowledged { checkpoint, task }));
    }
}
