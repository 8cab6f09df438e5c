//! Produce requests as frames whose batches are sent from where they are.
//!
//! ```text
//! [ length, header, transactional id, acks, timeout, topic, partition, size ] [ batch ] [ partition, size ] [ batch ] [ .. ]
//!   one small allocation, cut into the pieces between the batches               shared, never copied
//! ```
//!
//! Versions 3 (the first with a transactional id) to 13, which has the topic's id in the place of its name. All fields but the
//! batches fit into a few hundred bytes, so that a vectored write of the pieces costs no copy of the payload.

use bytes::{BufMut, Bytes};

use super::varint::Scratch;
use crate::ids::TopicId;

/// The key of the Produce API.
const API_KEY: i16 = 0;

/// The first version with compact lengths and tagged fields (KIP-482).
const FIRST_FLEXIBLE: i16 = 9;

/// The first version that tells topics by their ids (KIP-516).
pub const TOPIC_IDS: i16 = 13;

/// A frame begins with its length.
const LENGTH_BYTES: usize = 4;

/// Every in-sync replica has the batch. Transactions allow nothing less.
const ACKS_ALL: i16 = -1;

/// What a Produce request says before its batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProduceHead<'a> {
    /// The API version, 3 to 13.
    pub version: i16,
    /// The number that the response repeats.
    pub correlation_id: i32,
    /// The client's name, for the broker's logs and quotas.
    pub client_id: Option<&'a str>,
    /// The transactional id, if the batches belong to a transaction.
    pub transactional_id: Option<&'a str>,
    /// How long the broker may wait for its replicas, in milliseconds.
    pub timeout_ms: i32,
}

/// The batches for one topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProduceTopic<'a> {
    /// The topic's name, which versions to 12 carry.
    pub name: &'a str,
    /// Its id, which version 13 carries.
    pub id: TopicId,
    /// Its partitions, each with exactly one batch.
    pub partitions: &'a [(i32, Bytes)],
}

/// Why a request could not be framed. The caller is at fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProduceError {
    /// The version is not one of 3 to 13.
    #[error("Produce requests of version {0} are not supported")]
    Version(i16),
    /// Version 13 was asked for, and a topic's id is not known.
    #[error("Produce requests of version 13 need the id of each topic")]
    TopicId,
    /// A name or id has more than 32767 bytes.
    #[error("a name of {bytes} bytes does not fit into a request")]
    Name {
        /// Its length.
        bytes: usize,
    },
    /// The request passes 2 GiB.
    #[error("a request of {bytes} bytes passes 2 GiB")]
    TooLarge {
        /// Its length.
        bytes: usize,
    },
}

/// The request as pieces of one frame, its length first, to be written one after another.
///
/// # Errors
/// [`ProduceError`] for a version, name or size that the protocol cannot carry.
pub fn frame(head: &ProduceHead<'_>, topics: &[ProduceTopic<'_>]) -> Result<Vec<Bytes>, ProduceError> {
    if !(3..=TOPIC_IDS).contains(&head.version) {
        return Err(ProduceError::Version(head.version));
    }
    let batches: usize = topics.iter().map(|topic| topic.partitions.len()).sum();
    let names: usize = topics.iter().map(|topic| topic.name.len() + 16).sum();
    let ids = head.client_id.map_or(0, str::len) + head.transactional_id.map_or(0, str::len);
    let mut frame = Frame {
        small: Vec::with_capacity(64 + ids + names + 16 * batches),
        batches: Vec::with_capacity(batches),
        is_flexible: head.version >= FIRST_FLEXIBLE,
    };
    // Room for the length, which is known at the end.
    frame.small.put_i32(0);
    frame.head(head)?;
    frame.count(topics.len())?;
    for topic in topics {
        if head.version < TOPIC_IDS {
            frame.string(Some(topic.name))?;
        } else if topic.id.is_known() {
            frame.small.put_slice(&topic.id.0);
        } else {
            return Err(ProduceError::TopicId);
        }
        frame.count(topic.partitions.len())?;
        for (partition, batch) in topic.partitions {
            frame.small.put_i32(*partition);
            frame.count(batch.len())?;
            frame.batches.push((frame.small.len(), batch));
            frame.no_tags();
        }
        frame.no_tags();
    }
    frame.no_tags();
    frame.pieces()
}

/// A frame under construction.
struct Frame<'a> {
    /// Everything but the batches.
    small: Vec<u8>,
    /// The batches, and where in `small` each belongs.
    batches: Vec<(usize, &'a Bytes)>,
    is_flexible: bool,
}

