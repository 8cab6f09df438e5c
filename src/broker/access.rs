//! Access rules: everything is allowed but what a rule denies.
//!
//! ```text
//! request              operation          resource             code when denied
//! Produce              Write              transactional id     TRANSACTIONAL_ID_AUTHORIZATION_FAILED
//! InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit, EndTxn: the same
//! FindCoordinator, DescribeTransactions, ListTransactions: Describe; the last one leaves ids out
//! InitProducerId without id   Write       cluster              CLUSTER_AUTHORIZATION_FAILED
//! WriteTxnMarkers      Alter              cluster              CLUSTER_AUTHORIZATION_FAILED
//! Produce, AddPartitionsToTxn   Write     topic                TOPIC_AUTHORIZATION_FAILED
//! Fetch, DescribeProducers, TxnOffsetCommit   Read             the same
//! ListOffsets, Metadata         Describe                       the same
//! groups               Read               group                GROUP_AUTHORIZATION_FAILED
//! FindCoordinator      Describe           group                the same
//! ```

use kafka_protocol::error::ResponseError;

use super::journal::Keys;
use super::shared::Context;
use crate::wire::api::Api;

/// What is done. `Write` and `Read` do not include `Describe` here: a rule denies what it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the variants are Kafka's own names")]
pub enum Operation {
    Read,
    Write,
    Describe,
    Alter,
}

/// What it is done to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Resource {
    /// A topic of this name.
    Topic(String),
    /// A group.
    Group(String),
    /// A transactional id.
    TransactionalId(String),
    /// The cluster: IDEMPOTENT_WRITE, CLUSTER_ACTION and ALTER of Kafka.
    Cluster,
}

/// A rule that denies something, as an ACL with `--deny-principal` does.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Denial {
    /// What may not be done.
    pub operation: Operation,
    /// To what.
    pub resource: Resource,
    /// Only to clients with this `client.id`; `None` is everybody. (Nobody logs in here, so that clients have no other
    /// names.)
    pub client_id: Option<String>,
}

impl Denial {
    /// Denies it to everybody.
    #[must_use]
    pub fn of(operation: Operation, resource: Resource) -> Self {
        Self { operation, resource, client_id: None }
    }
}

impl Resource {
    /// What Kafka answers where the resource may not be used.
    fn code(&self) -> ResponseError {
        match self {
            Self::Topic(_) => ResponseError::TopicAuthorizationFailed,
            Self::Group(_) => ResponseError::GroupAuthorizationFailed,
            Self::TransactionalId(_) => ResponseError::TransactionalIdAuthorizationFailed,
            Self::Cluster => ResponseError::ClusterAuthorizationFailed,
        }
    }
}

impl Context {
    /// May this client do that?
    ///
    /// # Errors
    /// The code of the resource.
    pub(crate) fn may(&self, operation: Operation, resource: Resource) -> Result<(), ResponseError> {
        let denials = self.shared.denials();
        let applies = |d: &Denial| {
            d.operation == operation
                && d.resource == resource
                && d.client_id.as_ref().is_none_or(|id| *id == self.client_id)
        };
        if denials.iter().any(applies) { Err(resource.code()) } else { Ok(()) }
    }

    /// The same for a topic.
    ///
    /// # Errors
    /// TOPIC_AUTHORIZATION_FAILED.
    pub(crate) fn may_topic(&self, operation: Operation, topic: &str) -> Result<(), ResponseError> {
        if self.shared.denials().is_empty() {
            return Ok(());
        }
        self.may(operation, Resource::Topic(topic.to_owned()))
    }
}

/// What refuses the request as a whole.
///
/// # Errors
/// The code for every place of the answer.
pub(crate) fn check(ctx: &Context, api: Api, keys: &Keys) -> Result<(), ResponseError> {
    if ctx.shared.denials().is_empty() {
        return Ok(());
    }
    let operation = match api {
        Api::FindCoordinator | Api::DescribeTransactions => Operation::Describe,
        _ => Operation::Write,
    };
    if let Some(id) = &keys.transactional_id {
        ctx.may(operation, Resource::TransactionalId(id.clone()))?;
    } else if api == Api::InitProducerId {
        ctx.may(Operation::Write, Resource::Cluster)?;
    }
    if let Some(group) = &keys.group {
        let operation = if api == Api::FindCoordinator { Operation::Describe } else { Operation::Read };
        ctx.may(operation, Resource::Group(group.clone()))?;
    }
    match api {
        Api::WriteTxnMarkers => ctx.may(Operation::Alter, Resource::Cluster),
        Api::TxnOffsetCommit => {
            keys.partitions.iter().try_for_each(|p| ctx.may_topic(Operation::Read, &p.topic))
        }
        _ => Ok(()),
    }
}
