//! Real Apache Kafka in tests: a launcher of KRaft clusters, foreign clients to cross-check with, and the harness that runs the tests.
//!
//! The program under test only runs as a child process, by [`program`]. Nothing else in here uses the library under test: the launcher
//! asks brokers with a few hand-written requests, and what was written is read back by librdkafka, aiokafka and Kafka's own tools. So
//! a mistake of ours can not hide itself.

mod cache;
pub mod foreign;
pub mod harness;
pub mod kafka;
mod process;
pub mod program;
pub mod s3;

/// Compiles the example in the readme.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
