//! Requests made to fit this broker: otherwise most would be refused at the first look.

use bytes::{Bytes, BytesMut};
use kafka_2pc::{
    ids::{Identity, TopicId},
    wire::{
        api::Api,
        frame::{RequestHeader, decode_response_header},
        guard::{self, Direction, sample},
    },
};
use kafka_protocol::{
    messages::{self as m, ApiKey, RequestKind},
    protocol::Decodable,
};

use uuid::Uuid;

use super::TOPICS;
use crate::targets::batch::mended;

/// The longest that a request may wait, in milliseconds.
const LONGEST_WAIT_MS: i32 = 60_000;

/// What the broker has told.
#[derive(Debug)]
pub(super) struct Known {
    /// The ids of [`TOPICS`].
    pub(super) topic_ids: [TopicId; TOPICS.len()],
    /// Producer id and epoch that it gave out last.
    pub(super) identity: Option<Identity>,
}

impl Known {
    /// The request with the broker's own ids, right checksums and short waits; as it is where it cannot be read.
    pub(super) fn mended(&self, frame: &[u8]) -> Bytes {
        let frame = Bytes::copy_from_slice(frame);
        self.try_mended(frame.clone()).unwrap_or(frame)
    }

    fn try_mended(&self, mut rest: Bytes) -> Option<Bytes> {
        let header = RequestHeader::decode(&mut rest).ok()?;
        let (api, version) = (header.api, header.version);
        if !sample::versions(Direction::Request, api).contains(version) {
            return None;
        }
        guard::check_request(api, version, &rest).ok()?;
        let mut request = RequestKind::decode(ApiKey::try_from(api.key()).ok()?, &mut rest, version).ok()?;
        self.mend(version, &mut request);
        let mut out = BytesMut::new();
        header.encode(&mut out);
        request.encode(&mut out, version).ok()?;
        Some(out.freeze())
    }

    fn mend(&self, version: i16, request: &mut RequestKind) {
        match request {
            RequestKind::Produce(request) => self.produce(version, request),
            RequestKind::Fetch(request) => {
                request.max_wait_ms = request.max_wait_ms.min(LONGEST_WAIT_MS);
                if version >= 13 {
                    let ids = request.topics.iter_mut().map(|topic| &mut topic.topic_id);
                    ids.zip(self.topic_ids).for_each(|(id, known)| *id = uuid(known));
                }
            }
            RequestKind::JoinGroup(request) => {
                request.session_timeout_ms = request.session_timeout_ms.min(LONGEST_WAIT_MS);
                request.rebalance_timeout_ms = request.rebalance_timeout_ms.min(LONGEST_WAIT_MS);
            }
            RequestKind::AddPartitionsToTxn(r) => {
                self.identify(&mut r.v3_and_below_producer_id, &mut r.v3_and_below_producer_epoch);
            }
            RequestKind::AddOffsetsToTxn(r) => self.identify(&mut r.producer_id, &mut r.producer_epoch),
            RequestKind::TxnOffsetCommit(r) => self.identify(&mut r.producer_id, &mut r.producer_epoch),
            RequestKind::EndTxn(r) => self.identify(&mut r.producer_id, &mut r.producer_epoch),
            _ => {}
        }
    }

    /// The identity that was given out last, where the request names one at all; one in four ids stands for itself.
    fn identify(&self, producer_id: &mut m::ProducerId, epoch: &mut i16) {
        let Some(known) = self.identity.filter(|_| producer_id.0 >= 0 && producer_id.0 % 4 < 3) else {
            return;
        };
        *producer_id = m::ProducerId(known.producer_id.0);
        *epoch = known.epoch.0;
    }

    fn produce(&self, version: i16, request: &mut m::ProduceRequest) {
        request.timeout_ms = request.timeout_ms.min(LONGEST_WAIT_MS);
        for (topic, id) in request.topic_data.iter_mut().zip(self.topic_ids) {
            if version >= 13 {
                topic.topic_id = uuid(id);
            }
            for records in topic.partition_data.iter_mut().filter_map(|data| data.records.as_mut()) {
                let mut batch = BytesMut::from(&records[..]);
                if let (Some(known), Some(fields)) = (self.identity, batch.get_mut(43..53)) {
                    if fields[0] < 0x80 && fields[7] % 4 < 3 {
                        fields[..8].copy_from_slice(&known.producer_id.0.to_be_bytes());
                        fields[8..].copy_from_slice(&known.epoch.0.to_be_bytes());
                    }
                }
                *records = mended(&batch).unwrap_or_else(|| records.clone());
            }
        }
    }

    /// Takes the identity out of an answer.
    pub(super) fn learn(&mut self, header: &RequestHeader, mut frame: Bytes) {
        let version = header.version;
        if decode_response_header(&mut frame, header.api, version).is_err() {
            return;
        }
        let told = match header.api {
            Api::InitProducerId => m::InitProducerIdResponse::decode(&mut frame, version)
                .map(|told| (told.producer_id, told.producer_epoch)),
            Api::EndTxn => m::EndTxnResponse::decode(&mut frame, version)
                .map(|told| (told.producer_id, told.producer_epoch)),
            _ => return,
        };
        if let Some((id, epoch)) = told.ok().filter(|(id, _)| id.0 >= 0) {
            self.identity = Some(Identity::new(id.0, epoch));
        }
    }
}

fn uuid(id: TopicId) -> Uuid {
    Uuid::from_bytes(id.0)
}

/// The field `acks` of a Produce request that can be read.
pub(super) fn acks(version: i16, body: &[u8]) -> Option<i16> {
    let range = sample::versions(Direction::Request, Api::Produce);
    if !range.contains(version) || guard::check_request(Api::Produce, version, body).is_err() {
        return None;
    }
    m::ProduceRequest::decode(&mut Bytes::copy_from_slice(body), version).ok().map(|request| request.acks)
}
