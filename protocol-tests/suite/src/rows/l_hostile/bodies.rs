//! Bodies whose counts, lengths, texts and tags lie.

use bytes::{Bytes, BytesMut};
use kafka_2pc::wire::api::Api;
use kafka_protocol::messages::{
    ApiVersionsRequest, EndTxnResponse, InitProducerIdResponse, MetadataResponse, ProduceRequest,
};
use kafka_protocol::protocol::HeaderVersion as _;

use super::play::{Form, alter, believed, not_believed, path, survived};
use super::reading::{Reading, refused_frame};
use crate::bench::Bench;
use crate::outcome::Shown;
use crate::tap::Tap;

/// Where the first array of an answer's body has its count.
const ARRAYS: [(Api, usize); 3] = [(Api::Metadata, 4), (Api::Produce, 0), (Api::ApiVersions, 2)];

/// Puts other bytes in the place of a count: one byte where it is compact and small, four otherwise.
fn recount(form: Form, body: &mut Vec<u8>, at: usize, (compact, plain): (&[u8], i32)) {
    if form.compact {
        body.splice(at..=at, compact.iter().copied());
    } else {
        body.splice(at..at + 4, plain.to_be_bytes());
    }
}

/// Counts that the rest of the frame can not hold: nothing is reserved for them.
pub(super) async fn l10(bench: &Bench) -> Shown {
    // 2^32 - 2, 2^31 - 1, and a million.
    let compact: [&[u8]; 3] =
        [&[0xff, 0xff, 0xff, 0xff, 0x0f], &[0x80, 0x80, 0x80, 0x80, 0x08], &[0xc1, 0x84, 0x3d]];
    for (api, at) in ARRAYS {
        for (compact, plain) in compact.into_iter().zip([-2, i32::MAX, 1_000_000]) {
            let what = format!("a count of {compact:x?}, {api}");
            let arm =
                |tap: &Tap| alter(tap, api, move |form, body| recount(form, body, at, (compact, plain)));
            not_believed(bench, &what, api, arm).await?;
        }
    }
    Ok(())
}

/// Compact counts that do not end, or have more bits than a number.
pub(super) async fn l11(bench: &Bench) -> Shown {
    let long: [&[u8]; 4] =
        [&[0x82, 0x80, 0x80, 0x80, 0x80, 0x00], &[0xff; 10], &[0xff, 0xff, 0xff, 0xff, 0x7f], &[0x80; 16]];
    for (api, at) in ARRAYS {
        for compact in long {
            let what = format!("a count of {compact:x?}, {api}");
            let arm =
                |tap: &Tap| alter(tap, api, move |form, body| recount(form, body, at, (compact, i32::MIN)));
            not_believed(bench, &what, api, arm).await?;
        }
    }
    Ok(())
}

/// Where the host of the first broker has its length in an answer to Metadata.
fn host_at(form: Form) -> usize {
    4 + if form.compact { 1 } else { 4 } + 4
}

/// From now on nobody offers more of an API than this version.
fn cap(tap: &Tap, api: Api, version: i16) {
    tap.rewrite::<ApiVersionsRequest>(u32::MAX, move |answer| {
        for range in answer.api_keys.iter_mut().filter(|range| range.api_key == api.key()) {
            range.max_version = range.max_version.min(version);
        }
        true
    });
}

