//! What is asked of a broker together with others who ask it at the same moment.

use std::{
    collections::HashMap,
    pin::pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use super::{FRESH, Purpose, Router};
use crate::{
    client::gather::Gather,
    exchange::{
        ApiVersions, BrokerProfile, DescribeAll, DescribeProducers, Described, ExchangeError,
        PartitionProducers,
    },
    ids::{NodeId, TopicPartition, TransactionalId},
    net::CallError,
    wire::{api::Api, versions::TransactionVersion},
};

/// What several ask of each broker.
#[derive(Debug, Default)]
pub(super) struct Together(Mutex<HashMap<NodeId, Arc<AtNode>>>);

type Profiles = Gather<(), Result<BrokerProfile, CallError>>;

type Transactions = Arc<Vec<(TransactionalId, Described)>>;

#[derive(Debug, Default)]
struct AtNode {
    profiles: Profiles,
    /// The same on one connection alone, by those who can't wait for another one.
    own_profiles: Mutex<HashMap<Purpose, Arc<Profiles>>>,
    transactions: Gather<TransactionalId, Result<Transactions, CallError>>,
    /// The same, before an identity is asked for.
    looks: Gather<TransactionalId, Result<Transactions, CallError>>,
    producers: Gather<Vec<TopicPartition>, Arc<Vec<PartitionProducers>>>,
}

impl AtNode {
    fn own_profiles(&self, purpose: Purpose) -> Arc<Profiles> {
        // Entries are only ever added whole.
        let mut own = self.own_profiles.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(own.entry(purpose).or_default())
    }
}

impl Together {
    fn at(&self, node: NodeId) -> Arc<AtNode> {
        // Entries are only ever added whole.
        let mut nodes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(nodes.entry(node).or_default())
    }
}

impl Router {
    /// What a broker can do, not older than a moment ago.
    pub(crate) async fn profile(&self, node: NodeId) -> Result<BrokerProfile, CallError> {
        self.profile_within(node, Purpose::Control, FRESH).await
    }

    /// The same, asked on the connection for this purpose, and not older than `age`.
    pub(crate) async fn profile_within(
        &self,
        node: NodeId,
        purpose: Purpose,
        age: Duration,
    ) -> Result<BrokerProfile, CallError> {
        let Some(connection) = self.connection(node, purpose) else {
            return Err(CallError::NotSent(format!("broker {node} is not known")));
        };
        let (learned, profile) = connection.ready().await?;
        let kept = self.state().profiles.get(&node).cloned();
        let newest = kept.filter(|(asked, _)| *asked > learned).unwrap_or((learned, profile));
        if self.clock.now().since(newest.0) < age {
            return Ok(newest.1);
        }
        let connection = &connection;
        let ask = |_| async move {
            let now = self.clock.now();
            let (_, profile) = connection.call(Arc::new(ApiVersions), self.config.request_timeout).await?;
            let profile = profile
                .ok_or_else(|| CallError::NotSent(format!("broker {node} does not tell its versions")))?;
            // Its age counts from before the question: what the broker says may have changed since.
            self.state().profiles.insert(node, (now, profile.clone()));
            Ok(profile)
        };
        let (at, asked_here) = (self.together.at(node), AtomicBool::new(false));
        let put = |questions| {
            asked_here.store(true, Ordering::Relaxed);
            ask(questions)
        };
        let mut together = pin!(at.profiles.ask((), put));
        if let Ok(told) = tokio::time::timeout(FRESH, &mut together).await {
            return told;
        }
        if asked_here.load(Ordering::Relaxed) {
            return together.await;
        }
        // Whoever asks for all may wait behind an end that is answered late: that is a matter of his connection alone.
        let own = at.own_profiles(purpose);
        tokio::select! {
            told = together => told,
            told = own.ask((), ask) => told,
        }
    }

    /// Sees to it that what a broker can do is known for a while, for somebody who is going to want it.
    pub(crate) async fn freshen_profile(&self, node: NodeId) {
        // Whoever wants it asks again.
        _ = self.profile_within(node, Purpose::Control, FRESH / 2).await;
    }

    /// The transaction version to begin a transaction with, as the coordinator sees it now.
    pub(crate) async fn transaction_version(&self, node: NodeId) -> Result<TransactionVersion, CallError> {
        self.profile(node).await.map(|p| p.usable_transaction_version())
    }

    /// What a coordinator says of a transactional id.
    pub(crate) async fn describe(&self, node: NodeId, id: &TransactionalId) -> Result<Described, CallError> {
        let at = self.together.at(node);
        self.describe_by((node, Purpose::Control), &at.transactions, id).await
    }

    /// The same, on the way that an InitProducerId takes which may follow, as soon as that is open.
    pub(crate) async fn look(&self, node: NodeId, id: &TransactionalId) -> Result<Described, CallError> {
        if !self.connection(node, Purpose::Identity).is_some_and(|c| c.is_ready()) {
            return self.describe(node, id).await;
        }
        let at = self.together.at(node);
        self.describe_by((node, Purpose::Identity), &at.looks, id).await
    }

    async fn describe_by(
        &self,
        (node, purpose): (NodeId, Purpose),
        gather: &Gather<TransactionalId, Result<Transactions, CallError>>,
        id: &TransactionalId,
    ) -> Result<Described, CallError> {
        let put = |ids| async move { self.ask(node, purpose, DescribeAll::of(ids)).await.map(Arc::new) };
        let all = gather.ask(id.clone(), put).await?;
        let ours = all.iter().find(|(of, _)| of == id).map(|(_, described)| described.clone());
        ours.ok_or_else(|| {
            let detail = "our id is missing".to_owned();
            ExchangeError::Malformed { api: Api::DescribeTransactions.name(), version: 0, detail }.into()
        })
    }

    /// What a leader knows of the producers of these partitions, among others; nothing without an answer.
    pub(crate) async fn describe_producers(
        &self,
        node: NodeId,
        partitions: Vec<TopicPartition>,
    ) -> Arc<Vec<PartitionProducers>> {
        let put = |asked: Vec<Vec<TopicPartition>>| async move {
            let mut partitions = asked.concat();
            partitions.sort();
            partitions.dedup();
            let call = DescribeProducers { partitions };
            let answers = self.ask(node, Purpose::Control, call).await.unwrap_or_default();
            answers.iter().for_each(|a| self.answered(node, &a.partition, a.code));
            Arc::new(answers)
        };
        self.together.at(node).producers.ask(partitions, put).await
    }
}
