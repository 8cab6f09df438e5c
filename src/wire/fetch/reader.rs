//! Walks the fields of a Fetch response.

use bytes::Bytes;

use super::{
    AbortedTransaction, CurrentLeader, EpochEnd, FetchError, FetchPartition, FetchResponse, FetchTopic,
};
use crate::{
    ids::{NodeId, TopicId, TopicName},
    wire::cursor::{Cursor, Fault},
};

/// The first version with the log's start, with an error and a session, with a preferred replica, with compact lengths, with
/// topics' ids.
pub(super) const FIRST_LOG_START: i16 = 5;
pub(super) const FIRST_SESSION: i16 = 7;
pub(super) const FIRST_PREFERRED_REPLICA: i16 = 11;
pub(super) const FIRST_FLEXIBLE: i16 = 12;
pub(super) const FIRST_TOPIC_IDS: i16 = 13;

/// The tagged fields of a partition that tell where logs part, and its leader.
const TAG_DIVERGING_EPOCH: u32 = 0;
const TAG_CURRENT_LEADER: u32 = 1;

/// No list gets room for more elements than this before they were read.
const MOST_RESERVED: usize = 1_024;

/// The fewest bytes that an element takes in any version.
mod smallest {
    pub(super) const TOPIC: usize = 3;
    pub(super) const PARTITION: usize = 30;
    pub(super) const ABORTED: usize = 16;
}

/// A position in a response.
pub(super) struct Reader<'a> {
    cursor: Cursor<'a>,
    body: &'a Bytes,
    version: i16,
}

impl<'a> Reader<'a> {
    pub(super) fn new(version: i16, body: &'a Bytes) -> Self {
        Self { cursor: Cursor::new(body), body, version }
    }

    pub(super) fn response(mut self) -> Result<FetchResponse, FetchError> {
        let throttle_ms = self.i32()?;
        let (error_code, session_id) =
            if self.version >= FIRST_SESSION { (self.i16()?, self.i32()?) } else { (0, 0) };
        let topics = self.list(Self::topic, smallest::TOPIC)?;
        self.tags()?;
        match self.cursor.remaining() {
            0 => Ok(FetchResponse { throttle_ms, error_code, session_id, topics }),
            bytes => Err(FetchError::Trailing { bytes }),
        }
    }

    fn topic(&mut self) -> Result<FetchTopic, FetchError> {
        let (name, id) = if self.version >= FIRST_TOPIC_IDS {
            (TopicName::from(""), self.topic_id()?)
        } else {
            (self.name()?, TopicId::UNKNOWN)
        };
        let partitions = self.list(Self::partition, smallest::PARTITION)?;
        self.tags()?;
        Ok(FetchTopic { name, id, partitions })
    }

    fn name(&mut self) -> Result<TopicName, FetchError> {
        let length = self.length()?;
        let name = self.bytes(length)?;
        let name = std::str::from_utf8(&name).map_err(|_| FetchError::Name { at: self.cursor.position() })?;
        Ok(TopicName::from(name))
    }

    fn topic_id(&mut self) -> Result<TopicId, FetchError> {
        let mut id = [0; 16];
        id.copy_from_slice(&self.bytes(16)?);
        Ok(TopicId(id))
    }

    fn partition(&mut self) -> Result<FetchPartition, FetchError> {
        let mut partition = FetchPartition {
            index: self.i32()?,
            error_code: self.i16()?,
            high_watermark: self.i64()?,
            last_stable_offset: self.i64()?,
            log_start_offset: if self.version >= FIRST_LOG_START { self.i64()? } else { -1 },
            aborted_transactions: self.nullable_list(Self::aborted, smallest::ABORTED)?,
            preferred_read_replica: None,
            diverging: None,
            current_leader: None,
            records: Bytes::new(),
        };
        if self.version >= FIRST_PREFERRED_REPLICA {
            partition.preferred_read_replica = Some(self.i32()?).filter(|id| *id >= 0).map(NodeId);
        }
        if let Some(length) = self.nullable_count()? {
            partition.records = self.bytes(length)?;
        }
        (partition.diverging, partition.current_leader) = self.partition_tags()?;
        Ok(partition)
    }

    fn aborted(&mut self) -> Result<AbortedTransaction, FetchError> {
        let aborted = AbortedTransaction { producer_id: self.i64()?, first_offset: self.i64()? };
        self.tags()?;
        Ok(aborted)
    }

    /// Passes over tagged fields.
    fn tags(&mut self) -> Result<(), FetchError> {
        self.each_tag(|_, _| Ok(()))
    }

