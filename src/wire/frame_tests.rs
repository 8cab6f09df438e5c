use super::*;
use kafka_protocol::{
    messages::{RequestHeader as TheirRequestHeader, ResponseHeader as TheirResponseHeader},
    protocol::{Decodable, Encodable, StrBytes},
};
use proptest::prelude::*;

fn header(api: Api, version: i16) -> RequestHeader {
    RequestHeader { api, version, correlation_id: 77, client_id: Some("me".into()) }
}

fn framed(body: &[u8]) -> BytesMut {
    let mut out = BytesMut::new();
    put_frame(&mut out, |out| {
        out.put_slice(body);
        Ok::<_, FrameError>(())
    })
    .expect("small");
    out
}

#[test]
fn frames_come_out_whole_however_the_bytes_arrive() {
    let mut stream = framed(b"first");
    stream.unsplit(framed(b"second"));
    let decoder = FrameDecoder::default();
    let (mut buffer, mut frames) = (BytesMut::new(), Vec::new());
    for byte in stream {
        buffer.put_u8(byte);
        while let Some(frame) = decoder.next_frame(&mut buffer).expect("well formed") {
            frames.push(frame);
        }
    }
    assert_eq!(frames, [&b"first"[..], b"second"]);
    assert!(buffer.is_empty());
}

#[test]
fn impossible_lengths_are_refused_before_the_body_comes() {
    let refused = |decoder: FrameDecoder, length: i32| {
        let mut buffer = BytesMut::from(&length.to_be_bytes()[..]);
        decoder.next_frame(&mut buffer)
    };
    let responses = FrameDecoder::responses(100);
    assert_eq!(refused(responses, -1), Err(FrameError::Negative(-1)));
    assert_eq!(refused(responses, i32::MIN), Err(FrameError::Negative(i32::MIN)));
    assert_eq!(refused(responses, 0), Err(FrameError::Empty));
    assert_eq!(refused(responses, 3), Err(FrameError::Short { bytes: 3, header_bytes: 4 }));
    assert_eq!(refused(responses, 101), Err(FrameError::TooLarge { bytes: 101, max_bytes: 100 }));
    assert_eq!(refused(responses, 100), Ok(None));
    let requests = FrameDecoder::requests(100);
    assert_eq!(refused(requests, 9), Err(FrameError::Short { bytes: 9, header_bytes: 10 }));
    assert_eq!(refused(requests, 10), Ok(None));
}

#[test]
fn a_huge_length_reserves_nothing() {
    let mut buffer = BytesMut::from(&[0x06, 0, 0, 0, 1][..]);
    let before = buffer.capacity();
    assert_eq!(FrameDecoder::default().next_frame(&mut buffer), Ok(None));
    assert_eq!(buffer.capacity(), before);
}

#[test]
fn a_frame_that_cannot_be_written_leaves_nothing_behind() {
    let mut out = BytesMut::from(&b"before"[..]);
    let failed = put_frame(&mut out, |out| {
        out.put_slice(b"half");
        Err(FrameError::Empty)
    });
    assert_eq!(failed, Err(FrameError::Empty));
    assert_eq!(&out[..], b"before");
}

#[test]
fn the_codec_reads_our_request_headers() {
    for (api, version) in
        [(Api::Metadata, 8), (Api::Metadata, 9), (Api::SaslHandshake, 1), (Api::ApiVersions, 4)]
    {
        let ours = header(api, version);
        let mut bytes = BytesMut::new();
        ours.encode(&mut bytes);
        let mut bytes = bytes.freeze();
        let theirs =
            TheirRequestHeader::decode(&mut bytes, api.request_header_version(version)).expect("readable");
        assert!(bytes.is_empty());
        assert_eq!(theirs.request_api_key, api.key());
        assert_eq!(theirs.request_api_version, version);
        assert_eq!(theirs.correlation_id, 77);
        assert_eq!(theirs.client_id, Some(StrBytes::from_static_str("me")));
    }
}

#[test]
fn request_headers_round_trip_and_skip_tagged_fields() {
    let ours = RequestHeader { client_id: None, ..header(Api::EndTxn, 5) };
    let mut bytes = BytesMut::new();
    ours.encode(&mut bytes);
    bytes.truncate(bytes.len() - 1);
    bytes.put_slice(&[1, 99, 3, 1, 2, 3]);
    bytes.put_slice(b"body");
    let mut frame = bytes.freeze();
    assert_eq!(RequestHeader::decode(&mut frame), Ok(ours));
    assert_eq!(&frame[..], b"body");
}

#[test]
fn a_request_that_we_do_not_speak_is_named() {
    let mut frame = Bytes::from_static(&[0, 4, 0, 7, 0, 0, 0, 1, 0xff, 0xff]);
    assert_eq!(RequestHeader::decode(&mut frame), Err(HeaderError::UnknownApi { key: 4, version: 7 }));
    assert_eq!(frame.len(), 10);
    let mut future = BytesMut::new();
    header(Api::ApiVersions, 99).encode(&mut future);
    assert_eq!(RequestHeader::decode(&mut future.freeze()), Ok(header(Api::ApiVersions, 99)));
}

#[test]
fn malformed_client_ids_are_refused() {
    let with_client_id = |rest: &[u8]| {
        let mut bytes = BytesMut::from(&[0, 26, 0, 1, 0, 0, 0, 1][..]);
        bytes.put_slice(rest);
        RequestHeader::decode(&mut bytes.freeze())
    };
    assert_eq!(with_client_id(&[0xff, 0xfe]), Err(HeaderError::Malformed));
    assert_eq!(with_client_id(&[0, 5, b'a']), Err(HeaderError::Truncated));
    assert_eq!(with_client_id(&[0, 1, 0xff]), Err(HeaderError::ClientId));
}

#[test]
fn response_headers_agree_with_the_codec() {
    for (api, version) in
        [(Api::Metadata, 8), (Api::Metadata, 9), (Api::ApiVersions, 3), (Api::ApiVersions, 0)]
    {
        let header_version = api.response_header_version(version);
        let mut theirs = BytesMut::new();
        TheirResponseHeader::default()
            .with_correlation_id(-5)
            .encode(&mut theirs, header_version)
            .expect("encodable");
        let mut ours = BytesMut::new();
        encode_response_header(&mut ours, api, version, -5);
        assert_eq!(ours, theirs);
        let mut frame = theirs.freeze();
        assert_eq!(correlation_id(&frame), Some(-5));
        assert_eq!(decode_response_header(&mut frame, api, version), Ok(-5));
        assert!(frame.is_empty());
    }
}

#[test]
fn tagged_fields_of_a_response_header_are_skipped() {
    let mut frame = Bytes::from_static(&[0, 0, 0, 9, 2, 0, 1, 0xaa, 5, 0, b'x']);
    assert_eq!(decode_response_header(&mut frame, Api::EndTxn, 3), Ok(9));
    assert_eq!(&frame[..], b"x");
    let mut hostile = Bytes::from_static(&[0, 0, 0, 9, 1, 0, 0xff, 0xff, 0xff, 0xff, 0x0f]);
    assert_eq!(decode_response_header(&mut hostile, Api::EndTxn, 3), Err(HeaderError::Truncated));
    assert_eq!(hostile.len(), 11);
}

proptest! {
    #[test]
    fn headers_of_any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
        let frame = Bytes::from(bytes);
        let _ = RequestHeader::decode(&mut frame.clone());
        for api in Api::ALL {
            let _ = decode_response_header(&mut frame.clone(), api, 12);
        }
    }
}
