//! How much is fetched before it is asked for.
//!
//! Each leader has an equal share of the budget. What is held of it and what is under way from it fit into that share
//! together, but for one batch that is larger: without it reading would not go on.

/// What is held of one leader's partitions, or of one partition.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Held {
    bytes: usize,
    /// Partitions that have what follows, too.
    full: usize,
}

impl Held {
    pub(super) fn one(bytes: usize) -> Self {
        Self { bytes, full: 0 }
    }

    pub(super) fn two(reading: usize, next: usize) -> Self {
        Self { bytes: reading.saturating_add(next), full: 1 }
    }

    pub(super) fn bytes(self) -> usize {
        self.bytes
    }

    pub(super) fn and(self, other: Self) -> Self {
        Self { bytes: self.bytes.saturating_add(other.bytes), full: self.full + other.full }
    }

    /// How many bytes may be asked for now of a leader with this share; nothing if it is to wait.
    ///
    /// Small remainders are not asked for: requests would become many and small. And as long as a partition has all that
    /// it may have, the leader is not asked for the others alone: where these are at their end, it would wait for their
    /// records, and the one would soon wait for that.
    pub(super) fn allows(self, share: usize) -> Option<usize> {
        match share.saturating_sub(self.bytes) {
            _ if self.bytes == 0 => Some(share.max(1)),
            free if self.full == 0 && free >= share.div_ceil(2) => Some(free),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_and_asked_for_fits_into_the_share() {
        assert_eq!(Held::default().allows(1000), Some(1000));
        assert_eq!(Held::one(300).allows(1000), Some(700));
        assert_eq!(Held::one(500).allows(1000), Some(500));
        assert_eq!(Held::one(501).allows(1000), None, "too little is left");
        assert_eq!(Held::one(2000).allows(1000), None, "a batch that is larger than all");
        assert_eq!(Held::default().allows(0), Some(1), "reading goes on whatever the budget");
        assert_eq!(Held::one(1).allows(1), None);
    }

    #[test]
    fn a_leader_is_not_asked_for_some_while_another_partition_of_it_has_enough() {
        assert_eq!(Held::two(10, 10).allows(1000), None);
        assert_eq!(Held::one(10).and(Held::two(10, 10)).allows(1000), None);
        assert_eq!(Held::one(10).and(Held::one(20)).allows(1000), Some(970));
    }
}
