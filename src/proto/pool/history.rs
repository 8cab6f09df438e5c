//! What ids were used for last, as far as a checkpoint knows.
//!
//! A sink commits only what a complete checkpoint lists. So a transaction under one of its ids that is committed, and
//! that the newest checkpoint neither lists nor remembers, cannot exist: not after a crash at any moment. Where it does
//! exist, the checkpoint is not the newest one, and what it replays would be written twice.

use std::collections::BTreeMap;

use crate::{
    ids::{Identity, TransactionalId},
    proto::{
        committable::Committable,
        naming::{IdParts, IdPrefix},
        resume::TransactionView,
        sealed::{Fields, Reader, StateError},
    },
};

/// The last transaction of an id that was prepared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastUse {
    /// Its producer id and epoch.
    pub identity: Identity,
    /// The EndTxn version that was fixed for it.
    pub end_txn_version: Option<i16>,
    /// When its coordinator began it.
    pub start_ms: Option<i64>,
}

/// The last epoch of a producer id; the commit that would raise it gives the id another producer id (KIP-890).
const LAST_EPOCH: i16 = i16::MAX - 1;

impl LastUse {
    /// The use of this transaction.
    #[must_use]
    pub fn of(committable: &Committable) -> Self {
        let Committable { identity, end_txn_version, start_ms, .. } = committable;
        Self { identity: *identity, end_txn_version: *end_txn_version, start_ms: *start_ms }
    }

    /// True when what its coordinator shows as committed is this transaction. In doubt it is.
    #[must_use]
    pub fn is(&self, view: &TransactionView) -> bool {
        if self.start_ms.is_some_and(|start| start == view.start_ms) {
            return true;
        }
        let (own, shown) = (self.identity, view.identity);
        let ahead = i32::from(shown.epoch.0) - i32::from(own.epoch.0);
        // A commit of version 5 raises the epoch, an older one leaves it.
        let raised = i32::from(self.end_txn_version.is_none_or(|version| version >= 5));
        let same = own.producer_id == shown.producer_id && (0..=raised).contains(&ahead);
        let rotated = own.epoch.0 >= LAST_EPOCH && shown.epoch.0 == 0 && own.producer_id != shown.producer_id;
        same || rotated
    }
}

/// What the ids of a sink were used for last.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct History {
    /// Ids that are used again and again.
    pooled: BTreeMap<TransactionalId, LastUse>,
    /// The highest number of ids that are used once, by prefix and subtask.
    counted: BTreeMap<(IdPrefix, u32), u64>,
}

impl History {
    /// An id of a pool was used.
    pub fn used(&mut self, id: TransactionalId, last: LastUse) {
        self.pooled.insert(id, last);
    }

    /// The last transactions of all ids that are used again and again.
    pub(super) fn pooled(&self) -> impl Iterator<Item = (&TransactionalId, &LastUse)> {
        self.pooled.iter()
    }

    /// The last transaction of an id that is used again and again.
    #[must_use]
    pub fn last(&self, id: &TransactionalId) -> Option<&LastUse> {
        self.pooled.get(id)
    }

    /// An incrementing id was used, and with it all before it.
    pub fn counted(&mut self, prefix: &IdPrefix, parts: IdParts) {
        let highest = self.counted.entry((prefix.clone(), parts.subtask)).or_default();
        *highest = parts.number.max(*highest);
    }

    /// The highest incrementing number that was used.
    #[must_use]
    pub fn highest(&self, prefix: &IdPrefix, subtask: u32) -> Option<u64> {
        self.counted.get(&(prefix.clone(), subtask)).copied()
    }

    /// True when nothing that is committed under this id needs an explanation.
    #[must_use]
    pub fn is_past(&self, id: &TransactionalId) -> bool {
        let counted = || {
            let (prefix, parts) = IdPrefix::split(id.as_str())?;
            Some(self.highest(&prefix, parts.subtask)? >= parts.number)
        };
        !self.pooled.contains_key(id) && counted().unwrap_or(false)
    }

    /// True when what its coordinator shows as committed under an id was known.
    #[must_use]
    pub fn explains(&self, id: &TransactionalId, view: &TransactionView) -> bool {
        self.is_past(id) || self.pooled.get(id).is_some_and(|last| last.is(view))
    }

