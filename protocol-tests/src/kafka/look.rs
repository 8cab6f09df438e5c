//! What coordinators and leaders say about transactions, asked by hand: fast enough to be asked between two kills.

use std::io;

use super::probe::{self, Cursor, Head};
use super::{KafkaError, ListedTransaction};

const LIST_TRANSACTIONS: i16 = 66;
const DESCRIBE_PRODUCERS: i16 = 61;
const DESCRIBE_TRANSACTIONS: i16 = 65;

/// An open transaction as the leader of its partition shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenProducer {
    /// Its producer id.
    pub producer_id: i64,
    /// The epoch of its last batch.
    pub epoch: i32,
    /// Where its transaction begins.
    pub first_offset: i64,
}

/// A transaction as its coordinator describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    /// Its state, as Kafka names it.
    pub state: String,
    /// Its producer id.
    pub producer_id: i64,
    /// Its epoch.
    pub epoch: i16,
    /// When it began, in milliseconds since 1970; -1 for none.
    pub started_ms: i64,
    /// Its `transaction.timeout.ms`.
    pub timeout_ms: i32,
}

/// ListTransactions v0 on every broker: all transactional ids of the prefix, `PREFIX-...`, in whatever state.
///
/// # Errors
/// A broker does not answer, or refuses.
pub fn transactions(bootstrap: &str, prefix: &str) -> Result<Vec<ListedTransaction>, KafkaError> {
    let brokers = probe::any(bootstrap, |address| probe::metadata(address, &[]))?.brokers;
    let mut all = Vec::new();
    for broker in brokers {
        let body = [1, 1, 0];
        let answer = probe::call(&broker.address, Head::flexible(LIST_TRANSACTIONS, 0), &body)
            .map_err(KafkaError::io(format!("list transactions at {}", broker.address)))?;
        let (code, listed) = listing(&answer, broker.node)
            .map_err(KafkaError::io(format!("read the transactions of {}", broker.address)))?;
        if code != 0 {
            return Err(KafkaError::Refused { api: "ListTransactions", subject: broker.address, code });
        }
        all.extend(listed);
    }
    let of_prefix = |id: &str| id.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('-'));
    all.retain(|transaction| of_prefix(&transaction.transactional_id));
    Ok(all)
}

fn listing(answer: &[u8], coordinator: i32) -> io::Result<(i16, Vec<ListedTransaction>)> {
    let mut at = Cursor::flexible(answer)?;
    at.i32()?;
    let code = at.i16()?;
    at.compact_list(Cursor::compact_string)?;
    let listed = at.compact_list(|at| {
        let (transactional_id, producer_id, state) = (at.compact_string()?, at.i64()?, at.compact_string()?);
        at.skip_tags()?;
        Ok(ListedTransaction { transactional_id, coordinator, producer_id, state })
    })?;
    Ok((code, listed))
}

/// DescribeTransactions v0 at the coordinator of one id; `None` if it does not know it.
///
/// # Errors
/// No broker answers, or the coordinator refuses.
pub fn describe(bootstrap: &str, transactional_id: &str) -> Result<Option<Described>, KafkaError> {
    let node = super::topics::coordinator(bootstrap, transactional_id)?;
    let address = address_of(bootstrap, node)?;
    let mut body = vec![2];
    probe::put_compact_string(&mut body, transactional_id);
    body.push(0);
    let described = probe::call(&address, Head::flexible(DESCRIBE_TRANSACTIONS, 0), &body)
        .and_then(|answer| description(&answer))
        .map_err(KafkaError::io(format!("describe {transactional_id} at {address}")))?;
    match described {
        (0, described) => Ok(Some(described)),
        (TRANSACTIONAL_ID_NOT_FOUND, _) => Ok(None),
        (code, _) => {
            Err(KafkaError::Refused { api: "DescribeTransactions", subject: transactional_id.into(), code })
        }
    }
}

