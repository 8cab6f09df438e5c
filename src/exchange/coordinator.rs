//! Finding coordinators, and asking those of transactions: FindCoordinator (10), DescribeTransactions (65),
//! ListTransactions (66).

use bytes::Bytes;
use kafka_protocol::messages::{
    DescribeTransactionsRequest, DescribeTransactionsResponse, FindCoordinatorRequest,
    FindCoordinatorResponse, ListTransactionsRequest, ListTransactionsResponse,
};

use super::{
    Answered, Call, ExchangeError, Head, decode_message, frame_message, str_bytes, throttle, transaction::id,
};
use crate::{
    ids::{CoordinatorKey, Identity, NodeId, ProducerId, TopicPartition, TransactionalId},
    proto::resume::CoordinatorState,
    wire::{
        api::Api,
        code::ErrorCode,
        versions::{FIND_TRANSACTION_COORDINATOR, LIST_BY_PATTERN},
    },
};

/// Asks any broker who coordinates a transactional id or a group.
#[derive(Debug, Clone)]
pub struct FindCoordinator {
    /// What is coordinated.
    pub key: CoordinatorKey,
}

/// Asks the coordinator what it knows of a transaction (KIP-664).
#[derive(Debug, Clone)]
pub struct DescribeTransactions {
    /// The transactional id.
    pub transactional_id: TransactionalId,
}

/// The same for several transactional ids of one coordinator.
#[derive(Debug, Clone)]
pub struct DescribeAll {
    ids: Vec<TransactionalId>,
}

impl DescribeAll {
    /// Of these ids, each once.
    #[must_use]
    pub fn of(mut ids: Vec<TransactionalId>) -> Self {
        ids.sort();
        ids.dedup();
        Self { ids }
    }
}

/// Asks one broker which transactions it coordinates.
#[derive(Debug, Clone, Default)]
pub struct ListTransactions {
    /// Only those in these states; all if empty.
    pub states: Vec<CoordinatorState>,
    /// Only ids that match this RE2 pattern as a whole; the caller filters itself where the broker is too old.
    pub pattern: Option<String>,
}

/// What a coordinator says of a transactional id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    /// The error code; the rest has a meaning without an error only.
    pub code: ErrorCode,
    /// The state.
    pub state: CoordinatorState,
    /// The current pair.
    pub identity: Identity,
    /// When the newest transaction began, in milliseconds since the Unix epoch; `None` if there was none.
    pub start_ms: Option<i64>,
    /// Its timeout in milliseconds.
    pub timeout_ms: i32,
    /// Its partitions; while a marker is due, those that lack it.
    pub partitions: Vec<TopicPartition>,
}

/// One transaction in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The transactional id.
    pub transactional_id: TransactionalId,
    /// Its producer id.
    pub producer_id: ProducerId,
    /// Its state.
    pub state: CoordinatorState,
}

impl Call for FindCoordinator {
    type Answer = Result<NodeId, (ErrorCode, String)>;

    fn api(&self) -> Api {
        Api::FindCoordinator
    }

    fn floor(&self) -> i16 {
        match self.key {
            CoordinatorKey::Group(_) => 0,
            CoordinatorKey::Transaction(_) => FIND_TRANSACTION_COORDINATOR,
        }
    }

    fn frame(&self, head: &Head) -> Result<Vec<Bytes>, ExchangeError> {
        let key = str_bytes(self.key.as_str());
        let key_type = match self.key {
            CoordinatorKey::Group(_) => 0,
            CoordinatorKey::Transaction(_) => 1,
        };
        let message = FindCoordinatorRequest::default().with_key_type(key_type);
        let message =
            if head.version >= 4 { message.with_coordinator_keys(vec![key]) } else { message.with_key(key) };
        frame_message(Api::FindCoordinator, head, &message)
    }

    fn decode(&self, version: i16, body: Bytes) -> Result<Answered<Self::Answer>, ExchangeError> {
        let r: FindCoordinatorResponse = decode_message(Api::FindCoordinator, version, body)?;
        let (node, code, message) = if version >= 4 {
            let found = r.coordinators.iter().find(|c| *c.key == *self.key.as_str());
            let malformed = || ExchangeError::malformed(Api::FindCoordinator, version, "our key is missing");
            let c = found.ok_or_else(malformed)?;
            (c.node_id.0, c.error_code, c.error_message.clone())
        } else {
            (r.node_id.0, r.error_code, r.error_message.clone())
        };
        let answer = match ErrorCode::from_code(code) {
            ErrorCode::None if node >= 0 => Ok(NodeId(node)),
            ErrorCode::None => Err((ErrorCode::CoordinatorNotAvailable, "no node".into())),
            code => Err((code, message.map(|m| m.to_string()).unwrap_or_default())),
        };
        Ok(Answered { answer, throttle: throttle(r.throttle_time_ms) })
    }
}

