//! Frames whose length lies, and frames that come slowly or never.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use kafka_2pc::wire::api::Api;
use kafka_2pc::wire::frame::DEFAULT_MAX_FRAME_BYTES;

use super::play::{Told, not_believed, path, survived_by, transaction};
use super::watch::Watch;
use crate::bench::{Bench, within};
use crate::outcome::{Shown, equal, holds};
use crate::tap::{Mangled, Tap};

/// The next answer of an API is these bytes, and nothing follows them.
fn bytes(tap: &Tap, api: Api, make: impl Fn(&Bytes) -> BytesMut + Send + 'static) {
    tap.mangle(api, 1, move |_, frame| Mangled { bytes: make(frame).freeze(), pace: None, last: true });
}

/// A length field, and so many bytes of the frame behind it.
fn announced(length: i32, frame: &[u8]) -> BytesMut {
    let mut all = BytesMut::new();
    all.put_i32(length);
    all.put_slice(frame);
    all
}

/// Plays a frame that is not believed at every API of a transaction, the greeting of a connection among them.
async fn everywhere(bench: &Bench, what: &str, make: fn(&Bytes) -> BytesMut) -> Shown {
    for api in path(bench).into_iter().chain([Api::ApiVersions]) {
        not_believed(bench, &format!("{what}, {api}"), api, |tap| bytes(tap, api, make)).await?;
    }
    Ok(())
}

/// A negative length ends the connection at once.
pub(super) async fn l01(bench: &Bench) -> Shown {
    everywhere(bench, "-1", |frame| announced(-1, frame)).await?;
    everywhere(bench, "the most negative length", |frame| announced(i32::MIN, frame)).await
}

/// A length above the limit ends the connection at once: nothing is reserved, and nothing is waited for.
pub(super) async fn l02(bench: &Bench) -> Shown {
    everywhere(bench, "the largest length", |frame| announced(i32::MAX, frame)).await?;
    everywhere(bench, "one byte above the limit", |frame| {
        announced(i32::try_from(DEFAULT_MAX_FRAME_BYTES + 1).unwrap_or(i32::MAX), frame)
    })
    .await
}

/// A length of nothing.
pub(super) async fn l03(bench: &Bench) -> Shown {
    everywhere(bench, "no bytes", |_| announced(0, &[])).await
}

/// A frame that ends within its header: in its correlation id, and where the tagged fields of a flexible header should be.
pub(super) async fn l04(bench: &Bench) -> Shown {
    everywhere(bench, "one byte", |frame| announced(1, &frame[..1])).await?;
    everywhere(bench, "three bytes", |frame| announced(3, &frame[..3])).await?;
    everywhere(bench, "a correlation id alone", |frame| announced(4, &frame[..4])).await
}

/// A frame that announces more than ever comes is given up after the request timeout, or the time for a greeting.
pub(super) async fn l05(bench: &Bench) -> Shown {
    for api in path(bench).into_iter().chain([Api::ApiVersions]) {
        let mut config = bench.config()?.request_timeout(Duration::from_millis(400));
        config.setup_timeout = Duration::from_millis(400);
        let client = bench.client_of(config);
        let stall = |tap: &Tap| {
            bytes(tap, api, |frame| {
                let length = i32::try_from(frame.len()).unwrap_or(i32::MAX);
                announced(length, &frame[..frame.len() / 2])
            });
        };
        let (before, told) =
            survived_by(bench, &format!("half of an answer to {api}"), client, stall).await?;
        equal(&format!("half of an answer to {api}"), told, Told::Committed)?;
        let answers = bench.tap.answers();
        let asked = answers[before..].iter().filter(|answer| answer.api == api).count();
        holds(asked > 1, format!("{api} was not asked again"))?;
    }
    Ok(())
}

/// An answer that comes one byte at a time is read as it is; one that comes so slowly that its time is over is given up,
/// although bytes come until then.
pub(super) async fn l06(bench: &Bench) -> Shown {
    for api in path(bench) {
        let (what, watch) = (format!("byte by byte, {api}"), Watch::begin());
        let client = bench.client()?;
        let topic = bench.topic(&bench.client()?, 1).await?;
        let before = bench.tap.answers().len();
        trickle(&bench.tap, api, Duration::from_micros(100));
        equal(&what, transaction(bench, &client, &topic, "v").await?, Told::Committed)?;
        equal(&what, bench.tap.to_come(), 0)?;
        let answers = bench.tap.answers();
        let asked = |api| answers[before..].iter().filter(|answer| answer.api == api).count();
        holds(asked(api) == 1 || api == Api::Metadata, format!("{what}: asked {} times", asked(api)))?;
        watch.end(&what)?;
    }
    let client = bench.client_of(bench.config()?.request_timeout(Duration::from_millis(300)));
    let drip = |tap: &Tap| trickle(tap, Api::EndTxn, Duration::from_millis(100));
    let before = bench.tap.count(Api::EndTxn);
    let (_, told) = within(survived_by(bench, "ten bytes a second", client, drip)).await??;
    equal("ten bytes a second", told, Told::Committed)?;
    equal("EndTxn of two transactions", bench.tap.count(Api::EndTxn) - before, 3)
}

fn trickle(tap: &Tap, api: Api, pace: Duration) {
    tap.mangle(api, 1, move |_, frame| {
        let length = i32::try_from(frame.len()).unwrap_or(i32::MAX);
        Mangled { bytes: announced(length, frame).freeze(), pace: Some(pace), last: false }
    });
}