impl Frame<'_> {
    fn head(&mut self, head: &ProduceHead<'_>) -> Result<(), ProduceError> {
        self.small.put_i16(API_KEY);
        self.small.put_i16(head.version);
        self.small.put_i32(head.correlation_id);
        // The client id is never compact: brokers read it before they look at the version.
        self.plain_string(head.client_id)?;
        self.no_tags();
        self.string(head.transactional_id)?;
        self.small.put_i16(ACKS_ALL);
        self.small.put_i32(head.timeout_ms);
        Ok(())
    }

    fn plain_string(&mut self, text: Option<&str>) -> Result<(), ProduceError> {
        self.small.put_i16(text.map_or(Ok(-1), name_len)?);
        self.small.put_slice(text.unwrap_or_default().as_bytes());
        Ok(())
    }

    fn string(&mut self, text: Option<&str>) -> Result<(), ProduceError> {
        if !self.is_flexible {
            return self.plain_string(text);
        }
        // A compact length is one more than the length, and 0 for null.
        let compact = text.map_or(Ok(0), |text| name_len(text).map(|len| i64::from(len) + 1))?;
        self.unsigned(compact);
        self.small.put_slice(text.unwrap_or_default().as_bytes());
        Ok(())
    }

    /// The number of elements or bytes that follow.
    fn count(&mut self, count: usize) -> Result<(), ProduceError> {
        let plain = i32::try_from(count).map_err(|_| ProduceError::TooLarge { bytes: count })?;
        if self.is_flexible {
            self.unsigned(i64::from(plain) + 1);
        } else {
            self.small.put_i32(plain);
        }
        Ok(())
    }

    fn no_tags(&mut self) {
        if self.is_flexible {
            self.small.put_u8(0);
        }
    }

    /// `number` is not negative.
    fn unsigned(&mut self, number: i64) {
        let mut scratch = Scratch::new();
        scratch.unsigned(number.unsigned_abs());
        self.small.put_slice(scratch.as_slice());
    }

    /// Writes the length and cuts the small fields where the batches go.
    fn pieces(mut self) -> Result<Vec<Bytes>, ProduceError> {
        let payload = self.batches.iter().fold(0usize, |sum, (_, batch)| sum.saturating_add(batch.len()));
        let bytes = (self.small.len() - LENGTH_BYTES).saturating_add(payload);
        let length = i32::try_from(bytes).map_err(|_| ProduceError::TooLarge { bytes })?;
        self.small[..LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
        let mut rest = Bytes::from(self.small);
        let mut pieces = Vec::with_capacity(2 * self.batches.len() + 1);
        let mut cut = 0;
        for (at, batch) in self.batches {
            pieces.push(rest.split_to(at - cut));
            pieces.push(batch.clone());
            cut = at;
        }
        if !rest.is_empty() {
            pieces.push(rest);
        }
        Ok(pieces)
    }
}

