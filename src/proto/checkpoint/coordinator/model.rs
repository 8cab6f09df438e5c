//! A model that knows only the effects, and checks each of them: for tests and fuzzers that give any facts in any order.
//!
//! Every wrong effect is a panic.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    AbortCause, Coordinator, CoordinatorConfig, CoordinatorEffect as Effect, CoordinatorInput as Input,
};
use crate::{
    ids::Moment,
    proto::checkpoint::{CheckpointKind as Kind, Misuse},
};

/// What a subtask hands over: the checkpoint, and a number.
type State = (u64, usize);

const SECOND: u64 = 1_000_000;

/// What happens next. Numbers are taken modulo what there is; `back` counts from the newest checkpoint.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the names are those of the coordinator's inputs")]
pub enum Event {
    /// So many microseconds pass.
    Wait(u64),
    /// The coordinator's deadline comes.
    Deadline,
    /// Somebody asks for a checkpoint.
    Trigger(Kind),
    /// A subtask acknowledges.
    Ack { back: u64, subtask: usize },
    /// A subtask declines.
    Decline { back: u64, subtask: usize },
    /// The running store ends.
    Store(Result<(), ()>),
    /// A store that was not asked for ends.
    StoreUnasked { back: u64 },
    /// A subtask confirms.
    Confirmed { back: u64, subtask: usize },
    /// A source comes to its end.
    Ended { subtask: usize },
}

/// A coordinator, what its effects said, and what was answered.
#[derive(Debug)]
pub struct Model {
    coordinator: Coordinator<State>,
    subtasks: usize,
    now: Moment,
    config: CoordinatorConfig,
    newest: u64,
    /// Kind, trigger and first acknowledgements of those that are not ended.
    under_way: BTreeMap<u64, (Kind, Moment, BTreeMap<usize, State>)>,
    acks: usize,
    storing: Option<u64>,
    stored: u64,
    durable: BTreeSet<u64>,
    confirmed: Vec<u64>,
    failures: u32,
    last_end: Option<Moment>,
    periodic: u64,
    last: Option<Kind>,
    over: Option<Effect<State>>,
}

impl Model {
    /// A coordinator that begins at 0 s behind the checkpoint `restored`; every subtask is a source.
    ///
    /// # Panics
    /// The configuration is not possible, or the first effects are not right.
    #[must_use]
    pub fn new(config: CoordinatorConfig, subtasks: usize, restored: u64) -> Self {
        let coordinator = Coordinator::new(config, subtasks, restored, Moment(0))
            .and_then(|coordinator| coordinator.with_sources(0..subtasks));
        let mut model = Self {
            coordinator: coordinator.expect("the configuration is possible"),
            subtasks,
            now: Moment(0),
            config,
            newest: restored,
            under_way: BTreeMap::new(),
            acks: 0,
            storing: None,
            stored: restored,
            durable: BTreeSet::from([restored]),
            confirmed: vec![0; subtasks],
            failures: 0,
            last_end: None,
            periodic: 0,
            last: None,
            over: None,
        };
        let told = (0..subtasks).filter(|_| restored > 0);
        let told: Vec<_> = told.map(|subtask| Effect::Notify { checkpoint: restored, subtask }).collect();
        assert_eq!(model.effects(), told);
        model.see(Vec::new());
        model
    }

    fn effects(&mut self) -> Vec<Effect<State>> {
        std::iter::from_fn(|| self.coordinator.poll_effect()).collect()
    }

    /// Gives a fact that is right, or at least harmless.
    fn give(&mut self, input: Input<State>) {
        let given = self.coordinator.handle(self.now, input);
        assert_eq!(given, Ok(()));
        let effects = self.effects();
        self.see(effects);
    }

    /// Gives a fact that cannot be.
    fn misuse(&mut self, input: Input<State>) {
        let before = format!("{:?}", self.coordinator);
        let expected = if self.over.is_some() { Ok(()) } else { Err(Misuse) };
        assert_eq!(self.coordinator.handle(self.now, input), expected);
        assert_eq!(format!("{:?}", self.coordinator), before);
    }

