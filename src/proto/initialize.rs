//! Getting an identity: InitProducerId until it is granted, or can't be.
//!
//! Two forms: bare (fences whoever holds the id and aborts what it left open), and with our own pair (KIP-360: a
//! newer owner is reported, not fenced). The second has a trap: a coordinator does not keep the pair of before a
//! bump over a restart, so the retry of a bump whose answer was lost can be told PRODUCER_FENCED by its own first
//! try. Then the coordinator is asked: an empty entry with our producer id and the next epoch is our own.
//!
//! And neither form spares an *open* transaction, whatever pair is named: a coordinator aborts it before it looks at the
//! epoch. A process that was stopped and wakes up would so abort what its successor has prepared. So whoever does not
//! mean to take over looks first, and reports an open transaction of somebody else instead of ending it.
//!
//! One under our own pair, which we have ended, was opened again by a request that arrived late: an AddPartitionsToTxn
//! on V1. It is aborted by EndTxn. InitProducerId would abort it, too, but raises the epoch for that on V1, and then
//! refuses the pair that it names: we would fence ourselves.

use std::{collections::VecDeque, time::Duration};

use super::{
    backoff::{self, Backoff},
    cause::{Cause, CauseKind},
    resume::{CoordinatorState, TransactionView},
    transaction::AbortFact,
    verdict::InitProducerIdVerdict,
};
use crate::ids::{Identity, Moment};

/// On what ground an identity is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// Whoever holds the id is fenced, and what it left open is aborted.
    TakeOver,
    /// Nobody should have anything open under the id; whoever has is a rival.
    Vacant,
    /// This pair of ours was the last one; whoever came after it is a rival.
    Renew(Identity),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    /// Before InitProducerId is sent.
    Look,
    /// It was refused after a try whose answer was lost.
    Refused,
}

/// What the machine is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// InitProducerId was answered.
    Answered {
        /// What the code means.
        verdict: InitProducerIdVerdict,
        /// The pair; it has a meaning when it was granted.
        identity: Identity,
        /// What the broker said, for messages.
        detail: String,
    },
    /// It was not answered, or no coordinator was found. `sent`: it may have been carried out.
    NoAnswer {
        /// Whether a coordinator may have got it.
        sent: bool,
        /// Why, for messages.
        detail: String,
    },
    /// The coordinator was asked for its entry; `None` if it could not tell.
    Described(Option<TransactionView>),
    /// The answer to [`Effect::AbortOwn`].
    Ended(AbortFact),
    /// The coordinator can't be found, for a reason that no waiting cures.
    Refused(Cause),
    /// Time passed.
    Tick,
}

impl Input {
    /// True when InitProducerId may have been carried out, and nobody told how.
    #[must_use]
    pub fn leaves_doubt(&self) -> bool {
        match self {
            Self::NoAnswer { sent, .. } => *sent,
            Self::Answered { verdict, .. } => *verdict == InitProducerIdVerdict::NotKnown,
            Self::Described(_) | Self::Ended(_) | Self::Refused(_) | Self::Tick => false,
        }
    }
}

/// What it asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Send InitProducerId.
    Ask {
        /// Our own pair, or bare.
        own: Option<Identity>,
    },
    /// The coordinator is no longer where it was.
    ForgetCoordinator,
    /// Send DescribeTransactions.
    Describe,
    /// Send EndTxn(abort) by the rules of V1 under this pair of ours.
    AbortOwn(Identity),
    /// Tell a human what has been waited for, and for how long.
    Tell {
        /// Since when.
        waited: Duration,
        /// What was seen last.
        seen: String,
    },
    /// It is over.
    Done(Result<Identity, Cause>),
}

/// An abort that InitProducerId has begun is mostly over by then.
const FIRST_WAIT: Duration = Duration::from_millis(2);

/// A human is told when it has taken this long, and each time that it has taken twice as long as before.
const LONG: Duration = Duration::from_secs(5);

/// The machine.
#[derive(Debug)]
pub struct Initialize {
    claim: Claim,
    began: Moment,
    tell_after: Duration,
    why: Why,
    lost: bool,
    wait: Option<Moment>,
    deadline: Moment,
    backoff: Backoff,
    last: String,
    done: bool,
    effects: VecDeque<Effect>,
}

impl Initialize {
    /// Asks at once; gives up `patience` from now.
    #[must_use]
    pub fn new(now: Moment, claim: Claim, patience: Duration, seed: u64) -> Self {
        let mut machine = Self {
            claim,
            began: now,
            tell_after: LONG,
            why: Why::Look,
            lost: false,
            wait: None,
            deadline: now.after(patience),
            backoff: Backoff::new(FIRST_WAIT, Duration::from_secs(1), seed),
            last: "no answer yet".into(),
            done: false,
            effects: VecDeque::new(),
        };
        machine.ask();
        machine
    }

