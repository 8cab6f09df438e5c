//! How a subtask talks with the job: commands in, news out.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::mpsc;

use super::event::{JobEvent, Observer, TaskName};
use crate::{
    checkpoint::{ListedCommittable, StateHandle, StateStore, StoreError},
    net::{Background, Clock},
    proto::{checkpoint::alignment::Barrier, pool::WriterState},
    sink::Taken,
    source::SourceError,
};

/// A command of the job.
#[derive(Debug, Clone, Copy)]
pub(super) enum Command {
    /// Put this barrier among the records; for sources.
    Trigger(Barrier),
    /// A checkpoint is complete.
    Notify(u64),
    /// A checkpoint was given up.
    Abort(u64),
    /// The job is over: hand over what is left; for sinks.
    Close,
}

/// What a subtask has to say.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) subtask: usize,
    pub(super) news: News,
}

#[derive(Debug)]
pub(super) enum News {
    Ack {
        checkpoint: u64,
        state: TaskState,
    },
    Decline {
        checkpoint: u64,
        cause: String,
    },
    Confirmed {
        checkpoint: u64,
    },
    /// State was put for a checkpoint that was given up in the meantime.
    Unneeded(StateHandle),
    /// A source came to its end, and stands elsewhere than where this run began or not.
    Ended {
        moved: bool,
    },
    /// A source stops before something that is no record. What came before it is to be committed.
    Stopped(SourceError),
    /// Answer to [`Command::Close`].
    Closed(SinkPart),
}

/// What a subtask hands over for a checkpoint.
#[derive(Debug, Default)]
pub(super) struct TaskState {
    /// Offsets, or state by key.
    pub(super) state: Option<StateHandle>,
    /// Records that barriers overtook.
    pub(super) in_flight: Option<StateHandle>,
    pub(super) sink: Option<SinkPart>,
}

#[derive(Debug)]
pub(super) struct SinkPart {
    pub(super) listed: Vec<ListedCommittable>,
    pub(super) writer: WriterState,
    /// What was written up to here, since the job began or went back.
    pub(super) taken: Taken,
}

/// One subtask's side.
pub(super) struct Port {
    /// The number among all subtasks of the job.
    pub(super) subtask: usize,
    pub(super) name: TaskName,
    pub(super) commands: mpsc::UnboundedReceiver<Command>,
    pub(super) reports: mpsc::UnboundedSender<Report>,
    pub(super) states: Arc<dyn StateStore>,
    pub(super) observer: Observer,
    pub(super) clock: Clock,
}

impl TaskState {
    /// What it holds in the store.
    pub(super) fn handles(&self) -> impl Iterator<Item = StateHandle> + use<> {
        [self.state.clone(), self.in_flight.clone()].into_iter().flatten()
    }
}

impl Port {
    pub(super) fn tell(&self, news: News) {
        // Nobody listens when the job is over already.
        _ = self.reports.send(Report { subtask: self.subtask, news });
    }

    pub(super) fn ack(&self, checkpoint: u64, state: TaskState) {
        self.observe(JobEvent::Acknowledged { checkpoint, task: &self.name });
        self.tell(News::Ack { checkpoint, state });
    }

    /// These states are not needed.
    pub(super) fn unneeded(&self, states: impl IntoIterator<Item = StateHandle>) {
        states.into_iter().for_each(|state| self.tell(News::Unneeded(state)));
    }

    pub(super) fn observe(&self, event: JobEvent<'_>) {
        self.observer.event(self.clock.now(), &event);
    }

    /// Keeps state in the background, under a name of its own.
    pub(super) fn keep(
        &self,
        checkpoint: u64,
        part: &'static str,
        bytes: impl FnOnce() -> Bytes + Send + 'static,
    ) -> Background<Result<Option<StateHandle>, StoreError>> {
        let name = format!("{}-{checkpoint}-{part}", self.name);
        let states = Arc::clone(&self.states);
        Background::start(async move {
            // Large state takes a while: others want the thread.
            let bytes = tokio::task::spawn_blocking(bytes).await;
            let bytes = bytes.map_err(|ended| StoreError::Io {
                path: name.clone().into(),
                source: std::io::Error::other(ended),
            })?;
            if bytes.is_empty() {
                return Ok(None);
            }
            states.put(&name, bytes).await.map(Some)
        })
    }
}
