//! The program as a process, against the embedded broker.
#![cfg(feature = "cli")]

mod cat;
mod checkpoints;
mod cure;
mod metrics;
mod mirror;
mod objects;
mod pipe;
mod program;
#[path = "../raw/mod.rs"]
mod raw;
mod sheet;
mod timeline;
mod txn;
