//! What some releases do and others do not, each by its name.

use std::fmt;

/// A way in which a broker differs from the newest Kafka's rules. Profiles have those of the release that they imitate;
/// [`Profile::with`](super::Profile::with) and [`Profile::without`](super::Profile::without) change that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Quirk {
    /// KAFKA-20734 (Kafka 4.3 and 4.4): a partition without leader is taken for deleted, its marker is never written, and
    /// the transaction hangs on the partition although its coordinator says `Complete`. Without it the transaction stays
    /// `Prepare` until the partition has a leader again.
    LeaderlessMarkerSkipped,
    /// KAFKA-19367 (Kafka 4.0.0): a fence of an open transaction V2 raises the epoch by two at once, so that its abort has
    /// epoch e+2, and the new owner e+3.
    FenceRaisesTwice,
    /// Before KAFKA-19690: a transactional batch of a fenced epoch is answered INVALID_TXN_STATE, and not
    /// INVALID_PRODUCER_EPOCH. Real brokers do that where the fence comes between verification and append; here it is
    /// so always.
    FencedBatchIsInvalidState,
    /// Before KAFKA-19999: a V2 marker that the partition has already is refused, where it should be taken for a repeated
    /// one. After a failover between markers the transaction stays `Prepare` for ever.
    RepeatedMarkerRefused,
    /// After KAFKA-20785: a V2 commit of a transaction that its coordinator aborted is answered PRODUCER_FENCED, and not
    /// INVALID_TXN_STATE.
    AbortedIsFenced,
    /// The first EndTxn of each transaction is carried out and answered UNKNOWN_SERVER_ERROR, as Kafka does where the
    /// append of the decision failed in an unforeseen way.
    EndTxnUnknownServerError,
    /// Lists of aborted transactions have no order. Kafka promises none.
    AbortedListUnsorted,
    /// Lists of aborted transactions go to read_uncommitted readers, too, who must not act on them.
    AbortedListForUncommitted,
    /// Kafka before 4.0: AddPartitionsToTxn looks at producer id and epoch before it looks whether a transition is under
    /// way.
    PairBeforePending,
    /// Kafka 3 (4.4 does not): a Fetch before version 10 of a topic whose own `compression.type` is zstd is answered
    /// UNSUPPORTED_COMPRESSION_TYPE. Batches in zstd by their producer's choice are handed out in any version.
    ZstdTopicRefused,
}

impl Quirk {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::LeaderlessMarkerSkipped,
        Self::FenceRaisesTwice,
        Self::FencedBatchIsInvalidState,
        Self::RepeatedMarkerRefused,
        Self::AbortedIsFenced,
        Self::EndTxnUnknownServerError,
        Self::AbortedListUnsorted,
        Self::AbortedListForUncommitted,
        Self::PairBeforePending,
        Self::ZstdTopicRefused,
    ];

    /// Its name on command lines: that of the issue, if there is one.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::LeaderlessMarkerSkipped => "KAFKA-20734",
            Self::FenceRaisesTwice => "KAFKA-19367",
            Self::FencedBatchIsInvalidState => "before-KAFKA-19690",
            Self::RepeatedMarkerRefused => "before-KAFKA-19999",
            Self::AbortedIsFenced => "after-KAFKA-20785",
            Self::EndTxnUnknownServerError => "end-txn-unknown-server-error",
            Self::AbortedListUnsorted => "aborted-list-unsorted",
            Self::AbortedListForUncommitted => "aborted-list-for-uncommitted",
            Self::PairBeforePending => "pair-before-pending",
            Self::ZstdTopicRefused => "zstd-topic-refused",
        }
    }

    /// The quirk of that name, if there is one.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|quirk| quirk.name() == name)
    }
}

impl fmt::Display for Quirk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
