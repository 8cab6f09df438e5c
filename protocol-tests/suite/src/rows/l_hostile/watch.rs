//! What must not happen, whatever comes: a panic in any task, and memory that grows by what the other side says.

use std::fs;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::outcome::{Shown, equal, holds};

/// How much more memory than before may be in use at any moment.
const MORE_KIB: u64 = 64 * 1024;

static PANICS: AtomicU64 = AtomicU64::new(0);

/// From its beginning to its end.
#[derive(Debug)]
pub(super) struct Watch {
    panics: u64,
    resident_kib: Option<u64>,
    more_kib: u64,
}

impl Watch {
    pub(super) fn begin() -> Self {
        Self::beside(0)
    }

    /// The same where so many bytes are needed for what has nothing to do with it.
    pub(super) fn beside(bytes: usize) -> Self {
        let more_kib = MORE_KIB + u64::try_from(bytes / 1024).unwrap_or(0);
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                // Those of tasks, too, whose panics nobody else would hear of.
                PANICS.fetch_add(1, Ordering::Relaxed);
                before(panic);
            }));
        });
        // From here on the peak counts; where there is no such file, memory is not watched.
        _ = fs::write("/proc/self/clear_refs", "5");
        Self { panics: PANICS.load(Ordering::Relaxed), resident_kib: kib("VmRSS:"), more_kib }
    }

    pub(super) fn end(&self, what: &str) -> Shown {
        equal(&format!("{what}: panics"), PANICS.load(Ordering::Relaxed) - self.panics, 0)?;
        let (Some(before), Some(peak)) = (self.resident_kib, kib("VmHWM:")) else { return Ok(()) };
        let more = peak.saturating_sub(before);
        holds(more <= self.more_kib, format!("{what}: {more} KiB more memory than before"))
    }
}

fn kib(name: &str) -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}
