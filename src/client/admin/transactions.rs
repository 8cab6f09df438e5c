//! What coordinators know of transactions, and the abort that nobody else will send.

use std::time::Duration;

use futures::future::join_all;

use super::{Admin, AdminError};
use crate::{
    client::{
        producer::{Next, ProducerBuilder},
        router::Purpose,
    },
    exchange::{DescribeTransactions, ListTransactions, Listed},
    ids::{Identity, Moment, NodeId, ProducerId, TopicPartition, TransactionalId},
    net::{CallError, Clock},
    proto::{
        backoff::Backoff,
        naming::re2_prefix,
        resume::CoordinatorState,
        verdict::{self, DescribeTransactionsVerdict, FindCoordinatorVerdict, ListTransactionsVerdict},
    },
};

/// Which transactions to list. The default is all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TransactionFilter {
    /// The beginning of their ids.
    pub prefix: String,
    /// Their states; any if empty.
    pub states: Vec<CoordinatorState>,
}

/// What was found, and what may have been missed.
#[derive(Debug, Clone, Default)]
pub struct TransactionListing {
    /// The transactions, by id.
    pub transactions: Vec<TransactionSummary>,
    /// Why there may be more.
    pub blind: Vec<Blind>,
}

/// One transaction of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransactionSummary {
    /// The id.
    pub transactional_id: TransactionalId,
    /// Its producer id.
    pub producer_id: ProducerId,
    /// Its state.
    pub state: CoordinatorState,
    /// The broker that coordinates it.
    pub coordinator: NodeId,
}

/// Why a listing may miss transactions. Ids of a coordinator that is down and not replaced are never listed, and nobody
/// tells.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Blind {
    /// A broker did not answer; what it coordinates is missing.
    #[error("broker {node} did not tell: {why}")]
    Broker {
        /// The broker.
        node: NodeId,
        /// Why.
        why: String,
    },
    /// Brokers list only ids that we may describe, and here is one that we may not.
    #[error("DESCRIBE on transactional id {id} is missing: ids that begin so may be hidden")]
    Hidden {
        /// The id that was tried: the prefix itself.
        id: TransactionalId,
    },
}

/// What a coordinator knows of a transactional id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransactionDescription {
    /// The coordinator.
    pub coordinator: NodeId,
    /// The state.
    pub state: CoordinatorState,
    /// Producer id and epoch now.
    pub identity: Identity,
    /// When the newest transaction began, in milliseconds since the Unix epoch on the coordinator's clock; `None` if
    /// there was none since the identity was given.
    pub start_ms: Option<i64>,
    /// Its timeout.
    pub timeout: Duration,
    /// Its partitions; while markers are due, those that lack theirs.
    pub partitions: Vec<TopicPartition>,
}

