//! Questions that several machines ask, answered in their words.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use futures::stream::{FuturesUnordered, StreamExt};

use super::{
    Client, ClientError,
    router::{Purpose, Router},
};
use crate::{
    exchange::{BrokerSetting, DescribeTransactions, ListTransactions, PartitionProducers, facts},
    ids::{Moment, NodeId, ProducerId, TopicId, TopicName, TopicPartition, TransactionalId},
    net::{Background, CallError, Clock},
    proto::{
        backoff::Backoff,
        recovery::{ListedTransaction, OpenProducer},
        resume::{Described, PartitionMeta},
        settle::{OpenTransaction, ProducersSeen},
        verdict::{self, DescribeProducersVerdict, ListTransactionsVerdict, MetadataVerdict},
    },
};

/// How long a broker is asked for its transactions, in a recovery, if it does not answer: no answer of a broker that is
/// frozen takes longer than one of a broker that is away.
const LIST_PATIENCE: Duration = Duration::from_secs(15);

/// How long leaders are asked for open transactions, in a recovery, if one does not answer.
const OPEN_PATIENCE: Duration = Duration::from_secs(5);

/// Topic ids and leaders, in the order of the question; `None` if no broker answers.
pub(crate) async fn partitions(router: &Router, partitions: &[TopicPartition]) -> Option<Vec<PartitionMeta>> {
    let mut topics: Vec<TopicName> = partitions.iter().map(|p| p.topic.clone()).collect();
    topics.sort();
    topics.dedup();
    let answer = router.metadata(Some(topics)).await.ok()?;
    let meta = |p: &TopicPartition| {
        let Some(topic) = answer.topics.iter().find(|t| t.name == p.topic) else {
            return PartitionMeta::NotKnown;
        };
        match topic.verdict {
            MetadataVerdict::Known | MetadataVerdict::Leaderless => {
                let leader = topic.partitions.iter().find(|q| q.index == p.partition).map(|q| q.leader);
                match leader {
                    Some(leader) => PartitionMeta::Known { topic_id: topic.id, leader },
                    // A topic that is just being made may be told without its partitions.
                    None if topic.partitions.is_empty() => PartitionMeta::NotKnown,
                    None => PartitionMeta::Missing,
                }
            }
            MetadataVerdict::Missing => PartitionMeta::Missing,
            MetadataVerdict::Denied => PartitionMeta::Denied,
            MetadataVerdict::Retry
            | MetadataVerdict::InvalidName
            | MetadataVerdict::Rebootstrap
            | MetadataVerdict::Failed => PartitionMeta::NotKnown,
        }
    };
    Some(partitions.iter().map(meta).collect())
}

/// The same for partitions of topics that had these ids, not older than `from`. Several who ask for the same at once, as the
/// commits of one checkpoint do, ask brokers once.
pub(crate) async fn partitions_since(
    router: &Router,
    asked: &[(TopicPartition, TopicId)],
    from: Moment,
) -> Option<Vec<PartitionMeta>> {
    let known = || asked.iter().all(|(partition, id)| router.is_led(partition, *id, from));
    let turn = if known() { None } else { router.turn_to_look().await };
    if known() {
        drop(turn);
        let led = |(partition, id): &(TopicPartition, TopicId)| PartitionMeta::Known {
            topic_id: *id,
            leader: router.leader(partition),
        };
        return Some(asked.iter().map(led).collect());
    }
    let places: Vec<_> = asked.iter().map(|(partition, _)| partition.clone()).collect();
    partitions(router, &places).await
}

/// What the coordinator says of an id; a coordinator that can't be reached is "try again".
pub(crate) async fn described(router: &Router, id: &TransactionalId) -> Described {
    let Ok(Ok(node)) = router.coordinator(id).await else { return Described::Retry };
    match told(router.describe(node, id).await) {
        Some(Described::Relookup) => {
            router.forget_coordinator(id);
            Described::Relookup
        }
        Some(described) => described,
        None => Described::Retry,
    }
}

/// What this broker says of an id; `None` without an answer.
pub(crate) async fn described_by(
    router: &Router,
    (node, purpose): (NodeId, Purpose),
    id: &TransactionalId,
) -> Option<Described> {
    let call = DescribeTransactions { transactional_id: id.clone() };
    told(router.ask(node, purpose, call).await)
}

fn told(answer: Result<crate::exchange::Described, CallError>) -> Option<Described> {
    match answer {
        Ok(described) => Some(facts::described(&described)),
        // A broker before 3.0 has no such request.
        Err(CallError::Exchange(_)) => Some(Described::Blind),
        Err(CallError::NotSent(_) | CallError::NotKafka(_) | CallError::MaybeSent(_)) => None,
    }
}

