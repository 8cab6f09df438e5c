//! Outcomes in words.

use std::fmt::Write;

use super::outcome::{CoordinatorSaw, Evidence, LossCause, Outcome, PendingCause};
use crate::proto::evidence::{PartitionVerdict, RecordsLeft};

impl Outcome {
    /// The outcome as an operator wants to read it, with what proves it.
    #[must_use]
    pub fn story(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        _ = match self {
            Self::Committed => write!(text, "committed"),
            Self::AlreadyCommitted(evidence) => {
                write!(text, "already committed ({})", evidence.story())
            }
            Self::Aborted => write!(text, "aborted"),
            Self::Lost { partitions, cause } => {
                _ = write!(text, "LOST: {}", cause.story());
                for p in partitions {
                    _ = write!(text, "; {} offset {} ({} records)", p.partition, p.offset, p.records);
                }
                Ok(())
            }
            Self::Undecidable(why) => {
                _ = write!(text, "undecidable: {}", why.coordinator.story());
                for (partition, verdict) in &why.partitions {
                    _ = write!(text, "; {partition}: {}", verdict.story());
                }
                if why.partitions.is_empty() {
                    _ = write!(text, "; the committable names no partition whose log could tell");
                }
                Ok(())
            }
        };
        text
    }
}

impl Evidence {
    /// What proves the commit.
    #[must_use]
    pub fn story(&self) -> String {
        match self {
            Self::Coordinator(view) => {
                format!("the coordinator shows this transaction in state {}", view.state.name())
            }
            Self::Log { proven_by } => {
                let names: Vec<_> = proven_by.iter().map(ToString::to_string).collect();
                format!("its commit marker is in the log of {}", names.join(", "))
            }
        }
    }
}

impl LossCause {
    /// Who aborted it, as far as is known.
    #[must_use]
    pub fn story(&self) -> String {
        match self {
            Self::AbortedOnRequest(view) => {
                format!("aborted by a request; the coordinator shows {}", view.state.name())
            }
            Self::FencedOrTimedOut(view) => format!(
                "aborted by its timeout or by another owner of the id; the coordinator shows {}",
                view.state.name()
            ),
            Self::Log(markers) => {
                let names: Vec<_> = markers.iter().map(|(p, _)| p.to_string()).collect();
                format!("an abort marker ends it in the log of {}", names.join(", "))
            }
        }
    }
}

impl CoordinatorSaw {
    /// What the coordinator knew.
    #[must_use]
    pub fn story(&self) -> String {
        match self {
            Self::Another(view) => {
                format!(
                    "the coordinator shows another transaction ({}, {})",
                    view.identity,
                    view.state.name()
                )
            }
            Self::NotFound => "the coordinator does not know the id".into(),
            Self::Blind => "the coordinator may not or can't be asked".into(),
        }
    }
}

impl PartitionVerdict {
    /// What the log of a partition shows about the transaction.
    #[must_use]
    pub fn story(&self) -> String {
        match self {
            Self::Committed { records: RecordsLeft::Yes, .. } => "its commit marker is there".into(),
            Self::Committed { records: RecordsLeft::No, .. } => {
                "its commit marker is there, its records are removed".into()
            }
            Self::Aborted { marker_epoch } => format!("an abort marker of epoch {marker_epoch} ends it"),
            Self::CommitOfOtherEpoch { marker_epoch } => {
                format!("a commit marker of epoch {marker_epoch}, which is not its own, ends it")
            }
            Self::NoMarkerYet { last_stable_offset } => {
                format!("no marker ends it, and readers stall at offset {last_stable_offset}")
            }
            Self::MarkerGone => "its marker is removed".into(),
            Self::Gone => "neither its records nor its marker are left".into(),
            Self::TopicRecreated { .. } => "the topic was deleted and created anew".into(),
            Self::TopicMissing => "the topic is deleted".into(),
            Self::Denied => "READ on the topic is missing".into(),
        }
    }
}

impl PendingCause {
    /// What to do about it, for people.
    #[must_use]
    pub fn cure(self) -> &'static str {
        match self {
            Self::NoAnswerYet | Self::NotKnown => {
                "It is asked again; look at the network and at the coordinator. Nothing is lost before \
                 transaction.timeout.ms is over"
            }
            Self::CoordinatorUnavailable | Self::CoordinatorLoading => {
                "Brokers that start or fail over: it passes. Else look at __transaction_state: leaders, \
                 min.insync.replicas. Nothing is lost before transaction.timeout.ms is over"
            }
            Self::Concurrent => {
                "A partition of the transaction has no leader, or its leader is slow: look at the brokers"
            }
            Self::Stuck => "Restart the broker that coordinates the id",
            Self::Leaderless => {
                "Bring the broker back. Nothing is lost before transaction.timeout.ms is over"
            }
            Self::StillOngoing => "It is asked again; look at the coordinator's log",
            Self::EvidenceUnavailable => {
                "A partition has no leader, so its log cannot be read: bring the broker back; it is asked again"
            }
        }
    }
}
