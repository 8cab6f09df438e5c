//! Which versions are spoken.

use std::collections::{BTreeMap, BTreeSet};

use bytes::BytesMut;
use kafka_2pc::client::SendError;
use kafka_2pc::proto::cause::{Cause, CauseKind};
use kafka_2pc::record::RecordRef;
use kafka_2pc::wire::api::Api;
use kafka_2pc::wire::versions::supported;
use kafka_protocol::messages::api_versions_response::ApiVersion;
use kafka_protocol::messages::{ApiVersionsRequest, ApiVersionsResponse};
use kafka_protocol::protocol::Encodable;

use crate::bench::{Bench, within};
use crate::outcome::{Failure, Shown, equal, holds};
use crate::tap::Sent;

/// APIs whose version is no statement about a transaction: the highest that both sides know is used.
const PLAIN: [Api; 3] = [Api::Metadata, Api::FindCoordinator, Api::InitProducerId];

/// Each connection begins with ApiVersions, and every version that follows is the highest that both sides know.
pub(super) async fn a01(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let mut transaction = bench.init(&client, &bench.id("a01")).await?.begin();
    bench.write(&mut transaction, &topic, 0, &["v"]).await?;
    bench.step("commit", within(transaction.commit()).await?)?;
    let mut seen = BTreeSet::new();
    for request in bench.tap.requests() {
        if seen.insert(request.connection) {
            equal("the first request of a connection", request.api, Api::ApiVersions)?;
        }
    }
    let answers = bench.tap.answers();
    let mut offered = BTreeMap::new();
    for answer in answers.iter().filter(|a| a.api == Api::ApiVersions) {
        for range in answer.decode::<ApiVersionsRequest>()?.api_keys {
            offered.insert(range.api_key, range.max_version);
        }
    }
    for answer in &answers {
        holds(!answer.codes.contains(&35), format!("{} {} is not known there", answer.api, answer.version))?;
        if PLAIN.contains(&answer.api) {
            let both = supported(answer.api).max.min(offered[&answer.api.key()]);
            equal(&format!("the version of {}", answer.api), answer.version, both)?;
        }
    }
    Ok(())
}

/// Writes and commits one record, and returns what left the client meanwhile.
async fn one_transaction(bench: &Bench, name: &str) -> Result<Vec<Sent>, Failure> {
    let before = bench.tap.requests().len();
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let mut transaction = bench.init(&client, &bench.id(name)).await?.begin();
    bench.write(&mut transaction, &topic, 0, &[name]).await?;
    bench.step("commit", within(transaction.commit()).await?)?;
    equal("committed", bench.committed(&topic).await?, [name])?;
    Ok(bench.tap.requests().split_off(before))
}

/// UNSUPPORTED_VERSION.
const UNSUPPORTED: i16 = 35;

/// A broker that does not know the version of ApiVersions is asked again in the highest that it names, or in version 0.
pub(super) async fn a02(bench: &Bench) -> Shown {
    for (highest, asked) in [(Some(2), [3, 2]), (None, [3, 0])] {
        bench.tap.replace(Api::ApiVersions, 1, move |_, frame| {
            let named =
                |max| ApiVersion::default().with_api_key(Api::ApiVersions.key()).with_max_version(max);
            let answer = ApiVersionsResponse::default().with_error_code(UNSUPPORTED);
            let answer = answer.with_api_keys(highest.map(named).into_iter().collect());
            let mut other = BytesMut::from(&frame[..4]);
            answer.encode(&mut other, 0).ok()?;
            Some(other.freeze())
        });
        let requests = one_transaction(bench, "a02").await?;
        let first = requests.first().map(|r| r.connection);
        let greetings = requests.iter().filter(|r| Some(r.connection) == first && r.api == Api::ApiVersions);
        equal("versions of ApiVersions", greetings.map(|r| r.version).collect::<Vec<_>>(), asked)?;
    }
    Ok(())
}

/// A broker without an API that transactions need is told from one that does not answer: at once, and by that API's name.
pub(super) async fn a03(bench: &Bench) -> Shown {
    for api in [Api::FindCoordinator, Api::InitProducerId, Api::AddPartitionsToTxn, Api::Produce] {
        if bench.v2() && api == Api::AddPartitionsToTxn {
            continue;
        }
        bench.tap.clear();
        bench.tap.rewrite::<ApiVersionsRequest>(u32::MAX, move |answer| {
            answer.api_keys.retain(|k| k.api_key != api.key());
            true
        });
        let cause = without(bench).await?;
        equal(&format!("the cause without {api}"), cause.kind, CauseKind::Unsupported)?;
        holds(cause.detail.contains(api.name()), format!("{api} is not named: {cause}"))?;
    }
    Ok(())
}

/// Why a transaction can not be written.
async fn without(bench: &Bench) -> Result<Cause, Failure> {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let mut transaction = match within(client.transactional_producer(bench.id("a03")).init()).await? {
        Err(cause) => return Ok(cause),
        Ok(producer) => producer.begin(),
    };
    within(transaction.send(&topic, Some(0), RecordRef::value(b"no"))).await??;
    match within(transaction.flush()).await? {
        Err(SendError::Failed(cause)) => Ok(cause),
        other => Err(Failure::wrong(format!("the flush ended with {other:?}"))),
    }
}

