//! The program under test, `kafka-2pc`, as a child process: nothing of it is linked into a test.
//!
//! ```text
//! Program ── invoke(arguments) ──> Invocation ── start ──> Running ── wait, kill ──> Ended
//!    └────── broker(level) ──> Broker                         └──────── KAFKA_2PC_TRACE ──> Trace
//! ```

mod broker;
mod running;
mod trace;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

pub use broker::Broker;
pub use running::{Ended, Invocation, Running};
pub use trace::{Passage, Phase, Trace};

use crate::process::Watchdog;

/// The environment variable that names a program to be tested instead of the one that is built.
const GIVEN: &str = "KAFKA_2PC_BIN";

/// Why the program could not be built, run or understood.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// Cargo could not build it.
    #[error("building the program failed ({status}):\n{output}")]
    Build {
        /// How cargo ended.
        status: String,
        /// The end of what it said.
        output: String,
    },
    /// It did not end in time, and was killed.
    #[error("{command} did not end within {limit:?}:\n{output}")]
    TooLong {
        /// The command line.
        command: String,
        /// How long was waited.
        limit: Duration,
        /// What it printed so far.
        output: String,
    },
    /// It printed something that is not its format, or did not do what was waited for.
    #[error("{what}:\n{output}")]
    Strange {
        /// What was expected.
        what: String,
        /// What it printed.
        output: String,
    },
    /// The operating system refused something.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// Why it failed.
        source: std::io::Error,
    },
}

impl ProgramError {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}

/// The program, ready to be run. Whatever it starts is killed when this process ends.
#[derive(Debug, Clone)]
pub struct Program {
    path: PathBuf,
    watchdog: Arc<Watchdog>,
}

impl Program {
    /// The program that `KAFKA_2PC_BIN` names, else the one of this workspace, built once per process as this test was built.
    ///
    /// # Errors
    /// [`ProgramError::Build`] and [`ProgramError::Io`].
    pub fn ensure() -> Result<Self, ProgramError> {
        static BUILT: Mutex<Option<Program>> = Mutex::new(None);
        let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(program) = built.as_ref() {
            return Ok(program.clone());
        }
        let given = std::env::var_os(GIVEN).filter(|given| !given.is_empty());
        let path = given.map_or_else(build, |given| Ok(PathBuf::from(given)))?;
        let watchdog = Watchdog::start(None).map_err(ProgramError::io("start the watchdog"))?;
        Ok(built.insert(Self { path, watchdog: Arc::new(watchdog) }).clone())
    }

    /// A command line to be run.
    pub fn invoke<I: Into<String>>(&self, arguments: impl IntoIterator<Item = I>) -> Invocation {
        Invocation::new(self.clone(), arguments.into_iter().map(Into::into).collect())
    }

    /// The program's own broker at this level of `transaction.version` and with these options, ready for clients. Dropped, it is
    /// killed.
    ///
    /// # Errors
    /// It does not come up.
    pub fn broker(&self, level: u8, options: &[String]) -> Result<Broker, ProgramError> {
        Broker::start(self, level, options)
    }
}

/// Builds into the target folder and with the profile of this very test, so that nothing is built twice.
fn build() -> Result<PathBuf, ProgramError> {
    let this = std::env::current_exe().map_err(ProgramError::io("find this program"))?;
    // target/PROFILE/deps/acceptance-HASH
    let profile = this.ancestors().nth(2).unwrap_or(Path::new("target/debug"));
    let target = profile.parent().unwrap_or(Path::new("target"));
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .args(["build", "--quiet", "--package", "kafka-2pc", "--features", "cli", "--bin", "kafka-2pc"])
        .arg("--target-dir")
        .arg(target);
    if profile.ends_with("release") {
        command.arg("--release");
    }
    let done = command.output().map_err(ProgramError::io("run cargo"))?;
    if done.status.success() {
        return Ok(profile.join("kafka-2pc"));
    }
    let output = String::from_utf8_lossy(&done.stderr).into_owned();
    Err(ProgramError::Build { status: done.status.to_string(), output })
}