    /// One thing happens.
    ///
    /// # Panics
    /// An effect is wrong.
    pub fn happen(&mut self, event: Event) {
        let subtasks = self.subtasks;
        match event {
            Event::Wait(micros) => {
                self.now = Moment(self.now.0 + micros);
                self.give(Input::Tick);
            }
            Event::Deadline => {
                self.now = self.coordinator.next_deadline().unwrap_or(self.now);
                self.give(Input::Tick);
            }
            Event::Trigger(kind @ (Kind::Manual | Kind::Suspend)) => self.give(Input::Trigger(kind)),
            Event::Trigger(kind @ (Kind::Periodic | Kind::Final)) => self.misuse(Input::Trigger(kind)),
            Event::Ack { back, subtask } => self.ack(self.newest.saturating_sub(back), subtask % subtasks),
            Event::Decline { back, subtask } => {
                let checkpoint = self.newest.saturating_sub(back);
                let cause = "no".to_owned();
                self.give(Input::Decline { checkpoint, subtask: subtask % subtasks, cause });
            }
            Event::Store(result) => self.store(result),
            Event::StoreUnasked { back } => {
                let checkpoint = (self.newest + 1).saturating_sub(back);
                if self.storing != Some(checkpoint) {
                    self.misuse(Input::Stored { checkpoint });
                    self.misuse(Input::StoreFailed { checkpoint, cause: String::new() });
                }
            }
            Event::Confirmed { back, subtask } => {
                self.confirm((self.newest + 1).saturating_sub(back), subtask % subtasks);
            }
            Event::Ended { subtask } if subtask < subtasks => self.give(Input::Ended { subtask }),
            Event::Ended { subtask } => self.misuse(Input::Ended { subtask }),
        }
    }

    fn ack(&mut self, checkpoint: u64, subtask: usize) {
        // A repeated acknowledgement brings another state.
        self.acks += 1;
        let state = (checkpoint, self.acks);
        if let Some((_, _, acks)) = self.under_way.get_mut(&checkpoint) {
            acks.entry(subtask).or_insert(state);
        }
        self.give(Input::Ack { checkpoint, subtask, state });
    }

    fn confirm(&mut self, checkpoint: u64, subtask: usize) {
        if checkpoint <= self.durable.last().copied().unwrap_or(0) {
            self.confirmed[subtask] = self.confirmed[subtask].max(checkpoint);
        }
        self.give(Input::Confirmed { checkpoint, subtask });
    }

    fn store(&mut self, result: Result<(), ()>) {
        let Some(checkpoint) = self.storing.take() else { return };
        match result {
            Ok(()) => {
                self.under_way.remove(&checkpoint);
                self.durable.insert(checkpoint);
                self.failures = 0;
                self.last_end = Some(self.now);
                self.give(Input::Stored { checkpoint });
            }
            Err(()) => self.give(Input::StoreFailed { checkpoint, cause: "disk".to_owned() }),
        }
    }

    fn see(&mut self, effects: Vec<Effect<State>>) {
        for effect in effects {
            assert_eq!(self.over, None, "nothing follows, not {effect:?}");
            self.see_one(effect);
        }
        let now = self.now;
        let deadline = self.coordinator.next_deadline();
        assert!(deadline.is_none_or(|at| at > now), "{deadline:?} has passed at {now:?}");
        let complete = |acks: &BTreeMap<usize, State>| acks.len() == self.subtasks;
        let expired = self
            .under_way
            .values()
            .any(|(_, triggered, acks)| !complete(acks) && triggered.after(self.config.timeout) <= now);
        assert!(!expired || self.over.is_some());
    }

