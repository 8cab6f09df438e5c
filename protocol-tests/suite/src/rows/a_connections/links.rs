//! Connections that break, hang and come back.

use std::time::Duration;

use bytes::BytesMut;
use kafka_2pc::record::RecordRef;
use kafka_2pc::wire::api::Api;
use kafka_protocol::messages::{
    AddPartitionsToTxnRequest, EndTxnRequest, FindCoordinatorRequest, InitProducerIdRequest, MetadataRequest,
    ProduceRequest,
};

use crate::bench::{Bench, PATIENCE, within};
use crate::outcome::{Failure, Shown, equal, holds};
use crate::rows::e_produce::{numbered, repeats_are_identical};
use crate::tap::{Dial, Sent};

fn sent(bench: &Bench, api: Api) -> Vec<Sent> {
    bench.tap.requests().into_iter().filter(|r| r.api == api).collect()
}

/// An answer that does not carry the correlation id of the oldest request ends its connection: what was asked is asked
/// again on another one.
pub(super) async fn a06(bench: &Bench) -> Shown {
    let apis = [Api::InitProducerId, Api::Produce, Api::EndTxn];
    for api in apis {
        bench.tap.replace(api, 1, |_, frame| {
            let mut other = BytesMut::from(&frame[..]);
            other[3] ^= 1;
            Some(other.freeze())
        });
    }
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let mut transaction = bench.init(&client, &bench.id("a06")).await?.begin();
    bench.write(&mut transaction, &topic, 0, &["v"]).await?;
    bench.step("commit", within(transaction.commit()).await?)?;
    for api in apis {
        let sent = sent(bench, api);
        equal(&format!("{api} sent"), sent.len(), 2)?;
        holds(
            sent[0].connection != sent[1].connection,
            format!("{api} was repeated on the same connection"),
        )?;
        let more = bench
            .tap
            .requests()
            .iter()
            .any(|r| r.connection == sent[0].connection && r.order > sent[1].order);
        holds(!more, format!("the connection of {api} was used on"))?;
    }
    equal("committed", bench.committed(&topic).await?, ["v"])
}

/// A request that is not answered in time ends its connection, and everything on it is asked again, once.
pub(super) async fn a07(bench: &Bench) -> Shown {
    let client = bench.client_of(bench.config()?.request_timeout(Duration::from_millis(300)));
    let topic = bench.topic(&client, 1).await?;
    let builder = client.transactional_producer(bench.id("a07")).batch_size(80);
    let mut transaction = bench.init_of(builder).await?.begin();
    bench.write(&mut transaction, &topic, 0, &["first"]).await?;
    let values = numbered(5);
    // Kept to the end: it is never answered.
    let mut produce = bench.tap.pause_answer(Api::Produce);
    for value in &values {
        within(transaction.send(&topic, Some(0), RecordRef::value(value.as_bytes()))).await??;
    }
    bench.step("flush", within(transaction.flush()).await?)?;
    produce.reached().await?;
    let mut end = bench.tap.pause_answer(Api::EndTxn);
    bench.step("commit", within(transaction.commit()).await?)?;
    end.reached().await?;
    for api in [Api::Produce, Api::EndTxn] {
        let sent = sent(bench, api);
        let connections: std::collections::BTreeSet<_> = sent.iter().map(|r| r.connection).collect();
        equal(&format!("connections that {api} was sent on"), connections.len(), 2)?;
    }
    repeats_are_identical(bench)?;
    equal("committed", bench.committed(&topic).await?, [vec!["first".to_owned()], values].concat())
}

/// A server that does not take the connection, or takes it and says nothing, is given up after the setup timeout.
pub(super) async fn a08(bench: &Bench) -> Shown {
    let mut config = bench.config()?;
    config.setup_timeout = Duration::from_millis(100);
    let mut left = 2;
    bench.tap.on_dial(move |_, _| {
        left -= 1;
        (left >= 0).then_some(Dial::Hang)
    });
    let client = bench.client_of(config.clone());
    bench.init(&client, &bench.id("a08")).await?;
    holds(bench.tap.dials().len() > 2, "an attempt to connect that hangs was waited for")?;
    // Kept to the end: the handshake is never answered.
    let mut silent = bench.tap.pause_answer(Api::ApiVersions);
    bench.init(&bench.client_of(config.clone()), &bench.id("a08")).await?;
    silent.reached().await?;
    bench.tap.on_dial(|host, _| (host == "slow").then_some(Dial::Hang));
    let slow = ("slow".into(), 1);
    config.bootstrap.insert(0, slow);
    config.setup_timeout = PATIENCE;
    bench.init(&bench.client_of(config), &bench.id("a08")).await?;
    Ok(())
}

