//! The first error code of each response.

use kafka_protocol::messages as m;

/// A response that can tell whether it is an error.
pub(crate) trait Codes {
    /// The first code that is not 0, else 0.
    fn first_error(&self) -> i16;
}

fn first(codes: impl IntoIterator<Item = i16>) -> i16 {
    codes.into_iter().find(|code| *code != 0).unwrap_or(0)
}

/// Responses with one code.
macro_rules! with_one_code {
    ($($response:ident)*) => {
        $(impl Codes for m::$response {
            fn first_error(&self) -> i16 {
                self.error_code
            }
        })*
    };
}

with_one_code! {
    InitProducerIdResponse AddOffsetsToTxnResponse EndTxnResponse ListTransactionsResponse DescribeClusterResponse
    JoinGroupResponse SyncGroupResponse HeartbeatResponse ApiVersionsResponse SaslHandshakeResponse
    SaslAuthenticateResponse
}

/// Responses with a list of things, each with a code.
macro_rules! with_a_list {
    ($($response:ident . $list:ident)*) => {
        $(impl Codes for m::$response {
            fn first_error(&self) -> i16 {
                first(self.$list.iter().map(|item| item.error_code))
            }
        })*
    };
}

with_a_list! {
    CreateTopicsResponse.topics DeleteTopicsResponse.responses DescribeConfigsResponse.results
    DescribeTransactionsResponse.transaction_states
}

/// Responses with topics, whose partitions have codes.
macro_rules! with_partitions {
    ($($response:ident . $topics:ident . $partitions:ident)*) => {
        $(impl Codes for m::$response {
            fn first_error(&self) -> i16 {
                first(self.$topics.iter().flat_map(|t| t.$partitions.iter().map(|p| p.error_code)))
            }
        })*
    };
}

with_partitions! {
    ProduceResponse.responses.partition_responses ListOffsetsResponse.topics.partitions
    DeleteRecordsResponse.topics.partitions DescribeProducersResponse.topics.partitions
    OffsetCommitResponse.topics.partitions TxnOffsetCommitResponse.topics.partitions
}

impl Codes for m::FetchResponse {
    fn first_error(&self) -> i16 {
        let partitions = self.responses.iter().flat_map(|t| t.partitions.iter().map(|p| p.error_code));
        first([self.error_code].into_iter().chain(partitions))
    }
}

impl Codes for m::MetadataResponse {
    fn first_error(&self) -> i16 {
        first([self.error_code].into_iter().chain(self.topics.iter().map(|t| t.error_code)))
    }
}

impl Codes for m::FindCoordinatorResponse {
    fn first_error(&self) -> i16 {
        first([self.error_code].into_iter().chain(self.coordinators.iter().map(|c| c.error_code)))
    }
}

impl Codes for m::AddPartitionsToTxnResponse {
    fn first_error(&self) -> i16 {
        let many = self.results_by_transaction.iter().flat_map(|t| &t.topic_results);
        let topics = self.results_by_topic_v3_and_below.iter().chain(many);
        let codes = topics.flat_map(|t| t.results_by_partition.iter().map(|p| p.partition_error_code));
        first([self.error_code].into_iter().chain(codes))
    }
}

impl Codes for m::LeaveGroupResponse {
    fn first_error(&self) -> i16 {
        first([self.error_code].into_iter().chain(self.members.iter().map(|m| m.error_code)))
    }
}

impl Codes for m::OffsetFetchResponse {
    fn first_error(&self) -> i16 {
        let groups = self.groups.iter().map(|g| g.error_code);
        let old = self.topics.iter().flat_map(|t| t.partitions.iter().map(|p| p.error_code));
        let new = self.groups.iter().flat_map(|g| &g.topics);
        let new = new.flat_map(|t| t.partitions.iter().map(|p| p.error_code));
        first([self.error_code].into_iter().chain(groups).chain(old).chain(new))
    }
}

impl Codes for m::WriteTxnMarkersResponse {
    fn first_error(&self) -> i16 {
        let topics = self.markers.iter().flat_map(|m| &m.topics);
        first(topics.flat_map(|t| t.partitions.iter().map(|p| p.error_code)))
    }
}
