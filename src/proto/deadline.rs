//! How old open and prepared transactions are, against `transaction.timeout.ms`.
//!
//! A broker aborts a transaction that was begun longer ago than its timeout, prepared or not. So age is what a prepared
//! transaction dies of while its commit waits: it is told at half of the timeout and at four fifths, and what is over it
//! is not prepared any more.

use std::{collections::BTreeMap, fmt, time::Duration};

use crate::ids::{Moment, TransactionalId};

/// How much of its timeout a transaction has used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Age {
    /// Less than half.
    Young,
    /// Half, or more.
    Half,
    /// Four fifths, or more.
    Old,
    /// All of it: its coordinator aborts it at any moment, or has done so.
    Over,
}

impl Age {
    /// The share of the timeout at which it begins, in percent.
    #[must_use]
    pub fn percent(self) -> u32 {
        match self {
            Self::Young => 0,
            Self::Half => 50,
            Self::Old => 80,
            Self::Over => 100,
        }
    }

    /// The age of a transaction that was begun so long ago.
    #[must_use]
    pub fn of(age: Duration, timeout: Duration) -> Self {
        let reached = |step: &Self| age >= timeout * step.percent() / 100;
        [Self::Over, Self::Old, Self::Half].into_iter().find(reached).unwrap_or(Self::Young)
    }
}

/// What a transaction waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// It is being written, and waits for a checkpoint.
    Open,
    /// It is prepared, and waits for its commit.
    Prepared,
}

/// A transaction that has used half of its timeout or more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadlineWarning {
    /// Its id.
    pub transactional_id: TransactionalId,
    /// What it waits for.
    pub stage: Stage,
    /// How much of its timeout is used.
    pub age: Age,
    /// How long ago it was begun.
    pub begun_ago: Duration,
    /// `transaction.timeout.ms`.
    pub timeout: Duration,
}

const LONG_CHECKPOINT: &str = "The checkpoint takes long, or is too far from the one before: find the part that takes \
                               the time (`kafka-2pc timeline`); if it is the flush, look at the brokers' produce \
                               latency and under-replicated partitions";

const LATE_COMMIT: &str = "See what the commit waits for; if the end is near, commit from wherever brokers can be \
                           reached (`kafka-2pc txn commit --state DIR`)";

impl fmt::Display for DeadlineWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (stage, waits, cure) = match self.stage {
            Stage::Open => ("open", "checkpoint", LONG_CHECKPOINT),
            Stage::Prepared => ("prepared", "commit", LATE_COMMIT),
        };
        write!(
            f,
            "the {stage} transaction {} was begun {:?} ago, {} % or more of transaction.timeout.ms = {}; without its \
             {waits} before the end of it, it is aborted. {cure}",
            self.transactional_id,
            self.begun_ago,
            self.age.percent(),
            self.timeout.as_millis()
        )
    }
}

/// A transaction is too old to be prepared: its coordinator aborts it before anybody could commit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the transaction {transactional_id} was begun {begun_ago:?} ago, and transaction.timeout.ms is {}: its coordinator \
     aborts it, so it is not prepared. Checkpoints are too far apart, or take too long: interval and duration together \
     must stay far below that timeout; find the part that takes the time (`kafka-2pc timeline`)",
    timeout.as_millis()
)]
pub struct TooOld {
    /// Its id.
    pub transactional_id: TransactionalId,
    /// How long ago it was begun.
    pub begun_ago: Duration,
    /// `transaction.timeout.ms`.
    pub timeout: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Tracked {
    begun: Moment,
    stage: Stage,
    told: Age,
}

/// The ages of a writer's transactions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deadlines {
    timeout: Duration,
    tracked: BTreeMap<TransactionalId, Tracked>,
}

impl Deadlines {
    /// Nothing is open yet. Transactions are aborted `timeout` after they were begun.
    #[must_use]
    pub fn new(timeout: Duration) -> Self {
        Self { timeout, tracked: BTreeMap::new() }
    }

    /// A transaction is begun: its first record was taken, which is a moment before its coordinator begins it with its
    /// first partition.
    pub fn begun(&mut self, now: Moment, id: TransactionalId) {
        self.tracked.insert(id, Tracked { begun: now, stage: Stage::Open, told: Age::Young });
    }

    /// True when it can be prepared and then still be committed.
    ///
    /// # Errors
    /// [`TooOld`].
    pub fn may_prepare(&self, now: Moment, id: &TransactionalId) -> Result<(), TooOld> {
        let Some(tracked) = self.tracked.get(id) else { return Ok(()) };
        let begun_ago = now.since(tracked.begun);
        match Age::of(begun_ago, self.timeout) {
            Age::Over => Err(TooOld { transactional_id: id.clone(), begun_ago, timeout: self.timeout }),
            Age::Young | Age::Half | Age::Old => Ok(()),
        }
    }