impl Admin {
    /// Asks every broker for the transactions that it coordinates. Needs DESCRIBE on the ids; others are hidden.
    ///
    /// # Errors
    /// [`AdminError`] if the brokers can't be found. One that does not answer is told in the listing.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn list_transactions(
        &self,
        filter: &TransactionFilter,
    ) -> Result<TransactionListing, AdminError> {
        // Also finds brokers that came back.
        self.router.metadata(Some(Vec::new())).await?;
        let mut listing = TransactionListing::default();
        if !filter.prefix.is_empty() {
            listing.blind.extend(self.hidden(&filter.prefix).await);
        }
        let nodes = self.router.nodes();
        let asked = nodes.iter().map(|node| self.list_one(*node, filter));
        for (node, answer) in nodes.iter().zip(join_all(asked).await) {
            match answer {
                Ok(listed) => listing.transactions.extend(listed),
                Err(why) => listing.blind.push(Blind::Broker { node: *node, why }),
            }
        }
        listing.transactions.sort_by(|a, b| a.transactional_id.cmp(&b.transactional_id));
        // While a coordinator moves, two brokers may tell of the same id.
        listing.transactions.dedup_by(|a, b| a.transactional_id == b.transactional_id);
        Ok(listing)
    }

    async fn hidden(&self, prefix: &str) -> Option<Blind> {
        let id = TransactionalId::new(prefix);
        let found = self.router.coordinator(&id).await;
        let denied = matches!(found, Ok(Err(e)) if e.verdict == FindCoordinatorVerdict::Denied);
        denied.then_some(Blind::Hidden { id })
    }

    async fn list_one(
        &self,
        node: NodeId,
        filter: &TransactionFilter,
    ) -> Result<Vec<TransactionSummary>, String> {
        let mut tries = self.tries();
        loop {
            let pattern = (!filter.prefix.is_empty()).then(|| re2_prefix(&filter.prefix));
            let call = ListTransactions { states: filter.states.clone(), pattern };
            let why = match self.router.ask(node, Purpose::Control, call).await {
                Ok(Ok(listed)) => return Ok(summaries(node, filter, listed)),
                Ok(Err(code)) => match verdict::list_transactions(0, code) {
                    ListTransactionsVerdict::Retry => code.to_string(),
                    ListTransactionsVerdict::Listed
                    | ListTransactionsVerdict::BadPattern
                    | ListTransactionsVerdict::Denied
                    | ListTransactionsVerdict::Unsupported
                    | ListTransactionsVerdict::Failed => return Err(code.to_string()),
                },
                Err(error @ (CallError::Exchange(_) | CallError::NotKafka(_))) => {
                    return Err(error.to_string());
                }
                Err(error @ (CallError::NotSent(_) | CallError::MaybeSent(_))) => error.to_string(),
            };
            tries.again().await.map_err(|()| why)?;
        }
    }

    /// What the coordinator knows of an id; `None` if it knows nothing: never used, or expired. Needs DESCRIBE on it.
    ///
    /// # Errors
    /// [`AdminError`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn describe_transaction(
        &self,
        id: &TransactionalId,
    ) -> Result<Option<TransactionDescription>, AdminError> {
        let what = || format!("transactional id {id}");
        let mut tries = self.tries();
        loop {
            let why = match self.describe_once(id).await? {
                Ok(described) => return Ok(described),
                Err(why) => why,
            };
            self.router.forget_coordinator(id);
            tries.again().await.map_err(|()| AdminError::Unavailable { what: what(), why })?;
        }
    }

    /// The inner error is one that time cures.
    async fn describe_once(
        &self,
        id: &TransactionalId,
    ) -> Result<Result<Option<TransactionDescription>, String>, AdminError> {
        let what = || format!("transactional id {id}");
        let coordinator = match self.router.coordinator(id).await {
            Err(error) => return Ok(Err(error.to_string())),
            Ok(Ok(node)) => node,
            Ok(Err(e)) => match e.verdict {
                FindCoordinatorVerdict::Denied => return Err(AdminError::Denied { what: what() }),
                FindCoordinatorVerdict::Found
                | FindCoordinatorVerdict::Retry
                | FindCoordinatorVerdict::Abortable
                | FindCoordinatorVerdict::Fatal => return Ok(Err(e.detail)),
            },
        };
        let call = DescribeTransactions { transactional_id: id.clone() };
        let described = match self.router.ask(coordinator, Purpose::Control, call).await {
            Ok(described) => described,
            Err(CallError::Exchange(_)) => return Err(AdminError::Unsupported { what: what() }),
            Err(error) => return Ok(Err(error.to_string())),
        };
        match verdict::describe_transactions(0, described.code) {
            DescribeTransactionsVerdict::Described => Ok(Ok(Some(TransactionDescription {
                coordinator,
                state: described.state,
                identity: described.identity,
                start_ms: described.start_ms,
                timeout: Duration::from_millis(u64::try_from(described.timeout_ms).unwrap_or(0)),
                partitions: described.partitions,
            }))),
            DescribeTransactionsVerdict::NotFound => Ok(Ok(None)),
            DescribeTransactionsVerdict::Relookup | DescribeTransactionsVerdict::Retry => {
                Ok(Err(described.code.to_string()))
            }
            DescribeTransactionsVerdict::Denied => Err(AdminError::Denied { what: what() }),
            DescribeTransactionsVerdict::Unsupported => Err(AdminError::Unsupported { what: what() }),
            DescribeTransactionsVerdict::Failed => {
                Err(AdminError::Refused { what: what(), code: described.code })
            }
        }
    }

    /// Takes an id over by InitProducerId, which fences whoever holds it and aborts what is open; `timeout` becomes the
    /// timeout of its next transactions. The answer is its new producer id and epoch.
    ///
    /// **It destroys what was prepared under the id, and if a decided transaction hangs under it (KAFKA-20734), the next
    /// one under the same producer id decides that one, too.** Look first: [`describe_transaction`](Self::describe_transaction).
    ///
    /// # Errors
    /// [`AdminError::Fence`].
    ///
    /// # Cancel safety
    /// Dropping the future leaves the id fenced or not; calling it again is right.
    pub async fn abort_transaction(
        &self,
        id: &TransactionalId,
        timeout: Duration,
    ) -> Result<Option<Identity>, AdminError> {
        let builder = ProducerBuilder::new(std::sync::Arc::clone(&self.router), id.clone());
        let producer = builder.transaction_timeout(timeout).init().await?;
        Ok(match producer.next {
            Next::Fresh(identity) | Next::Returned(identity) | Next::Used(identity) => Some(identity),
            Next::Bare | Next::Vacant => None,
        })
    }

    fn tries(&self) -> Tries {
        let clock = self.router.clock;
        Tries {
            clock,
            deadline: clock.now().after(self.router.config.max_block),
            backoff: Backoff::new(Duration::from_millis(50), Duration::from_secs(1), Clock::seed()),
        }
    }
}

struct Tries {
    clock: Clock,
    deadline: Moment,
    backoff: Backoff,
}

impl Tries {
    /// Waits until it is time for the next try; an error when there is no time left.
    async fn again(&mut self) -> Result<(), ()> {
        let wake = self.clock.now().after(self.backoff.next_wait());
        if wake >= self.deadline {
            return Err(());
        }
        self.clock.sleep_until(Some(wake)).await;
        Ok(())
    }
}

/// Older brokers filter by nothing, so what they list is filtered here in any case.
fn summaries(node: NodeId, filter: &TransactionFilter, listed: Vec<Listed>) -> Vec<TransactionSummary> {
    let wanted = |l: &Listed| {
        l.transactional_id.as_str().starts_with(&filter.prefix)
            && (filter.states.is_empty() || filter.states.contains(&l.state))
    };
    let summary = |l: Listed| TransactionSummary {
        transactional_id: l.transactional_id,
        producer_id: l.producer_id,
        state: l.state,
        coordinator: node,
    };
    listed.into_iter().filter(wanted).map(summary).collect()
}
