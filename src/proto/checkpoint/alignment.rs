//! At which record of each input channel a subtask's snapshot is cut.
//!
//! ```text
//!                 last barrier reached: Snapshot(Aligned), Complete
//!   Aligning ───────────────────────────────────────────────────────────────► done
//!      │  older than the timeout: Snapshot(Unaligned), Capture                  ▲
//!      └────────────────────────────────────────────────► Capturing ────────────┘
//!                                                             last barrier announced: Complete
//!   each of both ── aborted, or a newer barrier in the place of its own: GiveUp ──► done
//! ```
//! The rules that make it safe:
//! - A channel is not read behind a barrier while its checkpoint is aligning. So the state holds what stands before the
//!   barriers, and nothing else.
//! - An unaligned snapshot holds what was read; what was not, up to the barrier, is captured. Both together are the same
//!   records.
//! - Checkpoints are taken in their order: only the oldest that is aligning can be cut. Otherwise its barrier would
//!   come behind a newer one in the channels downstream, and would be given up there.
//! - Barriers of one channel come in order. So a newer one tells that an older one will not come, and nobody waits
//!   for it.
//! - A channel that has ended is not waited for: all of it is before every barrier.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::Misuse;
use crate::ids::Moment;

mod channel;
mod interface;

use channel::Channel;
pub use interface::{AlignmentEffect, AlignmentInput, Barrier, Cut, Mode};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The snapshot is not made.
    Aligning,
    /// It is made, and barriers are still to be announced.
    Capturing,
}

/// A checkpoint that is under way here.
#[derive(Debug)]
struct Open {
    barrier: Barrier,
    phase: Phase,
    announced: BTreeSet<usize>,
    reached: BTreeSet<usize>,
}

/// The alignment of one subtask.
#[derive(Debug)]
pub struct Alignment {
    mode: Mode,
    channels: Vec<Channel>,
    open: BTreeMap<u64, Open>,
    /// Aborted or given up, while a barrier of it may still come.
    dropped: BTreeSet<u64>,
    effects: VecDeque<AlignmentEffect>,
}

impl Alignment {
    /// Begins with `channels` input channels, none of which has brought anything.
    #[must_use]
    pub fn new(mode: Mode, channels: usize) -> Self {
        Self {
            mode,
            channels: (0..channels).map(|_| Channel::new()).collect(),
            open: BTreeMap::new(),
            dropped: BTreeSet::new(),
            effects: VecDeque::new(),
        }
    }

    /// Takes a fact.
    ///
    /// # Errors
    /// [`Misuse`] when the fact cannot be: an unknown or ended channel, a blocked channel that was read, or a barrier
    /// that is not the next one of its channel.
    pub fn handle(&mut self, now: Moment, input: AlignmentInput) -> Result<(), Misuse> {
        match input {
            AlignmentInput::Announced { channel, barrier } => {
                self.channel(channel)?.announced(barrier.checkpoint)?;
                self.announced(channel, barrier);
            }
            AlignmentInput::Reached { channel, barrier } => self.reached(channel, barrier)?,
            AlignmentInput::Aborted { checkpoint } => self.discard(checkpoint),
            AlignmentInput::Ended { channel } => self.channel(channel)?.ended()?,
            AlignmentInput::Tick => {}
        }
        self.cut(now);
        self.complete();
        self.block();
        self.forget();
        Ok(())
    }

    /// The next intent.
    pub fn poll_effect(&mut self) -> Option<AlignmentEffect> {
        self.effects.pop_front()
    }

    /// When to send [`AlignmentInput::Tick`].
    #[must_use]
    pub fn next_deadline(&self) -> Option<Moment> {
        let oldest = self.open.values().find(|open| open.phase == Phase::Aligning)?;
        self.overtakes_at(&oldest.barrier).filter(|at| *at < Moment(u64::MAX))
    }

    fn channel(&mut self, channel: usize) -> Result<&mut Channel, Misuse> {
        self.channels.get_mut(channel).ok_or(Misuse)
    }

    fn announced(&mut self, channel: usize, barrier: Barrier) {
        let id = barrier.checkpoint;
        let skipped = self.open.range(..id).filter(|(_, open)| !open.announced.contains(&channel));
        let skipped: Vec<u64> = skipped.map(|(&older, _)| older).collect();
        for older in skipped {
            self.give_up(older);
        }
        if self.dropped.contains(&id) {
            return;
        }
        // Where it is not open yet, nobody has announced it; who is further has skipped it.
        if !self.open.contains_key(&id) && self.channels.iter().any(|channel| channel.newest() > id) {
            return self.give_up(id);
        }
        let open = self.open.entry(id).or_insert_with(|| Open {
            barrier,
            phase: Phase::Aligning,
            announced: BTreeSet::new(),
            reached: BTreeSet::new(),
        });
        open.announced.insert(channel);
    }

