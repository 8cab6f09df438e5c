//! DescribeConfigs (32), for single settings of a broker.

use bytes::Bytes;
use kafka_protocol::{
    messages::{
        DescribeConfigsRequest, DescribeConfigsResponse, describe_configs_request::DescribeConfigsResource,
    },
    protocol::StrBytes,
};

use super::{Answered, Call, ExchangeError, Head, decode_message, frame_message, throttle};
use crate::{ids::NodeId, wire::api::Api};

/// `ConfigResource.Type.BROKER`.
const BROKER: i8 = 4;

/// Asks a broker for one of its settings. Needs DESCRIBE_CONFIGS on the cluster.
#[derive(Debug, Clone)]
pub struct BrokerSetting {
    /// The broker, which must be the one that is asked.
    pub node: NodeId,
    /// The setting's name.
    pub name: &'static str,
}

impl Call for BrokerSetting {
    /// Its value; `None` where the broker does not tell, for whatever reason.
    type Answer = Option<String>;

    fn api(&self) -> Api {
        Api::DescribeConfigs
    }

    fn frame(&self, head: &Head) -> Result<Vec<Bytes>, ExchangeError> {
        let resource = DescribeConfigsResource::default()
            .with_resource_type(BROKER)
            .with_resource_name(StrBytes::from_string(self.node.0.to_string()))
            .with_configuration_keys(Some(vec![StrBytes::from_static_str(self.name)]));
        let message = DescribeConfigsRequest::default().with_resources(vec![resource]);
        frame_message(Api::DescribeConfigs, head, &message)
    }

    fn decode(&self, version: i16, body: Bytes) -> Result<Answered<Self::Answer>, ExchangeError> {
        let r: DescribeConfigsResponse = decode_message(Api::DescribeConfigs, version, body)?;
        let told =
            r.results.iter().filter(|result| result.error_code == 0).flat_map(|result| &result.configs);
        let value = told.filter(|config| config.name.as_str() == self.name).find_map(|c| c.value.as_ref());
        let answer = value.map(ToString::to_string);
        Ok(Answered { answer, throttle: throttle(r.throttle_time_ms) })
    }
}
