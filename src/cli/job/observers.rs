//! Who is told what happens in a job: the timeline beside its state, and progress.

use std::{collections::BTreeMap, sync::Arc};

use super::Options;
use crate::{
    checkpoint::{
        runner::{JobEvent, Observer, Role},
        timeline::TimelineFile,
    },
    net::Clock,
};

/// They are told of every event.
#[derive(Clone)]
pub(in crate::cli) struct Observers {
    timeline: Option<TimelineFile>,
    on_checkpoint: Arc<dyn Fn() + Send + Sync>,
}

impl Observers {
    /// A job with a state has a timeline in it.
    pub(in crate::cli) fn new(options: &Options, roles: BTreeMap<Arc<str>, Role>, clock: Clock) -> Self {
        let timeline = options.state.as_deref().map(|dir| TimelineFile::open(dir, roles, clock));
        Self { timeline, on_checkpoint: Arc::new(|| {}) }
    }

    /// Calls this whenever a checkpoint is durable.
    pub(in crate::cli) fn on_checkpoint(self, call: impl Fn() + Send + Sync + 'static) -> Self {
        Self { on_checkpoint: Arc::new(call), ..self }
    }

    /// For the job.
    pub(in crate::cli) fn observer(&self) -> Observer {
        let told = self.clone();
        Observer::new(move |at, event| {
            if let Some(timeline) = &told.timeline {
                timeline.record(at, event);
            }
            if matches!(event, JobEvent::Stored { .. }) {
                (told.on_checkpoint)();
            }
        })
    }

    /// The job is over.
    pub(in crate::cli) async fn close(&self) {
        if let Some(timeline) = &self.timeline {
            timeline.close().await;
        }
    }
}
