use std::mem::size_of;

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::{
    ApiKey, RequestKind, ResponseKind, add_partitions_to_txn_request, describe_groups_response,
    fetch_response, list_groups_response, metadata_response, produce_response,
};
use proptest::prelude::*;

use super::{
    sample::{Choices, Seeded},
    shape::{Kind, Message, Struct},
    *,
};
use Direction::{Request, Response};

enum Decoded {
    Request(RequestKind),
    Response(ResponseKind),
}

fn codec_key(api: Api) -> ApiKey {
    ApiKey::try_from(api.key()).expect("the codec knows every API of ours")
}

fn decode(direction: Direction, api: Api, version: i16, body: &mut Bytes) -> Decoded {
    let decoded = match direction {
        Request => RequestKind::decode(codec_key(api), body, version).map(Decoded::Request),
        Response => ResponseKind::decode(codec_key(api), body, version).map(Decoded::Response),
    };
    decoded.unwrap_or_else(|error| panic!("{api} {direction} {version}: passed, then {error:#}"))
}

fn encode(decoded: &Decoded, version: i16) -> BytesMut {
    let mut out = BytesMut::new();
    let done = match decoded {
        Decoded::Request(request) => request.encode(&mut out, version),
        Decoded::Response(response) => response.encode(&mut out, version),
    };
    done.expect("what was decoded can be encoded");
    out
}

/// Every version that both the table and the codec know.
fn every_message() -> impl Iterator<Item = (Direction, Api, i16)> {
    Api::ALL.into_iter().flat_map(|api| {
        [Request, Response].into_iter().flat_map(move |direction| {
            let known = sample::versions(direction, api);
            (known.min..=known.max).map(move |version| (direction, api, version))
        })
    })
}

#[test]
fn the_table_covers_what_the_codec_decodes() {
    for (direction, api, version) in every_message() {
        assert!(versions(direction, api).contains(version), "{api} {direction} {version}");
        let flexible = message(direction, api).flexible;
        assert_eq!(api.first_flexible().unwrap_or(i16::MAX), flexible, "{api} {direction}");
    }
}

#[test]
fn sample_bodies_pass_and_decode_and_what_the_codec_writes_passes_too() {
    for (direction, api, version) in every_message() {
        for seed in 0..60 {
            let body = sample::body(direction, api, version, &mut Seeded(seed)).freeze();
            check(direction, api, version, &body).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            let mut rest = body.clone();
            let decoded = decode(direction, api, version, &mut rest);
            assert!(rest.is_empty(), "{api} {direction} {version} seed {seed}: {} bytes left", rest.len());
            let again = encode(&decoded, version);
            check(direction, api, version, &again).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        }
    }
}

#[test]
fn dense_bodies_pass_and_decode_unless_full_of_unknown_tags() {
    for (direction, api, version) in every_message() {
        for seed in 0..10 {
            let body = sample::dense(direction, api, version, 300, &mut Seeded(seed)).body.freeze();
            match check(direction, api, version, &body) {
                Ok(()) => drop(decode(direction, api, version, &mut body.clone())),
                Err(error) => assert_eq!(error.fault, Fault::Memory, "{error}"),
            }
        }
    }
}

#[test]
fn marks_point_at_the_parts_of_a_sample() {
    let sample = sample::sample(Response, Api::ApiVersions, 3, &mut Seeded(3));
    for mark in &sample.marks {
        assert!(mark.bytes > 0 && mark.at + mark.bytes <= sample.body.len());
    }
    let mut starts: Vec<_> = sample.marks.iter().map(|mark| mark.at).collect();
    starts.sort_unstable();
    starts.dedup();
    assert_eq!(starts.len(), sample.marks.len());
}

#[test]
fn a_body_that_is_cut_or_too_long_is_refused() {
    for (direction, api, version) in every_message() {
        let body = sample::body(direction, api, version, &mut Seeded(1));
        for end in 0..body.len() {
            assert!(
                check(direction, api, version, &body[..end]).is_err(),
                "{api} {direction} {version} {end}"
            );
        }
        let mut longer = body;
        longer.put_u8(0);
        let refused = check(direction, api, version, &longer).map_err(|error| error.fault);
        assert_eq!(refused, Err(Fault::Trailing));
    }
}

