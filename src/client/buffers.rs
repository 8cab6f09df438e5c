//! Memory of batches that were stored, for the next ones.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::wire::batch::BatchBuilder;

/// What is kept at most, in bytes.
const KEPT_BYTES: usize = 8 << 20;

/// A new buffer begins small: most transactions write little to most partitions.
const FIRST_BYTES: usize = 16 << 10;

/// Buffers that nobody uses.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    spare: Mutex<Spare>,
}

#[derive(Debug, Default)]
struct Spare {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
}

impl Buffers {
    /// A buffer for a batch of at most so many bytes, which may grow.
    pub(crate) fn take(&self, most: usize) -> Vec<u8> {
        let mut spare = self.spare();
        let Some(buffer) = spare.buffers.pop() else {
            return Vec::with_capacity(first(most.saturating_add(BatchBuilder::ROOM)));
        };
        spare.bytes -= buffer.capacity();
        buffer
    }

    /// Takes back what is no longer needed.
    pub(crate) fn give(&self, buffer: Vec<u8>) {
        let mut spare = self.spare();
        if spare.bytes + buffer.capacity() <= KEPT_BYTES {
            spare.bytes += buffer.capacity();
            spare.buffers.push(buffer);
        }
    }

    fn spare(&self) -> MutexGuard<'_, Spare> {
        // It is valid after every statement.
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The size from which doubling, which is how a buffer grows, leads to `most` and hardly beyond.
fn first(most: usize) -> usize {
    let mut bytes = most;
    while bytes > FIRST_BYTES {
        bytes = bytes.div_ceil(2);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_back_is_used_again_and_never_too_much_is_kept() {
        let buffers = Buffers::default();
        assert_eq!(buffers.take(100).capacity(), 100 + BatchBuilder::ROOM);
        let mut grown = buffers.take(1 << 20);
        assert!(grown.capacity() <= FIRST_BYTES);
        assert!(
            buffers.take(usize::MAX).capacity() <= FIRST_BYTES,
            "a batch without a bound begins as small"
        );
        while grown.len() < (1 << 20) + BatchBuilder::ROOM {
            grown.push(0);
        }
        assert!(grown.capacity() < (1 << 20) + (1 << 12), "{}", grown.capacity());
        buffers.give(Vec::with_capacity(4000));
        assert_eq!(buffers.take(100).capacity(), 4000);
        for _ in 0..20 {
            buffers.give(Vec::with_capacity(1 << 20));
        }
        let kept = std::iter::from_fn(|| Some(buffers.take(1)).filter(|buffer| buffer.capacity() >= 1 << 20));
        assert_eq!(kept.count(), KEPT_BYTES >> 20);
        assert_eq!(buffers.spare().bytes, 0);
    }
}
