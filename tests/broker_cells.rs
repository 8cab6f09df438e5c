//! The coordinator's decision tables, cell by cell, as raw requests see them: the same on the embedded broker and on
//! Apache Kafka.
//!
//! On the embedded broker all profiles are asked. `KAFKA_2PC_BOOTSTRAP=host:port` asks a real cluster instead;
//! `KAFKA_2PC_LEVEL` says which level of `transaction.version` it has (2 unless told otherwise).
#![cfg(feature = "broker")]
#![expect(clippy::unwrap_used, reason = "tests and what they share")]

mod raw;

use futures::StreamExt;
use kafka_2pc::broker::{Api, Broker, BrokerConfig, Network, Profile, TransactionVersion};
use raw::{Cluster, Pair, batch, unique};

const EPOCH: i16 = 1;

/// What became of the transaction of the pair (p, e), with e = [`EPOCH`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing yet: `Empty` at e.
    Empty,
    /// Open at e.
    Ongoing,
    /// Committed by EndTxn 4: `CompleteCommit` at e.
    Committed4,
    /// Aborted by EndTxn 4: `CompleteAbort` at e.
    Aborted4,
    /// Committed by EndTxn 5: `CompleteCommit` at e+1.
    Committed5,
    /// Aborted by EndTxn 5: `CompleteAbort` at e+1.
    Aborted5,
    /// Somebody's InitProducerId has aborted it: `CompleteAbort` at e+1.
    Fenced,
    /// And asked again: `Empty` at e+2.
    TakenOver,
}

use State::*;

const STATES: [State; 8] = [Empty, Ongoing, Committed4, Aborted4, Committed5, Aborted5, Fenced, TakenOver];

/// Whose pair a request names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    /// (p, e-1)
    Older,
    /// (p, e)
    Own,
    /// (p, e+1)
    Newer,
    /// Another producer id.
    Stranger,
}

use Who::*;

/// EndTxn: the codes of version 4 commit, 4 abort, 5 commit, 5 abort.
///
/// Every other cell: an unknown pair is 49 (INVALID_PRODUCER_ID_MAPPING), another epoch 90 (PRODUCER_FENCED).
const END_TXN: &[(State, Who, [i16; 4])] = &[
    (Empty, Own, [48, 48, 48, 0]),
    (Ongoing, Own, [0, 0, 0, 0]),
    (Committed4, Own, [0, 48, 48, 0]),
    // Version 5 takes it for its own retry: why a transaction needs one version for life.
    (Committed4, Older, [90, 90, 0, 48]),
    (Aborted4, Own, [48, 0, 48, 0]),
    (Aborted4, Older, [90, 90, 48, 0]),
    (Committed5, Own, [90, 90, 0, 48]),
    (Committed5, Newer, [0, 48, 48, 0]),
    (Aborted5, Own, [90, 90, 48, 0]),
    (Aborted5, Newer, [48, 0, 48, 0]),
    (Fenced, Own, [90, 90, 48, 0]),
    (Fenced, Newer, [48, 0, 48, 0]),
];

/// AddPartitionsToTxn 3 by (p, e-1), (p, e), (p, e+1). A stranger is 49 in every state.
const ADD: &[(State, [i16; 3])] = &[
    (Empty, [90, 0, 90]),
    (Ongoing, [90, 0, 90]),
    (Committed4, [90, 0, 90]),
    (Aborted4, [90, 0, 90]),
    (Committed5, [90, 90, 0]),
    (Aborted5, [90, 90, 0]),
    (Fenced, [90, 90, 0]),
    (TakenOver, [90, 90, 90]),
];

/// What InitProducerId comes to when it is repeated until no transaction is in its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Init {
    /// (p, e + this)
    Epoch(i16),
    Code(i16),
    /// On level 2 an epoch, below a code: an own open transaction fences itself there.
    ByLevel(i16, i16),
}

use Init::{ByLevel, Code, Epoch};

/// InitProducerId without a pair, and with (p, e-1), (p, e), (p, e+1). A stranger is 90 in every state.
const INIT: &[(State, [Init; 4])] = &[
    (Empty, [Epoch(1), Code(90), Epoch(1), Code(90)]),
    (Ongoing, [Epoch(2), Code(90), ByLevel(1, 90), Epoch(2)]),
    (Committed4, [Epoch(1), Code(90), Epoch(1), Code(90)]),
    (Aborted4, [Epoch(1), Code(90), Epoch(1), Code(90)]),
    (Committed5, [Epoch(2), Code(90), Epoch(1), Epoch(2)]),
    (Aborted5, [Epoch(2), Code(90), Epoch(1), Epoch(2)]),
    (Fenced, [Epoch(2), Code(90), ByLevel(1, 90), Epoch(2)]),
    (TakenOver, [Epoch(3), Code(90), Code(90), Code(90)]),
];

/// One cluster to ask.
struct Arm {
    /// None for a real cluster.
    broker: Option<Broker>,
    c: Cluster,
    topic: String,
    level: i16,
    /// The newest EndTxn of transactions V1: Kafka 3.5 has no 4.
    end_v1: i16,
    name: String,
}

