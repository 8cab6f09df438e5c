//! Walks the batches of a Fetch payload without copying them.

use bytes::Bytes;

use super::{
    BatchError, BatchHeader, ControlRecord, DEFAULT_RECORDS_LIMIT, HEADER_BYTES, LENGTH_END, Records,
    SealError, at, bit, compress, control, field, header::stated_size, put, put_crc,
};
use crate::record::{Compression, CompressionLevels};

/// The batches of a Fetch payload, in order; each is checked before it is handed out.
///
/// Ends behind the last complete batch, or with the first error: behind a batch that lies nothing can be trusted.
#[derive(Debug, Clone)]
pub struct Batches {
    /// What was not read yet.
    rest: Bytes,
    /// The first offset that the next batch may have.
    expected: i64,
    read: usize,
    tail: Tail,
}

/// What stands behind the complete batches of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tail {
    /// Nothing, or the end was not reached yet.
    #[default]
    Clean,
    /// The beginning of one more batch. Brokers cut where the size limit falls; fetch again from there.
    Cut {
        /// The bytes that are there.
        bytes: usize,
    },
    /// The beginning of a batch, and no complete one before it: fetching again with the same limit would not help.
    FirstCut {
        /// The bytes that are there.
        bytes: usize,
        /// The size of the batch, if its length field is among them.
        needed_bytes: Option<usize>,
    },
}

/// Where reading goes on behind a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Behind {
    /// The offset behind its last complete batch.
    pub offset: i64,
    /// The leader epoch in which that batch was written, -1 if it does not say.
    pub leader_epoch: i32,
}

/// One whole batch with a valid checksum; its records are still as they were sent.
#[derive(Debug, Clone)]
pub struct Batch {
    header: BatchHeader,
    bytes: Bytes,
}

/// A batch cannot be compressed otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecompressError {
    /// Its records cannot be decompressed.
    #[error(transparent)]
    Read(#[from] BatchError),
    /// They cannot be compressed.
    #[error(transparent)]
    Seal(#[from] SealError),
}

impl Batches {
    /// Walks `payload`, the records of one partition in a Fetch response.
    #[must_use]
    pub fn new(payload: Bytes) -> Self {
        Self { rest: payload, expected: 0, read: 0, tail: Tail::Clean }
    }

    /// Whether the complete batches of `payload` follow one another, by their offsets alone: nothing else is looked at.
    /// Tells what comes behind the last one; nothing if none is complete.
    ///
    /// # Errors
    /// [`BatchError::Order`].
    pub fn check_order(payload: &[u8]) -> Result<Option<Behind>, BatchError> {
        let (mut rest, mut expected, mut behind) = (payload, 0, None);
        while let Some(size) =
            stated_size(rest).ok().flatten().filter(|size| (HEADER_BYTES..=rest.len()).contains(size))
        {
            let (batch, others) = rest.split_at(size);
            let base_offset = i64::from_be_bytes(field(batch, at::BASE_OFFSET));
            if base_offset < expected {
                return Err(BatchError::Order { base_offset, expected });
            }
            let last = i32::from_be_bytes(field(batch, at::LAST_OFFSET_DELTA));
            expected = base_offset.saturating_add(i64::from(last)).saturating_add(1);
            let leader_epoch = i32::from_be_bytes(field(batch, at::LEADER_EPOCH));
            behind = Some(Behind { offset: expected, leader_epoch });
            rest = others;
        }
        Ok(behind)
    }

    /// What stood behind the last batch; known when the iteration has ended.
    #[must_use]
    pub fn tail(&self) -> Tail {
        self.tail
    }

    fn read_next(&mut self) -> Result<Option<Batch>, BatchError> {
        let size = stated_size(&self.rest)?;
        let Some(size) = size.filter(|size| *size <= self.rest.len()) else {
            let bytes = self.rest.len();
            self.tail = match self.read {
                0 => Tail::FirstCut { bytes, needed_bytes: size },
                _ => Tail::Cut { bytes },
            };
            return Ok(None);
        };
        let batch = Batch::parse(self.rest.split_to(size))?;
        let base_offset = batch.header.base_offset;
        if base_offset < self.expected {
            return Err(BatchError::Order { base_offset, expected: self.expected });
        }
        self.expected = batch.header.next_offset();
        self.read += 1;
        Ok(Some(batch))
    }
}

impl Iterator for Batches {
    type Item = Result<Batch, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let next = self.read_next().transpose();
        if !matches!(next, Some(Ok(_))) {
            self.rest = Bytes::new();
        }
        next
    }
}

impl std::iter::FusedIterator for Batches {}

impl Batch {
    /// `bytes` are one batch, as long as it states, with at least a header.
    fn parse(bytes: Bytes) -> Result<Self, BatchError> {
        let header = BatchHeader::parse(&bytes)?;
        header.check_crc(&bytes)?;
        header.check_count(bytes.len() - HEADER_BYTES)?;
        Ok(Self { header, bytes })
    }

    /// The batch that a producer sent for one partition, held to the rules that brokers hold it to (`LogValidator`).
    ///
    /// # Errors
    /// [`BatchError::NotProducible`] if it is not exactly one batch, or breaks a rule; other variants if it cannot be
    /// read.
    pub fn produced(payload: Bytes) -> Result<Self, BatchError> {
        match stated_size(&payload)? {
            Some(size) if size < payload.len() => {
                return Err(BatchError::NotProducible { reason: "there is more than one batch" });
            }
            Some(size) if size == payload.len() => {}
            Some(_) | None => return Err(BatchError::Incomplete { have: payload.len() }),
        }
        let batch = Self::parse(payload)?;
        let BatchHeader { count, last_offset_delta, producer_id, base_sequence, .. } = batch.header;
        let broken = if count == 0 {
            Some("it has no records")
        } else if count - 1 != last_offset_delta {
            Some("its offsets are not contiguous")
        } else if batch.header.is_control() {
            Some("it is a control batch")
        } else if producer_id >= 0 && base_sequence < 0 {
            Some("it has a producer id and no sequence")
        } else {
            None
        };
        broken.map_or(Ok(batch), |reason| Err(BatchError::NotProducible { reason }))
    }

