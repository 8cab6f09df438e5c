//! The library's own tests of a broker's semantics, run against a real one.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::{ProgramError, target};
use crate::process::{Watchdog, capture};

/// How long one may take. It may have to be built first.
const LIMIT: Duration = Duration::from_secs(1200);

/// Runs the test target `name` of the library with these environment variables. It is built as this test was, if it has not been.
///
/// # Errors
/// [`ProgramError::Strange`] with what it printed, when a test of it fails; [`ProgramError::TooLong`]; [`ProgramError::Io`].
pub fn library_test(name: &str, environment: &[(&str, &str)]) -> Result<(), ProgramError> {
    let (target, release) = target()?;
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let mut words: Vec<String> = environment.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml");
    words.extend([&*cargo, "test", "--quiet", "--manifest-path", manifest].map(str::to_owned));
    // The features that the whole workspace is tested with: so nothing is built twice.
    words.extend(["--workspace", "--all-features", "--test", name].map(str::to_owned));
    words.extend(["--target-dir".to_owned(), target.display().to_string()]);
    words.extend(release.then(|| "--release".to_owned()));
    // A broker verifies the transactions of several connections in one request to the coordinator, and maps the error codes
    // of all by the version of the first (AddPartitionsToTxnManager): tests that ask for codes shall not share one.
    words.extend(["--", "--test-threads=1"].map(str::to_owned));
    let watchdog = Arc::new(Watchdog::start(None).map_err(ProgramError::io("start the watchdog"))?);
    let ran = capture(&watchdog, Path::new("env"), &words, LIMIT).map_err(ProgramError::io("run cargo"))?;
    let output = format!("{}\n{}", ran.stdout, ran.stderr);
    match ran.exit {
        Some(exit) if exit.success() => Ok(()),
        Some(exit) => Err(ProgramError::Strange { what: format!("{name} failed ({exit})"), output }),
        None => Err(ProgramError::TooLong { command: words.join(" "), limit: LIMIT, output }),
    }
}
