//! Every error code has a consequence.

use kafka_2pc::proto::verdict::{
    AddPartitionVerdict, EndTxnVerdict, FindCoordinatorVerdict, InitProducerIdVerdict, ProduceVerdict,
    ResumeVerdict, add_partition, end_txn, end_txn_on_resume, find_coordinator, init_producer_id, produce,
};
use kafka_2pc::wire::code::ErrorCode;

use crate::bench::Bench;
use crate::outcome::{Shown, equal, holds};

/// What Kafka's own client asks again after (`RetriableException`), of the codes that a transaction meets.
const RETRIABLE: [i16; 16] = [2, 3, 5, 6, 7, 13, 14, 15, 16, 19, 20, 51, 56, 74, 75, 100];
/// INVALID_PRODUCER_EPOCH and PRODUCER_FENCED.
const FENCED: [i16; 2] = [47, 90];
/// The highest number that Kafka 4.4 gives a name.
const NEWEST: i16 = 136;

/// Every number that can stand in an answer has one consequence for each request. Only NONE is a success; only the two
/// codes of a newer owner are a fence; what Kafka's client retries ends nothing; a number that nobody knows decides nothing.
pub(super) async fn h06(_: &Bench) -> Shown {
    for number in i16::MIN..=i16::MAX {
        let code = ErrorCode::from_code(number);
        equal("the number of a code", code.code(), number)?;
        let named = (-1..=NEWEST).contains(&number);
        equal(&format!("{number} has a name"), !matches!(code, ErrorCode::Unknown(_)), named)?;
        let none = number == 0;
        let fenced = FENCED.contains(&number);
        let told =
            |what: &str, found: bool, expected: bool| equal(&format!("{number}: {what}"), found, expected);
        for version in [4, 5] {
            let live = end_txn(version, code);
            told("EndTxn is done", live == EndTxnVerdict::Done, none)?;
            told("EndTxn is fenced", live == EndTxnVerdict::Fenced, fenced)?;
            let resumed = end_txn_on_resume(version, code);
            told("a resumed EndTxn is decided", resumed == ResumeVerdict::Decided, none)?;
            if fenced || [48, 49].contains(&number) {
                told("evidence is asked for", resumed == ResumeVerdict::AskEvidence, true)?;
            }
            if !named {
                told("EndTxn decides nothing", live == EndTxnVerdict::NotKnown, true)?;
                told("a resumed EndTxn decides nothing", resumed == ResumeVerdict::NotKnown, true)?;
            }
        }
        let init = init_producer_id(5, code);
        told("InitProducerId is granted", init == InitProducerIdVerdict::Granted, none)?;
        told("InitProducerId is fenced", init == InitProducerIdVerdict::Fenced, fenced)?;
        told("FindCoordinator found", find_coordinator(4, code) == FindCoordinatorVerdict::Found, none)?;
        let added = add_partition(3, code);
        told("a partition is added", added == AddPartitionVerdict::Added, none)?;
        told("adding is fenced", added == AddPartitionVerdict::Fenced, fenced)?;
        for version in [11, 12, 13] {
            let stored = produce(version, code);
            told("a batch is stored", stored == ProduceVerdict::Acked, none)?;
            // A leader says INVALID_PRODUCER_EPOCH for more than a fence; the abort that follows tells.
            told("Produce is fenced", stored == ProduceVerdict::Fenced, number == 90)?;
        }
        if RETRIABLE.contains(&number) {
            holds(retried(code), format!("{code} ends something that Kafka's client would retry"))?;
        }
    }
    Ok(())
}

fn retried(code: ErrorCode) -> bool {
    let produced = matches!(
        produce(12, code),
        ProduceVerdict::RetryAfterMetadata
            | ProduceVerdict::TopicIdUnknown
            | ProduceVerdict::Retry
            | ProduceVerdict::RetrySoon
            | ProduceVerdict::MaybeStored
    );
    let ended =
        matches!(end_txn(5, code), EndTxnVerdict::Retry | EndTxnVerdict::Relookup | EndTxnVerdict::NotKnown);
    produced && ended
}