/// The real cluster, or every profile.
async fn arms() -> Vec<Arm> {
    let mut arms = Vec::new();
    if let Ok(bootstrap) = std::env::var("KAFKA_2PC_BOOTSTRAP") {
        let level = std::env::var("KAFKA_2PC_LEVEL").map_or(2, |level| level.parse().unwrap());
        let (c, topic) = (Cluster::new(bootstrap.clone()), unique("t"));
        c.create_topic(&topic, 1).await;
        arms.push(Arm { broker: None, c, topic, level, end_v1: 4, name: bootstrap });
        return arms;
    }
    for profile in Profile::all().into_iter().filter(|profile| profile.name != "redpanda") {
        let (name, level) = (profile.name.to_owned(), profile.transaction_version.level());
        let end_v1 = profile.range(Api::EndTxn).unwrap().max.min(4);
        let config = BrokerConfig { profile, network: Network::Memory, ..BrokerConfig::default() };
        let broker = Broker::start(config).await.unwrap();
        broker.create_topic("t", 1).unwrap();
        let c = Cluster::in_memory(&broker);
        arms.push(Arm { broker: Some(broker), c, topic: "t".into(), level, end_v1, name });
    }
    arms
}

impl Arm {
    /// Can EndTxn 5 be asked? At level 0 it leaves ids unusable, and Kafka 3 does not know it.
    fn has_v5(&self) -> bool {
        self.level > TransactionVersion::V0.level()
    }

    fn states(&self) -> Vec<State> {
        STATES.into_iter().filter(|state| self.has_v5() || !matches!(state, Committed5 | Aborted5)).collect()
    }

    /// A new id in this state, and (p, e) of its transaction.
    async fn bring(&self, state: State) -> (String, Pair) {
        let (c, txn) = (&self.c, unique("cell"));
        c.init(&txn, None).await.unwrap();
        let pair = c.init(&txn, None).await.unwrap();
        assert_eq!(pair.1, EPOCH);
        if state == Empty {
            return (txn, pair);
        }
        assert_eq!(c.add(&txn, pair, &self.topic, 0).await, 0);
        assert!(c.produce(9, &txn, (&self.topic, 0), batch(pair, 0, 1)).await.is_ok());
        match state {
            Empty | Ongoing => return (txn, pair),
            Committed4 => assert_eq!(c.end(self.end_v1, &txn, pair, true).await.0, 0),
            Aborted4 => assert_eq!(c.end(self.end_v1, &txn, pair, false).await.0, 0),
            Committed5 => assert_eq!(c.end(5, &txn, pair, true).await, (0, (pair.0, EPOCH + 1))),
            Aborted5 => assert_eq!(c.end(5, &txn, pair, false).await, (0, (pair.0, EPOCH + 1))),
            Fenced => assert_eq!(c.try_init(&txn, None).await, Err(51)),
            TakenOver => assert_eq!(c.init(&txn, None).await, Ok((pair.0, EPOCH + 2))),
        }
        c.settled(&txn).await;
        (txn, pair)
    }
}

fn named((id, epoch): Pair, who: Who) -> Pair {
    match who {
        Older => (id, epoch - 1),
        Own => (id, epoch),
        Newer => (id, epoch + 1),
        Stranger => (id + 1_000_000, epoch),
    }
}

fn end_txn_cell(state: State, who: Who) -> [i16; 4] {
    let listed = END_TXN.iter().find(|(s, w, _)| (*s, *w) == (state, who)).map(|(.., codes)| *codes);
    listed.unwrap_or(if who == Stranger { [49; 4] } else { [90; 4] })
}

/// All cells at once would be too many connections for some.
async fn each<F: Future<Output = ()>>(cells: impl IntoIterator<Item = F>) {
    futures::stream::iter(cells).buffer_unordered(8).for_each(|()| async {}).await;
}

#[tokio::test]
async fn end_txn_decides_every_cell() {
    for arm in &arms().await {
        let mut cells = Vec::new();
        for state in arm.states() {
            for who in [Older, Own, Newer, Stranger] {
                let v1 = arm.end_v1;
                let requests = [(v1, true), (v1, false), (5, true), (5, false)];
                cells.extend(requests.into_iter().zip(end_txn_cell(state, who)).map(|r| (state, who, r)));
            }
        }
        cells.retain(|(.., ((version, _), _))| *version < 5 || arm.has_v5());
        each(cells.into_iter().map(|(state, who, ((version, commit), code))| async move {
            let (txn, pair) = arm.bring(state).await;
            let (answer, next) = arm.c.end(version, &txn, named(pair, who), commit).await;
            let cell = format!("{}: {state:?}, {who:?}, EndTxn {version}, commit: {commit}", arm.name);
            assert_eq!(answer, code, "{cell}");
            let answers_pair = version == 5 && code == 0;
            assert_eq!(next.0 == pair.0, answers_pair, "{cell}: {next:?}");
        }))
        .await;
    }
}

