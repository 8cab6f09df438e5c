//! The store, while the job goes on: checkpoints are written beside it, one at a time.

use futures::{FutureExt, future::BoxFuture};
use tracing::Instrument;

use crate::checkpoint::{
    Checkpoint, CheckpointStore, StoreError, StorePoint,
    spans::Spans,
    step::{Step, Steps},
};

/// What became of a checkpoint.
pub(super) type Kept = (Checkpoint, Result<(), StoreError>);

pub(super) struct Keeper<'a> {
    steps: Steps,
    spans: Spans,
    state: State<'a>,
}

enum State<'a> {
    Idle(&'a mut dyn CheckpointStore),
    Writing(BoxFuture<'a, (&'a mut dyn CheckpointStore, Kept)>),
    /// Between the two.
    Moving,
}

impl<'a> Keeper<'a> {
    pub(super) fn new(store: &'a mut dyn CheckpointStore, steps: Steps, spans: Spans) -> Self {
        Self { steps, spans, state: State::Idle(store) }
    }

    /// Begins to make a checkpoint durable. The one before must be done.
    pub(super) fn begin(&mut self, checkpoint: Checkpoint) {
        let State::Idle(store) = std::mem::replace(&mut self.state, State::Moving) else {
            unreachable!("the coordinator stores one checkpoint at a time")
        };
        let (steps, span) = (self.steps.clone(), self.spans.store(checkpoint.id));
        let writing = async move {
            let mut passed = move |point| {
                steps.step(match point {
                    StorePoint::Half => Step::StoreHalf,
                    StorePoint::Durable => Step::Durable,
                });
            };
            let result = store.write(&checkpoint, &mut passed).await;
            (store, (checkpoint, result))
        };
        self.state = State::Writing(writing.instrument(span).boxed());
    }

    /// Waits for the end of the checkpoint that is being written; for ever if there is none. Cancel safe.
    pub(super) async fn written(&mut self) -> Kept {
        let State::Writing(writing) = &mut self.state else { return std::future::pending().await };
        let (store, kept) = writing.await;
        self.state = State::Idle(store);
        kept
    }

    /// The same, if something is being written.
    pub(super) async fn finish(&mut self) -> Option<Kept> {
        match self.state {
            State::Writing(_) => Some(self.written().await),
            State::Idle(_) | State::Moving => None,
        }
    }
}