/// Texts and record batches that are longer than their frame, absent where they may not be, or of a negative length.
pub(super) async fn l12(bench: &Bench) -> Shown {
    let compact: [&[u8]; 3] = [&[0xff, 0xff, 0xff, 0xff, 0x07], &[0xc1, 0x9a, 0x0c], &[0x00]];
    for (compact, plain) in compact.into_iter().zip([i16::MAX, 20_000, -2]) {
        let arm = |tap: &Tap| {
            alter(tap, Api::Metadata, move |form, body| {
                let at = host_at(form);
                if form.compact {
                    body.splice(at..=at, compact.iter().copied());
                } else {
                    body.splice(at..at + 2, plain.to_be_bytes());
                }
            });
        };
        not_believed(bench, &format!("a host of {compact:x?} bytes"), Api::Metadata, arm).await?;
    }
    let reading = Reading::new(bench).await?;
    refused_frame(bench, &reading, "records beyond the frame", |length| *length += 100_000).await?;
    // The same in versions whose lengths are plain numbers.
    for plain in [i16::MAX, -2, i16::MIN, -1] {
        let what = format!("a host of {plain} bytes");
        let arm = |tap: &Tap| {
            alter(tap, Api::Metadata, move |form, body| {
                let at = host_at(form);
                body.splice(at..at + 2, plain.to_be_bytes());
            });
        };
        // No flexible version of it is offered.
        let plain_versions = Capped::new(bench, Api::Metadata, 8);
        let shown = not_believed(&plain_versions.0, &what, Api::Metadata, arm).await;
        shown?;
    }
    Ok(())
}

/// A bench whose tap lets nobody offer more of an API than this version.
struct Capped(Bench);

impl Capped {
    fn new(bench: &Bench, api: Api, version: i16) -> Self {
        let other = bench.with_another_tap();
        cap(&other.tap, api, version);
        Self(other)
    }
}

/// Texts that are not UTF-8: a host, and a topic.
pub(super) async fn l13(bench: &Bench) -> Shown {
    let host = |tap: &Tap| {
        alter(tap, Api::Metadata, |form, body| body[host_at(form) + if form.compact { 1 } else { 2 }] = 0xff);
    };
    not_believed(bench, "a host", Api::Metadata, host).await?;
    let topic = |tap: &Tap| {
        alter(tap, Api::Produce, |form, body| body[if form.compact { 2 } else { 6 }] = 0xff);
    };
    // The next one has ids, and any bytes are an id.
    let names = Capped::new(bench, Api::Produce, 12).0;
    not_believed(&names, "a topic", Api::Produce, topic).await?;
    // A surrogate and an overlong slash, which only careless readers take.
    for bytes in [[0xed, 0xa0, 0x80], [0xe0, 0x80, 0xaf]] {
        let topic = |tap: &Tap| {
            alter(tap, Api::Produce, move |form, body| {
                let at = if form.compact { 2 } else { 6 };
                body[at..at + 3].copy_from_slice(&bytes);
            });
        };
        not_believed(&names, &format!("{bytes:x?}"), Api::Produce, topic).await?;
    }
    Ok(())
}

/// Tagged fields that repeat, are out of order, or are longer than the frame are not believed; one that nobody knows is
/// passed over, as it must be.
pub(super) async fn l14(bench: &Bench) -> Shown {
    let tags: [(&str, &[u8]); 5] = [
        ("the same tag twice", &[2, 90, 1, 7, 90, 1, 7]),
        ("tags that fall", &[2, 91, 1, 7, 90, 1, 7]),
        ("a tag longer than the frame", &[1, 90, 0xff, 0xff, 0xff, 0xff, 0x07]),
        ("more tags than bytes", &[0xff, 0xff, 0xff, 0xff, 0x0f]),
        ("half a tag", &[1, 90]),
    ];
    // As the versions are that both sides speak.
    survived(bench, "as it is", |_| {}).await?;
    let answers = bench.tap.answers();
    let compact = |api: &Api| {
        let mut of = answers.iter().filter(|answer| answer.api == *api);
        of.any(|answer| response_is_flexible(answer.api, answer.version))
    };
    let apis: Vec<_> =
        [Api::Metadata, Api::InitProducerId, Api::EndTxn].into_iter().filter(compact).collect();
    if apis.is_empty() {
        return Err(crate::outcome::Failure::not_offered("tagged fields"));
    }
    for api in apis.clone() {
        for (what, tags) in tags {
            let what = format!("{what}, {api}");
            not_believed(bench, &what, api, |tap| retag(tap, api, tags)).await?;
        }
    }
    for api in apis {
        let what = format!("a tag that nobody knows, {api}");
        believed(bench, &what, api, |tap| retag(tap, api, &[1, 90, 3, 1, 2, 3])).await?;
    }
    Ok(())
}