    /// The same where an earlier try to renew the same pair may have been carried out, and its answer was not seen.
    #[must_use]
    pub fn after_lost_answer(self) -> Self {
        Self { lost: true, ..self }
    }

    /// Takes a fact. Facts that come after the end are passed over.
    pub fn handle(&mut self, now: Moment, input: Input) {
        if self.done {
            return;
        }
        match input {
            Input::Answered { verdict, identity, detail } => {
                self.last.clone_from(&detail);
                self.answered(now, verdict, identity, detail);
            }
            Input::NoAnswer { sent, detail } => {
                self.lost |= sent;
                self.last = detail;
                self.again_elsewhere(now);
            }
            Input::Described(view) => self.described(view),
            Input::Ended(fact) => self.ended(now, fact),
            Input::Refused(cause) => self.finish(Err(cause)),
            Input::Tick => {}
        }
        if self.done {
            return;
        }
        if now >= self.deadline {
            let detail = format!("no identity was granted in time: {}", self.last);
            return self.finish(Err(Cause::new(CauseKind::Unreachable, detail)));
        }
        if now >= self.began.after(self.tell_after) {
            self.tell_after *= 2;
            let waited = now.since(self.began);
            self.effects.push_back(Effect::Tell { waited, seen: self.last.clone() });
        }
        if self.wait.is_some_and(|until| until <= now) {
            self.ask();
        }
    }

