//! Answers under the wrong name: whose they are, and what they are.

use bytes::{BufMut, Bytes, BytesMut};
use kafka_2pc::wire::api::Api;

use super::play::{Form, alter, not_believed, path};
use crate::bench::Bench;
use crate::outcome::{Failure, Shown, equal, holds};
use crate::tap::{Mangled, Tap};

/// The next answer of an API comes with these frames, each whole.
fn frames(tap: &Tap, api: Api, make: impl Fn(&Bytes) -> Vec<Vec<u8>> + Send + 'static) {
    tap.mangle(api, 1, move |_, frame| {
        let mut bytes = BytesMut::new();
        for frame in make(frame) {
            bytes.put_u32(u32::try_from(frame.len()).unwrap_or(u32::MAX));
            bytes.put_slice(&frame);
        }
        Mangled { bytes: bytes.freeze(), pace: None, last: false }
    });
}

fn renamed(frame: &Bytes, correlation: impl Fn(i32) -> i32) -> Vec<u8> {
    let mut other = frame.to_vec();
    let own = i32::from_be_bytes([frame[0], frame[1], frame[2], frame[3]]);
    other[..4].copy_from_slice(&correlation(own).to_be_bytes());
    other
}

/// A correlation id that is wrong, or of no request, ends the connection. So does an answer that comes twice: the first one
/// counts, and its connection is not used on.
pub(super) async fn l07(bench: &Bench) -> Shown {
    for api in path(bench) {
        for (what, change) in [
            ("of a later request", (|own| own + 1) as fn(i32) -> i32),
            ("of an earlier request", |own| own - 1),
            ("negative", |_| -1),
        ] {
            let what = format!("{what}, {api}");
            not_believed(bench, &what, api, |tap| frames(tap, api, move |f| vec![renamed(f, change)]))
                .await?;
        }
        let unasked = |tap: &Tap| frames(tap, api, |f| vec![renamed(f, |own| own + 1000), f.to_vec()]);
        not_believed(bench, &format!("not asked for, {api}"), api, unasked).await?;
        twice(bench, api).await?;
    }
    Ok(())
}

async fn twice(bench: &Bench, api: Api) -> Shown {
    let twice = |tap: &Tap| frames(tap, api, |f| vec![f.to_vec(), f.to_vec()]);
    let what = format!("twice, {api}");
    let (before, _) = super::play::survived(bench, &what, twice).await?;
    let answers = bench.tap.answers();
    let answer = answers[before..].iter().find(|answer| answer.api == api);
    let answer = answer.ok_or_else(|| Failure::wrong(format!("{what}: not answered")))?;
    let used_on = bench.tap.requests().iter().any(|request| {
        let later = request.at.saturating_duration_since(answer.at) > std::time::Duration::from_millis(50);
        request.connection == answer.connection && later
    });
    holds(!used_on, format!("{what}: the connection was used on"))
}

/// A good answer to another question, under the right correlation id.
pub(super) async fn l08(bench: &Bench) -> Shown {
    // None of these can be read as the other: InitProducerId and EndTxn 5 have the same form.
    let pairs = [
        (Api::Metadata, Api::Produce),
        (Api::FindCoordinator, Api::Produce),
        (Api::Produce, Api::Metadata),
        (Api::InitProducerId, Api::Metadata),
        (Api::EndTxn, Api::Metadata),
    ];
    for (asked, other) in pairs {
        let body = body_of(bench, other).await?;
        let what = format!("the answer to {other} for {asked}");
        let arm = |tap: &Tap| alter(tap, asked, move |_, asked| *asked = body.clone());
        not_believed(bench, &what, asked, arm).await?;
    }
    Ok(())
}

/// The body of a good answer.
async fn body_of(bench: &Bench, api: Api) -> Result<Vec<u8>, Failure> {
    let (told, body) = std::sync::mpsc::channel();
    let arm = |tap: &Tap| {
        alter(tap, api, move |_, body| {
            // Whoever wants it waits for it.
            _ = told.send(body.clone());
        });
    };
    super::play::survived(bench, "as it is", arm).await?;
    Ok(body.recv()?)
}

/// The header of a flexible version where the other one belongs, and the other way: the body is one byte off.
pub(super) async fn l09(bench: &Bench) -> Shown {
    for api in path(bench).into_iter().chain([Api::ApiVersions]) {
        let what = format!("the other header, {api}");
        let arm = |tap: &Tap| {
            tap.replace(api, 1, move |version, frame| {
                let form = Form::of(api, version, frame);
                let mut other = BytesMut::from(&frame[..4]);
                if form.head == 4 {
                    other.put_u8(0);
                }
                other.put_slice(&frame[form.head..]);
                Some(other.freeze())
            });
        };
        not_believed(bench, &what, api, arm).await?;
    }
    equal("hostile answers left", bench.tap.to_come(), 0)
}
