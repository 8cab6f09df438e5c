//! Real Kafka for a measure: started by `kafka-cluster`, or named.

use std::{
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result, ensure};

/// A cluster that ends with this handle, if it was started for it.
#[derive(Debug)]
pub struct Cluster {
    process: Option<Child>,
    /// Where it is.
    pub bootstrap: String,
}

/// One of our programs: beside this one, in the debug build, or where the environment says.
///
/// # Errors
/// It is at none of these places.
pub fn program(name: &str, variable: &str) -> Result<PathBuf> {
    let here = std::env::current_exe()?;
    let folder = here.parent().context("this program is in no folder")?;
    let named = std::env::var_os(variable).map(PathBuf::from);
    let places = named.into_iter().chain([folder.join(name), folder.join("../debug").join(name)]);
    places
        .into_iter()
        .find(|path| path.is_file())
        .with_context(|| format!("{name} is not built ({variable} names it)"))
}

/// The program that starts clusters.
///
/// # Errors
/// It is not built.
pub fn kafka_cluster() -> Result<PathBuf> {
    program("kafka-cluster", "KAFKA_CLUSTER")
}

impl Cluster {
    /// The cluster at an address, or with `start` a new one with these further options of `kafka-cluster up`.
    ///
    /// # Errors
    /// It does not start.
    pub fn start(real: &str, options: &[&str]) -> Result<Self> {
        if real != "start" {
            return Ok(Self { process: None, bootstrap: real.to_owned() });
        }
        let mut process = Command::new(kafka_cluster()?)
            .arg("up")
            .args(options)
            // It ends when this pipe closes.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = process.stdout.take().context("no pipe to kafka-cluster")?;
        let mut cluster = Self { process: Some(process), bootstrap: String::new() };
        BufReader::new(stdout).read_line(&mut cluster.bootstrap)?;
        cluster.bootstrap.truncate(cluster.bootstrap.trim_end().len());
        ensure!(!cluster.bootstrap.is_empty(), "kafka-cluster did not start");
        Ok(cluster)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            drop(process.stdin.take());
            // It fails only if it is gone.
            _ = process.wait();
        }
    }
}
