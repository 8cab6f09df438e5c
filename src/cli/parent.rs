//! A process that another one started for its own purposes ends with it, however that one ends.

use std::{env, process, thread, time::Duration};

/// Where the environment names the process to end with.
pub(super) const PARENT: &str = "KAFKA_2PC_PARENT";

const LOOK: Duration = Duration::from_millis(200);

/// Ends this process when the one that the environment names is not its parent any more.
pub(super) fn end_with_it() {
    let Some(parent) = env::var(PARENT).ok().and_then(|pid| pid.parse::<i32>().ok()) else { return };
    thread::spawn(move || {
        // An orphan gets another parent.
        while rustix::process::getppid().is_some_and(|pid| pid.as_raw_nonzero().get() == parent) {
            thread::sleep(LOOK);
        }
        process::exit(1);
    });
}
