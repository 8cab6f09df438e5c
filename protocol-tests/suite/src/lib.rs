//! What a transactional Kafka client and a two-phase sink must show.
//!
//! `conformance.toml` lists the rows: one named behaviour each, and where it is to be shown. [`rows`] holds one test per
//! row. The same code runs on every [arm](arm::Arm): the embedded broker under several profiles, real Kafka of several
//! versions, any cluster by its address. That is what keeps the embedded broker honest: a row of both worlds also
//! compares what the client saw ([`trace`]).
//!
//! ```text
//! table (conformance.toml) ─┐
//! rows  (one body per id)  ─┴─► run ─► arm: bench { broker or cluster, tap, trace } ─► outcome ─► report
//! ```

pub mod arm;
pub mod bench;
pub mod incidents;
pub mod net;
pub mod outcome;
pub mod raw;
pub mod report;
pub mod rows;
pub mod rules;
pub mod run;
pub mod table;
pub mod tap;
pub mod trace;
pub mod writer;
