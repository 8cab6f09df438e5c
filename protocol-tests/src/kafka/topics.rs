//! Topics and features of any cluster that has an address.

use std::time::{Duration, Instant};

use super::KafkaError;
use super::probe::{self, NewTopic};

/// A topic to create.
#[derive(Debug, Clone, Default)]
pub struct Topic {
    /// Its name.
    pub name: String,
    /// Number of partitions, at least 1. Not looked at when `assignment` is given.
    pub partitions: i32,
    /// The nodes that hold each partition, leader first; empty: the broker chooses.
    pub assignment: Vec<Vec<i32>>,
    /// Topic configuration.
    pub configs: Vec<(String, String)>,
}

impl Topic {
    /// A topic of this many partitions, placed and replicated as the cluster does by default.
    pub fn new(name: &str, partitions: i32) -> Self {
        Self { name: name.into(), partitions, ..Self::default() }
    }
}

const PATIENCE: Duration = Duration::from_secs(20);
const REQUEST_TIMED_OUT: i16 = 7;
const NOT_CONTROLLER: i16 = 41;

/// Creates a topic, and returns when every broker knows a leader of each partition: before that a Produce may be refused.
///
/// # Errors
/// [`KafkaError::Refused`] with the broker's code (36: it exists), [`KafkaError::NotReady`] when leaders do not appear in 20 s.
pub fn create_topic(bootstrap: &str, topic: &Topic) -> Result<(), KafkaError> {
    let Topic { name, partitions, assignment, configs } = topic;
    let new = NewTopic { name, partitions: *partitions, assignment, configs };
    let deadline = Instant::now() + PATIENCE;
    loop {
        match probe::any(bootstrap, |address| probe::create_topic(address, &new))? {
            0 => break,
            REQUEST_TIMED_OUT | NOT_CONTROLLER if Instant::now() < deadline => pause(),
            code => return Err(KafkaError::Refused { api: "CreateTopics", subject: name.clone(), code }),
        }
    }
    let count =
        if assignment.is_empty() { *partitions } else { i32::try_from(assignment.len()).unwrap_or(i32::MAX) };
    loop {
        let missing = leaderless(bootstrap, name, count)?;
        let Some(missing) = missing else { return Ok(()) };
        if Instant::now() >= deadline {
            return Err(KafkaError::NotReady { waited: PATIENCE, last: missing });
        }
        pause();
    }
}

/// The finalized level of the feature `transaction.version`; 0 on Kafka 3.
///
/// # Errors
/// No broker of the list answers.
pub fn transaction_version(bootstrap: &str) -> Result<i16, KafkaError> {
    probe::any(bootstrap, |address| probe::feature_level(address, "transaction.version"))
}

/// How many brokers a cluster has now.
///
/// # Errors
/// No broker of the list answers.
pub fn broker_count(bootstrap: &str) -> Result<usize, KafkaError> {
    probe::any(bootstrap, |address| probe::metadata(address, &[])).map(|metadata| metadata.brokers.len())
}

/// The node that coordinates a transactional id, by number.
///
/// # Errors
/// No broker answers, or [`KafkaError::Refused`] with the broker's code.
pub(crate) fn coordinator(bootstrap: &str, transactional_id: &str) -> Result<i32, KafkaError> {
    match probe::any(bootstrap, |address| probe::find_coordinator(address, transactional_id))? {
        (0, node) => Ok(node),
        (code, _) => {
            Err(KafkaError::Refused { api: "FindCoordinator", subject: transactional_id.into(), code })
        }
    }
}

/// What still lacks a leader, as every broker sees it.
fn leaderless(bootstrap: &str, name: &str, count: i32) -> Result<Option<String>, KafkaError> {
    let listed = probe::any(bootstrap, |address| probe::metadata(address, &[name]))?;
    for broker in listed.brokers {
        let seen = probe::metadata(&broker.address, &[name]);
        let led = seen.as_ref().is_ok_and(|seen| {
            seen.topics.iter().any(|(error, leaders)| {
                *error == 0
                    && i32::try_from(leaders.len()) == Ok(count)
                    && leaders.iter().all(|(_, leader)| *leader >= 0)
            })
        });
        if !led {
            return Ok(Some(format!("{} knows of topic {name}: {seen:?}", broker.address)));
        }
    }
    Ok(None)
}

fn pause() {
    std::thread::sleep(Duration::from_millis(50));
}
