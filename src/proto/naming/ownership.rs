//! Which subtask answers for which ids.

use std::collections::BTreeSet;

use super::NamingError;

/// Which subtasks' ids a writer answers for (Flink's `TransactionOwnership.EXPLICIT_BY_WRITER_STATE`). It is part of
/// the writer's state, so that after a change of the parallelism every id has exactly one owner.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Ownership {
    /// The subtask under which new ids are made; always one of `owned`.
    first: u32,
    owned: BTreeSet<u32>,
    total: u32,
}

impl Ownership {
    /// Subtask `subtask` of `total`, at the first start.
    ///
    /// # Errors
    /// [`NamingError::NoSuchSubtask`].
    pub fn new(subtask: u32, total: u32) -> Result<Self, NamingError> {
        if subtask < total {
            Ok(Self { first: subtask, owned: BTreeSet::from([subtask]), total })
        } else {
            Err(NamingError::NoSuchSubtask { subtask, total })
        }
    }

    /// Ownership from its kept parts.
    ///
    /// # Errors
    /// [`NamingError::NoSuchSubtask`] when nothing is owned, or a subtask beyond the total.
    pub fn from_parts(owned: impl IntoIterator<Item = u32>, total: u32) -> Result<Self, NamingError> {
        let owned: BTreeSet<u32> = owned.into_iter().collect();
        let beyond = owned.last().filter(|last| **last >= total).copied();
        match (owned.first().copied(), beyond) {
            (Some(first), None) => Ok(Self { first, owned, total }),
            (_, beyond) => Err(NamingError::NoSuchSubtask { subtask: beyond.unwrap_or(0), total }),
        }
    }

    /// What each of `parallelism` subtasks owns after a restart, in their order, from what the writers of the run
    /// before owned; none at all for a first start. What was owned is dealt out in its order, round by round, beginning
    /// with subtask 0; so a subtask that gets nothing has a number that nobody had before, and owns itself.
    ///
    /// # Errors
    /// [`NamingError::NotUniform`], [`NamingError::Gap`] and [`NamingError::OwnedTwice`] when these are not all the
    /// states of one run, [`NamingError::NoSuchSubtask`] for a parallelism of 0.
    pub fn deal(states: &[Self], parallelism: u32) -> Result<Vec<Self>, NamingError> {
        if parallelism == 0 {
            return Err(NamingError::NoSuchSubtask { subtask: 0, total: 0 });
        }
        let former = states.first().map_or(0, |state| state.total);
        if let Some(other) = states.iter().find(|s| s.total != former) {
            return Err(NamingError::NotUniform { first: former, second: other.total });
        }
        let mut owned = BTreeSet::new();
        if let Some(subtask) = states.iter().flat_map(Self::owned).find(|s| !owned.insert(*s)) {
            return Err(NamingError::OwnedTwice { subtask });
        }
        if let Some(subtask) = (0..former).find(|subtask| !owned.contains(subtask)) {
            return Err(NamingError::Gap { subtask, total: former });
        }
        let total = former.max(parallelism);
        // All of 0..former is owned, so the rounds are the remainders.
        let of = |subtask: u32| (0..total).filter(move |s| s % parallelism == subtask);
        (0..parallelism).map(|subtask| Self::from_parts(of(subtask), total)).collect()
    }

    /// True when the ids of `subtask` are this writer's to end.
    #[must_use]
    pub fn owns(&self, subtask: u32) -> bool {
        self.owned.contains(&(subtask % self.total))
    }

    /// The subtask under which new ids are made.
    #[must_use]
    pub fn subtask(&self) -> u32 {
        self.first
    }

    /// The subtasks that are owned, in order.
    pub fn owned(&self) -> impl Iterator<Item = u32> + '_ {
        self.owned.iter().copied()
    }

    /// The largest number of subtasks there ever were.
    #[must_use]
    pub fn total(&self) -> u32 {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parts(owned: &[u32], total: u32) -> Ownership {
        Ownership::from_parts(owned.iter().copied(), total).unwrap()
    }

    #[test]
    fn states_that_are_not_all_of_one_run_are_refused() {
        let deal = |states: &[Ownership]| Ownership::deal(states, 2).unwrap_err();
        let error = deal(&[parts(&[0], 2), parts(&[1], 3)]);
        assert_eq!(error, NamingError::NotUniform { first: 2, second: 3 });
        assert_eq!(deal(&[parts(&[0], 3), parts(&[2], 3)]), NamingError::Gap { subtask: 1, total: 3 });
        let error = deal(&[parts(&[0, 1], 2), parts(&[1], 2)]);
        assert_eq!(error, NamingError::OwnedTwice { subtask: 1 });
        assert_eq!(Ownership::deal(&[], 0), Err(NamingError::NoSuchSubtask { subtask: 0, total: 0 }));
        assert!(Ownership::new(2, 2).is_err());
    }

    #[test]
    fn what_was_owned_by_many_comes_to_few_and_goes_back() {
        let four = Ownership::deal(&[], 4).unwrap();
        let three = Ownership::deal(&four, 3).unwrap();
        assert_eq!(three, [parts(&[0, 3], 4), parts(&[1], 4), parts(&[2], 4)]);
        assert_eq!(Ownership::deal(&three, 4).unwrap(), four);
        let six = Ownership::deal(&three, 6).unwrap();
        assert_eq!(six[4], Ownership::new(4, 6).unwrap());
    }

    proptest! {
        /// However often the job is rescaled: every id that was ever made has exactly one owner, and so has one that a
        /// run made which left no checkpoint.
        #[test]
        fn every_id_has_one_owner(sizes in proptest::collection::vec(1..9u32, 1..8), stranger in 0..40u32) {
            let mut made: BTreeSet<u32> = BTreeSet::from([stranger]);
            let mut states: Vec<Ownership> = Vec::new();
            for parallelism in sizes {
                states = Ownership::deal(&states, parallelism).unwrap();
                prop_assert_eq!(states.len(), parallelism as usize);
                let new: BTreeSet<u32> = states.iter().map(Ownership::subtask).collect();
                prop_assert_eq!(new.len(), states.len(), "two subtasks would make the same ids");
                made.extend(new);
                for subtask in &made {
                    prop_assert_eq!(states.iter().filter(|s| s.owns(*subtask)).count(), 1);
                }
            }
        }
    }
}
