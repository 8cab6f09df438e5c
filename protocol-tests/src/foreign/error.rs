//! What can go wrong with foreign clients.

use std::io;

/// Why a foreign client could not be installed, run or understood.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ForeignError {
    /// There is no Python 3 on the path.
    #[error("Python (python3) is missing: {0}")]
    PythonMissing(io::Error),
    /// The environment could not be made, or its packages could not be installed.
    #[error("installing the foreign clients: {step} {outcome}:\n{output}")]
    InstallFailed {
        /// What was being done.
        step: &'static str,
        /// How it ended.
        outcome: String,
        /// The end of what it printed.
        output: String,
    },
    /// The program ran and failed.
    #[error("{script} {outcome}:\n{output}")]
    Failed {
        /// `reader.py` or `writer.py`.
        script: &'static str,
        /// How it ended.
        outcome: String,
        /// What it printed.
        output: String,
    },
    /// The program printed something that is not its format.
    #[error("{script} printed something strange: {what}")]
    Strange {
        /// `reader.py` or `writer.py`.
        script: &'static str,
        /// What was not understood.
        what: String,
    },
    /// The operating system refused something.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
}

impl ForeignError {
    /// True when this machine lacks what the clients need: tests are then skipped with this reason, not failed.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::PythonMissing(_) | Self::InstallFailed { .. })
    }

    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}
