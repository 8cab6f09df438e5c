//! DeleteTopics, versions 1 to 6 (6 also by topic id).
//!
//! Markers of transactions that wait for the topic are dropped: EndTxn never tells that the data is gone.

use kafka_protocol::error::ResponseError;
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::delete_topics_response::DeletableTopicResult;
use kafka_protocol::messages::{DeleteTopicsRequest, DeleteTopicsResponse};

use super::{Handler, topic_id, topic_name};
use crate::broker::cluster::Cluster;
use crate::broker::shared::Context;
use crate::ids::{TopicId, TopicName};

impl Handler for DeleteTopicsRequest {
    type Response = DeleteTopicsResponse;

    async fn handle(self, ctx: &Context, version: i16) -> DeleteTopicsResponse {
        let responses = {
            let mut cluster = ctx.shared.cluster();
            wanted(&self, version).iter().map(|topic| delete(&mut cluster, topic)).collect()
        };
        ctx.shared.announce();
        DeleteTopicsResponse::default().with_responses(responses)
    }

    fn refuse(&self, version: i16, code: i16) -> DeleteTopicsResponse {
        let responses = wanted(self, version).into_iter().map(|topic| {
            DeletableTopicResult::default()
                .with_name(topic.name)
                .with_topic_id(topic.topic_id)
                .with_error_code(code)
        });
        DeleteTopicsResponse::default().with_responses(responses.collect())
    }
}

fn wanted(request: &DeleteTopicsRequest, version: i16) -> Vec<DeleteTopicState> {
    if version >= 6 {
        return request.topics.clone();
    }
    request.topic_names.iter().map(|name| DeleteTopicState::default().with_name(Some(name.clone()))).collect()
}

fn delete(cluster: &mut Cluster, topic: &DeleteTopicState) -> DeletableTopicResult {
    let id = TopicId(topic.topic_id.into_bytes());
    let by_name: Option<TopicName> = topic.name.as_ref().map(|name| name.as_str().into());
    let by_id = || cluster.topics.name_of(id).cloned();
    let result = DeletableTopicResult::default().with_name(topic.name.clone()).with_topic_id(topic.topic_id);
    let Some(name) = by_name.or_else(by_id) else {
        return result.with_error_code(ResponseError::UnknownTopicId.code());
    };
    match cluster.topics.remove(&name) {
        Some(gone) => result.with_name(Some(topic_name(&name))).with_topic_id(topic_id(gone.id)),
        None => result.with_error_code(ResponseError::UnknownTopicOrPartition.code()),
    }
}