fn name_len(text: &str) -> Result<i16, ProduceError> {
    i16::try_from(text.len()).map_err(|_| ProduceError::Name { bytes: text.len() })
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use kafka_protocol::{
        messages::{
            ApiKey, ProduceRequest, RequestHeader, TopicName, TransactionalId,
            produce_request::{PartitionProduceData, TopicProduceData},
        },
        protocol::{Encodable, StrBytes},
    };
    use proptest::{collection::vec, option, prelude::*};

    use super::*;

    /// Name and id, and the batches by partition.
    type Topic = ((String, [u8; 16]), Vec<(i32, Bytes)>);
    type Topics = Vec<Topic>;

    fn framed(head: &ProduceHead<'_>, topics: &Topics) -> Result<Vec<Bytes>, ProduceError> {
        let topics: Vec<_> = topics
            .iter()
            .map(|((name, id), partitions)| ProduceTopic { name, id: TopicId(*id), partitions })
            .collect();
        frame(head, &topics)
    }

    /// The same request by `kafka-protocol`.
    fn foreign(head: &ProduceHead<'_>, topics: &Topics) -> BytesMut {
        let text = |text: &str| StrBytes::from_string(text.to_owned());
        let header = RequestHeader::default()
            .with_request_api_key(ApiKey::Produce as i16)
            .with_request_api_version(head.version)
            .with_correlation_id(head.correlation_id)
            .with_client_id(head.client_id.map(text));
        let partition = |(index, batch): &(i32, Bytes)| {
            PartitionProduceData::default().with_index(*index).with_records(Some(batch.clone()))
        };
        let by_name = head.version < TOPIC_IDS;
        let topic = |((name, id), partitions): &Topic| {
            TopicProduceData::default()
                .with_name(if by_name { TopicName(text(name)) } else { TopicName::default() })
                .with_topic_id(if by_name { uuid::Uuid::nil() } else { uuid::Uuid::from_bytes(*id) })
                .with_partition_data(partitions.iter().map(partition).collect())
        };
        let request = ProduceRequest::default()
            .with_transactional_id(head.transactional_id.map(|id| TransactionalId(text(id))))
            .with_acks(-1)
            .with_timeout_ms(head.timeout_ms)
            .with_topic_data(topics.iter().map(topic).collect());
        let mut body = BytesMut::new();
        header.encode(&mut body, ApiKey::Produce.request_header_version(head.version)).unwrap();
        request.encode(&mut body, head.version).unwrap();
        let mut frame = BytesMut::new();
        frame.put_i32(i32::try_from(body.len()).unwrap());
        frame.put_slice(&body);
        frame
    }

    fn any_topics() -> impl Strategy<Value = Topics> {
        let batch = vec(any::<u8>(), 0..300).prop_map(Bytes::from);
        let id = any::<[u8; 16]>().prop_filter("an id", |id| *id != [0; 16]);
        vec((("[a-z.é]{1,140}", id), vec((any::<i32>(), batch), 0..5)), 0..5)
    }

    proptest! {
        #[test]
        fn frames_are_those_of_the_schema(
            version in 3..=13i16,
            correlation_id in any::<i32>(),
            client_id in option::of("[a-z]{0,20}"),
            transactional_id in option::of("[a-zü-]{0,150}"),
            timeout_ms in any::<i32>(),
            topics in any_topics(),
        ) {
            let head = ProduceHead {
                version,
                correlation_id,
                client_id: client_id.as_deref(),
                transactional_id: transactional_id.as_deref(),
                timeout_ms,
            };
            let pieces = framed(&head, &topics).unwrap();
            let batches = topics.iter().flat_map(|(_, partitions)| partitions).map(|(_, batch)| batch);
            for (piece, batch) in pieces.iter().skip(1).step_by(2).zip(batches) {
                prop_assert_eq!(piece.as_ptr(), batch.as_ptr());
            }
            prop_assert_eq!(pieces.concat(), foreign(&head, &topics));
        }
    }

    const HEAD: ProduceHead<'_> = ProduceHead {
        version: 9,
        correlation_id: 1,
        client_id: None,
        transactional_id: None,
        timeout_ms: 30_000,
    };

    #[test]
    fn versions_outside_of_three_to_thirteen_are_refused() {
        for version in [-1, 2, 14] {
            assert_eq!(frame(&ProduceHead { version, ..HEAD }, &[]), Err(ProduceError::Version(version)));
        }
    }

    #[test]
    fn a_topic_without_an_id_is_no_topic_of_version_thirteen() {
        let topics = [ProduceTopic { name: "t", id: TopicId::UNKNOWN, partitions: &[] }];
        assert_eq!(frame(&ProduceHead { version: 13, ..HEAD }, &topics), Err(ProduceError::TopicId));
        assert!(frame(&ProduceHead { version: 12, ..HEAD }, &topics).is_ok());
    }

    #[test]
    fn names_longer_than_the_protocol_allows_are_refused() {
        let name = "x".repeat(32_768);
        let refused = Err(ProduceError::Name { bytes: 32_768 });
        for version in [3, 9] {
            let head = ProduceHead { version, ..HEAD };
            let topic = ProduceTopic { name: &name, id: TopicId::UNKNOWN, partitions: &[] };
            assert_eq!(frame(&head, &[topic]), refused);
            assert_eq!(frame(&ProduceHead { transactional_id: Some(&name), ..head }, &[]), refused);
            assert_eq!(frame(&ProduceHead { client_id: Some(&name), ..head }, &[]), refused);
        }
    }

    #[test]
    fn a_frame_beyond_two_gibibytes_is_refused() {
        let partitions = vec![(0, Bytes::from(vec![0; 1 << 20])); 2_048];
        let topics = [ProduceTopic { name: "t", id: TopicId::UNKNOWN, partitions: &partitions }];
        assert!(matches!(frame(&HEAD, &topics), Err(ProduceError::TooLarge { .. })));
    }
}
