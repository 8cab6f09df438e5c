//! The Python environment that holds the foreign clients, made once and kept in the cache.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use super::ForeignError;
use crate::cache::{self, FileLock};
use crate::process::{self, Captured, Watchdog};

const READERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/readers");

/// What an environment holds: a file in `readers`, and its text.
#[derive(Debug, Clone, Copy)]
struct Requirements {
    file: &'static str,
    text: &'static str,
}

const CLIENTS: Requirements =
    Requirements { file: "requirements.txt", text: include_str!("../../readers/requirements.txt") };
const S3: Requirements =
    Requirements { file: "s3-requirements.txt", text: include_str!("../../readers/s3-requirements.txt") };
const INSTALL_LIMIT: Duration = Duration::from_secs(300);

/// A Python environment with the packages of a file in `readers`.
#[derive(Debug, Clone)]
pub struct Venv {
    folder: PathBuf,
    requirements: Requirements,
    pub(super) watchdog: Arc<Watchdog>,
}

impl Venv {
    /// The environment of the clients: from the cache, else made (10 to 30 s). Its name carries a hash of the requirements, so that changed ones get
    /// a new environment. Processes that want it at once wait for the first.
    ///
    /// # Errors
    /// Python is missing, or the packages can not be installed.
    pub fn ensure() -> Result<Self, ForeignError> {
        let venv = Self::of(CLIENTS)?;
        venv.link()?;
        Ok(venv)
    }

    /// The environment of the S3 server, in the same way.
    ///
    /// # Errors
    /// Python is missing, or the packages can not be installed.
    pub(crate) fn for_s3() -> Result<Self, ForeignError> {
        Self::of(S3)
    }

    fn of(requirements: Requirements) -> Result<Self, ForeignError> {
        let folder = cache::folder().join(format!("venv-{:016x}", fnv1a(requirements.text.as_bytes())));
        let watchdog = Watchdog::start(None).map_err(ForeignError::io("start the watchdog"))?;
        let venv = Self { folder, requirements, watchdog: Arc::new(watchdog) };
        if !venv.complete() {
            let lock = venv.folder.with_extension("lock");
            let _lock =
                FileLock::wait(&lock).map_err(ForeignError::io(format!("lock {}", lock.display())))?;
            if !venv.complete() {
                venv.make()?;
            }
        }
        Ok(venv)
    }

    /// `venv` in the cache is the present one, for tests that do not know the requirements.
    fn link(&self) -> Result<(), ForeignError> {
        let link = self.folder.with_file_name("venv");
        let of_somebody = std::fs::symlink_metadata(&link).is_ok_and(|found| !found.is_symlink());
        if of_somebody || std::fs::read_link(&link).is_ok_and(|to| to == self.folder) {
            return Ok(());
        }
        // Renamed into its place, so that there is one at any moment, whoever else does the same.
        let new = self.folder.with_file_name(format!("venv-link-{}", std::process::id()));
        let linked =
            std::os::unix::fs::symlink(&self.folder, &new).and_then(|()| std::fs::rename(&new, &link));
        linked.map_err(ForeignError::io(format!("link {}", link.display())))
    }

    fn complete(&self) -> bool {
        self.folder.join(".complete").is_file()
    }

    /// Made in place, for an environment can not be moved; the marker comes last.
    fn make(&self) -> Result<(), ForeignError> {
        Command::new("python3").arg("--version").output().map_err(ForeignError::PythonMissing)?;
        let folder = self.folder.display().to_string();
        let venv = ["-m", "venv", "--clear", &folder].map(str::to_owned);
        self.install("python3 -m venv", Path::new("python3"), &venv)?;
        let requirements = format!("{READERS}/{}", self.requirements.file);
        let pip = ["-m", "pip", "--disable-pip-version-check", "install", "--quiet", "-r", &requirements];
        self.install("pip install", &self.python(), &pip.map(str::to_owned))?;
        let marker = self.folder.join(".complete");
        std::fs::write(&marker, "").map_err(ForeignError::io(format!("write {}", marker.display())))
    }

    fn install(&self, step: &'static str, program: &Path, arguments: &[String]) -> Result<(), ForeignError> {
        let done = process::capture(&self.watchdog, program, arguments, INSTALL_LIMIT)
            .map_err(ForeignError::io(step))?;
        match done.failure(INSTALL_LIMIT) {
            None => Ok(()),
            Some(outcome) => {
                let said = format!("{}{}", done.stdout, done.stderr);
                let lines: Vec<_> = said.lines().collect();
                let output = lines[lines.len().saturating_sub(8)..].join("\n");
                Err(ForeignError::InstallFailed { step, outcome, output })
            }
        }
    }

    pub(crate) fn python(&self) -> PathBuf {
        self.folder.join("bin/python")
    }

    pub(crate) fn script(name: &str) -> String {
        format!("{READERS}/{name}")
    }

    /// Runs one of the scripts to its end.
    pub(super) fn run(
        &self,
        script: &'static str,
        arguments: &[String],
        limit: Duration,
    ) -> Result<Captured, ForeignError> {
        let mut all = vec![Self::script(script)];
        all.extend(arguments.iter().cloned());
        let captured = process::capture(&self.watchdog, &self.python(), &all, limit)
            .map_err(ForeignError::io(format!("run {script}")))?;
        match captured.failure(limit) {
            None => Ok(captured),
            Some(outcome) => {
                let output = format!("{}{}", captured.stdout, captured.stderr);
                Err(ForeignError::Failed { script, outcome, output })
            }
        }
    }
}

/// A hash that stays the same between Rust versions, which the standard library's need not.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_published_one() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }
}