    fn see_one(&mut self, effect: Effect<State>) {
        match effect {
            Effect::Trigger { checkpoint, kind } => self.see_trigger(checkpoint, kind),
            Effect::Store { checkpoint, kind, states } => {
                assert_eq!(self.storing.replace(checkpoint), None);
                assert!(checkpoint > self.stored, "stores are in order");
                self.stored = checkpoint;
                let (its_kind, _, acks) = &self.under_way[&checkpoint];
                assert_eq!(*its_kind, kind);
                assert_eq!(acks.len(), self.subtasks, "{checkpoint} is not acknowledged by all");
                assert_eq!(acks.values().copied().collect::<Vec<_>>(), states);
            }
            Effect::Notify { checkpoint, subtask } => {
                assert_eq!(self.durable.last(), Some(&checkpoint), "it is the newest durable one");
                assert!(self.confirmed[subtask] < checkpoint, "it was confirmed");
            }
            Effect::Abort { checkpoint, cause } => self.see_abort(checkpoint, &cause),
            Effect::Fail(_) => {
                assert!(self.failures > self.config.tolerable_failures);
                self.over = Some(effect);
            }
            Effect::Finished { checkpoint, kind } => {
                assert_eq!(self.last, Some(kind));
                assert!(self.durable.contains(&checkpoint));
                assert!(self.confirmed.iter().all(|confirmed| *confirmed == checkpoint));
                self.over = Some(effect);
            }
        }
    }

    fn see_trigger(&mut self, checkpoint: u64, kind: Kind) {
        let now = self.now;
        assert!(self.failures <= self.config.tolerable_failures);
        assert_eq!(checkpoint, self.newest + 1, "ids grow by one");
        self.newest = checkpoint;
        match kind {
            Kind::Periodic => {
                assert!(self.under_way.len() < self.config.max_concurrent);
                assert!(self.last_end.is_none_or(|end| end.after(self.config.min_pause) <= now));
                self.periodic += 1;
                assert!(self.periodic <= now.0 / SECOND, "{} at {now:?}", self.periodic);
            }
            Kind::Final => assert!(self.under_way.len() < self.config.max_concurrent),
            Kind::Manual | Kind::Suspend => assert_eq!(self.storing, None),
        }
        assert!(self.under_way.len() < self.config.max_concurrent + 2, "there is a bound for all kinds");
        if kind.is_last() {
            assert!(self.under_way.values().all(|(kind, ..)| !kind.is_last()));
            assert!(self.last.is_none_or(|last| last == kind));
            self.last = Some(kind);
        }
        assert!(self.last.is_none() || kind.is_last(), "{kind:?} after the last");
        self.under_way.insert(checkpoint, (kind, now, BTreeMap::new()));
    }

    fn see_abort(&mut self, checkpoint: u64, cause: &AbortCause) {
        let (_, triggered, acks) = self.under_way.remove(&checkpoint).expect("it is under way");
        assert!(!self.durable.contains(&checkpoint));
        let late = self.now >= triggered.after(self.config.timeout);
        match cause {
            AbortCause::Subsumed { by } => {
                assert!(*by > checkpoint && self.under_way[by].2.len() == self.subtasks);
                return;
            }
            AbortCause::Timeout { missing, .. } => {
                assert!(late && !missing.is_empty());
                assert!(missing.iter().all(|subtask| !acks.contains_key(subtask)));
            }
            AbortCause::Declined { .. } => assert!(acks.len() < self.subtasks),
            AbortCause::Store(_) => assert_eq!(acks.len(), self.subtasks),
        }
        self.failures += 1;
        self.last_end = Some(self.now);
    }

    /// Everybody answers from now on, and all sources come to their end.
    ///
    /// # Panics
    /// An effect is wrong, or the job does not end.
    pub fn come_to_the_end(&mut self) {
        (0..self.subtasks).for_each(|subtask| self.give(Input::Ended { subtask }));
        let failed = matches!(self.over, Some(Effect::Fail(_)));
        for _ in 0..20 {
            if let Some(over) = &self.over {
                assert!(failed || matches!(over, Effect::Finished { .. }), "{over:?}, though all answer");
                return;
            }
            let subtasks = 0..self.subtasks;
            for id in self.under_way.keys().copied().collect::<Vec<u64>>() {
                subtasks.clone().for_each(|subtask| self.ack(id, subtask));
            }
            while self.storing.is_some() {
                self.store(Ok(()));
            }
            let durable = self.durable.last().copied().unwrap_or(0);
            subtasks.for_each(|subtask| self.confirm(durable, subtask));
            if self.under_way.is_empty() {
                self.happen(Event::Deadline);
            }
        }
        panic!("the job does not end");
    }
}
