//! Settings of a job by the names that Kafka and Flink gave them: `--set NAME=VALUE` and `--config FILE`.
//!
//! An option of the command line comes before `--set`, and that before the file. Of the same setting given twice, the last
//! one counts.

mod flink;
mod kafka;
mod table;
mod target;
mod text;

use std::{fs, path::Path};

use super::Usage;
pub(super) use target::JobConfig;

/// The commands that run a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Command {
    Pipe,
    Mirror,
}

impl Command {
    fn name(self) -> &'static str {
        match self {
            Self::Pipe => "pipe",
            Self::Mirror => "mirror",
        }
    }
}

/// Settings as they were given, the file's before the command line's.
#[derive(Debug, Default)]
pub(super) struct Settings(Vec<Given>);

#[derive(Debug)]
struct Given {
    /// The line in the file; `None` on the command line.
    place: Option<Place>,
    name: String,
    value: String,
}

#[derive(Debug, Clone)]
struct Place {
    file: String,
    line: usize,
}

impl Settings {
    /// # Errors
    /// The file can't be read, or something is not `NAME=VALUE`; in a file `NAME: VALUE` will do as well.
    pub(super) fn read(file: Option<&Path>, set: &[String]) -> Result<Self, Usage> {
        let mut all = Vec::new();
        if let Some(path) = file {
            let text =
                fs::read_to_string(path).map_err(|e| Usage(format!("--config {}: {e}", path.display())))?;
            for (at, line) in text.lines().enumerate() {
                let place = Place { file: path.display().to_string(), line: at + 1 };
                match text::line(line) {
                    Ok(Some((name, value))) => all.push(Given::new(Some(place), name, value)),
                    Ok(None) => {}
                    Err(why) => return Err(Usage(format!("{place}: {why}"))),
                }
            }
        }
        for setting in set {
            let Some((name, value)) = setting.split_once('=') else {
                return Err(Usage(format!("{setting:?} is not NAME=VALUE")));
            };
            all.push(Given::new(None, name, value));
        }
        Ok(Self(all))
    }

    /// The cluster, if a setting names one; the command line before the file.
    pub(super) fn bootstrap(&self) -> Option<&str> {
        let named = self.0.iter().rev().find(|given| given.key() == Some(kafka::SERVERS));
        named.map(|given| given.value.as_str())
    }

    /// What should be told of settings that stand in the file more than once.
    pub(super) fn repeated(&self) -> Vec<String> {
        let in_file = |given: &&Given| given.place.is_some();
        let mut told = Vec::new();
        for (at, given) in self.0.iter().enumerate().filter(|(_, given)| in_file(given)) {
            let same =
                |earlier: &&Given| in_file(earlier) && given.key().is_some() && earlier.key() == given.key();
            let earlier = self.0[..at].iter().rev().find(same);
            if let (Some(Given { name, place: Some(before), .. }), Some(place)) = (earlier, &given.place) {
                told.push(format!("{place}: {} counts, and not {name} of line {}", given.name, before.line));
            }
        }
        told
    }

    /// Carries out all but the cluster, which is chosen before: `config` has it.
    ///
    /// # Errors
    /// A name that this command does not take, or a value that makes no sense, also one that is not used.
    pub(super) fn apply(&self, config: &mut JobConfig, command: Command) -> Result<(), Usage> {
        let chosen = config.client.bootstrap.clone();
        for Given { place, name, value } in &self.0 {
            table::set(config, command, name, value).map_err(|Usage(e)| match place {
                Some(place) => Usage(format!("{place}: {e}")),
                None => Usage(e),
            })?;
        }
        config.client.bootstrap = chosen;
        Ok(())
    }
}

impl Given {
    fn new(place: Option<Place>, name: &str, value: &str) -> Self {
        Self { place, name: name.trim().to_owned(), value: value.trim().to_owned() }
    }

    /// The setting's first name.
    fn key(&self) -> Option<&'static str> {
        table::find(&self.name).map(|property| property.name)
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, line {}", self.file, self.line)
    }
}

impl JobConfig {
    /// `--compression`.
    ///
    /// # Errors
    /// It is no codec, or one that is not supported.
    pub(super) fn compress(&mut self, codec: &str) -> Result<(), Usage> {
        kafka::set_compression(self, codec).map_err(|e| Usage(format!("--compression {codec}: {e}")))
    }

    /// Carries out what makes sense only once options and settings are all known.
    ///
    /// # Errors
    /// Settings that contradict one another.
    pub(super) fn complete(&mut self) -> Result<(), Usage> {
        self.settle().map_err(Usage)
    }
}

#[cfg(test)]
mod documented_tests;
#[cfg(test)]
mod tests;
