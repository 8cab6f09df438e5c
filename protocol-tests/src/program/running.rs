//! One run of the program.

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use super::{Program, ProgramError};
use crate::process::Guarded;

/// A command line that was not started yet.
#[derive(Debug, Clone)]
pub struct Invocation {
    program: Program,
    arguments: Vec<String>,
    environment: Vec<String>,
}

impl Invocation {
    pub(super) fn new(program: Program, arguments: Vec<String>) -> Self {
        Self { program, arguments, environment: Vec::new() }
    }

    /// The same with one more environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl std::fmt::Display) -> Self {
        self.environment.push(format!("{name}={value}"));
        self
    }

    /// Starts it.
    ///
    /// # Errors
    /// [`ProgramError::Io`].
    pub fn start(self) -> Result<Running, ProgramError> {
        let folder = tempfile::tempdir().map_err(ProgramError::io("create a temporary folder"))?;
        let file = |name: &str| File::create(folder.path().join(name));
        let (out, err) = (file("out"), file("err"));
        let (out, err) =
            out.and_then(|out| Ok((out, err?))).map_err(ProgramError::io("create an output file"))?;
        let path = self.program.path.display().to_string();
        let name = self.program.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let command = format!("{} {name} {}", self.environment.join(" "), self.arguments.join(" "));
        let all: Vec<_> = self.environment.into_iter().chain([path]).chain(self.arguments).collect();
        // `env` becomes the program, under the same process id.
        let process = self
            .program
            .watchdog
            .spawn_split(Path::new("env"), &all, out, err)
            .map_err(ProgramError::io("start the program"))?;
        Ok(Running { process, folder, command })
    }

    /// Runs it to its end.
    ///
    /// # Errors
    /// As [`start`](Self::start) and [`Running::wait`].
    pub fn run(self, limit: Duration) -> Result<Ended, ProgramError> {
        self.start()?.wait(limit)
    }
}

/// The program while it runs. Dropped, it is killed.
#[derive(Debug)]
pub struct Running {
    process: Guarded,
    folder: TempDir,
    command: String,
}

impl Running {
    /// Waits for its end.
    ///
    /// # Errors
    /// [`ProgramError::TooLong`]; it is killed then.
    pub fn wait(mut self, limit: Duration) -> Result<Ended, ProgramError> {
        if self.ended_within(limit)? {
            return self.ended();
        }
        let (command, output) = (self.command.clone(), self.output());
        Err(ProgramError::TooLong { command, limit, output })
    }

    /// True when it ended within this time.
    ///
    /// # Errors
    /// [`ProgramError::Io`].
    pub fn ended_within(&mut self, limit: Duration) -> Result<bool, ProgramError> {
        let exit = self.process.exit_within(limit).map_err(ProgramError::io("wait for the program"))?;
        Ok(exit.is_some())
    }

    /// SIGKILL, and waits until it is gone.
    ///
    /// # Errors
    /// [`ProgramError::Io`].
    pub fn kill(mut self) -> Result<Ended, ProgramError> {
        self.process.end().map_err(ProgramError::io("kill the program"))?;
        self.ended()
    }

    /// SIGSTOP: it keeps what it holds, and does nothing.
    ///
    /// # Errors
    /// [`ProgramError::Io`].
    pub fn pause(&self) -> Result<(), ProgramError> {
        self.process.pause().map_err(ProgramError::io("pause the program"))
    }

    /// SIGCONT after [`pause`](Self::pause).
    ///
    /// # Errors
    /// [`ProgramError::Io`].
    pub fn cont(&self) -> Result<(), ProgramError> {
        self.process.cont().map_err(ProgramError::io("continue the program"))
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// What it printed so far, both streams.
    pub fn output(&self) -> String {
        format!("{}{}", self.text("out"), self.text("err"))
    }

    fn ended(mut self) -> Result<Ended, ProgramError> {
        let exit = self.process.exit().map_err(ProgramError::io("look at the program"))?;
        let (stdout, stderr) = (self.text("out"), self.text("err"));
        match exit {
            Some(exit) => Ok(Ended { command: self.command, exit, stdout, stderr }),
            None => {
                let output = format!("{stdout}{stderr}");
                Err(ProgramError::Strange { what: "it has not ended".into(), output })
            }
        }
    }

    fn text(&self, name: &str) -> String {
        std::fs::read(self.folder.path().join(name))
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }
}

/// A run that is over.
#[derive(Debug, Clone)]
pub struct Ended {
    command: String,
    exit: ExitStatus,
    /// What it printed.
    pub stdout: String,
    /// What it told people.
    pub stderr: String,
}

impl Ended {
    /// Its exit code, if no signal ended it.
    pub fn code(&self) -> Option<i32> {
        self.exit.code()
    }

    /// True when SIGKILL ended it.
    pub fn was_killed(&self) -> bool {
        self.exit.signal() == Some(9)
    }

    /// The last line of standard output, which is JSON.
    ///
    /// # Errors
    /// [`ProgramError::Strange`].
    pub fn json(&self) -> Result<Value, ProgramError> {
        let last = self.stdout.lines().last().unwrap_or_default();
        serde_json::from_str(last).map_err(|_| self.strange("the last line is no JSON"))
    }

    /// The first line of standard output that is a JSON object with this field.
    ///
    /// # Errors
    /// [`ProgramError::Strange`].
    pub fn json_with(&self, field: &str) -> Result<Value, ProgramError> {
        let mut objects = self.stdout.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let found = objects.find(|object| object.get(field).is_some());
        found.ok_or_else(|| self.strange(&format!("no line of its output has the field {field}")))
    }

    /// Itself, if it ended with this code.
    ///
    /// # Errors
    /// [`ProgramError::Strange`] with all that it printed.
    pub fn expect(self, code: i32) -> Result<Self, ProgramError> {
        if self.code() == Some(code) {
            return Ok(self);
        }
        Err(self.strange(&format!("{}, expected code {code}", self.exit)))
    }

    /// An error about this run, with all that it printed.
    pub fn strange(&self, what: &str) -> ProgramError {
        let output = format!("{}{}", self.stdout, self.stderr);
        ProgramError::Strange { what: format!("{}: {what}", self.command), output }
    }
}
