//! The error codes of an answer, wherever its schema puts them.

use bytes::Bytes;
use kafka_2pc::wire::api::Api;
use kafka_2pc::wire::guard;
use kafka_protocol::messages as m;
use kafka_protocol::protocol::Decodable;

/// Every error code in an answer's body, in order.
///
/// # Errors
/// The body is no answer of this API and version.
pub fn codes(api: Api, version: i16, mut body: Bytes) -> Result<Vec<i16>, String> {
    guard::check_response(api, version, &body).map_err(|e| e.to_string())?;
    macro_rules! decoded {
        ($response:ty) => {
            <$response>::decode(&mut body, version).map_err(|e| e.to_string())?
        };
    }
    Ok(match api {
        Api::ApiVersions => vec![decoded!(m::ApiVersionsResponse).error_code],
        Api::InitProducerId => vec![decoded!(m::InitProducerIdResponse).error_code],
        Api::AddOffsetsToTxn => vec![decoded!(m::AddOffsetsToTxnResponse).error_code],
        Api::EndTxn => vec![decoded!(m::EndTxnResponse).error_code],
        Api::ListTransactions => vec![decoded!(m::ListTransactionsResponse).error_code],
        Api::Metadata => decoded!(m::MetadataResponse).topics.iter().map(|t| t.error_code).collect(),
        Api::DescribeTransactions => {
            let states = decoded!(m::DescribeTransactionsResponse).transaction_states;
            states.iter().map(|s| s.error_code).collect()
        }
        Api::DescribeProducers => {
            let topics = decoded!(m::DescribeProducersResponse).topics;
            topics.iter().flat_map(|t| &t.partitions).map(|p| p.error_code).collect()
        }
        Api::FindCoordinator => {
            let found = decoded!(m::FindCoordinatorResponse);
            match version {
                ..4 => vec![found.error_code],
                _ => found.coordinators.iter().map(|c| c.error_code).collect(),
            }
        }
        Api::Produce => {
            let topics = decoded!(m::ProduceResponse).responses;
            topics.iter().flat_map(|t| &t.partition_responses).map(|p| p.error_code).collect()
        }
        Api::Fetch => {
            let fetched = decoded!(m::FetchResponse);
            let partitions = fetched.responses.iter().flat_map(|t| &t.partitions);
            std::iter::once(fetched.error_code).chain(partitions.map(|p| p.error_code)).collect()
        }
        Api::AddPartitionsToTxn => {
            let added = decoded!(m::AddPartitionsToTxnResponse).results_by_topic_v3_and_below;
            added.iter().flat_map(|t| &t.results_by_partition).map(|p| p.partition_error_code).collect()
        }
        Api::TxnOffsetCommit => {
            let topics = decoded!(m::TxnOffsetCommitResponse).topics;
            topics.iter().flat_map(|t| &t.partitions).map(|p| p.error_code).collect()
        }
        Api::ListOffsets => {
            let topics = decoded!(m::ListOffsetsResponse).topics;
            topics.iter().flat_map(|t| &t.partitions).map(|p| p.error_code).collect()
        }
        _ => Vec::new(),
    })
}
