//! One hostile answer in an otherwise good world, and what must become of it.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use kafka_2pc::client::{Client, Topic};
use kafka_2pc::record::RecordRef;
use kafka_2pc::wire::api::Api;
use kafka_2pc::wire::frame::decode_response_header;

use super::watch::Watch;
use crate::bench::{Bench, within};
use crate::outcome::{Failure, Shown, equal, holds};
use crate::tap::Tap;

/// The APIs whose answers a transaction needs before it goes on.
pub(super) fn path(bench: &Bench) -> Vec<Api> {
    let mut apis = vec![Api::Metadata, Api::FindCoordinator, Api::InitProducerId, Api::Produce, Api::EndTxn];
    if !bench.v2() {
        apis.push(Api::AddPartitionsToTxn);
    }
    apis
}

/// How a transaction under attack ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Told {
    Committed,
    /// An error with a type, in words.
    Refused(String),
}

/// The next answer of `api` is hostile, as `arm` has it. It must not be believed: it is asked for again, on another
/// connection, or the call ends with an error. The client goes on.
pub(super) async fn not_believed(bench: &Bench, what: &str, api: Api, arm: impl FnOnce(&Tap)) -> Shown {
    let (before, told) = survived(bench, what, arm).await?;
    let answers = bench.tap.answers();
    let hostile = answers[before..].iter().find(|answer| answer.api == api);
    let hostile = hostile.ok_or_else(|| Failure::wrong(format!("{what}: {api} was not answered")))?;
    let requests = bench.tap.requests();
    let later = || requests.iter().filter(|request| request.order > hostile.order);
    let again = later().filter(|request| request.api == api).count();
    holds(
        again > 0 || told != Told::Committed,
        format!("{what}: {api} was not asked again, and the transaction is called committed"),
    )?;
    // What crossed the answer on its way may come right behind it.
    let used_on = later().any(|request| {
        let soon = request.at.saturating_duration_since(hostile.at) < Duration::from_millis(50);
        request.connection == hostile.connection && (request.api == api || !soon)
    });
    holds(!used_on, format!("{what}: the connection was used on after the answer to {api}"))
}

/// The next answer of an API is strange and true, as `arm` has it: it is believed, and asked for once.
pub(super) async fn believed(bench: &Bench, what: &str, api: Api, arm: impl FnOnce(&Tap)) -> Shown {
    let (before, told) = survived(bench, what, arm).await?;
    equal(&format!("{what}: the transaction"), told, Told::Committed)?;
    let answers = bench.tap.answers();
    let strange = answers[before..].iter().find(|answer| answer.api == api);
    let strange = strange.ok_or_else(|| Failure::wrong(format!("{what}: {api} was not answered")))?;
    let requests = bench.tap.requests();
    let later = requests.iter().filter(|request| request.order > strange.order);
    // Two transactions: the second may ask once more for what is its own.
    let at_most = usize::from(api != Api::Metadata) + 1;
    let again = later.filter(|request| request.connection == strange.connection).count();
    holds(again > 0 || api == Api::Metadata, format!("{what}: the connection was given up"))?;
    let asked = requests.iter().filter(|r| r.api == api && r.order > strange.order).count();
    holds(asked <= at_most || api == Api::Metadata, format!("{what}: {api} was asked {asked} times more"))
}

/// A transaction under attack, and another one of the same client after it: nothing panics, memory is bounded, every call
/// ends, what is called committed is visible once, and the second one is untouched. Returns how many answers there were
/// before, and how the first one ended.
pub(super) async fn survived(
    bench: &Bench,
    what: &str,
    arm: impl FnOnce(&Tap),
) -> Result<(usize, Told), Failure> {
    // Longer than a row may take: whoever waits for a stalled answer fails.
    let config = bench.config()?.request_timeout(Duration::from_secs(90));
    survived_by(bench, what, bench.client_of(config), arm).await
}

/// The same by a client with settings of the row's own.
pub(super) async fn survived_by(
    bench: &Bench,
    what: &str,
    client: Client,
    arm: impl FnOnce(&Tap),
) -> Result<(usize, Told), Failure> {
    let topic = bench.topic(&bench.untapped()?, 1).await?;
    let before = bench.tap.answers().len();
    let watch = Watch::begin();
    arm(&bench.tap);
    let told = transaction(bench, &client, &topic, "first").await?;
    equal(&format!("{what}: hostile answers that were not played"), bench.tap.to_come(), 0)?;
    watch.end(what)?;
    let after = transaction(bench, &client, &topic, "second").await?;
    equal(&format!("{what}: the transaction after it"), after, Told::Committed)?;
    watch.end(what)?;
    let seen = bench.committed(&topic).await?;
    let expected: &[&[&str]] = match &told {
        Told::Committed => &[&["first", "second"]],
        // An error of a commit may leave it done or undone.
        Told::Refused(_) => &[&["second"], &["first", "second"]],
    };
    holds(expected.iter().any(|e| seen == *e), format!("{what}: {told:?}, and visible is {seen:?}"))?;
    Ok((before, told))
}

/// One record, committed under a new id. What is wrong is told in words.
pub(super) async fn transaction(
    bench: &Bench,
    client: &Client,
    topic: &Topic,
    value: &str,
) -> Result<Told, Failure> {
    let work = async {
        let topic = client.topic(topic.name()).await.map_err(|e| e.to_string())?;
        let producer = client.transactional_producer(bench.id("hostile")).init().await;
        let mut transaction = producer.map_err(|e| e.to_string())?.begin();
        let record = RecordRef::value(value.as_bytes());
        transaction.send(&topic, Some(0), record).await.map_err(|e| e.to_string())?;
        transaction.flush().await.map_err(|e| e.to_string())?;
        transaction.commit().await.map_err(|e| e.to_string())?;
        Ok::<_, String>(())
    };
    Ok(within(work).await?.map_or_else(Told::Refused, |()| Told::Committed))
}

/// Where a body begins in a frame, and whether its numbers are compact: what a flexible version has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Form {
    pub(super) head: usize,
    pub(super) compact: bool,
}

impl Form {
    pub(super) fn of(api: Api, version: i16, frame: &Bytes) -> Self {
        let mut body = frame.clone();
        let read = decode_response_header(&mut body, api, version).is_ok();
        let head = if read { frame.len() - body.len() } else { 4 };
        // Its header is that of the first version, so that anybody can read it.
        let compact = if api == Api::ApiVersions { version >= 3 } else { head > 4 };
        Self { head, compact }
    }
}

/// The next answer of an API has another body: `change` is given the form and the body's bytes.
pub(super) fn alter(tap: &Tap, api: Api, mut change: impl FnMut(Form, &mut Vec<u8>) + Send + 'static) {
    tap.replace(api, 1, move |version, frame| {
        let form = Form::of(api, version, frame);
        let mut body = frame[form.head..].to_vec();
        change(form, &mut body);
        let mut changed = BytesMut::from(&frame[..form.head]);
        changed.extend_from_slice(&body);
        Some(changed.freeze())
    });
}
