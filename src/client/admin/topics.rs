//! Creating topics.

use std::{sync::Arc, time::Duration};

use crate::client::{Client, ClientError};
use crate::{
    exchange::CreateTopic,
    ids::TopicId,
    net::Clock,
    proto::{
        backoff::Backoff,
        verdict::{self, CreateTopicVerdict},
    },
};

impl Client {
    /// Creates a topic, and waits until every partition has a leader. A topic that is there already is fine.
    /// Without `replication` the broker's default is used. Needs CREATE.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with the broker's explanation, where it may pass after `max.block.ms`; others if no broker
    /// answers.
    ///
    /// # Cancel safety
    /// Cancel safe: the topic is created or not; call it again.
    pub async fn create_topic(
        &self,
        name: &str,
        partitions: i32,
        replication: Option<i16>,
    ) -> Result<TopicId, ClientError> {
        let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(1), Clock::seed());
        let deadline = self.router.clock.now().after(self.router.config.max_block);
        loop {
            let call = CreateTopic { name: Arc::from(name), partitions, replication, timeout_ms: 30_000 };
            let created = self.router.ask_any(call).await?;
            match verdict::create_topic(0, created.code) {
                CreateTopicVerdict::Created | CreateTopicVerdict::Exists => break,
                CreateTopicVerdict::Retry | CreateTopicVerdict::NotKnown
                    if self.router.clock.now() < deadline => {}
                CreateTopicVerdict::Retry
                | CreateTopicVerdict::NotKnown
                | CreateTopicVerdict::Denied
                | CreateTopicVerdict::Refused
                | CreateTopicVerdict::Failed => {
                    let what = format!("topic {name} can't be created");
                    return Err(ClientError::Refused { what, code: created.code, detail: created.message });
                }
            }
            tokio::time::sleep(backoff.next_wait()).await;
        }
        self.led_topic(name, deadline).await
    }

    /// The new topic is known to the brokers a moment later than to the controller.
    async fn led_topic(&self, name: &str, deadline: crate::ids::Moment) -> Result<TopicId, ClientError> {
        let mut backoff = Backoff::new(Duration::from_millis(20), Duration::from_millis(500), Clock::seed());
        loop {
            let answer = self.router.metadata(Some(vec![Arc::from(name)])).await?;
            let topic = answer.topics.iter().find(|t| *t.name == *name);
            let led = |t: &&crate::exchange::TopicMetadata| {
                !t.partitions.is_empty() && t.partitions.iter().all(|p| p.leader.is_some())
            };
            if let Some(topic) = topic.filter(led) {
                return Ok(topic.id);
            }
            if self.router.clock.now() >= deadline {
                return Err(ClientError::Unreachable(format!("topic {name} has no leaders yet")));
            }
            tokio::time::sleep(backoff.next_wait()).await;
        }
    }
}