impl Call for DescribeTransactions {
    type Answer = Described;

    fn api(&self) -> Api {
        Api::DescribeTransactions
    }

    fn frame(&self, head: &Head) -> Result<Vec<Bytes>, ExchangeError> {
        describe_frame(head, std::slice::from_ref(&self.transactional_id))
    }

    fn decode(&self, version: i16, body: Bytes) -> Result<Answered<Self::Answer>, ExchangeError> {
        let r: DescribeTransactionsResponse = decode_message(Api::DescribeTransactions, version, body)?;
        let answer = described(&r, version, &self.transactional_id)?;
        Ok(Answered { answer, throttle: throttle(r.throttle_time_ms) })
    }
}

impl Call for DescribeAll {
    type Answer = Vec<(TransactionalId, Described)>;

    fn api(&self) -> Api {
        Api::DescribeTransactions
    }

    fn frame(&self, head: &Head) -> Result<Vec<Bytes>, ExchangeError> {
        describe_frame(head, &self.ids)
    }

    fn decode(&self, version: i16, body: Bytes) -> Result<Answered<Self::Answer>, ExchangeError> {
        let r: DescribeTransactionsResponse = decode_message(Api::DescribeTransactions, version, body)?;
        let each = self.ids.iter().map(|id| Ok((id.clone(), described(&r, version, id)?)));
        let answer = each.collect::<Result<_, ExchangeError>>()?;
        Ok(Answered { answer, throttle: throttle(r.throttle_time_ms) })
    }
}

fn describe_frame(head: &Head, ids: &[TransactionalId]) -> Result<Vec<Bytes>, ExchangeError> {
    let message = DescribeTransactionsRequest::default().with_transactional_ids(ids.iter().map(id).collect());
    frame_message(Api::DescribeTransactions, head, &message)
}

fn described(
    r: &DescribeTransactionsResponse,
    version: i16,
    id: &TransactionalId,
) -> Result<Described, ExchangeError> {
    let found = r.transaction_states.iter().find(|t| **t.transactional_id == *id.as_str());
    let missing = || ExchangeError::malformed(Api::DescribeTransactions, version, "our id is missing");
    let t = found.ok_or_else(missing)?;
    let partitions = t
        .topics
        .iter()
        .flat_map(|topic| topic.partitions.iter().map(|p| TopicPartition::new(&**topic.topic, *p)));
    Ok(Described {
        code: ErrorCode::from_code(t.error_code),
        state: CoordinatorState::from_name(&t.transaction_state),
        identity: Identity::new(t.producer_id.0, t.producer_epoch),
        start_ms: (t.transaction_start_time_ms >= 0).then_some(t.transaction_start_time_ms),
        timeout_ms: t.transaction_timeout_ms,
        partitions: partitions.collect(),
    })
}

impl Call for ListTransactions {
    type Answer = Result<Vec<Listed>, ErrorCode>;

    fn api(&self) -> Api {
        Api::ListTransactions
    }

    fn frame(&self, head: &Head) -> Result<Vec<Bytes>, ExchangeError> {
        let states = self.states.iter().map(|s| str_bytes(s.name())).collect();
        let pattern = self.pattern.as_deref().filter(|_| head.version >= LIST_BY_PATTERN);
        let message = ListTransactionsRequest::default()
            .with_state_filters(states)
            .with_transactional_id_pattern(pattern.map(str_bytes));
        frame_message(Api::ListTransactions, head, &message)
    }

    fn decode(&self, version: i16, body: Bytes) -> Result<Answered<Self::Answer>, ExchangeError> {
        let r: ListTransactionsResponse = decode_message(Api::ListTransactions, version, body)?;
        let code = ErrorCode::from_code(r.error_code);
        let listed = r.transaction_states.iter().map(|t| Listed {
            transactional_id: TransactionalId::new(&**t.transactional_id),
            producer_id: ProducerId(t.producer_id.0),
            state: CoordinatorState::from_name(&t.transaction_state),
        });
        let answer = if code.is_none() { Ok(listed.collect()) } else { Err(code) };
        Ok(Answered { answer, throttle: throttle(r.throttle_time_ms) })
    }
}
