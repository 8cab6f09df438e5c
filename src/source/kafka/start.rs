//! Where reading begins in a partition of which the checkpoint says nothing.

use std::{collections::BTreeMap, str::FromStr};

use crate::{
    client::OutOfRangePolicy,
    ids::{GroupId, TopicPartition},
};

/// Where reading begins in the partitions of a topic that the restored checkpoint does not know, or at a first start
/// (`scan.startup.mode`). Partitions that are added to a known topic are always read from their earliest offset, for
/// nothing of them was read before.
///
/// As text: `earliest` or `earliest-offset`, `latest` or `latest-offset`, `timestamp:1700000000000` in milliseconds,
/// `offsets:flights-0=42,flights-1=300`, and `group-offsets:GROUP`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum StartFrom {
    /// At the log's start.
    #[default]
    Earliest,
    /// Behind what is there, for a reader of committed records the last stable offset. It is fixed when the reader
    /// opens.
    Latest,
    /// At the first record that is not older than this, in milliseconds since the Unix epoch; [`Latest`](Self::Latest)
    /// if there is none.
    Timestamp(i64),
    /// At these offsets; partitions that are not named at the earliest one. A partition that the topic does not have is an
    /// error.
    Offsets(BTreeMap<TopicPartition, i64>),
    /// Where a consumer group stands. An offset that an open transaction holds back is waited for.
    Committed {
        /// `group.id`.
        group: GroupId,
        /// `auto.offset.reset`: what is done in a partition of which the group has committed nothing. As text an error.
        otherwise: OutOfRangePolicy,
    },
}

/// A text is no start position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no start position: earliest, latest, timestamp:MILLISECONDS, offsets:TOPIC-PARTITION=OFFSET,.. or \
     group-offsets:GROUP are"
)]
pub struct StartError(String);

impl FromStr for StartFrom {
    type Err = StartError;

    fn from_str(text: &str) -> Result<Self, StartError> {
        let unknown = || StartError(text.to_owned());
        match text.trim() {
            "earliest" | "earliest-offset" => Ok(Self::Earliest),
            "latest" | "latest-offset" => Ok(Self::Latest),
            other => match other.split_once(':') {
                Some(("timestamp", ms)) => ms.parse().ok().filter(|ms| *ms >= 0).map(Self::Timestamp),
                Some(("offsets", pairs)) => {
                    pairs.split(',').map(offset).collect::<Option<_>>().map(Self::Offsets)
                }
                Some(("group-offsets", group)) if !group.trim().is_empty() => Some(Self::Committed {
                    group: GroupId::new(group.trim()),
                    otherwise: OutOfRangePolicy::Error,
                }),
                _ => None,
            }
            .ok_or_else(unknown),
        }
    }
}

fn offset(pair: &str) -> Option<(TopicPartition, i64)> {
    let (place, offset) = pair.split_once('=')?;
    let (topic, partition) = place.trim().rsplit_once('-')?;
    let partition = partition.parse().ok().filter(|partition| *partition >= 0)?;
    let offset = offset.trim().parse().ok().filter(|offset| *offset >= 0)?;
    (!topic.is_empty()).then(|| (TopicPartition::new(topic, partition), offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_that_people_know_are_read() {
        let offsets = [(TopicPartition::new("a-b", 0), 42), (TopicPartition::new("c", 11), 300)];
        for (text, start) in [
            ("earliest", StartFrom::Earliest),
            ("earliest-offset", StartFrom::Earliest),
            ("latest", StartFrom::Latest),
            ("latest-offset", StartFrom::Latest),
            ("timestamp:1700000000000", StartFrom::Timestamp(1_700_000_000_000)),
            ("offsets:a-b-0=42, c-11=300", StartFrom::Offsets(offsets.into())),
            (
                "group-offsets:g",
                StartFrom::Committed { group: GroupId::new("g"), otherwise: OutOfRangePolicy::Error },
            ),
        ] {
            assert_eq!(text.parse(), Ok(start), "{text}");
        }
    }

    #[test]
    fn what_is_no_start_is_named() {
        for text in [
            "",
            "group-offsets",
            "group-offsets: ",
            "timestamp:-5",
            "timestamp:x",
            "offsets:a=1",
            "offsets:-0=1",
            "offsets:a-0=-1",
        ] {
            let error = text.parse::<StartFrom>().unwrap_err();
            assert!(error.to_string().starts_with(&format!("{text:?}")), "{error}");
        }
    }
}