#[test]
fn what_passes_after_a_mutation_is_decoded_to_the_last_byte() {
    let mut choices = Seeded(7);
    for (direction, api, version) in every_message() {
        for _ in 0..100 {
            let mut body = sample::body(direction, api, version, &mut choices);
            for _ in 0..choices.below(3) {
                if let Some(bound) = u32::try_from(body.len()).ok().filter(|bound| *bound > 0) {
                    let at = choices.below(bound) as usize;
                    body[at] = u8::try_from(choices.below(256)).unwrap();
                }
            }
            if check(direction, api, version, &body).is_ok() {
                let mut rest = body.freeze();
                decode(direction, api, version, &mut rest);
                assert!(rest.is_empty());
            }
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_are_refused_or_decoded(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        for (direction, api, version) in every_message() {
            if check(direction, api, version, &bytes).is_ok() {
                decode(direction, api, version, &mut Bytes::copy_from_slice(&bytes));
            }
        }
    }
}

#[track_caller]
fn refused(direction: Direction, api: Api, version: i16, body: &[u8]) -> (&'static str, Fault) {
    let error = check(direction, api, version, body).expect_err("the body must be refused");
    (error.field, error.fault)
}

#[test]
fn hostile_counts_are_refused_whatever_their_form() {
    let plain = [&[0x7f, 0xff, 0xff, 0xff][..], &[0; 40]].concat();
    assert_eq!(refused(Response, Api::Metadata, 0, &plain), ("Brokers", Fault::Count(i32::MAX as u32)));
    let compact = [&[0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f][..], &[0; 40]].concat();
    assert_eq!(refused(Response, Api::Metadata, 12, &compact), ("Brokers", Fault::Count(u32::MAX - 1)));
    let negative = [&[0xff, 0xff, 0xff, 0xfe][..], &[0; 40]].concat();
    assert_eq!(refused(Response, Api::Metadata, 0, &negative), ("Brokers", Fault::Negative));
}

#[test]
fn null_is_refused_where_the_version_has_none() {
    assert_eq!(refused(Request, Api::Metadata, 0, &[0xff; 4]), ("Topics", Fault::Null));
    assert_eq!(check_request(Api::Metadata, 1, &[0xff; 4]), Ok(()));
}

#[test]
fn text_must_be_utf_8() {
    assert_eq!(refused(Request, Api::FindCoordinator, 0, &[0, 1, 0xff]), ("Key", Fault::Text));
}

#[test]
fn unknown_versions_are_refused() {
    for version in [-1, 6, i16::MAX] {
        assert_eq!(refused(Request, Api::EndTxn, version, &[]), ("the body", Fault::Version));
    }
}

/// An ApiVersions response of version 3 without APIs, and with these tagged fields.
fn tagged(fields: &[u8]) -> Vec<u8> {
    [&[0, 0, 1, 0, 0, 0, 0], fields].concat()
}

#[test]
fn tags_must_rise() {
    let twice = tagged(&[2, 9, 0, 9, 0]);
    assert_eq!(refused(Response, Api::ApiVersions, 3, &twice), ("tagged fields", Fault::TagOrder));
    let falling = tagged(&[2, 9, 0, 8, 0]);
    assert_eq!(refused(Response, Api::ApiVersions, 3, &falling), ("tagged fields", Fault::TagOrder));
    let last = tagged(&[2, 9, 0, 0xff, 0xff, 0xff, 0xff, 0x07, 0]);
    assert_eq!(check_response(Api::ApiVersions, 3, &last), Ok(()));
    let beyond = tagged(&[2, 9, 0, 0x80, 0x80, 0x80, 0x80, 0x08, 0]);
    assert_eq!(refused(Response, Api::ApiVersions, 3, &beyond), ("tagged fields", Fault::TagNumber));
}

#[test]
fn a_known_tag_must_have_its_true_size() {
    let short = tagged(&[1, 1, 7, 0, 0, 0, 0, 0, 0, 0, 9]);
    assert_eq!(refused(Response, Api::ApiVersions, 3, &short), ("FinalizedFeaturesEpoch", Fault::TagSize));
    let true_size = tagged(&[1, 1, 8, 0, 0, 0, 0, 0, 0, 0, 9]);
    assert_eq!(check_response(Api::ApiVersions, 3, &true_size), Ok(()));
}

#[test]
fn a_known_tag_of_a_later_version_is_refused_like_the_codec_does() {
    let mut body = sample::body(Response, Api::Fetch, 12, &mut Seeded(0));
    body.clear();
    body.put_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 1, 1]);
    assert_eq!(refused(Response, Api::Fetch, 12, &body), ("NodeEndpoints", Fault::TagVersion));
    assert_eq!(check_response(Api::Fetch, 16, &body), Ok(()));
}

#[test]
fn overlong_varints_are_refused() {
    let body = tagged(&[0x80, 0x80, 0x80, 0x80, 0x80, 0]);
    assert_eq!(refused(Response, Api::ApiVersions, 3, &body), ("tagged fields", Fault::Varint));
}

