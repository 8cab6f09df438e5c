//! A subtask of a source: reads, sends on, and puts barriers among the records.

use std::sync::Arc;

use super::{
    counters::Counters,
    error::TaskError,
    event::JobEvent,
    in_flight,
    offsets::OffsetSender,
    output::Output,
    port::{Command, News, Port, TaskState},
};
use crate::{
    checkpoint::StateHandle,
    proto::checkpoint::{CheckpointKind, alignment::Barrier},
    source::SourceReader,
};

pub(super) struct SourceTask {
    pub(super) port: Port,
    pub(super) reader: Box<dyn SourceReader>,
    pub(super) output: Output,
    pub(super) counters: Arc<Counters>,
    /// Where offsets are told that the sink commits to a consumer group.
    pub(super) offset_sender: Option<OffsetSender>,
}

/// Whether a source still reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    On,
    /// It came to its end, or the job stops.
    Over,
}

impl SourceTask {
    /// Runs until the job lets go of it.
    pub(super) async fn run(mut self) -> Result<(), TaskError> {
        let mut reading = Reading::On;
        let began = self.reader.snapshot();
        loop {
            let room = self.output.has_room();
            tokio::select! {
                biased;
                command = self.port.commands.recv() => match command {
                    None | Some(Command::Close) => return Ok(()),
                    Some(Command::Trigger(barrier)) => {
                        self.barrier(barrier);
                        if barrier.kind == CheckpointKind::Suspend {
                            reading = Reading::Over;
                        }
                    }
                    Some(Command::Notify(checkpoint)) => {
                        self.reader.completed(checkpoint);
                        self.port.tell(News::Confirmed { checkpoint });
                    }
                    Some(Command::Abort(_)) => {}
                },
                () = self.output.room(), if !room => {}
                read = self.reader.next(), if room && reading == Reading::On => match read {
                    Ok(Some(mut batch)) => {
                        self.counters.changed();
                        self.output.emit(&mut batch);
                    }
                    Ok(None) => {
                        reading = Reading::Over;
                        self.port.tell(News::Ended { moved: self.reader.snapshot() != began });
                    }
                    Err(error) if error.is_stop() => {
                        reading = Reading::Over;
                        self.port.tell(News::Stopped(error));
                    }
                    Err(error) => return Err(TaskError::Source { task: self.port.name.clone(), error }),
                },
            }
        }
    }

    fn barrier(&self, barrier: Barrier) {
        let checkpoint = barrier.checkpoint;
        self.port.observe(JobEvent::Snapshot { checkpoint, task: &self.port.name });
        if let Some(offset_sender) = &self.offset_sender {
            offset_sender.tell(checkpoint, &*self.reader);
        }
        let splits = in_flight::splits_to_bytes(&self.reader.snapshot());
        self.output.barrier(barrier);
        let state = Some(StateHandle::Inline(splits.into()));
        self.port.ack(checkpoint, TaskState { state, ..TaskState::default() });
    }
}
