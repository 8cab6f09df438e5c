//! Where records and barriers enter a subtask: the inbox, read as its alignment allows.

use std::collections::VecDeque;

use super::channel::{Inbox, Next};
use crate::{
    ids::Moment,
    net::Clock,
    proto::checkpoint::{
        Misuse,
        alignment::{Alignment, AlignmentEffect, AlignmentInput, Barrier, Mode},
    },
    record::Record,
};

/// What a subtask has to do next.
#[derive(Debug)]
pub(super) enum Arrival {
    /// Process a record.
    Record { channel: usize, record: Record },
    /// Snapshot, and send the barrier on.
    Snapshot(Barrier),
    /// The snapshot of this checkpoint is complete with these records, by the number of the input they came by.
    Complete { checkpoint: u64, captured: Vec<(usize, Vec<Record>)> },
    /// The barrier of this checkpoint will not come on every channel.
    Declined { checkpoint: u64 },
}

#[derive(Debug)]
pub(super) struct Gate {
    inbox: Inbox,
    alignment: Alignment,
    blocked: Vec<bool>,
    /// By channel: the number of the input that it belongs to.
    inputs: Vec<usize>,
    arrivals: VecDeque<Arrival>,
    clock: Clock,
}

impl Gate {
    /// `inputs` says of each channel to which input of the operator it belongs.
    pub(super) fn new(inbox: Inbox, inputs: Vec<usize>, mode: Mode, clock: Clock) -> Self {
        let alignment = Alignment::new(mode, inputs.len());
        let blocked = vec![false; inputs.len()];
        Self { inbox, alignment, blocked, inputs, arrivals: VecDeque::new(), clock }
    }

    /// What is to be done with barriers. Call it until there is nothing, before the next [`record`](Self::record).
    pub(super) fn barrier(&mut self) -> Result<Option<Arrival>, Misuse> {
        let now = self.clock.now();
        self.announced()?;
        if self.arrivals.is_empty() && self.alignment.next_deadline().is_some_and(|due| due <= now) {
            self.handle(now, AlignmentInput::Tick)?;
        }
        Ok(self.arrivals.pop_front())
    }

    /// The next record of a channel that may be read; or what a barrier at the head of its queue brings.
    pub(super) fn next(&mut self) -> Result<Option<Arrival>, Misuse> {
        loop {
            if let Some(arrival) = self.arrivals.pop_front() {
                return Ok(Some(arrival));
            }
            let blocked = &self.blocked;
            let input = match self.inbox.next(|channel| !blocked[channel]) {
                None => return Ok(None),
                Some(Next::Record(channel, record)) => return Ok(Some(Arrival::Record { channel, record })),
                // A barrier that may overtake does not wait for the end of a burst.
                Some(Next::Announced(channel, barrier)) => AlignmentInput::Announced { channel, barrier },
                Some(Next::Barrier(channel, barrier)) => AlignmentInput::Reached { channel, barrier },
            };
            self.handle(self.clock.now(), input)?;
        }
    }

    fn announced(&mut self) -> Result<(), Misuse> {
        while let Some((channel, barrier)) = self.inbox.announced() {
            self.handle(self.clock.now(), AlignmentInput::Announced { channel, barrier })?;
        }
        Ok(())
    }

    /// The coordinator gave this checkpoint up.
    pub(super) fn aborted(&mut self, checkpoint: u64) -> Result<(), Misuse> {
        self.inbox.captured(checkpoint);
        self.handle(self.clock.now(), AlignmentInput::Aborted { checkpoint })
    }

    /// Waits until there may be something to do. Cancel safe.
    pub(super) async fn changed(&self) {
        tokio::select! {
            () = self.inbox.arrived() => {}
            () = self.clock.sleep_until(self.alignment.next_deadline()) => {}
        }
    }

    fn handle(&mut self, now: Moment, input: AlignmentInput) -> Result<(), Misuse> {
        self.alignment.handle(now, input)?;
        while let Some(effect) = self.alignment.poll_effect() {
            let arrival = match effect {
                AlignmentEffect::Block { channel } => {
                    self.blocked[channel] = true;
                    continue;
                }
                AlignmentEffect::Unblock { channel } => {
                    self.blocked[channel] = false;
                    continue;
                }
                AlignmentEffect::Capture { checkpoint, channel } => {
                    self.inbox.capture(channel, checkpoint);
                    continue;
                }
                // The barrier is put behind the output that is queued: whoever reads that queue captures it.
                AlignmentEffect::Snapshot { barrier, cut: _ } => Arrival::Snapshot(barrier),
                AlignmentEffect::Complete { checkpoint } => {
                    let mut captured = self.inbox.captured(checkpoint);
                    captured.iter_mut().for_each(|(channel, _)| *channel = self.inputs[*channel]);
                    Arrival::Complete { checkpoint, captured }
                }
                AlignmentEffect::GiveUp { checkpoint } => {
                    self.inbox.captured(checkpoint);
                    Arrival::Declined { checkpoint }
                }
            };
            self.arrivals.push_back(arrival);
        }
        Ok(())
    }
}
