//! Every refusal of EndTxn, and what it is to the one who asked.

use kafka_2pc::broker::{Fault, Reaction};
use kafka_2pc::client::{EndError, Topic, TransactionalProducer};
use kafka_2pc::ids::TransactionalId;
use kafka_2pc::proto::resume::CommitError;
use kafka_2pc::record::RecordRef;
use kafka_2pc::wire::api::Api;

use super::super::seen::ended;
use crate::bench::{Bench, within};
use crate::outcome::{Shown, equal, holds};

/// What a user is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    /// It ended as asked.
    Done,
    /// It must be aborted.
    Failed,
    /// Another owner has the id.
    Fenced,
    /// Nothing is decided, and asking again may help.
    Pending,
    /// Nothing is decided, and it needs somebody's help.
    Refused,
    /// The broker will abort it by itself.
    Abandoned,
    /// It went the other way.
    Otherwise,
}

/// Codes that answer one EndTxn after the other, and what a commit and an abort become by them. A refused commit is not
/// believed but looked into: here the coordinator shows the transaction as open, so it is asked again.
const SEQUENCES: [(&[i16], Told, Told); 12] = [
    (&[COORDINATOR_NOT_AVAILABLE, COORDINATOR_NOT_AVAILABLE], Told::Done, Told::Done),
    (&[NOT_COORDINATOR], Told::Done, Told::Done),
    (&[COORDINATOR_LOAD_IN_PROGRESS], Told::Done, Told::Done),
    (&[CONCURRENT_TRANSACTIONS, NOT_COORDINATOR], Told::Done, Told::Done),
    (&[REQUEST_TIMED_OUT], Told::Done, Told::Done),
    (&[UNKNOWN_SERVER_ERROR], Told::Done, Told::Done),
    (&[INVALID_TXN_STATE], Told::Done, Told::Done),
    (&[INVALID_PRODUCER_ID_MAPPING], Told::Done, Told::Done),
    (&[INVALID_PRODUCER_EPOCH], Told::Done, Told::Fenced),
    (&[PRODUCER_FENCED], Told::Done, Told::Fenced),
    (&[TRANSACTIONAL_ID_AUTHORIZATION_FAILED], Told::Refused, Told::Abandoned),
    (&[INVALID_REQUEST], Told::Refused, Told::Abandoned),
];

const UNKNOWN_SERVER_ERROR: i16 = -1;
const REQUEST_TIMED_OUT: i16 = 7;
const COORDINATOR_LOAD_IN_PROGRESS: i16 = 14;
const COORDINATOR_NOT_AVAILABLE: i16 = 15;
const NOT_COORDINATOR: i16 = 16;
const INVALID_REQUEST: i16 = 42;
const INVALID_PRODUCER_EPOCH: i16 = 47;
const INVALID_TXN_STATE: i16 = 48;
const INVALID_PRODUCER_ID_MAPPING: i16 = 49;
const CONCURRENT_TRANSACTIONS: i16 = 51;
const TRANSACTIONAL_ID_AUTHORIZATION_FAILED: i16 = 53;
const PRODUCER_FENCED: i16 = 90;

/// Each sequence of refusals has its consequence, whether the records were flushed before or not, and whatever comes
/// next on the id works.
pub(super) async fn g02(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let id = bench.id("g02");
    let mut visible = Vec::new();
    for (codes, commit, abort) in SEQUENCES {
        for flushed in [false, true] {
            for (committing, expected) in [(true, commit), (false, abort)] {
                let value = format!("{codes:?} {committing} {flushed}");
                let producer = bench.init(&client, &id).await?;
                let before = ended(bench)?.len();
                let told = one(bench, producer, (&topic, &value, flushed), (codes, committing)).await?;
                bench.embedded()?.clear_faults();
                equal(&value, told, expected)?;
                let ends = ended(bench)?.split_off(before);
                holds(ends.iter().all(|end| end.commit == committing), format!("{value}: {ends:?}"))?;
                if told == Told::Done && committing {
                    visible.push(value);
                }
            }
        }
    }
    takes_over(bench, &id).await?;
    equal("committed", bench.committed(&topic).await?, visible)
}

async fn takes_over(bench: &Bench, id: &TransactionalId) -> Shown {
    bench.init(&bench.client()?, id).await?;
    Ok(())
}

async fn one(
    bench: &Bench,
    producer: TransactionalProducer,
    (topic, value, flushed): (&Topic, &str, bool),
    (codes, committing): (&[i16], bool),
) -> Result<Told, crate::outcome::Failure> {
    let mut transaction = producer.begin();
    within(transaction.send(topic, Some(0), RecordRef::value(value.as_bytes()))).await??;
    if flushed || !committing {
        // An abort that nothing has reached needs no EndTxn.
        within(transaction.flush()).await??;
    }
    for (nth, code) in (1..).zip(codes) {
        let reaction = Reaction::ErrorCode(*code);
        bench.embedded()?.inject(Fault::on(Api::EndTxn, reaction).nth(nth));
    }
    let end = if committing {
        within(transaction.commit()).await?.map(|_| ())
    } else {
        within(transaction.abort()).await?.map(|_| ())
    };
    Ok(match end {
        Ok(()) => Told::Done,
        Err(EndError::Failed(_)) => Told::Failed,
        Err(EndError::Fenced(_)) => Told::Fenced,
        Err(EndError::Abandoned(_)) => Told::Abandoned,
        Err(EndError::Pending { error, .. }) if error.is_retriable() => Told::Pending,
        Err(EndError::Pending { error: CommitError::Denied | CommitError::Unsupported, .. }) => Told::Refused,
        Err(_) => Told::Otherwise,
    })
}
