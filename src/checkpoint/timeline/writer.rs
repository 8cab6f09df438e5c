//! Who is told the events, and never in a job's way.

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use tokio::sync::{mpsc, oneshot};

use super::{
    line::{self, Key},
    times::Mark,
};
use crate::{
    checkpoint::runner::{JobEvent, Role},
    ids::Moment,
    net::{Background, Clock},
};

/// Events that may wait to be written.
const QUEUE: usize = 4_096;
/// How long a job that ends waits for the last of them.
const CLOSING: Duration = Duration::from_secs(2);

/// Writes the events of a job beside its state: into `timeline.ndjson` of a directory, or into objects. Clones write into
/// the same place.
#[derive(Debug, Clone)]
pub struct TimelineWriter {
    entries: mpsc::Sender<Entry>,
    roles: Arc<BTreeMap<Arc<str>, Role>>,
    run: i64,
    /// What the clock's beginning is, in microseconds since the Unix epoch.
    origin_us: i64,
    _task: Arc<Background<()>>,
}

pub(super) enum Entry {
    Event(Key, Mark),
    Close(oneshot::Sender<()>),
}

impl TimelineWriter {
    /// Goes on with the file in this directory, or begins one. `roles` tells sources from operators and sinks, by their
    /// uids; moments are those of `clock`. What can't be written is left out, with one warning.
    #[must_use]
    pub fn open(dir: &Path, roles: BTreeMap<Arc<str>, Role>, clock: Clock) -> Self {
        let dir = dir.to_owned();
        Self::start((roles, clock), |queue, _| super::file::work(dir, queue))
    }

    /// Begins new objects beside a state in an object store, `timeline/RUN-PIECE.ndjson`. The newest one is put again
    /// every 10 s while there is news, and at the end: a crash loses what came after. The newest 64 pieces of at most
    /// 256 KiB are kept.
    #[cfg(feature = "object-store")]
    #[must_use]
    pub fn beside(
        state: &crate::checkpoint::ObjectState,
        roles: BTreeMap<Arc<str>, Role>,
        clock: Clock,
    ) -> Self {
        let bucket = state.bucket().clone();
        Self::start((roles, clock), |queue, run| super::objects::work((bucket, run), clock, queue))
    }

    fn start<F>(
        (roles, clock): (BTreeMap<Arc<str>, Role>, Clock),
        work: impl FnOnce(mpsc::Receiver<Entry>, i64) -> F,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (entries, queue) = mpsc::channel(QUEUE);
        let run = Clock::wall_ms();
        Self {
            entries,
            roles: Arc::new(roles),
            run,
            origin_us: run * 1_000 - micros(clock.now()),
            _task: Arc::new(Background::start(work(queue, run))),
        }
    }

    /// Takes an event, and does not wait.
    pub fn record(&self, at: Moment, event: &JobEvent<'_>) {
        let role = |uid: &str| self.roles.get(uid).copied().unwrap_or(Role::Operator);
        let Some((checkpoint, stage, task)) = line::of(event, role) else { return };
        // What a run brings to its end for the checkpoint that it began from has no trigger in it.
        if checkpoint > 0 {
            let task = task.map(|task| Arc::from(task.to_string()));
            let mark = Mark { stage, task, at_us: self.origin_us + micros(at) };
            _ = self.entries.try_send(Entry::Event((self.run, checkpoint), mark));
        }
    }

    /// Waits a moment for what was taken to be written.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn close(&self) {
        let (done, closed) = oneshot::channel();
        let closing = async {
            if self.entries.send(Entry::Close(done)).await.is_ok() {
                _ = closed.await;
            }
        };
        _ = tokio::time::timeout(CLOSING, closing).await;
    }
}

fn micros(at: Moment) -> i64 {
    i64::try_from(at.since(Moment::default()).as_micros()).unwrap_or(i64::MAX)
}
