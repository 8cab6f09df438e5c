//! What is kept of a partition.

use crate::{
    ids::{TopicId, TopicPartition},
    proto::{
        offsets::OffsetAndMetadata,
        sealed::{Fields, Seal},
    },
    source::{SourceError, SplitState},
};

const SEAL: Seal = Seal { what: "position in a Kafka partition", magic: *b"K2PO", newest: 1 };

/// A partition, and where reading stands in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KafkaSplit {
    pub(super) place: TopicPartition,
    /// Unknown on brokers before 2.8.
    pub(super) topic_id: TopicId,
    /// The offset behind everything that was handed out or passed over.
    pub(super) next: i64,
    /// The leader epoch of the batch before it, if that was read.
    pub(super) leader_epoch: Option<i32>,
    /// Where a bounded reader stops.
    pub(super) end: Option<i64>,
}

/// How far a partition was read: what TxnOffsetCommit wants to know.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceOffset {
    /// The partition.
    pub partition: TopicPartition,
    /// The offset behind everything that was read.
    pub offset: i64,
    /// The leader epoch of what stands before it, where known (KIP-320).
    pub leader_epoch: Option<i32>,
}

impl From<SourceOffset> for (TopicPartition, OffsetAndMetadata) {
    fn from(at: SourceOffset) -> Self {
        (
            at.partition,
            OffsetAndMetadata { leader_epoch: at.leader_epoch, ..OffsetAndMetadata::new(at.offset) },
        )
    }
}

impl KafkaSplit {
    /// A start beyond the end is no end: whether it is in the log at all shows when it is read.
    pub(super) fn is_finished(&self) -> bool {
        self.end == Some(self.next)
    }

    pub(super) fn write(&self) -> SplitState {
        let fields = Fields::default()
            .text(&self.place.topic)
            .i32(self.place.partition)
            .raw(&self.topic_id.0)
            .i64(self.next)
            .option(self.leader_epoch, Fields::i32)
            .option(self.end, Fields::i64);
        SplitState::new(name(&self.place), SEAL.seal(fields))
    }

    pub(super) fn read(state: &SplitState) -> Result<Self, SourceError> {
        let read = || {
            let mut fields = SEAL.open(&state.state)?;
            let split = Self {
                place: TopicPartition { topic: fields.text()?, partition: fields.i32()? },
                topic_id: fields.topic_id()?,
                next: fields.i64()?,
                leader_epoch: fields.option(|fields| fields.i32())?,
                end: fields.option(|fields| fields.i64())?,
            };
            if split.next < 0 || split.place.partition < 0 {
                return fields.damaged("an offset or a partition is negative");
            }
            if name(&split.place) != *state.split {
                return fields.damaged("it belongs to another split");
            }
            fields.finish(split)
        };
        read().map_err(SourceError::state(&state.split))
    }

    pub(super) fn offset(self) -> SourceOffset {
        SourceOffset { partition: self.place, offset: self.next, leader_epoch: self.leader_epoch }
    }
}

/// The split's name.
pub(super) fn name(place: &TopicPartition) -> String {
    format!("{}-{}", place.topic, place.partition)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;
    use crate::proto::sealed::StateError;

    fn split() -> KafkaSplit {
        KafkaSplit {
            place: TopicPartition::new("flights", 3),
            topic_id: TopicId([7; 16]),
            next: 42,
            leader_epoch: Some(1),
            end: None,
        }
    }

    proptest! {
        #[test]
        fn a_split_comes_back(
            partition in 0..i32::MAX,
            id: [u8; 16],
            next in 0..i64::MAX,
            leader_epoch: Option<i32>,
            end: Option<i64>,
        ) {
            let place = TopicPartition { partition, ..split().place };
            let split = KafkaSplit { place, topic_id: TopicId(id), next, leader_epoch, end };
            prop_assert_eq!(KafkaSplit::read(&split.write()).unwrap(), split);
        }

        #[test]
        fn damage_and_tears_are_seen(at: prop::sample::Index, flip in 1..=255u8) {
            let state = split().write();
            let at = at.index(state.state.len());
            let torn = SplitState { state: state.state.slice(..at), ..state.clone() };
            prop_assert!(KafkaSplit::read(&torn).is_err());
            let mut bytes = state.state.to_vec();
            bytes[at] ^= flip;
            let damaged = SplitState { state: Bytes::from(bytes), ..state };
            prop_assert!(KafkaSplit::read(&damaged).is_err());
        }
    }

    #[test]
    fn a_state_under_another_name_or_with_a_negative_offset_is_damage() {
        let renamed = SplitState { split: "flights-4".into(), ..split().write() };
        let negative = KafkaSplit { next: -1, ..split() }.write();
        for state in [renamed, negative] {
            let error = KafkaSplit::read(&state).unwrap_err();
            assert!(
                matches!(&error, SourceError::State { error: StateError::Damaged { .. }, .. }),
                "{error}"
            );
        }
    }
}
