//! What an error code means, told once: (request, version, code) to a consequence.
//!
//! The machines never see a code, they see these consequences. Every function matches [`ErrorCode`] exhaustively
//! and without a wildcard, so that a code which Kafka adds does not compile before it has a consequence here. Codes
//! that a request is never answered with, and numbers without a name, get the consequence that is safe for that
//! request: for everything that decides a transaction this is "not known".
//!
//! ```text
//! transaction.rs   FindCoordinator, InitProducerId, AddPartitionsToTxn, EndTxn (live and resumed)
//! offsets.rs       AddOffsetsToTxn, TxnOffsetCommit, OffsetFetch
//! produce.rs       Produce
//! data.rs          Fetch, ListOffsets, Metadata, CreateTopics
//! inspect.rs       DescribeTransactions, ListTransactions, DescribeProducers, WriteTxnMarkers
//! ```

#[macro_use]
mod groups;

mod data;
mod inspect;
mod offsets;
mod produce;
mod transaction;

#[cfg(test)]
mod tests;

pub use data::{
    CreateTopicVerdict, FetchVerdict, ListOffsetsVerdict, MetadataVerdict, create_topic, fetch, list_offsets,
    metadata,
};
pub use inspect::{
    DescribeProducersVerdict, DescribeTransactionsVerdict, ListTransactionsVerdict, WriteMarkerVerdict,
    describe_producers, describe_transactions, list_transactions, write_marker,
};
pub use offsets::{
    AddOffsetsVerdict, OffsetFetchVerdict, TxnOffsetCommitVerdict, add_offsets, offset_fetch,
    txn_offset_commit,
};
pub use produce::{IdempotentVerdict, ProduceVerdict, produce, produce_idempotent};
pub use transaction::{
    AddPartitionVerdict, EndTxnVerdict, FindCoordinatorVerdict, InitProducerIdVerdict, ResumeVerdict,
    add_partition, end_txn, end_txn_on_resume, find_coordinator, init_producer_id, no_coordinator,
};

use crate::wire::code::ErrorCode;

/// Whether a broker that was asked as the leader of a partition says by this code that it is none, as far as it knows.
#[must_use]
pub fn denies_leadership(code: ErrorCode) -> bool {
    list_offsets(0, code) == ListOffsetsVerdict::RetryAfterMetadata
}
