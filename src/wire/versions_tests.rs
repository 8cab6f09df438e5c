use super::*;
use Api::{
    AddPartitionsToTxn, ApiVersions, CreateTopics, EndTxn, Fetch, FindCoordinator, InitProducerId,
    ListOffsets, ListTransactions, Metadata, Produce, TxnOffsetCommit, WriteTxnMarkers,
};
use TransactionVersion::{V0, V1, V2};

type Offered = &'static [(Api, i16, i16)];

const KAFKA_3_3: Offered = &[
    (Produce, 0, 9),
    (Fetch, 0, 13),
    (ListOffsets, 0, 7),
    (Metadata, 0, 12),
    (FindCoordinator, 0, 4),
    (ApiVersions, 0, 3),
    (CreateTopics, 0, 7),
    (InitProducerId, 0, 4),
    (AddPartitionsToTxn, 0, 3),
    (EndTxn, 0, 3),
    (WriteTxnMarkers, 0, 1),
    (TxnOffsetCommit, 0, 3),
    (ListTransactions, 0, 0),
];

const KAFKA_3_9: Offered = &[
    (Produce, 0, 11),
    (Fetch, 0, 17),
    (ListOffsets, 0, 9),
    (Metadata, 0, 12),
    (FindCoordinator, 0, 6),
    (ApiVersions, 0, 4),
    (CreateTopics, 0, 7),
    (InitProducerId, 0, 5),
    (AddPartitionsToTxn, 0, 5),
    (EndTxn, 0, 4),
    (WriteTxnMarkers, 0, 1),
    (TxnOffsetCommit, 0, 4),
    (ListTransactions, 0, 1),
];

/// Produce from 0 on, as the broker says and does not mean.
const KAFKA_4_4: Offered = &[
    (Produce, 0, 13),
    (Fetch, 4, 18),
    (ListOffsets, 1, 11),
    (Metadata, 0, 13),
    (FindCoordinator, 0, 6),
    (ApiVersions, 0, 5),
    (CreateTopics, 2, 7),
    (InitProducerId, 0, 5),
    (AddPartitionsToTxn, 0, 5),
    (EndTxn, 0, 5),
    (WriteTxnMarkers, 1, 2),
    (TxnOffsetCommit, 0, 6),
    (ListTransactions, 0, 2),
];

/// The first with level 2, and without topics' ids in Produce.
const KAFKA_4_0: Offered = &[(Produce, 0, 12), (Fetch, 4, 17), (EndTxn, 0, 5)];

/// As Redpanda's handlers declare them, in an older release: low maxima, no topic ids, no level 2.
const REDPANDA: Offered = &[
    (Produce, 0, 7),
    (Fetch, 4, 11),
    (ListOffsets, 0, 3),
    (Metadata, 0, 7),
    (FindCoordinator, 0, 2),
    (ApiVersions, 0, 3),
    (InitProducerId, 0, 1),
    (AddPartitionsToTxn, 0, 2),
    (EndTxn, 0, 3),
    (TxnOffsetCommit, 0, 3),
    (ListTransactions, 0, 0),
];

fn offered(table: Offered, api: Api) -> Option<VersionRange> {
    table.iter().find(|row| row.0 == api).map(|row| VersionRange::new(row.1, row.2))
}

#[track_caller]
fn expect(table: Offered, cap: Cap, rows: &[(Api, i16)]) {
    for (api, version) in rows {
        assert_eq!(choose(*api, offered(table, *api), cap), Ok(*version), "{api} under {cap:?}");
    }
}

#[test]
fn plain_requests_get_the_highest_common_version() {
    let plain = Cap::NotTransactional;
    expect(
        KAFKA_3_3,
        plain,
        &[(Produce, 9), (Fetch, 13), (Metadata, 12), (ApiVersions, 3), (InitProducerId, 4)],
    );
    expect(KAFKA_3_9, plain, &[(Produce, 11), (Fetch, 13), (ListOffsets, 7), (FindCoordinator, 4)]);
    expect(
        KAFKA_4_4,
        plain,
        &[(Produce, 13), (Fetch, 13), (ListOffsets, 7), (Metadata, 12), (ApiVersions, 4)],
    );
    expect(KAFKA_4_4, plain, &[(WriteTxnMarkers, 2), (ListTransactions, 2), (CreateTopics, 7)]);
    expect(
        REDPANDA,
        plain,
        &[(Produce, 7), (Fetch, 11), (ListOffsets, 3), (Metadata, 7), (FindCoordinator, 2)],
    );
}

