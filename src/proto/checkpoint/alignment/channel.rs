//! What is known of one input channel.

use std::collections::VecDeque;

use crate::proto::checkpoint::Misuse;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Reading,
    Blocked,
    Ended,
}

/// A channel: the barriers in its queue, and whether it is read.
#[derive(Debug)]
pub(super) struct Channel {
    /// Announced and not reached.
    queue: VecDeque<u64>,
    /// The newest that was announced; 0 for none.
    newest: u64,
    state: State,
}

impl Channel {
    pub(super) fn new() -> Self {
        Self { queue: VecDeque::new(), newest: 0, state: State::Reading }
    }

    pub(super) fn newest(&self) -> u64 {
        self.newest
    }

    pub(super) fn has_ended(&self) -> bool {
        self.state == State::Ended
    }

    /// Whether a barrier of this checkpoint may still come.
    pub(super) fn may_bring(&self, checkpoint: u64) -> bool {
        !self.has_ended() && self.newest < checkpoint
    }

    /// A barrier was put into the queue.
    pub(super) fn announced(&mut self, checkpoint: u64) -> Result<(), Misuse> {
        if !self.may_bring(checkpoint) {
            return Err(Misuse);
        }
        self.newest = checkpoint;
        self.queue.push_back(checkpoint);
        Ok(())
    }

    /// The next barrier in the queue was reached.
    pub(super) fn reached(&mut self, checkpoint: u64) -> Result<(), Misuse> {
        if self.state != State::Reading || self.queue.front() != Some(&checkpoint) {
            return Err(Misuse);
        }
        self.queue.pop_front();
        Ok(())
    }

    /// Whether a barrier that was not announced can be reached now.
    pub(super) fn can_skip_announcement(&self, checkpoint: u64) -> bool {
        self.state == State::Reading && self.queue.is_empty() && self.may_bring(checkpoint)
    }

    /// Nothing more will come.
    pub(super) fn ended(&mut self) -> Result<(), Misuse> {
        if self.state != State::Reading || !self.queue.is_empty() {
            return Err(Misuse);
        }
        self.state = State::Ended;
        Ok(())
    }

    /// Begins to be blocked; false if it was.
    pub(super) fn block(&mut self) -> bool {
        let reading = self.state == State::Reading;
        if reading {
            self.state = State::Blocked;
        }
        reading
    }

    /// Is read again; false if it was not blocked.
    pub(super) fn unblock(&mut self) -> bool {
        let blocked = self.state == State::Blocked;
        if blocked {
            self.state = State::Reading;
        }
        blocked
    }
}