    /// Its parts by owner, where `owner` tells the number of each.
    pub(super) fn deal(&self, owners: usize, owner: impl Fn(&TransactionalId) -> usize) -> Vec<Self> {
        let mut parts = vec![Self::default(); owners];
        for (id, last) in &self.pooled {
            parts[owner(id)].used(id.clone(), *last);
        }
        for ((prefix, subtask), number) in &self.counted {
            let of = IdParts { subtask: *subtask, number: *number };
            parts[owner(&prefix.id(of))].counted(prefix, of);
        }
        parts
    }

    /// Takes over what another one knows.
    pub(super) fn absorb(&mut self, other: Self) {
        self.pooled.extend(other.pooled);
        for ((prefix, subtask), number) in other.counted {
            self.counted(&prefix, IdParts { subtask, number });
        }
    }

    pub(super) fn write(&self, fields: Fields) -> Fields {
        let pooled: Vec<_> = self.pooled.iter().collect();
        let counted: Vec<_> = self.counted.iter().collect();
        let fields = fields.list(&pooled, |fields, (id, last)| {
            let fields = fields.text(id.as_str()).identity(last.identity);
            fields.option(last.end_txn_version, Fields::i16).option(last.start_ms, Fields::i64)
        });
        fields.list(&counted, |fields, ((prefix, subtask), number)| {
            fields.text(prefix.as_str()).u64(u64::from(*subtask)).u64(**number)
        })
    }

    pub(super) fn read(fields: &mut Reader<'_>) -> Result<Self, StateError> {
        let pooled = fields.list(|fields| {
            let id = TransactionalId::new(fields.text()?);
            let last = LastUse {
                identity: fields.identity()?,
                end_txn_version: fields.option(Reader::i16)?,
                start_ms: fields.option(Reader::i64)?,
            };
            Ok((id, last))
        })?;
        let counted = fields.list(|fields| {
            let key = (super::state::read_prefix(fields)?, super::state::read_subtask(fields)?);
            Ok((key, fields.u64()?))
        })?;
        Ok(Self { pooled: pooled.into_iter().collect(), counted: counted.into_iter().collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::resume::CoordinatorState;

    fn last(epoch: i16, version: i16, start_ms: Option<i64>) -> LastUse {
        LastUse { identity: Identity::new(7, epoch), end_txn_version: Some(version), start_ms }
    }

    fn shown(producer_id: i64, epoch: i16, start_ms: i64) -> TransactionView {
        TransactionView {
            state: CoordinatorState::CompleteCommit,
            start_ms,
            identity: Identity::new(producer_id, epoch),
            partitions: Vec::new(),
        }
    }

    #[test]
    fn a_commit_is_known_by_its_start_or_by_the_pair_that_it_left() {
        let v2 = last(3, 5, Some(10));
        assert!(v2.is(&shown(7, 4, 10)));
        assert!(v2.is(&shown(8, 0, 10)), "a rotated pair keeps its start");
        assert!(v2.is(&shown(7, 4, -1)) && v2.is(&shown(7, 3, 9)), "committed by an older version");
        assert!(!v2.is(&shown(7, 5, 11)) && !v2.is(&shown(8, 0, 11)) && !v2.is(&shown(7, 2, 9)));
        let v1 = last(3, 4, None);
        assert!(v1.is(&shown(7, 3, 10)));
        assert!(!v1.is(&shown(7, 4, 10)), "the next transaction of the id");
        let at_the_end = last(LAST_EPOCH, 5, None);
        assert!(at_the_end.is(&shown(9, 0, 4)) && at_the_end.is(&shown(7, i16::MAX, 4)));
    }

    #[test]
    fn ids_that_are_used_once_are_past_up_to_the_highest() {
        let mut history = History::default();
        let prefix = IdPrefix::new("a-b").unwrap();
        history.counted(&prefix, IdParts { subtask: 1, number: 9 });
        history.counted(&prefix, IdParts { subtask: 1, number: 4 });
        for (id, past) in [("a-b-1-9", true), ("a-b-1-10", false), ("a-b-0-1", false), ("a-1-9", false)] {
            assert_eq!(history.is_past(&TransactionalId::new(id)), past, "{id}");
        }
        // A pool that follows uses such an id again: then only its last use explains it.
        let id = TransactionalId::new("a-b-1-0");
        assert!(history.explains(&id, &shown(1, 1, 1)));
        history.used(id.clone(), last(3, 5, None));
        assert!(!history.explains(&id, &shown(1, 1, 1)) && history.explains(&id, &shown(7, 4, 1)));
    }
}
