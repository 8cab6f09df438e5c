//! What rows do to the cluster itself: refusals, topics, leaders, the level of transactions.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use kafka_2pc::broker::{Fault, Reaction, TransactionVersion};
use kafka_2pc::client::{Client, Topic, TopicError};
use kafka_2pc::ids::{TopicPartition, TransactionalId};
use kafka_2pc::wire::api::Api;
use kafka_2pc_protocol_tests::kafka;
use kafka_protocol::messages::alter_partition_reassignments_request::{
    ReassignablePartition, ReassignableTopic,
};
use kafka_protocol::messages::create_topics_request::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig,
};
use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::describe_producers_request::TopicRequest;
use kafka_protocol::messages::elect_leaders_request::TopicPartitions;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{
    AlterPartitionReassignmentsRequest, CreateTopicsRequest, DeleteRecordsRequest, DeleteTopicsRequest,
    DescribeProducersRequest, ElectLeadersRequest, MetadataRequest, TopicName,
};
use kafka_protocol::protocol::StrBytes;

use super::{Bench, World, blocking, within};
use crate::outcome::{Failure, Shown, equal};

/// The log of the transaction coordinators.
const TRANSACTIONS: &str = "__transaction_state";
/// ELECTION_NOT_NEEDED.
const LEADS_ALREADY: i16 = 84;

impl Bench {
    /// The embedded broker refuses the next `times` requests of an API with an error code, and does nothing.
    ///
    /// # Errors
    /// [`Failure::NotOffered`] on any other arm.
    pub fn refuse(&self, api: Api, code: i16, times: u32) -> Shown {
        let broker = self.embedded()?;
        for _ in 0..times {
            broker.inject(Fault::on(api, Reaction::ErrorCode(code)));
        }
        Ok(())
    }

    /// Creates a topic of this name with these settings.
    ///
    /// # Errors
    /// The cluster does not create it.
    pub async fn create_topic(&self, name: &str, partitions: i32, configs: &[(&str, &str)]) -> Shown {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let configs = configs.iter().map(owned).collect();
        self.make_topic(kafka::Topic { configs, ..kafka::Topic::new(name, partitions) }).await
    }

    /// A new topic of one partition that this node alone holds, as seen by `client`.
    ///
    /// # Errors
    /// The cluster does not create it.
    pub async fn topic_on(&self, client: &Client, node: i32) -> Result<Topic, Failure> {
        let name = super::fresh("lonely");
        if let World::Embedded(broker) = &self.world {
            broker.create_topic_on(&name, vec![vec![node]])?;
        } else {
            let configs = vec![("min.insync.replicas".to_owned(), "1".to_owned())];
            let topic = kafka::Topic { assignment: vec![vec![node]], configs, ..kafka::Topic::new(&name, 1) };
            self.make_topic(topic).await?;
        }
        Ok(within(client.topic(&name)).await??)
    }

    /// Real clusters are asked by the launcher, which waits until every broker knows the topic.
    pub(super) async fn make_topic(&self, topic: kafka::Topic) -> Shown {
        if self.embedded().is_err() {
            let bootstrap = self.bootstrap();
            return Ok(blocking(move || kafka::create_topic(&bootstrap, &topic)).await??);
        }
        let answer = self.raw().await?.ask(4, &creation(topic)?).await?;
        equal("the answer to CreateTopics", answer.topics.iter().map(|t| t.error_code).max(), Some(0))
    }

