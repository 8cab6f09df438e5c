//! The program as a process, against the embedded broker.
#![cfg(feature = "cli")]

mod cat;
mod cure;
mod pipe;
mod program;
#[path = "../raw/mod.rs"]
mod raw;
mod txn;