    /// The header.
    #[must_use]
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// The whole batch as it was sent.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The records, decompressed into at most [`DEFAULT_RECORDS_LIMIT`] bytes.
    ///
    /// # Errors
    /// As [`Batch::records_within`].
    pub fn records(&self) -> Result<Records, BatchError> {
        self.records_within(DEFAULT_RECORDS_LIMIT)
    }

    /// The records, decompressed into at most `limit` bytes. Records that are not compressed stay where they are.
    ///
    /// # Errors
    /// [`BatchError::Codec`], [`BatchError::Compressed`] or [`BatchError::TooLarge`] if they cannot be decompressed, and
    /// [`BatchError::Count`] if there cannot be as many as the header says.
    pub fn records_within(&self, limit: usize) -> Result<Records, BatchError> {
        Records::new(&self.header, self.body_within(limit)?)
    }

    /// The bytes of the records, decompressed.
    fn body_within(&self, limit: usize) -> Result<Bytes, BatchError> {
        let body = self.bytes.slice(HEADER_BYTES..);
        if body.is_empty() { Ok(body) } else { compress::decompress(self.header.codec(), body, limit) }
    }

    /// How the records are compressed; nothing if Kafka has no such codec.
    #[must_use]
    pub fn compression(&self) -> Option<Compression> {
        compress::compression(self.header.codec())
    }

    /// The batch with its records compressed otherwise, as a broker keeps it whose topic asks for a codec
    /// (`compression.type`).
    ///
    /// # Errors
    /// [`RecompressError`] if the records cannot be decompressed into [`DEFAULT_RECORDS_LIMIT`] bytes, or cannot be
    /// compressed.
    pub fn recompressed(
        &self,
        compression: Compression,
        levels: CompressionLevels,
    ) -> Result<Self, RecompressError> {
        let mut plain = self.bytes[..HEADER_BYTES].to_vec();
        plain.extend_from_slice(&self.body_within(DEFAULT_RECORDS_LIMIT)?);
        let mut bytes = compress::compress(compression, levels, &plain)?.unwrap_or(plain);
        let too_large = SealError::TooLarge { bytes: bytes.len() };
        let length = i32::try_from(bytes.len() - LENGTH_END).map_err(|_| too_large)?;
        let attributes = self.header.attributes & !bit::CODEC | compress::codec(compression);
        put(&mut bytes, at::LENGTH, length.to_be_bytes());
        put(&mut bytes, at::ATTRIBUTES, attributes.to_be_bytes());
        put_crc(&mut bytes);
        Ok(Self { header: BatchHeader::parse(&bytes)?, bytes: bytes.into() })
    }

    /// What a control batch says. Nothing if this is none, or if compaction has emptied it: what it said is then lost,
    /// and it must not be taken for a marker.
    ///
    /// # Errors
    /// [`BatchError`] if the control record cannot be read.
    pub fn control(&self) -> Result<Option<ControlRecord>, BatchError> {
        if !self.header.is_control() {
            return Ok(None);
        }
        self.records()?.next().map(|record| control::parse(&record?)).transpose()
    }

    /// The batch as compaction leaves one whose records are all gone: its header alone, with offsets and producer.
    ///
    /// # Errors
    /// None that a batch could have which was read.
    pub fn emptied(&self) -> Result<Self, BatchError> {
        let mut bytes = self.bytes[..HEADER_BYTES].to_vec();
        let rest = i32::try_from(HEADER_BYTES - LENGTH_END).unwrap_or(i32::MAX);
        put(&mut bytes, at::LENGTH, rest.to_be_bytes());
        put(&mut bytes, at::ATTRIBUTES, (self.header.attributes & !bit::CODEC).to_be_bytes());
        put(&mut bytes, at::COUNT, 0i32.to_be_bytes());
        put_crc(&mut bytes);
        Self::parse(bytes.into())
    }

    /// A copy of the batch as a broker appends it: at `base_offset`, by the leader of `leader_epoch`, and with the time
    /// of appending where the topic asks for it (`LogAppendTime`), in milliseconds. Only the time costs a new checksum.
    ///
    /// # Errors
    /// [`BatchError::Offsets`] if the batch would not fit below offset 2^63.
    pub fn placed(
        &self,
        base_offset: i64,
        leader_epoch: i32,
        append_time: Option<i64>,
    ) -> Result<Self, BatchError> {
        let mut bytes = self.bytes.to_vec();
        put(&mut bytes, at::BASE_OFFSET, base_offset.to_be_bytes());
        put(&mut bytes, at::LEADER_EPOCH, leader_epoch.to_be_bytes());
        if let Some(time) = append_time {
            put(&mut bytes, at::ATTRIBUTES, (self.header.attributes | bit::APPEND_TIME).to_be_bytes());
            put(&mut bytes, at::MAX_TIMESTAMP, time.to_be_bytes());
            put_crc(&mut bytes);
        }
        Ok(Self { header: BatchHeader::parse(&bytes)?, bytes: bytes.into() })
    }
}
