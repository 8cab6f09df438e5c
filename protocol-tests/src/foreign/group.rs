//! Where a consumer group stands, asked with a foreign client.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{ForeignError, Venv};

const SCRIPT: &str = "group.py";
const LIMIT: Duration = Duration::from_secs(120);

/// A group in one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// What it has committed; `None` for nothing.
    pub committed: Option<i64>,
    /// The partition's high watermark.
    pub end: i64,
}

impl Venv {
    /// Where librdkafka sees a group in every partition of a topic. An offset in an open transaction is not told.
    ///
    /// # Errors
    /// The client fails.
    pub fn standing(
        &self,
        bootstrap: &str,
        group: &str,
        topic: &str,
    ) -> Result<BTreeMap<i32, Standing>, ForeignError> {
        let captured = self.run(SCRIPT, &[bootstrap, group, topic].map(str::to_owned), LIMIT)?;
        let told: BTreeMap<String, (i64, i64)> =
            serde_json::from_str(captured.stdout.trim()).map_err(|e| super::reading::strange(&e))?;
        let one = |(partition, (committed, end)): (String, (i64, i64))| {
            let partition = partition.parse().map_err(|e| super::reading::strange(&e))?;
            Ok((partition, Standing { committed: (committed >= 0).then_some(committed), end }))
        };
        told.into_iter().map(one).collect()
    }
}
