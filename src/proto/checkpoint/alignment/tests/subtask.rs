//! A subtask whose operator remembers every record that it has processed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Item {
    /// Records of a channel are numbered from 0.
    Record(usize),
    Barrier(u64, Kind),
    End,
}

/// Whether the subtask sees barriers when they arrive, or only when it reads them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sight {
    OnArrival,
    OnReading,
}

#[derive(Debug, Default)]
struct Channel {
    /// All that ever comes.
    script: Vec<Item>,
    arrived: usize,
    queue: VecDeque<Item>,
    /// The operator's state: how many records it has processed of this channel.
    processed: usize,
    blocked: bool,
}

impl Channel {
    fn barriers(&self) -> impl Iterator<Item = u64> {
        self.script.iter().filter_map(|item| if let Item::Barrier(id, _) = item { Some(*id) } else { None })
    }

    /// How many records stand before this barrier; all of them if the channel ends without it.
    fn before(&self, checkpoint: u64) -> usize {
        let before =
            self.script.iter().take_while(|i| !matches!(i, Item::Barrier(id, _) if *id == checkpoint));
        before.filter(|item| matches!(item, Item::Record(_))).count()
    }

    /// Whether a newer barrier comes in the place of this one.
    fn skips(&self, checkpoint: u64) -> bool {
        self.barriers().all(|id| id != checkpoint) && self.barriers().any(|id| id > checkpoint)
    }
}

/// What is kept for one checkpoint.
#[derive(Debug, Default)]
struct Kept {
    state: Vec<usize>,
    captured: BTreeMap<usize, Vec<usize>>,
    /// Channels whose barrier has not arrived yet.
    capturing: BTreeSet<usize>,
}

/// The subtask, and all that is checked of it.
#[derive(Debug)]
pub(super) struct Subtask {
    mode: Mode,
    sight: Sight,
    alignment: Alignment,
    now: Moment,
    channels: Vec<Channel>,
    triggered: BTreeMap<u64, Moment>,
    kept: BTreeMap<u64, Kept>,
    /// The newest whose barrier was sent on.
    sent: u64,
    aborted: BTreeSet<u64>,
    complete: BTreeSet<u64>,
    given_up: BTreeSet<u64>,
}

impl Subtask {
    pub(super) fn new(mode: Mode, sight: Sight, scripts: Vec<Vec<Item>>) -> Self {
        Self {
            mode,
            sight,
            alignment: Alignment::new(mode, scripts.len()),
            now: Moment(0),
            channels: scripts.into_iter().map(|script| Channel { script, ..Channel::default() }).collect(),
            triggered: BTreeMap::new(),
            kept: BTreeMap::new(),
            sent: 0,
            aborted: BTreeSet::new(),
            complete: BTreeSet::new(),
            given_up: BTreeSet::new(),
        }
    }

    pub(super) fn wait(&mut self, micros: u64) {
        self.now = Moment(self.now.0 + micros);
        self.give(Input::Tick);
    }

    pub(super) fn abort(&mut self, checkpoint: u64) {
        if !self.complete.contains(&checkpoint) {
            self.aborted.insert(checkpoint);
            self.kept.remove(&checkpoint);
            self.give(Input::Aborted { checkpoint });
        }
    }

    /// The next item comes into the channel's queue; false if there is none.
    pub(super) fn arrive(&mut self, number: usize) -> bool {
        let channel = &mut self.channels[number];
        let Some(item) = channel.script.get(channel.arrived).copied() else { return false };
        channel.arrived += 1;
        channel.queue.push_back(item);
        match item {
            Item::Record(record) => {
                for kept in self.kept.values_mut().filter(|kept| kept.capturing.contains(&number)) {
                    kept.captured.entry(number).or_default().push(record);
                }
            }
            Item::Barrier(checkpoint, kind) => {
                if let Some(kept) = self.kept.get_mut(&checkpoint) {
                    kept.capturing.remove(&number);
                }
                let barrier = self.barrier(checkpoint, kind);
                if self.sight == Sight::OnArrival {
                    self.give(Input::Announced { channel: number, barrier });
                }
            }
            Item::End => self.kept.values_mut().for_each(|kept| _ = kept.capturing.remove(&number)),
        }
        true
    }

    /// The next item of the channel's queue is read; false if that cannot be.
    pub(super) fn read(&mut self, number: usize) -> bool {
        let channel = &mut self.channels[number];
        if channel.blocked {
            return false;
        }
        let Some(item) = channel.queue.pop_front() else { return false };
        match item {
            Item::Record(record) => {
                assert_eq!(record, channel.processed, "in order, each once");
                channel.processed += 1;
            }
            Item::Barrier(checkpoint, kind) => {
                let barrier = self.barrier(checkpoint, kind);
                self.give(Input::Reached { channel: number, barrier });
            }
            Item::End => self.give(Input::Ended { channel: number }),
        }
        true
    }

