//! State by key: every key belongs to one of 128 key groups, and every subtask owns a range of groups. So state can be
//! handed to another number of subtasks.
//!
//! A snapshot shares the groups with the living state; a group is copied when it is written to while a snapshot still
//! holds it. So the barrier waits for no copy, however large the state is.

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use bytes::Bytes;

use crate::proto::sealed::{Fields, Seal, StateError};

/// How many key groups there are, and the most subtasks that keyed state can be spread over (Flink's
/// `pipeline.max-parallelism`).
pub const KEY_GROUPS: u32 = 128;

const SEAL: Seal = Seal { what: "keyed state", magic: *b"K2PS", newest: 1 };

/// The group of a key.
pub(super) fn group_of(key: &[u8]) -> u32 {
    crc32c::crc32c(key) % KEY_GROUPS
}

/// The subtask of `total` that owns a group.
pub(super) fn owner_of(group: u32, total: u32) -> u32 {
    group * total / KEY_GROUPS
}

/// The groups that a subtask owns.
pub(super) fn groups_of(subtask: u32, total: u32) -> Range<u32> {
    let first = |subtask: u32| (subtask * KEY_GROUPS).div_ceil(total);
    first(subtask)..first(subtask + 1)
}

type Group = BTreeMap<Bytes, Bytes>;

/// The living state of a subtask.
#[derive(Debug, Default)]
pub(super) struct KeyedState {
    groups: BTreeMap<u32, Arc<Group>>,
}

/// The state as it was at a barrier.
#[derive(Debug, Clone)]
pub(super) struct KeyedSnapshot {
    groups: BTreeMap<u32, Arc<Group>>,
}

impl KeyedState {
    pub(super) fn value(&self, key: &[u8]) -> Option<&Bytes> {
        self.groups.get(&group_of(key))?.get(key)
    }

    pub(super) fn set(&mut self, key: &Bytes, value: Bytes) {
        let group = self.groups.entry(group_of(key)).or_default();
        Arc::make_mut(group).insert(key.clone(), value);
    }

    pub(super) fn clear(&mut self, key: &[u8]) {
        let group = self.groups.get_mut(&group_of(key)).filter(|group| group.contains_key(key));
        if let Some(group) = group {
            Arc::make_mut(group).remove(key);
        }
    }

    /// Every key and value, in the order of groups and keys.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&Bytes, &Bytes)> {
        self.groups.values().flat_map(|group| group.iter())
    }

    pub(super) fn snapshot(&self) -> KeyedSnapshot {
        KeyedSnapshot { groups: self.groups.clone() }
    }

    /// Adds the groups of `range` that a snapshot holds.
    pub(super) fn restore(&mut self, range: &Range<u32>, bytes: &[u8]) -> Result<(), StateError> {
        let mut fields = SEAL.open(bytes)?;
        let groups = fields.list(|fields| {
            let number = u32::from(fields.u16()?);
            let entries = fields.list(|fields| {
                let (key, value) = (fields.bytes()?, fields.bytes()?);
                Ok((Bytes::copy_from_slice(key), Bytes::copy_from_slice(value)))
            })?;
            Ok((number, entries))
        })?;
        for (number, entries) in fields.finish(groups)? {
            if range.contains(&number) {
                let group = self.groups.entry(number).or_default();
                Arc::make_mut(group).extend(entries);
            }
        }
        Ok(())
    }
}

impl KeyedSnapshot {
    /// Its bytes; none if there is no key.
    pub(super) fn to_bytes(&self) -> Bytes {
        let groups: Vec<_> = self.groups.iter().filter(|(_, group)| !group.is_empty()).collect();
        if groups.is_empty() {
            return Bytes::new();
        }
        let fields = Fields::default().list(&groups, |fields, (number, group)| {
            let number = u16::try_from(**number).unwrap_or(u16::MAX);
            let fields = fields.raw(&number.to_be_bytes()).count(group.len());
            group.iter().fold(fields, |fields, (key, value)| fields.bytes(key).bytes(value))
        });
        SEAL.seal(fields).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(keys: u32) -> KeyedState {
        let mut state = KeyedState::default();
        for i in 0..keys {
            state.set(&Bytes::from(format!("key {i}")), Bytes::from(i.to_string()));
        }
        state
    }

    #[test]
    fn every_group_has_one_owner_whatever_the_parallelism() {
        for total in 1..=KEY_GROUPS {
            let mut owners = Vec::new();
            for subtask in 0..total {
                owners.extend(groups_of(subtask, total).map(|group| (group, subtask)));
            }
            let expected: Vec<_> = (0..KEY_GROUPS).map(|group| (group, owner_of(group, total))).collect();
            assert_eq!(owners, expected, "{total}");
        }
    }

    #[test]
    fn a_snapshot_does_not_see_later_writes() {
        let mut state = filled(1000);
        let snapshot = state.snapshot();
        let before = snapshot.to_bytes();
        for i in 0..1000 {
            state.set(&Bytes::from(format!("key {i}")), Bytes::from_static(b"later"));
        }
        state.clear(b"key 7");
        assert_eq!(snapshot.to_bytes(), before);
        assert_ne!(state.snapshot().to_bytes(), before);
    }

    #[test]
    fn state_is_handed_to_any_number_of_subtasks_and_back() {
        let whole = filled(1000);
        let expected: BTreeMap<_, _> = whole.entries().collect();
        for total in [1, 2, 3, 7, 128] {
            let bytes = whole.snapshot().to_bytes();
            let mut found = BTreeMap::new();
            let shares: Vec<_> = (0..total)
                .map(|subtask| {
                    let mut share = KeyedState::default();
                    share.restore(&groups_of(subtask, total), &bytes).unwrap();
                    share
                })
                .collect();
            let mut count = 0;
            for share in &shares {
                count += share.entries().count();
                found.extend(share.entries());
            }
            assert_eq!((count, &found), (1000, &expected), "{total}");
        }
    }

    #[test]
    fn damage_is_refused() {
        let bytes = filled(10).snapshot().to_bytes();
        for length in 0..bytes.len() {
            let cut = KeyedState::default().restore(&(0..KEY_GROUPS), &bytes[..length]);
            assert!(cut.is_err(), "{length}");
        }
    }
}
