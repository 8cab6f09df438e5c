//! Who is told what happens in a job: the timeline beside its state, and progress.

use std::{collections::BTreeMap, sync::Arc};

use super::Options;
use crate::{
    checkpoint::{
        runner::{JobEvent, Observer, Role},
        timeline::TimelineWriter,
    },
    cli::state::StatePlace,
    net::Clock,
};

/// They are told of every event.
#[derive(Clone)]
pub(in crate::cli) struct Observers {
    timeline: Option<TimelineWriter>,
    on_checkpoint: Arc<dyn Fn() + Send + Sync>,
}

impl Observers {
    /// A job with a state has a timeline in it.
    pub(in crate::cli) fn new(options: &Options, roles: BTreeMap<Arc<str>, Role>, clock: Clock) -> Self {
        let timeline = match &options.state {
            Some(StatePlace::Directory(dir)) => Some(TimelineWriter::open(dir, roles, clock)),
            Some(place) => place.objects().and_then(|objects| match objects {
                Ok(objects) => Some(TimelineWriter::beside(&objects, roles, clock)),
                Err(error) => {
                    tracing::warn!(%error, "no timeline is written");
                    None
                }
            }),
            None => None,
        };
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
