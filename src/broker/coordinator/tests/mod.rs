//! One test per cell of the coordinator's decision tables, and the transitions between them.

mod adding;
mod end_txn;
mod init;
mod log;
mod transitions;

use super::entry::{Entry, Pair, State};
use super::init_producer_id::Request;
use super::*;
use crate::broker::log::marker::Outcome::{Abort, Commit};
use crate::wire::versions::TransactionVersion::{V1, V2};

const ID: i64 = 7;
const EPOCH: i16 = 5;
const LAST_EPOCH: i16 = 32766;

fn at(state: State, id: i64, epoch: i16) -> Entry {
    let mut entry = Entry::fresh(id, 60_000, 0);
    entry.pair = Pair { id, epoch };
    entry.previous_id = id;
    entry.state = state;
    entry
}

/// An entry whose producer id was rotated from `ID` by the end of its last transaction.
fn rotated(state: State) -> Entry {
    let mut entry = at(state, ID + 1, 0);
    entry.previous_id = ID;
    entry
}

fn who(epoch: i16) -> Pair {
    Pair { id: ID, epoch }
}

/// The rules of Kafka 4.4 at this level.
fn rules(level: TransactionVersion) -> Rules {
    Rules {
        max_timeout_ms: 900_000,
        level,
        after_abort: AfterAbort::InvalidTxnState,
        fence_bumps: Bumps::Once,
        pending_add: PendingAdd::BeforePair,
    }
}

const TXN: &str = "txn";

fn partition() -> TopicPartition {
    TopicPartition::new("t", 0)
}

fn init(c: &mut Coordinator, expected: Option<Pair>, now: i64) -> Result<Initialized, ResponseError> {
    c.init_producer_id(TXN, Request { expected, timeout_ms: 60_000 }, now)
}

fn ready(c: &mut Coordinator, expected: Option<Pair>) -> Pair {
    match init(c, expected, 1).unwrap() {
        Initialized::Ready(pair, _) => pair,
        Initialized::Fenced(_) | Initialized::Fencing => panic!("an open transaction was fenced"),
    }
}

/// A coordinator whose id is at `epoch`, and its pair.
fn coordinator(version: TransactionVersion, epoch: i16) -> (Coordinator, Pair) {
    let mut c = Coordinator::new(rules(version));
    let mut pair = ready(&mut c, None);
    pair.epoch = epoch;
    c.entry_mut(TXN).unwrap().pair = pair;
    (c, pair)
}

fn open(c: &mut Coordinator, pair: Pair, now: i64) {
    c.add_partitions(TXN, pair, &[partition()], now).unwrap();
}

fn complete(c: &mut Coordinator, now: i64) -> &Entry {
    c.entry_mut(TXN).unwrap().complete(now);
    c.entry(TXN).unwrap()
}
