//! The transaction coordinator's own requests: InitProducerId (22), AddPartitionsToTxn (24), EndTxn (26).

use bytes::Bytes;
use kafka_protocol::messages::{
    self as kp, AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, EndTxnRequest, EndTxnResponse,
    InitProducerIdRequest, InitProducerIdResponse, add_partitions_to_txn_request::AddPartitionsToTxnTopic,
};

use super::{
    Answered, Call, ExchangeError, Head, by_topic, decode_message, frame_message, str_bytes, throttle,
    topic_name,
};
use crate::{
    ids::{Identity, TopicPartition, TransactionalId},
    wire::{
        api::Api,
        code::ErrorCode,
        versions::{Cap, INIT_OWN_PAIR, TransactionVersion},
    },
};

/// Asks for an identity; fences the owner before us, and aborts what it left open.
#[derive(Debug, Clone)]
pub struct InitProducerId {
    /// The transactional id. Without one, any broker grants a producer id that nobody else has.
    pub transactional_id: Option<TransactionalId>,
    /// `transaction.timeout.ms`; it says nothing without a transactional id.
    pub timeout_ms: i32,
    /// Our own pair (KIP-360): a newer owner is then reported instead of being fenced.
    pub own: Option<Identity>,
}

/// Makes partitions members of the transaction (version 3 and below: the client's form).
#[derive(Debug, Clone)]
pub struct AddPartitionsToTxn {
    /// The transactional id.
    pub transactional_id: TransactionalId,
    /// Its identity.
    pub identity: Identity,
    /// The partitions.
    pub partitions: Vec<TopicPartition>,
}

/// Ends a transaction.
#[derive(Debug, Clone)]
pub struct EndTxn {
    /// The transactional id.
    pub transactional_id: TransactionalId,
    /// The identity under which it was written.
    pub identity: Identity,
    /// True to commit, false to abort.
    pub commit: bool,
    /// The version that was fixed when the transaction began: the broker chooses its rules from it alone.
    pub version: i16,
}

/// An answer to EndTxn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// The error code.
    pub code: ErrorCode,
    /// The pair to use next (version 5).
    pub next: Option<Identity>,
}

impl Call for InitProducerId {
    type Answer = (ErrorCode, Identity);

    fn api(&self) -> Api {
        Api::InitProducerId
    }

    fn floor(&self) -> i16 {
        if self.own.is_some() { INIT_OWN_PAIR } else { 0 }
    }

    fn frame(&self, head: &Head) -> Result<Vec<Bytes>, ExchangeError> {
        let own = self.own.unwrap_or(Identity::new(-1, -1));
        let message = InitProducerIdRequest::default()
            .with_transactional_id(self.transactional_id.as_ref().map(id))
            .with_transaction_timeout_ms(self.timeout_ms)
            .with_producer_id(kp::ProducerId(own.producer_id.0))
            .with_producer_epoch(own.epoch.0);
        frame_message(Api::InitProducerId, head, &message)
    }

    fn decode(&self, version: i16, body: Bytes) -> Result<Answered<Self::Answer>, ExchangeError> {
        let r: InitProducerIdResponse = decode_message(Api::InitProducerId, version, body)?;
        let code = ErrorCode::from_code(r.error_code);
        let identity = Identity::new(r.producer_id.0, r.producer_epoch);
        if code.is_none() && (r.producer_id.0 < 0 || r.producer_epoch < 0) {
            let detail = format!("no error, but {identity}");
            return Err(ExchangeError::malformed(Api::InitProducerId, version, detail));
        }
        Ok(Answered { answer: (code, identity), throttle: throttle(r.throttle_time_ms) })
    }
}

impl Call for AddPartitionsToTxn {
    type Answer = Vec<(TopicPartition, ErrorCode)>;

    fn api(&self) -> Api {
        Api::AddPartitionsToTxn
    }

    fn cap(&self) -> Cap {
        Cap::Transaction(TransactionVersion::V1)
    }

    fn frame(&self, head: &Head) -> Result<Vec<Bytes>, ExchangeError> {
        let topics = by_topic(self.partitions.iter().map(|p| (&p.topic, p.partition)));
        let topics = topics.into_iter().map(|(topic, partitions)| {
            AddPartitionsToTxnTopic::default().with_name(topic_name(topic)).with_partitions(partitions)
        });
        let message = AddPartitionsToTxnRequest::default()
            .with_v3_and_below_transactional_id(id(&self.transactional_id))
            .with_v3_and_below_producer_id(kp::ProducerId(self.identity.producer_id.0))
            .with_v3_and_below_producer_epoch(self.identity.epoch.0)
            .with_v3_and_below_topics(topics.collect());
        frame_message(Api::AddPartitionsToTxn, head, &message)
    }

    fn decode(&self, version: i16, body: Bytes) -> Result<Answered<Self::Answer>, ExchangeError> {
        let r: AddPartitionsToTxnResponse = decode_message(Api::AddPartitionsToTxn, version, body)?;
        let answer = r.results_by_topic_v3_and_below.iter().flat_map(|topic| {
            topic.results_by_partition.iter().map(|p| {
                let partition = TopicPartition::new(&**topic.name, p.partition_index);
                (partition, ErrorCode::from_code(p.partition_error_code))
            })
        });
        Ok(Answered { answer: answer.collect(), throttle: throttle(r.throttle_time_ms) })
    }
}

impl Call for EndTxn {
    type Answer = Ended;

    fn api(&self) -> Api {
        Api::EndTxn
    }

    fn cap(&self) -> Cap {
        let v2 = self.version >= 5;
        Cap::Transaction(if v2 { TransactionVersion::V2 } else { TransactionVersion::V1 })
    }

    fn floor(&self) -> i16 {
        if self.version >= 5 { 5 } else { 0 }
    }

    fn frame(&self, head: &Head) -> Result<Vec<Bytes>, ExchangeError> {
        let message = EndTxnRequest::default()
            .with_transactional_id(id(&self.transactional_id))
            .with_producer_id(kp::ProducerId(self.identity.producer_id.0))
            .with_producer_epoch(self.identity.epoch.0)
            .with_committed(self.commit);
        frame_message(Api::EndTxn, head, &message)
    }

    fn decode(&self, version: i16, body: Bytes) -> Result<Answered<Self::Answer>, ExchangeError> {
        let r: EndTxnResponse = decode_message(Api::EndTxn, version, body)?;
        let told = version >= 5 && r.producer_id.0 >= 0 && r.producer_epoch >= 0;
        let answer = Ended {
            code: ErrorCode::from_code(r.error_code),
            next: told.then(|| Identity::new(r.producer_id.0, r.producer_epoch)),
        };
        Ok(Answered { answer, throttle: throttle(r.throttle_time_ms) })
    }
}

pub(super) fn id(id: &TransactionalId) -> kp::TransactionalId {
    kp::TransactionalId(str_bytes(id.as_str()))
}