const TRANSACTIONAL_ID_NOT_FOUND: i16 = 105;

fn description(answer: &[u8]) -> io::Result<(i16, Described)> {
    let mut at = Cursor::flexible(answer)?;
    at.i32()?;
    let described = at.compact_list(|at| {
        let code = at.i16()?;
        at.compact_string()?;
        let state = at.compact_string()?;
        let timeout_ms = at.i32()?;
        let (started_ms, producer_id, epoch) = (at.i64()?, at.i64()?, at.i16()?);
        at.compact_list(|at| {
            at.compact_string()?;
            at.compact_list(Cursor::i32)?;
            at.skip_tags()
        })?;
        at.skip_tags()?;
        Ok((code, Described { state, producer_id, epoch, started_ms, timeout_ms }))
    })?;
    described.into_iter().next().ok_or_else(|| probe::strange("an empty answer to DescribeTransactions"))
}

/// DescribeProducers v0 at the leader of a partition: the open transactions.
///
/// # Errors
/// The partition has no leader, or it refuses.
pub fn open_producers(bootstrap: &str, topic: &str, partition: i32) -> Result<Vec<OpenProducer>, KafkaError> {
    let metadata = probe::any(bootstrap, |address| probe::metadata(address, &[topic]))?;
    let leaders = metadata.topics.first().map_or(&[][..], |(_, leaders)| leaders);
    let index = usize::try_from(partition).unwrap_or(usize::MAX);
    let leader = leaders.iter().find(|(number, _)| usize::try_from(*number) == Ok(index));
    let node = leader.map_or(-1, |(_, leader)| *leader);
    let address = address_of(bootstrap, node)?;
    let mut body = vec![2];
    probe::put_compact_string(&mut body, topic);
    body.push(2);
    body.extend(partition.to_be_bytes());
    body.extend([0, 0]);
    let subject = format!("{topic}-{partition}");
    let (code, all) = probe::call(&address, Head::flexible(DESCRIBE_PRODUCERS, 0), &body)
        .and_then(|answer| producers(&answer))
        .map_err(KafkaError::io(format!("describe the producers of {subject} at {address}")))?;
    if code != 0 {
        return Err(KafkaError::Refused { api: "DescribeProducers", subject, code });
    }
    Ok(all.into_iter().filter(|producer| producer.first_offset >= 0).collect())
}

fn producers(answer: &[u8]) -> io::Result<(i16, Vec<OpenProducer>)> {
    let mut at = Cursor::flexible(answer)?;
    at.i32()?;
    let topics = at.compact_list(|at| {
        at.compact_string()?;
        let partitions = at.compact_list(partition_producers)?;
        at.skip_tags()?;
        Ok(partitions)
    })?;
    let first = topics.into_iter().flatten().next();
    first.ok_or_else(|| probe::strange("an empty answer to DescribeProducers"))
}

fn partition_producers(at: &mut Cursor<'_>) -> io::Result<(i16, Vec<OpenProducer>)> {
    at.i32()?;
    let code = at.i16()?;
    at.compact_string()?;
    let producers = at.compact_list(|at| {
        let (producer_id, epoch) = (at.i64()?, at.i32()?);
        at.i32()?;
        at.i64()?;
        at.i32()?;
        let first_offset = at.i64()?;
        at.skip_tags()?;
        Ok(OpenProducer { producer_id, epoch, first_offset })
    })?;
    at.skip_tags()?;
    Ok((code, producers))
}

fn address_of(bootstrap: &str, node: i32) -> Result<String, KafkaError> {
    let brokers = probe::any(bootstrap, |address| probe::metadata(address, &[]))?.brokers;
    let found = brokers.into_iter().find(|broker| broker.node == node);
    let nobody = || KafkaError::BadNode { node: 0, why: "is the leader: there is none" };
    found.map(|broker| broker.address).ok_or_else(nobody)
}