#[test]
fn requests_without_topic_ids_stay_below_their_version() {
    for (table, version) in [(KAFKA_3_3, 12), (KAFKA_3_9, 12), (KAFKA_4_4, 12), (REDPANDA, 11)] {
        expect(table, Cap::TopicsByName, &[(Fetch, version)]);
    }
    expect(KAFKA_4_4, Cap::TopicsByName, &[(Produce, 12), (EndTxn, 4)]);
    expect(KAFKA_4_0, Cap::NotTransactional, &[(Produce, 12)]);
}

#[test]
fn transactions_below_level_2_stay_below_its_versions() {
    let caps = [V0, V1].map(|v| [Cap::Transaction(v), Cap::TransactionByName(v)]);
    for cap in caps.into_iter().flatten() {
        expect(KAFKA_4_4, cap, &[(Produce, 11), (EndTxn, 4), (TxnOffsetCommit, 4), (AddPartitionsToTxn, 3)]);
        expect(KAFKA_3_9, cap, &[(Produce, 11), (EndTxn, 4), (TxnOffsetCommit, 4), (AddPartitionsToTxn, 3)]);
        expect(KAFKA_3_3, cap, &[(Produce, 9), (EndTxn, 3), (TxnOffsetCommit, 3), (AddPartitionsToTxn, 3)]);
        expect(REDPANDA, cap, &[(Produce, 7), (EndTxn, 3), (TxnOffsetCommit, 3), (AddPartitionsToTxn, 2)]);
    }
}

#[test]
fn transactions_of_level_2_use_its_versions() {
    let others = [(EndTxn, 5), (TxnOffsetCommit, 5), (AddPartitionsToTxn, 3)];
    for (cap, produce) in [(Cap::Transaction(V2), 13), (Cap::TransactionByName(V2), 12)] {
        expect(KAFKA_4_4, cap, &others);
        expect(KAFKA_4_4, cap, &[(Produce, produce)]);
        expect(KAFKA_4_0, cap, &[(Produce, 12), (EndTxn, 5)]);
    }
}

#[test]
fn without_a_level_an_end_txn_is_never_of_level_2() {
    expect(KAFKA_4_4, Cap::NotTransactional, &[(EndTxn, 4), (TxnOffsetCommit, 4), (AddPartitionsToTxn, 3)]);
}

#[test]
fn produce_is_never_older_than_version_3_whatever_the_broker_says() {
    let ancient = Some(VersionRange::new(0, 2));
    let refused = choose(Produce, ancient, Cap::NotTransactional);
    assert_eq!(refused, Err(Unsupported { api: Produce, ours: VersionRange::new(3, 13), broker: ancient }));
}

#[test]
fn a_missing_api_is_named_in_the_error() {
    let refused = choose(CreateTopics, offered(REDPANDA, CreateTopics), Cap::NotTransactional);
    let text = refused.map_err(|e| e.to_string());
    assert_eq!(
        text,
        Err("no common version of CreateTopics: we can use 2 to 7, the broker does not have it".into())
    );
}

#[test]
fn a_floor_above_the_broker_is_an_error_instead_of_a_lost_field() {
    let own_pair = |table| {
        choose_at_least(InitProducerId, offered(table, InitProducerId), Cap::Transaction(V0), INIT_OWN_PAIR)
    };
    assert_eq!(own_pair(KAFKA_3_3), Ok(4));
    assert!(own_pair(REDPANDA).is_err());
    let old = Some(VersionRange::new(0, 0));
    let coordinator =
        choose_at_least(FindCoordinator, old, Cap::NotTransactional, FIND_TRANSACTION_COORDINATOR);
    assert!(coordinator.is_err());
}

#[test]
fn our_ranges_stay_within_what_the_codec_can_encode() {
    for api in Api::ALL {
        let codec =
            kafka_protocol::messages::ApiKey::try_from(api.key()).expect("a known API").valid_versions();
        let ours = supported(api);
        assert!(!ours.is_empty() && ours.min >= codec.min, "{api}");
        // WriteTxnMarkers 2 is encoded by this crate itself.
        assert!(ours.max <= codec.max || api == WriteTxnMarkers, "{api}");
    }
}

#[test]
fn only_a_refused_api_versions_is_read_as_version_0() {
    assert_eq!(reply_version(ApiVersions, 4, &[0, 35, 0, 0, 0, 0]), 0);
    assert_eq!(reply_version(ApiVersions, 4, &[0, 0, 1, 0]), 4);
    assert_eq!(reply_version(ApiVersions, 4, &[0]), 4);
    assert_eq!(reply_version(EndTxn, 4, &[0, 35]), 4);
}

#[test]
fn levels_read_as_the_feature_means_them() {
    assert_eq!([-1, 0, 1, 2, 3].map(TransactionVersion::from_level), [V0, V0, V1, V2, V2]);
}
