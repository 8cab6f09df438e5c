//! FindCoordinator, versions 0 to 6.
//!
//! - Key type 0 is a group, 1 a transactional id; others are INVALID_REQUEST.
//! - Version 4 asks for many keys at once.
//! - A coordinator whose log partition has no leader is COORDINATOR_NOT_AVAILABLE. A new real cluster says that
//!   once for the first key ever asked; here the logs exist from the start.

use kafka_protocol::error::ResponseError;
use kafka_protocol::messages::find_coordinator_response::Coordinator;
use kafka_protocol::messages::{FindCoordinatorRequest, FindCoordinatorResponse};

use super::{Handler, text};
use crate::broker::cluster::Cluster;
use crate::broker::shared::Context;

const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;

impl Handler for FindCoordinatorRequest {
    type Response = FindCoordinatorResponse;

    async fn handle(self, ctx: &Context, version: i16) -> FindCoordinatorResponse {
        let cluster = ctx.shared.cluster();
        let find = |key: &str| found(&cluster, key, self.key_type);
        if version >= 4 {
            let coordinators = self.coordinator_keys.iter().map(|key| find(key));
            return FindCoordinatorResponse::default().with_coordinators(coordinators.collect());
        }
        single(find(&self.key))
    }

    fn refuse(&self, version: i16, code: i16) -> FindCoordinatorResponse {
        if version >= 4 {
            let coordinators = self.coordinator_keys.iter().map(|key| absent(key, code));
            return FindCoordinatorResponse::default().with_coordinators(coordinators.collect());
        }
        single(absent(&self.key, code))
    }
}

fn single(found: Coordinator) -> FindCoordinatorResponse {
    FindCoordinatorResponse::default()
        .with_error_code(found.error_code)
        .with_node_id(found.node_id)
        .with_host(found.host)
        .with_port(found.port)
}

fn found(cluster: &Cluster, key: &str, key_type: i8) -> Coordinator {
    let node = match key_type {
        GROUP => cluster.group_coordinator(key),
        TRANSACTION => cluster.transaction_coordinator(key).map(|(node, _)| node),
        _ => return absent(key, ResponseError::InvalidRequest.code()),
    };
    match node.and_then(|id| cluster.nodes.get(&id).map(|node| (id, node))) {
        Some((id, node)) => Coordinator::default()
            .with_key(text(key))
            .with_node_id(id.into())
            .with_host(text(&node.host))
            .with_port(i32::from(node.port)),
        None => absent(key, ResponseError::CoordinatorNotAvailable.code()),
    }
}

fn absent(key: &str, code: i16) -> Coordinator {
    Coordinator::default().with_key(text(key)).with_node_id((-1).into()).with_port(-1).with_error_code(code)
}