    fn reached(&mut self, number: usize, barrier: Barrier) -> Result<(), Misuse> {
        let id = barrier.checkpoint;
        let channel = self.channel(number)?;
        if channel.can_skip_announcement(id) {
            channel.announced(id)?;
            channel.reached(id)?;
            self.announced(number, barrier);
        } else {
            channel.reached(id)?;
        }
        if let Some(open) = self.open.get_mut(&id) {
            open.reached.insert(number);
        }
        Ok(())
    }

    fn give_up(&mut self, checkpoint: u64) {
        self.effects.push_back(AlignmentEffect::GiveUp { checkpoint });
        self.discard(checkpoint);
    }

    fn discard(&mut self, checkpoint: u64) {
        self.open.remove(&checkpoint);
        self.dropped.insert(checkpoint);
    }

    /// Makes every snapshot that is due, the oldest first.
    fn cut(&mut self, now: Moment) {
        while let Some(open) = self.open.values().find(|open| open.phase == Phase::Aligning) {
            let barrier = open.barrier;
            let behind: Vec<usize> = self.without(&open.reached).collect();
            let cut = if behind.is_empty() {
                Cut::Aligned
            } else if self.overtakes_at(&barrier).is_some_and(|at| at <= now) {
                Cut::Unaligned
            } else {
                return;
            };
            self.effects.push_back(AlignmentEffect::Snapshot { barrier, cut });
            let checkpoint = barrier.checkpoint;
            let capture = |channel| AlignmentEffect::Capture { checkpoint, channel };
            self.effects.extend(behind.into_iter().map(capture));
            if let Some(open) = self.open.get_mut(&checkpoint) {
                open.phase = Phase::Capturing;
            }
        }
    }

    /// Ends every checkpoint that was cut and of which every barrier was announced.
    fn complete(&mut self) {
        let cut = self.open.values().filter(|open| open.phase == Phase::Capturing);
        let complete = cut.filter(|open| self.without(&open.announced).next().is_none());
        let complete: Vec<u64> = complete.map(|open| open.barrier.checkpoint).collect();
        for checkpoint in complete {
            self.open.remove(&checkpoint);
            self.effects.push_back(AlignmentEffect::Complete { checkpoint });
        }
    }

    /// Blocks the channels whose barrier was reached by a checkpoint that is aligning, and no others.
    fn block(&mut self) {
        let exactly_once = matches!(self.mode, Mode::ExactlyOnce { .. });
        let aligning = self.open.values().filter(|open| exactly_once && open.phase == Phase::Aligning);
        let waiting: BTreeSet<usize> = aligning.flat_map(|open| open.reached.iter().copied()).collect();
        for (number, channel) in self.channels.iter_mut().enumerate() {
            if waiting.contains(&number) {
                if channel.block() {
                    self.effects.push_back(AlignmentEffect::Block { channel: number });
                }
            } else if channel.unblock() {
                self.effects.push_back(AlignmentEffect::Unblock { channel: number });
            }
        }
    }

    /// Forgets what was dropped, once no channel can bring a barrier of it.
    fn forget(&mut self) {
        let channels = &self.channels;
        self.dropped.retain(|&id| channels.iter().any(|channel| channel.may_bring(id)));
    }

    /// The channels that have not ended and are not among these.
    fn without<'a>(&'a self, seen: &'a BTreeSet<usize>) -> impl Iterator<Item = usize> + 'a {
        let live = self.channels.iter().enumerate().filter(|(_, channel)| !channel.has_ended());
        live.map(|(number, _)| number).filter(|number| !seen.contains(number))
    }

    /// When a barrier stops waiting, if it ever does. The last barriers of a job wait: operators flush before they
    /// snapshot, which nothing may come after.
    fn overtakes_at(&self, barrier: &Barrier) -> Option<Moment> {
        match self.mode {
            Mode::ExactlyOnce { aligned_timeout: Some(timeout) } if !barrier.kind.is_last() => {
                // At once, whatever the clock says that the barrier's time is taken from.
                Some(if timeout.is_zero() { Moment(0) } else { barrier.triggered.after(timeout) })
            }
            Mode::ExactlyOnce { .. } | Mode::AtLeastOnce => None,
        }
    }
}

#[cfg(test)]
mod tests;