/// A connection that was closed while nobody used it is not written to: the next request goes to a new one, once.
pub(super) async fn a09(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let mut producer = bench.init(&client, &bench.id("a09")).await?;
    for value in ["1", "2", "3"] {
        let mut transaction = producer.begin();
        bench.write(&mut transaction, &topic, 0, &[value]).await?;
        producer = bench.step("commit", within(transaction.commit()).await?)?;
        bench.tap.disconnect();
        // It is idle: the client hears of it.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    equal("Produce and EndTxn sent", (bench.tap.count(Api::Produce), bench.tap.count(Api::EndTxn)), (3, 3))?;
    let connections: std::collections::BTreeSet<_> =
        sent(bench, Api::Produce).iter().map(|r| r.connection).collect();
    equal("connections for data", connections.len(), 3)?;
    equal("committed", bench.committed(&topic).await?, ["1", "2", "3"])
}

/// All brokers die and come back while a transaction is open: it goes on without help.
pub(super) async fn a10(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let mut transaction = bench.init(&client, &bench.id("a10")).await?.begin();
    bench.write(&mut transaction, &topic, 0, &["before"]).await?;
    bench.kill_node(1).await?;
    let back = async {
        // Long enough for the client to notice.
        tokio::time::sleep(Duration::from_millis(100)).await;
        bench.start_node(1).await
    };
    let (written, back) = tokio::join!(bench.write(&mut transaction, &topic, 0, &["after"]), back);
    back?;
    written?;
    bench.step("commit", within(transaction.commit()).await?)?;
    equal("committed", bench.committed(&topic).await?, ["before", "after"])
}

/// How long a broker asks for silence.
const SILENCE_MS: i32 = 400;

/// After an answer that asks for silence nothing leaves on its connection for so long, and nothing fails.
pub(super) async fn a19(bench: &Bench) -> Shown {
    macro_rules! throttle {
        ($request:ty) => {{
            bench.tap.rewrite::<$request>(1, |answer| {
                answer.throttle_time_ms = SILENCE_MS;
                true
            });
            throttled(bench, <$request as kafka_protocol::protocol::Request>::KEY).await?;
        }};
    }
    throttle!(MetadataRequest);
    throttle!(FindCoordinatorRequest);
    throttle!(InitProducerIdRequest);
    if !bench.v2() {
        throttle!(AddPartitionsToTxnRequest);
    }
    throttle!(ProduceRequest);
    throttle!(EndTxnRequest);
    Ok(())
}

/// Two transactions, of which the next answer of this API asks for silence.
async fn throttled(bench: &Bench, key: i16) -> Shown {
    let api = Api::from_key(key).ok_or_else(|| Failure::wrong("an unknown API"))?;
    let before = bench.tap.answers().len();
    let work = async {
        let client = bench.client()?;
        let topic = bench.topic(&client, 1).await?;
        let mut producer = bench.init(&client, &bench.id("a19")).await?;
        for value in ["1", "2"] {
            let mut transaction = producer.begin();
            bench.write(&mut transaction, &topic, 0, &[value, value]).await?;
            bench.write(&mut transaction, &topic, 0, &[value]).await?;
            producer = bench.step("commit", within(transaction.commit()).await?)?;
        }
        equal("committed", bench.committed(&topic).await?, ["1", "1", "1", "2", "2", "2"])
    };
    work.await?;
    let answers = bench.tap.answers();
    let answer = answers[before..].iter().find(|a| a.api == api);
    let answer = answer.ok_or_else(|| Failure::wrong(format!("{api} was not answered")))?;
    let silence = Duration::from_millis(u64::try_from(SILENCE_MS)?);
    // What crossed the answer on its way may come right behind it. Whoever waits too long is no offender.
    let offends = |r: &Sent| {
        let after = r.at.saturating_duration_since(answer.at);
        r.connection == answer.connection && silence / 4 < after && after < silence
    };
    let early = bench.tap.requests().iter().filter(|r| offends(r)).count();
    equal(&format!("requests in the silence after {api}"), early, 0)
}