/// What the leaders know of the producers of these partitions, in the order of the question; one request each.
pub(crate) async fn producers(
    router: &Router,
    partitions: &[TopicPartition],
) -> Vec<Option<PartitionProducers>> {
    let mut by_leader: BTreeMap<NodeId, Vec<TopicPartition>> = BTreeMap::new();
    for partition in partitions {
        if let Some(node) = router.leader(partition) {
            by_leader.entry(node).or_default().push(partition.clone());
        }
    }
    let asked = by_leader
        .into_iter()
        .map(|(node, partitions)| async move { router.describe_producers(node, partitions).await });
    let answers = futures::future::join_all(asked).await;
    let found = |p: &TopicPartition| answers.iter().flat_map(|a| a.iter()).find(|a| a.partition == *p);
    partitions.iter().map(|p| found(p).cloned()).collect()
}

/// What a leader's answer says of one producer id.
pub(crate) fn seen(answer: Option<&PartitionProducers>, producer_id: ProducerId) -> ProducersSeen {
    let Some(answer) = answer else { return ProducersSeen::Unavailable };
    match verdict::describe_producers(0, answer.code) {
        DescribeProducersVerdict::Described => {}
        DescribeProducersVerdict::Denied => return ProducersSeen::Denied,
        DescribeProducersVerdict::RetryAfterMetadata
        | DescribeProducersVerdict::Retry
        | DescribeProducersVerdict::Unsupported
        | DescribeProducersVerdict::Failed => return ProducersSeen::Unavailable,
    }
    let ours = answer.producers.iter().find(|p| p.producer_id == producer_id);
    ours.and_then(|p| p.open()).map_or(ProducersSeen::NothingOpen, ProducersSeen::Open)
}

impl crate::exchange::OpenProducer {
    /// The open transaction of this producer here, if it has one.
    pub(crate) fn open(&self) -> Option<OpenTransaction> {
        // An epoch is 16 bits wide everywhere but in this answer.
        let epoch = i16::try_from(self.epoch).unwrap_or(i16::MAX);
        self.open_since.map(|start_offset| OpenTransaction {
            start_offset,
            producer_epoch: crate::ids::ProducerEpoch(epoch),
            coordinator_epoch: self.coordinator_epoch,
        })
    }
}

impl Client {
    /// The client's clock.
    pub(crate) fn clock(&self) -> Clock {
        self.router.clock
    }

