//! Every decision, as state machines. Pure: no socket, task, clock or randomness; no message structs.
#![warn(
    clippy::wildcard_enum_match_arm,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss
)]

pub mod backoff;
mod call;
pub mod cause;
pub mod checkpoint;
pub mod cluster;
pub mod committable;
pub mod connection;
pub mod deadline;
pub mod evidence;
pub mod health;
pub mod idempotent;
pub mod initialize;
mod leaders;
pub mod naming;
pub mod numbers;
pub mod offsets;
pub mod outbox;
pub mod pool;
pub mod read_committed;
pub mod recovery;
pub mod repair;
pub mod resume;
pub mod sealed;
pub mod settle;
pub mod topics;
pub mod transaction;
pub mod truncation;
pub mod verdict;