    /// Passes over a partition's tagged fields, but for two.
    fn partition_tags(&mut self) -> Result<(Option<EpochEnd>, Option<CurrentLeader>), FetchError> {
        let (mut diverging, mut leader) = (None, None);
        self.each_tag(|tag, field| {
            if tag == TAG_DIVERGING_EPOCH {
                let (epoch, end_offset) = (field.i32()?, field.i64()?);
                field.tags()?;
                // What it is without anything to say.
                diverging = (epoch >= 0 || end_offset >= 0).then_some(EpochEnd { epoch, end_offset });
            }
            if tag == TAG_CURRENT_LEADER {
                let (leader_id, leader_epoch) = (NodeId(field.i32()?), field.i32()?);
                field.tags()?;
                leader = Some(CurrentLeader { leader_id, leader_epoch });
            }
            Ok(())
        })?;
        Ok((diverging, leader))
    }

    /// Hands each tagged field to `f`, with a reader of its own that ends where the field ends.
    fn each_tag(
        &mut self,
        mut f: impl FnMut(u32, &mut Self) -> Result<(), FetchError>,
    ) -> Result<(), FetchError> {
        if !self.is_flexible() {
            return Ok(());
        }
        // Each takes bytes, so that a count that lies ends with the response.
        for _ in 0..self.unsigned()? {
            let tag = self.unsigned()?;
            let size = self.unsigned()?;
            let size = usize::try_from(size).map_err(|_| self.count_fault(i64::from(size)))?;
            let range = self.cursor.range(size).map_err(|fault| self.fault(fault))?;
            let cursor = Cursor::within(self.body, range);
            f(tag, &mut Self { cursor, body: self.body, version: self.version })?;
        }
        Ok(())
    }

    fn list<T>(
        &mut self,
        element: impl FnMut(&mut Self) -> Result<T, FetchError>,
        smallest: usize,
    ) -> Result<Vec<T>, FetchError> {
        self.nullable_list(element, smallest)?.ok_or_else(|| self.count_fault(-1))
    }

    /// A list whose elements take at least `smallest` bytes each.
    fn nullable_list<T>(
        &mut self,
        mut element: impl FnMut(&mut Self) -> Result<T, FetchError>,
        smallest: usize,
    ) -> Result<Option<Vec<T>>, FetchError> {
        let Some(count) = self.nullable_count()? else { return Ok(None) };
        if count > self.cursor.remaining() / smallest {
            return Err(self.count_fault(i64::try_from(count).unwrap_or(i64::MAX)));
        }
        let mut list = Vec::with_capacity(count.min(MOST_RESERVED));
        for _ in 0..count {
            list.push(element(self)?);
        }
        Ok(Some(list))
    }

    /// The length of a string.
    fn length(&mut self) -> Result<usize, FetchError> {
        if self.is_flexible() {
            return self.nullable_count()?.ok_or_else(|| self.count_fault(-1));
        }
        let length = self.i16()?;
        usize::try_from(length).map_err(|_| self.count_fault(i64::from(length)))
    }

    /// The number of elements or bytes that follow; nothing for null.
    fn nullable_count(&mut self) -> Result<Option<usize>, FetchError> {
        let count = if self.is_flexible() { i64::from(self.unsigned()?) - 1 } else { i64::from(self.i32()?) };
        match usize::try_from(count) {
            Ok(count) => Ok(Some(count)),
            Err(_) if count == -1 => Ok(None),
            Err(_) => Err(self.count_fault(count)),
        }
    }

    fn bytes(&mut self, length: usize) -> Result<Bytes, FetchError> {
        let range = self.cursor.range(length).map_err(|fault| self.fault(fault))?;
        Ok(self.body.slice(range))
    }

    fn i16(&mut self) -> Result<i16, FetchError> {
        self.cursor.i16().map_err(|fault| self.fault(fault))
    }

    fn i32(&mut self) -> Result<i32, FetchError> {
        self.cursor.i32().map_err(|fault| self.fault(fault))
    }

    fn i64(&mut self) -> Result<i64, FetchError> {
        self.cursor.i64().map_err(|fault| self.fault(fault))
    }

    fn unsigned(&mut self) -> Result<u32, FetchError> {
        self.cursor.unsigned().map_err(|fault| self.fault(fault))
    }

    fn is_flexible(&self) -> bool {
        self.version >= FIRST_FLEXIBLE
    }

    fn fault(&self, fault: Fault) -> FetchError {
        let at = self.cursor.position();
        match fault {
            Fault::End => FetchError::End { at },
            Fault::Varint => FetchError::Varint { at },
        }
    }

    fn count_fault(&self, count: i64) -> FetchError {
        FetchError::Count { count, at: self.cursor.position() }
    }
}