    /// The finalized level of `transaction.version`.
    pub(crate) async fn transaction_level(&self) -> Result<i16, ClientError> {
        let deadline = self.clock().now().after(self.router.config.max_block);
        let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(1), Clock::seed());
        let mut known = !self.router.nodes().is_empty();
        loop {
            if !known {
                self.router.metadata_in_time().await?;
            }
            match self.router.any_profile().await {
                Ok(profile) => return Ok(profile.transaction_version.level()),
                Err(error) if self.clock().now() >= deadline => return Err(error),
                // Brokers may be elsewhere by now.
                Err(_) => known = false,
            }
            tokio::time::sleep(backoff.next_wait()).await;
        }
    }

    /// Every broker's transactions that match one of the patterns, and how many brokers did not tell.
    pub(crate) async fn list_for_recovery(&self, patterns: &[String]) -> (Vec<ListedTransaction>, usize) {
        // Without fresh metadata a broker that came back is not asked.
        if self.router.is_cluster_stale() {
            _ = self.router.metadata(Some(Vec::new())).await;
        }
        let pattern = patterns.iter().map(|p| format!("({p})")).collect::<Vec<_>>().join("|");
        let asked = self.router.nodes().into_iter().map(|node| self.list_one(node, &pattern));
        let mut listed = Vec::new();
        let mut silent = 0;
        for answer in futures::future::join_all(asked).await {
            match answer {
                Some(transactions) => listed.extend(transactions),
                None => silent += 1,
            }
        }
        (listed, silent)
    }

    async fn list_one(&self, node: NodeId, pattern: &str) -> Option<Vec<ListedTransaction>> {
        let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(1), Clock::seed());
        let deadline = self.clock().now().after(LIST_PATIENCE);
        while self.clock().now() < deadline {
            let call = ListTransactions { states: Vec::new(), pattern: Some(pattern.to_owned()) };
            match self.router.ask(node, Purpose::Control, call).await {
                Ok(Ok(listed)) => {
                    let line = |l: crate::exchange::Listed| ListedTransaction {
                        transactional_id: l.transactional_id,
                        producer_id: l.producer_id,
                        state: l.state,
                    };
                    return Some(listed.into_iter().map(line).collect());
                }
                Ok(Err(code)) => match verdict::list_transactions(0, code) {
                    ListTransactionsVerdict::Retry => {}
                    ListTransactionsVerdict::Listed
                    | ListTransactionsVerdict::BadPattern
                    | ListTransactionsVerdict::Denied
                    | ListTransactionsVerdict::Unsupported
                    | ListTransactionsVerdict::Failed => return None,
                },
                Err(CallError::Exchange(_)) => return None,
                Err(CallError::NotSent(_) | CallError::NotKafka(_) | CallError::MaybeSent(_)) => {}
            }
            tokio::time::sleep(backoff.next_wait()).await;
        }
        None
    }

    /// Opens what the first records on these partitions are sent over.
    pub(crate) fn open_ahead(&self, partitions: &[TopicPartition]) {
        let leaders: BTreeSet<NodeId> = partitions.iter().filter_map(|p| self.router.leader(p)).collect();
        self.router.open_ahead(leaders, Purpose::Data);
    }

    /// Looks up the coordinators of ids that are going to be used, and opens what their commits are sent over.
    pub(crate) fn find_ahead(&self, ids: Vec<TransactionalId>) -> Background<()> {
        let router = Arc::clone(&self.router);
        router.open_where_it_may_be(Purpose::Identity);
        Background::start(async move {
            // Whoever needs one that is not found asks for it himself.
            let found = futures::future::join_all(ids.iter().map(|id| router.coordinator(id))).await;
            let nodes: Vec<NodeId> = found.into_iter().filter_map(|f| f.ok()?.ok()).collect();
            for purpose in [Purpose::Identity, Purpose::Commit(0)] {
                router.open_ahead(nodes.iter().copied(), purpose);
            }
        })
    }

    /// The longest `transaction.timeout.ms` that the brokers allow; `None` if they do not tell.
    pub(crate) async fn transaction_timeout_limit(&self) -> Option<Duration> {
        let asked = self.router.nodes().into_iter().map(|node| async move {
            let call = BrokerSetting { node, name: "transaction.max.timeout.ms" };
            let value = self.router.ask(node, Purpose::Control, call).await.ok().flatten();
            value.and_then(|value| value.parse().ok()).map(Duration::from_millis)
        });
        let mut asked: FuturesUnordered<_> = asked.collect();
        let first = async {
            while let Some(told) = asked.next().await {
                if told.is_some() {
                    return told;
                }
            }
            None
        };
        // The first transaction tells anyway; a broker that is away must not hold up a start.
        tokio::time::timeout(Duration::from_secs(5), first).await.ok().flatten()
    }

    /// True when DESCRIBE on an id is missing, so that listings leave it out.
    pub(crate) async fn may_not_describe(&self, id: &TransactionalId) -> bool {
        let found = self.router.coordinator(id).await;
        matches!(found, Ok(Err(e)) if e.verdict == verdict::FindCoordinatorVerdict::Denied)
    }

    /// Every open transaction on these partitions; `None` if one of them can't be looked at.
    pub(crate) async fn open_producers(&self, asked: &[TopicPartition]) -> Option<Vec<OpenProducer>> {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1), Clock::seed());
        let deadline = self.clock().now().after(OPEN_PATIENCE);
        let mut known = asked.iter().all(|p| !self.router.is_stale(&p.topic));
        while self.clock().now() < deadline {
            if !std::mem::take(&mut known) {
                _ = partitions(&self.router, asked).await;
            }
            let answers = producers(&self.router, asked).await;
            let whole: Option<Vec<_>> = answers.into_iter().collect();
            let whole = whole.filter(|all| all.iter().all(|a| a.code.is_none()));
            if let Some(answers) = whole {
                return Some(answers.iter().flat_map(|a| self.open_in(a)).collect());
            }
            tokio::time::sleep(backoff.next_wait()).await;
        }
        None
    }

    fn open_in(&self, answer: &PartitionProducers) -> Vec<OpenProducer> {
        let topic_id = self.router.topic_id(&answer.partition.topic);
        let open = answer.producers.iter().filter_map(|p| {
            Some(OpenProducer {
                partition: answer.partition.clone(),
                topic_id,
                producer_id: p.producer_id,
                open: p.open()?,
            })
        });
        open.collect()
    }

    /// What the coordinator says of an id.
    pub(crate) async fn describe_for_recovery(&self, id: &TransactionalId) -> Described {
        described(&self.router, id).await
    }
}