    /// The next thing to do; drain it before the next [`handle`](Self::handle).
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// When [`Input::Tick`] is due, if at all.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Moment> {
        let told = self.began.after(self.tell_after).min(self.deadline);
        (!self.done).then_some(self.wait.map_or(told, |until| until.min(told)))
    }

    fn answered(&mut self, now: Moment, verdict: InitProducerIdVerdict, identity: Identity, detail: String) {
        use InitProducerIdVerdict as V;
        let kind = match verdict {
            V::Granted => return self.finish(Ok(identity)),
            V::Retry => return self.again(now),
            V::RetrySoon => return self.again_soon(now),
            V::Relookup => return self.again_elsewhere(now),
            V::NotKnown => {
                self.lost = true;
                return self.again_elsewhere(now);
            }
            V::Fenced if self.lost && matches!(self.claim, Claim::Renew(_)) => {
                self.why = Why::Refused;
                return self.effects.push_back(Effect::Describe);
            }
            V::Fenced => CauseKind::Fenced,
            V::Denied => CauseKind::Denied,
            V::TimeoutRefused => CauseKind::TimeoutTooLarge,
            V::Abortable => CauseKind::InvalidState,
            V::Unsupported => CauseKind::Unsupported,
            V::Fatal => CauseKind::Refused,
        };
        self.finish(Err(Cause::new(kind, detail)));
    }

    fn described(&mut self, view: Option<TransactionView>) {
        match self.why {
            Why::Look => self.looked(view.as_ref()),
            Why::Refused => self.compared(view),
        }
    }

    fn looked(&mut self, view: Option<&TransactionView>) {
        let open = view.filter(|v| v.state == CoordinatorState::Ongoing);
        match (open, self.claim) {
            (Some(view), Claim::Renew(own)) if view.identity == own => {
                return self.effects.push_back(Effect::AbortOwn(own));
            }
            (Some(view), Claim::Renew(_) | Claim::Vacant) => {
                let detail =
                    format!("another owner has a transaction open under the id, as {}", view.identity);
                return self.finish(Err(Cause::new(CauseKind::Fenced, detail)));
            }
            (Some(_), Claim::TakeOver) | (None, _) => {}
        }
        self.send();
    }

    fn ended(&mut self, now: Moment, fact: AbortFact) {
        match fact {
            AbortFact::Done(_) | AbortFact::NothingOpen => self.ask(),
            AbortFact::Retry => self.again(now),
            AbortFact::CoordinatorMoved => self.again_elsewhere(now),
            AbortFact::Fenced(cause) | AbortFact::Refused(cause) => self.finish(Err(cause)),
        }
    }

    fn compared(&mut self, view: Option<TransactionView>) {
        let Claim::Renew(own) = self.claim else { return };
        let bumped = |v: &TransactionView| {
            v.state == CoordinatorState::Empty
                && v.identity.producer_id == own.producer_id
                && i32::from(v.identity.epoch.0) == i32::from(own.epoch.0) + 1
        };
        match view {
            Some(view) if bumped(&view) => {
                self.claim = Claim::Renew(view.identity);
                self.lost = false;
                self.ask();
            }
            Some(_) | None => self.finish(Err(Cause::new(CauseKind::Fenced, "PRODUCER_FENCED"))),
        }
    }

    fn ask(&mut self) {
        self.wait = None;
        match self.claim {
            Claim::TakeOver => self.send(),
            Claim::Vacant | Claim::Renew(_) => {
                self.why = Why::Look;
                self.effects.push_back(Effect::Describe);
            }
        }
    }

    fn send(&mut self) {
        let own = match self.claim {
            Claim::TakeOver | Claim::Vacant => None,
            Claim::Renew(own) => Some(own),
        };
        self.effects.push_back(Effect::Ask { own });
    }

    fn again(&mut self, now: Moment) {
        self.wait = Some(now.after(self.backoff.next_wait()));
    }

    fn again_soon(&mut self, now: Moment) {
        let soon = backoff::soon(self.backoff.tries());
        let wait = self.backoff.next_wait();
        self.wait = Some(now.after(soon.map_or(wait, |soon| wait.min(soon))));
    }

    fn again_elsewhere(&mut self, now: Moment) {
        self.effects.push_back(Effect::ForgetCoordinator);
        self.again(now);
    }

    fn finish(&mut self, result: Result<Identity, Cause>) {
        self.done = true;
        self.effects.push_back(Effect::Done(result));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use InitProducerIdVerdict as V;

    const OWN: Option<Identity> =
        Some(Identity { producer_id: crate::ids::ProducerId(7), epoch: crate::ids::ProducerEpoch(3) });

    fn start(own: Option<Identity>) -> Initialize {
        let claim = own.map_or(Claim::TakeOver, Claim::Renew);
        let mut m = Initialize::new(Moment(0), claim, Duration::from_secs(60), 1);
        if own.is_some() {
            assert_eq!(m.poll_effect(), Some(Effect::Describe));
            m.handle(Moment(0), Input::Described(None));
        }
        assert_eq!(m.poll_effect(), Some(Effect::Ask { own }));
        m
    }

    /// The wait is over, and nothing is open.
    fn again(m: &mut Initialize, own: Option<Identity>) {
        assert_eq!(feed(m, 2000, Input::Tick), [Effect::Describe]);
        assert_eq!(feed(m, 2000, Input::Described(None)), [Effect::Ask { own }]);
    }

    fn feed(m: &mut Initialize, at_ms: u64, input: Input) -> Vec<Effect> {
        m.handle(Moment(at_ms * 1000), input);
        std::iter::from_fn(|| m.poll_effect()).collect()
    }

    fn answer(verdict: V) -> Input {
        Input::Answered { verdict, identity: Identity::new(7, 4), detail: format!("{verdict:?}") }
    }

    fn view(state: CoordinatorState, epoch: i16) -> Input {
        let identity = Identity::new(7, epoch);
        Input::Described(Some(TransactionView { state, start_ms: -1, identity, partitions: vec![] }))
    }

    #[test]
    fn a_takeover_waits_until_the_old_transaction_is_aborted() {
        let mut m = start(None);
        assert_eq!(feed(&mut m, 0, answer(V::RetrySoon)), []);
        assert_eq!(feed(&mut m, 20, Input::Tick), [Effect::Ask { own: None }]);
        assert_eq!(feed(&mut m, 21, answer(V::Granted)), [Effect::Done(Ok(Identity::new(7, 4)))]);
    }

    #[test]
    fn a_rival_is_reported() {
        let mut m = start(OWN);
        let effects = feed(&mut m, 0, answer(V::Fenced));
        assert!(matches!(&effects[..], [Effect::Done(Err(c))] if c.is_fenced()));
    }

    #[test]
    fn our_own_bump_whose_answer_was_lost_is_not_a_rival() {
        let lost = || Input::NoAnswer { sent: true, detail: "cut".into() };
        let mut m = start(OWN);
        assert_eq!(feed(&mut m, 0, lost()), [Effect::ForgetCoordinator]);
        again(&mut m, OWN);
        assert_eq!(feed(&mut m, 2001, answer(V::Fenced)), [Effect::Describe]);
        let bumped = Some(Identity::new(7, 4));
        assert_eq!(feed(&mut m, 2002, view(CoordinatorState::Empty, 4)), [Effect::Describe]);
        assert_eq!(feed(&mut m, 2002, view(CoordinatorState::Empty, 4)), [Effect::Ask { own: bumped }]);

        for rival in [view(CoordinatorState::Ongoing, 4), view(CoordinatorState::Empty, 5)] {
            let mut m = start(OWN);
            feed(&mut m, 0, lost());
            again(&mut m, OWN);
            feed(&mut m, 2001, answer(V::Fenced));
            let effects = feed(&mut m, 2002, rival);
            assert!(matches!(&effects[..], [Effect::Done(Err(c))] if c.is_fenced()));
        }
    }

    #[test]
    fn an_open_transaction_of_somebody_else_is_reported_and_not_ended() {
        for claim in [Claim::Vacant, Claim::Renew(OWN.unwrap())] {
            let mut m = Initialize::new(Moment(0), claim, Duration::from_secs(60), 1);
            assert_eq!(m.poll_effect(), Some(Effect::Describe));
            let effects = feed(&mut m, 0, view(CoordinatorState::Ongoing, 4));
            assert!(matches!(&effects[..], [Effect::Done(Err(c))] if c.is_fenced()), "{effects:?}");
        }
        for (claim, own) in [(Claim::Vacant, None), (Claim::Renew(OWN.unwrap()), OWN)] {
            let mut m = Initialize::new(Moment(0), claim, Duration::from_secs(60), 1);
            assert_eq!(m.poll_effect(), Some(Effect::Describe));
            assert_eq!(feed(&mut m, 0, view(CoordinatorState::PrepareCommit, 3)), [Effect::Ask { own }]);
        }
    }

    #[test]
    fn an_own_transaction_that_a_late_request_opened_is_aborted_before_the_pair_is_renewed() {
        let open = || view(CoordinatorState::Ongoing, 3);
        let own = OWN.unwrap();
        let mut m = Initialize::new(Moment(0), Claim::Renew(own), Duration::from_secs(60), 1);
        assert_eq!(m.poll_effect(), Some(Effect::Describe));
        assert_eq!(feed(&mut m, 0, open()), [Effect::AbortOwn(own)]);
        assert_eq!(feed(&mut m, 1, Input::Ended(AbortFact::Retry)), []);
        assert_eq!(feed(&mut m, 2000, Input::Tick), [Effect::Describe]);
        assert_eq!(feed(&mut m, 2000, open()), [Effect::AbortOwn(own)]);
        assert_eq!(feed(&mut m, 2001, Input::Ended(AbortFact::Done(None))), [Effect::Describe]);
        assert_eq!(feed(&mut m, 2002, view(CoordinatorState::CompleteAbort, 3)), [Effect::Ask { own: OWN }]);

        let mut m = Initialize::new(Moment(0), Claim::Renew(own), Duration::from_secs(60), 1);
        m.poll_effect();
        feed(&mut m, 0, open());
        let fenced = Cause::new(CauseKind::Fenced, "PRODUCER_FENCED");
        let effects = feed(&mut m, 1, Input::Ended(AbortFact::Fenced(fenced)));
        assert!(matches!(&effects[..], [Effect::Done(Err(c))] if c.is_fenced()), "{effects:?}");
    }

    #[test]
    fn a_renewal_that_an_earlier_call_did_not_wait_for_is_not_a_rival() {
        let mut m = start(OWN).after_lost_answer();
        assert_eq!(feed(&mut m, 1, answer(V::Fenced)), [Effect::Describe]);
        assert_eq!(feed(&mut m, 2, view(CoordinatorState::Empty, 4)), [Effect::Describe]);
    }

    #[test]
    fn it_gives_up_in_time_while_nothing_is_answered() {
        let mut m = start(OWN);
        for seconds in [5, 10, 20, 40] {
            assert_eq!(m.next_deadline(), Some(Moment(seconds * 1_000_000)));
            let effects = feed(&mut m, seconds * 1000, Input::Tick);
            let [Effect::Tell { waited, seen }] = &effects[..] else { panic!("{effects:?}") };
            assert_eq!((waited.as_secs(), seen.as_str()), (seconds, "no answer yet"));
        }
        assert_eq!(m.next_deadline(), Some(Moment(60_000_000)));
        assert_eq!(feed(&mut m, 59_999, Input::Tick), []);
        let effects = feed(&mut m, 60_000, Input::Tick);
        assert!(matches!(&effects[..], [Effect::Done(Err(c))] if c.kind == CauseKind::Unreachable));
    }

    #[test]
    fn it_gives_up_when_its_time_is_over_and_says_what_it_saw_last() {
        let mut m = start(None);
        let mut at = 0;
        let effects = loop {
            at += 1000;
            let effects = feed(&mut m, at, answer(V::RetrySoon));
            if effects.iter().any(|e| matches!(e, Effect::Done(_))) {
                break effects;
            }
            feed(&mut m, at + 999, Input::Tick);
        };
        assert_eq!(at, 60_000);
        assert!(
            matches!(&effects[..], [Effect::Done(Err(c))] if c.kind == CauseKind::Unreachable && c.detail.contains("RetrySoon"))
        );
    }
}
