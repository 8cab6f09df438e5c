//! The embedded broker in a process of its own, so that its work is not counted as ours.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use kafka_2pc::broker::{Broker, BrokerConfig, Profile};
use tokio::io::AsyncReadExt;

use crate::options::Options;

/// The word that makes this program the broker.
pub const SERVE: &str = "serve";

/// The process; it ends with this handle, and with this process.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// Where it listens.
    pub bootstrap: String,
}

impl Server {
    /// Starts this very program as a broker.
    ///
    /// # Errors
    /// It can't be started, or it said no address.
    pub fn start(options: &Options) -> Result<Self> {
        Self::slow(options, Duration::ZERO)
    }

    /// The same, with answers to Produce that come so much later.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn slow(options: &Options, produce_delay: Duration) -> Result<Self> {
        let delay = produce_delay.as_millis().to_string();
        let mut child = Command::new(std::env::current_exe()?)
            .args([SERVE, &options.profile, &options.topic, &options.partitions.to_string(), &delay])
            // It ends when this pipe closes, however we end.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("start the embedded broker")?;
        let stdout = child.stdout.take().context("no pipe to the embedded broker")?;
        let mut server = Self { child, bootstrap: String::new() };
        BufReader::new(stdout).read_line(&mut server.bootstrap)?;
        server.bootstrap.truncate(server.bootstrap.trim_end().len());
        if server.bootstrap.is_empty() {
            bail!("the embedded broker did not start");
        }
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only if it is gone already.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// Is the broker until standard input ends.
///
/// # Errors
/// The words are wrong, or the broker can't start.
pub async fn serve(words: &[String]) -> Result<()> {
    let [profile, topic, partitions, delay] = words else {
        bail!("{SERVE} PROFILE TOPIC PARTITIONS MILLISECONDS")
    };
    let produce_delay = Duration::from_millis(delay.parse()?);
    let profile = Profile::named(profile).with_context(|| format!("{profile}: no such profile"))?;
    let broker = Broker::start(BrokerConfig { profile, produce_delay, ..BrokerConfig::default() }).await?;
    broker.create_topic(topic, partitions.parse()?)?;
    println!("{}", broker.bootstrap());
    let mut rest = Vec::new();
    tokio::io::stdin().read_to_end(&mut rest).await?;
    Ok(())
}
