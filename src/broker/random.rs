//! Random names, from the standard library's per-process hash seeds.

use std::hash::{BuildHasher, RandomState};

use crate::ids::TopicId;

/// Sixteen bytes that differ from call to call.
pub(crate) fn random_bytes() -> [u8; 16] {
    let (high, low) = (RandomState::new().hash_one(1), RandomState::new().hash_one(2));
    ((u128::from(high) << 64) | u128::from(low)).to_be_bytes()
}

/// A topic id: a random UUID of version 4.
pub(crate) fn random_topic_id() -> TopicId {
    let mut bytes = random_bytes();
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    TopicId(bytes)
}
