//! A pure-Rust, async Kafka **transactional client and two-phase-commit sink**.
//!
//! Begin with [`client`] for single transactions that are prepared by one process and committed by another, with
//! [`sink`] for an engine of your own, and with [`checkpoint::runner`] for a job on one machine.
//!
//! The guide: what is [guaranteed](guide::guarantee), what happens at [failures](guide::failures), how to choose
//! [sizes](guide::sizing), [operations](guide::operations), [embedding](guide::embedding) into an engine, coming from
//! [rdkafka](guide::migrating_from_rdkafka), the [program](guide::cli), and, with the feature `broker`, tests of your own job
//! (`guide::testing`).
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "broker")]
pub mod broker;
pub mod checkpoint;
#[cfg(feature = "cli")]
pub mod cli;
pub mod client;
pub mod exchange;
pub mod ids;
pub mod net;
pub mod proto;
pub mod record;
pub mod sink;
pub mod source;
pub mod wire;

/// The guide: the pages of `docs/`.
///
/// Links between the pages are references. Those that stand before a page here come first, and win over the page's own,
/// which lead to files.
#[cfg(any(doc, doctest))]
#[rustfmt::skip]
pub mod guide {
    /// [Failures]: crate::guide::failures
    /// [sizing]: crate::guide::sizing
    /// [operations]: crate::guide::operations
    /// [older states]: crate::guide::cli#older-states
    /// [runner]: crate::guide::embedding#the-local-runner
    /// [Kafka source]: crate::guide::embedding#sources
    #[doc = include_str!("../docs/guarantee.md")]
    pub mod guarantee {}
    /// [for tests]: crate::guide::cli#for-tests
    /// [sizing]: crate::guide::sizing
    /// [older states]: crate::guide::cli#older-states
    /// [leaking transactions]: crate::guide::operations#leaking-transactions
    /// [long checkpoints]: crate::guide::operations#long-checkpoints
    /// [exit 3]: crate::guide::operations#exit-3-records-are-lost
    #[doc = include_str!("../docs/failures.md")]
    pub mod failures {}
    /// [pool exhaustion]: crate::guide::operations#pool-exhaustion
    #[doc = include_str!("../docs/sizing.md")]
    pub mod sizing {}
    /// [`proto::checkpoint::Coordinator`]: crate::proto::checkpoint::Coordinator
    /// [`Source`]: crate::source::Source
    /// [`SourceReader`]: crate::source::SourceReader
    /// [`CheckpointStore`]: crate::checkpoint::CheckpointStore
    #[doc = include_str!("../docs/embedding.md")]
    pub mod embedding {}
    /// [sources]: crate::guide::embedding#sources
    /// [sink]: crate::guide::embedding#driving-the-sink
    /// [sizing]: crate::guide::sizing
    #[doc = include_str!("../docs/migrating-from-rdkafka.md")]
    pub mod migrating_from_rdkafka {}
    /// [failures]: crate::guide::failures
    /// [sizing]: crate::guide::sizing
    /// [txn]: crate::guide::cli#txn
    /// [refused records]: crate::guide::cli#refused-records
    /// [the formula]: crate::guide::sizing#slots
    /// [observer]: crate::guide::embedding#the-local-runner
    #[doc = include_str!("../docs/operations.md")]
    pub mod operations {}
    // Its examples need the broker.
    #[cfg(feature = "broker")]
    #[doc = include_str!("../docs/testing.md")]
    pub mod testing {}
    /// [metrics]: crate::guide::operations#metrics
    #[doc = include_str!("../docs/cli.md")]
    pub mod cli {}
}

// The examples of the readme are compiled with the documentation's.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
