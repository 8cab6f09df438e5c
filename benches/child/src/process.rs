//! What this process has used.

use std::time::Duration;

use cpu_time::ProcessTime;

/// The processor time of this process so far, user and system, all threads.
#[must_use]
pub fn cpu_time() -> Duration {
    ProcessTime::now().as_duration()
}

/// The most memory that this process ever had resident, in bytes; `None` where `/proc` does not tell.
///
/// Not `getrusage`: its maximum survives exec, so that a small child of a large parent looks large.
#[must_use]
pub fn peak_memory_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_and_memory_are_told() {
        let before = cpu_time();
        let sum = (0..2_000_000_u64).fold(0, |sum, n| std::hint::black_box(sum ^ n));
        assert!(cpu_time() > before, "{sum}");
        assert!(peak_memory_bytes().is_none_or(|bytes| bytes > 100_000));
    }
}
