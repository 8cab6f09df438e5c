//! Fetch responses, and which of their records a reader of committed ones sees.

use bytes::Bytes;
use kafka_2pc::{
    ids::ProducerId,
    proto::read_committed::{BatchContent, BatchSeen, Filter, Sight},
    wire::{
        api::Api,
        batch::{Batch, Batches, ControlType},
        fetch::{AbortedTransaction, FetchPartition, FetchResponse},
        guard,
    },
};
use kafka_protocol::{
    messages::FetchResponse as Peer, messages::fetch_response as peer, protocol::Decodable,
};

use crate::{input::Input, memory::peak_of};

/// The most memory that reading takes for each byte, as its documentation says, and some more.
const MEMORY_PER_BYTE: u64 = 43;
const MEMORY_SLACK: u64 = 2 * 1024;

/// The version as a byte, then the body of a Fetch response.
///
/// What passes the guard and is decoded by crate kafka-protocol, our reader reads alike; and the filter of aborted
/// transactions agrees with a model that looks at all batches again for each.
pub fn fetch(input: &[u8]) {
    let [version, body @ ..] = input else { return };
    let version = 4 + i16::from(*version) % 10;
    let body = Bytes::copy_from_slice(body);
    let (ours, peak) = peak_of(|| FetchResponse::read(version, &body));
    let bound = MEMORY_PER_BYTE * body.len() as u64 + MEMORY_SLACK;
    assert!(peak <= bound, "{peak} bytes of memory for {}", body.len());
    if guard::check_response(Api::Fetch, version, &body).is_ok() {
        let Ok(peer) = Peer::decode(&mut body.clone(), version) else { panic!("passed the guard") };
        let Ok(ours) = &ours else { panic!("{ours:?}, and the other has {peer:?}") };
        compare(version, ours, &peer);
    }
    for topic in ours.map(|read| read.topics).unwrap_or_default() {
        topic.partitions.iter().for_each(filtered);
    }
}

fn compare(version: i16, ours: &FetchResponse, peer: &Peer) {
    assert_eq!(ours.throttle_ms, peer.throttle_time_ms);
    assert_eq!((ours.error_code, ours.session_id), (peer.error_code, peer.session_id));
    assert_eq!(ours.topics.len(), peer.responses.len());
    for (our, their) in ours.topics.iter().zip(&peer.responses) {
        assert_eq!(&*our.name, &**their.topic);
        assert_eq!(our.id.0, *their.topic_id.as_bytes());
        assert_eq!(our.partitions.len(), their.partitions.len());
        our.partitions.iter().zip(&their.partitions).for_each(|(our, their)| partition(version, our, their));
    }
}

fn partition(version: i16, our: &FetchPartition, their: &peer::PartitionData) {
    assert_eq!((our.index, our.error_code), (their.partition_index, their.error_code));
    let offsets = (our.high_watermark, our.last_stable_offset, our.log_start_offset);
    assert_eq!(offsets, (their.high_watermark, their.last_stable_offset, their.log_start_offset));
    let replica = our.preferred_read_replica.map_or(-1, |node| node.0);
    assert!(replica == their.preferred_read_replica.0 || their.preferred_read_replica.0 < 0 && replica < 0);
    let aborted = their.aborted_transactions.as_ref().map(|list| {
        let entry = |t: &peer::AbortedTransaction| (t.producer_id.0, t.first_offset);
        list.iter().map(entry).collect::<Vec<_>>()
    });
    let list = our.aborted_transactions.as_ref();
    assert_eq!(
        list.map(|list| list.iter().map(|t| (t.producer_id, t.first_offset)).collect::<Vec<_>>()),
        aborted
    );
    if version >= 12 {
        let leader = our.current_leader.map_or((-1, -1), |leader| (leader.leader_id.0, leader.leader_epoch));
        assert_eq!(leader, (their.current_leader.leader_id.0, their.current_leader.leader_epoch));
    }
    assert_eq!(our.records, their.records.clone().unwrap_or_default());
}

/// The batches of a partition, judged and compared.
fn filtered(partition: &FetchPartition) {
    let aborted = partition.aborted_transactions.as_deref().unwrap_or_default();
    let batches: Vec<Batch> = Batches::new(partition.records.clone()).map_while(Result::ok).collect();
    let seen: Vec<_> = batches.iter().map(seen).collect();
    let first = seen.first().map_or(0, |batch| batch.last_offset);
    for position in [0, first, first.saturating_add(1)] {
        agrees(position, aborted, &seen);
    }
}

/// What the filter is told of a batch.
pub(super) fn seen(batch: &Batch) -> BatchSeen {
    let header = batch.header();
    let content = match (header.is_control(), header.is_transactional()) {
        (true, _) => BatchContent::Control(batch.control().ok().flatten().map(|record| record.control_type)),
        (false, true) => BatchContent::Transactional,
        (false, false) => BatchContent::Plain,
    };
    let producer_id = (header.producer_id >= 0).then_some(ProducerId(header.producer_id));
    BatchSeen { last_offset: header.last_offset(), producer_id, content }
}

/// Holds the filter against the model. The batches' offsets rise.
pub(super) fn agrees(position: i64, aborted: &[AbortedTransaction], log: &[BatchSeen]) {
    let mut filter = Filter::committed(position, aborted);
    let mut from = position;
    for (index, batch) in log.iter().enumerate() {
        let expected = match batch.content {
            BatchContent::Control(_) => Sight::Control,
            _ if batch.last_offset < from => Sight::Behind,
            BatchContent::Transactional if is_aborted(index, aborted, log) => Sight::Aborted,
            BatchContent::Plain | BatchContent::Transactional => Sight::Deliver { from },
        };
        assert_eq!(filter.judge(batch), expected, "batch {index} of {log:?} with {aborted:?}");
        from = from.max(batch.last_offset.saturating_add(1));
        assert_eq!(filter.position(), from);
    }
}

/// True if a batch belongs to a listed transaction: one of its producer that begins at this batch or before, and whose
/// abort marker does not stand between.
fn is_aborted(index: usize, aborted: &[AbortedTransaction], log: &[BatchSeen]) -> bool {
    let Some(producer) = log[index].producer_id else { return false };
    let ends = |batch: &BatchSeen| {
        batch.producer_id == Some(producer)
            && batch.content == BatchContent::Control(Some(ControlType::Abort))
    };
    aborted.iter().filter(|entry| entry.producer_id == producer.0).any(|entry| {
        let begins = log.iter().position(|batch| batch.last_offset >= entry.first_offset);
        begins.is_some_and(|begins| begins <= index && !log[begins..index].iter().any(ends))
    })
}

/// A list of aborted transactions in an order that the input chooses.
pub(super) fn shuffled(
    mut list: Vec<AbortedTransaction>,
    choices: &mut Input<'_>,
) -> Vec<AbortedTransaction> {
    for end in (1..list.len()).rev() {
        let other = choices.index(end + 1).unwrap_or(0);
        list.swap(end, other);
    }
    list
}