    /// It is prepared.
    pub fn prepared(&mut self, id: &TransactionalId) {
        if let Some(tracked) = self.tracked.get_mut(id) {
            tracked.stage = Stage::Prepared;
        }
    }

    /// It is decided, or given up.
    pub fn ended(&mut self, id: &TransactionalId) {
        self.tracked.remove(id);
    }

    /// Every transaction that has used half of its timeout or more, now.
    #[must_use]
    pub fn warnings(&self, now: Moment) -> Vec<DeadlineWarning> {
        let warned = self.tracked.iter().map(|(id, tracked)| self.warning(now, id, tracked));
        warned.filter(|warning| warning.age > Age::Young).collect()
    }

    /// How long ago the oldest open or prepared transaction was begun; 0 if there is none.
    #[must_use]
    pub fn oldest(&self, now: Moment) -> Duration {
        self.tracked.values().map(|tracked| now.since(tracked.begun)).max().unwrap_or_default()
    }

    /// Those that have come to their next age since this was asked last; each age is told once.
    pub fn due(&mut self, now: Moment) -> Vec<DeadlineWarning> {
        let all = self.warnings(now);
        let fresh = |warning: &DeadlineWarning| {
            let tracked = self.tracked.get_mut(&warning.transactional_id);
            tracked.is_some_and(|tracked| std::mem::replace(&mut tracked.told, warning.age) < warning.age)
        };
        all.into_iter().filter(fresh).collect()
    }

    fn warning(&self, now: Moment, id: &TransactionalId, tracked: &Tracked) -> DeadlineWarning {
        let begun_ago = now.since(tracked.begun);
        DeadlineWarning {
            transactional_id: id.clone(),
            stage: tracked.stage,
            age: Age::of(begun_ago, self.timeout),
            begun_ago,
            timeout: self.timeout,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(seconds: u32) -> Moment {
        Moment::default().after(SECOND * seconds)
    }

    fn id(name: &str) -> TransactionalId {
        TransactionalId::new(name)
    }

    #[test]
    fn half_and_four_fifths_are_told_once_each_open_or_prepared() {
        let mut all = Deadlines::new(SECOND * 10);
        all.begun(at(0), id("a"));
        all.begun(at(3), id("b"));
        let ages = |warned: Vec<DeadlineWarning>| -> Vec<_> {
            warned.into_iter().map(|w| (w.transactional_id.as_str().to_owned(), w.stage, w.age)).collect()
        };
        assert_eq!(ages(all.due(at(4))), []);
        assert_eq!(ages(all.due(at(5))), [("a".to_owned(), Stage::Open, Age::Half)]);
        assert_eq!(ages(all.due(at(6))), [], "it was told");
        assert_eq!(all.warnings(at(6)).len(), 1, "and is still so");
        all.prepared(&id("a"));
        let both = [("a".to_owned(), Stage::Prepared, Age::Old), ("b".to_owned(), Stage::Open, Age::Half)];
        assert_eq!(ages(all.due(at(8))), both);
        assert_eq!(all.oldest(at(8)), SECOND * 8);
        all.ended(&id("a"));
        assert_eq!(
            ages(all.due(at(13))),
            [("b".to_owned(), Stage::Open, Age::Over)],
            "one age may be missed"
        );
        all.ended(&id("b"));
        assert_eq!(all.oldest(at(14)), Duration::ZERO);
    }

    #[test]
    fn what_its_coordinator_aborts_is_not_prepared() {
        let mut all = Deadlines::new(SECOND * 10);
        all.begun(at(1), id("a"));
        assert_eq!(all.may_prepare(at(10), &id("a")), Ok(()));
        let error = all.may_prepare(at(11), &id("a")).unwrap_err();
        assert_eq!(error.begun_ago, SECOND * 10);
        assert!(error.to_string().contains("transaction.timeout.ms is 10000"));
        assert_eq!(all.may_prepare(at(11), &id("b")), Ok(()));
    }

    #[test]
    fn a_warning_says_what_is_waited_for() {
        let mut all = Deadlines::new(SECOND * 10);
        all.begun(at(0), id("job-0-1"));
        all.prepared(&id("job-0-1"));
        let told = all.warnings(at(8))[0].to_string();
        assert!(told.contains("prepared transaction job-0-1") && told.contains("80 %"), "{told}");
        assert!(told.contains("10000") && told.contains("commit"), "{told}");
        assert!(told.contains("txn commit --state DIR"), "{told}");
    }
}