    fn barrier(&mut self, checkpoint: u64, kind: Kind) -> Barrier {
        let triggered = *self.triggered.entry(checkpoint).or_insert(self.now);
        Barrier { checkpoint, kind, triggered }
    }

    fn give(&mut self, input: Input) {
        self.alignment.handle(self.now, input).unwrap();
        while let Some(effect) = self.alignment.poll_effect() {
            self.carry_out(effect);
        }
        let deadline = self.alignment.next_deadline();
        assert!(deadline.is_none_or(|at| at > self.now), "{deadline:?} has passed at {:?}", self.now);
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Block { channel } => {
                assert!(self.mode != Mode::AtLeastOnce && self.channels.len() > 1);
                assert!(!std::mem::replace(&mut self.channels[channel].blocked, true));
            }
            Effect::Unblock { channel } => {
                assert!(std::mem::replace(&mut self.channels[channel].blocked, false));
            }
            Effect::Snapshot { barrier, cut } => self.snapshot(barrier, cut),
            Effect::Capture { checkpoint, channel } => self.capture(checkpoint, channel),
            Effect::Complete { checkpoint } => self.check_cut(checkpoint),
            Effect::GiveUp { checkpoint } => {
                assert!(self.channels.iter().any(|c| c.skips(checkpoint)), "{checkpoint} can complete");
                assert!(!self.complete.contains(&checkpoint) && !self.aborted.contains(&checkpoint));
                assert!(self.given_up.insert(checkpoint));
                self.kept.remove(&checkpoint);
            }
        }
    }

    fn snapshot(&mut self, barrier: Barrier, cut: Cut) {
        let id = barrier.checkpoint;
        assert!(id > self.sent, "{id} is sent on behind {}", self.sent);
        self.sent = id;
        assert!(!self.aborted.contains(&id) && !self.given_up.contains(&id));
        if cut == Cut::Unaligned {
            let Mode::ExactlyOnce { aligned_timeout: Some(timeout) } = self.mode else {
                panic!("{id} waits")
            };
            assert!(!barrier.kind.is_last() && barrier.triggered.after(timeout) <= self.now);
        }
        let state = self.channels.iter().map(|channel| channel.processed).collect();
        self.kept.insert(id, Kept { state, ..Kept::default() });
    }

    fn capture(&mut self, checkpoint: u64, number: usize) {
        let mut captured = Vec::new();
        let kept = self.kept.get_mut(&checkpoint).unwrap();
        kept.capturing.insert(number);
        for item in &self.channels[number].queue {
            match item {
                Item::Record(record) => captured.push(*record),
                Item::Barrier(id, _) if *id != checkpoint => {}
                Item::Barrier(..) | Item::End => {
                    kept.capturing.remove(&number);
                    break;
                }
            }
        }
        assert_eq!(kept.captured.insert(number, captured), None);
    }

    /// The state and what was captured are the records before the barriers, each once.
    fn check_cut(&mut self, checkpoint: u64) {
        assert!(!self.aborted.contains(&checkpoint) && !self.given_up.contains(&checkpoint));
        let kept = self.kept.remove(&checkpoint).expect("the snapshot was made");
        assert!(kept.capturing.is_empty(), "{checkpoint}: more may be captured from {:?}", kept.capturing);
        for (number, channel) in self.channels.iter().enumerate() {
            let before = channel.before(checkpoint);
            let state = kept.state[number];
            if self.mode == Mode::AtLeastOnce {
                assert!(kept.captured.is_empty() && state >= before, "{checkpoint} loses of {number}");
                continue;
            }
            let captured = kept.captured.get(&number).into_iter().flatten().copied();
            let cut: Vec<usize> = (0..state).chain(captured).collect();
            assert_eq!(cut, (0..before).collect::<Vec<_>>(), "{checkpoint} of channel {number}");
        }
        assert!(self.complete.insert(checkpoint));
    }

    /// Lets everything arrive and be read, and checks that every checkpoint found its end.
    pub(super) fn come_to_the_end(&mut self) {
        for number in 0..self.channels.len() {
            while self.arrive(number) {}
        }
        while (0..self.channels.len()).any(|number| self.read(number)) {}
        let stuck = self.channels.iter().any(|channel| !channel.queue.is_empty());
        assert!(!stuck, "nothing can be read: {:?}", self.channels);
        let ids: BTreeSet<u64> = self.channels.iter().flat_map(Channel::barriers).collect();
        for id in ids.difference(&self.aborted) {
            let skipped = self.channels.iter().any(|channel| channel.skips(*id));
            assert_eq!(self.complete.contains(id), !skipped, "{id}");
            assert_eq!(self.given_up.contains(id), skipped, "{id}");
        }
        assert_eq!(self.alignment.next_deadline(), None);
        assert!(self.alignment.open.is_empty() && self.alignment.dropped.is_empty());
    }
}
