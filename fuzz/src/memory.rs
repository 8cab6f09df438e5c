//! An allocator that counts what each thread holds, and the most it held.

#![expect(unsafe_code, reason = "the trait of an allocator is unsafe")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

#[global_allocator]
static COUNTING: Counting = Counting;

struct Counting;

thread_local! {
    static HELD: Cell<i64> = const { Cell::new(0) };
    static PEAK: Cell<i64> = const { Cell::new(0) };
}

/// Runs `work` and returns with its result the most bytes that this thread held on top of what it held before.
///
/// A block that grows counts with its old and its new size while it is copied.
pub fn peak_of<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = HELD.get();
    PEAK.set(before);
    let result = work();
    (result, u64::try_from(PEAK.get() - before).unwrap_or(0))
}

fn count(bytes: usize, sign: i64) {
    let bytes = sign * i64::try_from(bytes).unwrap_or(i64::MAX);
    // A thread that ends may free memory after its counters are gone.
    let held = HELD.try_with(|held| {
        held.set(held.get().saturating_add(bytes));
        held.get()
    });
    if let Ok(held) = held {
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(held)));
    }
}

// SAFETY: both calls go to the system's allocator unchanged, and counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 1);
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(layout.size(), -1);
        // SAFETY: the caller keeps the contract of `GlobalAlloc::dealloc`; the block came from `System`.
        unsafe { System.dealloc(block, layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_counts_what_was_freed_again() {
        let ((), peak) = peak_of(|| {
            let large = vec![0u8; 1 << 20];
            drop(large);
            drop(vec![0u8; 1 << 10]);
        });
        assert_eq!(peak, 1 << 20);
    }

    #[test]
    fn memory_from_before_does_not_count() {
        let held = vec![0u8; 1 << 20];
        let ((), peak) = peak_of(|| drop(vec![0u8; 100]));
        assert_eq!(peak, 100);
        drop(held);
    }
}