fn response_is_flexible(api: Api, version: i16) -> bool {
    match api {
        Api::Metadata => MetadataResponse::header_version(version) > 0,
        Api::InitProducerId => InitProducerIdResponse::header_version(version) > 0,
        _ => EndTxnResponse::header_version(version) > 0,
    }
}

/// The tagged fields at the end of an answer become these.
fn retag(tap: &Tap, api: Api, tags: &'static [u8]) {
    alter(tap, api, move |form, body| {
        // The last byte of a flexible version says that there are none.
        assert!(form.compact && body.pop() == Some(0), "{api} has no tagged fields at its end");
        body.extend_from_slice(tags);
    });
}

/// Bytes behind the end of an answer.
pub(super) async fn l15(bench: &Bench) -> Shown {
    for api in path(bench).into_iter().chain([Api::ApiVersions]) {
        for more in [1, 1000] {
            let what = format!("{more} bytes more, {api}");
            let arm = |tap: &Tap| alter(tap, api, move |_, body| body.extend(std::iter::repeat_n(0, more)));
            not_believed(bench, &what, api, arm).await?;
        }
    }
    Ok(())
}

/// Counts in counts: a thousand topics of a thousand partitions of a thousand errors in some bytes, and as many small
/// elements as a frame can hold.
pub(super) async fn l16(bench: &Bench) -> Shown {
    let nested = |tap: &Tap| {
        alter(tap, Api::Produce, |form, body| {
            let thousand: &[u8] = if form.compact { &[0xe9, 0x07] } else { &[0, 0, 0x03, 0xe8] };
            let (name, partition): (&[u8], usize) = if form.compact {
                (&[2, b't'], 4 + 2 + 8 + 8 + 8)
            } else {
                (&[0, 1, b't'], 4 + 2 + 8 + 8 + 8)
            };
            *body = [thousand, name, thousand].concat();
            body.extend(std::iter::repeat_n(0, partition));
            body.extend_from_slice(thousand);
            body.extend(std::iter::repeat_n(0, 5000));
        });
    };
    not_believed(bench, "a thousand of a thousand of a thousand", Api::Produce, nested).await?;
    // True, and of no use: a hundred thousand topics without partitions.
    let many = |tap: &Tap| {
        tap.replace(Api::Produce, 1, |version, frame| {
            let form = Form::of(Api::Produce, version, frame);
            let mut body = BytesMut::from(&frame[..form.head]);
            body.extend_from_slice(&empty_topics(form, version, 100_000));
            Some(body.freeze())
        });
    };
    survived(bench, "a hundred thousand topics", many).await?;
    let doubled = |tap: &Tap| {
        tap.rewrite::<ProduceRequest>(1, |answer| {
            let Some(topic) = answer.responses.first().cloned() else { return false };
            answer.responses.extend(std::iter::repeat_n(topic, 10_000));
            true
        });
    };
    survived(bench, "the topic ten thousand times", doubled).await.map(|_| ())
}

fn empty_topics(form: Form, version: i16, count: u32) -> Bytes {
    let mut body = Vec::new();
    if form.compact {
        let mut left = count + 1;
        while left >= 0x80 {
            body.push(u8::try_from(left & 0x7f).unwrap_or(0) | 0x80);
            left >>= 7;
        }
        body.push(u8::try_from(left).unwrap_or(0));
    } else {
        body.extend_from_slice(&count.to_be_bytes());
    }
    let topic: &[u8] = match (form.compact, version) {
        (false, _) => &[0; 6],
        (true, ..13) => &[1, 1, 0],
        // An id of 16 bytes in the place of the name.
        (true, _) => &[7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 1, 0],
    };
    (0..count).for_each(|_| body.extend_from_slice(topic));
    // The silence that it asks for, and no tagged fields.
    body.extend_from_slice(&0_i32.to_be_bytes()[if version >= 1 { 0 } else { 4 }..]);
    body.extend(form.compact.then_some(0));
    body.into()
}
