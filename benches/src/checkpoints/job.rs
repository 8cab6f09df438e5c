//! What the measures share: where jobs run, and how one is run until enough checkpoints are seen.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result};
use kafka_2pc::{
    checkpoint::{
        Binding, DirectoryStore,
        runner::{Pipeline, RunConfig, SinkSpec, Stream},
    },
    client::{Client, ClientConfig},
    record::Record,
    sink::SinkConfig,
};

use crate::watch::{Life, Watch};

/// The cluster, and the topic that jobs write to.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) bootstrap: String,
    pub(crate) topic: String,
}

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    Quick,
    Full,
}

impl Size {
    pub(crate) fn pick<T>(self, quick: T, full: T) -> T {
        match self {
            Self::Quick => quick,
            Self::Full => full,
        }
    }
}

impl Place {
    pub(crate) fn client(&self) -> Result<Client> {
        Ok(Client::new(ClientConfig::new(&self.bootstrap)?))
    }

    /// A sink of this job alone.
    pub(crate) fn sink(&self) -> Result<SinkSpec> {
        static JOBS: AtomicU64 = AtomicU64::new(0);
        let number = JOBS.fetch_add(1, Ordering::Relaxed);
        let config = SinkConfig::new(&format!("bench-{}-{number}", std::process::id()))?;
        Ok(SinkSpec { topic: self.topic.clone(), config })
    }

    /// Runs a job with checkpoints on disk until `count` of them are durable and visible that were triggered when
    /// `counts` said yes; their lives.
    pub(crate) async fn run(
        &self,
        pipeline: &Pipeline,
        mut config: RunConfig,
        count: usize,
        counts: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Result<Vec<Life>> {
        let folder = tempfile::tempdir()?;
        let mut store = DirectoryStore::open(folder.path(), Binding::default())?;
        let watch = Arc::new(Watch::new(count, counts));
        config.observer = Watch::observer(&watch);
        let stop = {
            let watch = Arc::clone(&watch);
            async move { watch.enough().await }
        };
        let client = self.client()?;
        let run = pipeline.run(&client, &mut store, &config, stop);
        let done = tokio::time::timeout(Duration::from_secs(600), run).await.context("the job hangs")?;
        done.map_err(|(error, _)| error)?;
        Ok(watch.lives())
    }
}

pub(crate) fn by_key(stream: Stream) -> Stream {
    stream.key_by(|record: &Record| record.key.clone().unwrap_or_default())
}
