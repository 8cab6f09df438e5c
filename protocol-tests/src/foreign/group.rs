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

/// An offset of a group, with what was committed beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// The offset.
    pub offset: i64,
    /// The leader epoch of what was read last.
    pub leader_epoch: Option<i32>,
    /// The text.
    pub metadata: String,
}

/// Of a partition: offset, high watermark, leader epoch, metadata.
type Told = (i64, i64, Option<i32>, Option<String>);

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
        let one = |(partition, (committed, end, ..)): (i32, Told)| {
            (partition, Standing { committed: (committed >= 0).then_some(committed), end })
        };
        Ok(self.told(&[bootstrap, group, topic])?.into_iter().map(one).collect())
    }

    /// What others see that a group has committed of one partition; `None` for nothing. Offset and leader epoch are told by
    /// librdkafka, the metadata by aiokafka.
    ///
    /// # Errors
    /// The client fails.
    pub fn kept_offset(
        &self,
        bootstrap: &str,
        group: &str,
        topic: &str,
        partition: i32,
    ) -> Result<Option<Kept>, ForeignError> {
        let told = self.told(&[bootstrap, group, topic, "metadata"])?.remove(&partition);
        Ok(told.filter(|(offset, ..)| *offset >= 0).map(|(offset, _, leader_epoch, metadata)| Kept {
            offset,
            leader_epoch: leader_epoch.filter(|epoch| *epoch >= 0),
            metadata: metadata.unwrap_or_default(),
        }))
    }

    fn told(&self, words: &[&str]) -> Result<BTreeMap<i32, Told>, ForeignError> {
        let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
        let captured = self.run(SCRIPT, &words, LIMIT)?;
        let told: BTreeMap<String, Told> =
            serde_json::from_str(captured.stdout.trim()).map_err(|e| super::reading::strange(&e))?;
        let number = |(partition, told): (String, Told)| {
            Ok((partition.parse().map_err(|e| super::reading::strange(&e))?, told))
        };
        told.into_iter().map(number).collect()
    }
}
