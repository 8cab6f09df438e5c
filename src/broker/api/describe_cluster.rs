//! DescribeCluster, versions 0 to 2: the nodes that are up. Controllers (endpoint type 2) cannot be asked for.

use kafka_protocol::messages::describe_cluster_response::DescribeClusterBroker;
use kafka_protocol::messages::{DescribeClusterRequest, DescribeClusterResponse};

use super::{Handler, text};
use crate::broker::shared::Context;

const BROKERS: i8 = 1;
const UNSUPPORTED_ENDPOINT_TYPE: i16 = 115;

impl Handler for DescribeClusterRequest {
    type Response = DescribeClusterResponse;

    async fn handle(self, ctx: &Context, version: i16) -> DescribeClusterResponse {
        if version >= 1 && self.endpoint_type != BROKERS {
            return self.refuse(version, UNSUPPORTED_ENDPOINT_TYPE);
        }
        let cluster = ctx.shared.cluster();
        let brokers = cluster.nodes.iter().filter(|(_, node)| node.up).map(|(id, node)| {
            DescribeClusterBroker::default()
                .with_broker_id((*id).into())
                .with_host(text(&node.host))
                .with_port(i32::from(node.port))
        });
        DescribeClusterResponse::default()
            .with_cluster_id(text(&cluster.id))
            .with_controller_id(cluster.controller().into())
            .with_brokers(brokers.collect())
    }

    fn refuse(&self, _version: i16, code: i16) -> DescribeClusterResponse {
        DescribeClusterResponse::default().with_error_code(code)
    }
}
