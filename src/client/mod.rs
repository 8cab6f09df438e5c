//! The low-level client: producers with transactions and without, resumed transactions, a consumer, a little
//! administration.

#[macro_use]
mod settings;

mod accumulator;
mod admin;
mod ahead;
mod buffers;
mod calls;
mod config;
mod consumer;
mod error;
mod evidence;
mod first;
mod fit;
mod gather;
mod groups;
mod held;
mod idempotent;
mod link;
mod look;
mod offsets;
mod partitioner;
mod produce;
mod producer;
mod prove;
mod record_sink;
mod repair;
mod resume;
mod router;
mod settle;
mod topic;
mod transaction;
mod writer;

pub use crate::{
    exchange::{Isolation, OffsetAt},
    ids::GroupId,
    proto::offsets::{ConsumerGroupMetadata, OffsetAndMetadata},
};
pub use admin::{
    Admin, AdminError, Blind, ProducerState, ProducersUnknown, TransactionDescription, TransactionFilter,
    TransactionListing, TransactionSummary,
};
pub use config::{ClientConfig, ConfigError};
pub use consumer::{Consumer, ConsumerBuilder, ConsumerError, ConsumerRecord, OutOfRangePolicy, Start};
pub use error::{ClientError, EndError, OffsetsError, PrepareError, SendError, TopicError, TrySendError};
pub use idempotent::{IdempotentBuilder, NotStored, Producer};
pub use link::Delivery;
pub use partitioner::{ChoosePartition, Partitioner, UnknownPartitioner};
pub use producer::{ProducerBuilder, TransactionalProducer};
pub use prove::Examined;
pub use record_sink::{Outgoing, RecordSink};
pub use repair::RepairError;
pub use resume::{ResumeBuilder, Resumed};
pub use topic::Topic;
pub(crate) use transaction::LEFT_OPEN;
pub use transaction::{Prepared, Transaction};

use std::{sync::Arc, time::Duration};

use router::Router;

use crate::{
    ids::TransactionalId,
    net::{Connector, TcpConnector},
    proto::{
        committable::Committable,
        settle::{CommittedButHanging, SettleError, SettleTarget, Settled},
    },
};

/// A client of one Kafka cluster. Clones share its connections.
#[derive(Clone, Debug)]
pub struct Client {
    router: Arc<Router>,
}

impl Client {
    /// A client; nothing is connected until something is asked.
    ///
    /// Must be used within a tokio runtime.
    #[must_use]
    pub fn new(config: ClientConfig) -> Self {
        Self::with_connector(config, Arc::new(TcpConnector))
    }

    /// A client whose streams are opened by `connector`.
    #[must_use]
    pub fn with_connector(config: ClientConfig, connector: Arc<dyn Connector>) -> Self {
        Self { router: Arc::new(Router::new(config, connector)) }
    }

    /// Looks a topic up, once for all its records.
    ///
    /// # Errors
    /// [`TopicError`]: it does not exist, may not be seen, or no broker answered.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn topic(&self, name: &str) -> Result<Topic, TopicError> {
        topic::resolve(&self.router, name).await
    }

    /// The cluster's id, asked for if no broker told it yet; `None` if brokers have none.
    ///
    /// # Errors
    /// [`ClientError`] if no broker answers.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn cluster_id(&self) -> Result<Option<Arc<str>>, ClientError> {
        if self.router.cluster_id().is_none() {
            self.router.metadata_in_time().await?;
        }
        Ok(self.router.cluster_id())
    }

    /// A producer that writes transactions under `transactional_id`.
    pub fn transactional_producer(&self, transactional_id: TransactionalId) -> ProducerBuilder {
        ProducerBuilder::new(Arc::clone(&self.router), transactional_id)
    }

    /// A producer without transactions, which writes each record once and in order.
    pub fn idempotent_producer(&self) -> IdempotentBuilder {
        IdempotentBuilder::new(Arc::clone(&self.router))
    }

    /// A reader of partitions.
    pub fn consumer(&self) -> ConsumerBuilder {
        ConsumerBuilder::new(Arc::clone(&self.router))
    }

    /// Takes up a prepared transaction, from whatever process prepared it.
    pub fn resume(&self, committable: Committable) -> ResumeBuilder {
        ResumeBuilder::new(Arc::clone(&self.router), committable)
    }

    /// Waits until a decision is on every partition: the answer to EndTxn proves the decision, not that readers see
    /// it (KAFKA-20734).
    ///
    /// # Errors
    /// [`SettleError`]; [`SettleError::Hanging`] when a marker is missing and will not come by itself.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn settle(&self, target: SettleTarget, patience: Duration) -> Result<Settled, SettleError> {
        settle::settle(&self.router, target, patience).await
    }

    /// Looks at everything that the cluster shows about a committable, and changes nothing. Needs DESCRIBE on the id, READ
    /// and DESCRIBE on the topics. Takes a few seconds at most where something does not answer.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn examine(&self, committable: &Committable) -> Examined {
        prove::examine(&self.router, committable).await
    }

    /// Writes the missing markers of a hanging decision, if it is proven and its coordinator is done with it, and sees
    /// that it worked. Needs ALTER on the cluster.
    ///
    /// # Errors
    /// [`RepairError`]; after a refusal nothing was written.
    ///
    /// # Cancel safety
    /// Cancel safe: repairing again is always right.
    pub async fn repair(&self, hanging: &CommittedButHanging) -> Result<(), RepairError> {
        repair::repair(&self.router, hanging).await
    }
}
