//! What every command works with: the cluster, and where to say what.

use std::io::{self, IsTerminal, Write};

use tracing::level_filters::LevelFilter;

use super::{Globals, Usage};
use crate::client::{Client, ClientConfig, ConfigError};

/// A message on standard error. Nobody may be left to read it, which is no reason to fail.
pub(super) fn tell(message: impl AsRef<str>) {
    _ = io::stderr().lock().write_all(format!("{}\n", message.as_ref()).as_bytes());
}

/// The options that all commands share.
#[derive(Debug)]
pub(super) struct Context {
    /// `--bootstrap`.
    bootstrap: Option<String>,
    /// `KAFKA_BOOTSTRAP`, which every other way to name a cluster comes before.
    environment: Option<String>,
    json: bool,
    quiet: bool,
}

impl Context {
    /// Also says where log messages go: to standard error, from warnings on.
    pub(super) fn new(globals: &Globals) -> Self {
        let level = match (globals.quiet, globals.verbose) {
            (true, _) | (false, 0) => LevelFilter::WARN,
            (false, 1) => LevelFilter::INFO,
            (false, 2) => LevelFilter::DEBUG,
            (false, _) => LevelFilter::TRACE,
        };
        tracing_subscriber::fmt()
            .with_writer(io::stderr)
            .with_ansi(io::stderr().is_terminal())
            .with_max_level(level)
            .with_target(globals.verbose > 1)
            .log_internal_errors(false)
            .init();
        Self {
            bootstrap: globals.bootstrap.clone().filter(|servers| !servers.is_empty()),
            environment: std::env::var("KAFKA_BOOTSTRAP").ok().filter(|servers| !servers.is_empty()),
            json: globals.json,
            quiet: globals.quiet,
        }
    }

    /// Whether results are wanted as JSON.
    pub(super) fn json(&self) -> bool {
        self.json
    }

    /// Whether bars may be drawn: somebody looks, and nobody asked for silence.
    pub(super) fn shows_progress(&self) -> bool {
        !self.quiet && !self.json && io::stderr().is_terminal()
    }

    /// Whether messages for people are wanted.
    pub(super) fn tells(&self) -> bool {
        !self.quiet && !self.json
    }

    /// The cluster, if one was named.
    pub(super) fn bootstrap(&self) -> Option<&str> {
        self.bootstrap_or(None)
    }

    fn bootstrap_or<'a>(&'a self, property: Option<&'a str>) -> Option<&'a str> {
        self.bootstrap.as_deref().or(property).or(self.environment.as_deref())
    }

    /// The settings for the cluster that was named.
    ///
    /// # Errors
    /// [`Usage`] if none was.
    pub(super) fn client_config(&self) -> anyhow::Result<ClientConfig> {
        self.client_config_or(None)
    }

    /// The same, where a property may name the cluster as well: after `--bootstrap`, before the environment.
    ///
    /// # Errors
    /// [`Usage`] if nothing names one.
    pub(super) fn client_config_or(&self, property: Option<&str>) -> anyhow::Result<ClientConfig> {
        let Some(bootstrap) = self.bootstrap_or(property) else {
            let hint = "which cluster? Give --bootstrap HOST:PORT[,HOST:PORT..] or set KAFKA_BOOTSTRAP.\n\
                        `kafka-2pc broker` starts one in memory; `kafka-2pc demo` shows everything without one.";
            return Err(Usage(hint.to_owned()).into());
        };
        ClientConfig::new(bootstrap).map_err(|e: ConfigError| Usage(e.to_string()).into())
    }

    /// The settings for a cluster that an option of its own names, or else the common one.
    ///
    /// # Errors
    /// [`Usage`] if none was named.
    pub(super) fn client_config_of(&self, own: Option<&str>) -> anyhow::Result<ClientConfig> {
        match own {
            Some(bootstrap) => ClientConfig::new(bootstrap).map_err(|e| Usage(e.to_string()).into()),
            None => self.client_config(),
        }
    }

    /// A client of the cluster that was named.
    ///
    /// # Errors
    /// [`Usage`] if none was.
    pub(super) fn client(&self) -> anyhow::Result<Client> {
        self.client_config().map(Client::new)
    }

    /// A message for people; not data.
    pub(super) fn say(&self, message: impl AsRef<str>) {
        if !self.quiet {
            tell(message);
        }
    }

    /// A warning for people: `--quiet` does not hide it.
    pub(super) fn warn(&self, message: impl AsRef<str>) {
        tell(format!("warning: {}", message.as_ref()));
    }

    /// One line of data.
    ///
    /// # Errors
    /// Standard output is closed, or its device is full.
    pub(super) fn print(&self, line: impl AsRef<str>) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(line.as_ref().as_bytes())?;
        out.write_all(b"\n")?;
        out.flush()
    }
}
