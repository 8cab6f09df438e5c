//! DescribeConfigs, versions 1 to 4.
//!
//! - Topics (type 2): what CreateTopics was given, and the settings that act here with their defaults.
//! - Nodes (type 4): the settings of the broker that a client of transactions may ask for.

use std::collections::BTreeMap;

use kafka_protocol::error::ResponseError;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResult,
};
use kafka_protocol::messages::{DescribeConfigsRequest, DescribeConfigsResponse};

use super::{Handler, text};
use crate::broker::cluster::Cluster;
use crate::broker::config::BrokerConfig;
use crate::broker::shared::Context;

const TOPIC: i8 = 2;
const NODE: i8 = 4;

/// Where a value comes from (`DescribeConfigsResponse.ConfigSource`).
const SET_ON_TOPIC: i8 = 1;
const SET_ON_NODE: i8 = 4;
const DEFAULT: i8 = 5;

impl Handler for DescribeConfigsRequest {
    type Response = DescribeConfigsResponse;

    async fn handle(self, ctx: &Context, _version: i16) -> DescribeConfigsResponse {
        let cluster = ctx.shared.cluster();
        let results = self.resources.iter().map(|resource| {
            let configs = match resource.resource_type {
                TOPIC => topic(&cluster, &ctx.shared.config, &resource.resource_name),
                NODE => node(&cluster, &ctx.shared.config, &resource.resource_name),
                _ => Err(ResponseError::InvalidRequest),
            };
            match configs {
                Ok(configs) => result(resource, 0).with_configs(asked(resource, configs)),
                Err(error) => result(resource, error.code()),
            }
        });
        DescribeConfigsResponse::default().with_results(results.collect())
    }

    fn refuse(&self, _version: i16, code: i16) -> DescribeConfigsResponse {
        let results = self.resources.iter().map(|resource| result(resource, code));
        DescribeConfigsResponse::default().with_results(results.collect())
    }
}

/// Values with their source, by name.
type Configs = BTreeMap<String, (String, i8)>;

fn result(resource: &DescribeConfigsResource, code: i16) -> DescribeConfigsResult {
    DescribeConfigsResult::default()
        .with_error_code(code)
        .with_resource_type(resource.resource_type)
        .with_resource_name(resource.resource_name.clone())
}

fn asked(resource: &DescribeConfigsResource, configs: Configs) -> Vec<DescribeConfigsResourceResult> {
    let keys = resource.configuration_keys.as_ref();
    let wanted = configs.into_iter().filter(|(name, _)| {
        keys.is_none_or(|keys| keys.is_empty() || keys.iter().any(|key| key.as_str() == name))
    });
    wanted
        .map(|(name, (value, source))| {
            DescribeConfigsResourceResult::default()
                .with_name(text(&name))
                .with_value(Some(text(&value)))
                .with_config_source(source)
        })
        .collect()
}

fn topic(cluster: &Cluster, broker: &BrokerConfig, name: &str) -> Result<Configs, ResponseError> {
    let topic = cluster.topics.named(name).ok_or(ResponseError::UnknownTopicOrPartition)?;
    let defaults = [
        ("cleanup.policy", "delete".to_owned()),
        ("compression.type", "producer".to_owned()),
        ("max.message.bytes", broker.max_message_bytes.to_string()),
        ("message.timestamp.type", "CreateTime".to_owned()),
        ("min.insync.replicas", broker.min_insync_replicas.to_string()),
        ("retention.bytes", "-1".to_owned()),
        ("retention.ms", "-1".to_owned()),
    ];
    let mut configs: Configs =
        defaults.into_iter().map(|(name, value)| (name.to_owned(), (value, DEFAULT))).collect();
    configs.extend(topic.configs.iter().map(|(name, value)| (name.clone(), (value.clone(), SET_ON_TOPIC))));
    Ok(configs)
}

fn node(cluster: &Cluster, broker: &BrokerConfig, name: &str) -> Result<Configs, ResponseError> {
    if name.is_empty() {
        return Ok(Configs::new()); // the cluster-wide dynamic settings: none
    }
    let id: i32 = name.parse().map_err(|_| ResponseError::InvalidRequest)?;
    if !cluster.nodes.contains_key(&id) {
        return Err(ResponseError::InvalidRequest);
    }
    let settings = [
        ("default.replication.factor", broker.replication().to_string()),
        ("message.max.bytes", broker.max_message_bytes.to_string()),
        ("min.insync.replicas", broker.min_insync_replicas.to_string()),
        ("node.id", id.to_string()),
        ("num.partitions", broker.default_partitions.to_string()),
        ("socket.request.max.bytes", broker.max_request_bytes.to_string()),
        (
            "transaction.abort.timed.out.transaction.cleanup.interval.ms",
            broker.sweep_interval.as_millis().to_string(),
        ),
        ("transaction.max.timeout.ms", broker.max_transaction_timeout_ms.to_string()),
        ("transaction.state.log.num.partitions", broker.transaction_partitions.to_string()),
        ("transactional.id.expiration.ms", "604800000".to_owned()),
    ];
    Ok(settings.into_iter().map(|(name, value)| (name.to_owned(), (value, SET_ON_NODE))).collect())
}
