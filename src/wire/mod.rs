//! Bytes to messages and back. Pure: no socket, clock, task or randomness; knows nothing of retries.
#![warn(
    clippy::wildcard_enum_match_arm,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss
)]

pub mod api;
pub mod batch;
pub mod code;
pub(crate) mod cursor;
pub mod fetch;
pub mod frame;
pub mod guard;
pub mod produce;
mod varint;
pub mod versions;
