//! Access rules of a real cluster that obeys them (`needs = ["rules"]`).

use kafka_2pc::broker::{self, Denial, Fault, Reaction};
use kafka_2pc::client::Topic;
use kafka_2pc::ids::{GroupId, TransactionalId};
use kafka_2pc::wire::api::Api;
use kafka_protocol::messages::create_acls_request::AclCreation;
use kafka_protocol::messages::{CreateAclsRequest, HeartbeatRequest};
use kafka_protocol::protocol::StrBytes;

use crate::bench::{Bench, within};
use crate::outcome::{Failure, Shown, equal};
use crate::raw::initialize;

/// What a rule is about, by Kafka's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i8)]
pub enum Resource {
    /// A topic.
    Topic = 2,
    /// A consumer group.
    Group = 3,
    /// A transactional id.
    TransactionalId = 5,
}

/// What a rule allows, by Kafka's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i8)]
pub enum Operation {
    /// Everything.
    All = 2,
    /// READ.
    Read = 3,
    /// WRITE.
    Write = 4,
    /// DESCRIBE.
    Describe = 8,
}

/// TRANSACTIONAL_ID_AUTHORIZATION_FAILED.
const ID_DENIED: i16 = 53;
/// GROUP_AUTHORIZATION_FAILED.
const GROUP_DENIED: i16 = 30;

/// What the embedded broker is told about a group.
fn unreadable(group: &GroupId) -> Denial {
    Denial::of(broker::Operation::Read, broker::Resource::Group(group.to_string()))
}

/// What it is told about a topic.
fn unwritable(topic: &Topic) -> Denial {
    Denial::of(broker::Operation::Write, broker::Resource::Topic(topic.name().to_string()))
}

impl Bench {
    /// Everybody may do this with the resource, and nothing that no rule allows: a first rule forbids the rest.
    ///
    /// # Errors
    /// The cluster does not take the rule.
    pub async fn allow(&self, resource: Resource, name: &str, operation: Operation) -> Shown {
        let rule = AclCreation::default()
            .with_resource_type(resource as i8)
            .with_resource_name(StrBytes::from_string(name.to_owned()))
            .with_resource_pattern_type(3)
            .with_principal(StrBytes::from_static_str("User:*"))
            .with_host(StrBytes::from_static_str("*"))
            .with_operation(operation as i8)
            .with_permission_type(3);
        let mut raw = self.raw().await?;
        let answer = raw.ask(3, &CreateAclsRequest::default().with_creations(vec![rule])).await?;
        equal(
            "the answer to CreateAcls",
            answer.results.iter().map(|r| r.error_code).collect::<Vec<_>>(),
            [0],
        )
    }

    /// From now on nobody may write with an id that nobody used. The embedded broker knows no rules: it refuses once.
    ///
    /// # Errors
    /// The cluster does not take the rule.
    pub async fn forbid_id(&self, id: &TransactionalId) -> Shown {
        if let Ok(broker) = self.embedded() {
            let reaction = Reaction::ErrorCode(ID_DENIED);
            broker.inject(Fault::on(Api::InitProducerId, reaction));
            return Ok(());
        }
        self.allow(Resource::TransactionalId, id.as_str(), Operation::Describe).await?;
        self.until_initialized(id, ID_DENIED).await
    }

    /// Takes [`forbid_id`](Self::forbid_id) back.
    ///
    /// # Errors
    /// The cluster does not take the rule.
    pub async fn allow_id(&self, id: &TransactionalId) -> Shown {
        if self.embedded().is_ok() {
            return Ok(());
        }
        self.allow(Resource::TransactionalId, id.as_str(), Operation::All).await?;
        self.until_initialized(id, 0).await
    }

    /// From now on nobody may commit offsets of a group.
    ///
    /// # Errors
    /// The cluster does not take the rule.
    pub async fn forbid_group(&self, group: &GroupId) -> Shown {
        if let Ok(broker) = self.embedded() {
            broker.deny(unreadable(group));
            return Ok(());
        }
        self.allow(Resource::Group, group.as_str(), Operation::Describe).await?;
        self.until_read(group, |code| code == GROUP_DENIED).await
    }

    /// Takes [`forbid_group`](Self::forbid_group) back.
    ///
    /// # Errors
    /// The cluster does not take the rule.
    pub async fn allow_group(&self, group: &GroupId) -> Shown {
        if let Ok(broker) = self.embedded() {
            broker.allow(&unreadable(group));
            return Ok(());
        }
        self.allow(Resource::Group, group.as_str(), Operation::All).await?;
        self.until_read(group, |code| code != GROUP_DENIED).await
    }

    /// From now on nobody may write to a topic, or read it.
    ///
    /// # Errors
    /// The cluster does not take the rule.
    pub async fn forbid_topic(&self, topic: &Topic) -> Shown {
        if let Ok(broker) = self.embedded() {
            broker.deny(unwritable(topic));
            return Ok(());
        }
        self.allow(Resource::Topic, topic.name(), Operation::Describe).await?;
        self.until_fetched(topic, |is_allowed| !is_allowed).await
    }

    /// Takes [`forbid_topic`](Self::forbid_topic) back.
    ///
    /// # Errors
    /// The cluster does not take the rule.
    pub async fn allow_topic(&self, topic: &Topic) -> Shown {
        if let Ok(broker) = self.embedded() {
            broker.allow(&unwritable(topic));
            return Ok(());
        }
        self.allow(Resource::Topic, topic.name(), Operation::All).await?;
        self.until_fetched(topic, |is_allowed| is_allowed).await
    }

    /// The rule about writing is obeyed when that about reading is, which can be tried without leaving anything.
    async fn until_fetched(&self, topic: &Topic, is_so: impl Fn(bool) -> bool) -> Shown {
        within(async {
            while !is_so(self.log(topic).await.is_ok()) {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        })
        .await
    }

    /// A heartbeat of nobody's needs the same right as offsets do.
    async fn until_read(&self, group: &GroupId, is_so: impl Fn(i16) -> bool) -> Shown {
        let mut raw = self.raw().await?;
        let request = HeartbeatRequest::default()
            .with_group_id(StrBytes::from_string(group.to_string()).into())
            .with_member_id(StrBytes::from_static_str("nobody"));
        within(async {
            while !is_so(raw.ask(3, &request).await?.error_code) {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
            Ok::<_, Failure>(())
        })
        .await?
    }

    /// Brokers obey a rule a moment after they took it.
    async fn until_initialized(&self, id: &TransactionalId, code: i16) -> Shown {
        let mut raw = self.raw().await?;
        within(async {
            while raw.ask(4, &initialize(id, 60_000)).await?.error_code != code {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
            Ok::<_, Failure>(())
        })
        .await?
    }
}