#[tokio::test]
async fn before_version_2_a_fenced_end_is_an_invalid_producer_epoch() {
    for arm in arms().await {
        let (txn, pair) = arm.bring(TakenOver).await;
        for (version, code) in [(0, 47), (1, 47), (2, 90), (3, 90)] {
            assert_eq!(arm.c.end(version, &txn, pair, true).await.0, code, "{}: EndTxn {version}", arm.name);
        }
    }
}

#[tokio::test]
async fn adding_partitions_decides_every_cell() {
    for arm in &arms().await {
        let cells = ADD.iter().filter(|(state, _)| arm.states().contains(state));
        let cells = cells.flat_map(|(state, codes)| {
            let known = [Older, Own, Newer].into_iter().zip(*codes);
            known.chain([(Stranger, 49)]).map(move |(who, code)| (*state, who, code))
        });
        each(cells.map(|(state, who, code)| async move {
            let (txn, pair) = arm.bring(state).await;
            let added = arm.c.add(&txn, named(pair, who), &arm.topic, 0).await;
            assert_eq!(added, code, "{}: {state:?}, {who:?}", arm.name);
        }))
        .await;
    }
}

#[tokio::test]
async fn init_producer_id_decides_every_cell() {
    for arm in &arms().await {
        let cells = INIT.iter().filter(|(state, _)| arm.states().contains(state));
        let cells = cells.flat_map(|(state, outcomes)| {
            let asked = [None, Some(Older), Some(Own), Some(Newer)].into_iter().zip(*outcomes);
            asked.chain([(Some(Stranger), Code(90))]).map(move |(who, outcome)| (*state, who, outcome))
        });
        each(cells.map(|(state, who, outcome)| async move {
            let (txn, pair) = arm.bring(state).await;
            let expected = match outcome {
                Epoch(raised) => Ok((pair.0, pair.1 + raised)),
                Code(code) => Err(code),
                ByLevel(raised, _) if arm.level >= 2 => Ok((pair.0, pair.1 + raised)),
                ByLevel(_, code) => Err(code),
            };
            let answer = arm.c.init(&txn, who.map(|who| named(pair, who))).await;
            assert_eq!(answer, expected, "{}: {state:?}, {who:?}", arm.name);
        }))
        .await;
    }
}

#[tokio::test]
async fn an_exhausted_epoch_gives_a_new_producer_id() {
    for arm in arms().await {
        if arm.broker.is_none() && std::env::var("KAFKA_2PC_SIZE").as_deref() != Ok("full") {
            return; // 32,764 requests
        }
        let txn = unique("cell");
        let mut pair = arm.c.init(&txn, None).await.unwrap();
        if let Some(broker) = &arm.broker {
            assert!(broker.wear_out(&txn, 32_766));
            pair = arm.c.init(&txn, None).await.unwrap();
        } else {
            pair = arm.c.init_until(&txn, pair, 32_766).await;
        }
        assert_eq!(pair.1, 32_766);
        assert_eq!(arm.c.add(&txn, pair, &arm.topic, 0).await, 0);
        assert!(arm.c.produce(9, &txn, (&arm.topic, 0), batch(pair, 0, 1)).await.is_ok());
        if arm.has_v5() {
            let (code, next) = arm.c.end(5, &txn, pair, true).await;
            assert_eq!((code, next.1), (0, 0), "{}", arm.name);
            assert_ne!(next.0, pair.0);
            let state = arm.c.settled(&txn).await;
            assert_eq!((state.producer_id.0, state.producer_epoch), next);
            assert_eq!(arm.c.end(5, &txn, pair, true).await, (0, next), "a retry");
            assert_eq!(arm.c.end(arm.end_v1, &txn, pair, true).await.0, 49);
            assert_eq!(arm.c.init(&txn, Some(pair)).await, Ok(next), "the answer may have been lost");
            assert_eq!(arm.c.init(&txn, None).await, Ok((next.0, 1)));
        } else {
            assert_eq!(arm.c.end(arm.end_v1, &txn, pair, true).await.0, 0);
            arm.c.settled(&txn).await;
            let next = arm.c.init(&txn, Some(pair)).await.unwrap();
            assert!(next.0 != pair.0 && next.1 == 0, "{}: {next:?}", arm.name);
            assert_eq!(arm.c.init(&txn, Some(pair)).await, Ok(next), "a retry");
            assert_eq!(arm.c.end(arm.end_v1, &txn, pair, true).await.0, 49);
        }
    }
}

#[tokio::test]
async fn verification_refuses_what_was_not_added() {
    for arm in arms().await {
        let verified = arm.name != "kafka-3.5";
        let (txn, pair) = arm.bring(Empty).await;
        let sent = arm.c.produce(9, &txn, (&arm.topic, 0), batch(pair, 0, 1)).await;
        assert_eq!(sent.err(), verified.then_some(48), "{}", arm.name);
        let (txn, pair) = arm.bring(TakenOver).await;
        let sent = arm.c.produce(9, &txn, (&arm.topic, 0), batch(pair, 1, 1)).await;
        assert_eq!(sent, Err(47), "{}", arm.name);
    }
}
