//! Reading along with a foreign client while a topic is written.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::{ForeignError, Venv};

const SCRIPT: &str = "follower.py";

/// What to follow: a topic whose partition `p` holds the numbers `p`, `p + partitions` and so on.
#[derive(Debug, Clone, Copy)]
pub struct Following<'a> {
    /// Where the cluster is.
    pub bootstrap: &'a str,
    /// The topic.
    pub topic: &'a str,
    /// How many partitions it has.
    pub partitions: u32,
    /// Where the client writes how many records it has read.
    pub progress: &'a Path,
    /// A file that holds how many there are, as soon as that is known: put there in one step.
    pub done: &'a Path,
    /// How long all of it may take.
    pub limit: Duration,
}

/// What a follower saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Followed {
    /// Committed records.
    pub records: u64,
    /// Those that were not the next number of their partition.
    pub wrong: u64,
    /// A few of these, as JSON.
    pub examples: String,
}

impl Venv {
    /// Follows a topic with librdkafka until everything is read.
    ///
    /// # Errors
    /// The client fails, or nothing comes for a minute. Wrong numbers are no error: see [`Followed::wrong`].
    pub fn follow(&self, following: &Following<'_>) -> Result<Followed, ForeignError> {
        let Following { bootstrap, topic, partitions, progress, done, limit } = *following;
        let (partitions, progress) = (partitions.to_string(), progress.display().to_string());
        let done = done.display().to_string();
        let words = [
            ("--bootstrap", bootstrap),
            ("--topic", topic),
            ("--partitions", &partitions),
            ("--progress", &progress),
            ("--done", &done),
        ];
        let words: Vec<_> = words.into_iter().flat_map(|(name, value)| [name, value]).collect();
        let words: Vec<_> = words.into_iter().map(str::to_owned).collect();
        let captured = self.run(SCRIPT, &words, limit)?;
        let strange = |what: String| ForeignError::Strange { script: SCRIPT, what };
        let summary: Value =
            serde_json::from_str(captured.stdout.trim()).map_err(|e| strange(e.to_string()))?;
        let count =
            |name: &str| summary[name].as_u64().ok_or_else(|| strange(format!("no {name} in {summary}")));
        Ok(Followed {
            records: count("records")?,
            wrong: count("wrong")?,
            examples: summary["examples"].to_string(),
        })
    }
}