    /// Deletes a topic, and returns when no broker knows it any more.
    ///
    /// # Errors
    /// The cluster does not delete it.
    pub async fn delete_topic(&self, name: &str) -> Shown {
        let request = DeleteTopicsRequest::default().with_topic_names(vec![topic_name(name)]);
        let answer = self.raw().await?.ask(5, &request.with_timeout_ms(10_000)).await?;
        equal("the answers to DeleteTopics", answer.responses.iter().map(|r| r.error_code).max(), Some(0))?;
        let client = self.untapped()?;
        within(async {
            loop {
                match client.topic(name).await {
                    Err(TopicError::Missing(_)) => return Ok(()),
                    Err(e) => return Err(e.into()),
                    Ok(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                }
            }
        })
        .await?
    }

    /// Removes the records of a topic's first partition before an offset, as administrators do, and retention.
    ///
    /// # Errors
    /// The cluster does not remove them.
    pub async fn delete_records(&self, topic: &Topic, before: i64) -> Shown {
        let partition = DeleteRecordsPartition::default().with_partition_index(0).with_offset(before);
        let of = DeleteRecordsTopic::default()
            .with_name(topic_name(topic.name()))
            .with_partitions(vec![partition]);
        let request = DeleteRecordsRequest::default().with_topics(vec![of]).with_timeout_ms(10_000);
        let answer = self.raw().await?.ask(2, &request).await?;
        let codes: Vec<_> = answer.topics.iter().flat_map(|t| &t.partitions).map(|p| p.error_code).collect();
        equal("the answers to DeleteRecords", codes, [0])
    }

    /// Waits until the leader of a topic's first partition remembers no producer (`needs = ["quick-forgetting"]`), and as
    /// long as a client takes for granted that it is remembered: ten seconds.
    ///
    /// # Errors
    /// The leader goes on remembering.
    pub async fn forget_producers(&self, topic: &Topic) -> Shown {
        tokio::time::sleep(Duration::from_secs(11)).await;
        if let Ok(broker) = self.embedded() {
            return Ok(broker.expire_producers(&TopicPartition::new(topic.name().clone(), 0))?);
        }
        let of = TopicRequest::default().with_name(topic_name(topic.name())).with_partition_indexes(vec![0]);
        let request = DescribeProducersRequest::default().with_topics(vec![of]);
        let mut raw = self.raw().await?;
        within(async {
            loop {
                let answer = raw.ask(0, &request).await?;
                let mut found = answer.topics.iter().flat_map(|t| &t.partitions);
                if found.all(|p| p.error_code == 0 && p.active_producers.is_empty()) {
                    return Ok(());
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        })
        .await?
    }

    /// Starts a killed node again, and waits until the cluster is whole.
    ///
    /// # Errors
    /// The arm gives no power over its nodes, or it does not come back.
    pub async fn restart_node(&self, node: i32) -> Shown {
        self.start_node(node).await?;
        if let World::Real(cluster) = &self.world {
            let cluster = Arc::clone(cluster);
            blocking(move || cluster.wait_ready()).await??;
        }
        Ok(())
    }

    /// Finalizes a level of `transaction.version` while the cluster runs, and waits until clients must have noticed.
    ///
    /// # Errors
    /// The arm gives no power over it, or has no such feature.
    pub async fn set_level(&self, level: u8) -> Shown {
        match &self.world {
            World::Embedded(broker) => broker.set_transaction_version(match level {
                0 => TransactionVersion::V0,
                1 => TransactionVersion::V1,
                _ => TransactionVersion::V2,
            }),
            World::Real(cluster) => {
                let cluster = Arc::clone(cluster);
                blocking(move || cluster.set_feature(level)).await??;
            }
            World::None | World::Given(_) => return Err(Failure::not_offered("power over the nodes")),
        }
        self.let_the_client_forget().await;
        Ok(())
    }

    /// Waits as long as a client believes what a broker said of levels and topics: a tenth of a second.
    pub async fn let_the_client_forget(&self) {
        tokio::time::sleep(Duration::from_millis(120)).await;
    }

    /// True where the feature `transaction.version` exists.
    #[must_use]
    pub fn has_levels(&self) -> bool {
        match &self.world {
            World::Embedded(_) => self.arm.to_string().contains("kafka-4"),
            World::Real(cluster) => !cluster.spec().version.starts_with('3'),
            World::None | World::Given(_) => false,
        }
    }

    /// The leader and the replicas of a partition, as a broker tells them now.
    ///
    /// # Errors
    /// There is no such partition.
    pub async fn leader(&self, at: &TopicPartition) -> Result<(i32, Vec<i32>), Failure> {
        let topic = MetadataRequestTopic::default().with_name(Some(topic_name(&at.topic)));
        let request = MetadataRequest::default().with_topics(Some(vec![topic]));
        let answer = self.raw().await?.ask(4, &request).await?;
        let mut partitions = answer.topics.iter().flat_map(|t| &t.partitions);
        let found = partitions.find(|p| p.partition_index == at.partition);
        let found = found.ok_or_else(|| Failure::wrong(format!("no broker knows {at}")))?;
        Ok((found.leader_id.0, found.replica_nodes.iter().map(|node| node.0).collect()))
    }

    /// Another replica becomes the leader of a partition, while all of them live. Returns it.
    ///
    /// # Errors
    /// There is no other replica.
    pub async fn move_leader(&self, at: &TopicPartition) -> Result<i32, Failure> {
        let (leader, mut replicas) = self.leader(at).await?;
        let place = replicas.iter().position(|node| *node == leader).unwrap_or_default();
        replicas.rotate_left(place + 1);
        let next = replicas.first().copied().filter(|node| *node != leader);
        let next = next.ok_or_else(|| Failure::not_offered("another replica"))?;
        match &self.world {
            World::Embedded(broker) => broker.move_leader(at, next)?,
            _ => self.elect(at, replicas).await?,
        }
        within(async {
            while self.leader(at).await?.0 != next {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Ok::<_, Failure>(next)
        })
        .await?
    }

    /// The preferred leader is the first replica: puts the replicas in this order, and has it elected.
    async fn elect(&self, at: &TopicPartition, replicas: Vec<i32>) -> Shown {
        let partition = ReassignablePartition::default()
            .with_partition_index(at.partition)
            .with_replicas(Some(replicas.into_iter().map(Into::into).collect()));
        let topic =
            ReassignableTopic::default().with_name(topic_name(&at.topic)).with_partitions(vec![partition]);
        let order = AlterPartitionReassignmentsRequest::default().with_topics(vec![topic]);
        let mut raw = self.raw().await?;
        equal("the answer to AlterPartitionReassignments", raw.ask(0, &order).await?.error_code, 0)?;
        let topic =
            TopicPartitions::default().with_topic(topic_name(&at.topic)).with_partitions(vec![at.partition]);
        let request = ElectLeadersRequest::default().with_topic_partitions(Some(vec![topic]));
        within(async {
            loop {
                let answer = raw.ask(2, &request).await?;
                let results = answer.replica_election_results.iter().flat_map(|r| &r.partition_result);
                if results.map(|p| p.error_code).all(|code| code == 0 || code == LEADS_ALREADY) {
                    return Ok(());
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await?
    }

    /// A topic of one partition on the nodes 2 and 3, which elects a leader that lacks records rather than none.
    ///
    /// # Errors
    /// The cluster does not create it.
    pub async fn careless_topic(&self, client: &Client) -> Result<Topic, Failure> {
        let setting = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let topic = kafka::Topic {
            assignment: vec![vec![2, 3]],
            configs: vec![
                setting("unclean.leader.election.enable", "true"),
                setting("min.insync.replicas", "1"),
            ],
            ..kafka::Topic::new(&super::fresh("careless"), 1)
        };
        let name = topic.name.clone();
        self.make_topic(topic).await?;
        Ok(within(client.topic(&name)).await??)
    }

    /// What `work` writes to a partition of a [careless topic](Self::careless_topic) is lost: the only replica that has it
    /// dies, and the other one is elected.
    ///
    /// # Errors
    /// `work` fails, or the arm gives no power over its nodes.
    pub async fn lose(&self, at: &TopicPartition, work: impl Future<Output = Shown>) -> Shown {
        let (leader, replicas) = self.leader(at).await?;
        let other = replicas.into_iter().find(|node| *node != leader);
        let other = other.ok_or_else(|| Failure::wrong("one replica is not enough"))?;
        if let Ok(broker) = self.embedded() {
            let topic = self.untapped()?.topic(&at.topic).await?;
            let end = self.log(&topic).await?.last().map_or(0, |batch| batch.header().next_offset());
            work.await?;
            return Ok(broker.truncate(at, end)?);
        }
        self.kill_node(other).await?;
        work.await?;
        self.kill_node(leader).await?;
        self.start_node(other).await?;
        within(async {
            while self.leader(at).await.map_or(-1, |(leader, _)| leader) != other {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        })
        .await?;
        self.restart_node(leader).await
    }

    /// Another node becomes the coordinator of a transactional id, while all of them live. Returns it.
    ///
    /// # Errors
    /// There is no other.
    pub async fn move_coordinator(&self, id: &TransactionalId) -> Result<i32, Failure> {
        let topic = self.untapped()?.topic(TRANSACTIONS).await?;
        self.move_leader(&TopicPartition::new(TRANSACTIONS, partition_of(id, &topic)?)).await
    }
}

/// The partition of `__transaction_state` that holds an id: Java's `String.hashCode`, without its sign.
fn partition_of(id: &TransactionalId, topic: &Topic) -> Result<i32, Failure> {
    let hash = id.as_str().encode_utf16().fold(0_i32, |h, c| h.wrapping_mul(31).wrapping_add(i32::from(c)));
    Ok(hash.checked_abs().unwrap_or(0) % topic.partitions().max(1))
}

fn creation(topic: kafka::Topic) -> Result<CreateTopicsRequest, Failure> {
    let text = StrBytes::from_string;
    let assigned = |(index, nodes): (usize, &Vec<i32>)| {
        let nodes = nodes.iter().map(|node| (*node).into()).collect();
        Ok(CreatableReplicaAssignment::default()
            .with_partition_index(i32::try_from(index)?)
            .with_broker_ids(nodes))
    };
    let assignments =
        topic.assignment.iter().enumerate().map(assigned).collect::<Result<Vec<_>, Failure>>()?;
    let configs = topic.configs.into_iter().map(|(name, value)| {
        CreatableTopicConfig::default().with_name(text(name)).with_value(Some(text(value)))
    });
    let wanted = CreatableTopic::default()
        .with_name(topic_name(&topic.name))
        .with_num_partitions(if assignments.is_empty() { topic.partitions } else { -1 })
        .with_replication_factor(-1)
        .with_assignments(assignments)
        .with_configs(configs.collect());
    Ok(CreateTopicsRequest::default().with_topics(vec![wanted]).with_timeout_ms(10_000))
}

fn topic_name(name: &str) -> TopicName {
    TopicName(StrBytes::from_string(name.to_owned()))
}