/// A ListGroups 3 response of `groups` groups, each five bytes: an empty id, an empty type, one unknown tag.
fn groups_with_a_tag_each(groups: u32) -> Vec<u8> {
    let mut body = BytesMut::from(&[0, 0, 0, 0, 0, 0][..]);
    let [_, high, middle, low] =
        ((groups + 1) & 0x7f | ((groups + 1) << 1) & 0x7f00 | ((groups + 1) << 2) & 0x7f_0000 | 0x8080)
            .to_be_bytes();
    body.put_slice(&[low, middle, high]);
    for _ in 0..groups {
        body.put_slice(&[1, 1, 1, 99, 0]);
    }
    body.put_u8(0);
    body.to_vec()
}

#[test]
fn unknown_tags_are_allowed_until_their_memory_breaks_the_bound() {
    assert_eq!(check_response(Api::ListGroups, 3, &groups_with_a_tag_each(49)), Ok(()));
    let many = groups_with_a_tag_each(100_000);
    assert_eq!(refused(Response, Api::ListGroups, 3, &many).1, Fault::Memory);
}

#[test]
fn errors_name_the_place() {
    let text = check_response(Api::EndTxn, 1, &[0, 0, 0, 0, 0]).map_err(|error| error.to_string());
    let expected =
        "malformed EndTxn response version 1: not enough bytes in ErrorCode, at byte 4 of the body";
    assert_eq!(text, Err(expected.into()));
}

/// The fewest bytes of a value on the wire, lengths and tag counts included.
fn fewest_bytes(kind: Kind, message: &Message, version: i16) -> usize {
    let flexible = version >= message.flexible;
    match kind {
        Kind::Fixed(bytes) => bytes.into(),
        Kind::Text => {
            if flexible {
                1
            } else {
                2
            }
        }
        Kind::Blob | Kind::Array(_) => {
            if flexible {
                1
            } else {
                4
            }
        }
        Kind::Struct(shape) => fewest_bytes_of(shape, message, version),
    }
}

fn fewest_bytes_of(shape: &Struct, message: &Message, version: i16) -> usize {
    let fields = shape.fields.iter().filter(|field| field.tag.is_none() && field.is_in(version));
    usize::from(version >= message.flexible)
        + fields.map(|field| fewest_bytes(field.kind, message, version)).sum::<usize>()
}

fn assert_elements_are_paid_for(shape: &Struct, message: &Message, version: i16, name: &str) {
    for field in shape.fields.iter().filter(|field| field.is_in(version)) {
        let element = if let Kind::Array(element) = field.kind { *element } else { field.kind };
        if let Kind::Array(_) = field.kind {
            let bytes = fewest_bytes(element, message, version) as u64;
            assert!(bytes > 0, "{name} {version}: {} has empty elements", field.name);
            assert!(
                element.memory() <= bytes * MEMORY_PER_BYTE,
                "{name} {version}: {} has elements of {bytes} bytes and {} in memory",
                field.name,
                element.memory()
            );
        }
        if let Kind::Struct(inner) = element {
            assert_elements_are_paid_for(inner, message, version, name);
        }
    }
}

/// So no body without unknown tags is ever refused for its memory, and no count is free.
#[test]
fn the_smallest_element_of_every_array_pays_for_its_memory() {
    for api in Api::ALL {
        for direction in [Request, Response] {
            let message = message(direction, api);
            for version in message.min..=message.max {
                assert_elements_are_paid_for(message.root, &message, version, api.name());
            }
        }
    }
}

fn memory_of(direction: Direction, api: Api, path: &[&str]) -> usize {
    let mut shape = message(direction, api).root;
    for name in path {
        let field = shape.fields.iter().find(|field| field.name == *name).expect("a field of that name");
        match field.kind {
            Kind::Struct(inner) | Kind::Array(&Kind::Struct(inner)) => shape = inner,
            Kind::Fixed(_) | Kind::Text | Kind::Blob | Kind::Array(_) => panic!("{name} holds no struct"),
        }
    }
    shape.memory.into()
}

#[test]
fn structs_take_no_more_memory_than_the_table_says() {
    let rows = [
        (Response, Api::Fetch, &["Responses", "Partitions"][..], size_of::<fetch_response::PartitionData>()),
        (Response, Api::Metadata, &["Topics"], size_of::<metadata_response::MetadataResponseTopic>()),
        (Response, Api::ListGroups, &["Groups"], size_of::<list_groups_response::ListedGroup>()),
        (
            Response,
            Api::Produce,
            &["Responses", "PartitionResponses"],
            size_of::<produce_response::PartitionProduceResponse>(),
        ),
        (Response, Api::DescribeGroups, &["Groups"], size_of::<describe_groups_response::DescribedGroup>()),
        (
            Request,
            Api::AddPartitionsToTxn,
            &["Transactions"],
            size_of::<add_partitions_to_txn_request::AddPartitionsToTxnTransaction>(),
        ),
    ];
    for (direction, api, path, real) in rows {
        let table = memory_of(direction, api, path);
        assert!(real <= table && table <= real + 16, "{api} {path:?}: {real} bytes, table {table}");
    }
}
