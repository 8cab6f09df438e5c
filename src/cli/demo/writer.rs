//! The process that writes, which is this program again, as `pipe`.

use std::{
    env,
    fs::File,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{self, ExitStatus, Stdio},
    time::Duration,
};

use anyhow::{Context as _, bail};
use tokio::process::{Child, Command};

use super::journal::{Entry, Journal};
use crate::cli::{crash, parent};

/// How often the journal is looked at.
const LOOK: Duration = Duration::from_millis(25);

/// How long one process may take. It is done in some seconds, or something is wrong.
const LONGEST: Duration = Duration::from_secs(300);

/// `SIGKILL`.
const KILLED: i32 = 9;

/// How a writer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// By SIGKILL.
    Killed,
    /// Its input is in the topic.
    Finished,
}

/// What every one of its processes is started with.
pub(super) struct Writer {
    /// `pipe` and its options.
    args: Vec<String>,
    errors: PathBuf,
    journal_file: PathBuf,
    journal: Journal,
}

impl Writer {
    /// A writer whose processes leave their traces in `dir`.
    pub(super) fn new(args: Vec<String>, dir: &Path) -> Self {
        let journal_file = dir.join("journal");
        let journal = Journal::new(journal_file.clone());
        Self { args, errors: dir.join("errors"), journal_file, journal }
    }

    /// Runs a process until it ends, and tells what it does meanwhile. With `crash` it kills itself there.
    ///
    /// # Errors
    /// It can't be started, or ended in another way than [`End`] knows.
    ///
    /// # Cancel safety
    /// Dropping the future kills the process and waits for its end.
    pub(super) async fn run(
        &mut self,
        crash: Option<&str>,
        mut tell: impl FnMut(Entry),
    ) -> anyhow::Result<End> {
        let mut process = Process(self.command(crash)?.spawn().context("the writer can't be started")?);
        let ended = async {
            loop {
                let wait = tokio::time::timeout(LOOK, process.0.wait()).await;
                // Looked at after the wait, so that nothing is missed after the end.
                self.journal.news()?.into_iter().for_each(&mut tell);
                if let Ok(status) = wait {
                    return status;
                }
            }
        };
        match tokio::time::timeout(LONGEST, ended).await {
            Ok(status) => self.end(status?),
            Err(_) => bail!("the writer makes no end after {} s", LONGEST.as_secs()),
        }
    }

    fn command(&self, crash: Option<&str>) -> anyhow::Result<Command> {
        let mut command = Command::new(env::current_exe()?);
        command
            .args(&self.args)
            .env_remove(crash::CRASH)
            .env(crash::JOURNAL, &self.journal_file)
            .env(parent::PARENT, process::id().to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&self.errors)?)
            // A Ctrl-C is for us, and we end it.
            .process_group(0)
            .kill_on_drop(true);
        if let Some(crash) = crash {
            command.env(crash::CRASH, crash);
        }
        Ok(command)
    }

    fn end(&self, status: ExitStatus) -> anyhow::Result<End> {
        if status.signal() == Some(KILLED) {
            return Ok(End::Killed);
        }
        if status.success() {
            return Ok(End::Finished);
        }
        let errors = std::fs::read_to_string(&self.errors).unwrap_or_default();
        bail!("the writer ended with {status}\n{}", errors.trim_end())
    }
}

/// A process that ends with this handle.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        _ = self.0.start_kill();
        // Killed processes end at once; only one that hangs in the kernel is left to it.
        for _ in 0..200 {
            if !matches!(self.0.try_wait(), Ok(None)) {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
