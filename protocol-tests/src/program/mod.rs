//! The program under test, `kafka-2pc`, as a child process: nothing of it is linked into a test.
//!
//! ```text
//! Program ── invoke(arguments) ──> Invocation ── start ──> Running ── wait, kill ──> Ended
//!    └────── broker(level) ──> Broker                         └──────── KAFKA_2PC_TRACE ──> Trace
//! ```

mod broker;
mod running;
mod trace;

use std::collections::BTreeMap;
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

/// The environment variable that names a folder of examples to be tested instead of those that are built.
const GIVEN_EXAMPLES: &str = "KAFKA_2PC_EXAMPLES";

/// The words of cargo for the program.
const PROGRAM: &[&str] = &["--features", "cli,object-store-s3", "--bin", "kafka-2pc"];

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
        Self::once("kafka-2pc", || {
            let given = std::env::var_os(GIVEN).filter(|given| !given.is_empty());
            given.map_or_else(|| Ok(build(PROGRAM)?.join("kafka-2pc")), |given| Ok(PathBuf::from(given)))
        })
    }

    /// The example of this name in the folder that `KAFKA_2PC_EXAMPLES` names, else the one of this workspace, built once per
    /// process as this test was built.
    ///
    /// # Errors
    /// [`ProgramError::Build`] and [`ProgramError::Io`].
    pub fn example(name: &'static str) -> Result<Self, ProgramError> {
        Self::once(name, || {
            let given = std::env::var_os(GIVEN_EXAMPLES).filter(|given| !given.is_empty());
            let built = || Ok(build(&["--example", name])?.join("examples"));
            Ok(given.map_or_else(built, |given| Ok(PathBuf::from(given)))?.join(name))
        })
    }

    fn once(
        name: &'static str,
        find: impl FnOnce() -> Result<PathBuf, ProgramError>,
    ) -> Result<Self, ProgramError> {
        static FOUND: Mutex<BTreeMap<&'static str, Program>> = Mutex::new(BTreeMap::new());
        let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(program) = found.get(name) {
            return Ok(program.clone());
        }
        let path = find()?;
        let watchdog = Watchdog::start(None).map_err(ProgramError::io("start the watchdog"))?;
        Ok(found.entry(name).or_insert(Self { path, watchdog: Arc::new(watchdog) }).clone())
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

/// Builds into the target folder and with the profile of this very test, so that nothing is built twice. Where programs lie then.
fn build(what: &[&str]) -> Result<PathBuf, ProgramError> {
    let this = std::env::current_exe().map_err(ProgramError::io("find this program"))?;
    // target/PROFILE/deps/acceptance-HASH
    let profile = this.ancestors().nth(2).unwrap_or(Path::new("target/debug"));
    let target = profile.parent().unwrap_or(Path::new("target"));
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .args(["build", "--quiet", "--package", "kafka-2pc"])
        .args(what)
        .arg("--target-dir")
        .arg(target);
    if profile.ends_with("release") {
        command.arg("--release");
    }
    let done = command.output().map_err(ProgramError::io("run cargo"))?;
    if done.status.success() {
        return Ok(profile.to_owned());
    }
    let output = String::from_utf8_lossy(&done.stderr).into_owned();
    Err(ProgramError::Build { status: done.status.to_string(), output })
}