/// Each connection names the software and its version, in the characters that brokers allow.
pub(super) async fn a20(bench: &Bench) -> Shown {
    let requests = one_transaction(bench, "a20").await?;
    let mut named = BTreeSet::new();
    for greeting in requests.iter().filter(|r| r.api == Api::ApiVersions) {
        let asked = greeting.decode::<ApiVersionsRequest>()?;
        equal("the software", &*asked.client_software_name, "kafka-2pc")?;
        let version = &*asked.client_software_version;
        let allowed = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
        let whole = version.starts_with(|c: char| c.is_ascii_digit()) && version.chars().all(allowed);
        holds(whole, format!("the software's version is {version:?}"))?;
        named.insert(greeting.connection);
    }
    let all: BTreeSet<_> = requests.iter().map(|r| r.connection).collect();
    holds(all.len() > 1, "one connection only")?;
    equal("connections that name the software", named, all)
}

/// Fails unless these requests belong to transactions V2, or to V1.
fn spoken(requests: &[Sent], v2: bool) -> Shown {
    let of = |api| requests.iter().filter(move |r| r.api == api);
    holds(of(Api::Produce).count() > 0 && of(Api::EndTxn).count() > 0, "nothing was written and ended")?;
    equal("AddPartitionsToTxn was sent", of(Api::AddPartitionsToTxn).count() > 0, !v2)?;
    for (api, first_v2) in [(Api::Produce, 12), (Api::EndTxn, 5)] {
        for request in of(api) {
            let version = request.version;
            holds((version >= first_v2) == v2, format!("{api} {version}, where V2 is {v2}"))?;
        }
    }
    Ok(())
}

/// V2 is spoken where the cluster has finalized it and offers both Produce 12 and EndTxn 5; V1 otherwise.
pub(super) async fn a04(bench: &Bench) -> Shown {
    spoken(&one_transaction(bench, "whole").await?, bench.v2())?;
    for (name, api, highest) in [("produce", Api::Produce, 11), ("end", Api::EndTxn, 4)] {
        bench.tap.clear();
        bench.tap.rewrite::<ApiVersionsRequest>(u32::MAX, move |answer| {
            for range in answer.api_keys.iter_mut().filter(|k| k.api_key == api.key()) {
                range.max_version = range.max_version.min(highest);
            }
            true
        });
        spoken(&one_transaction(bench, name).await?, false)?;
    }
    Ok(())
}

/// A transaction goes on as it was begun when the level changes; the next one follows the new level.
pub(super) async fn a05(bench: &Bench) -> Shown {
    if !bench.has_levels() {
        return Err(Failure::not_offered("the feature transaction.version"));
    }
    let level = bench.arm().level();
    // From V2 straight to level 0 a transaction can not go on: see the row about level 0.
    let changes = match level {
        2 => [1, 2, 2],
        1 => [2, 1, 1],
        _ => [2, 1, 0],
    };
    let mut begun = level;
    let client = bench.client()?;
    let topic = bench.topic(&client, 2).await?;
    let mut open = bench.init(&client, &bench.id("a05")).await?.begin();
    let mut values = Vec::new();
    for (round, changed) in (0..).zip(changes) {
        let before = bench.tap.requests().len();
        let value = format!("{round}");
        bench.write(&mut open, &topic, 0, &[&value]).await?;
        bench.set_level(changed).await?;
        // A partition that the transaction did not have before.
        bench.write(&mut open, &topic, 1, &[&value]).await?;
        let producer = bench.step("commit", within(open.commit()).await?)?;
        spoken(&bench.tap.requests()[before..], begun == 2)?;
        begun = changed;
        open = producer.begin();
        values.push(value);
    }
    let both = [values.clone(), values].concat();
    equal("committed", bench.committed(&topic).await?, both)
}

/// At level 0 neither Produce 12 nor EndTxn 5 is sent, nor to end what was begun and written on V2 before the level fell.
pub(super) async fn a22(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let level = bench.arm().level();
    let id = bench.id("a22");
    let mut expected = Vec::new();
    let mut low = Vec::new();
    for commit in [true, false] {
        let mut open = bench.init(&client, &id).await?.begin();
        bench.write(&mut open, &topic, 0, &[if commit { "above" } else { "dropped" }]).await?;
        if level > 0 {
            bench.set_level(0).await?;
        }
        let before = bench.tap.requests().len();
        let producer = if commit {
            bench.step("commit", within(open.commit()).await?)?
        } else {
            bench.step("abort", within(open.abort()).await?)?
        };
        let mut next = producer.begin();
        bench.write(&mut next, &topic, 0, &["at 0"]).await?;
        bench.step("commit", within(next.commit()).await?)?;
        low.extend(bench.tap.requests().split_off(before));
        expected.extend(if commit { vec!["above", "at 0"] } else { vec!["at 0"] });
        if level > 0 {
            bench.set_level(level).await?;
        }
    }
    let bricks = |r: &&Sent| matches!((r.api, r.version), (Api::Produce, 12..) | (Api::EndTxn, 5..));
    let bad: Vec<_> = low.iter().filter(bricks).map(|r| format!("{} {}", r.api, r.version)).collect();
    equal("requests that make an id unusable at level 0", bad, Vec::<String>::new())?;
    equal("committed", bench.committed(&topic).await?, expected)
}
